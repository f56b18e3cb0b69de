"""`close` from inside: from a task in any kind of pool, from two at once, from an observer, from a rule.

In life: the task that finds that all is done, or all is lost, ends the program. It must not wait for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, Odd, World, our_threads, running_until_let_go
from tests.observe.observers import Keeper
from tests.pools.executors import Eager, Threads
from tickless import EventKind, Pool, Reason, Run, Scheduler, State, after
from tickless.instants import Instant
from tickless.testing import FakeClock, InlinePool, ManualPool


def nothing() -> None: ...


def closing_itself(make_pool: Callable[[], Executor | Pool | None]) -> list[list[Run]]:
    """A task closes its own scheduler; gives what `close` answered inside, and then outside."""
    pool = make_pool()
    executor = pool.executor if isinstance(pool, Pool) else pool
    scheduler = Scheduler(pool, observers=[])
    answers: list[list[Run]] = []
    closed = threading.Event()

    def body() -> str:
        answers.append(scheduler.close(PATIENCE_S))
        closed.set()
        return "went on"

    scheduler.start()
    child = scheduler.schedule(nothing, after(3600))
    task = scheduler.schedule(body)
    assert closed.wait(PATIENCE_S)
    assert task.result(PATIENCE_S) == "went on"
    assert child.reason is Reason.CLOSED
    answers.append(scheduler.close())
    if executor is not None:
        executor.shutdown()
    return answers


@pytest.mark.parametrize(
    "make_pool",
    [lambda: None, lambda: ThreadPoolExecutor(1), InlinePool, lambda: Pool(ThreadPoolExecutor(2), slots=1)],
    ids=["own pool", "given pool", "inline", "given as a Pool"],
)
def test_a_task_may_close_its_own_scheduler(make_pool: Callable[[], Executor | Pool | None]) -> None:
    """It waits for the others only: for itself it would wait for ever."""
    assert closing_itself(make_pool) == [[], []]


@pytest.mark.parametrize("make_pool", [InlinePool, lambda: ManualPool(2)], ids=["inline", "manual"])
def test_a_task_may_close_its_own_scheduler_under_a_driven_clock(make_pool: Callable[[], Any]) -> None:
    pool = make_pool()
    world = World(pool)
    world.scheduler.schedule(world.note("never"), after(10))
    task = world.scheduler.schedule(lambda: world.story.append(world.scheduler.close()), after(1))
    world.clock.advance(20)
    if isinstance(pool, ManualPool):
        pool.run_all()
    assert world.story == [[]]
    assert task.state is State.SUCCEEDED
    assert world.scheduler.close() == []


@pytest.mark.parametrize("make_executor", [Eager, lambda: Threads(2)], ids=["inline", "threads"])
def test_a_task_fed_one_by_one_may_close_its_own_scheduler(make_executor: Callable[[], Executor]) -> None:
    """An executor that knows no slots gets one submit per run; its tasks live in this process all the same."""
    executor = make_executor()
    scheduler = Scheduler(Pool(executor, slots=1), observers=[])
    scheduler.start()
    task = scheduler.schedule(lambda: scheduler.close(timeout=1))
    assert task.result(PATIENCE_S) == [], "it waited for itself"
    assert scheduler.close() == []
    executor.shutdown()


def test_two_tasks_that_close_at_once_do_not_wait_for_one_another() -> None:
    """In life: two of them find the same fault, and both give up."""
    scheduler = Scheduler(slots=3, observers=[])
    together = threading.Barrier(2)

    def body() -> int:
        together.wait(PATIENCE_S)
        scheduler.close()
        return 1

    scheduler.start()
    tasks = [scheduler.schedule(body) for _ in range(2)]
    assert [task.result(PATIENCE_S) for task in tasks] == [1, 1]
    assert scheduler.close() == []
    assert our_threads() == []


def test_a_task_that_closes_waits_for_another_that_runs() -> None:
    scheduler = Scheduler(slots=2, observers=[])
    scheduler.start()
    closing = threading.Event()

    def body() -> State:
        closing.set()
        scheduler.close()
        return scheduler.get(other).state

    with running_until_let_go(scheduler) as (other, gate):
        task = scheduler.schedule(body)
        assert closing.wait(PATIENCE_S)
        gate.set()
        assert task.result(PATIENCE_S) is State.SUCCEEDED
    scheduler.close()


class Closer(Keeper):
    """An observer that closes the scheduler at the first event of a kind."""

    def __init__(self, kind: EventKind) -> None:
        super().__init__([kind])
        self.scheduler: Scheduler | None = None
        self.answers: list[list[Run]] = []
        self.done = threading.Event()

    def observe(self, events: Any) -> None:
        super().observe(events)
        assert self.scheduler is not None
        self.answers.append(self.scheduler.close())
        self.done.set()


@pytest.mark.parametrize("kind", [EventKind.SCHEDULED, EventKind.STARTED, EventKind.SUCCEEDED])
def test_an_observer_may_close_the_scheduler(kind: EventKind) -> None:
    """In the observer thread: it cannot join itself."""
    observer = Closer(kind)
    observer.scheduler = scheduler = Scheduler(observers=[observer])
    scheduler.start()
    scheduler.schedule(nothing)
    assert observer.done.wait(PATIENCE_S)
    assert scheduler.close() == []
    assert observer.answers[0] == []


@pytest.mark.parametrize("kind", [EventKind.SCHEDULED, EventKind.STARTED, EventKind.SUCCEEDED, EventKind.FAILED])
def test_an_observer_may_close_the_scheduler_under_a_driven_clock(kind: EventKind) -> None:
    observer = Closer(kind)
    observer.scheduler = scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[observer])
    scheduler.start()
    scheduler.schedule(nothing)
    if kind is EventKind.FAILED:
        scheduler.schedule(lambda: 1 // 0)
    assert observer.answers[0] == []
    assert scheduler.close() == []


def test_a_done_callback_of_the_users_own_future_may_close_the_scheduler() -> None:
    """From a thread that is neither ours nor the one that made it."""
    scheduler = Scheduler(observers=[])
    future: Future[None] = Future()
    future.add_done_callback(lambda _: scheduler.close())
    with scheduler:
        scheduler.schedule(lambda: future.set_result(None)).wait(PATIENCE_S)
    assert our_threads() == []


def test_a_rule_of_the_users_own_may_close_the_scheduler() -> None:
    """It is asked with no lock held, on whatever thread settles the run."""

    def answer(instant: Instant) -> Instant | None:
        if rule.asked == 3:
            world.scheduler.close()
        return Instant(instant + 1_000_000)

    world = World()
    rule = Odd(answer)
    task = world.scheduler.schedule(world.note("beat"), rule)
    world.clock.advance(20)
    assert task.state is State.CANCELLED
    assert len(world.story) < 4
    assert world.scheduler.close() == []
