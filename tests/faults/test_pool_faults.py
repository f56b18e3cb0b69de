"""A pool refuses, is shut down, breaks, blocks: the run ends with a reason, nothing hangs, nothing else stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.clocks import CountingClock
from tests.faults.world import PATIENCE_S, World, running_until_let_go
from tests.pools.executors import Blocking, Held, Refusing
from tickless import (
    EventKind,
    Pool,
    Reason,
    Scheduler,
    State,
    Task,
    TaskRejected,
    after,
    every,
)
from tickless.testing import InlinePool, ManualPool


def nothing() -> None: ...


def is_rejected(task: Task[Any]) -> None:
    """It ended, and whoever asks is told by whom and why."""
    assert task.wait(PATIENCE_S)
    assert (task.state, task.reason) == (State.FAILED, Reason.REJECTED)
    with pytest.raises(TaskRejected, match="the pool did not take the run"):
        task.result()


ERRORS = [RuntimeError("full"), MemoryError(), OSError("no threads"), BrokenExecutor("gone")]
KINDS: dict[str, Callable[[Refusing], Any]] = {
    "drained": lambda pool: pool,
    "one by one": lambda pool: Pool(Undrained(pool), slots=2),
}


class Undrained(Executor):
    """Hides that the executor inside is a thread pool."""

    def __init__(self, inner: ThreadPoolExecutor) -> None:
        self.inner = inner

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return self.inner.submit(fn, *args, **kwargs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ for error in ERRORS])
def test_a_submit_that_raises_once_costs_one_run_and_the_rest_go_on(error: Exception, kind: str) -> None:
    """BUG-042: one failed run with its reason; the recurring schedule goes on."""
    with Refusing(2, lambda n: error if n == 1 else None) as pool, Scheduler(KINDS[kind](pool), observers=[]) as s:
        is_rejected(s.schedule(nothing))
        assert s.schedule(lambda: 5).result(PATIENCE_S) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_that_always_refuses_fails_each_run_and_the_dispatcher_lives(kind: str) -> None:
    """Also those that wait for their time, and recurring ones: each fire fails, each has its record."""
    clock = CountingClock()
    with (
        Refusing(2, lambda n: RuntimeError("full")) as pool,
        Scheduler(KINDS[kind](pool), clock=clock, observers=[]) as scheduler,
    ):
        clock.await_waits(1)
        now = [scheduler.schedule(nothing) for _ in range(50)]
        later = [scheduler.schedule(nothing, after(10)) for _ in range(50)]
        beat = scheduler.schedule(nothing, every(seconds=10))
        child = scheduler.schedule(nothing, after_tasks=[later[0]])
        for second in (10, 20, 30):
            clock.await_sleep(second)
            clock.go_to(second)
        clock.await_sleep(40)
        for task in now + later:
            is_rejected(task)
        assert child.wait(PATIENCE_S)
        assert (child.state, child.reason) == (State.SKIPPED, Reason.PARENT_FAILED)
        assert [(run.state, run.reason) for run in beat.runs()] == [(State.FAILED, Reason.REJECTED)] * 3
        assert beat.state is State.PENDING


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_that_refuses_every_second_submit_runs_what_it_takes(kind: str) -> None:
    """Each task ends once, one way or the other."""
    with (
        Refusing(2, lambda n: RuntimeError("full") if n % 2 else None) as pool,
        Scheduler(KINDS[kind](pool), observers=[]) as scheduler,
    ):
        counts = [0] * 200

        def count(n: int) -> None:
            counts[n] += 1

        tasks = [scheduler.schedule(count, args=(n,)) for n in range(200)]
        assert scheduler.wait(PATIENCE_S)
        ends = [(task.state, task.reason) for task in tasks]
        assert set(ends) <= {(State.SUCCEEDED, None), (State.FAILED, Reason.REJECTED)}
        assert [int(state is State.SUCCEEDED) for state, _ in ends] == counts
        assert sum(counts) > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
def test_a_submit_that_raises_no_exception_fails_the_run_and_comes_out_to_its_caller(
    error: BaseException, kind: str
) -> None:
    """A Ctrl-C that lands inside of `submit` is meant for the program: it is not swallowed, and no run is lost."""
    with Refusing(1, lambda n: error if n == 1 else None) as pool, Scheduler(KINDS[kind](pool), observers=[]) as s:
        with pytest.raises(type(error)):
            s.schedule(nothing, id="x")
        assert s.get("x").state is State.FAILED
        assert s.schedule(lambda: 5).result(PATIENCE_S) == 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
def test_a_submit_that_raises_no_exception_in_the_dispatcher_does_not_end_it(error: BaseException, kind: str) -> None:
    clock = CountingClock()
    with (
        Refusing(1, lambda n: error if n == 1 else None) as pool,
        Scheduler(KINDS[kind](pool), clock=clock, observers=[]) as scheduler,
    ):
        task = scheduler.schedule(nothing, after(10))
        other = scheduler.schedule(nothing, after(20))
        clock.await_sleep(10)
        clock.go_to(10)
        is_rejected(task)
        clock.await_waits(3)
        clock.go_to(20)
        assert other.wait(PATIENCE_S)
        assert other.state is State.SUCCEEDED


# Shut down under us


def test_a_pool_that_is_shut_down_with_our_drainer_in_its_queue_fails_what_is_ready() -> None:
    """`cancel_futures=True` drops the drainer: its slot comes back, and the next submit is refused with a reason."""
    gate = threading.Event()
    pool = ThreadPoolExecutor(1)
    pool.submit(gate.wait, PATIENCE_S)
    with Scheduler(pool, observers=[]) as scheduler:
        tasks = [scheduler.schedule(nothing) for _ in range(10)]
        beat = scheduler.schedule(nothing, every(hours=1))
        assert {task.state for task in tasks} == {State.READY}
        pool.shutdown(wait=False, cancel_futures=True)
        gate.set()
        for task in tasks:
            is_rejected(task)
        assert beat.state is State.PENDING


def test_an_executor_fed_one_by_one_that_drops_its_queue_fails_those_runs() -> None:
    """BUG-015: the future is cancelled, the slot is free again, and the next run gets it."""
    held = Held()
    with Scheduler(Pool(held, slots=2), observers=[]) as scheduler:
        tasks = [scheduler.schedule(nothing) for _ in range(4)]
        held.drop_next()
        is_rejected(tasks[0])
        held.break_next(BrokenExecutor("a worker died"))
        is_rejected(tasks[1])
        held.await_one(2)
        held.run_next()
        held.run_next()
        assert [task.result(PATIENCE_S) for task in tasks[2:]] == [None, None]


@pytest.mark.parametrize("wrap", [lambda pool: pool, lambda pool: Pool(Undrained(pool), slots=2)])
def test_a_pool_that_was_shut_down_before_the_start_fails_every_run(wrap: Callable[[Any], Any]) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    scheduler = Scheduler(wrap(pool), observers=[])
    tasks = [scheduler.schedule(nothing), scheduler.schedule(nothing, after(0.001))]
    with scheduler:
        for task in tasks:
            is_rejected(task)
        assert scheduler.wait(PATIENCE_S)


def test_a_pool_that_is_shut_down_while_a_run_goes_on_lets_it_end() -> None:
    pool = ThreadPoolExecutor(1)
    with Scheduler(pool, observers=[]) as scheduler:
        with running_until_let_go(scheduler) as (task, gate):
            waiting = [scheduler.schedule(nothing) for _ in range(600)]
            pool.shutdown(wait=False)
            gate.set()
            assert task.wait(PATIENCE_S)
        assert scheduler.wait(PATIENCE_S)
        ends = [other.state for other in waiting]
        assert set(ends) <= {State.SUCCEEDED, State.FAILED}
        assert ends == sorted(ends, reverse=True), "those that the drainer took before it had to leave, then the rest"


@pytest.mark.parametrize("make", [InlinePool, ManualPool], ids=["inline", "manual"])
def test_a_test_pool_that_is_shut_down_refuses_as_the_standard_ones_do(make: Callable[[], Any]) -> None:
    pool = make()
    world = World(pool)
    beat = world.scheduler.schedule(world.note("beat"), every(seconds=1))
    pool.shutdown()
    world.clock.advance(3)
    assert world.story == []
    assert [run.reason for run in beat.runs()] == [Reason.REJECTED] * 3
    assert world.kinds(beat.id).count(EventKind.FAILED) == 3


def test_a_manual_pool_that_drops_what_it_holds_gives_the_slot_back() -> None:
    world = World(ManualPool())
    task = world.scheduler.schedule(world.note("x"))
    assert task.state is State.READY
    assert isinstance(world.pool, ManualPool)
    world.pool.shutdown(cancel_futures=True)
    assert (world.scheduler.get(task).state, task.reason) == (State.FAILED, Reason.REJECTED)


# A submit that blocks


def test_while_a_submit_blocks_everybody_else_goes_on() -> None:
    """In life: a pool with a bounded queue. No lock of ours is held meanwhile."""
    with Blocking(1) as pool:
        scheduler = Scheduler(pool, observers=[])
        scheduler.start()
        first = scheduler.schedule(nothing, after(0.001))
        assert pool.entered.wait(PATIENCE_S)
        second = scheduler.schedule(nothing, after(3600))
        assert scheduler.tasks()[0].state is State.READY
        assert scheduler.cancel(second)
        assert not scheduler.wait(0.001)
        assert not first.wait(0)
        assert scheduler.get(first).state is State.READY
        pool.gate.set()
        assert first.wait(PATIENCE_S)
        assert scheduler.schedule(lambda: 5).result(PATIENCE_S) == 5
        scheduler.close()


def test_a_run_that_is_cancelled_while_its_submit_blocks_never_starts() -> None:
    ran: list[int] = []
    with Blocking(1) as pool, Scheduler(pool, observers=[]) as scheduler:
        task = scheduler.schedule(ran.append, after(0.001), args=(1,))
        assert pool.entered.wait(PATIENCE_S)
        assert task.cancel()
        pool.gate.set()
        assert scheduler.schedule(lambda: 5).result(PATIENCE_S) == 5
    assert ran == []
    assert task.state is State.CANCELLED
