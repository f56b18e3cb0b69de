"""From the memory store's records to frozen snapshots. Called under the store's lock; costs O(what is shown)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from tickless.core.pauses import pause_of
from tickless.core.record import (
    QUEUED,
    Key,
    RunRecord,
    TaskRecord,
    due_of,
    is_retrying,
    number_of,
    own_run,
    reason_with,
    run_if_of,
    state_with,
)
from tickless.core.special import attempt_of, is_flow, policy_of, queue_of, round_of, special_in
from tickless.records import Run, TaskInfo
from tickless.round_info import RoundInfo, RoundTask
from tickless.states import Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def run_of(task: TaskRecord, run: RunRecord) -> Run:
    special = special_in(task)
    tried = special.attempts if special is not None and run.state in (State.READY, State.PENDING) else ()
    run = own_run(task, run)
    state = run.state  # first: a worker that ends it without the lock stores the end's facts before the state
    over = not state.after
    fires = None if run.extra is None else run.extra.fires
    count, last = (1, None) if fires is None else fires
    return Run(
        task_id=task.id,
        due_us=run.due,
        state=state,
        reason=run.reason if over or state is State.PENDING else None,
        started_us=run.started,
        finished_us=run.finished if over else None,
        error=run.error if over or state is State.PENDING else None,
        lateness_us=None if run.started is None or run.at is None else max(0, run.started - run.at),
        count=count,
        last_due_us=last,
        attempt=tried[-1].number + 1 if tried else attempt_of(run),
        attempts=tried or (() if run.extra is None else run.extra.attempts),
        late_result=None if run.extra is None else run.extra.late,
    )


def runs_of(task: TaskRecord, limit: int | None) -> list[Run]:
    """The newest `limit` runs that are kept, oldest first; those that live come last."""
    run, history, special = task._run, None if task._more is None else task._more.history, special_in(task)
    runs = [(task, run) for run in history or ()]
    if run is not None and (history is None or run.state.after):
        runs.append((task, run))
    if special is not None:
        runs += [(one, one._run) for one in special.crew or () if one._run is not None]
    if limit is not None:
        runs = list(islice(runs, max(0, len(runs) - limit), None))
    return [run_of(owner, run) for owner, run in runs]


def task_of(machine: Machine, task: TaskRecord) -> TaskInfo:
    more, run, special, policy = task._more, task._run, special_in(task), policy_of(task)
    shown = None if run is None else run_of(task, run)  # looked at once: a worker may be about to end it
    state = state_with(task, None if shown is None else shown.state)
    reason = reason_with(task, None if shown is None else shown.reason)
    last = shown
    if special is not None and special.crew and special.crew[-1]._run is not None:
        last = run_of(special.crew[-1], special.crew[-1]._run)
    elif last is None and more is not None and more.history:
        last = run_of(task, more.history[-1])
    pause = pause_of(machine, task) if state.after else None
    if state in (State.READY, State.RUNNING):
        reason = None  # whatever the last run's was
    if pause is not None and state is State.PENDING and task not in machine.waiting:
        reason = Reason.PAUSED
    doing = (task, *(special.crew or ())) if special is not None else (task,)
    limit = None if policy.limit is None else machine.limits[policy.limit].queue
    in_limit = limit is not None and any(one._run is QUEUED and queue_of(one, machine.ready) is limit for one in doing)
    retries = [own.retry_at for own in map(special_in, doing) if own is not None and own.retry_at is not None]
    return TaskInfo(
        id=task.id,
        name=task._name,
        state=state,
        reason=reason,
        next_fire_us=due_of(task) if task._entry is not None and not is_retrying(task) else None,
        last_run=last,
        priority=task._priority,
        parents=tuple(map(_id_of, task._parents)),
        children=tuple(map(_id_of, task._children or ())),
        # One that has ended has let go of its rule; that it has a history shows what it was.
        recurring=task._rule is not None or (more is not None and more.recurring),
        paused=pause is not None,
        pause_reason=None if pause is None else pause.reason,
        paused_until_us=None if pause is None else pause.until,
        retry_at_us=min(retries, default=None),
        waiting_for=policy.limit if in_limit else None,
        tags=policy.tags,
        pool=policy.pool,
        when=task._rule,
        is_flow=is_flow(task),
    )


def round_info_of(machine: Machine, one: TaskRecord) -> RoundInfo:
    """A round and its tasks as they are now. O(its tasks and links)."""
    round, own = round_of(one), one._run
    assert own is not None
    run = run_of(one, own)
    tasks = machine.registry.tasks_of(one)
    names = {task._seq: task._name for task in tasks}
    special = special_in(one)
    assert special is not None
    assert special.chief is not None
    return RoundInfo(
        id=round.id,
        flow_id=special.chief.id,
        due_us=round.due,
        state=run.state,
        reason=run.reason,
        error=run.error,
        started_us=run.started_us,
        finished_us=run.finished_us,
        params=MappingProxyType(dict(round.params)),
        retry_of=round.retry_of,
        tasks=tuple(_round_task(task, names) for task in tasks),
    )


def _round_task(task: TaskRecord, names: Mapping[int, str]) -> RoundTask:
    run = None if task._run is None else run_of(task, task._run)
    numbers = [parent._seq if isinstance(parent, TaskRecord) else number_of(parent) for parent in task._parents]
    return RoundTask(
        name=task._name,
        task_id=task.id,
        state=state_with(task, None if run is None else run.state),
        reason=reason_with(task, None if run is None else run.reason),
        started_us=None if run is None else run.started_us,
        finished_us=None if run is None else run.finished_us,
        error=None if run is None else run.error,
        attempt=1 if run is None else run.attempt,
        parents=tuple(names[number] for number in numbers if number in names),
        run_if=run_if_of(task),
    )


def _id_of(kin: TaskRecord | Key) -> str:
    if isinstance(kin, TaskRecord):
        return kin.id
    return f"#{kin}" if isinstance(kin, int) else kin[1]
