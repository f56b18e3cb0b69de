"""The wall clock was set: what it drives gets another place in the timeline. Under the lock; O(live tasks), rarely."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless.core.questions import consult
from tickless.core.record import TaskRecord
from tickless.instants import Instant
from tickless.policies import REPEAT_US, Plan
from tickless.rules import Rule, checked_next

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def on_step(machine: Machine, offset: int, wall: Instant) -> None:
    """Re-place what the wall clock drives. Set back by hours, recurring tasks plan anew from there.

    `offset` is wall - now. What runs meanwhile is looked at when it ends: see `policies.after_run`.
    """
    back = machine.offset - offset
    machine.offset = offset
    now = Instant(wall - offset)
    for task in list(machine.registry.live.values()):
        if task._wall and task._entry is not None and task._due is not None:
            machine.unplace(task)
            if task._rule is not None and back >= REPEAT_US:
                _plan_from(machine, task, task._rule, wall, now)
            else:
                machine.place(task, task._due, now)


def _plan_from(machine: Machine, task: TaskRecord, rule: Rule, wall: Instant, now: Instant) -> None:
    consult(machine, task, rule, lambda: Plan(checked_next(rule, wall)), machine.on_planned, now)
