"""Python functions beside commands."""

from __future__ import annotations

import threading
import traceback
from concurrent.futures import Future
from typing import Any

import pytest

from tests.commands.world import PATIENCE_S, end_of, shell
from tickless import Reason, Run, State, Stopped, current_run
from tickless.commands.command import Command, CommandFailed
from tickless.commands.python import PythonWork


def fail() -> None:
    raise ValueError("broken")


def test_it_gives_what_the_function_gives_and_runs_in_a_thread_of_its_own() -> None:
    """A slow function must not hold up the starts of commands."""
    inside, gate = threading.Event(), threading.Event()

    def body(one: int, *, other: int) -> tuple[str, int]:
        inside.set()
        assert gate.wait(PATIENCE_S)
        return threading.current_thread().name, one + other

    with shell() as sh:
        task = sh.scheduler.schedule(PythonWork(body, (1,), {"other": 2}))
        assert inside.wait(PATIENCE_S)
        assert sh.printed("echo fine") == "fine\n"
        gate.set()
        found: Any = task.result(PATIENCE_S)
        assert found[0].startswith("tickless-python")
        assert found[1] == 3


def test_current_run_answers_in_it_and_its_stop_reaches_it() -> None:
    inside = threading.Event()

    def body() -> None:
        run = current_run()
        assert (run.task_id, run.attempt) == ("mine", 1)
        assert run.due is not None
        inside.set()
        assert run.stop_requested.wait(PATIENCE_S)
        raise Stopped

    with shell() as sh:
        task = sh.scheduler.schedule(PythonWork(body), id="mine")
        assert inside.wait(PATIENCE_S)
        task.cancel()
        ended = end_of(task)
        assert (ended.state, ended.reason) == (State.CANCELLED, Reason.STOPPED)


def test_what_it_raises_comes_through_with_its_own_frames_only() -> None:
    """Ours say nothing about the error."""
    with shell() as sh:
        task = sh.scheduler.schedule(PythonWork(fail))
        with pytest.raises(ValueError, match="broken") as caught:
            task.result(PATIENCE_S)
        frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert frames[-1] == "fail"
        assert not {"_call", "run", "_begin_work", "begin_call"} & set(frames)


def test_a_system_exit_ends_the_task_only() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with shell() as sh:
        assert end_of(sh.scheduler.schedule(PythonWork(leave))).error == "SystemExit: 3"
        assert sh.printed("echo fine") == "fine\n"


def test_its_name_is_the_functions() -> None:
    assert PythonWork(fail).__name__ == "fail"


def test_as_a_handler_it_is_given_the_run() -> None:
    told: Future[Run] = Future()
    with shell() as sh:
        task = sh.start("exit 3", id="dump", on_failure=PythonWork(told.set_result))
        run = told.result(PATIENCE_S)
        assert (run.task_id, run.error) == ("dump", "CommandFailed: exit code 3")
        end_of(task)


def test_a_future_that_it_returns_is_a_value() -> None:
    """Only what a work of ours gives is followed; nobody said that the task should wait for theirs."""
    future: Future[int] = Future()
    with shell() as sh:
        assert sh.scheduler.schedule(PythonWork(lambda: future)).result(PATIENCE_S) is future


def test_a_command_called_in_it_is_refused() -> None:
    """It is not the thread of the pool: two threads would be in the loop."""

    def body() -> Any:
        return Command("true")()

    with shell() as sh, pytest.raises(CommandFailed, match=r"Pool\(Children"):
        sh.scheduler.schedule(PythonWork(body)).result(PATIENCE_S)


def test_shutdown_runs_what_was_submitted_before_it() -> None:
    """The threads are made when the first work begins: after the shutdown, if it was quick."""
    inside, gate = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        gate.wait(PATIENCE_S)

    with shell() as sh:
        sh.children.submit(block)
        assert inside.wait(PATIENCE_S)
        futures = [sh.children.submit(PythonWork(int)) for _ in range(20)]
        sh.children.shutdown(wait=False)
        gate.set()
        assert [one.result(PATIENCE_S) for one in futures] == [0] * 20
