"""Cancelling: one compare-and-set decides, and tells the truth about what became of the task. Under the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless.core import crew, history
from tickless.core.record import CANCELLED_RUN, QUEUED, SEQ_BITS, TaskRecord, ended, is_retrying, more_of
from tickless.core.special import Hold, Special, queue_of, special_in
from tickless.core.timeline import SLACK
from tickless.instants import Instant
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
    special = special_in(task)
    if special is not None and special.asides:
        _cancel_asides(machine, task, special, now, reason, ask=ask)
    if special is not None and (special.crew or special.waiter is not None):
        return crew.cancel(machine, task, now, reason, ask=ask)
    if run is QUEUED and queue_of(task, machine.ready).claim(task):
        machine.end_unrun(task, State.CANCELLED, reason, now)
        return Cancelled.CANCELLED
    if run is not None and run.state.after and run.state is not State.PENDING:  # a worker has it, or is about to
        if ask:
            machine.ask_to_stop(task, now, reason)
        if task._rule is not None:
            _no_more_fires(machine, task, reason)
        if special is not None and special.round is not None and ended(task):
            return Cancelled.CANCELLED  # nothing of the round ran
        return Cancelled.ASKED
    # No run, or one that has ended, maybe this very moment: only now can be told an end from a pause between fires.
    if run is not None and ended(task):
        return Cancelled.TOO_LATE
    if special is not None and special.hold in (Hold.ZOMBIE, Hold.BUSY) and not is_retrying(task):
        _end_planless(machine, task, now, reason)
    else:
        machine.end_unrun(task, State.CANCELLED, reason, now)
    return Cancelled.CANCELLED


def _cancel_asides(
    machine: Machine, task: TaskRecord, special: Special, now: Instant, reason: Reason, *, ask: bool
) -> None:
    """Its runs beside the plan are cancelled with it: what runs of them is asked to stop."""
    special.asides = False  # so that none has its turn now
    for one in machine.registry.live_asides(task):
        machine.discard(one)
        cancel(machine, one, now, reason, ask=ask)


def _end_planless(machine: Machine, task: TaskRecord, now: Instant, reason: Reason) -> None:
    """No fire is planned, and the last run has its record: only its code goes on."""
    machine.discard(task)
    more_of(task).end = (State.CANCELLED, reason)
    task._rule = None
    machine.end(task, now)


def _cancel_plain(machine: Machine, task: TaskRecord, entry: int, now: Instant) -> None:
    """What `end_unrun` does, for a one-shot in the timeline that nobody waits for: this is the path of timeouts."""
    timeline, registry = machine.timeline, machine.registry
    if not task._wall:
        task._due = entry >> SEQ_BITS  # type: ignore[assignment]  # Instant() would cost 60 ns
    task._at = now
    task._run = CANCELLED_RUN
    task._entry = None
    timeline.live -= 1
    task._work = task._args = task._kwargs = None
    registry.finished.append(task)
    del registry.live[task._seq]
    if len(timeline.heap) + len(timeline.flood) > 2 * timeline.live + SLACK:
        timeline.prune(registry.live)
    if len(registry.finished) > registry.trim_above or not registry.live:
        machine.tidy()


def _no_more_fires(machine: Machine, task: TaskRecord, reason: Reason) -> None:
    """A recurring task that runs has no more fires at once, and is CANCELLED when its run ends."""
    more = more_of(task)  # before the rule goes: a worker would end a task without either as a plain one
    more.end = (State.CANCELLED, reason)
    history.begun(machine, task)
    machine.trash.append((more.update, task._rule))
    more.update = None
    task._rule = None
