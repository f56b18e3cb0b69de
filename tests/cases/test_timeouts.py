"""A run that takes too long has failed, for everybody and for good; its thread goes on, and is let back in quietly."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Literal

import pytest

from tests.cases.kit import PATIENCE_S, Ear, dues, fires_skipped, ready, seconds, sound, starts
from tickless import (
    Cancelled,
    EventKind,
    Limit,
    Reason,
    Retry,
    Scheduler,
    State,
    Stopped,
    Task,
    after,
    current_run,
    every,
)
from tickless.testing import FakeClock, ManualPool

MINUTE = every(minutes=1)
OnTimeout = Literal["keep", "release"]
each_way = pytest.mark.parametrize("on_timeout", ["keep", "release"])


def bench(slots: int = 1, **options: Any) -> tuple[Scheduler, FakeClock, ManualPool]:
    clock, pool = FakeClock(), ManualPool(slots)
    scheduler = Scheduler(pool, clock=clock, **{"observers": [], **options})
    scheduler.start()
    return scheduler, clock, pool


def states(task: Task[Any]) -> list[tuple[str, Reason | None]]:
    return [(run.state.value, run.reason) for run in task.runs()]


FAILED = ("failed", Reason.TIMED_OUT)
SUCCEEDED = ("succeeded", None)


# The late return


@each_way
def test_BUG_027_late_return_of_a_run_that_timed_out_is_a_note_and_no_move(on_timeout: OnTimeout) -> None:
    """In life: minutes after everybody was told "failed" it turns into "succeeded", and its children run after all."""
    ear = Ear()
    scheduler, clock, pool = bench(observers=[ear])
    seen: list[object] = []

    def work() -> int:
        clock.advance(5)
        seen.extend((task.state, task.reason, child.state, child.reason, alarm.state, bool(flag())))
        clock.advance(55)
        return 42

    def flag() -> object:
        return current_run().stop_requested

    task = scheduler.schedule(work, timeout=5, on_timeout=on_timeout)
    child = scheduler.schedule(int, after_tasks=[task])
    alarm = scheduler.schedule(int, after_tasks=[task], run_if="any_failed")
    pool.run_next()
    assert seen == ["failed", "timed_out", "skipped", "parent_failed", "ready", True]
    pool.run_all()
    assert (task.state, task.reason, child.state, alarm.state) == (*FAILED, "skipped", "succeeded")
    run = task.last_run
    assert run is not None
    assert (run.late_result, seconds(run.finished_us)) == ("returned", 5)
    with pytest.raises(TimeoutError, match="timeout of 5 s"):
        task.result(timeout=0)
    about = [event.kind for event in ear.events if event.task_id == task.id]
    assert about.count(EventKind.FAILED) == 1
    assert EventKind.SUCCEEDED not in about
    sound(scheduler)


@pytest.mark.parametrize(
    ("error", "note"),
    [(ValueError("too late"), "raised ValueError: too late"), (Stopped("asked"), "raised Stopped: asked")],
)
def test_BUG_027_what_a_late_run_raises_is_a_note_too(error: Exception, note: str) -> None:
    """In life: "cancelled" is written over "failed", since the body obeyed its stop flag."""
    scheduler, clock, pool = bench()

    def work() -> None:
        clock.advance(6)
        raise error

    task = scheduler.schedule(work, timeout=5)
    pool.run_all()
    assert (task.state, task.reason) == FAILED
    assert task.last_run is not None
    assert task.last_run.late_result == note
    assert task.cancel() is Cancelled.TOO_LATE
    sound(scheduler)


def test_BUG_027_run_that_is_asked_to_stop_and_then_times_out_has_one_end() -> None:
    """In life: cancel and the watchdog each write an end of their own."""
    scheduler, clock, pool = bench()

    def work() -> None:
        assert task.cancel() is Cancelled.ASKED
        clock.advance(10)

    task = scheduler.schedule(work, timeout=5, retry=Retry(3))
    pool.run_all()
    assert states(task) == [FAILED]
    assert task.runs()[0].attempts == (), "what was asked to stop is not tried again"
    clock.advance(100)
    assert len(pool) == 0
    sound(scheduler)


@each_way
def test_BUG_027_endless_function_in_a_thread_is_given_up_and_its_return_changes_nothing(on_timeout: OnTimeout) -> None:
    """In life: no thread can be killed, so the run hangs, and with it whoever waits. With threads."""
    gate, back = threading.Event(), threading.Event()

    def work() -> int:
        assert gate.wait(PATIENCE_S)
        return 42

    with ThreadPoolExecutor(2) as pool, Scheduler(pool, observers=[]) as scheduler:
        task = scheduler.schedule(work, timeout=0.01, on_timeout=on_timeout)
        child = scheduler.schedule(int, after_tasks=[task])
        assert task.wait(PATIENCE_S)
        assert child.wait(PATIENCE_S)
        before = (task.info, child.info)
        assert (task.state, task.reason) == FAILED
        assert scheduler.pools()["default"].zombies == 1
        gate.set()
        scheduler.schedule(back.set).wait(PATIENCE_S)
        while scheduler.pools()["default"].zombies:
            scheduler.schedule(int).wait(PATIENCE_S)
        assert task.last_run is not None
        assert task.last_run.late_result == "returned"
        assert (task.state, child.info) == (before[0].state, before[1])
        sound(scheduler)


# The next fire


def out_of_time(clock: FakeClock) -> None:
    clock.advance(45)


@each_way
def test_BUG_015_run_that_times_out_frees_its_task(on_timeout: OnTimeout) -> None:
    """In life: the watchdog ends the run, nobody frees the guard, and each fire is "already running" from then on."""
    scheduler, clock, pool = bench(slots=2)
    task = scheduler.schedule(out_of_time, every(minutes=2), args=(clock,), timeout=30, on_timeout=on_timeout)
    for _ in range(3):
        clock.advance(75 if task.runs() else 120)
        pool.run_all()
        assert task.state == "pending"
        sound(scheduler)
    assert states(task) == [FAILED] * 3
    assert dues(task.runs()) == [120, 240, 360]
    assert [run.late_result for run in task.runs()] == ["returned"] * 3


def test_BUG_015_zombie_keeps_its_task_busy_exactly_until_it_returns() -> None:
    """In life: two at once of what must never be two at once; or none ever again."""
    scheduler, clock, pool = bench(slots=2)
    seen: list[object] = []

    def work() -> None:
        clock.advance(40)  # to 100: it timed out at 90
        seen.extend((task.state, task.info.next_fire_us, task.skipped_now))
        clock.advance(90)  # to 190
        seen.extend((task.state, task.skipped_now, len(pool)))

    task = scheduler.schedule(work, MINUTE, timeout=30)
    clock.advance(60)
    pool.run_next()
    assert seen == ["pending", None, 0, "pending", 2, 0]
    assert states(task) == [FAILED, ("skipped", Reason.OVERLAP)]
    assert fires_skipped(task, Reason.OVERLAP) == 2
    assert task.next_fire is not None
    assert seconds(task.info.next_fire_us) == 240
    sound(scheduler)


def test_BUG_015_released_task_runs_again_beside_its_zombie() -> None:
    """In life: somebody chose to let go, and it is held all the same."""
    scheduler, clock, pool = bench(slots=2)
    seen: list[object] = []

    def work() -> None:
        if seen:
            return
        clock.advance(60)  # to 120: it timed out at 90, and the next fire has come
        seen.append(task.state)
        seen.extend((pool.run_next(), starts(task.runs())))

    task = scheduler.schedule(work, MINUTE, timeout=30, on_timeout="release")
    clock.advance(60)
    pool.run_next()
    assert seen == ["ready", True, [60, 120]]
    assert states(task) == [FAILED, SUCCEEDED]
    sound(scheduler)


def late_and_broken(clock: FakeClock) -> None:
    clock.advance(31)
    raise ValueError("broken")


ENDS: dict[str, Callable[[FakeClock], object]] = {
    "returns": lambda clock: None,
    "raises": lambda clock: int("x"),
    "exits": lambda clock: (_ for _ in ()).throw(SystemExit(1)),
    "stops": lambda clock: (_ for _ in ()).throw(Stopped()),
    "is interrupted": lambda clock: (_ for _ in ()).throw(KeyboardInterrupt()),
    "times out": lambda clock: clock.advance(31),
    "times out and raises": late_and_broken,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "timeout": {"timeout": 30},
    "release": {"timeout": 30, "on_timeout": "release"},
    "retry": {"timeout": 30, "retry": Retry(2, delay=1)},
    "queue": {"timeout": 30, "overlap": "queue"},
    "allow": {"timeout": 30, "overlap": "allow", "max_running": 1},
    "replace": {"timeout": 30, "overlap": "replace"},
    "limit": {"timeout": 30, "limit": "one"},
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_BUG_015_however_a_run_ends_and_whatever_its_policy_the_next_fire_is_accepted(end: str, settings: str) -> None:
    """In life: one path of thirty does not free the guard."""
    scheduler, clock, pool = bench(slots=1, limits=[Limit("one", running=1)])
    task = scheduler.schedule(ENDS[end], every(minutes=5), args=(clock,), **SETTINGS[settings])
    for fire in (300, 600, 900):
        clock.advance(fire - (seconds(clock.now()) or 0))
        while pool.run_next():
            clock.advance(1)
        assert task.state == "pending"
        assert scheduler.limits()["one"].running == 0
        sound(scheduler)
    assert [run.due_us for run in task.runs()] == sorted({run.due_us for run in task.runs() if run.due_us is not None})
    assert len(task.runs()) == 3


def test_BUG_015_skip_can_be_seen_while_it_happens_and_names_the_run_that_it_meets() -> None:
    """In life: a leak would be seen at once, if anything said what is running, and since when."""
    scheduler, clock, pool = bench()
    seen: list[object] = []

    def work() -> None:
        for _ in range(3):
            clock.advance(50)
            run = task.last_run
            assert run is not None
            seen.append((task.skipped_now, run.state.value, seconds(run.started_us)))

    task = scheduler.schedule(work, MINUTE)
    assert task.skipped_now == 0
    clock.advance(60)
    pool.run_next()
    assert seen == [(0, "running", 60), (1, "running", 60), (2, "running", 60)]
    assert task.skipped_now == 0
    assert fires_skipped(task, Reason.OVERLAP) == 2


# The queue


def test_BUG_044_timeout_counts_from_running_and_not_from_ready() -> None:
    """In life: all workers are busy, and a run is killed before it began."""
    scheduler, clock, pool = bench()
    seen: list[tuple[float | None, str]] = []

    def block() -> None:
        for _ in range(100):
            clock.advance(1)
            seen.append((seconds(clock.now()), task.state.value))

    def work() -> None:
        clock.advance(4.999_999)
        assert task.state == "running"
        clock.advance(0.000_001)
        assert (task.state, task.reason) == FAILED

    scheduler.schedule(block)
    task = scheduler.schedule(work, after(1), timeout=5)
    pool.run_next()
    assert dict(seen)[50] == "ready"
    clock.advance(0)
    pool.run_all()
    run = task.last_run
    assert run is not None
    assert (seconds(run.started_us), seconds(run.finished_us), run.late_result) == (100, 105, "returned")
    assert run.lateness is not None
    assert run.lateness.total_seconds() == 99
    sound(scheduler)


def test_BUG_044_watchdog_needs_no_worker() -> None:
    """In life: the timeouts run in the pool that they watch, and the pool is full of what they should end."""
    scheduler, clock, pool = bench(slots=1)
    seen: list[object] = []

    def block() -> None:
        often = scheduler.schedule(int, every(seconds=1), id="often")
        clock.advance(49)
        seen.append(task.state.value)
        clock.advance(1)
        seen.extend((task.state.value, task.reason, ready(scheduler), often.skipped_now))
        clock.advance(50)
        seen.extend((ready(scheduler), often.skipped_now, len(pool)))

    task = scheduler.schedule(block, timeout=50)
    pool.run_next()
    assert seen == ["running", "failed", "timed_out", 1, 49, 1, 99, 0], "exactly one is ready, and no pile"
    clock.advance(0)
    pool.run_all()
    often = scheduler.get("often")
    assert often.last_run is not None
    assert [(run.state.value, run.count) for run in scheduler.runs("often")] == [
        ("succeeded", 1),
        ("skipped", 98),
        ("succeeded", 1),
    ]
    sound(scheduler)


def test_BUG_044_watchdog_works_while_every_thread_is_blocked() -> None:
    """In life: as above, with threads: nobody is there to notice."""
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool, Scheduler(pool, observers=[]) as scheduler:
        try:
            task = scheduler.schedule(gate.wait, args=(PATIENCE_S,), timeout=0.01)
            behind = scheduler.schedule(int, timeout=0.01)
            assert task.wait(PATIENCE_S)
            assert (task.state, task.reason) == FAILED
            assert behind.state is State.READY, "it has not begun, so its time has not either"
        finally:
            gate.set()
        assert behind.wait(PATIENCE_S)
        with suppress(TimeoutError):  # a machine may be so slow
            assert behind.result() == 0
