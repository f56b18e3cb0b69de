"""Clocks that jump, slew and stand still under tasks that wait, run, retry, time out, are paused or wait for a rate.

In life: the laptop is closed, NTP puts the clock right, a host is migrated. Retries and timeouts count elapsed time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.cases.kit import dues, fires_skipped, seconds, sound, starts
from tests.faults.world import World, fail
from tickless import Limit, Reason, Retry, Run, State, Task, after, every
from tickless.instants import datetime_of
from tickless.testing import ManualPool

HOUR = 3600
STEPS: dict[str, Callable[[World], object]] = {
    "forward": lambda world: world.clock.step_wall(5 * HOUR),
    "back a little": lambda world: world.clock.step_wall(-2 * HOUR),
    "back by three hours": lambda world: world.clock.step_wall(-3 * HOUR),
    "back by days": lambda world: world.clock.step_wall(-72 * HOUR),
    "slew forward": lambda world: [(world.clock.step_wall(0.2), world.clock.advance(0)) for _ in range(5)],  # type: ignore[func-returns-value]
    "slew back": lambda world: [(world.clock.step_wall(-0.2), world.clock.advance(0)) for _ in range(5)],  # type: ignore[func-returns-value]
    "there and back": lambda world: (world.clock.step_wall(4 * HOUR), world.clock.step_wall(-4 * HOUR)),  # type: ignore[func-returns-value]
}
each_step = pytest.mark.parametrize("step", STEPS)
each_rule = pytest.mark.parametrize("anchor", [None, "epoch"], ids=["elapsed", "wall"])


def manual(**options: Any) -> tuple[World, ManualPool]:
    pool = ManualPool(2)
    return World(pool, **options), pool


def go(world: World, pool: ManualPool, span: float) -> None:
    """Let time go by in steps of a second, running what is ready; sound at the end."""
    for _ in range(round(span)):
        world.clock.advance(1)
        pool.run_all()
    sound(world.scheduler)


def goes_on(step: str, anchor: str | None) -> bool:
    """Whether a fire comes within the next interval. After a small step back none is fired again."""
    return anchor is None or step != "back a little"


@each_step
def test_a_retry_begins_when_its_time_has_passed_whatever_the_wall_clock_says(step: str) -> None:
    world, pool = manual()
    task = world.scheduler.schedule(fail, retry=Retry(2, delay=60))
    pool.run_all()
    world.clock.advance(30)
    STEPS[step](world)
    sound(world.scheduler)
    world.clock.advance(29)
    assert (task.state, task.reason) == (State.PENDING, Reason.RETRY)
    world.clock.advance(1)
    assert task.state is State.READY
    pool.run_all()
    assert task.last_run is not None
    assert (task.state, seconds(task.last_run.started_us)) == (State.FAILED, 60)
    sound(world.scheduler)


@each_step
@each_rule
def test_a_retry_of_a_recurring_task_keeps_its_fire_and_its_time(step: str, anchor: Any) -> None:
    """The fire may lie hours ahead of the wall by then, or behind it: it is not fired again, and a next one comes."""
    world, pool = manual()
    task = world.scheduler.schedule(fail, every(minutes=10, anchor=anchor), retry=Retry(2, delay=60))
    go(world, pool, 600)
    assert task.reason is Reason.RETRY
    STEPS[step](world)
    sound(world.scheduler)
    go(world, pool, 60)
    first = task.runs()[0]
    assert (seconds(first.due_us), first.state, first.attempt) == (600, State.FAILED, 2)
    go(world, pool, 601)
    assert (len(dues(task.runs())) >= 2) is goes_on(step, anchor)
    assert len({run.due_us for run in task.runs()}) == len(task.runs()), "no fire has two records"


@each_step
@pytest.mark.parametrize("on_timeout", ["keep", "release"])
@each_rule
def test_a_timeout_counts_elapsed_time_from_the_start_of_the_run(step: str, on_timeout: Any, anchor: Any) -> None:
    world, pool = manual()
    seen: list[object] = []

    def body() -> None:
        if seen:
            return
        world.clock.advance(10)
        STEPS[step](world)
        world.clock.advance(19.9)
        seen.append(task.state)
        world.clock.advance(0.1)
        seen.extend((task.runs()[0].state, task.runs()[0].reason))
        world.clock.advance(5)

    task = world.scheduler.schedule(body, every(minutes=10, anchor=anchor), timeout=30, on_timeout=on_timeout)
    world.clock.advance(600)
    pool.run_next()
    assert seen == [State.RUNNING, State.FAILED, Reason.TIMED_OUT]
    assert task.runs()[0].late_result == "returned"
    sound(world.scheduler)
    go(world, pool, 700)
    assert (len(starts(task.runs())) >= 2) is goes_on(step, anchor)
    assert len({run.due_us for run in task.runs()}) == len(task.runs())


@pytest.mark.parametrize("retry", [None, Retry(2, delay=1)])
def test_a_machine_that_sleeps_under_a_run_ends_it_when_it_wakes(retry: Retry | None) -> None:
    """The time of the sleep counts: whoever waits has waited for so long."""
    world, pool = manual()

    def body() -> None:
        world.clock.suspend(8 * HOUR)

    task = world.scheduler.schedule(body, timeout=30, retry=retry)
    pool.run_next()
    go(world, pool, 3)
    run = task.last_run
    assert run is not None
    assert (task.state, run.reason, run.attempt) == (State.FAILED, Reason.TIMED_OUT, 2 if retry else 1)
    assert len(run.attempts) == (1 if retry else 0)


@each_step
def test_the_window_of_a_rate_is_of_elapsed_time(step: str) -> None:
    world, pool = manual(limits=[Limit("api", starts=1, per=60)])
    tasks = [world.scheduler.schedule(world.timed(n), limit="api") for n in range(3)]
    pool.run_all()
    STEPS[step](world)
    sound(world.scheduler)
    go(world, pool, 130)
    assert world.story == [(0, 0), (1, 60), (2, 120)]
    assert all(task.state is State.SUCCEEDED for task in tasks)


def test_a_single_run_that_waits_for_a_rate_is_let_in_when_the_window_has_passed() -> None:
    """Nobody comes after it, so nobody has the rate looked at for it."""
    world, pool = manual(limits=[Limit("api", starts=1, per=60)])
    for word in ("first", "second"):
        world.scheduler.schedule(world.timed(word), limit="api")
        pool.run_all()
    sound(world.scheduler)
    go(world, pool, 60)
    assert world.story == [("first", 0), ("second", 60)]


def test_a_sleep_of_hours_lets_in_no_more_than_the_rate() -> None:
    world, pool = manual(limits=[Limit("api", starts=2, per=60)])
    for n in range(6):
        world.scheduler.schedule(world.timed(n), limit="api")
    pool.run_all()
    world.clock.suspend(8 * HOUR)
    pool.run_all()
    sound(world.scheduler)
    assert [second for _, second in world.story] == [0, 0, 8 * HOUR, 8 * HOUR]
    go(world, pool, 60)
    assert len(world.story) == 6


# Paused


@each_step
@each_rule
@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
def test_a_paused_task_is_held_over_any_step_and_goes_on_afterwards(step: str, anchor: Any, catch_up: Any) -> None:
    world, pool = manual()
    task = world.scheduler.schedule(world.note("x"), every(minutes=10, anchor=anchor), max_catch_up=None)
    once = world.scheduler.schedule(world.note("once"), after(60))
    world.scheduler.pause()
    go(world, pool, 100)
    STEPS[step](world)
    sound(world.scheduler)
    go(world, pool, 100)
    assert world.story == []
    assert world.scheduler.resume(catch_up=catch_up) == 2
    go(world, pool, 1)
    assert once.state is State.SUCCEEDED
    go(world, pool, 600)
    assert ("x" in world.story) is goes_on(step, anchor)
    assert len({run.due_us for run in task.runs()}) == len(task.runs())
    assert sum(run.count for run in task.runs() if run.reason is Reason.PAUSED) <= 31


@pytest.mark.parametrize(
    ("step", "resumes_at"),
    [(0.0, 600), (500, 100), (700, 0), (-300, 900), (-4 * HOUR, 600 + 4 * HOUR), (0.2, 600), (-0.2, 600.2)],
)
def test_a_pause_ends_by_the_wall_clock_as_it_was_set(step: float, resumes_at: float) -> None:
    """ "Until 6 o'clock" is what the clock on the wall shows."""
    world, pool = manual()
    task = world.scheduler.schedule(world.note("x"), every(seconds=100))
    task.pause(until=datetime_of(world.clock.wall()) + timedelta(seconds=600))
    world.clock.step_wall(step)
    sound(world.scheduler)
    if resumes_at:
        world.clock.advance(resumes_at - 0.001)
        assert task.info.paused
        world.clock.advance(0.001)
    assert not task.info.paused
    sound(world.scheduler)
    pool.run_all()
    world.clock.advance(100)
    pool.run_all()
    assert "x" in world.story


def test_a_sleep_beyond_the_end_of_a_pause_ends_it_and_later_fires_are_missed_ones() -> None:
    world, pool = manual()
    task = world.scheduler.schedule(world.note("x"), every(seconds=100))
    task.pause(until=datetime_of(world.clock.wall()) + timedelta(seconds=250))
    world.clock.suspend(1000)
    assert not task.info.paused
    pool.run_all()
    sound(world.scheduler)
    assert fires_skipped(task, Reason.PAUSED) == 2, "those before its end"
    assert fires_skipped(task, Reason.COALESCED) + len(world.story) == 8, "nobody looked at those"
    go(world, pool, 100)
    assert len(world.story) >= 1


@each_step
def test_a_run_by_hand_and_its_handler_do_not_look_at_the_wall_clock(step: str) -> None:
    world, pool = manual()
    got: list[Run] = []
    task: Task[Any] = world.scheduler.schedule(fail, every(minutes=10, anchor="epoch"), on_failure=got.append, grace=1)
    world.clock.advance(30)
    task.run_now()
    STEPS[step](world)
    sound(world.scheduler)
    pool.run_all()
    assert [run.state for run in got if run.reason is None] == [State.FAILED]
    sound(world.scheduler)


@each_step
@each_rule
@pytest.mark.parametrize("overlap", ["queue", "allow", "replace"])
def test_occurrences_that_go_on_over_a_step_are_followed_by_the_next_fire(step: str, anchor: Any, overlap: Any) -> None:
    world, pool = manual()
    task = world.scheduler.schedule(world.note("x"), every(minutes=10, anchor=anchor), overlap=overlap)
    world.clock.advance(1_300)
    assert task.state is State.READY
    STEPS[step](world)
    sound(world.scheduler)
    pool.run_all()
    before = len(world.story)
    assert before >= 1
    go(world, pool, 601)
    assert (len(world.story) > before) is goes_on(step, anchor)
    if step != "there and back":  # those four hours came twice
        assert len({run.due_us for run in task.runs()}) == len(task.runs()), "no fire has two records"
