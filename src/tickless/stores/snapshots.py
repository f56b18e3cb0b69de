"""From the memory store's records to frozen snapshots. Called under the store's lock; costs O(what is shown)."""

from __future__ import annotations

from itertools import islice

from tickless.core.record import RunRecord, TaskRecord, due_of, reason_of, state_of
from tickless.records import Run, TaskInfo


def run_of(task: TaskRecord, run: RunRecord) -> Run:
    count, last = (1, None) if run.fires is None else run.fires
    return Run(
        task_id=task.public_id,
        due_us=run.due,
        state=run.state,
        reason=run.reason,
        started_us=run.started,
        finished_us=run.finished,
        error=run.error,
        lateness_us=None if run.started is None or run.at is None else max(0, run.started - run.at),
        count=count,
        last_due_us=last,
    )


def runs_of(task: TaskRecord, limit: int | None) -> list[Run]:
    """The newest `limit` runs that are kept, oldest first; one that lives comes last."""
    run, history = task.run, None if task.more is None else task.more.history
    runs = [] if history is None else list(history)
    if run is not None and (history is None or run.state.after):
        runs.append(run)
    if limit is not None:
        runs = list(islice(runs, max(0, len(runs) - limit), None))
    return [run_of(task, run) for run in runs]


def task_of(task: TaskRecord) -> TaskInfo:
    more = task.more
    state = state_of(task)
    last = task.run
    if last is None and more is not None and more.history:
        last = more.history[-1]
    return TaskInfo(
        id=task.public_id,
        name=task.label,
        state=state,
        reason=reason_of(task),
        next_fire_us=due_of(task) if task.entry is not None else None,
        last_run=None if last is None else run_of(task, last),
        priority=task.priority,
        parents=() if more is None else tuple(map(_id_of, more.parents)),
        children=() if more is None else tuple(map(_id_of, more.kin or more.children or ())),
        # One that has ended has let go of its rule; that it has a history shows what it was.
        recurring=task.rule is not None or (more is not None and more.recurring),
    )


def _id_of(kin: TaskRecord | str | int) -> str:
    if isinstance(kin, TaskRecord):
        return kin.public_id
    return kin if isinstance(kin, str) else f"#{kin}"
