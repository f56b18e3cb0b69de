"""What is kept of the runs of a recurring task: the newest `keep_runs`, skipped fires among them. Under the lock."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tickless.core.record import RunRecord, TaskRecord, more_of
from tickless.core.special import RunExtra
from tickless.instants import Instant
from tickless.policies import Skipped
from tickless.records import EventKind
from tickless.states import State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def note_skipped(machine: Machine, task: TaskRecord, skipped: Skipped, now: Instant) -> None:
    """One record for all the fires that did not run."""
    run = RunRecord(task, skipped.first, State.SKIPPED)
    run.finished = now
    run.reason = skipped.reason
    run.extra = RunExtra()
    run.extra.fires = (skipped.fires, skipped.last)
    remember(machine, task, run)
    post = machine.post_end[State.SKIPPED]
    if post is not None:
        post(EventKind.SKIPPED, now, task, run.due, skipped.reason, None, None, skipped.fires)


def remember(machine: Machine, task: TaskRecord, run: RunRecord) -> None:
    """Keep the run, unless the task is a one-shot: its only run is `_run`."""
    if task._rule is None and (task._more is None or task._more.history is None):
        return
    begun(machine, task).append(run)


def begun(machine: Machine, task: TaskRecord) -> deque[RunRecord]:
    """The history of a recurring task. From its first record on the task is listed as recurring, to its end."""
    more = more_of(task)
    if more.history is None:
        more.history = deque(maxlen=machine.keep_runs)
        more.recurring = True
    return more.history
