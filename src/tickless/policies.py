"""Every decision, each a pure function of values. The store calls them, and so does the simulation."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from tickless.instants import MAX_INSTANT, Instant
from tickless.rules import Every, Rule, Window, as_written, checked_next, first_fire, is_ours, span
from tickless.states import Reason, RunIf, State

# How a parent ended, as a bit of the set that a child has seen.
SUCCEEDED, FAILED, CANCELLED, NEUTRAL = 1, 2, 4, 8


REPEAT_US = 3 * 3600 * 1_000_000
"""A wall clock that is set back by less than this never fires an occurrence again."""


class Skipped(NamedTuple):
    """Fires that will not run: one record for all of them."""

    reason: Reason
    fires: int
    first: Instant
    last: Instant


class Plan(NamedTuple):
    """What a recurring task does next."""

    due: Instant | None
    """The fire to place or to run; None when there are no more."""
    skipped: Skipped | None = None
    rule: Rule | None = None
    """The rule from here on, where it was bound anew."""


def on_bind(rule: Rule, now: Instant) -> Plan:
    """The rule of a child, bound when its last parent lets go. A past instant is due now, and is no misfire."""
    bound = rule.bound(now)
    first = first_fire(bound, now)
    if first is not None and first < now:
        first = now
    return Plan(first, rule=bound)


def runs_now(rule: Rule, due: Instant, now: Instant) -> bool:
    """The commonest answer of `on_due`, by one addition: True when `due` runs and no later fire has come either."""
    return type(rule) is Every and due + rule.interval_us > now


def next_on_grid(rule: Rule, due: Instant, finished: Instant, jitter_us: int = 0) -> Instant | None:
    """The commonest answer of `after_run`, by one addition: the next point of a grid that no run has reached.

    None: ask the whole question.
    """
    if type(rule) is Every and not rule.sliding and due - finished < REPEAT_US:
        following = due + rule.interval_us
        if finished - jitter_us <= following <= MAX_INSTANT:
            return following  # type: ignore[return-value]  # Instant() would cost 60 ns
    return None


def on_due(rule: Rule, due: Instant, now: Instant) -> Plan:
    """Which fire runs when `due` surfaces at `now`: the newest that has come; the ones before it are coalesced.

    Instants are of the clock that drives the rule. O(1) or O(log gap), whatever the gap.
    """
    missed = span(rule, due, now)
    if missed is None:
        return Plan(due)
    fires, _, latest = missed
    before = span(rule, due, Instant(latest - 1)) if fires > 1 else None
    return Plan(latest, Skipped(Reason.COALESCED, fires, due, before[2] if before else due))


def after_run(rule: Rule, due: Instant, finished: Instant, jitter_us: int = 0) -> Plan:
    """The next fire once the run of `due` has finished: skip by absence.

    A fire at the very instant of the finish is no overlap. A sliding rule is bound anew, and so misses nothing.
    One that was planned less than the jitter before the finish is to come yet, since jitter may have put it off.
    A fire that lies hours ahead of its own finish: the wall clock was set back under the run, so it plans from there.
    """
    if due - finished >= REPEAT_US:
        due = finished
    bound = rule.bound(finished)
    if bound is not rule and bound != rule:
        return Plan(checked_next(bound, finished), rule=bound)
    last_busy = Instant(max(due, finished - jitter_us - 1))
    following = checked_next(rule, due)
    if following is None or following > last_busy:
        return Plan(following)
    missed = span(rule, due, last_busy)
    skipped = None if missed is None else Skipped(Reason.OVERLAP, *missed)
    return Plan(checked_next(rule, last_busy), skipped)


def jitter_of(key: str, due: Instant, jitter_us: int) -> int:
    """By how much this fire is late on purpose: from 0 to below `jitter_us`, evenly, the same whenever it is asked.

    Drawn from the task's key and the fire, so that it needs no memory, and a replay or another process agrees.
    """
    drawn = int.from_bytes(blake2b(f"{key}@{due}".encode(), digest_size=8).digest())
    return drawn % max(1, jitter_us)


def same_rule(old: Rule, new: Rule) -> bool:
    """Whether an update leaves the schedule as it is. Both are bound; an unanchored grid may start anywhere.

    The end of a window (`until`) belongs to the schedule, and does not count.
    Rules of the wall clock are the same when they are written the same. Rules of another make, or with a set of days
    of another make, count as the same only when they are the same object: their `==` is foreign code.
    """
    if isinstance(old, Every) and isinstance(new, Every):
        alike = (old.interval_us, old.sliding, old.wall) == (new.interval_us, new.sliding, new.wall)
        return alike and (not old.wall or old.first == new.first)
    if isinstance(old, Window) or isinstance(new, Window):
        (old, old_first), (new, new_first) = _unlimited(old), _unlimited(new)
        return old_first == new_first and same_rule(old, new)
    if old is new or not (is_ours(old) and is_ours(new) and old.wall and new.wall):
        return old is new
    return as_written(old) == as_written(new)


def _unlimited(rule: Rule) -> tuple[Rule, Instant | None]:
    return (rule.rule, rule.first) if isinstance(rule, Window) else (rule, None)


def ending_as(old: Rule, new: Rule) -> Rule:
    """The old rule, bound as it is, with the end (`until`) of a new one that counts as the same."""
    if not isinstance(old, Window) and not isinstance(new, Window):
        return old
    (rule, first), last = _unlimited(old), new.last if isinstance(new, Window) else None
    return rule if first is None and last is None else Window(rule, first, last)


def kind_of_end(state: State, reason: Reason | None) -> int:
    """How a parent's end counts for its children: a skip counts as what caused it, other skips are neutral."""
    if state is State.SUCCEEDED:
        return SUCCEEDED
    if state is State.FAILED or reason is Reason.PARENT_FAILED:
        return FAILED
    if state is State.CANCELLED or reason is Reason.PARENT_CANCELLED:
        return CANCELLED
    return NEUTRAL


class Verdict(NamedTuple):
    """What a child does now. Both false: it waits on."""

    run: bool
    skip: Reason | None = None


WAIT, RUN = Verdict(False), Verdict(True)
_DOOM = {
    kind: Verdict(False, reason)
    for kind, reason in (
        (FAILED, Reason.PARENT_FAILED),
        (CANCELLED, Reason.PARENT_CANCELLED),
        (NEUTRAL, Reason.PARENT_SKIPPED),
    )
}
_NO_SUCH_PARENT = Verdict(False, Reason.RUN_IF)


def on_parent(run_if: RunIf, seen: int, waiting: int) -> Verdict:
    """What a child does when `seen` is how its finished parents ended, and `waiting` have not finished.

    The states do not depend on the order of the parents; the reason of a doom is that of the worst parent seen.
    """
    if run_if is RunIf.ALL_SUCCEEDED and seen & ~SUCCEEDED:
        return _doom(seen)
    if run_if is RunIf.NONE_FAILED and seen & FAILED:
        return _DOOM[FAILED]
    if run_if is RunIf.ANY_SUCCEEDED and seen & SUCCEEDED:
        return RUN
    if run_if is RunIf.ANY_FAILED and seen & FAILED:
        return RUN
    if waiting:
        return WAIT
    if run_if is RunIf.ANY_SUCCEEDED:
        return _doom(seen)
    return _NO_SUCH_PARENT if run_if is RunIf.ANY_FAILED else RUN


def _doom(seen: int) -> Verdict:
    return _DOOM[next(kind for kind in (FAILED, CANCELLED, NEUTRAL) if seen & kind)]
