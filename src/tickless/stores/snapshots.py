"""From the memory store's records to frozen snapshots. Called under the store's lock; costs O(what is shown)."""

from __future__ import annotations

from itertools import islice

from tickless.core.record import Key, RunRecord, TaskRecord, due_of, own_run, reason_with, state_with
from tickless.records import Run, TaskInfo


def run_of(task: TaskRecord, run: RunRecord) -> Run:
    run = own_run(task, run)
    state = run.state  # first: a worker that ends it without the lock stores the end's facts before the state
    over = not state.after
    count, last = (1, None) if run.fires is None else run.fires
    return Run(
        task_id=task.id,
        due_us=run.due,
        state=state,
        reason=run.reason if over else None,
        started_us=run.started,
        finished_us=run.finished if over else None,
        error=run.error if over else None,
        lateness_us=None if run.started is None or run.at is None else max(0, run.started - run.at),
        count=count,
        last_due_us=last,
    )


def runs_of(task: TaskRecord, limit: int | None) -> list[Run]:
    """The newest `limit` runs that are kept, oldest first; one that lives comes last."""
    run, history = task._run, None if task._more is None else task._more.history
    runs = [] if history is None else list(history)
    if run is not None and (history is None or run.state.after):
        runs.append(run)
    if limit is not None:
        runs = list(islice(runs, max(0, len(runs) - limit), None))
    return [run_of(task, run) for run in runs]


def task_of(task: TaskRecord) -> TaskInfo:
    more, run = task._more, task._run
    shown = None if run is None else run_of(task, run)  # looked at once: a worker may be about to end it
    state = state_with(task, None if shown is None else shown.state)
    last = shown
    if last is None and more is not None and more.history:
        last = run_of(task, more.history[-1])
    return TaskInfo(
        id=task.id,
        name=task._name,
        state=state,
        reason=reason_with(task, None if shown is None else shown.reason),
        next_fire_us=due_of(task) if task._entry is not None else None,
        last_run=last,
        priority=task._priority,
        parents=tuple(map(_id_of, task._parents)),
        children=tuple(map(_id_of, task._children or ())),
        # One that has ended has let go of its rule; that it has a history shows what it was.
        recurring=task._rule is not None or (more is not None and more.recurring),
    )


def _id_of(kin: TaskRecord | Key) -> str:
    if isinstance(kin, TaskRecord):
        return kin.id
    return f"#{kin}" if isinstance(kin, int) else kin[1]
