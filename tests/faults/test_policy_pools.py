"""Pools that refuse, break or are shut down, under retries, timeouts, limits and names; and bodies that never return.

In life: a permit that is not given back is one less for ever; one broken pool, and the others stand still.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cases.kit import sound
from tests.faults.world import PATIENCE_S, World, fail
from tests.pools.executors import Held, Refusing, Threads
from tickless import Limit, Pool, Reason, Retry, Scheduler, State, Task, after, current_run, every
from tickless.testing import FakeClock, InlinePool, ManualPool

LIMITS = [Limit("one", running=1), Limit("rate", starts=2, per=5)]
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "retry": {"retry": Retry(2, delay=1)},
    "timeout": {"timeout": 3},
    "limit": {"limit": "one"},
    "rate": {"limit": "rate"},
    "all": {"retry": Retry(2, delay=1), "timeout": 3, "limit": "one"},
    "queue": {"overlap": "queue", "limit": "one", "retry": Retry(2, delay=1)},
    "allow": {"overlap": "allow", "max_running": 2, "limit": "one", "timeout": 3},
    "replace": {"overlap": "replace", "retry": Retry(3, delay=2), "limit": "rate"},
}
each_setting = pytest.mark.parametrize("settings", SETTINGS)


def nothing_is_held(scheduler: Scheduler) -> None:
    """No permit, no slot, no zombie: nothing is leaked."""
    assert {(limit.running, limit.waiting) for limit in scheduler.limits().values()} == {(0, 0)}
    assert {(pool.ready, pool.running, pool.zombies) for pool in scheduler.pools().values()} == {(0, 0, 0)}
    sound(scheduler)


class Fickle(InlinePool):
    """Raises where `refuses(n)` says so for the n-th submit."""

    def __init__(self, refuses: Callable[[int], bool], error: BaseException) -> None:
        super().__init__()
        self.refuses, self.error, self.submits = refuses, error, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.submits += 1
        if self.refuses(self.submits):
            raise self.error
        return super().submit(fn, *args, **kwargs)


class FickleOne(Fickle):
    """The same, fed one submit per run."""

    tickless_slots = None  # type: ignore[assignment]  # it does not say how many it has


@each_setting
@pytest.mark.parametrize("kind", [Fickle, FickleOne], ids=["drained", "one by one"])
@pytest.mark.parametrize("refuses", [lambda n: True, lambda n: n % 2 == 1, lambda n: n % 3 != 0], ids=["all", "2", "3"])
def test_a_pool_that_refuses_leaks_no_permit_and_every_occurrence_has_its_end(
    settings: str, kind: Any, refuses: Callable[[int], bool]
) -> None:
    pool = kind(refuses, BrokenExecutor("gone"))
    world = World(pools={"default": InlinePool(), "bad": Pool(pool, slots=1)}, limits=LIMITS)
    scheduler = world.scheduler
    bad = scheduler.schedule(world.note("bad"), every(seconds=10), pool="bad", **SETTINGS[settings])
    good = scheduler.schedule(world.note("good"), every(seconds=10), limit=SETTINGS[settings].get("limit"))
    world.clock.advance(109)
    nothing_is_held(scheduler)
    assert world.story.count("good") == 10, "the other pool, and who shares its limit, do not notice"
    assert [run.state for run in good.runs()] == [State.SUCCEEDED] * 10
    ends = [(run.state, run.reason) for run in bad.runs()]
    assert len(ends) == 10
    if settings == "replace":  # a retry may have to wait for the rate, and meet the next fire there
        ends = [end for end in ends if end[1] not in (Reason.REPLACED, Reason.RETRY)]
    assert set(ends) <= {(State.SUCCEEDED, None), (State.FAILED, Reason.REJECTED)}
    assert pool.submits <= 10 * 3, "no hot loop"
    assert world.story.count("bad") == ends.count((State.SUCCEEDED, None))


@each_setting
def test_a_pool_that_is_shut_down_with_what_it_holds_leaks_nothing(settings: str) -> None:
    """The drainer was dropped before it began: its run is refused, and so is each that comes."""
    pool = ManualPool(2)
    world = World(pools={"default": InlinePool(), "bad": pool}, limits=LIMITS)
    scheduler = world.scheduler
    tasks = [scheduler.schedule(world.note(n), every(seconds=10), pool="bad", **SETTINGS[settings]) for n in range(3)]
    world.clock.advance(10)
    pool.shutdown(cancel_futures=True)
    good = scheduler.schedule(world.note("good"), limit=SETTINGS[settings].get("limit"))
    world.clock.advance(35)
    assert good.state is State.SUCCEEDED
    for task in tasks:
        assert {run.reason for run in task.runs() if run.state.terminal} == {Reason.REJECTED}
        task.cancel()
    world.clock.advance(10)
    nothing_is_held(scheduler)


def test_a_process_that_dies_under_a_run_is_an_attempt_that_failed() -> None:
    """One submit per run: its future breaks, its permit is given back, and it is tried again in its turn."""
    held = Held()
    world = World(Pool(held, slots=2), limits=LIMITS)
    task = world.scheduler.schedule(fail, retry=Retry(2, delay=1), limit="one", timeout=60)
    other = world.scheduler.schedule(int, limit="one")
    held.break_next(BrokenExecutor("a worker died"))
    assert (task.state, task.reason) == (State.PENDING, Reason.RETRY)
    world.clock.advance(0)
    held.run_next()
    assert other.state is State.SUCCEEDED
    world.clock.advance(1)
    held.run_next()
    assert (task.state, task.runs()[0].attempt) == (State.FAILED, 2)
    assert task.runs()[0].attempts[0].reason is Reason.REJECTED
    nothing_is_held(world.scheduler)


def test_a_timed_out_run_whose_pool_then_breaks_is_no_zombie_any_more() -> None:
    held = Held()
    world = World(Pool(held, slots=1), limits=LIMITS)
    task = world.scheduler.schedule(int, every(seconds=10), timeout=3, limit="one")
    world.clock.advance(14)
    assert (task.runs()[0].state, task.runs()[0].reason) == (State.FAILED, Reason.TIMED_OUT)
    assert world.scheduler.pools()["default"].zombies == 1
    assert world.scheduler.limits()["one"].running == 1
    held.break_next(BrokenExecutor("a worker died"))
    world.clock.advance(0)
    nothing_is_held(world.scheduler)
    assert "a worker died" in str(task.runs()[0].late_result)
    world.clock.advance(6)
    held.run_next()
    assert task.runs()[1].state is State.SUCCEEDED


def test_threads_that_refuse_now_and_then_run_each_task_once_in_the_end() -> None:
    with (
        Refusing(2, lambda n: RuntimeError("full") if n % 3 == 1 else None) as pool,
        Scheduler(pool, observers=[], limits=[Limit("two", running=2)]) as scheduler,
    ):
        counts = [0] * 100

        def count(n: int) -> None:
            counts[n] += 1

        retry = Retry(50, delay=0.001, factor=1)
        tasks = [scheduler.schedule(count, args=(n,), retry=retry, limit="two", timeout=60) for n in range(100)]
        assert scheduler.wait(PATIENCE_S)
        assert {task.state for task in tasks} == {State.SUCCEEDED}
        assert counts == [1] * 100
        nothing_is_held(scheduler)


# Bodies that never return


@pytest.mark.parametrize("own_pool", [True, False])
@pytest.mark.parametrize("recurring", [True, False])
def test_a_zombie_does_not_hold_the_close(own_pool: bool, recurring: bool) -> None:
    """It has ended, for everybody: close gives back at once, though its thread goes on."""
    gate, began, closed = threading.Event(), threading.Event(), threading.Event()

    def body() -> None:
        began.set()
        current_run().stop_requested.wait(PATIENCE_S)
        assert gate.wait(PATIENCE_S)

    pool = None if own_pool else ThreadPoolExecutor(1)
    scheduler = Scheduler(pool, slots=1, observers=[])
    scheduler.start()
    task = scheduler.schedule(body, every(seconds=0.01) if recurring else None, timeout=0.01)
    assert began.wait(PATIENCE_S)
    try:
        scheduler.schedule(int, after(0.001))
        while not scheduler.pools()["default"].zombies:
            threading.Event().wait(0.001)
        closer = threading.Thread(target=lambda: (scheduler.close(timeout=PATIENCE_S), closed.set()))  # type: ignore[func-returns-value]
        closer.start()
        assert closed.wait(PATIENCE_S / 2), "close waits for a run that has ended"
        closer.join()
        assert task.state.terminal
        assert task.runs()[0].reason is Reason.TIMED_OUT
    finally:
        gate.set()
        if pool is not None:
            pool.shutdown()


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_run_times_out_during_the_close_and_ends_it(one_by_one: bool) -> None:
    """Its body ends when it is asked to stop: without its timeout nobody asks, and close waits for ever."""
    began = threading.Event()

    def body() -> bool:
        began.set()
        return current_run().stop_requested.wait(PATIENCE_S)

    pool: Any = Threads(1) if one_by_one else ThreadPoolExecutor(1)
    scheduler = Scheduler(Pool(pool, slots=1), observers=[])
    scheduler.start()
    task = scheduler.schedule(body, timeout=0.05, retry=Retry(3))
    assert began.wait(PATIENCE_S)
    assert scheduler.close(timeout=PATIENCE_S / 2) == []
    assert (task.state, task.reason) == (State.FAILED, Reason.TIMED_OUT)
    assert task.runs()[0].attempt == 1, "who closes does not try again"
    pool.shutdown()


def test_a_body_that_never_returns_is_given_back_by_close_when_its_time_is_up() -> None:
    gate, began = threading.Event(), threading.Event()

    def body() -> None:
        began.set()
        gate.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as pool:
        scheduler = Scheduler(pool, observers=[])
        scheduler.start()
        task = scheduler.schedule(body, timeout=PATIENCE_S)
        assert began.wait(PATIENCE_S)
        assert [run.state for run in scheduler.close(timeout=0.01)] == [State.RUNNING]
        gate.set()
        assert task.wait(PATIENCE_S)
        assert task.state is State.SUCCEEDED


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow", "replace"])
def test_an_occurrence_that_closes_its_scheduler_returns(overlap: Any) -> None:
    """It waits for the others: its task, which lives as long as it does, is not another."""
    left: list[object] = []
    with ThreadPoolExecutor(2) as pool, Scheduler(pool, observers=[]) as scheduler:
        task = scheduler.schedule(
            lambda: left.append(scheduler.close(timeout=PATIENCE_S)), every(seconds=0.001), overlap=overlap, max_runs=1
        )
        assert task.wait(PATIENCE_S / 2)
        assert left == [[]]
        assert task.state.terminal


def test_a_zombie_that_closes_its_scheduler_returns() -> None:
    """Of a pool of our own: it is one of the threads that would be waited for."""
    left: list[object] = []
    done = threading.Event()
    scheduler = Scheduler(slots=1, observers=[])

    def body() -> None:
        current_run().stop_requested.wait(PATIENCE_S)
        try:
            left.append(scheduler.close(timeout=PATIENCE_S))
        except RuntimeError as error:
            left.append(error)
        done.set()

    scheduler.start()
    scheduler.schedule(body, timeout=0.01)
    assert done.wait(PATIENCE_S)
    assert left == [[]]


# Several pools at once


@contextmanager
def two_pools() -> Iterator[Scheduler]:
    with (
        ThreadPoolExecutor(1) as one,
        ThreadPoolExecutor(1) as two,
        Scheduler(pools={"default": one, "two": two}, observers=[], limits=LIMITS) as scheduler,
    ):
        yield scheduler


def test_two_pools_run_at_the_same_time_and_a_full_one_holds_up_itself_only() -> None:
    """A barrier that both must reach; then one is blocked by a zombie, and the other goes on."""
    barrier, gate = threading.Barrier(2, timeout=PATIENCE_S), threading.Event()
    with two_pools() as scheduler:
        meeting = [scheduler.schedule(barrier.wait, pool=name) for name in ("default", "two")]
        assert all(task.wait(PATIENCE_S) for task in meeting)
        assert {task.state for task in meeting} == {State.SUCCEEDED}
        zombie = scheduler.schedule(gate.wait, args=(PATIENCE_S,), pool="two", timeout=0.01)
        behind = scheduler.schedule(int, pool="two")
        assert zombie.wait(PATIENCE_S)
        assert scheduler.schedule(lambda: 5).result(PATIENCE_S) == 5
        assert (behind.state, scheduler.pools()["two"].zombies) == (State.READY, 1)
        gate.set()
        assert behind.result(PATIENCE_S) == 0
        while scheduler.pools()["two"].running or scheduler.pools()["default"].running:
            scheduler.schedule(int).wait(PATIENCE_S)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_limit_that_a_zombie_keeps_is_free_again_when_it_returns(keeps: bool) -> None:
    """Of two pools: who waits for the permit is in the other one."""
    gate, ran = threading.Event(), threading.Event()
    with two_pools() as scheduler:
        on_timeout: Any = "keep" if keeps else "release"
        zombie: Task[Any] = scheduler.schedule(
            gate.wait, args=(PATIENCE_S,), limit="one", timeout=0.01, on_timeout=on_timeout
        )
        assert zombie.wait(PATIENCE_S)
        waiter = scheduler.schedule(ran.set, limit="one", pool="two")
        if keeps:
            while waiter.info.waiting_for != "one":
                scheduler.schedule(int, pool="two").wait(PATIENCE_S)
            assert not ran.is_set()
            gate.set()
        assert waiter.wait(PATIENCE_S)
        gate.set()
        assert ran.is_set()


def test_a_driven_clock_lets_a_run_time_out_while_somebody_closes() -> None:
    """The body moves the clock, and looks at its flag, as one that polls does."""
    clock, pool = FakeClock(), ManualPool()
    scheduler = Scheduler(pool, clock=clock, observers=[])
    scheduler.start()
    seen: list[bool] = []

    def body() -> None:
        assert [run.state for run in scheduler.close(timeout=0)] == []
        seen.append(bool(current_run().stop_requested))

    task = scheduler.schedule(body, timeout=5)
    pool.run_all()
    assert (task.state, seen) == (State.SUCCEEDED, [False])
