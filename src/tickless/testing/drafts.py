"""What the tests of a store are made with: tasks that have entered none, instants, and a waiter that counts."""

from __future__ import annotations

from typing import Any

from tickless.core.record import More, TaskRecord
from tickless.instants import SECOND_US, Instant
from tickless.rules import Rule, first_fire
from tickless.states import RunIf

NOON_US = Instant(1_767_268_800 * SECOND_US)
"""2026-01-01T12:00Z."""


def draft(
    when: Rule | None,
    now: Instant,
    wall: Instant,
    id: str | None = None,
    *,
    parents: tuple[Any, ...] = (),
    run_if: str = "all_succeeded",
    priority: int = 0,
    name: str = "work",
) -> TaskRecord:
    """A task that has not entered a store, as `schedule` makes it: its rule is bound unless it waits for parents.

    Parents are tasks or ids. Its work does nothing, since a store never calls it.
    """
    more = None
    if parents and (when is not None or run_if != "all_succeeded"):
        more = More()
        more.run_if = RunIf(run_if)
    if when is None:
        return TaskRecord(_work, (), None, id, name, priority, None, None if parents else now, False, more, parents)
    if more is not None:
        more.when, more.recurring = when, when.recurring
        return TaskRecord(_work, (), None, id, name, priority, None, None, when.wall, more, parents)
    bound = when.bound(wall if when.wall else now)
    due = first_fire(bound, wall if when.wall else now)
    return TaskRecord(_work, (), None, id, name, priority, bound if when.recurring else None, due, when.wall, None)


def _work() -> None:
    """Nobody calls it."""


def later(seconds: float) -> Instant:
    """So many seconds after noon, which is when every test begins."""
    return Instant(NOON_US + round(seconds * SECOND_US))


class Bell:
    """A waiter that counts its rings."""

    rings = 0

    def ring(self) -> None:
        self.rings += 1
