"""The suite that users inherit: it passes for the executors that we know, and fails for those that are broken."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from tests.pools.executors import Eager, Threads
from tickless import Pool
from tickless.testing import InlinePool, ManualPool
from tickless.testing.executor_suite import ExecutorSuite


class TestThreads(ExecutorSuite):
    def make_executor(self) -> Executor:
        return ThreadPoolExecutor(2)


class TestThreadsFedOneByOne(ExecutorSuite):
    def make_executor(self) -> Executor:
        return Threads(2)


class TestProcesses(ExecutorSuite):
    def make_executor(self) -> Executor:
        return ProcessPoolExecutor(2, multiprocessing.get_context("spawn"))


class TestInlinePool(ExecutorSuite):
    def make_executor(self) -> Executor:
        return InlinePool()

    def pool_of(self, executor: Executor) -> Pool:
        return Pool(executor)


class TestManualPool(ExecutorSuite):
    def make_executor(self) -> Executor:
        return ManualPool(2)

    def run_held(self, executor: Executor) -> None:
        assert isinstance(executor, ManualPool)
        executor.run_all()


# What the suite is for: each of these is wrong in one way, and one test at least says so.


class Immortal(Eager):
    """Takes work after its shutdown."""


class Forgetful(ThreadPoolExecutor):
    """Leaves what it drops undone."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if getattr(self, "dropped", False):
            raise RuntimeError("closed")
        self.last: Future[Any] = Future()
        return self.last

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.dropped = True


class Leaking(Eager):
    """Lets what the function raises out of submit."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Nameless(Eager):
    """Loses the keywords."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(fn, *args)


def verdict(make: Callable[[], Executor], test: str) -> BaseException | None:
    """What one test of the suite says of an executor."""

    class Suite(ExecutorSuite):
        def make_executor(self) -> Executor:
            return make()

    suite = Suite()
    check = getattr(suite, test)
    takes_one = "executor" in check.__code__.co_varnames[: check.__code__.co_argcount]
    try:
        check(make()) if takes_one else check()
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - any complaint is what is asked for
        return error
    return None


@pytest.mark.parametrize(
    ("make", "test"),
    [
        (Immortal, "test_a_submit_after_its_shutdown_raises"),
        (Immortal, "test_a_scheduler_whose_pool_is_shut_down_has_its_tasks_end_with_a_reason"),
        (Leaking, "test_what_the_function_raises_comes_out_of_the_future_and_not_of_submit"),
        (Leaking, "test_a_function_that_raises_system_exit_ends_itself_only"),
        (Nameless, "test_submit_gives_a_future_of_what_the_function_returns"),
    ],
)
def test_the_suite_finds_a_broken_executor(make: Callable[[], Executor], test: str) -> None:
    assert verdict(make, test) is not None
    assert verdict(lambda: ThreadPoolExecutor(2), test) is None


def test_the_suite_finds_an_executor_that_leaves_futures_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so after its patience, which need not be ours."""
    monkeypatch.setattr("tickless.testing.executor_suite.PATIENCE_S", 0.01)
    error = verdict(lambda: Forgetful(2), "test_a_shutdown_that_cancels_leaves_no_future_undone")
    assert "neither done nor cancelled" in str(error)
