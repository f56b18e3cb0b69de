"""Around one user call: its context, its outcome, and that it ends nothing but itself."""

from __future__ import annotations

import contextvars
import logging
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World
from tickless import EventKind, Reason, Scheduler, State, Stopped, TicklessError, after, current_run, every


def test_current_run_tells_the_id_and_the_due_instant() -> None:
    """Together they name the run: the key for whoever must not do a thing twice."""
    world = World()

    def body() -> None:
        run = current_run()
        assert run.due is not None
        assert run.due.tzinfo is UTC
        world.story.append((run.task_id, world.second(run.due), bool(run.stop_requested)))

    world.scheduler.schedule(body, after(2), id="x")
    beat = world.scheduler.schedule(body, every(seconds=2))
    world.clock.suspend(5)
    assert world.story == [("x", 2, False), (beat.id, 4, False)]


def test_current_run_outside_of_a_run_is_an_error() -> None:
    with pytest.raises(TicklessError, match="no task's run goes on here"):
        current_run()
    World().scheduler.schedule(current_run)
    with pytest.raises(TicklessError):
        current_run()


def test_current_run_is_put_back_after_each_run() -> None:
    """A thread of the pool goes on to other people's work."""
    with Scheduler(slots=1, observers=[]) as scheduler:
        scheduler.schedule(current_run).wait(PATIENCE_S)
        pool = scheduler._own_pool
        assert pool is not None
        with pytest.raises(TicklessError):
            pool.submit(current_run).result(PATIENCE_S)


def test_current_run_of_a_scheduler_inside_of_a_run_of_another() -> None:
    """Both inline: the inner one's run is the current one, and then the outer one's again."""
    outer, inner = World(), World()

    def body() -> None:
        outer.story.append(current_run().task_id)
        inner.scheduler.schedule(lambda: outer.story.append(current_run().task_id), id="inner")
        outer.story.append(current_run().task_id)

    outer.scheduler.schedule(body, id="outer")
    assert outer.story == ["outer", "inner", "outer"]


def test_current_run_follows_a_copied_context_into_a_thread_of_the_users_own() -> None:
    seen: list[str] = []

    def body() -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(lambda: seen.append(current_run().task_id),))
        thread.start()
        thread.join(PATIENCE_S)

    World().scheduler.schedule(body, id="x")
    assert seen == ["x"]


def test_current_run_tells_its_attempt_and_that_no_lease_was_lost() -> None:
    """1 for what was never tried before; and in memory nobody else can have it."""
    seen: list[tuple[int, bool]] = []

    def body() -> None:
        def look() -> None:
            run = current_run()
            seen.append((run.attempt, run.lease_lost))

        look()
        thread = threading.Thread(target=contextvars.copy_context().run, args=(look,))
        thread.start()
        thread.join(PATIENCE_S)

    World().scheduler.schedule(body)
    assert seen == [(1, False)] * 2


def test_the_log_of_a_run_names_it_in_each_line_and_each_record(caplog: pytest.LogCaptureFixture) -> None:
    """In life: twelve tasks log to one file, and nobody can tell whose "no connection" that was."""
    world = World()

    def body() -> None:
        log = current_run().log
        log.warning("no connection to %s", "db", extra={"host": "db", "task_id": "forged"})
        log.info("100%")
        try:
            raise OSError("gone")
        except OSError:
            log.exception("lost")

    with caplog.at_level(logging.INFO, "tickless.run"):
        world.scheduler.schedule(body, after(2), id="50%\nnight")
        world.clock.advance(2)
    first, second, third = caplog.records
    assert first.getMessage() == "50%\\nnight attempt 1: no connection to db"
    assert second.getMessage() == "50%\\nnight attempt 1: 100%"
    assert {first.name, first.funcName, first.module} == {"tickless.run", "body", "test_worker"}
    said = vars(first)
    assert (said["task_id"], world.second(said["due"]), said["attempt"], said["host"]) == ("50%\nnight", 2, 1, "db")
    assert third.exc_info is not None
    assert isinstance(third.exc_info[1], OSError)


def test_the_log_of_a_run_costs_nothing_for_a_level_that_is_off(caplog: pytest.LogCaptureFixture) -> None:
    class Dear:
        def __str__(self) -> str:
            raise AssertionError("formatted for nobody")

    with caplog.at_level(logging.WARNING, "tickless.run"):
        assert World().scheduler.schedule(lambda: current_run().log.debug(Dear())).state is State.SUCCEEDED
    assert not caplog.records


def test_runs_at_one_time_know_themselves() -> None:
    with Scheduler(slots=4, observers=[]) as scheduler:
        together = threading.Barrier(4)

        def body() -> str:
            together.wait(PATIENCE_S)
            return current_run().task_id

        tasks = [scheduler.schedule(body, id=f"t{n}") for n in range(4)]
        assert [task.result(PATIENCE_S) for task in tasks] == ["t0", "t1", "t2", "t3"]


def test_the_stop_flag_waits_at_most_its_timeout() -> None:
    task = World().scheduler.schedule(
        lambda: (current_run().stop_requested.wait(0), bool(current_run().stop_requested))
    )
    assert task.result() == (False, False)


ERRORS = [ValueError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), StopIteration(), BaseException("odd")]


@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ for error in ERRORS])
def test_BUG_045_whatever_a_task_raises_ends_that_task_only(error: BaseException) -> None:
    """The worker lives on, and keeps its slot: with one slot all of these run on one thread."""

    def body() -> None:
        raise error

    with Scheduler(slots=1, observers=[]) as scheduler:
        tasks = [scheduler.schedule(body) for _ in range(3)]
        fine = scheduler.schedule(lambda: 5)
        assert fine.result(PATIENCE_S) == 5
        assert [task.state for task in tasks] == [State.FAILED] * 3
        assert str(tasks[0].info.last_run.error).startswith(type(error).__name__)  # type: ignore[union-attr]


@pytest.mark.parametrize("asked", [True, False])
def test_stopped_is_a_cancel_whether_it_was_asked_for_or_not(asked: bool) -> None:
    def body() -> None:
        if asked:
            world.scheduler.cancel("x")
        raise Stopped("enough")

    world = World()
    task = world.scheduler.schedule(body, id="x")
    assert (task.state, task.reason) == (State.CANCELLED, Reason.STOPPED)
    assert world.kinds("x")[-1] is EventKind.CANCELLED


def test_stopped_ends_one_run_of_a_recurring_task_and_the_schedule_goes_on() -> None:
    def body() -> None:
        raise Stopped

    world = World()
    beat = world.scheduler.schedule(body, every(seconds=1))
    world.clock.advance(3)
    assert [run.state for run in beat.runs()] == [State.CANCELLED] * 3
    assert beat.state is State.PENDING


class Hostile(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("not even that")

    __repr__ = __str__


def test_an_exception_that_cannot_be_shown_is_an_outcome_like_any_other() -> None:
    """Its line is made from foreign code: that may not end the worker."""
    error = Hostile()

    def body() -> None:
        raise error

    world = World()
    task = world.scheduler.schedule(body)
    assert task.state is State.FAILED
    with pytest.raises(Hostile):
        task.result()
    world.scheduler.schedule(world.note("next"))
    assert world.story == ["next"]
    assert any("Hostile" in str(event.error) for event in world.events if event.kind is EventKind.FAILED)


def test_the_traceback_of_a_failure_leads_into_the_users_code() -> None:
    """In the event, for the log, and in the exception that `result` raises."""

    def body() -> None:
        inner()

    def inner() -> None:
        raise ValueError("x")

    world = World()
    task = world.scheduler.schedule(body)
    failed = next(event for event in world.events if event.kind is EventKind.FAILED)
    shown = str(failed.traceback)
    assert "in inner" in shown
    with pytest.raises(ValueError, match="x") as caught:
        task.result()
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-2:] == ["body", "inner"]


@pytest.mark.parametrize(
    ("work", "args"),
    [(lambda: None, (1,)), (lambda x: x, ()), (int, ("x",)), (len, (5,))],
)
def test_arguments_that_do_not_fit_are_the_runs_failure(work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """They are not checked at the call, since builtins cannot be asked. The error says it when it runs."""
    task = World().scheduler.schedule(work, args=args)
    assert task.state is State.FAILED
    with pytest.raises((TypeError, ValueError)):
        task.result()


def test_a_run_never_starts_before_its_due_instant_nor_ends_before_its_start() -> None:
    """P6, with real clocks and threads."""
    with Scheduler(slots=3, observers=[]) as scheduler:
        tasks = [scheduler.schedule(int, after(n / 20_000)) for n in range(400)]
        beats = [scheduler.schedule(int, every(seconds=0.002)) for _ in range(5)]
        for task in tasks:
            assert task.wait(PATIENCE_S)
        runs = [run for task in [*tasks, *beats] for run in task.runs()]
        for beat in beats:
            beat.cancel()
    for run in runs:
        if run.started_us is not None:
            assert run.due_us is not None
            assert run.due_us <= run.started_us
            assert run.finished_us is None or run.started_us <= run.finished_us


def test_each_fire_of_a_recurring_task_runs_once_and_never_two_at_a_time() -> None:
    """P3, on more workers than one."""
    lock, going, most = threading.Lock(), [0], [0]
    dues: list[datetime] = []
    enough = threading.Event()

    def body() -> None:
        with lock:
            going[0] += 1
            most[0] = max(most[0], going[0])
            dues.append(current_run().due or datetime.max)  # noqa: DTZ901 - only to please the type checker
        if len(dues) >= 50:
            enough.set()
        with lock:
            going[0] -= 1

    with Scheduler(slots=3, observers=[]) as scheduler:
        scheduler.schedule(body, every(seconds=0.001))
        assert enough.wait(PATIENCE_S)
    assert most == [1]
    assert len(set(dues)) == len(dues)
    assert dues == sorted(dues)
