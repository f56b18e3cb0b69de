"""The dispatcher's sleep: it ends when it must, and its end alone starts nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import pytest

from tests.cases.kit import PATIENCE_S, ParkingClock, VicePool, dues, inline, seconds, starts
from tickless import Instant, Pool, Scheduler, SystemClock, Task, after, every
from tickless.bell import Bell
from tickless.clocks import LONGEST_SLEEP_S, UNWATCHED_SLEEP_S
from tickless.instants import SECOND_US, Waitable
from tickless.testing import FakeClock, InlinePool, ManualPool


@contextmanager
def parked() -> Iterator[tuple[Scheduler, ParkingClock]]:
    """A scheduler whose dispatcher sleeps, in a thread of its own, until a task an hour away."""
    clock = ParkingClock()
    with Scheduler(InlinePool(), clock=clock, observers=[]) as scheduler:
        scheduler.schedule(int, every(hours=1), id="hourly")
        clock.parked_until(3600)
        yield scheduler, clock


def test_BUG_001_task_due_earlier_ends_the_sleep() -> None:
    """In life: the new task runs when the old deadline comes round, an hour late."""
    with parked() as (scheduler, clock):
        task = scheduler.schedule(int, after(60))
        clock.parked_until(60)
        clock.hand.advance(60)
        assert task.wait(PATIENCE_S)
        assert starts(task.runs()) == [60]
        clock.parked_until(3600)


def test_BUG_001_task_that_is_moved_earlier_ends_the_sleep() -> None:
    """In life: somebody changes hourly to each minute, and waits an hour to see it."""
    ran = threading.Event()
    with parked() as (scheduler, clock):
        scheduler.schedule(ran.set, every(minutes=1), id="hourly", exists="update")
        clock.parked_until(60)
        clock.hand.advance(60)
        assert ran.wait(PATIENCE_S)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["its own thread", "another thread"])
def test_BUG_001_task_that_comes_between_the_look_and_the_sleep_is_seen(elsewhere: bool) -> None:
    """In life: once in a million adds the wake-up gets lost, and nobody can repeat it."""
    tasks: list[Task[Any]] = []
    with parked() as (scheduler, clock):

        def add() -> None:
            tasks.append(scheduler.schedule(int, after(60)))

        def gap() -> None:
            adder = threading.Thread(target=add)
            adder.start()
            adder.join()

        clock.gap = gap if elsewhere else add
        scheduler.schedule(int, after(1800))  # any ring: on its way back to sleep the dispatcher passes the gap
        clock.parked_until(60)
        clock.hand.advance(60)
        assert tasks[0].wait(PATIENCE_S)


def test_BUG_001_every_one_of_two_threads_tasks_is_woken_for() -> None:
    """In life: 0.1 % of the tasks sleep on until something else happens to wake the dispatcher. Each here is alone."""
    lost: list[int] = []

    def add_one_after_the_other(seed: int) -> None:
        rng = random.Random(seed)
        for number in range(500):
            if not scheduler.schedule(int, after(rng.uniform(0, 0.002))).wait(PATIENCE_S):
                lost.append(number)
                return

    with Scheduler(slots=2, observers=[]) as scheduler:
        adders = [threading.Thread(target=add_one_after_the_other, args=(seed,)) for seed in (1, 2)]
        for adder in adders:
            adder.start()
        for adder in adders:
            adder.join()
    assert lost == []


def test_BUG_001_no_task_of_a_flood_from_two_threads_is_missing_or_early() -> None:
    """In life: under load some tasks never run. 2 x 10,000 adds with random due times, on a real clock."""
    tasks: list[list[Task[int]]] = [[], []]

    def flood(seed: int) -> None:
        rng = random.Random(seed)
        tasks[seed] += [scheduler.schedule(int, after(rng.uniform(0, 0.2))) for _ in range(10_000)]

    with Scheduler(slots=2, observers=[], keep_finished=20_000) as scheduler:
        adders = [threading.Thread(target=flood, args=(seed,)) for seed in (0, 1)]
        for adder in adders:
            adder.start()
        for adder in adders:
            adder.join()
        assert scheduler.wait(PATIENCE_S)
        runs = [task.last_run for task in (*tasks[0], *tasks[1])]
    assert len(runs) == 20_000
    assert all(run and run.started_us and run.due_us and run.started_us >= run.due_us for run in runs)


class SlicingClock(ParkingClock):
    """Goes by itself while it is waited on, in slices of at most a minute, and stands still at `end`."""

    def __init__(self, end_s: float) -> None:
        super().__init__()
        self.end = Instant(self.now() + int(end_s * SECOND_US))
        self.slices = 0

    def wait(self, bell: Waitable, until: Instant | None) -> None:
        left_us = (self.end if until is None else min(until, self.end)) - self.now()
        if left_us <= 0:
            bell.wait(None)
        elif not bell.wait(0):
            self.slices += 1
            self.hand.advance(min(left_us, 60 * SECOND_US) / SECOND_US)


def test_BUG_005_end_of_a_slice_of_the_wait_is_not_the_due_moment() -> None:
    """In life: a monthly task fires hundreds of times a minute, since its wait is longer than the timer can count."""
    days_30 = 30 * 86_400
    clock = SlicingClock(days_30 + 5)
    ran = threading.Event()
    scheduler = Scheduler(InlinePool(), clock=clock, observers=[])
    task = scheduler.schedule(ran.set, every(timedelta(days=30)))
    with scheduler:
        assert ran.wait(PATIENCE_S)
        assert starts(task.runs()) == [days_30]
        assert clock.slices >= days_30 / 60


@pytest.mark.parametrize("days", [30, 3650, 7_000 * 365])
def test_BUG_005_wait_longer_than_any_timer_neither_fires_nor_breaks_the_sleep(days: int) -> None:
    """In life: the delay overflows the platform's timer, which then fires at once. On the real clock."""
    with Scheduler(slots=1, observers=[]) as scheduler:
        far = scheduler.schedule(int, after(timedelta(days=days)))
        assert scheduler.schedule(int, after(0.001)).wait(PATIENCE_S)
        assert far.state == "pending"
        assert far.runs() == []


def test_BUG_011_what_came_due_during_a_slow_pass_is_served_before_any_sleep() -> None:
    """In life: a submit takes 55 s, and the next wait is computed from the time before it: 55 s too long."""
    clock = ParkingClock()

    def slow(submits: int) -> Future[Any] | None:
        if submits == 1:
            clock.hand.advance(55)
        return None

    with Scheduler(Pool(VicePool(slow), slots=4), clock=clock, observers=[]) as scheduler:
        scheduler.schedule(int, after(7200))
        clock.parked_until(7200)
        first, second = (scheduler.schedule(int, after(delay)) for delay in (10, 40))
        clock.parked_until(10)
        clock.hand.advance(10)
        assert second.wait(PATIENCE_S)
        assert seconds(clock.parks.get(timeout=PATIENCE_S)) == 7200, "no sleep lay between the two"
        assert starts(first.runs() + second.runs()) == [10, 65]


class NotingBell(Bell):
    """Notes how long it is slept on, and does not sleep."""

    __slots__ = ("slept_s",)

    def __init__(self) -> None:
        super().__init__()
        self.slept_s: list[float | None] = []

    def wait(self, timeout: float | None) -> bool:
        self.slept_s.append(timeout)
        return False


@pytest.mark.parametrize("watched", [False, True])
def test_BUG_014_no_sleep_is_longer_than_what_notices_a_step(watched: bool) -> None:
    """In life: the system's time is moved, and a timed lock that goes by it sleeps for hours more."""
    clock, bell = SystemClock(), NotingBell()
    with clock.watch(bell) if watched else nullcontext():
        can_see = watched and bell in clock._watched  # a sandbox may refuse the watcher
        for far_s in (20, 3600, 10**9):
            clock.wait(bell, Instant(clock.now() + far_s * SECOND_US))
    longest_s = LONGEST_SLEEP_S if can_see else UNWATCHED_SLEEP_S
    assert len(bell.slept_s) == 3
    assert all(slept is not None and slept <= longest_s for slept in bell.slept_s)
    assert bell.slept_s[0] == pytest.approx(20, abs=5)


def test_BUG_008_one_shot_that_is_looked_at_late_runs_and_says_how_late() -> None:
    """In life: a task picked up 1.2 s late is beyond a grace of one second, and is dropped with a line in the log."""
    clock = FakeClock()
    scheduler = Scheduler(InlinePool(), clock=clock, observers=[])
    task = scheduler.schedule(int, after(10))
    clock.advance(11.2)
    with scheduler:
        assert task.state == "succeeded"
        run = task.last_run
        assert run is not None
        assert run.lateness == timedelta(seconds=1.2)


def test_BUG_008_single_late_fire_of_a_long_interval_runs() -> None:
    """In life: the one fire in three days is dropped for a second, and the next comes in three days."""
    clock = FakeClock()
    scheduler = Scheduler(InlinePool(), clock=clock, observers=[])
    task = scheduler.schedule(int, every(timedelta(days=3)))
    clock.advance(3 * 86_400 + 1.2)
    with scheduler:
        assert dues(task.runs()) == [3 * 86_400]
        assert [run.state for run in task.runs()] == ["succeeded"]


def test_BUG_087_burst_runs_in_the_order_of_scheduling() -> None:
    """In life: five hundred tasks on the full hour, and some wait for ever since others come first each time."""
    order: list[int] = []
    with inline() as (scheduler, clock):
        for number in range(500):
            scheduler.schedule(order.append, every(hours=1, anchor="epoch"), args=(number,))
        clock.advance(3600)
        assert order == list(range(500))
        clock.advance(99 * 3600)
        assert order == list(range(500)) * 100, "and so each time, on the grid"


def test_BUG_087_jitter_spreads_a_burst_the_same_way_each_time() -> None:
    """In life: five hundred hourly tasks on the full hour flood the pool, for ever in phase."""

    def rounds() -> list[list[tuple[int, int]]]:
        with inline() as (scheduler, clock):
            every_hour = every(hours=1, anchor="epoch")
            tasks = [scheduler.schedule(int, every_hour, id=f"t{n}", jitter=300) for n in range(500)]
            clock.advance(20 * 3600 + 300)
            return [[(run.due_us or 0, run.started_us or 0) for run in task.runs()] for task in tasks]

    first = rounds()
    assert rounds() == first, "the same ids, the same instants"
    hour = 3600 * SECOND_US
    for runs in first:
        assert len(runs) == 20
        assert all(due % hour == 0 for due, _ in runs), "the plan stays on the grid"
        assert all(0 <= started - due < 300 * SECOND_US for due, started in runs)
    assert len({started for runs in first for _, started in runs}) > 9_900, "spread"


def test_BUG_087_add_during_a_burst_is_not_behind_it() -> None:
    """In life: while a burst is worked off the program that wants to add a task stands still."""
    clock, pool = FakeClock(), ManualPool(slots=2)
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        for _ in range(500):
            scheduler.schedule(int, every(hours=1, anchor="epoch"))
        clock.advance(3600)
        urgent = scheduler.schedule(int, priority=1)
        pool.run_next()
        assert urgent.state == "succeeded"
        assert pool.run_all() >= 500
