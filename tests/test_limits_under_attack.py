"""Limits where clocks are set, rules break and plans change: each was wrong once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.rules.custom import Squares
from tests.test_limits import NOON, Fires, noon, nothing, us_of
from tickless import Reason, Rule, Scheduler, State, after, cron, every
from tickless.instants import SECOND_US, Instant
from tickless.policies import jitter_of
from tickless.testing import FakeClock, InlinePool, ManualPool


@pytest.mark.parametrize("rule", [cron("0 0 * * *"), every(hours=24)])
@pytest.mark.parametrize("id", ["x", "y", "z"])
def test_jitter_of_hours_runs_each_occurrence_once(rule: Rule, id: str) -> None:
    """It was taken for a clock that was set back by hours, and the same fire planned again, for ever."""
    world = Fires(rule, jitter=6 * 3600, id=id)
    world.after(days=6)
    dues = [run.due for run in world.task.runs()]
    assert len(dues) >= 5
    assert len(set(dues)) == len(dues)


@pytest.mark.parametrize("id", ["a", "b", "c", "d"])
def test_a_clock_set_back_during_a_run_with_jitter_repeats_nothing(id: str) -> None:
    clock, pool = FakeClock(start=NOON), ManualPool()
    scheduler = Scheduler(pool, clock=clock, observers=[])
    scheduler.start()
    task = scheduler.schedule(nothing, cron("0 * * * *"), jitter=2 * 3600, id=id)
    clock.advance(timedelta(hours=3))
    clock.step_wall(timedelta(hours=-2, minutes=-54))
    for _ in range(12):
        pool.run_all()
        clock.advance(timedelta(hours=1))
    dues = [run.due for run in task.runs() if run.state is State.SUCCEEDED]
    assert len(set(dues)) == len(dues) > 3


@pytest.mark.parametrize("hours", [5, 7, 11])
@pytest.mark.parametrize("id", ["w", "x", "y", "z"])
def test_no_fire_starts_before_its_own_jittered_instant(hours: int, id: str) -> None:
    """After a suspend the newest fire runs; its jitter is not that of the one that came up."""
    world = Fires(cron("0 * * * *"), jitter=1800, id=id)
    for minutes in (7, 1, 29):
        world.clock.suspend(timedelta(hours=hours, minutes=minutes))
        world.after(minutes=40)
    for run in world.task.runs():
        if run.state is State.SUCCEEDED:
            assert run.due_us is not None
            assert run.started_us is not None
            assert run.started_us >= run.due_us + jitter_of(id, run.due_us, 1800 * SECOND_US)


def test_a_rolling_end_does_not_move_the_plan() -> None:
    """Each deployment says "until a month from now": the task still runs every day."""
    world = Fires(every(hours=24), id="x", until=noon(days=30))
    for day in range(20):
        world.after(hours=23)
        world.scheduler.schedule(world.note, every(hours=24), id="x", exists="update", until=noon(days=30 + day))
    assert len(world.at) == 19
    world.scheduler.schedule(world.note, every(hours=24), id="x", exists="update", until=noon(days=21))
    world.after(days=9)
    assert (len(world.at), world.task.reason) == (21, Reason.NO_NEXT_FIRE)


def test_a_rule_that_cannot_tell_a_later_fire_loses_none_that_was_planned() -> None:
    """30 March exists, and 31 March 02:30 does not: the error comes with the plan of that one."""
    clock = FakeClock(start=datetime(2030, 3, 29, 12, tzinfo=UTC))
    scheduler = Scheduler(InlinePool(), clock=clock, observers=[])
    scheduler.start()
    task = scheduler.schedule(nothing, cron("30 2 * * *", tz="Europe/Berlin", gap="raise"))
    clock.advance(timedelta(hours=20))
    assert [run.state for run in task.runs()] == [State.SUCCEEDED, State.FAILED]
    assert (task.state, task.reason) == (State.FAILED, Reason.RULE)


def test_an_end_before_a_time_that_does_not_exist_is_a_plain_end() -> None:
    """The fire that could not be told lies beyond `until`."""
    clock = FakeClock(start=datetime(2030, 3, 29, 12, tzinfo=UTC))
    scheduler = Scheduler(InlinePool(), clock=clock, observers=[])
    scheduler.start()
    rule = cron("30 2 * * *", tz="Europe/Berlin", gap="raise")
    task = scheduler.schedule(nothing, rule, until=datetime(2030, 3, 30, 12, tzinfo=UTC))
    clock.advance(timedelta(days=3))
    assert [run.state for run in task.runs()] == [State.SUCCEEDED]
    assert (task.state, task.reason) == (State.SUCCEEDED, Reason.NO_NEXT_FIRE)


class Curious(Squares):
    """A user's own rule that looks at the scheduler whenever it is asked anything."""

    look: Any = None

    @property
    def wall(self) -> bool:  # type: ignore[override]  # foreign code
        if Curious.look is not None:
            Curious.look()
        return False


def test_no_rule_of_your_own_is_asked_anything_under_the_lock() -> None:
    """Not even on which clock it is, when an update compares it."""
    world = Fires(after(1))
    locked: list[bool] = []
    world.scheduler.schedule(nothing, Curious(), id="x", until=noon(days=9))
    Curious.look = lambda: locked.append(world.scheduler._store.lock.locked())
    try:
        world.scheduler.schedule(nothing, Curious(), id="x", until=noon(days=8), exists="update")
    finally:
        Curious.look = None
    assert not any(locked)


def test_the_text_of_what_a_rule_raises_is_made_without_the_lock() -> None:
    """Foreign code too, should it be no Exception."""
    locked: list[bool] = []

    class Odd(BaseException):
        def __str__(self) -> str:
            locked.append(world.scheduler._store.lock.locked())
            return "odd"

    @dataclass(frozen=True)
    class Raises(Squares):
        def next_after(self, after: Instant) -> Instant | None:
            if after > us_of(NOON) + 3600 * SECOND_US:
                raise Odd
            return Instant(after + 600 * SECOND_US)

    world = Fires(Raises())
    world.after(hours=3)
    assert (world.task.state, world.task.reason) == (State.FAILED, Reason.RULE)
    assert not any(locked)
