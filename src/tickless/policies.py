"""Every decision, each a pure function of values. The store calls them, and so does the simulation."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from tickless.instants import MAX_INSTANT, SECOND_US, Instant
from tickless.rules import Every, Rule, Window, as_written, checked_next, first_fire, is_ours, span
from tickless.rules.counting import COUNT_LIMIT
from tickless.states import DEFAULT_POOL, CatchUp, Overlap, Reason, RunIf, State
from tickless.values import Limit as Limit
from tickless.values import Retry as Retry
from tickless.values import is_retriable as is_retriable

# How a parent ended, as a bit of the set that a child has seen.
SUCCEEDED, FAILED, CANCELLED, NEUTRAL = 1, 2, 4, 8

REPEAT_US = 3 * 3600 * 1_000_000
"""A wall clock that is set back by less than this never fires an occurrence again."""
ON_TIME_US = SECOND_US
"""How late is still on time for `catch_up="none"` without a grace."""


class Policy(NamedTuple):
    """What a task asks for when reality disagrees with the plan. Checked at the door; times in microseconds."""

    jitter_us: int = 0
    """By how much each fire is late on purpose, at most: see `jitter_of`."""
    overlap: Overlap = "skip"
    max_running: int | None = None
    grace_us: int | None = None
    catch_up: CatchUp = "latest"
    max_catch_up: int = 100
    retry: Retry | None = None
    timeout_us: int | None = None
    releases: bool = False
    """Whether a run that timed out lets go of its task at once (`on_timeout="release"`)."""
    pause_after_failures: int | None = None
    on_failure: Callable[..., object] | None = None
    pool: str = DEFAULT_POOL
    limit: str | None = None
    tags: tuple[str, ...] = ()
    at_most_once: bool = False
    """Whether a run whose process died is not run again (`delivery="at_most_once"`)."""


class Pause(NamedTuple):
    """Why a task, a tag or everything is paused, and until when on the wall clock; None: until somebody resumes."""

    reason: str | None = None
    until: Instant | None = None


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
    skipped: tuple[Skipped, ...] = ()
    rule: Rule | None = None
    """The rule from here on, where it was bound anew."""
    until: Instant | None = None
    """The last of the missed fires that run one after another, where there are several."""


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


def on_due(rule: Rule, due: Instant, now: Instant, policy: Policy | None = None) -> Plan:
    """Which fire runs when `due` surfaces at `now`: the newest that has come, unless the policy says otherwise.

    The others are skipped: MISFIRE for those later than `grace`, COALESCED for the rest. When none of them runs, the
    plan's fire is the next one, after `now`. With `catch_up="all"` it is the oldest of those that run, and `until` the
    last: they are told one by one by `next_in_catch_up`.
    Instants are of the clock that drives the rule. O(1) or O(log gap), whatever the gap; a rule that cannot count
    beyond 1,000 fires catches up with at most the newest 1,000, whatever `max_catch_up` says.
    """
    if policy is None or (policy.grace_us is None and policy.catch_up == "latest"):
        return _newest(rule, due, now, Reason.COALESCED)
    return _missed(rule, due, now, policy, policy.catch_up, Reason.COALESCED)


def is_too_late(policy: Policy | None, at: Instant, now: Instant) -> bool:
    """Whether what should have started at `at` must not start any more. Late by exactly the grace is on time."""
    return policy is not None and policy.grace_us is not None and now > at + policy.grace_us


def next_in_catch_up(rule: Rule, due: Instant, until: Instant) -> Instant | None:
    """The missed fire that runs after `due`, or None when that was the last of them."""
    following = checked_next(rule, due)
    return following if following is not None and following <= until else None


def on_resume(rule: Rule, due: Instant, now: Instant, catch_up: CatchUp, policy: Policy | None) -> Plan:
    """What a recurring task does that was paused before its planned fire `due`, and goes on at `now`.

    A fire at that very instant is not lost: with "none" it is the next one. With "latest" and "all" those that came
    are judged as missed ones are, by this `catch_up` and the policy's other terms; the dropped are PAUSED, though.
    """
    if due >= now:
        return Plan(due)
    if catch_up == "none":
        return _passed(rule, due, now, Reason.PAUSED)
    return _missed(rule, due, now, policy or Policy(), catch_up, Reason.PAUSED)


def skipped_since(rule: Rule, after: Instant, now: Instant) -> int:
    """How many fires lie in (after, now]; 1,000 may mean "at least", see `span`."""
    passed = span(rule, after, now)
    return 0 if passed is None else passed[0]


def _newest(rule: Rule, due: Instant, now: Instant, reason: Reason) -> Plan:
    """The newest fire in [due, now]; those before it are skipped for that reason."""
    missed = span(rule, due, now)
    if missed is None:
        return Plan(due)
    fires, _, latest = missed
    before = span(rule, due, Instant(latest - 1)) if fires > 1 else None
    return Plan(latest, (Skipped(reason, fires, due, before[2] if before else due),))


def _passed(rule: Rule, due: Instant, now: Instant, reason: Reason) -> Plan:
    """None of the fires in [due, now) runs: the first at or after `now` is next."""
    return _from_here(rule, Instant(now - 1), now, (_stretch(rule, due, Instant(now - 1), reason),))


def _missed(rule: Rule, due: Instant, now: Instant, policy: Policy, catch_up: CatchUp, dropped: Reason) -> Plan:
    """Which of the fires in [due, now] run. Those too late by grace are MISFIRE, others that do not are `dropped`."""
    skipped: tuple[Skipped, ...] = ()
    if policy.grace_us is not None and due + policy.grace_us < now:
        last_late = Instant(now - policy.grace_us - 1)
        skipped = (_stretch(rule, due, last_late, Reason.MISFIRE),)
        on_time = next_in_catch_up(rule, last_late, now)
        if on_time is None:
            return _from_here(rule, now, now, skipped)
        due = on_time
    if catch_up == "all":
        return _caught_up(rule, due, now, policy.max_catch_up, dropped, skipped)
    plan = _newest(rule, due, now, dropped)
    on_time_us = ON_TIME_US if policy.grace_us is None else policy.grace_us
    if catch_up == "none" and plan.due is not None and plan.due + on_time_us < now:
        return _from_here(rule, now, now, (*skipped, _stretch(rule, due, now, dropped)))
    return Plan(plan.due, skipped + plan.skipped)


def _from_here(rule: Rule, after: Instant, now: Instant, skipped: tuple[Skipped, ...]) -> Plan:
    """Nothing that has come runs: the first fire after `after`. A sliding rule counts from `now`, as after a run."""
    bound = rule.bound(now) if rule.recurring else rule
    if bound is not rule and bound != rule:
        return Plan(checked_next(bound, now), skipped, rule=bound)
    return Plan(checked_next(rule, after), skipped)


def _stretch(rule: Rule, first: Instant, until: Instant, reason: Reason) -> Skipped:
    """The record of all fires from `first`, which is one, to `until`."""
    more = span(rule, first, until)
    return Skipped(reason, 1, first, first) if more is None else Skipped(reason, more[0] + 1, first, more[2])


def _caught_up(
    rule: Rule, oldest: Instant, now: Instant, most: int, dropped: Reason, skipped: tuple[Skipped, ...]
) -> Plan:
    """The newest `most` of the fires from `oldest`, which is one, to `now`, to run in order."""
    newer = span(rule, oldest, now)
    if newer is None:
        return Plan(oldest, skipped)
    fires, _, newest = newer
    begin = _oldest_of(rule, oldest, newest, fires, most)
    if begin > oldest:
        skipped = (*skipped, _stretch(rule, oldest, Instant(begin - 1), dropped))
    return Plan(begin, skipped, until=newest if begin < newest else None)


def _oldest_of(rule: Rule, oldest: Instant, newest: Instant, fires: int, most: int) -> Instant:
    """The first of the newest `most` fires up to `newest`, where `fires` of them lie after `oldest`."""
    grid = rule.rule if type(rule) is Window else rule
    if type(grid) is Every and not grid.sliding:
        return oldest if most > fires else Instant(newest - (most - 1) * grid.interval_us)
    if fires == COUNT_LIMIT < most and _walked(rule, oldest, fires, newest) != newest:
        most = fires  # it had said "at least": more than this it cannot count
    if most > fires:
        return oldest
    if fires < COUNT_LIMIT:
        return _walked(rule, oldest, fires + 1 - most, newest)
    if fires > COUNT_LIMIT:  # it counts by itself, and so at no cost
        instants = range(oldest, newest)
        fewer = bisect_right(instants, -most, key=lambda at: -skipped_since(rule, Instant(at), newest))
        return Instant(oldest + fewer)
    return _galloped(rule, oldest, newest, most)


def _galloped(rule: Rule, oldest: Instant, newest: Instant, most: int) -> Instant:
    """The first of the newest `most` fires: back from the newest in steps that double, then by halves.

    It ends as soon as no more than twice as many lie ahead, so a steady rule is asked some four times `most`.
    """
    low, high, step = oldest, newest, 1_000  # enough fires lie in (low, newest], too few in (high, newest]
    while high - low > 1:
        middle = Instant(max(low + 1, high - step) if low == oldest else (low + high) // 2)
        fire, ahead = middle, deque[Instant](maxlen=most)
        for _ in range(2 * most):
            following = next_in_catch_up(rule, fire, newest)
            if following is None:
                break
            fire = following
            ahead.append(fire)
        if fire < newest:
            low = middle
        elif len(ahead) < most:
            high, step = middle, step * 2
        else:
            return ahead[0]
    return newest  # only a rule that contradicts itself comes here


def _walked(rule: Rule, fire: Instant, steps: int, until: Instant) -> Instant:
    """The fire that many steps after this one, or the last up to `until`, should a rule contradict itself."""
    for _ in range(steps):
        following = checked_next(rule, fire)
        if following is None or following > until:
            break
        fire = following
    return fire


class Fate(Enum):
    """What becomes of a fire that comes while the task may be busy."""

    START = "start"
    WAIT = "wait"
    """It starts when the run that keeps the task busy has ended."""
    REPLACE = "replace"
    """What keeps the task busy is asked to stop; when it has ended, the newest fire runs."""
    SKIP = "skip"


def on_busy(policy: Policy, busy: int, waiting: bool) -> Fate:
    """What becomes of a fire while `busy` runs of its task have not ended; `waiting`: another one waits already."""
    if not busy:
        return Fate.START
    if policy.overlap == "allow":
        return Fate.START if policy.max_running is None or busy < policy.max_running else Fate.SKIP
    if policy.overlap == "queue":
        return Fate.SKIP if waiting else Fate.WAIT
    return Fate.REPLACE if policy.overlap == "replace" else Fate.SKIP


def takes_more(policy: Policy, busy: int, waiting: bool) -> bool:
    """Whether another fire could become anything but skipped, so that it is worth an entry in the timeline.

    With "replace" one that waits is enough: which fire is the newest is found when the run ends.
    """
    if policy.overlap == "allow":
        return policy.max_running is None or busy < policy.max_running
    return not busy if policy.overlap == "skip" else not waiting


def after_wait(policy: Policy, rule: Rule, waiter: Instant, now: Instant, last: Instant | None = None) -> Plan:
    """Which fire runs now that the run has ended for which the fire `waiter` waited, and which were lost meanwhile.

    Those up to `last` are dealt with: one that was asked for by hand may wait before the fires of the rule do.
    Queue: the waiter; those between it and `now` were skipped, and one at `now` is no overlap. Replace: the newest.
    """
    since, now = waiter if last is None else last, Instant(now - policy.jitter_us)  # what is put off is to come yet
    if policy.overlap == "replace":
        plan = _newest(rule, since, now, Reason.REPLACED)
        if since == waiter:
            return plan
        return Plan(waiter) if not plan.skipped else Plan(plan.due, (_from_waiter(plan.skipped[0], waiter, since),))
    lost = span(rule, since, Instant(now - 1))
    return Plan(waiter, () if lost is None else (Skipped(Reason.OVERLAP, *lost),))


def after_catch_up(policy: Policy, rule: Rule, last: Instant, finished: Instant, jitter_us: int) -> Plan:
    """What runs when the last of the missed fires has: those that came meanwhile are judged by the overlap policy."""
    if policy.overlap in ("queue", "replace"):
        first = checked_next(rule, last)
        if first is not None and first < finished:
            return after_wait(policy, rule, first, finished)
    return after_run(rule, last, finished, jitter_us)


def passed_over(rule: Rule, waiter: Instant, last: Instant, due: Instant) -> Plan:
    """What is lost when `due` waits in place of `waiter`; the fires up to `last` are dealt with."""
    more = span(rule, last, Instant(due - 1))
    fires, newest = (0, waiter) if more is None else (more[0], more[2])
    return Plan(due, (Skipped(Reason.REPLACED, fires + 1, waiter, newest),))


def _from_waiter(skipped: Skipped, waiter: Instant, since: Instant) -> Skipped:
    return skipped._replace(first=waiter, last=waiter if skipped.last == since else skipped.last)


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
    skipped = () if missed is None else (Skipped(Reason.OVERLAP, *missed),)
    return Plan(checked_next(rule, last_busy), skipped)


def jitter_of(key: str, due: Instant, jitter_us: int) -> int:
    """By how much this fire is late on purpose: from 0 to below `jitter_us`, evenly, the same whenever it is asked.

    Drawn from the task's key and the fire, so that it needs no memory, and a replay or another process agrees.
    """
    return _drawn(f"{key}@{due}", jitter_us)


def _drawn(occurrence: str, width_us: int) -> int:
    text = occurrence.encode(errors="surrogatepass")  # an id may be a file's name, and those hold anything
    return int.from_bytes(blake2b(text, digest_size=8).digest()) % max(1, width_us)


def retry_delay_us(retry: Retry, n: int, key: str, due: Instant | None) -> int:
    """How long the n-th retry waits, n = 1 for the first: from 0 to `max_delay`, the same whenever it is asked."""
    try:
        delay_us = min(retry.delay_us * retry.factor ** max(0, n - 1), retry.max_delay_us)
    except OverflowError:  # only a power that no float holds, and so one beyond any time
        delay_us = retry.max_delay_us if retry.delay_us else 0
    if not retry.jitter_us:
        return int(delay_us)
    return min(int(delay_us) + _drawn(f"{key}@{due}#{n}", retry.jitter_us), retry.max_delay_us)


def next_attempt(
    retry: Retry | None, attempt: int, error: object, key: str, due: Instant | None, now: Instant
) -> Instant | None:
    """When the next attempt begins after number `attempt`, which failed at `now`; None when there is none.

    On `Clock.now()`, whatever clock drives the rule. At the end of the calendar it begins there.
    """
    if retry is None or attempt >= retry.attempts or not is_retriable(retry, error):
        return None
    return min(Instant(now + retry_delay_us(retry, attempt, key, due)), MAX_INSTANT)


CRASHES = 3  # so often a run whose process dies is started in all, where no `Retry` says


def after_crash(policy: Policy, attempt: int, key: str, due: Instant | None, now: Instant) -> Instant | None:
    """When a run whose process died begins again after attempt number `attempt`; None when it does not.

    At first at once. Then it waits as its `Retry` says, or a second, doubled each time: it may be what kills processes.
    """
    most = CRASHES if policy.retry is None else policy.retry.attempts
    if policy.at_most_once or attempt >= most:
        return None
    if attempt == 1:
        return now
    delay_us = SECOND_US << min(attempt - 2, 12)
    if policy.retry is not None:
        delay_us = retry_delay_us(policy.retry, attempt, key, due)
    return min(Instant(now + delay_us), MAX_INSTANT)


def failures_after(policy: Policy | None, failures: int, state: State) -> tuple[int, bool]:
    """How many runs in a row have failed after one that ended so, and whether the task pauses itself for it.

    A run that was skipped or cancelled says nothing about the work. After a pause the count starts again.
    """
    if state is not State.FAILED:
        return 0 if state is State.SUCCEEDED else failures, False
    most = None if policy is None else policy.pause_after_failures
    return (0, True) if most is not None and failures + 1 >= most else (failures + 1, False)


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
