"""The wall clock was set: what it drives gets another place in the timeline. Under the lock; O(live tasks), rarely."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless.core.questions import consult
from tickless.core.record import TaskRecord
from tickless.core.special import Hold, special_in, special_of
from tickless.instants import Instant
from tickless.policies import REPEAT_US, Plan
from tickless.rules import checked_next

if TYPE_CHECKING:
    from tickless.core.machine import Machine

STEP_US = 250_000
"""An offset between wall and elapsed clock that moved by more than this is a step: wall entries are re-placed."""
DUE_BATCH = 1024
"""How many entries surface under one hold, so that a flood keeps the lock for long but once: when it is sorted."""


def on_step(machine: Machine, offset: int, wall: Instant) -> None:
    """Re-place what the wall clock drives. Set back by hours, recurring tasks plan anew from there.

    `offset` is wall - now. What runs meanwhile is looked at when it ends: see `policies.after_run`.
    """
    back = machine.offset - offset
    machine.offset = offset
    now = Instant(wall - offset)
    for end in machine.pause_ends.values():
        end.place(now, wall)
    for task in list(machine.registry.live.values()):
        if not task._wall:
            continue
        anew = back >= REPEAT_US and task._rule is not None
        special, run = special_in(task), task._run
        if run is not None and run.state.after:  # its next fire is found when it has ended; a retry is on elapsed time
            if anew:
                special_of(task).since = wall
        elif task._due is None:
            pass
        elif task._entry is not None:
            machine.unplace(task)
            if anew:
                _plan_from(machine, task, wall, now)
            else:
                machine.place(task, task._due, now)
        elif anew and special is not None and special.hold is Hold.FIRE:
            special.hold = None
            _plan_from(machine, task, wall, now)  # to be held again, before another fire
        elif anew and special is not None and special.hold in (Hold.ZOMBIE, Hold.BUSY):
            task._due = min(task._due, wall)


def _plan_from(machine: Machine, task: TaskRecord, wall: Instant, now: Instant) -> None:
    rule = task._rule
    assert rule is not None
    consult(machine, task, rule, lambda: Plan(checked_next(rule, wall)), machine.on_planned, now)
