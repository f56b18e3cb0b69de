"""Cancelling: one compare-and-set decides, and tells the truth about what became of the task. Under the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless.core import history
from tickless.core.record import CANCELLED_RUN, QUEUED, SEQ_BITS, TaskRecord, ended, more_of, own_run
from tickless.instants import Instant
from tickless.records import Outcome
from tickless.states import Cancelled, Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def cancel(machine: Machine, task: TaskRecord, now: Instant, reason: Reason, *, ask: bool = True) -> Cancelled:
    """Take the task's future away; what already runs is asked to stop, or with `ask=False` left to end.

    What the task held is the caller's to keep until the lock is free.
    """
    run = task._run
    entry = task._entry
    plain = run is None and task._rule is None and task._more is None and task._children is None
    if plain and entry is not None and reason is Reason.CANCELLED and machine.post_cancelled is None:
        _cancel_plain(machine, task, entry, now)
        return Cancelled.CANCELLED
    if run is QUEUED and machine.ready.claim(task):
        run = task._run = own_run(task, run)
        run.finished = now
        machine.conclude(run, task, Outcome(State.CANCELLED, reason=reason))
        history.remember(machine, task, run)
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
    if run is not None and ended(task):
        return Cancelled.TOO_LATE
    machine.end_unrun(task, State.CANCELLED, reason, now)
    return Cancelled.CANCELLED


def _cancel_plain(machine: Machine, task: TaskRecord, entry: int, now: Instant) -> None:
    """What `end_unrun` does, for a one-shot in the timeline that nobody waits for: this is the path of timeouts."""
    if not task._wall:
        task._due = Instant(entry >> SEQ_BITS)
    task._at = now
    task._run = CANCELLED_RUN
    machine.unplace(task)
    machine.retire(task)
    machine.tidy()


def _no_more_fires(machine: Machine, task: TaskRecord, reason: Reason) -> None:
    """A recurring task that runs has no more fires at once, and is CANCELLED when its run ends."""
    more = more_of(task)  # before the rule goes: a worker would end a task without either as a plain one
    more.end = (State.CANCELLED, reason)
    history.begun(machine, task)
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
