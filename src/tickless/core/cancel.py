"""Cancelling: one compare-and-set decides, and tells the truth about what became of the task. Under the lock."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tickless.core.record import QUEUED, TaskRecord, ended, more_of, queued
from tickless.instants import Instant
from tickless.records import Outcome
from tickless.states import Cancelled, Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def cancel(machine: Machine, task: TaskRecord, now: Instant, reason: Reason, *, ask: bool = True) -> Cancelled:
    """Take the task's future away; what already runs is asked to stop, or with `ask=False` left to end."""
    run = task._run
    if run is QUEUED and machine.ready.claim(task):
        machine.trash.append((task._work, task._args, task._kwargs, task._rule, task))
        run = task._run = queued(task)
        run.finished = now
        machine.conclude(run, task, Outcome(State.CANCELLED, reason=reason))
        machine.remember(task, run)
        task._rule = None
        machine.end(task, now)
        return Cancelled.CANCELLED
    if run is not None and run.state.after:  # a worker has it, or is about to
        if ask:
            ask_to_stop(machine, task)
        if task._rule is not None:
            _no_more_fires(machine, task, reason)
        return Cancelled.ASKED
    # No run, or one that has ended, maybe this very moment: only now can be told an end from a pause between fires.
    if ended(task):
        return Cancelled.TOO_LATE
    machine.end_unrun(task, State.CANCELLED, reason, now)
    return Cancelled.CANCELLED


def _no_more_fires(machine: Machine, task: TaskRecord, reason: Reason) -> None:
    """A recurring task that runs has no more fires at once, and is CANCELLED when its run ends."""
    more = more_of(task)  # before the rule goes: a worker would end a task without either as a plain one
    more.end = (State.CANCELLED, reason)
    if more.history is None:
        more.history = deque(maxlen=machine.keep_runs)
        more.recurring = True
    machine.trash.append((more.update, task._rule))
    more.update = None
    task._rule = None


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
    if run is None:
        return
    if run.stop is None:
        run.stop = True
    elif run.stop is not True:
        run.stop.set()
