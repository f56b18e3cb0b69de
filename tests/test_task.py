"""The handle: its result as a Future gives it, its cancel in every state, and what it keeps alive."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent import futures
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World, fail, running_until_let_go
from tests.observe.observers import Keeper
from tickless import (
    Cancelled,
    CancelledError,
    Event,
    EventKind,
    OutputGone,
    Reason,
    RuleError,
    Scheduler,
    State,
    Stopped,
    Task,
    TaskSkipped,
    after,
    at,
    current_run,
    every,
)
from tickless.instants import datetime_of
from tickless.testing import FakeClock, InlinePool, ManualPool


def nothing() -> None: ...


# Result


def test_result_is_the_value_itself() -> None:
    world = World()
    value = object()
    assert world.scheduler.schedule(lambda: value).result() is value
    assert world.scheduler.schedule(nothing).result() is None


def test_result_raises_the_tasks_own_exception_each_time_it_is_asked() -> None:
    """The very object, with its traceback into the user's code."""
    error = KeyError("mine")

    def body() -> None:
        raise error

    task = World().scheduler.schedule(body)
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            task.result()
        assert caught.value is error
        assert any(entry.name == "body" for entry in caught.traceback)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("odd")])
def test_result_raises_what_is_no_exception_too(error: BaseException) -> None:
    def body() -> None:
        raise error

    task = World().scheduler.schedule(body)
    assert task.state is State.FAILED
    with pytest.raises(type(error)) as caught:
        task.result()
    assert caught.value is error


def test_a_task_whose_value_is_an_exception_has_succeeded_with_it() -> None:
    """To return is not to raise."""
    task = World().scheduler.schedule(lambda: KeyError("a value"))
    assert task.state is State.SUCCEEDED
    assert isinstance(task.result(), KeyError)


def test_result_of_a_cancelled_task_is_the_standard_cancelled_error() -> None:
    """So that `except concurrent.futures.CancelledError` works as for any future."""
    world = World()
    task = world.scheduler.schedule(nothing, after(5), id="x")
    task.cancel()
    with pytest.raises(futures.CancelledError, match=r"task x \(nothing\) was cancelled \(cancelled\)"):
        task.result()


def test_result_of_a_skipped_task_says_why() -> None:
    world = World()
    parent = world.scheduler.schedule(fail)
    task = world.scheduler.schedule(nothing, after_tasks=[parent], id="x")
    with pytest.raises(TaskSkipped, match=r"task x \(nothing\) was skipped \(parent_failed\)") as caught:
        task.result()
    assert caught.value.reason == Reason.PARENT_FAILED


def test_result_waits_at_most_its_timeout_in_real_seconds() -> None:
    """On a clock that stands still, too: a test that waits for ever tells nobody why."""
    world = World()
    task = world.scheduler.schedule(nothing, after(5), id="x")
    for timeout in (0, 0.001):
        with pytest.raises(TimeoutError, match=r"task x \(nothing\) has not ended within .* it is pending"):
            task.result(timeout)
    assert not task.wait(0)


def test_a_task_that_raises_timeout_error_is_told_from_one_that_has_not_ended() -> None:
    def late() -> None:
        raise TimeoutError("mine")

    task = World().scheduler.schedule(late)
    assert task.wait(0)
    with pytest.raises(TimeoutError, match="mine"):
        task.result(0)


def test_many_threads_may_wait_for_one_task() -> None:
    with Scheduler(observers=[]) as scheduler:
        answers: list[int] = []
        with running_until_let_go(scheduler) as (parent, gate):
            task = scheduler.schedule(lambda: 5, after_tasks=[parent])
            threads = [threading.Thread(target=lambda: answers.append(task.result(PATIENCE_S))) for _ in range(8)]
            for thread in threads:
                thread.start()
            gate.set()
            for thread in threads:
                thread.join(PATIENCE_S)
    assert answers == [5] * 8


def test_result_of_a_recurring_task_is_that_of_its_last_run_once_it_has_ended() -> None:
    world = World()
    beat = world.scheduler.schedule(lambda: world.elapsed_s, every(seconds=1))
    world.clock.advance(3)
    with pytest.raises(TimeoutError):
        beat.result(0)
    beat.cancel()
    with pytest.raises(CancelledError):
        beat.result()


def test_result_in_a_handle_that_was_made_after_the_end_is_gone() -> None:
    """The output lives with the handles that were there. `get` and ids give snapshots, which hold no output."""
    world = World()
    world.scheduler.schedule(lambda: 5, id="x")
    late = world.scheduler.schedule(nothing, id="x", exists="keep")
    assert late.state is State.SUCCEEDED
    with pytest.raises(OutputGone, match="keep what schedule"):
        late.result()


# What a handle tells


def test_a_handle_tells_where_its_task_is() -> None:
    pool = ManualPool()
    world = World(pool)
    seen: list[State] = []
    task = world.scheduler.schedule(lambda: seen.append(task.state), after(5), id="x", name="report")
    seen.append(task.state)
    assert (task.id, task.name, world.second(task.next_fire), task.last_run) == ("x", "report", 5, None)
    world.clock.advance(5)
    seen.append(task.state)
    pool.run_all()
    seen.append(task.state)
    assert seen == [State.PENDING, State.READY, State.RUNNING, State.SUCCEEDED]
    assert task.next_fire is None
    run = task.last_run
    assert run is not None
    assert [world.second(when) for when in (run.due, run.started, run.finished)] == [5, 5, 5]


def test_a_recurring_task_is_pending_between_its_runs() -> None:
    pool = ManualPool()
    world = World(pool)
    beat = world.scheduler.schedule(nothing, every(seconds=2))
    states = [beat.state]
    for _ in range(2):
        world.clock.advance(2)
        states.append(beat.state)
        pool.run_all()
        states.append(beat.state)
    assert states == [State.PENDING, State.READY, State.PENDING, State.READY, State.PENDING]
    assert world.second(beat.next_fire) == 6


def test_lateness_is_counted_from_the_due_instant() -> None:
    world = World()
    task = world.scheduler.schedule(nothing, after(1))
    world.clock.suspend(3)
    run = task.last_run
    assert run is not None
    assert run.lateness is not None
    assert run.lateness.total_seconds() == 2


def test_a_handle_shows_its_id_and_its_name() -> None:
    assert repr(World().scheduler.schedule(nothing, id="x", name="report")) == "<Task x report>"


def test_a_handle_answers_after_the_close_and_after_the_task_was_forgotten() -> None:
    world = World(keep_finished=0)
    task = world.scheduler.schedule(lambda: 5)
    world.scheduler.schedule(nothing)
    world.scheduler.close()
    assert (task.state, task.result(), task.wait(0), task.cancel()) == (State.SUCCEEDED, 5, True, Cancelled.TOO_LATE)


# Cancel


def manual() -> tuple[World, ManualPool]:
    pool = ManualPool()
    return World(pool), pool


def test_cancel_of_a_pending_task() -> None:
    world, pool = manual()
    task = world.scheduler.schedule(world.note("never"), after(1))
    assert task.cancel() is Cancelled.CANCELLED
    world.clock.advance(5)
    pool.run_all()
    assert (world.story, task.state, task.reason) == ([], State.CANCELLED, Reason.CANCELLED)
    assert [run.state for run in task.runs()] == [State.CANCELLED]


def test_cancel_of_a_ready_task() -> None:
    world, pool = manual()
    task = world.scheduler.schedule(world.note("never"))
    assert task.cancel() is Cancelled.CANCELLED
    pool.run_all()
    assert (world.story, task.state) == ([], State.CANCELLED)


def test_cancel_between_two_runs_and_of_a_ready_run_of_a_recurring_task() -> None:
    for advance in (1, 2):
        world, pool = manual()
        beat = world.scheduler.schedule(world.note("beat"), every(seconds=1))
        world.clock.advance(1)
        pool.run_all()
        world.clock.advance(advance - 1)
        assert beat.cancel() is Cancelled.CANCELLED
        world.clock.advance(5)
        pool.run_all()
        assert world.story == ["beat"]
        assert [run.state for run in beat.runs()] == [State.SUCCEEDED, State.CANCELLED]


OUTCOMES: list[tuple[Callable[[], Any], State, Reason | None]] = [
    (nothing, State.SUCCEEDED, None),
    (fail, State.FAILED, None),
]


@pytest.mark.parametrize(("end", "state", "reason"), OUTCOMES)
def test_cancel_of_a_running_one_shot_asks_and_its_outcome_stands(
    end: Callable[[], Any], state: State, reason: Reason | None
) -> None:
    """Work that was done is done. Only what says Stopped has stopped."""
    world = World()
    answers: list[Any] = []

    def body() -> None:
        flag = current_run().stop_requested
        answers.extend([bool(flag), task_of().cancel(), bool(flag), bool(current_run().stop_requested), flag.wait(0)])
        end()

    def task_of() -> Any:
        return task

    task = world.scheduler.schedule(body, after(1))
    world.clock.advance(1)
    assert answers == [False, Cancelled.ASKED, True, True, True]
    assert (task.state, task.reason) == (state, reason)
    assert task.cancel() is Cancelled.TOO_LATE


def test_cancel_of_a_running_one_shot_that_raises_stopped() -> None:
    world = World()

    def body() -> None:
        task.cancel()
        raise Stopped("as you wish")

    task: Task[None] = world.scheduler.schedule(body, after(1))
    world.clock.advance(1)
    assert (task.state, task.reason) == (State.CANCELLED, Reason.STOPPED)
    with pytest.raises(CancelledError):
        task.result()


def test_cancel_of_a_running_recurring_task_takes_its_fires_at_once_and_ends_it_with_its_run() -> None:
    world = World()
    seen: list[Any] = []

    def body() -> int:
        seen.append((beat.cancel(), beat.cancel(), beat.state, beat.next_fire))
        world.clock.advance(3)
        return 5

    beat = world.scheduler.schedule(body, every(seconds=1))
    world.clock.advance(10)
    assert seen == [(Cancelled.ASKED, Cancelled.ASKED, State.RUNNING, None)]
    assert (beat.state, beat.reason) == (State.CANCELLED, Reason.CANCELLED)
    assert [run.state for run in beat.runs()] == [State.SUCCEEDED]


@pytest.mark.parametrize("work", [nothing, fail])
def test_cancel_after_the_end_is_too_late_and_changes_nothing(work: Callable[[], None]) -> None:
    """BUG-027: terminal states never change."""
    world = World()
    task = world.scheduler.schedule(work)
    before = task.info, len(world.events)
    for _ in range(2):
        assert task.cancel() is Cancelled.TOO_LATE
        assert not world.scheduler.cancel(task.id)
    assert (task.info, len(world.events)) == before


def test_cancel_twice_is_cancel_once() -> None:
    world = World()
    task = world.scheduler.schedule(nothing, after(1))
    assert [task.cancel(), task.cancel()] == [Cancelled.CANCELLED, Cancelled.TOO_LATE]
    assert world.kinds(task.id) == [EventKind.SCHEDULED, EventKind.CANCELLED]


def test_cancel_from_many_threads_at_once_is_told_to_one_of_them() -> None:
    """One compare-and-set decides."""
    with Scheduler(observers=[]) as scheduler:
        for _ in range(100):
            task = scheduler.schedule(nothing, after(3600))
            answers: list[Cancelled] = []
            together = threading.Barrier(3)

            def cancel(task: Task[None] = task, answers: list[Cancelled] = answers, together: Any = together) -> None:
                together.wait(PATIENCE_S)
                answers.append(task.cancel())

            threads = [threading.Thread(target=cancel) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            assert sorted(answers) == [Cancelled.CANCELLED, Cancelled.TOO_LATE, Cancelled.TOO_LATE]


def test_cancel_of_what_a_worker_may_just_take_never_runs_it_when_it_says_cancelled() -> None:
    """BUG-026: reported as cancelled, and run all the same."""
    ran: set[int] = set()
    answers: dict[int, Cancelled] = {}
    with Scheduler(slots=2, observers=[]) as scheduler:
        for n in range(3_000):
            task = scheduler.schedule(ran.add, args=(n,))
            answers[n] = task.cancel()
        assert scheduler.wait(PATIENCE_S)
    for n, answer in answers.items():
        assert (n in ran) == (answer is not Cancelled.CANCELLED), (n, answer)


class Canceller(Keeper):
    """Cancels whatever it hears of."""

    scheduler: Scheduler

    def observe(self, events: Any) -> None:
        super().observe(events)
        for event in events:
            self.scheduler.cancel(event.task_id)


@pytest.mark.parametrize("kind", [EventKind.SCHEDULED, EventKind.READY, EventKind.SUCCEEDED])
def test_cancel_from_a_listener(kind: EventKind) -> None:
    listener = Canceller([kind])
    world = World(ManualPool(), start=False)
    listener.scheduler = world.scheduler
    world.scheduler.observe(listener)
    world.scheduler.start()
    task = world.scheduler.schedule(nothing, after(1))
    world.clock.advance(1)
    assert isinstance(world.pool, ManualPool)
    world.pool.run_all()
    world.clock.advance(1)
    assert task.state is (State.SUCCEEDED if kind is EventKind.SUCCEEDED else State.CANCELLED)
    told: list[Event] = [event for batch in listener.batches for event in batch]
    assert [event.kind for event in told] == [kind]


def test_the_stop_flag_wakes_a_body_that_waits_on_it() -> None:
    with Scheduler(observers=[]) as scheduler:
        entered = threading.Event()

        def body() -> bool:
            flag = current_run().stop_requested
            entered.set()
            return flag.wait(PATIENCE_S)

        task = scheduler.schedule(body)
        assert entered.wait(PATIENCE_S)
        assert task.cancel() is Cancelled.ASKED
        assert task.result(PATIENCE_S) is True


def test_a_copy_of_a_task_is_the_task() -> None:
    """In life: a dataclass with a handle in it is copied, and cancelling the copy must cancel the task."""
    scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
    task = scheduler.schedule(int, after(10))
    assert copy.copy(task) is task
    assert copy.deepcopy([task])[0] is task
    with pytest.raises(TypeError, match=r"belongs to this process and cannot be pickled; pass its id"):
        pickle.dumps(task)


def test_a_parent_that_is_named_as_itself_and_by_its_id_is_one() -> None:
    """Also when it has ended: then the id leads to what is listed of it."""
    scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
    scheduler.start()
    parent = scheduler.schedule(lambda: 1, id="a")
    assert scheduler.schedule(int, after_tasks=[parent, "a"]).parents == ("a",)


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_step_of_the_clock_while_a_run_waits_for_room_is_no_lateness(step: int) -> None:
    """It was due at ten past, and started two seconds later."""
    clock, pool = FakeClock(), ManualPool()
    scheduler = Scheduler(pool, clock=clock, observers=[])
    scheduler.start()
    task = scheduler.schedule(int, at(datetime_of(clock.wall()) + timedelta(seconds=10)))
    clock.advance(10)
    clock.advance(2)
    clock.step_wall(step)
    pool.run_all()
    assert task.last_run is not None
    assert task.last_run.lateness == timedelta(seconds=2)


def test_a_delay_that_leads_out_of_the_calendar_is_refused_at_the_door() -> None:
    """However late it is already."""
    scheduler = Scheduler(InlinePool(), clock=FakeClock(start=datetime(9990, 1, 1, tzinfo=UTC)), observers=[])
    with pytest.raises(RuleError, match="past the year 9999"):
        scheduler.schedule(int, after(timedelta(days=20 * 365)))
