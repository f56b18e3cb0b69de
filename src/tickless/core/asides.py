"""Backfill: runs beside the plan of a task, each for a fire that has been, one after another. Under the lock.

Each is an occurrence with a record of its own, an *aside*. It is none of the crew, so that the plan goes on as if there
were none. All but one are held (TURN) until those before them have ended, tries, zombies and all: the machine lets the
next one go in the step in which one ends. That of a plain task is listed, under an id that says its fire; that of a
flow is a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tickless.core import history
from tickless.core.entering import enter_unlisted
from tickless.core.record import More, RunRecord, TaskRecord, ended, more_of
from tickless.core.special import NO_POLICY, Hold, Special, is_flow, keeps_busy, policy_of, special_in, special_of
from tickless.errors import ScheduleError
from tickless.instants import Instant, datetime_of
from tickless.records import EventKind
from tickless.states import State

if TYPE_CHECKING:
    from tickless.core.machine import Machine

Past = tuple[Instant | None, State | None]
"""A fire, and what became of it."""


def id_of(task: TaskRecord, due: Instant) -> str:
    """What a run for that fire is called."""
    return f"{task.id}@{datetime_of(due).isoformat().replace('+00:00', 'Z')}"


def name_of(task: TaskRecord, due: Instant) -> str:
    """The id of the task of a run for that fire: of a flow, whose rounds are no tasks, its own."""
    return task.id if is_flow(task) else id_of(task, due)


def wanted(machine: Machine, chief: TaskRecord, dues: Sequence[Instant], *, again: bool) -> list[Instant]:
    """Those of the fires that are to run: not what is about to, nor what has succeeded, but with `again`."""
    past = machine.registry.past(chief)
    out = {due for due, state in past if state is None or state.after or (state is State.SUCCEEDED and not again)}
    return [due for due in dues if due not in out]


def backfill(machine: Machine, chief: TaskRecord, dues: Sequence[Instant], now: Instant) -> list[TaskRecord]:
    """Have a run for each of these fires, in their order, behind those that there are. Raises ScheduleError."""
    check_backfill(machine, chief)
    taken = set(machine.registry.aside_ids(chief, [id_of(chief, due) for due in dues]))
    special_of(chief).asides = special_of(chief).asides or bool(dues)
    made = [_make(machine, chief, due, now, id_of(chief, due) in taken) for due in dues]
    look(machine, chief, now)
    return made


def check_backfill(machine: Machine, chief: TaskRecord) -> None:
    """Raises ScheduleError for a task that has no fires: it has ended, or fires once."""
    if chief._seq not in machine.registry.live or ended(chief):
        raise ScheduleError(f"backfill: task {chief.id} has ended; schedule it again")
    if chief._rule is None:
        raise ScheduleError(f"backfill: task {chief.id} does not recur, so it has no fires; run_now() has it run")


def _make(machine: Machine, chief: TaskRecord, due: Instant, now: Instant, is_taken: bool) -> TaskRecord:
    own, flow = More(), is_flow(chief)
    policy = policy_of(chief)._replace(
        **{name: getattr(NO_POLICY, name) for name in _OF_THE_PLAN},
    )
    special = own.special = Special(policy)
    special.chief, special.aside, special.hold = chief, True, Hold.TURN
    special.unlisted = special.by_hand = flow  # a round is shown by its flow, and let go by no resume
    own.outputs = more_of(chief).outputs
    id = id_of(chief, due)
    one = type(chief)(
        chief._work, chief._args, chief._kwargs, chief.id if flow else id, chief._name, chief._priority, None, due,
        chief._wall, own, (), chief._owner,
    )  # fmt: skip
    enter_unlisted(machine, one)
    one._run = RunRecord(one, due, State.PENDING)
    if is_taken:
        id = f"{id}+{one._seq}"
    if flow:
        machine.begin_aside(one, id, due)
    else:
        one._id = id
        machine.registry.named[id] = one
        if machine.post_scheduled is not None:
            machine.post_scheduled(EventKind.SCHEDULED, now, one, due)
    machine.registry.put_aside_last(chief, one)
    return one


_OF_THE_PLAN = ("overlap", "max_running", "grace_us", "catch_up", "max_catch_up", "jitter_us", "pause_after_failures")
"""What a policy says of fires to come."""


def look(machine: Machine, chief: TaskRecord, now: Instant) -> None:
    """Let the first one go, where it is held still and no code of the task's goes on that has timed out."""
    special = special_in(chief)
    if special is None or not special.asides or special.zombies:
        return
    one = machine.registry.first_aside(chief)
    if one is None:
        special.asides = False
        return
    own = special_of(one)
    if own.hold is Hold.TURN:
        own.hold = one._run = None
        assert one._due is not None
        machine.make_ready(one, one._due, now)


def left(machine: Machine, one: TaskRecord, now: Instant) -> None:
    """One has ended: its run is its task's too, and the next has its turn."""
    chief, run = special_of(one).chief, one._run
    assert chief is not None
    assert run is not None
    zombie = run if keeps_busy(run) else special_of(one).zombie
    if zombie is not None and zombie.extra is not None and zombie.extra.zombie:
        special_of(one).zombies = 1  # by which it is found when that returns, or dies
        special_of(chief).zombies += 1
    if run.started is not None and chief._seq in machine.registry.live:
        history.begun(machine, chief).append(_copy(chief, run))
    look(machine, chief, now)


def come_back(one: TaskRecord) -> TaskRecord:
    """The code of one that had timed out goes on no more. Gives the task that this is about."""
    chief = special_of(one).chief
    assert chief is not None
    special_of(chief).zombies -= 1
    return chief


def _copy(chief: TaskRecord, run: RunRecord) -> RunRecord:
    copy = RunRecord(chief, run.due, run.state)
    copy.at, copy.started, copy.finished = run.at, run.started, run.finished
    copy.reason, copy.error, copy.extra = run.reason, run.error, run.extra
    return copy
