"""Rounds: a flow's occurrence is a run whose body is other tasks. Under the lock.

A flow is a task whose occurrences have records of their own, whatever its overlap: see `core.crew`. Such an occurrence
becomes ready, is held, limited and taken as any run is. Its work says `OPENS`, and then it has its tasks; it goes on
running, in nobody's hands, until the last of them has ended. It counts them down as a child counts its parents (P4):
`_waiting` and `_seen` are theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from tickless.core import graph, permits
from tickless.core.cancel import cancel
from tickless.core.record import SEQ_BITS, RunRecord, TaskRecord, ended, key_of
from tickless.core.special import Asked, Round, is_open_round, policy_of, round_of, special_in, special_of
from tickless.core.stopping import ask_to_stop as set_flag
from tickless.core.stopping import is_to_stop
from tickless.errors import DuplicateId, FlowError, TaskFailed, TaskTimedOut, TicklessError, shown
from tickless.instants import SECOND_US, Instant, datetime_of
from tickless.policies import CANCELLED, FAILED
from tickless.records import Outcome
from tickless.states import Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine

NOTHING_ASKED = Asked({})
FEW_NAMES = 5
"""So many of the tasks that failed are named in the error of a round."""


class Opens(Enum):
    """What the work of a flow returns; the machine then opens the round. One of a kind in every process."""

    ROUND = "round"


OPENS = Opens.ROUND


def work_of_rounds() -> Opens:
    """The work of every flow, for who runs it in another process."""
    return OPENS


def check_param(flow: str, name: object, params: Mapping[str, Any]) -> None:
    """Raises FlowError for a parameter that the flow does not have."""
    if type(name) is not str or name not in params:
        known = ", ".join(map(repr, params)) or "none"
        raise FlowError(f"flow {flow}: it has no parameter {shown(name)}, but {known}; say params= of the flow")


def copied_run(task: TaskRecord, before: TaskRecord) -> RunRecord:
    """The run of a task that counts as having run, since one of another round has."""
    run, ran = RunRecord(task, None, State.SUCCEEDED), before._run
    assert ran is not None
    run.due, run.at, run.started, run.finished = ran.due, ran.at, ran.started, ran.finished
    run.reason = Reason.COPIED
    return run


class Plan(Protocol):
    """The work of a flow: what a round is made of."""

    params: Mapping[str, Any]
    """Parameter -> what it is when nothing is said."""

    def __call__(self) -> Opens: ...

    def tasks(self, one: TaskRecord, old: Mapping[str, TaskRecord]) -> list[TaskRecord]:
        """Fresh tasks of the round, parents before their children, with ids, without numbers and times.

        `old`: task -> one of another round that succeeded. It counts as this round's where those of its parents do:
        what comes after something that runs again is decided again.
        """


class RoundEnd:
    """The alarm of a round with a timeout."""

    def __init__(self, machine: Machine, number: int) -> None:
        self._machine = machine
        self.round = number
        self.seq = machine.next_seq()
        self._entry: int | None = None

    def is_due(self, now: Instant) -> bool:
        """Whether it rings at `now`, or should have."""
        return self._entry is not None and self._entry >> SEQ_BITS <= now

    def ring(self, now: Instant, wall: Instant) -> None:
        """Its time is up: nothing of it starts any more, and it has failed once what runs has returned."""
        machine = self._machine
        machine.round_ends.pop(self.round, None)
        one = machine.registry.live_round(self.round)
        if one is not None:
            _stop(machine, one, now, Reason.TIMED_OUT)


def begin(machine: Machine, one: TaskRecord, due: Instant, asked: Asked | None, *, by_hand: bool) -> None:
    """An occurrence of a flow was made: it is a round, and is listed with the others. `asked`: what was said of it."""
    special = special_of(one)
    flow = special.chief
    assert flow is not None
    about, plan = special_of(flow), one._work
    old = None if asked is None or asked.retry_of is None else machine.registry.find_round(flow, asked.retry_of)
    tried = None if old is None else round_of(old)
    planned = due if tried is None or tried.due is None else tried.due
    id = f"{flow.id}@{datetime_of(planned).isoformat().replace('+00:00', 'Z')}"
    if by_hand or asked is not None or _is_given(machine, flow, id):
        id = f"{id}+{one._seq}"
    one._name = id
    params: Mapping[str, Any] = {}
    with suppress(Exception):  # a definition that cannot be read: the round says so when it is to be opened
        params = plan.params  # type: ignore[union-attr]  # the work of a flow is a Plan
    said = asked or NOTHING_ASKED
    special.round = Round(id, planned, {**params, **said.params}, said.retry_of, plan)
    if tried is not None:  # again as it was
        one._work, special.round.params, special.round.plan = tried.plan, tried.params, tried.plan
    assert about.rounds is not None
    about.rounds.append(one)
    machine.registry.flows[flow._seq] = flow
    machine.registry.trim_rounds(flow, machine.keep_rounds)


def begin_aside(machine: Machine, one: TaskRecord, id: str, due: Instant) -> None:
    """The same of one for a fire that has been: see `core.asides`, which has the id chosen."""
    special = special_of(one)
    flow, plan = special.chief, one._work
    assert flow is not None
    one._name, params = id, {}
    with suppress(Exception):  # as above
        params = plan.params  # type: ignore[union-attr]  # the work of a flow is a Plan
    special.round = Round(id, due, params, None, plan)
    about = special_of(flow)
    assert about.rounds is not None
    about.rounds.append(one)
    machine.registry.flows[flow._seq] = flow


def _is_given(machine: Machine, flow: TaskRecord, id: str) -> bool:
    """Whether a round has the id, of this flow or of one that had its id before. O(flows + keep_rounds)."""
    alike = [one for one in machine.registry.flows.values() if one._id == flow._id and one is not flow]
    return any(machine.registry.find_round(one, id) is not None for one in (flow, *alike))


def opens(machine: Machine, run: RunRecord, outcome: Outcome, now: Instant) -> bool:
    """A worker has come to a round: it has its tasks now, and goes on. False: it has ended, as `outcome` says."""
    one = run.task
    special, round = special_of(one), round_of(one)
    if outcome.value is not OPENS:
        return False
    stopped = Reason.CLOSED if machine.is_closed else round.stopped or Reason.CANCELLED
    if machine.is_closed or is_to_stop(run):
        _conclude(machine, one, run, Outcome(State.CANCELLED, reason=stopped), now)
        return True
    try:
        tasks = _fresh(machine, one, round)
    except Exception as error:  # noqa: BLE001 - a definition that is damaged ends its own round, and nothing else (P9)
        line = f"{type(error).__name__}: {error}"
        _conclude(machine, one, run, Outcome(State.FAILED, error, None, line), now)
        return True
    run.finished = None
    if run.extra is not None:
        run.extra.returned = None
    machine.discard(one)
    one._work = one._args = one._kwargs = None  # what it was made of
    round.opened = True
    living, copied = [task for task in tasks if task._run is None], [task for task in tasks if task._run is not None]
    for task in living:
        if not task._parents:  # `Clock.now()` drives it: the round's own due may be of the wall clock, or have jitter
            task._due = run.at
    one._waiting = len(living)
    timeout_us = special.policy.timeout_us
    if timeout_us is not None and run.started is not None:
        end = machine.round_ends[one._seq] = RoundEnd(machine, one._seq)
        machine.arm(end, Instant(run.started + timeout_us))
    for task in copied:
        _enter_copy(machine, task)
    round.tasks = tasks
    machine.enter_many(living, now)
    for task in copied:
        task._parents = tuple(key_of(parent) for parent in task._parents)
    if not living:  # it had timed out, and then all its tasks succeeded
        _conclude(machine, one, run, Outcome(State.SUCCEEDED), now)
    return True


def _fresh(machine: Machine, one: TaskRecord, round: Round) -> list[TaskRecord]:
    flow = special_of(one).chief
    assert flow is not None
    old: dict[str, TaskRecord] = {}
    if round.retry_of is not None:
        before = machine.registry.find_round(flow, round.retry_of)
        if before is None:
            raise TicklessError(f"round {round.id}: {round.retry_of}, which it was to try again, was forgotten")
        found = machine.registry.tasks_of(before)
        old = {task._name: task for task in found if task._run is not None and task._run.state is State.SUCCEEDED}
    plan: Plan = one._work  # type: ignore[assignment]  # as that of every flow
    tasks = plan.tasks(one, old)
    taken = machine.registry.taken([task._id for task in tasks if task._id is not None])
    if taken:
        raise DuplicateId(f"round {round.id}: a task of the id {shown(taken[0])} is listed already; cancel that one")
    return tasks


def _enter_copy(machine: Machine, task: TaskRecord) -> None:
    """A task that succeeded in another round: it is listed, and never lives."""
    task._seq = machine.next_seq()
    assert task._id is not None
    machine.registry.named[task._id] = task
    machine.registry.put_aside(task)


def left(machine: Machine, number: int, task: TaskRecord, now: Instant) -> None:
    """A task of a round has ended. With the last of them the round has."""
    one = machine.registry.live_round(number)
    if one is None:
        return
    one._waiting -= 1
    one._seen |= graph.end_of(task)
    if not one._waiting:
        run = one._run
        assert run is not None
        _conclude(machine, one, run, _outcome(machine, one), now)


def _outcome(machine: Machine, one: TaskRecord) -> Outcome:
    """How a round has ended, from how its tasks have."""
    round, seen = round_of(one), one._seen
    if round.stopped is Reason.TIMED_OUT:
        seconds = (policy_of(one).timeout_us or 0) / SECOND_US
        text = f"it ran for longer than its timeout of {seconds:g} s"
        return Outcome(
            State.FAILED, TaskTimedOut(f"round {round.id}: {text}"), Reason.TIMED_OUT, f"TaskTimedOut: {text}"
        )
    if round.stopped is not None and seen & CANCELLED:
        return Outcome(State.CANCELLED, reason=round.stopped)
    if seen & FAILED:
        text = _failures(machine.registry.tasks_of(one))
        return Outcome(State.FAILED, TaskFailed(f"round {round.id}: {text}"), None, f"TaskFailed: {text}")
    if seen & CANCELLED:
        return Outcome(State.CANCELLED, reason=Reason.CLOSED if machine.is_closed else Reason.CANCELLED)
    return Outcome(State.SUCCEEDED)


def _failures(tasks: list[TaskRecord]) -> str:
    failed = [task for task in tasks if task._run is not None and task._run.state is State.FAILED]
    named = [f"{task._name} ({task._run.error})" if task._run is not None else task._name for task in failed]
    more = f" and {len(named) - FEW_NAMES} more" if len(named) > FEW_NAMES else ""
    return f"{len(failed)} of {len(tasks)} tasks failed: {', '.join(named[:FEW_NAMES])}{more}"


def _conclude(machine: Machine, one: TaskRecord, run: RunRecord, outcome: Outcome, now: Instant) -> None:
    special = special_of(one)
    flow = special.chief
    assert flow is not None
    end = machine.round_ends.pop(one._seq, None)
    if end is not None:
        machine.timeline.disarm(end)
    # The caller's reading may be older than the one of the worker that opened it.
    run.finished = now if run.started is None or now > run.started else run.started
    if special.permit:
        permits.give_back(machine, special, now, started=run.started is not None)
    machine.discard(one)
    machine.settle_end(run, outcome)
    if special_of(flow).rounds is not None:
        machine.registry.trim_rounds(flow, machine.keep_rounds)


def ask_to_stop(machine: Machine, task: TaskRecord, now: Instant, reason: Reason) -> None:
    """Have a run stop: its flag is set; of a round, whatever has not started is cancelled."""
    set_flag(machine, task)
    special = special_in(task)
    if is_open_round(task) and not ended(task):
        _stop(machine, task, now, reason)
    elif special is not None and special.round is not None:  # a worker is about to open it
        special.round.stopped = special.round.stopped or reason


def _stop(machine: Machine, one: TaskRecord, now: Instant, reason: Reason) -> None:
    """Nothing of the round starts any more, and what runs of it is asked to stop.

    Children before their parents, so that no end of a parent lets one go. What stands in the queue is next: when a
    worker takes one meanwhile, it runs, and is asked to stop.
    """
    round = round_of(one)
    round.stopped = round.stopped or reason
    set_flag(machine, one)
    for task in reversed(machine.registry.tasks_of(one)):
        if not ended(task):
            machine.discard(task)
            cancel(machine, task, now, reason)
