"""Start, stop, and everything between: in any order, twice, at once. From inside, fork and exit: see tests/faults."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World, our_threads, running_until_let_go
from tests.observe.observers import Keeper
from tickless import (
    Call,
    CancelledError,
    Event,
    EventKind,
    NotStarted,
    Reason,
    Run,
    Scheduler,
    SchedulerClosed,
    State,
    after,
    current_run,
    every,
)
from tickless.lifetime import SignalBell, stop_signals
from tickless.testing import FakeClock


def nothing() -> None: ...


# Start


def test_starting_twice_is_starting_once() -> None:
    """Two dispatchers would run each fire twice."""
    with Scheduler(observers=[]) as scheduler:
        scheduler.start()
        assert our_threads().count("tickless-dispatcher") == 1
        assert scheduler.schedule(lambda: 1).result(PATIENCE_S) == 1


def test_starting_from_many_threads_at_once_starts_one_dispatcher() -> None:
    scheduler = Scheduler(observers=[])
    together = threading.Barrier(8)

    def start() -> None:
        together.wait(PATIENCE_S)
        scheduler.start()

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert our_threads().count("tickless-dispatcher") == 1
    scheduler.close()


def test_nothing_runs_before_the_start_and_what_was_due_runs_at_it_in_order() -> None:
    world = World(start=False)
    world.scheduler.schedule(world.timed("b"), after(2))
    world.scheduler.schedule(world.timed("a"))
    world.scheduler.schedule(world.timed("c"), after(4))
    world.clock.advance(3)
    assert world.story == []
    assert [info.state for info in world.scheduler.tasks()] == [State.PENDING] * 3
    world.scheduler.start()
    assert world.story == [("a", 3), ("b", 3)]
    world.clock.advance(1)
    assert world.story[2:] == [("c", 4)]


def test_the_phase_tells_where_it_is() -> None:
    world = World(start=False)
    scheduler = world.scheduler
    phases: list[str] = [scheduler.phase]
    scheduler.start()
    phases.append(scheduler.phase)
    scheduler.close()
    phases.append(scheduler.phase)
    assert phases == ["new", "running", "closed"]


# Close


def test_closing_before_the_start_cancels_what_waits_and_is_final() -> None:
    scheduler = Scheduler(observers=[])
    task = scheduler.schedule(nothing)
    assert scheduler.close() == []
    assert (task.state, task.reason) == (State.CANCELLED, Reason.CLOSED)
    with pytest.raises(SchedulerClosed, match="make a new Scheduler"):
        scheduler.start()
    assert our_threads() == []


@pytest.mark.parametrize("started", [False, True])
def test_a_closed_scheduler_refuses_what_is_new_and_answers_what_was(started: bool) -> None:
    """In life: the page that lists the tasks is asked once more while the service goes down."""
    world = World(start=started)
    task = world.scheduler.schedule(nothing, after(5), id="x")
    world.scheduler.close()
    for refused in (
        lambda: world.scheduler.schedule(nothing),
        lambda: world.scheduler.schedule(nothing, id="x", exists="update"),
        lambda: world.scheduler.schedule_many([Call(nothing)]),
        world.scheduler.start,
        world.scheduler.run,
        world.scheduler.__enter__,
    ):
        with pytest.raises(SchedulerClosed, match="make a new Scheduler"):
            refused()
    assert [info.id for info in world.scheduler.tasks()] == ["x"]
    assert world.scheduler.get("x").state is State.CANCELLED
    assert [run.reason for run in world.scheduler.runs("x")] == [Reason.CLOSED]
    assert not task.cancel()
    assert task.wait(0)
    assert world.scheduler.wait(0)
    with pytest.raises(CancelledError, match="closed"):
        task.result()
    world.clock.advance(10)
    assert world.kinds().count(EventKind.STARTED) == 0


def test_closing_twice_is_closing_once() -> None:
    with Scheduler(observers=[]) as scheduler:
        assert scheduler.close() == []
        assert scheduler.close() == []
    assert scheduler.close() == []
    assert our_threads() == []


def test_closing_from_many_threads_at_once_ends_for_all_of_them() -> None:
    scheduler = Scheduler(observers=[])
    scheduler.start()
    with running_until_let_go(scheduler) as (task, gate):
        answers: list[list[Run]] = []
        threads = [threading.Thread(target=lambda: answers.append(scheduler.close())) for _ in range(4)]
        for thread in threads:
            thread.start()
        gate.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert answers == [[]] * 4
    assert task.state is State.SUCCEEDED
    assert our_threads() == []


def test_close_waits_for_what_runs_and_cancels_what_waits() -> None:
    """Pending, ready and waiting for a parent: none starts any more. What runs ends as it ends."""
    scheduler = Scheduler(slots=1, observers=[])
    scheduler.start()
    with running_until_let_go(scheduler, id="runs") as (task, gate):
        waiting = [
            scheduler.schedule(nothing, after(3600)),
            scheduler.schedule(nothing),
            scheduler.schedule(nothing, after_tasks=[task]),
            scheduler.schedule(nothing, every(seconds=1), id="beat"),
        ]
        closer = threading.Thread(target=scheduler.close)
        closer.start()
        for other in waiting:
            assert other.wait(PATIENCE_S), "waiters wake at once, not when the last run has ended"
        assert scheduler.get(task).state is State.RUNNING
        gate.set()
        closer.join(PATIENCE_S)
    assert scheduler.get(task).state is State.SUCCEEDED
    assert {(other.state, other.reason) for other in waiting} == {(State.CANCELLED, Reason.CLOSED)}


def test_close_with_a_timeout_gives_what_still_runs_and_may_be_called_again() -> None:
    """In life: the service manager gives ten seconds, and the log should say what was cut off."""
    scheduler = Scheduler(observers=[])
    scheduler.start()
    with running_until_let_go(scheduler, id="slow") as (task, gate):
        for timeout in (0, 0.001):
            assert [(run.task_id, run.state) for run in scheduler.close(timeout)] == [("slow", State.RUNNING)]
        gate.set()
        assert scheduler.close() == []
    assert task.state is State.SUCCEEDED
    assert our_threads() == []


def test_close_with_cancel_sets_the_stop_flags_of_what_runs() -> None:
    """A flag that was looked at before, and one that is looked at afterwards."""
    scheduler = Scheduler(slots=2, observers=[])
    entered = threading.Barrier(3)
    answers: list[bool] = []

    def polite() -> None:
        flag = current_run().stop_requested
        entered.wait(PATIENCE_S)
        answers.append(flag.wait(PATIENCE_S))

    def late() -> None:
        entered.wait(PATIENCE_S)
        answers.append(current_run().stop_requested.wait(PATIENCE_S))

    with scheduler:
        scheduler.schedule(polite)
        scheduler.schedule(late)
        entered.wait(PATIENCE_S)
        assert scheduler.close(cancel=True) == []
    assert answers == [True, True]


def test_a_recurring_task_that_runs_at_the_close_is_cancelled_when_its_run_ends() -> None:
    scheduler = Scheduler(observers=[])
    scheduler.start()
    with running_until_let_go(scheduler, when=every(seconds=0.001), id="beat") as (task, gate):
        assert [run.task_id for run in scheduler.close(0)] == ["beat"]
        gate.set()
        scheduler.close()
    assert (task.state, task.reason) == (State.CANCELLED, Reason.CLOSED)
    # On a busy machine the first fire is more than an interval late, and then skipped ones have a record, too.
    (ran,) = [run for run in task.runs() if run.started_us is not None]
    assert ran.state is State.SUCCEEDED


def test_a_given_pool_is_never_closed_and_an_own_one_is() -> None:
    with ThreadPoolExecutor(2) as pool:
        with Scheduler(pool, observers=[]) as scheduler:
            assert scheduler.schedule(lambda: 1).result(PATIENCE_S) == 1
        assert pool.submit(lambda: 2).result(PATIENCE_S) == 2
        with Scheduler(pool, observers=[]) as scheduler:
            assert scheduler.schedule(lambda: 3).result(PATIENCE_S) == 3
    with Scheduler(observers=[]) as scheduler:
        scheduler.schedule(nothing).wait(PATIENCE_S)
        assert [name for name in our_threads() if name.startswith("tickless-worker")]
    assert our_threads() == []


def test_the_with_block_closes_when_its_body_raises_and_the_error_comes_out() -> None:
    with pytest.raises(KeyError, match="mine"), Scheduler(observers=[]) as scheduler:
        task = scheduler.schedule(nothing, after(3600))
        raise KeyError("mine")
    assert scheduler.phase == "closed"
    assert task.reason is Reason.CLOSED


# Wait


def test_waiting_for_a_scheduler_that_was_never_started_is_an_error_and_not_a_hang() -> None:
    world = World(start=False)
    assert world.scheduler.wait(), "nothing to wait for"
    task = world.scheduler.schedule(nothing)
    for wait in (world.scheduler.wait, task.wait, task.result):
        with pytest.raises(NotStarted, match=r"call start\(\)"):
            wait()


def test_wait_is_true_when_every_task_is_terminal_and_false_at_its_timeout() -> None:
    """An endless task holds it until it is cancelled."""
    with Scheduler(observers=[]) as scheduler:
        assert scheduler.wait()
        scheduler.schedule(nothing)
        assert scheduler.wait(PATIENCE_S)
        beat = scheduler.schedule(nothing, every(hours=1))
        assert not scheduler.wait(0)
        assert not scheduler.wait(0.001)
        beat.cancel()
        assert scheduler.wait(0)


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_a_thread_that_waits_wakes_when_the_last_task_ends(end: str) -> None:
    scheduler = Scheduler(observers=[])
    scheduler.start()
    task = scheduler.schedule(nothing, every(hours=1))
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda wait=wait: answers.append(wait(PATIENCE_S)))
        for wait in (scheduler.wait, task.wait, scheduler.wait)
    ]
    for thread in threads:
        thread.start()
    getattr(scheduler if end == "close" else task, end)()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert answers == [True] * 3
    scheduler.close()


# Run, and signals


def test_run_is_true_when_all_tasks_have_come_to_their_end() -> None:
    scheduler = Scheduler(observers=[])
    task = scheduler.schedule(lambda: 5)
    assert scheduler.run()
    assert task.result() == 5
    assert scheduler.phase == "closed"
    assert Scheduler(observers=[]).run(), "with nothing to do it ends at once"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_run_and_the_programs_own_handlers_are_put_back(number: signal.Signals) -> None:
    """SIGINT comes out as KeyboardInterrupt, as everywhere in Python; SIGTERM as False."""
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    scheduler = Scheduler(observers=[])
    beat = scheduler.schedule(nothing, every(hours=1))
    task = scheduler.schedule(os.kill, args=(os.getpid(), number))
    if number is signal.SIGINT:
        with pytest.raises(KeyboardInterrupt):
            scheduler.run()
    else:
        assert not scheduler.run()
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    assert task.state is State.SUCCEEDED, "what runs may finish"
    assert beat.reason is Reason.CLOSED
    assert our_threads() == []


def test_a_signal_handler_of_the_users_own_may_request_the_stop() -> None:
    """Also while the main thread is inside of any call of ours: it takes no lock."""
    scheduler = Scheduler(observers=[])
    scheduler.schedule(nothing, every(hours=1))
    scheduler.schedule(os.kill, args=(os.getpid(), signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, lambda number, frame: scheduler.request_stop())
    try:
        assert not scheduler.run()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_stop_that_was_requested_before_run_ends_it_at_once() -> None:
    scheduler = Scheduler(observers=[])
    task = scheduler.schedule(nothing, after(3600))
    scheduler.request_stop()
    assert not scheduler.run()
    assert task.reason is Reason.CLOSED


def test_run_in_a_thread_of_the_users_own_leaves_signals_alone() -> None:
    """Python takes handlers in the main thread only; run must not raise for that."""
    scheduler = Scheduler(observers=[])
    scheduler.schedule(nothing, every(hours=1))
    handlers: list[Any] = []
    scheduler.schedule(lambda: handlers.append(signal.getsignal(signal.SIGTERM)))
    scheduler.schedule(scheduler.request_stop, priority=-1)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(scheduler.run()))
    thread.start()
    thread.join(PATIENCE_S)
    assert answers == [False]
    assert handlers == [signal.getsignal(signal.SIGTERM)]


def test_a_signal_that_the_program_ignores_stays_ignored() -> None:
    """nohup, and children of a shell in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        scheduler = Scheduler(observers=[])
        scheduler.schedule(os.kill, args=(os.getpid(), signal.SIGINT))
        assert scheduler.run()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_task_may_close_the_scheduler_that_run_waits_for() -> None:
    scheduler = Scheduler(observers=[])
    scheduler.schedule(nothing, every(hours=1))
    scheduler.schedule(scheduler.close)
    scheduler.run()
    assert scheduler.phase == "closed"
    assert our_threads() == []


def test_events_up_to_the_close_are_delivered_before_it_returns() -> None:
    """In life: the last failure before the end is the one that should be in the log."""
    keeper = Keeper()
    with Scheduler(observers=[keeper]) as scheduler:
        for _ in range(50):
            scheduler.schedule(nothing)
        scheduler.schedule(nothing, after(3600))
        scheduler.wait(0)
    events: list[Event] = [event for batch in keeper.batches for event in batch]
    ends = [event for event in events if event.kind in (EventKind.SUCCEEDED, EventKind.CANCELLED)]
    assert len(ends) == 51
    assert keeper.closed == 1


class Killed(BaseException):
    """In place of the end of this process."""


def test_one_press_that_arrives_twice_is_one_and_the_next_ends_the_process() -> None:
    """In life: `timeout 60 tickless run`, or `npm` under a terminal: both send it on, and what ran is cut."""

    def killed() -> None:
        raise Killed

    clock, bell, stops = FakeClock(), SignalBell(), []
    with stop_signals(lambda: stops.append(1), bell, killed, clock.now) as came:
        signal.raise_signal(signal.SIGINT)
        clock.advance(0.09)
        signal.raise_signal(signal.SIGINT)
        assert (came, stops) == ([signal.SIGINT], [1])
        with pytest.raises(Killed):
            signal.raise_signal(signal.SIGTERM)  # nobody passes on another one
        clock.advance(0.01)
        with pytest.raises(Killed):
            signal.raise_signal(signal.SIGINT)
    bell.close()
