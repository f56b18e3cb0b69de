"""`exists="keep"` and `exists="update"`: what becomes of a listed task when another of its id comes. Under the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless import policies
from tickless.core import graph
from tickless.core.cancel import cancel
from tickless.core.record import TaskRecord, due_of, ended, more_of
from tickless.errors import DependencyError, shown
from tickless.instants import Instant
from tickless.states import Exists, Reason

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def enter_or(machine: Machine, exists: Exists, new: TaskRecord, now: Instant) -> TaskRecord:
    """Enter `new`, or keep or update the task that has its id. Gives the one that is there now.

    An update leaves an unchanged rule its next fire and its history. A task that is running once, that waits for
    parents, or that has ended is not changed: it makes room, and lives on, or ends (replaced), under its own handle.
    Raises DependencyError where tasks would wait for a recurring one, or for themselves.
    """
    machine.registry.trim()
    there = None if new._id is None else machine.registry.named.get(new._id)
    if there is not None and exists == "keep":
        return there
    if there is not None and _stays(machine, there, new):
        if new._rule is not None:
            _check_children(machine, there)
        _update(machine, there, new, now)
        return there
    if there is not None:
        if new._parents:
            machine.registry.check_parents(new)
            graph.check_replacement(there, new, machine.registry.live)
        del machine.registry.named[there._id or ""]
    machine.registry.admit(new)
    machine.enter(new, now)
    if there is not None:  # after the new one is in, so that there is no moment of idleness
        machine.discard(there)
        cancel(machine, there, now, Reason.REPLACED, ask=False)
    return new


def _check_children(machine: Machine, there: TaskRecord) -> None:
    if any(child in machine.waiting for child in there._children or ()):
        raise DependencyError(
            f"id {shown(there._id)}: tasks wait for its end, and an update to a recurring task would have them wait "
            "for ever; cancel it first, or schedule the recurring task under another id"
        )


def _busy(task: TaskRecord) -> bool:
    return task._run is not None and bool(task._run.state.after)


def _stays(machine: Machine, there: TaskRecord, new: TaskRecord) -> bool:
    """Whether the task can become what `new` says without a new life.

    A worker may end a plain task this very moment. So it is asked first whether it is busy, and then whether it has
    ended: a task that is not busy becomes so under the lock only.
    """
    if there in machine.waiting or new._parents:
        return False
    if _busy(there):
        return there._rule is not None and new._rule is not None
    return not ended(there)


def _update(machine: Machine, there: TaskRecord, new: TaskRecord, now: Instant) -> None:
    if _busy(there):
        more = more_of(there)
        machine.trash.append(more.update)
        more.update = new  # not under the run: a worker may be reading the work and its arguments
        return
    first = become(machine, there, new)
    if first is not None:
        machine.place(there, first, now)


def _take_limits(there: TaskRecord, new: TaskRecord) -> bool:
    """Limits on the schedule count from here. True when the jitter changed, and so the place."""
    jitter_us, runs_left = (0, None) if new._more is None else (new._more.jitter_us, new._more.runs_left)
    if there._more is None and new._more is None:
        return False
    more = more_of(there)
    more.runs_left = runs_left
    changed = more.jitter_us != jitter_us
    more.jitter_us = jitter_us
    return changed


def become(machine: Machine, there: TaskRecord, new: TaskRecord) -> Instant | None:
    """Update a task that no run holds. Gives the new first fire when the rule, and so its place, changed; else None."""
    machine.discard(there)
    there._work, there._args, there._kwargs = new._work, new._args, new._kwargs
    there._name, there._priority = new._name, new._priority
    due = None if there._entry is None else due_of(there)
    is_spread_anew = _take_limits(there, new)
    if there._rule is not None and new._rule is not None and policies.same_rule(there._rule, new._rule):
        there._rule = policies.ending_as(there._rule, new._rule)
        if due is None or not is_spread_anew:
            return None
        machine.unplace(there)
        return due
    there._rule, there._wall = new._rule, new._wall
    if there._more is not None:
        there._more.recurring, there._more.when = False, None  # what it was to become once; now `rule` tells
    machine.questions.drop(there)
    machine.unplace(there)
    if new._rule is None:
        there._run = None  # its runs are history: it has one more to come, and has not ended with the last one
    return new._due
