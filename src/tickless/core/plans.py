"""What a task with a place in time does next: when its entry comes up, and when a run of it has ended. Under the lock.

The decisions are `policies`; here is what they do to the records. Each is a method of the machine too, where others on
this floor need it: see the foot of its class.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tickless import policies
from tickless.core import attempts, crew, history, update
from tickless.core.pauses import pause_of
from tickless.core.questions import consult
from tickless.core.record import TaskRecord, due_of, is_retrying, more_of
from tickless.core.special import Hold, is_chief, policy_of, special_in, special_of
from tickless.instants import Instant
from tickless.policies import Plan
from tickless.rules import Rule
from tickless.states import Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def surface_one(machine: Machine, task: TaskRecord, due: Instant | None, now: Instant, wall: Instant) -> None:
    """An entry came up that is not simply run: its time may not have come (slewing), or something must be asked."""
    if is_retrying(task):
        attempts.begin_again(machine, task, now)
        return
    assert due is not None
    policy = policy_of(task)
    jitter = jitter_in(task, due) if policy.jitter_us else 0
    reading = Instant((wall if task._wall else now) - jitter)  # what has come, had this fire not been put off
    if task._wall and due > reading:
        machine.offset = wall - now
        machine.place(task, due, now)
        return
    rule = task._rule
    task._due = due  # it has no entry now
    if rule is not None:
        # A rule that raises cannot tell a later fire. This one was planned, and runs; the error comes with the next
        question = partial(policies.on_due, rule, due, reading, policy)
        consult(machine, task, rule, question, partial(on_fire, machine), now, Plan(due))
    elif policy.grace_us is not None and policies.is_too_late(policy, due, reading):
        machine.discard(task)
        machine.end_unrun(task, State.SKIPPED, Reason.MISFIRE, now)
    else:
        machine.make_ready(task, due, now)


def on_fire(machine: Machine, task: TaskRecord, plan: Plan, now: Instant) -> None:
    """It is known which fire runs now, if any: start it, or place the one that comes."""
    note(machine, task, plan, now)
    due = plan.due
    if plan.until is not None:
        special_of(task).until = plan.until
    if due is None or (due != task._due and machine.instant_of(task, due) > now):
        on_planned(machine, task, Plan(due, rule=plan.rule), now)  # none runs now, or its own jitter puts it off
    elif is_chief(task):
        crew.fire(machine, task, due, now)
    else:
        machine.make_ready(task, due, now)


def note(machine: Machine, task: TaskRecord, plan: Plan, now: Instant) -> None:
    """Record the fires that do not run."""
    for skipped in plan.skipped:
        history.note_skipped(machine, task, skipped, now)


def rearm(machine: Machine, task: TaskRecord, due: Instant, now: Instant, value: Any) -> None:
    """The fires up to `due` are dealt with, and the task free: what comes next. `value`: its result should nothing.

    Where `since` says so, they are dealt with up to another instant. A task that was paused before `planned`, while a
    run by hand went on, is held there again, or goes on from there.
    """
    more, special = task._more, special_in(task)
    planned = until = None
    if special is not None:
        due, planned, until = special.since or due, special.planned, special.until
        special.since = special.planned = None
        due = due if planned is None else Instant(planned - 1)
    if more is not None and more.update is not None:
        first = update.become(machine, task, more.update)
        more.update = None
        if first is not None and task._rule is None:  # it is to fire once
            machine.place(task, first, now)
            return
        if first is not None:  # another rule: what it would have fired since is what this run missed
            due, planned, until = Instant(first - 1), None if planned is None else first, None
    if planned is not None and pause_of(machine, task) is not None:
        machine.place(task, planned, now)
    else:
        _ask_next(machine, task, task._rule, due, now, value, until)


def _ask_next(
    machine: Machine,
    task: TaskRecord,
    rule: Rule | None,
    due: Instant,
    now: Instant,
    value: Any,
    until: Instant | None,
) -> None:
    """Ask a recurring task's rule for the fire after `due`; `value` is its result should there be none.

    While missed fires run one after another (to `until`), the next of them, which has come.
    """
    assert rule is not None
    finished, policy = machine.reading(task, now), policy_of(task)
    task._due = None  # while it is asked it has no next fire

    def ask() -> Plan:
        if until is None:
            return policies.after_run(rule, due, finished, policy.jitter_us)
        missed = policies.next_in_catch_up(rule, due, until)
        if missed is None:
            return policies.after_catch_up(policy, rule, due, finished, policy.jitter_us)
        return Plan(missed, until=until)

    def planned(task: TaskRecord, plan: Plan, now: Instant) -> None:
        if plan.until is not None:
            on_fire(machine, task, plan, now)
            return
        if until is not None:
            special_of(task).until = None
            if plan.due is not None and plan.due < finished and is_chief(task):
                crew.go_on(machine, task, plan, now)
                return
        on_planned(machine, task, plan, now, value)

    consult(machine, task, rule, ask, planned, now)


def on_planned(machine: Machine, task: TaskRecord, plan: Plan, now: Instant, value: Any = None) -> None:
    """A recurring task knows its next fire: place it; without one it has ended as its last run did."""
    note(machine, task, plan, now)
    if plan.rule is not None:
        task._rule = plan.rule
    special = special_in(task)
    if plan.due is not None:
        if special is not None and special.hold is None and is_chief(task) and not crew.takes_more(task):
            special.hold = Hold.BUSY  # a run by hand came between: the fire would only be skipped
        machine.place(task, plan.due, now)
        return
    if special is not None and special.crew:
        special.hold, task._due = Hold.BUSY, machine.reading(task, now)  # asked again when an occurrence has ended
        return
    machine.discard(task)
    if task._run is None:
        machine.end_unrun(task, State.SKIPPED, Reason.NO_NEXT_FIRE, now)
        return
    more_of(task).end = (task._run.state, Reason.NO_NEXT_FIRE)
    task._value = value
    machine.end(task, now)


def bind(machine: Machine, child: TaskRecord, rule: Rule, now: Instant) -> None:
    """A child's parents have let go: its rule counts from here, on the wall as it was when last looked at."""
    reading = Instant(now + machine.offset) if child._wall else now
    consult(machine, child, rule, lambda: policies.on_bind(rule, reading), partial(_on_bound, machine), now)


def _on_bound(machine: Machine, task: TaskRecord, plan: Plan, now: Instant) -> None:
    """A child's rule was bound, its parents having let go."""
    assert task._more is not None
    if task._more.recurring:
        task._rule = plan.rule
    on_planned(machine, task, Plan(plan.due), now)


def to_come(task: TaskRecord) -> Instant | None:
    """The fire that a task which ends without a run loses. None: it has none yet, as a busy one that takes no more."""
    special = special_in(task)
    if special is not None and special.hold in (Hold.ZOMBIE, Hold.BUSY):
        return special.waiter  # its `_due` was dealt with
    return due_of(task)


def jitter_in(task: TaskRecord, due: Instant) -> int:
    jitter_us = policy_of(task).jitter_us
    return policies.jitter_of(task.id, due, jitter_us) if jitter_us else 0
