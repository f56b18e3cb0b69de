"""The pool is somebody else's: closed, broken, full. Runs end with a reason, and the dispatcher lives."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cases.kit import PATIENCE_S, Ear, VicePool, dues, inline, ready
from tickless import EventKind, Pool, Reason, Scheduler, Task, TaskRejected, after, every
from tickless.testing import FakeClock, InlinePool, ManualPool

TICK = every(seconds=1)
ERRORS = [RuntimeError("cannot schedule new futures after shutdown"), BrokenProcessPool("died"), queue.Full()]
Vice = Callable[[int], Future[Any] | None]


def refusing(error: BaseException, when: Callable[[int], bool]) -> Vice:
    def vice(submits: int) -> None:
        if when(submits):
            raise error

    return vice


class DrainedVicePool(VicePool):
    """As VicePool, but drained as thread pools are."""

    tickless_slots = 1


@contextmanager
def on(vice: Vice, drained: bool, ear: Ear | None = None) -> Iterator[tuple[Scheduler, FakeClock, VicePool]]:
    clock = FakeClock()
    pool = DrainedVicePool(vice) if drained else VicePool(vice)
    with Scheduler(Pool(pool, slots=1), clock=clock, observers=[ear] if ear else []) as scheduler:
        yield scheduler, clock, pool


both_hands = pytest.mark.parametrize("drained", [True, False], ids=["drained", "one submit per run"])


def states(task: Task[Any]) -> list[tuple[str, Reason | None]]:
    return [(run.state.value, run.reason) for run in task.runs()]


REJECTED = ("failed", Reason.REJECTED)
SUCCEEDED = ("succeeded", None)


@both_hands
@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_BUG_042_pool_that_always_refuses_fails_each_run_once_and_nothing_hangs(
    error: BaseException, drained: bool
) -> None:
    """In life: the task hangs in ready for ever; or the whole schedule is burnt within seconds, in a hot loop."""
    with on(refusing(error, lambda submits: True), drained) as (scheduler, clock, pool):
        recurring = scheduler.schedule(int, TICK)
        once = scheduler.schedule(int, after(1))
        later = scheduler.schedule(int, after(100))
        clock.advance(3)
        assert states(recurring) == [REJECTED] * 3
        assert states(once) == [REJECTED]
        assert later.state == "pending", "only what is due is tried"
        assert pool.submits == 4, "once a run: no hot retry"
        assert ready(scheduler) == 0
        with pytest.raises(TaskRejected, match=type(error).__name__):
            once.result(timeout=0)


@both_hands
def test_BUG_042_pool_that_refuses_once_or_now_and_then_costs_just_those_runs(drained: bool) -> None:
    """In life: a full queue once, and the task never runs again."""
    with on(refusing(queue.Full(), lambda submits: submits == 1), drained) as (scheduler, clock, _):
        task = scheduler.schedule(int, TICK)
        clock.advance(3)
        assert states(task) == [REJECTED, SUCCEEDED, SUCCEEDED]
    with on(refusing(queue.Full(), lambda submits: submits % 2 == 0), drained) as (scheduler, clock, _):
        task = scheduler.schedule(int, TICK)
        clock.advance(4)
        assert states(task) == [SUCCEEDED, REJECTED] * 2


@both_hands
@pytest.mark.parametrize("error", [SystemExit(1), GeneratorExit(), BaseException("odd")], ids=repr)
def test_BUG_042_pool_that_raises_more_than_an_exception_leaves_the_dispatcher_alive(
    error: BaseException, drained: bool
) -> None:
    """In life: `except Exception` does not catch it, and the dispatcher's thread is gone. With a thread of its own."""
    pool: VicePool = (DrainedVicePool if drained else VicePool)(refusing(error, lambda submits: submits == 1))
    with Scheduler(Pool(pool, slots=1), observers=[]) as scheduler:
        first = scheduler.schedule(int, after(0.001))
        assert first.wait(PATIENCE_S)
        assert states(first) == [REJECTED]
        assert scheduler.schedule(int, after(0.001)).result(PATIENCE_S) == 0


def test_BUG_042_pool_that_its_owner_shuts_down_fails_what_comes_and_is_told_as_failures() -> None:
    """In life: the dispatcher dies of "cannot schedule new futures after shutdown"."""
    clock, ear = FakeClock(), Ear()
    pool = ThreadPoolExecutor(1)
    with Scheduler(pool, clock=clock, observers=[ear]) as scheduler:
        pool.shutdown()
        task = scheduler.schedule(int, TICK)
        clock.advance(2)
        assert states(task) == [REJECTED] * 2
        assert task.state == "pending"
    assert [event.reason for event in ear.of(EventKind.FAILED)] == [Reason.REJECTED] * 2


def test_BUG_042_runs_that_a_pool_drops_at_its_shutdown_do_not_hang() -> None:
    """In life: the pool is shut down with cancel_futures, and whoever waits for the task waits for ever."""
    clock, pool = FakeClock(), ManualPool(slots=2)
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        tasks = [scheduler.schedule(int) for _ in range(5)]
        pool.shutdown(cancel_futures=True)
        assert [states(task) for task in tasks] == [[REJECTED]] * 5


def test_BUG_042_other_schedulers_on_a_healthy_pool_do_not_notice() -> None:
    """In life: one broken pool takes the others down with it."""
    with (
        on(refusing(BrokenExecutor("died"), lambda submits: True), drained=False) as (_, broken_clock, _),
        inline(broken_clock) as (healthy, _),
    ):
        task = healthy.schedule(int, TICK)
        broken_clock.advance(3)
        assert dues(task.runs()) == [1, 2, 3]


@both_hands
def test_BUG_042_children_of_a_rejected_run_are_decided(drained: bool) -> None:
    """In life: the parent never ran, and what waits for it waits for ever."""
    with on(refusing(RuntimeError("closed"), lambda submits: submits == 1), drained) as (scheduler, _, _):
        # Before anything starts there is nothing to refuse.
        parent = scheduler.schedule(int, after(0), id="parent")
        child = scheduler.schedule(int, after_tasks=[parent])
        alarm = scheduler.schedule(int, after_tasks=[parent], run_if="any_failed")
        assert (child.state, child.reason) == ("skipped", Reason.PARENT_FAILED)
        assert alarm.state == "succeeded"


def test_BUG_042_arguments_that_cannot_be_carried_fail_their_own_run_only() -> None:
    """In life: one argument cannot be pickled, and the pool is taken for broken."""

    def vice(submits: int) -> Future[Any] | None:
        if submits == 1:
            raise TypeError("cannot pickle '_thread.lock' object")
        return None

    with on(vice, drained=False) as (scheduler, _, _):
        bad, good = scheduler.schedule(int), scheduler.schedule(int)
        assert (states(bad), states(good)) == ([REJECTED], [SUCCEEDED])


def test_BUG_042_pool_that_was_shut_down_before_the_start_is_no_hang() -> None:
    """In life: the pool is closed in one place and the scheduler started in another."""
    pool = InlinePool()
    pool.shutdown()
    with Scheduler(pool, clock=FakeClock(), observers=[]) as scheduler:
        assert states(scheduler.schedule(int)) == [REJECTED]
        assert scheduler.wait(timeout=0)
