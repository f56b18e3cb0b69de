"""`on_failure`: what is called when a run has failed for good. A run of its own in the task's pool. Under the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless.core.entering import enter_unlisted
from tickless.core.record import More, RunRecord, TaskRecord
from tickless.core.snapshots import run_of
from tickless.core.special import Special
from tickless.instants import Instant
from tickless.policies import Policy
from tickless.records import EventKind
from tickless.states import Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def call(machine: Machine, task: TaskRecord, run: RunRecord, policy: Policy, now: Instant) -> None:
    """Have the handler run with a snapshot of the run. Its own failure is an event, and calls no handler."""
    work = policy.on_failure
    assert work is not None
    more = More()
    more.special = Special(Policy(pool=policy.pool))
    more.special.unlisted = True
    name = getattr(work, "__name__", None)
    handler = type(task)(
        work, (run_of(task, run),), None, f"{task.id}/on_failure", name if type(name) is str else "on_failure",
        task._priority, None, now, False, more, (), task._owner,
    )  # fmt: skip
    if machine.is_closed:
        post = machine.post_end[State.SKIPPED]
        if post is not None:
            post(EventKind.SKIPPED, now, handler, now, Reason.CLOSED)
        return
    enter_unlisted(machine, handler)
    machine.place(handler, now, now)
