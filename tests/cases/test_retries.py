"""Attempts belong to one fire: they are counted there, wait their time, and keep the task busy."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import pairwise
from queue import Full
from typing import Any

import pytest

from tests.cases.kit import Ear, VicePool, dues, fires_skipped, inline, ready, seconds, sound, starts
from tickless import EventKind, Pool, Reason, Retry, ScheduleError, Scheduler, Task, after, every
from tickless.instants import MAX_INSTANT, datetime_of
from tickless.testing import FakeClock, InlinePool, ManualPool

MINUTE = every(minutes=1)
Begun = list[tuple[float | None, float | None, int]]


def fail() -> None:
    raise ValueError("broken")


def begun(task: Task[Any]) -> Begun:
    """(due, start, number) of every attempt there was."""
    return [
        (seconds(run.due_us), seconds(started), number)
        for run in task.runs()
        if run.reason is not Reason.OVERLAP
        for number, started in (
            *((one.number, one.started_us) for one in run.attempts),
            *([(run.attempt, run.started_us)] if run.started_us is not None else []),
        )
    ]


# The wait


def test_BUG_051_a_thousand_attempts_each_begin_in_time() -> None:
    """In life: base * 2**1024 is no float, and the task dies of an OverflowError; or the wait turns negative."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(fail, retry=Retry(1_100, delay=0.001, max_delay=60, jitter=1))
        clock.advance(1_100 * 60)
        run = task.last_run
        assert run is not None
        assert (run.state, run.attempt, len(run.attempts)) == ("failed", 1_100, 100)
        begins = [one.started_us for one in run.attempts]
        waits = [(later - sooner) / 1e6 for sooner, later in pairwise(begins)]
        assert min(waits) >= 0.001
        assert max(waits) <= 60
        assert waits[100:] == [60] * (len(waits) - 100), "the cap holds to the end"
        sound(scheduler)


@pytest.mark.parametrize("delay", [60.0, 1e6, 3e10, 2e11, 1e300])
@pytest.mark.parametrize("factor", [1, 2, 1e300])
def test_BUG_051_the_instant_of_a_retry_is_one_that_the_calendar_has(delay: float, factor: float) -> None:
    """In life: the retry lies in the year 31,690, and whoever lists the tasks gets an exception."""
    try:
        retry = Retry(5, delay=delay, factor=factor, max_delay=delay)
    except ScheduleError as error:  # refused by name is right too
        assert "Retry(" in str(error)  # noqa: PT017 - one of two right answers
        return
    with inline() as (scheduler, clock):
        task = scheduler.schedule(fail, retry=retry)
        at_us = task.info.retry_at_us
        assert at_us is not None
        assert clock.now() < at_us <= MAX_INSTANT
        assert datetime_of(at_us).year >= 2024
        assert task.state == "pending"
        sound(scheduler)


# Attempts and fires


def test_BUG_052_each_fire_begins_at_its_first_attempt() -> None:
    """In life: the counter belongs to the task, and after three failures in a month nothing is tried again."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(fail, every(minutes=1), retry=Retry(3, delay=25, factor=1))
        clock.advance(240 - 1)
        assert begun(task) == [
            *((60, 60, 1), (60, 85, 2), (60, 110, 3)),
            *((120, 120, 1), (120, 145, 2), (120, 170, 3)),
            *((180, 180, 1), (180, 205, 2), (180, 230, 3)),
        ]
        assert [(run.state, run.attempt) for run in task.runs()] == [("failed", 3)] * 3
        sound(scheduler)


def test_BUG_052_fire_that_comes_while_a_retry_waits_is_skipped_as_overlap() -> None:
    """In life: the retry and the next fire run side by side. Documented: an occurrence is busy until its last try."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(fail, MINUTE, retry=Retry(3, delay=50, factor=1))
        clock.advance(115)
        assert (task.state, task.reason) == ("pending", Reason.RETRY)
        assert task.skipped_now == 0
        clock.advance(5)
        assert task.skipped_now == 1
        clock.advance(59)
        assert begun(task) == [(60, 60, 1), (60, 110, 2), (60, 160, 3)]
        assert [(run.state.value, run.reason, seconds(run.due_us)) for run in task.runs()] == [
            ("failed", None, 60),
            ("skipped", Reason.OVERLAP, 120),
        ]
        clock.advance(1)
        assert begun(task)[3:] == [(180, 180, 1)]
        sound(scheduler)


@pytest.mark.parametrize(
    ("overlap", "second"),
    [
        ("queue", [(120, 160, 1)]),
        ("replace", [(120, 120, 1), (120, 170, 2)]),
        ("allow", [(120, 120, 1), (120, 170, 2)]),
    ],
)
def test_BUG_052_retry_that_meets_the_next_fire_does_as_its_overlap_says(overlap: Any, second: Begun) -> None:
    """In life: it depends on which of the two was written to the queue first."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(fail, MINUTE, retry=Retry(3, delay=50, factor=1), overlap=overlap, max_runs=2)
        clock.advance(175)
        mine = begun(task)
        assert [one for one in mine if one[0] == 120] == second
        first = [one[1] for one in mine if one[0] == 60]
        assert first == ([60, 110] if overlap == "replace" else [60, 110, 160])
        sound(scheduler)
        clock.advance(500)
        assert task.state.terminal
        assert fires_skipped(task, Reason.OVERLAP) == 0
        sound(scheduler)


def test_BUG_052_never_two_attempts_at_once() -> None:
    """In life: the retry is in the pool's queue already when the next fire comes."""
    clock, pool = FakeClock(), ManualPool(slots=4)
    going: list[int] = []
    most: list[int] = []
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:

        def work() -> None:
            going.append(1)
            most.append(len(going))
            clock.advance(70)
            pool.run_next()
            going.pop()
            fail()

        task = scheduler.schedule(work, MINUTE, retry=Retry(4, delay=20, factor=1))
        for _ in range(20):
            clock.advance(10)
            pool.run_next()
            sound(scheduler)
        assert len(most) > 4
        assert set(most) == {1}
        assert len({run.due_us for run in task.runs()}) == len(task.runs()), "each fire has one record"


@pytest.mark.parametrize("way", ["fails", "is rejected", "times out"])
def test_BUG_052_retries_end_at_their_number_whatever_made_them_necessary(way: str) -> None:
    """In life: one of the ways back into the queue forgets to count."""
    clock, pool = FakeClock(), ManualPool()
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:

        def work() -> None:
            if way == "times out":
                clock.advance(3)
            fail()

        task = scheduler.schedule(work, retry=Retry(3, delay=1, factor=1), timeout=2)
        for _ in range(10):
            if way == "is rejected" and len(pool):
                pool.shutdown(cancel_futures=True)
            pool.run_next()
            clock.advance(5)
            sound(scheduler)
        run = task.last_run
        assert run is not None
        assert (run.state, run.attempt, [one.number for one in run.attempts]) == ("failed", 3, [1, 2])
        reason = {"fails": None, "is rejected": Reason.REJECTED, "times out": Reason.TIMED_OUT}[way]
        assert {run.reason, *(one.reason for one in run.attempts)} == {reason}


# Overlap with what takes long


@pytest.mark.parametrize("tries", [1, 2, 3, 5])
def test_BUG_017_a_run_with_its_retries_is_one_run_to_the_fires_that_it_meets(tries: int) -> None:
    """In life: each retry counts as late, skips the next fire, and the task has not run for nine hours."""
    clock, pool = FakeClock(), ManualPool()
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:

        def work() -> None:
            clock.advance(30)
            if len(begins) < tries:
                begins.append(1)
                fail()

        begins = [1]
        task = scheduler.schedule(work, MINUTE, retry=Retry(tries, delay=25, factor=1))
        clock.advance(60)
        while not task.runs()[0].state.terminal:
            if not pool.run_next():
                clock.advance(25)
        finished = 60 + 30 * tries + 25 * (tries - 1)
        inside = [slot for slot in range(120, finished, 60) if slot < finished]
        run = task.runs()[0]
        assert (seconds(run.due_us), run.state, run.attempt) == (60, "succeeded", tries)
        assert seconds(run.finished_us) == finished
        assert fires_skipped(task, Reason.OVERLAP) == len(inside)
        assert len([run for run in task.runs() if run.reason is Reason.OVERLAP]) == min(1, len(inside)), "one record"
        sound(scheduler)


@pytest.mark.parametrize("duration", [31, 59, 60, 61, 119, 120, 121, 900])
def test_BUG_017_zombie_is_busy_until_it_returns_and_then_the_next_on_the_grid_runs(duration: int) -> None:
    """In life: a fire that met a zombie counts as missed, and the next is dropped for it."""
    clock, pool = FakeClock(), ManualPool()
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        task = scheduler.schedule(clock.advance, MINUTE, args=(duration,), timeout=30)
        clock.advance(60)
        pool.run_next()
        finished = 60 + duration
        inside = [slot for slot in range(120, finished, 60) if slot < finished]
        assert fires_skipped(task, Reason.OVERLAP) == len(inside)
        assert fires_skipped(task, Reason.COALESCED) == 0
        assert len([run for run in task.runs() if run.state.terminal]) == 1 + min(1, len(inside))
        following = -(-finished // 60) * 60
        clock.advance(following - finished)
        pool.run_next()
        assert dues(task.runs()) == [60, following]
        sound(scheduler)


# The pool refuses

ERRORS = [RuntimeError("cannot schedule new futures after shutdown"), BrokenProcessPool("died"), Full()]
RETRY = Retry(3, delay=1, factor=1)


class DrainedVicePool(VicePool):
    """As VicePool, but drained as thread pools are."""

    tickless_slots = 1


def refusing(error: BaseException, when: Callable[[int], bool]) -> Callable[[int], Future[Any] | None]:
    def vice(submits: int) -> None:
        if when(submits):
            raise error

    return vice


both_hands = pytest.mark.parametrize("kind", [DrainedVicePool, VicePool], ids=["drained", "one submit per run"])


@both_hands
@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_BUG_042_rejected_run_is_tried_as_often_as_its_retry_says_and_no_oftener(error: Exception, kind: Any) -> None:
    """In life: a hot loop of submits, thousands a second, until the disk is full of its log."""
    pool, ear, clock = kind(refusing(error, lambda submits: True)), Ear(), FakeClock()
    with Scheduler(Pool(pool, slots=1), clock=clock, observers=[ear]) as scheduler:
        once = scheduler.schedule(int, retry=RETRY)
        beat = scheduler.schedule(int, every(seconds=10), retry=RETRY)
        later = scheduler.schedule(int, after(100), retry=RETRY)
        assert (once.state, once.reason) == ("pending", Reason.RETRY)
        clock.advance(25)
        assert pool.submits == 3 + 2 * 3, "each attempt once"
        for run in (*once.runs(), *beat.runs()):
            assert (run.state, run.reason, run.attempt) == ("failed", Reason.REJECTED, 3)
            assert [one.reason for one in run.attempts] == [Reason.REJECTED] * 2
        assert [seconds(run.due_us) for run in beat.runs()] == [10, 20]
        assert (later.state, beat.state, ready(scheduler)) == ("pending", "pending", 0)
        kinds = [event.kind for event in ear.events if event.task_id == once.id]
        assert kinds.count(EventKind.RETRY) == 2
        assert kinds.count(EventKind.FAILED) == 1
        sound(scheduler)


@both_hands
@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize(("when", "attempt"), [(lambda n: n == 1, 2), (lambda n: n % 2 == 1, 2), (lambda n: n < 3, 3)])
def test_BUG_042_refusal_that_passes_costs_an_attempt_and_not_the_run(
    error: Exception, kind: Any, when: Callable[[int], bool], attempt: int
) -> None:
    """In life: the pool was full for a second, and the nightly run is lost."""
    pool, clock = kind(refusing(error, when)), FakeClock()
    with Scheduler(Pool(pool, slots=1), clock=clock, observers=[]) as scheduler:
        task = scheduler.schedule(lambda: "done", retry=RETRY)
        child = scheduler.schedule(int, after_tasks=[task], retry=RETRY)
        assert child.state == "pending", "its parent has not failed yet"
        clock.advance(10)
        assert task.result(timeout=0) == "done"
        assert task.last_run is not None
        assert task.last_run.attempt == attempt
        assert child.state == "succeeded"
        sound(scheduler)


@pytest.mark.parametrize("drained", [True, False])
@pytest.mark.parametrize("error", [SystemExit(1), GeneratorExit(), BaseException("odd")], ids=repr)
def test_BUG_042_pool_that_raises_more_than_an_exception_has_its_run_tried_again(
    error: BaseException, drained: bool
) -> None:
    """In life: the dispatcher's thread is gone. What the run failed with is TaskRejected, whatever the pool raised."""
    pool: VicePool = (DrainedVicePool if drained else VicePool)(refusing(error, lambda submits: submits == 1))
    with Scheduler(Pool(pool, slots=1), observers=[]) as scheduler:
        first = scheduler.schedule(int, after(0.001), retry=Retry(2, delay=0.001))
        assert first.result(30) == 0
        run = first.last_run
        assert run is not None
        assert (run.attempt, [one.reason for one in run.attempts]) == (2, [Reason.REJECTED])


def test_BUG_042_other_pool_of_the_same_scheduler_does_not_notice() -> None:
    """In life: the pool for processes breaks, and the threads stand still with it."""
    broken, clock = VicePool(refusing(BrokenProcessPool("died"), lambda submits: True)), FakeClock()
    pools: dict[str, Any] = {"default": InlinePool(), "cpu": Pool(broken, slots=1)}
    with Scheduler(pools=pools, clock=clock, observers=[]) as scheduler:
        bad = scheduler.schedule(int, every(seconds=1), pool="cpu", retry=Retry(2, delay=0.1))
        good = scheduler.schedule(int, every(seconds=1))
        clock.advance(3)
        assert dues(good.runs()) == starts(good.runs()) == [1, 2, 3]
        assert [(run.state, run.reason, run.attempt) for run in bad.runs()][:2] == [("failed", Reason.REJECTED, 2)] * 2
        assert {name: (pool.ready, pool.running) for name, pool in scheduler.pools().items()} == {
            "default": (0, 0),
            "cpu": (0, 0),
        }
        sound(scheduler)
