"""Overlap: what becomes of a fire that comes while the task is busy. Under the lock.

With "skip" a task has no place in the timeline while it runs, and all is done by that. With the others each fire is an
occurrence with a record of its own: the task, its chief, keeps the plan; the occurrences, its crew, keep it busy. A
chief that takes no more fires for now is held (BUSY), with the last fire that it dealt with as its `_due`: what comes
meanwhile is found by arithmetic when an occurrence has ended.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tickless import policies
from tickless.core import asides, history
from tickless.core.entering import enter_unlisted
from tickless.core.questions import consult
from tickless.core.record import QUEUED, More, TaskRecord, due_of, holdings, is_retrying, more_of
from tickless.core.special import Asked, Hold, Special, keeps_busy, policy_of, queue_of, special_of
from tickless.instants import Instant
from tickless.policies import Fate, Plan, Skipped
from tickless.rules import Rule
from tickless.states import Cancelled, Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def fire(
    machine: Machine,
    chief: TaskRecord,
    due: Instant,
    now: Instant,
    *,
    by_hand: bool = False,
    asked: Asked | None = None,
) -> Fate:
    """A fire has come: it starts, waits, takes the place of another, or is skipped. Gives which of START, WAIT, SKIP.

    `by_hand`: beside the schedule. `asked`: what was said of the round, where it is a flow.
    """
    special, policy = special_of(chief), policy_of(chief)
    crew = _crew(special)
    takes_turn = False
    fate = policies.on_busy(policy, len(crew) + special.zombies, special.waiter is not None)
    if fate is Fate.REPLACE:
        held, special.hold = special.hold, None  # what ends now is not the last: this fire is to come
        takes_turn = _make_way(machine, chief, crew, now)
        special.hold = held
        fate = Fate.WAIT if crew or special.zombies else Fate.START
    if fate is Fate.START:
        start(machine, chief, due, now, by_hand=by_hand, takes_turn=takes_turn, asked=asked)
    elif fate is Fate.WAIT:
        if special.waiter is not None:
            _replace_waiter(machine, chief, special.waiter, due, now)
        special.waiter, special.asked = due, asked
    else:
        history.note_skipped(machine, chief, Skipped(Reason.OVERLAP, 1, due, due), now)
    if not by_hand:
        _plan(machine, chief, due, now)
    elif not takes_more(chief) and (chief._entry is not None or special.hold is Hold.FIRE):
        _take_no_more(machine, chief, now)
    return fate


def _replace_waiter(machine: Machine, chief: TaskRecord, waiter: Instant, due: Instant, now: Instant) -> None:
    """A newer one waits instead, and of the fires that have come since none does."""
    rule, last = chief._rule, chief._due
    assert rule is not None
    if last is None or special_of(chief).hold is not Hold.BUSY:
        history.note_skipped(machine, chief, Skipped(Reason.REPLACED, 1, waiter, waiter), now)
        return
    chief._due = max(last, Instant(due - 1))
    consult(machine, chief, rule, lambda: policies.passed_over(rule, waiter, last, due), machine.note, now)


def _take_no_more(machine: Machine, chief: TaskRecord, now: Instant) -> None:
    """The fire that is planned could only be skipped. Those that came before, while it was paused, are skipped here."""
    special, planned, rule = special_of(chief), due_of(chief), chief._rule
    assert planned is not None
    assert rule is not None
    machine.unplace(chief)
    special.hold, chief._due = Hold.BUSY, Instant(planned - 1)
    reading = machine.reading(chief, now)
    if planned >= reading:
        return

    def go_on(chief: TaskRecord, plan: Plan, now: Instant) -> None:
        machine.note(chief, plan, now)
        chief._due = Instant(reading - 1)

    consult(machine, chief, rule, lambda: policies.on_resume(rule, planned, reading, "none", None), go_on, now)


def _crew(special: Special) -> list[TaskRecord]:
    if special.crew is None:
        special.crew = []
    return special.crew


def takes_more(chief: TaskRecord) -> bool:
    special = special_of(chief)
    runs_left = more_of(chief).runs_left
    if runs_left is not None and runs_left < 1:
        return False
    busy = len(special.crew or ()) + special.zombies
    if special.until is not None:  # missed fires run one after another
        return not busy
    return policies.takes_more(policy_of(chief), busy, special.waiter is not None)


def start(
    machine: Machine,
    chief: TaskRecord,
    due: Instant,
    now: Instant,
    *,
    by_hand: bool = False,
    takes_turn: bool = False,
    asked: Asked | None = None,
) -> None:
    """Make an occurrence, ready."""
    more, policy, own = more_of(chief), policy_of(chief), More()
    # What is asked for by hand is not put off.
    special = own.special = Special(policy._replace(jitter_us=0) if by_hand and policy.jitter_us else policy)
    special.unlisted, special.chief, special.by_hand, special.takes_turn = True, chief, by_hand, takes_turn
    own.outputs = more.outputs
    one = type(chief)(
        chief._work, chief._args, chief._kwargs, chief.id, chief._name, chief._priority, None, due, chief._wall, own,
        (), chief._owner,
    )  # fmt: skip
    enter_unlisted(machine, one)
    _crew(special_of(chief)).append(one)
    if special_of(chief).rounds is not None:
        machine.begin_round(one, due, asked, by_hand=by_hand)
    if more.runs_left is not None:
        more.runs_left -= 1
    machine.make_ready(one, due, now)


def _plan(machine: Machine, chief: TaskRecord, due: Instant, now: Instant) -> None:
    """The fires up to `due` were dealt with: place the next one, unless it could only be skipped."""
    rule = chief._rule
    assert rule is not None
    if takes_more(chief):
        consult(machine, chief, rule, lambda: policies.after_run(rule, due, due), machine.on_planned, now)
    else:
        special_of(chief).hold = Hold.BUSY
        chief._due = due


def _make_way(machine: Machine, chief: TaskRecord, crew: list[TaskRecord], now: Instant) -> bool:
    """A newer fire has come: what never started gives up its place, what runs is asked to stop.

    True when one has given up a place in a queue.
    """
    has_place = False
    for one in list(crew):
        if is_retrying(one) or (one._run is QUEUED and queue_of(one, machine.ready).claim(one)):
            has_place = has_place or not is_retrying(one)
            begun = special_of(one).attempts
            machine.end_unrun(one, State.CANCELLED if begun else State.SKIPPED, Reason.REPLACED, now)
        else:
            machine.ask_to_stop(one, now, Reason.REPLACED)
    return has_place


def left(machine: Machine, one: TaskRecord, now: Instant) -> None:
    """An occurrence has ended: its run is its chief's, which may take fires again."""
    if special_of(one).aside:
        asides.left(machine, one, now)
        return
    chief, run = special_of(one).chief, one._run
    assert chief is not None
    assert run is not None
    special, zombie = special_of(chief), run if keeps_busy(run) else special_of(one).zombie
    if zombie is not None and zombie.extra is not None and zombie.extra.zombie:
        special.zombies += 1
        zombie.task = chief
    if run.state is State.SKIPPED and more_of(chief).runs_left is not None:
        more_of(chief).runs_left += 1  # type: ignore[operator]  # it did not run, so it does not count
    run.task = chief
    _crew(special).remove(one)
    history.begun(machine, chief).append(run)
    chief._run = run
    look(machine, chief, now, one._value)


def look(machine: Machine, chief: TaskRecord, now: Instant, value: Any = None) -> None:
    """An occurrence has ended, or a zombie returned: what waited for it goes on, or the chief has ended."""
    if special_of(chief).aside:
        chief = asides.come_back(chief)
    more, special, rule, last = more_of(chief), special_of(chief), chief._rule, chief._due
    asides.look(machine, chief, now)
    if special.hold is Hold.FIRE and special.waiter is not None and not (special.crew or special.zombies):
        waiter, asked = special.waiter, special.asked
        special.waiter = special.asked = None
        start(machine, chief, waiter, now, by_hand=True, asked=asked)  # asked for while the task is paused
    if chief._seq not in machine.registry.live or special.hold is not Hold.BUSY:
        return
    is_busy = bool(special.crew or special.zombies)
    spent = more.runs_left is not None and more.runs_left < 1 and special.waiter is None
    if rule is None or spent:
        if not special.crew:
            _end(machine, chief, now, value)
    elif special.waiter is not None:
        if not is_busy:
            _start_waiter(machine, chief, rule, special.waiter, last, now)
    elif takes_more(chief):
        assert last is not None
        special.hold = None
        machine.rearm(chief, last, now, value)


def _start_waiter(
    machine: Machine, chief: TaskRecord, rule: Rule, waiter: Instant, last: Instant | None, now: Instant
) -> None:
    special, policy, reading = special_of(chief), policy_of(chief), machine.reading(chief, now)
    asked = special.asked
    special.waiter = special.hold = special.asked = None
    if special.until is not None:  # missed fires run one after another; what is by hand comes between
        start(machine, chief, waiter, now, asked=asked)
        _plan(machine, chief, waiter if last is None or waiter <= special.until else last, now)
        return
    since = waiter if last is None else last  # not the waiter, where that is by hand and a fire has its due

    def started(chief: TaskRecord, plan: Plan, now: Instant) -> None:
        is_newer = policy.overlap == "replace" and bool(plan.skipped)
        go_on(machine, chief, plan, now, None if is_newer else since, asked if plan.due == waiter else None)

    consult(machine, chief, rule, partial(policies.after_wait, policy, rule, waiter, reading, last), started, now)


def go_on(
    machine: Machine,
    chief: TaskRecord,
    plan: Plan,
    now: Instant,
    last: Instant | None = None,
    asked: Asked | None = None,
) -> None:
    """A fire that has waited starts. Those up to `last` (None: to itself), and before now, are dealt with."""
    assert plan.due is not None
    machine.note(chief, plan, now)
    start(machine, chief, plan.due, now, asked=asked)
    reading = machine.reading(chief, now) - policy_of(chief).jitter_us  # what jitter puts off is still to come
    _plan(machine, chief, Instant(max(plan.due if last is None else last, reading - 1)), now)


def _end(machine: Machine, chief: TaskRecord, now: Instant, value: Any) -> None:
    """No fire comes any more, and the last occurrence has ended."""
    more = more_of(chief)
    machine.discard(chief)
    if more.end is None:
        assert chief._run is not None
        more.end = (chief._run.state, Reason.MAX_RUNS)
        chief._value = value
    machine.end(chief, now)


def cancel(machine: Machine, chief: TaskRecord, now: Instant, reason: Reason, *, ask: bool) -> Cancelled:
    """Take the chief's future away, and that of all occurrences that have not started; what runs is asked to stop."""
    more, special = more_of(chief), special_of(chief)
    more.end = more.end or (State.CANCELLED, reason)
    machine.trash.append((*holdings(chief), more.update))
    more.update = None
    if special.waiter is not None:
        history.note_skipped(machine, chief, Skipped(reason, 1, special.waiter, special.waiter), now)
        special.waiter = special.asked = None
    machine.unplace(chief)
    machine.questions.drop(chief)
    history.begun(machine, chief)
    chief._rule = None
    special.hold = Hold.BUSY
    for one in list(_crew(special)):
        if (one._run is QUEUED and queue_of(one, machine.ready).claim(one)) or is_retrying(one):
            machine.end_unrun(one, State.CANCELLED, reason, now)
        elif ask:
            machine.ask_to_stop(one, now, reason)
    if chief._seq in machine.registry.live and not special.crew:
        _end(machine, chief, now, None)  # only a zombie kept it busy
    return Cancelled.ASKED if chief._seq in machine.registry.live else Cancelled.CANCELLED
