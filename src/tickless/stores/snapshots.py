"""From the memory store's records to frozen snapshots. Called under the store's lock; costs O(what is shown)."""

from __future__ import annotations

from itertools import islice

from tickless.core.record import RunRecord, TaskRecord, reason_of, state_of
from tickless.records import Run, TaskInfo
from tickless.states import MOVES


def run_of(run: RunRecord) -> Run:
    count, last = (1, None) if run.fires is None else run.fires
    return Run(
        run.task.public_id,
        run.due,
        run.state,
        run.reason,
        run.started,
        run.finished,
        run.error,
        count,
        last,
    )


def runs_of(task: TaskRecord, limit: int | None) -> list[Run]:
    """The newest `limit` runs that are kept, oldest first; one that lives comes last."""
    run, history = task.run, None if task.more is None else task.more.history
    runs = [] if history is None else list(history)
    if run is not None and (history is None or MOVES[run.state]):
        runs.append(run)
    if limit is not None:
        runs = list(islice(runs, max(0, len(runs) - limit), None))
    return [run_of(run) for run in runs]


def task_of(task: TaskRecord) -> TaskInfo:
    more = task.more
    state = state_of(task)
    return TaskInfo(
        id=task.public_id,
        name=task.label,
        state=state,
        reason=reason_of(task),
        next_fire_us=task.due if task.entry is not None or (task.run is None and MOVES[state]) else None,
        last_run=None if task.run is None else run_of(task.run),
        priority=task.priority,
        parents=() if more is None else tuple(p if isinstance(p, str) else p.public_id for p in more.parents),
        children=() if more is None else (*more.kin, *(child.public_id for child in more.children)),
        recurring=task.rule is not None or (more is not None and more.recurring),
    )
