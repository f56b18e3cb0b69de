"""What the machine does between two runs: its order of stores, users' own grids, and what an update leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.faults.world import World
from tickless import Reason, State, after, every
from tickless.core.record import TaskRecord, ended
from tickless.instants import SECOND_US, Instant, datetime_of
from tickless.records import SUCCESS
from tickless.rules import Rule
from tickless.stores.memory import MemoryStore
from tickless.testing.drafts import NOON_US, draft, later


def nothing() -> None: ...


@dataclass(frozen=True)
class OwnGrid:
    """A user's own rule: each multiple of its step. Binding gives an equal rule, and not the same one."""

    step_us: int = SECOND_US
    recurring = True
    wall = False

    def bound(self, now: Instant) -> Rule:
        return replace(self)

    def next_after(self, after: Instant) -> Instant | None:
        return Instant((after // self.step_us + 1) * self.step_us)


def test_a_users_own_grid_that_is_bound_to_a_copy_records_what_a_slow_run_missed() -> None:
    """In life: "why did the 10:05 not run?" has no answer in the list of runs."""
    world = World()
    beat = world.scheduler.schedule(lambda: world.clock.advance(3.5), OwnGrid())
    world.clock.advance(1)
    skipped = [run for run in beat.runs() if run.state is State.SKIPPED]
    assert [(run.reason, run.count) for run in skipped] == [(Reason.OVERLAP, 3)]
    assert [world.second(datetime_of(run.due_us or Instant(0))) for run in skipped] == [2]
    assert world.second(beat.next_fire) == 5


def test_a_users_own_sliding_rule_still_counts_from_the_finish() -> None:
    """Binding gives another rule there: nothing is missed, and nothing is recorded."""

    @dataclass(frozen=True)
    class Sliding:
        fire: int = 0
        recurring = True
        wall = False

        def bound(self, now: Instant) -> Rule:
            return Sliding(now + SECOND_US)

        def next_after(self, after: Instant) -> Instant | None:
            return Instant(self.fire) if after < self.fire else None

    world = World()
    beat = world.scheduler.schedule(lambda: world.clock.advance(3.5), Sliding())
    world.clock.advance(1)
    assert [run.state for run in beat.runs()] == [State.SUCCEEDED]
    assert world.second(beat.next_fire) == 5.5


# The order of stores


class Watched(TaskRecord):
    """Looks, whenever its rule goes, whether a worker could tell that it has not ended as a plain task does."""

    __slots__ = ()

    @property
    def _rule(self) -> Any:
        return _RULE.__get__(self, TaskRecord)

    @_rule.setter
    def _rule(self, rule: Any) -> None:
        _RULE.__set__(self, rule)
        if rule is None:
            ENDS.append(None if self._more is None else self._more.end)


_RULE: Any = TaskRecord.__dict__["_rule"]
ENDS: list[Any] = []


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_the_end_of_a_recurring_task_is_there_before_its_rule_goes(how: str) -> None:
    """A worker that ends the run between the two would take it for a plain task that succeeded, without the lock."""
    store = MemoryStore()
    task = draft(every(seconds=1), NOON_US, NOON_US)
    task.__class__ = Watched
    store.open()
    store.add(task, NOON_US)
    store.due(later(1), later(1))
    run = store.take(later(1))
    assert run is not None
    ENDS.clear()
    store.cancel(task, later(1)) if how == "cancel" else store.close(later(1))
    reason = Reason.CANCELLED if how == "cancel" else Reason.CLOSED
    assert [(State.CANCELLED, reason)] == ENDS
    assert not ended(task)
    store.finish(run, SUCCESS, later(1))
    assert store.get(task).state is State.CANCELLED


# From recurring to once


@pytest.mark.parametrize("runs", [0, 2])
@pytest.mark.parametrize("has_parent", [False, True])
def test_a_recurring_task_that_an_update_makes_run_once_is_not_recurring(has_parent: bool, runs: int) -> None:
    """It is listed as what it is, and others may wait for it: now it has one end."""
    world = World()
    parent = world.scheduler.schedule(nothing, id="parent")
    after_tasks = [parent] if has_parent else []
    world.scheduler.schedule(world.note("beat"), every(seconds=10), id="x", after_tasks=after_tasks)
    world.clock.advance(10 * runs)
    assert world.scheduler.get("x").recurring
    task = world.scheduler.schedule(world.note("once"), after(5), id="x", exists="update")
    assert not task.info.recurring
    child = world.scheduler.schedule(world.note("child"), after_tasks=["x"])
    world.clock.advance(60)
    assert world.story == ["beat"] * runs + ["once", "child"]
    assert (task.state, child.state) == (State.SUCCEEDED, State.SUCCEEDED)
