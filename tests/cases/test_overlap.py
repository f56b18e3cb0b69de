"""Runs that take longer than their interval, and runs whose end is easily missed: the next fire comes all the same."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from tests.cases.kit import VicePool, dues, fires_skipped, inline, ready, seconds, starts
from tickless import Event, EventKind, Pool, Reason, Scheduler, State, every
from tickless.testing import FakeClock, InlinePool, ManualPool

MINUTE = every(minutes=1)


def raising(error: BaseException) -> Callable[[], Any]:
    def work() -> Any:
        raise error

    return work


@pytest.mark.parametrize("duration", [59, 60, 61, 90, 119, 120, 121, 900])
def test_BUG_017_fires_during_a_run_are_skipped_and_the_next_one_on_the_grid_runs(duration: int) -> None:
    """In life: each late fire counts as missed and skips the next, and a task has not run for nine hours."""
    clock, pool = FakeClock(), ManualPool()
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        task = scheduler.schedule(clock.advance, MINUTE, args=(duration,))
        clock.advance(60)
        assert task.state == "ready"
        assert pool.run_next()
        finished = 60 + duration
        strictly_inside = len([slot for slot in range(120, finished, 60) if slot < finished])
        assert fires_skipped(task, Reason.OVERLAP) == strictly_inside
        assert fires_skipped(task, Reason.COALESCED) == 0, "overlap and misfire are two reasons"
        assert len([run for run in task.runs() if run.state == "skipped"]) == min(1, strictly_inside), "one record"
        clock.advance(60)
        pool.run_next()
        following = -(-finished // 60) * 60  # a finish at the very time of a fire is no overlap
        assert dues(task.runs()) == [60, following]


def test_BUG_017_overlap_takes_no_room_and_is_no_failure() -> None:
    """In life: the second fire waits for a lock, and with it one of two workers."""
    clock, pool = FakeClock(), ManualPool(slots=2)
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        waiting: list[int] = []

        def work() -> None:
            clock.advance(90)
            waiting.append(ready(scheduler))

        task = scheduler.schedule(work, MINUTE)
        clock.advance(60)
        pool.run_next()
        assert waiting == [0]
        assert [(run.state, run.reason) for run in task.runs()] == [("succeeded", None), ("skipped", Reason.OVERLAP)]
        assert task.state == "pending"


ENDS: dict[str, tuple[Callable[[], Any], State]] = {
    "returns": (int, State.SUCCEEDED),
    "raises": (raising(ValueError("broken")), State.FAILED),
    "raises BaseException": (raising(BaseException("broken")), State.FAILED),
    "exits": (raising(SystemExit(1)), State.FAILED),
    "is interrupted": (raising(KeyboardInterrupt()), State.FAILED),
    "is closed as a generator": (raising(GeneratorExit()), State.FAILED),
    "cannot be pickled": (raising(pickle.PicklingError("lambda")), State.FAILED),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("drained", [True, False])
def test_BUG_015_whatever_a_run_ends_with_the_next_fire_is_accepted(end: str, drained: bool) -> None:
    """In life: one exception of a rare kind, and from then on each fire is skipped as "already running", for ever."""
    work, state = ENDS[end]
    clock = FakeClock()
    pool = Pool(InlinePool()) if drained else Pool(VicePool(lambda submits: None), slots=1)
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        task = scheduler.schedule(work, MINUTE)
        clock.advance(180)
        assert [run.state for run in task.runs()] == [state] * 3
        assert dues(task.runs()) == [60, 120, 180]
        assert task.state == "pending"


def dropped(submits: int) -> Future[Any] | None:
    """The first future is cancelled, as a pool does that is shut down with cancel_futures."""
    if submits > 1:
        return None
    future: Future[Any] = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future


def refused(submits: int) -> Future[Any] | None:
    if submits == 1:
        raise RuntimeError("no room")
    return None


def unpicklable(submits: int) -> Future[Any] | None:
    if submits > 1:
        return None
    future: Future[Any] = Future()
    future.set_exception(pickle.PicklingError("cannot pickle the result"))
    return future


@pytest.mark.parametrize("vice", [dropped, refused, unpicklable])
def test_BUG_015_run_that_the_pool_loses_has_an_end_and_the_next_fire_is_accepted(
    vice: Callable[[int], Future[Any] | None],
) -> None:
    """In life: the pool forgot one item, and its task counts as running till the process ends."""
    clock = FakeClock()
    with Scheduler(Pool(VicePool(vice), slots=1), clock=clock, observers=[]) as scheduler:
        task = scheduler.schedule(int, MINUTE)
        clock.advance(60)
        first = task.last_run
        assert first is not None
        assert first.state == "failed"
        assert first.reason is (None if vice is unpicklable else Reason.REJECTED)
        clock.advance(120)
        assert [run.state for run in task.runs()] == ["failed", "succeeded", "succeeded"]


class RaisingListener:
    kinds = frozenset(EventKind)

    def observe(self, events: Sequence[Event]) -> None:
        raise RuntimeError("listener")


def test_BUG_015_listener_that_raises_at_the_end_of_a_run_leaks_nothing() -> None:
    """In life: the guard is freed after the listeners were told, and one of them raises."""
    clock = FakeClock()
    with Scheduler(InlinePool(), clock=clock, observers=[RaisingListener()]) as scheduler:
        task = scheduler.schedule(int, MINUTE)
        clock.advance(180)
        assert dues(task.runs()) == [60, 120, 180]


def test_BUG_015_skip_says_when_the_run_that_it_met_had_begun() -> None:
    """In life: a leak would be seen in the log at once, if a skip said what it met."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(clock.advance, MINUTE, args=(90,))
        clock.advance(60)
        run, skip = task.runs()
        assert skip.reason is Reason.OVERLAP
        assert seconds(run.started_us) == 60
        assert seconds(run.finished_us) == seconds(skip.finished_us) == 150
        assert (skip.due_us or 0) > (run.started_us or 0)


def test_BUG_044_while_no_worker_is_free_a_task_waits_once_and_is_not_dropped() -> None:
    """In life: a second of each minute is queued behind the blocker a hundred times; or the one-shot counts as done."""
    clock, pool = FakeClock(), ManualPool()
    seen: list[tuple[State, State, int]] = []
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:

        def block() -> None:
            for _ in range(100):
                clock.advance(1)
                seen.append((often.state, once.state, ready(scheduler)))

        scheduler.schedule(block, priority=1)
        often = scheduler.schedule(int, every(seconds=1))
        once = scheduler.schedule(int)
        pool.run_next()
        assert set(seen) == {("ready", "ready", 2)}, "the pool holds no pile of equal fires"
        pool.run_all()
        assert starts(once.runs()) == [100]
        run = often.runs()[0]
        assert (seconds(run.due_us), seconds(run.started_us)) == (1, 100)
        assert run.lateness is not None
        assert run.lateness.total_seconds() == 99, "the time in the queue is lateness, and can be seen"
        assert fires_skipped(often, Reason.OVERLAP) == 98
        clock.advance(0)
        pool.run_all()
        assert dues(often.runs()) == [1, 100], "a finish at the time of a fire is no overlap"
