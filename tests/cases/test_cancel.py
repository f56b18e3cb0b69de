"""Cancel tells the truth, whenever it comes, and lets go of what it cancels."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.cases.kit import PATIENCE_S, ParkingClock, entries, inline
from tickless import Cancelled, Scheduler, State, Stopped, Task, after, current_run, every
from tickless.core.record import QUEUED, IllegalMove, move, own_run
from tickless.states import MOVES
from tickless.testing import FakeClock, InlinePool, ManualPool


def test_BUG_026_cancel_between_submit_and_start_means_never_called() -> None:
    """In life: cancel says yes, the mail goes out all the same, and the task shows "succeeded"."""
    called: list[int] = []
    pool = ManualPool()
    with Scheduler(pool, clock=FakeClock(), observers=[]) as scheduler:
        task = scheduler.schedule(called.append, args=(1,))
        assert len(pool) == 1, "the pool has it"
        assert task.cancel() is Cancelled.CANCELLED
        pool.run_all()
        assert called == []
        assert task.state == "cancelled"
        following = scheduler.schedule(called.append, args=(2,))
        pool.run_all()
        assert (following.state, called) == ("succeeded", [2]), "its slot is free"


@pytest.mark.parametrize("recurring", [False, True])
def test_BUG_026_cancel_of_what_runs_is_a_request_and_the_work_decides(recurring: bool) -> None:
    """In life: a task that has sent half its mails shows "cancelled", or is set back to running later."""
    clock, pool = FakeClock(), ManualPool()
    answers: list[Cancelled] = []
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:

        def work() -> None:
            answers.append(task.cancel())

        task = scheduler.schedule(work, every(seconds=1) if recurring else after(1))
        clock.advance(1)
        pool.run_all()
        assert answers == [Cancelled.ASKED]
        assert [run.state for run in task.runs()] == ["succeeded"]
        assert task.state == ("cancelled" if recurring else "succeeded")
        assert task.cancel() is Cancelled.TOO_LATE
        assert not Cancelled.TOO_LATE


def test_BUG_026_work_that_stops_on_request_is_cancelled() -> None:
    """In life: what was stopped in the middle looks as if it had been done."""
    pool = ManualPool()

    def work() -> None:
        assert not current_run().stop_requested
        task.cancel()
        if current_run().stop_requested.wait(0):
            raise Stopped

    with Scheduler(pool, clock=FakeClock(), observers=[]) as scheduler:
        task = scheduler.schedule(work)
        pool.run_all()
        assert task.state == "cancelled"


@contextmanager
def restless() -> Iterator[None]:
    """Threads change at every few opcodes: more orders of events in less time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("slots", [1, 2])
def test_BUG_026_in_ten_thousand_races_either_the_cancel_or_the_call_wins(slots: int) -> None:
    """In life: one in ten thousand is both called and "cancelled", or neither."""
    called: set[int] = set()
    answers: dict[int, Cancelled] = {}
    with restless(), Scheduler(slots=slots, observers=[], keep_finished=20_000) as scheduler:
        turn = threading.Barrier(2)
        box: list[Task[None]] = []

        def cancel_all() -> None:
            for number in range(5_000):
                turn.wait()
                answers[number] = box[number].cancel()

        canceller = threading.Thread(target=cancel_all)
        canceller.start()
        for number in range(5_000):
            box.append(scheduler.schedule(called.add, args=(number,)))
            turn.wait()
        canceller.join()
        for number in range(5_000, 10_000):
            task = scheduler.schedule(called.add, args=(number,))
            answers[number] = task.cancel()
            box.append(task)
        assert scheduler.wait(PATIENCE_S)
        states = [task.state for task in box]
    assert len(answers) == 10_000
    for number, answer in answers.items():
        assert (answer is Cancelled.CANCELLED) != (number in called), number
        assert (states[number] is State.CANCELLED) == (answer is Cancelled.CANCELLED), number


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after_it", State)
def test_BUG_027_move_that_the_table_does_not_have_is_refused(before: State, after_it: State) -> None:
    """In life: minutes after a run was given up, the late return turns "failed" into "succeeded"."""
    scheduler = Scheduler(ManualPool(), clock=FakeClock(), observers=[])
    scheduler.start()
    run = own_run(scheduler.schedule(int), QUEUED)
    was, run.state = run.state, before
    if after_it in MOVES[before]:
        move(run, after_it)
        assert run.state is after_it
    else:
        with pytest.raises(IllegalMove):
            move(run, after_it)
        assert run.state is before
    run.state = was
    scheduler.close()


def skipped(scheduler: Scheduler) -> Task[int]:
    return scheduler.schedule(int, after_tasks=[scheduler.schedule(int, after(0))], run_if="any_failed")


def cancelled(scheduler: Scheduler) -> Task[int]:
    task = scheduler.schedule(int, after(60))
    task.cancel()
    return task


@pytest.mark.parametrize(
    "make",
    [
        lambda scheduler: scheduler.schedule(int),
        lambda scheduler: scheduler.schedule(int, args=("not a number",)),
        skipped,
        cancelled,
    ],
    ids=["succeeded", "failed", "skipped", "cancelled"],
)
def test_BUG_027_nothing_brings_an_ended_task_back(make: Callable[[Scheduler], Task[int]]) -> None:
    """In life: what depended on the first end has happened already."""
    with inline() as (scheduler, clock):
        task = make(scheduler)
        info, runs = task.info, task.runs()
        assert info.state.terminal
        assert task.cancel() is Cancelled.TOO_LATE
        clock.advance(3600)
        scheduler.close(cancel=True)
        assert (task.info, task.runs()) == (info, runs)


def test_BUG_030_cancelling_each_task_of_a_listing_leaves_none() -> None:
    """In life: the list shrinks under the loop, and every second task survives."""
    with inline() as (scheduler, _):
        for _ in range(10):
            scheduler.schedule(int, every(seconds=1))
        for info in scheduler.tasks():
            assert scheduler.cancel(info) is Cancelled.CANCELLED
        assert [info for info in scheduler.tasks() if not info.state.terminal] == []
        assert scheduler.wait(timeout=0)


def test_BUG_030_listing_while_another_thread_adds_raises_nothing() -> None:
    """In life: "dictionary changed size during iteration", once a week."""
    sizes: list[int] = []
    with restless(), ThreadPoolExecutor(1) as adder:
        scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
        done = adder.submit(lambda: [scheduler.schedule(int, after(60)) for _ in range(2_000)])
        while not done.done():
            sizes.append(len(scheduler.tasks()))
        assert len(scheduler.tasks()) == 2_000
        scheduler.close()
    assert sizes == sorted(sizes)


class Payload:
    """Something large that a task holds."""


def test_BUG_031_cancelled_tasks_leave_neither_entries_nor_arguments_behind() -> None:
    """In life: a timeout of an hour for each request, cancelled 5 ms later, keeps 3.6 million of them alive."""
    order: list[int] = []
    with inline() as (scheduler, clock):
        for number in range(10):
            scheduler.schedule(order.append, after(3600 + number), args=(number,))
        payload = Payload()
        gone = weakref.ref(payload)
        handle = scheduler.schedule(id, after(3600), args=(payload,))
        del payload
        handle.cancel()
        most = 0
        for _ in range(100_000):
            scheduler.schedule(int, after(3600)).cancel()
            most = max(most, entries(scheduler))
        assert most <= 2 * 10 + 64 + 1, "one more while it lives"
        gc.collect()
        assert gone() is None, "although its handle is held"
        clock.advance(3610)
        assert order == list(range(10))


def test_BUG_031_cancelled_head_wakes_nobody_at_its_time() -> None:
    """In life: a storm of wake-ups for tasks that are not there any more."""
    clock = ParkingClock()
    with Scheduler(InlinePool(), clock=clock, observers=[]) as scheduler:
        heads = [scheduler.schedule(int, after(60)) for _ in range(5)]
        real = scheduler.schedule(int, after(3600))
        clock.parked_until(60)
        for head in heads:
            head.cancel()
        clock.hand.advance(60)
        clock.parked_until(3600)
        clock.hand.advance(3540)
        assert real.wait(PATIENCE_S)
        assert [head.runs()[0].started_us for head in heads] == [None] * 5
