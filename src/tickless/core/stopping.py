"""Asking a run to stop. Under the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless.core.record import QUEUED, RunRecord, TaskRecord

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def ask_to_stop(machine: Machine, task: TaskRecord) -> None:
    """Set the stop flag of the task's run, whether or not somebody looks at it yet.

    A worker that has the task may not have made its run yet: it is told, and then looked at again. It looks whether it
    was told once the run is there, so that one of the two sees the other. See tests/races.
    """
    if task._run is QUEUED:
        machine.to_stop.add(task)
        if task._run is QUEUED:  # the look after the store
            return
        machine.to_stop.discard(task)
    run = task._run
    if run is not None:
        set_stop(run)


def set_stop(run: RunRecord) -> None:
    """Set the run's flag, which somebody may be waiting for."""
    if run.stop is None:
        run.stop = True
    elif run.stop is not True:
        run.stop.set()


def is_to_stop(run: RunRecord) -> bool:
    """Whether the run was asked to stop: such a run is not tried again."""
    return run.stop is True or (run.stop is not None and run.stop.is_set())
