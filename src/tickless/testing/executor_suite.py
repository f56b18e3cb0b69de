"""What an Executor must do so that a scheduler can feed it, as tests to inherit.

class TestMyExecutor(ExecutorSuite):
    def make_executor(self) -> Executor:
        return MyExecutor(workers=2)

The works of these tests are functions of this module, so that an executor may carry them to another process.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from tickless.pools import Pool
from tickless.scheduler import Scheduler
from tickless.states import Reason, State

PATIENCE_S = 30.0
"""How long a test waits before it says that something hangs."""


def add(one: int, other: int = 0) -> int:
    """A work that returns."""
    return one + other


def fail() -> None:
    """A work that raises."""
    raise ValueError("broken")


def leave() -> None:
    """A work that raises what is no Exception."""
    raise SystemExit(3)


def submitted(executor: Executor, work: Callable[[], None]) -> Future[None]:
    """The future. Complains when the work's own error comes out of submit: a SystemExit would end the test session."""
    try:
        return executor.submit(work)
    except BaseException as error:
        raise AssertionError(f"submit raised {error!r}, which is the work's own, or a refusal") from error


class ExecutorSuite(ABC):
    """Inherit, and say how an executor is made, with its workers idle. `slots`: how many runs it is given at a time."""

    slots = 2
    raises_base_exceptions = True
    """False for an executor that gives a SystemExit of the work back as another error, or not at all."""

    @abstractmethod
    def make_executor(self) -> Executor:
        """A new executor. Each test shuts its own down."""

    def pool_of(self, executor: Executor) -> Pool:
        """As it is given to the scheduler."""
        return Pool(executor, slots=self.slots)

    def run_held(self, executor: Executor) -> None:  # noqa: B027 - most executors hold nothing
        """Run all that is held, for an executor that does nothing by itself."""

    @pytest.fixture
    def executor(self) -> Any:
        executor = self.make_executor()
        yield executor
        executor.shutdown()

    def value_of(self, executor: Executor, future: Future[Any]) -> Any:
        self.run_held(executor)
        return future.result(PATIENCE_S)

    # By itself

    def test_submit_gives_a_future_of_what_the_function_returns(self, executor: Executor) -> None:
        """With its arguments, by place and by name."""
        assert self.value_of(executor, executor.submit(add, 1, other=2)) == 3

    def test_what_the_function_raises_comes_out_of_the_future_and_not_of_submit(self, executor: Executor) -> None:
        """Out of submit it would be taken for a refusal of the pool."""
        future = submitted(executor, fail)
        with pytest.raises(ValueError, match="broken"):
            self.value_of(executor, future)
        assert not future.cancelled()

    def test_a_function_that_raises_system_exit_ends_itself_only(self, executor: Executor) -> None:
        """A worker that dies of it takes its slot along, and the pool gets smaller with each such task."""
        if self.raises_base_exceptions:
            for _ in range(self.slots + 1):
                future = submitted(executor, leave)
                with pytest.raises(SystemExit):
                    self.value_of(executor, future)
        assert self.value_of(executor, executor.submit(add, 1)) == 1

    def test_a_callback_is_called_once_whether_it_comes_before_the_end_or_after_it(self, executor: Executor) -> None:
        """It frees the slot: never called, the pool starves; called twice, it is given too much."""
        calls: list[int] = []
        called = threading.Semaphore(0)

        def note(n: int) -> None:
            calls.append(n)
            called.release()

        future = executor.submit(add, 1)
        future.add_done_callback(lambda _: note(1))
        self.value_of(executor, future)
        future.add_done_callback(lambda _: note(2))
        for _ in range(2):
            assert called.acquire(timeout=PATIENCE_S), "a callback was not called"
        assert sorted(calls) == [1, 2]

    def test_it_takes_more_than_it_has_workers(self, executor: Executor) -> None:
        """A scheduler gives it `slots` at a time, and others may use it as well."""
        futures = [executor.submit(add, n) for n in range(20 * self.slots)]
        self.run_held(executor)
        assert [future.result(PATIENCE_S) for future in futures] == list(range(20 * self.slots))

    def test_it_takes_from_many_threads_at_once(self, executor: Executor) -> None:
        """The thread that schedules submits, and so does the dispatcher."""
        futures: list[Future[int]] = []

        def submit() -> None:
            futures.extend(executor.submit(add, n) for n in range(25))

        threads = [threading.Thread(target=submit) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        self.run_held(executor)
        assert sum(future.result(PATIENCE_S) for future in futures) == 4 * sum(range(25))

    def test_a_submit_after_its_shutdown_raises(self) -> None:
        """What it took silently would never end, and nor would its task."""
        executor = self.make_executor()
        executor.shutdown()
        with pytest.raises(Exception):  # noqa: B017, PT011 - each executor has an error of its own
            executor.submit(add, 1)

    def test_a_shutdown_that_cancels_leaves_no_future_undone(self) -> None:
        """Each has run, or is cancelled. One that stays pending is a task that hangs."""
        executor = self.make_executor()
        futures = [executor.submit(add, n) for n in range(50)]
        executor.shutdown(wait=False, cancel_futures=True)
        self.run_held(executor)
        done = threading.Semaphore(0)
        for future in futures:
            future.add_done_callback(lambda _: done.release())
        for _ in futures:
            assert done.acquire(timeout=PATIENCE_S), "a future is neither done nor cancelled"

    # Under a scheduler

    def finish(self, executor: Executor, scheduler: Scheduler) -> None:
        """Until every task has ended."""
        self.run_held(executor)
        assert scheduler.wait(PATIENCE_S)

    def test_a_scheduler_runs_everything_through_it(self, executor: Executor) -> None:
        """Values, outputs, failures: each task ends as it should."""
        with Scheduler(self.pool_of(executor), observers=[]) as scheduler:
            first = scheduler.schedule(add, args=(1, 2))
            child = scheduler.schedule(add, args=(first.output, 10))
            broken = scheduler.schedule(fail)
            doomed = scheduler.schedule(add, args=(1,), after_tasks=[broken])
            many = [scheduler.schedule(add, args=(n,)) for n in range(100)]
            self.finish(executor, scheduler)
            assert (first.result(), child.result()) == (3, 13)
            assert [task.result() for task in many] == list(range(100))
            assert (broken.state, doomed.reason) == (State.FAILED, Reason.PARENT_FAILED)
            with pytest.raises(ValueError, match="broken"):
                broken.result()

    def test_a_scheduler_that_is_closed_leaves_it_open(self, executor: Executor) -> None:
        """It is the user's, and others use it."""
        for _ in range(2):
            with Scheduler(self.pool_of(executor), observers=[]) as scheduler:
                scheduler.schedule(add, args=(1,))
                self.finish(executor, scheduler)
        assert self.value_of(executor, executor.submit(add, 1)) == 1

    def test_a_scheduler_whose_pool_is_shut_down_has_its_tasks_end_with_a_reason(self) -> None:
        """Nothing hangs, and whoever waits is told."""
        executor = self.make_executor()
        pool = self.pool_of(executor)
        executor.shutdown()
        with Scheduler(pool, observers=[]) as scheduler:
            task = scheduler.schedule(add, args=(1,))
            assert task.wait(PATIENCE_S)
            assert (task.state, task.reason) == (State.FAILED, Reason.REJECTED)
