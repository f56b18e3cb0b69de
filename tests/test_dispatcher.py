"""The one thread: when it wakes, what it does before it sleeps again, and that nothing ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.faults.clocks import PATIENCE_S, CountingClock
from tests.faults.world import World, fail, our_threads
from tests.observe.observers import Keeper
from tests.pools.executors import Held
from tickless import Call, EventKind, Pool, Scheduler, State, Task, after, at, every
from tickless.testing import FakeClock, InlinePool


def nothing() -> None: ...


@contextmanager
def counted(pool: Any = None, **options: Any) -> Iterator[tuple[Scheduler, CountingClock]]:
    """A started scheduler with a dispatcher of its own, asleep, on a clock that the test moves."""
    clock = CountingClock(**options)
    with (
        ThreadPoolExecutor(2) as threads,
        Scheduler(threads if pool is None else pool, clock=clock, observers=[]) as scheduler,
    ):
        clock.await_waits(1)
        yield scheduler, clock


def all_end(*tasks: Task[Any]) -> bool:
    return all(task.wait(PATIENCE_S) for task in tasks)


def test_what_is_to_run_now_waits_for_the_start() -> None:
    """A scheduler that is never started plans, and others run: its process may end the next moment."""
    story: list[int] = []
    scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
    task = scheduler.schedule(story.append, every(seconds=100), args=(1,))
    scheduler.run_now(task)
    assert (story, task.state) == ([], State.READY)
    with scheduler:
        pass  # its dispatcher finds what is ready
    assert story == [1]


# P7: when it wakes


def test_with_nothing_due_it_sleeps_without_an_end_and_never_wakes() -> None:
    """An idle program costs nothing."""
    with counted() as (scheduler, clock):
        clock.go_to(86_400)
        assert scheduler.tasks() == []
        assert clock.waits == [None]


def test_an_insert_that_becomes_the_earliest_wakes_it_once_and_a_later_one_never() -> None:
    """A thousand tasks for tomorrow are no reason to look whether something is due."""
    with counted() as (scheduler, clock):
        scheduler.schedule(nothing, after(100))
        assert clock.await_waits(2) == [None, 100]
        for seconds in range(101, 1_000):
            scheduler.schedule(nothing, after(seconds))
        scheduler.schedule(nothing, after(100))
        scheduler.schedule(nothing, after(50))
        assert clock.await_waits(3) == [None, 100, 50]
        scheduler.schedule(nothing, after(49.999_999))
        assert clock.await_waits(4) == [None, 100, 50, 49.999_999]


def test_a_later_insert_wakes_it_not_even_while_it_is_just_waking_for_an_earlier_one() -> None:
    """On a busy machine it takes its time between the ring and the look: what comes meanwhile it sees anyway."""
    with counted() as (scheduler, clock):
        with clock.held():
            scheduler.schedule(nothing, after(10))
            clock.await_woken()
            scheduler.schedule(nothing, after(20))
            scheduler.schedule(nothing, after(30))
        assert clock.await_waits(2) == [None, 10]
        scheduler.schedule(nothing, after(5))
        assert clock.await_waits(3) == [None, 10, 5]


def test_a_batch_wakes_it_once() -> None:
    with counted() as (scheduler, clock):
        scheduler.schedule_many([Call(nothing, after(seconds)) for seconds in range(100, 0, -1)])
        assert clock.await_waits(2) == [None, 1]
        scheduler.schedule(nothing, after(0.5))
        assert clock.await_waits(3) == [None, 1, 0.5]


def test_what_is_due_now_needs_no_wake_at_all() -> None:
    """The thread that schedules has the pool take it: two switches of threads less."""
    with counted() as (scheduler, clock):
        tasks = [scheduler.schedule(nothing) for _ in range(100)]
        tasks.append(scheduler.schedule(nothing, after(0)))
        tasks.append(scheduler.schedule(nothing, after_tasks=tasks))
        assert all_end(*tasks)
        assert clock.waits == [None]


def test_it_wakes_once_for_each_distinct_due_instant() -> None:
    """However many are due at it."""
    with counted() as (scheduler, clock):
        head = scheduler.schedule(nothing, after(1))
        assert clock.await_waits(2) == [None, 1]
        tasks = {second: [scheduler.schedule(nothing, after(second)) for _ in range(100)] for second in (1, 2, 3)}
        tasks[1].append(head)
        for second in (1, 2, 3):
            clock.go_to(second)
            assert all_end(*tasks[second])
            expected = [None, 1, 2, 3, None][: second + 2]
            assert clock.await_waits(second + 2) == expected


def test_a_leap_over_many_due_instants_is_one_wake() -> None:
    with counted() as (scheduler, clock):
        tasks = [scheduler.schedule(nothing, after(1))]
        clock.await_waits(2)
        tasks += [scheduler.schedule(nothing, after(second)) for second in range(2, 1_000)]
        clock.go_to(5_000)
        assert all_end(*tasks)
        assert clock.await_waits(3) == [None, 1, None]


def test_a_recurring_task_wakes_it_twice_a_fire_at_most() -> None:
    """For the fire, and for placing the next one: an insert that becomes the earliest."""
    with counted() as (scheduler, clock):
        ran = threading.Semaphore(0)
        beat = scheduler.schedule(ran.release, every(seconds=10))
        clock.await_waits(2)
        for fire in range(1, 11):
            clock.go_to(10 * fire)
            assert ran.acquire(timeout=PATIENCE_S)
            assert clock.await_sleep(10 * fire + 10) <= 2 + 2 * fire
        beat.cancel()


def test_a_cancelled_head_costs_one_wake_at_most_and_other_cancels_none() -> None:
    """A timer that is set and taken back for each request is the commonest use of all."""
    with counted() as (scheduler, clock):
        head = scheduler.schedule(nothing, after(10))
        clock.await_waits(2)
        later = [scheduler.schedule(nothing, after(20 + n)) for n in range(100)]
        for task in later[1:]:
            task.cancel()
        head.cancel()
        clock.go_to(10)
        scheduler.schedule(nothing, after(1))
        assert clock.await_sleep(11) <= 4


def test_a_drained_pool_that_frees_a_slot_wakes_nobody() -> None:
    """A worker that has finished takes the next run itself."""
    with counted() as (scheduler, clock):
        gate = threading.Event()
        tasks: list[Task[Any]] = [scheduler.schedule(gate.wait, args=(PATIENCE_S,)) for _ in range(2)]
        tasks += [scheduler.schedule(nothing) for _ in range(500)]
        gate.set()
        assert all_end(*tasks)
        assert clock.waits == [None]


def test_a_pool_fed_one_by_one_wakes_it_once_a_freed_slot_at_most() -> None:
    held = Held()
    with counted(Pool(held, slots=2)) as (scheduler, clock):
        tasks = [scheduler.schedule(nothing) for _ in range(10)]
        assert len(held.held) == 2
        for task in tasks:
            held.await_one()
            held.run_next()
            assert all_end(task)
        assert held.submits == 10
        assert len(clock.waits) <= 1 + 10


def test_a_wait_that_ends_early_is_never_taken_for_the_due_moment() -> None:
    """BUG-005, BUG-014: a clock may cut long sleeps into slices, and the system may wake whom it likes."""
    with counted(early=20) as (scheduler, clock):
        task = scheduler.schedule(nothing, after(10))
        assert clock.await_waits(21)
        assert scheduler.get(task).state is State.PENDING
        clock.go_to(9.999_999)
        assert scheduler.get(task).state is State.PENDING
        clock.go_to(10)
        assert all_end(task)


def test_the_year_9999_is_waited_for_like_any_other_time() -> None:
    """BUG-005: longer than the system can sleep. The dispatcher must not die of an OverflowError."""
    with Scheduler(observers=[]) as scheduler:
        scheduler.schedule(nothing, at(datetime(9999, 12, 31, tzinfo=UTC)))
        scheduler.schedule(nothing, after(200_000_000_000))
        assert all_end(scheduler.schedule(nothing, after(0.001)))
        assert "tickless-dispatcher" in our_threads()


# After a pass


class Slow(ThreadPoolExecutor):
    """Each submit takes 55 s on the clock."""

    clock: CountingClock
    seconds = 0.0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.seconds += 55
        self.clock.go_to(self.seconds)
        return super().submit(fn, *args, **kwargs)


def test_BUG_011_what_came_due_during_a_slow_pass_runs_before_any_sleep() -> None:
    """With the time of the start of the pass it would sleep 55 s too long."""
    with Slow(2) as pool, counted(pool) as (scheduler, clock):
        pool.clock = clock
        first = scheduler.schedule(nothing, after(10))
        second = scheduler.schedule(nothing, after(40))
        third = scheduler.schedule(nothing, after(500))
        clock.await_waits(2)
        pool.seconds = 10
        clock.go_to(10)
        assert all_end(first, second)
        assert clock.await_waits(3) == [None, 10, 500]
        third.cancel()


def test_what_is_scheduled_for_the_past_of_a_slow_pass_is_not_early() -> None:
    """P6, on the clock that drives it: lateness is never negative."""
    with Slow(1) as pool, counted(pool) as (scheduler, clock):
        pool.clock = clock
        tasks = [scheduler.schedule(nothing, after(n)) for n in range(1, 20)]
        clock.await_waits(2)
        clock.go_to(1)
        assert all_end(*tasks)
        runs = [task.last_run for task in tasks]
        assert all(run is not None and run.started_us and run.due_us and run.started_us >= run.due_us for run in runs)


# Order


def test_equal_deadlines_run_in_the_order_of_scheduling_and_earlier_ones_first() -> None:
    world = World()
    for n in range(50):
        world.scheduler.schedule(world.note(("b", n)), after(2))
        world.scheduler.schedule(world.note(("a", n)), after(1))
    world.clock.advance(2)
    assert world.story == [("a", n) for n in range(50)] + [("b", n) for n in range(50)]


def test_of_what_is_ready_the_higher_priority_runs_first_then_what_became_ready_first() -> None:
    world = World(start=False)
    for n, priority in enumerate([0, 5, -5, 5, 0, 10**9, -(10**9)]):
        world.scheduler.schedule(world.note(n), priority=priority)
    world.scheduler.start()
    assert world.story == [5, 1, 3, 0, 4, 2, 6]


def test_a_task_for_now_does_not_overtake_one_that_is_due_and_still_in_the_heap() -> None:
    world = World()
    world.scheduler.schedule(world.note("old"), after(1))

    def body() -> None:
        world.clock.advance(2)
        world.scheduler.schedule(world.note("new"))

    world.scheduler.schedule(body)
    world.clock.advance(0)
    assert world.story == ["old", "new"]


# The wall clock is set (BUG-012)


def noon(hours: float = 0) -> datetime:
    """So many hours after the clock of a World began."""
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=hours)


def test_a_step_of_the_wall_clock_moves_at_and_leaves_after_and_every_where_they_are() -> None:
    world = World()
    world.scheduler.schedule(world.timed("at"), at(noon(2)))
    world.scheduler.schedule(world.timed("after"), after(7200))
    world.scheduler.schedule(world.timed("every"), every(hours=2))
    world.clock.step_wall(3600)
    world.clock.advance(7200)
    assert world.story == [("at", 3600), ("after", 7200), ("every", 7200)]


def test_a_step_forward_past_a_wall_time_runs_it_at_once() -> None:
    world = World()
    world.scheduler.schedule(world.timed("at"), at(noon(2)))
    world.clock.step_wall(3 * 3600)
    assert world.story == [("at", 0)]


def test_a_step_back_never_fires_an_occurrence_again_and_never_early() -> None:
    """By less than three hours: the clocks of winter time, or of a wrong setting that is put right."""
    world = World()
    grid = world.scheduler.schedule(world.note("grid"), every(hours=1, anchor="epoch"))
    world.clock.advance(3 * 3600)
    world.clock.step_wall(-2 * 3600)
    world.clock.advance(3 * 3600)
    dues = [run.due for run in grid.runs()]
    assert dues == [noon(1), noon(2), noon(3), noon(4)]


def test_a_grid_on_the_wall_clock_and_one_on_elapsed_time_part_when_it_is_set() -> None:
    world = World()
    world.scheduler.schedule(world.timed("wall"), every(hours=1, anchor="epoch"))
    world.scheduler.schedule(world.timed("elapsed"), every(hours=1))
    world.clock.step_wall(1800)
    world.clock.advance(3600)
    assert world.story == [("wall", 1800), ("elapsed", 3600)]


def test_a_suspend_makes_everything_late_and_loses_nothing() -> None:
    """BUG-013: one run of what recurs, all of what does not, and a record of what was missed."""
    world = World()
    for hours in (1, 2, 3):
        world.scheduler.schedule(world.timed(hours), after(hours * 3600))
    beat = world.scheduler.schedule(world.timed("beat"), every(hours=1))
    world.clock.suspend(timedelta(hours=5))
    assert world.story == [(1, 18_000), ("beat", 18_000), (2, 18_000), (3, 18_000)]
    assert [(run.state, run.count) for run in beat.runs()] == [(State.SKIPPED, 4), (State.SUCCEEDED, 1)]


# What goes wrong


def test_a_failing_task_stops_no_other() -> None:
    """P9. BaseException too: SystemExit in a task fails that task."""

    def exit_now() -> None:
        raise SystemExit(3)

    world = World()
    beat = world.scheduler.schedule(fail, every(seconds=1))
    exiting = world.scheduler.schedule(exit_now, every(seconds=1))
    fine = world.scheduler.schedule(world.note("fine"), every(seconds=1))
    world.clock.advance(5)
    assert world.story == ["fine"] * 5
    assert [run.state for run in beat.runs()] == [run.state for run in exiting.runs()] == [State.FAILED] * 5
    assert fine.state is State.PENDING


def test_an_observer_that_raises_stops_nothing_and_is_told_to_the_others() -> None:
    class Raising:
        kinds = frozenset(EventKind)

        def observe(self, events: Any) -> None:
            raise RuntimeError("no disk")

    keeper = Keeper([EventKind.TROUBLE])
    with Scheduler(observers=[Raising(), keeper]) as scheduler:
        tasks = [scheduler.schedule(nothing) for _ in range(10)]
        assert all_end(*tasks)
        assert {task.state for task in tasks} == {State.SUCCEEDED}
    assert keeper.batches
    assert "no disk" in str(keeper.batches[0][0].error)


def test_an_inline_pool_and_a_thread_give_the_same_story() -> None:
    """The turn is one and the same, whoever calls it."""
    world = World(InlinePool())
    for second in (3, 1, 2):
        world.scheduler.schedule(world.note(second), after(second))
    world.clock.advance(5)
    story: list[int] = []
    with counted() as (scheduler, clock):
        tasks = {second: scheduler.schedule(story.append, after(second), args=(second,)) for second in (3, 1, 2)}
        for second in (1, 2, 3):
            clock.go_to(second)
            assert all_end(tasks[second])
    assert world.story == story == [1, 2, 3]
