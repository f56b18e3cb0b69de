"""A pool that broke before it ran anything, a pool of a size that cannot be, a thread that cannot be had.

In life: the initializer connects to a database that is down. Each run ends with its reason, and so does the program.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults.clocks import CountingClock
from tests.faults.test_pool_faults import is_rejected
from tests.faults.world import PATIENCE_S, World, running_until_let_go
from tests.pools.executors import Threads
from tickless import (
    EventKind,
    Pool,
    PoolError,
    Reason,
    ScheduleError,
    Scheduler,
    State,
    TicklessError,
    after,
    every,
)
from tickless.testing import InlinePool


def nothing() -> None: ...


def broken() -> None:
    raise ConnectionError("the database is down")


@contextmanager
def scheduler_on(pool: Executor | Pool, **options: Any) -> Iterator[Scheduler]:
    """A started scheduler that a run which never ends does not keep from being closed."""
    scheduler = Scheduler(pool, observers=[], **options)
    scheduler.start()
    try:
        yield scheduler
    finally:
        assert scheduler.close(PATIENCE_S) == [], "a run never ended"
        (pool.executor if isinstance(pool, Pool) else pool).shutdown()


# The initializer


@pytest.mark.parametrize("workers", [1, 2])
def test_a_pool_whose_initializer_raises_fails_its_runs_and_later_ones(workers: int) -> None:
    """The drainer's future ends with BrokenThreadPool and never ran: neither its slot nor its run is lost."""
    with scheduler_on(ThreadPoolExecutor(workers, initializer=broken)) as scheduler:
        tasks = [scheduler.schedule(nothing) for _ in range(10)]
        for task in tasks:
            is_rejected(task)
        for _ in range(3):
            is_rejected(scheduler.schedule(nothing))
        is_rejected(scheduler.schedule(nothing, after(0.001)))
        assert scheduler.wait(PATIENCE_S)


def test_children_of_a_run_that_a_broken_pool_lost_are_skipped() -> None:
    with scheduler_on(ThreadPoolExecutor(2, initializer=broken)) as scheduler:
        parent = scheduler.schedule(nothing, after(0.001))
        child = scheduler.schedule(nothing, after_tasks=[parent])
        cleanup = scheduler.schedule(nothing, after_tasks=[parent], run_if="all_done")
        is_rejected(parent)
        assert child.wait(PATIENCE_S)
        assert child.reason is Reason.PARENT_FAILED
        is_rejected(cleanup)


def test_a_recurring_task_on_a_broken_pool_has_a_record_of_each_fire() -> None:
    """The first loses its drainer to the initializer, the others are refused: each fails, and the schedule goes on."""
    clock = CountingClock()
    with scheduler_on(ThreadPoolExecutor(1, initializer=broken), clock=clock) as scheduler:
        beat = scheduler.schedule(nothing, every(seconds=10))
        for second in (10, 20, 30):
            clock.await_sleep(second)
            clock.go_to(second)
        clock.await_sleep(40)
        assert [(run.state, run.reason) for run in beat.runs()] == [(State.FAILED, Reason.REJECTED)] * 3
        assert beat.state is State.PENDING


def test_a_pool_whose_second_worker_cannot_be_made_lets_the_first_ones_run_end() -> None:
    """It is broken for all that comes later; the run that goes on is not touched."""
    came: list[int] = []

    def second_breaks() -> None:
        came.append(1)
        if len(came) > 1:
            broken()

    with scheduler_on(ThreadPoolExecutor(2, initializer=second_breaks)) as scheduler:
        with running_until_let_go(scheduler) as (task, gate):
            other = scheduler.schedule(nothing)
            assert other.wait(PATIENCE_S), "it waits for a drainer that will never come"
            gate.set()
            assert task.wait(PATIENCE_S)
        assert task.state is State.SUCCEEDED
        assert (other.state, other.reason) == (State.FAILED, Reason.REJECTED)
        is_rejected(scheduler.schedule(nothing))


class Dropping(Executor):
    """Knows its slots, so it is drained; every submit gives a future that has failed, and nothing is ever run."""

    tickless_slots = 2

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.submits = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submits += 1
        assert self.submits < 1_000, "submits again and again, and no run ends"
        future: Future[Any] = Future()
        future.set_exception(self.error)
        return future


@pytest.mark.parametrize("error", [BrokenExecutor("gone"), RuntimeError("lost"), MemoryError()], ids=repr)
def test_a_drained_executor_whose_futures_fail_unrun_costs_each_run_its_end(error: Exception) -> None:
    """Not only that of the standard library: whatever error it is, the drainer never began."""
    world = World(Dropping(error))
    tasks = [world.scheduler.schedule(nothing) for _ in range(5)]
    beat = world.scheduler.schedule(nothing, every(seconds=1))
    world.clock.advance(3)
    assert [(task.state, task.reason) for task in tasks] == [(State.FAILED, Reason.REJECTED)] * 5
    assert [run.reason for run in beat.runs()] == [Reason.REJECTED] * 3
    assert world.kinds().count(EventKind.FAILED) == 8


# Sizes that cannot be


HUGE = [2**63, 10**12]


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("what", ["keep_runs", "keep_finished"])
def test_keeping_without_end_works_or_is_refused_by_name(what: str, value: int) -> None:
    """Somebody means "all of them". A size that a deque cannot have would come out under the lock, at the first run."""
    try:
        world = World(**{what: value})  # type: ignore[arg-type]  # one of two names
    except ScheduleError as error:
        assert what in str(error)  # noqa: PT017 - refused by name is one of two right answers
        return
    once = world.scheduler.schedule(nothing)
    beat = world.scheduler.schedule(nothing, every(seconds=1))
    world.clock.advance(3)
    assert [run.state for run in beat.runs()] == [State.SUCCEEDED] * 3
    assert beat.cancel()
    assert (once.state, beat.state) == (State.SUCCEEDED, State.CANCELLED)
    assert len(world.scheduler.tasks()) == 2
    assert world.scheduler.close() == []


MAKERS: dict[str, Callable[[int], object]] = {
    "own pool": lambda slots: Scheduler(slots=slots, observers=[]),
    "inline": lambda slots: Scheduler(InlinePool(), slots=slots, observers=[]),
    "drained": lambda slots: Pool(ThreadPoolExecutor(1), slots),
    "one by one": lambda slots: Scheduler(Pool(Threads(1), slots=slots), observers=[]),
}


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("maker", MAKERS)
def test_more_slots_than_there_is_memory_are_refused_with_the_number(maker: str, value: int) -> None:
    """In words, at the door: not as a MemoryError after the machine has swapped for a minute."""
    if maker == "drained":
        with pytest.raises(PoolError, match=f"slots={value}"):
            Scheduler(Pool(ThreadPoolExecutor(1), value), observers=[])
    with pytest.raises(TicklessError, match=f"slots={value}"):
        MAKERS[maker](value)


# A thread that cannot be had


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Inside, no thread can be started: its stack would not fit into the address space."""
    before = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(before)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a stack at once")
@pytest.mark.parametrize("how", ["start", "with"])
def test_a_start_without_a_thread_raises_and_the_scheduler_can_be_closed(how: str) -> None:
    """In life: a container with a limit on processes. Else it says that it runs, and nothing ever does."""
    with ThreadPoolExecutor(1) as pool:
        scheduler = Scheduler(pool, observers=[])
        task = scheduler.schedule(nothing, after(3600))
        with no_more_threads(), pytest.raises(RuntimeError, match="can't start new thread"):
            scheduler.start() if how == "start" else scheduler.__enter__()
        assert scheduler.phase != "running"
        assert scheduler.close() == []
        assert scheduler.phase == "closed"
        assert (task.state, task.reason) == (State.CANCELLED, Reason.CLOSED)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a stack at once")
def test_a_start_that_failed_can_be_tried_again() -> None:
    """The limit is gone a second later, and `start` is not a lie then."""
    scheduler = Scheduler(observers=[])
    with no_more_threads(), pytest.raises(RuntimeError, match="can't start new thread"):
        scheduler.start()
    if scheduler.phase == "new":
        scheduler.start()
        assert scheduler.schedule(lambda: 5).result(PATIENCE_S) == 5
    assert scheduler.close() == []
