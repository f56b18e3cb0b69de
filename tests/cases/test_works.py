"""What a user may schedule, and what it may raise."""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import operator
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from tests.cases import processes
from tests.cases.kit import PATIENCE_S, Ear, dues, inline
from tickless import EventKind, Pool, ScheduleError, Scheduler, every

TICK = every(seconds=1)


class Own(BaseException):
    """An exception of the user's, outside of Exception."""


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Loud(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


ERRORS = [
    BaseException("base"),
    SystemExit(0),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    Own("own"),
    Silent(),
    Loud(),
    StopIteration(3),
    RecursionError("deep"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_BUG_045_whatever_a_task_raises_is_a_failed_run_and_nothing_else(error: BaseException) -> None:
    """In life: a task calls sys.exit(), and the dispatcher, the worker or the whole process is gone."""
    ear = Ear()

    def work() -> None:
        raise error

    with inline(ear=ear) as (scheduler, clock):
        task, neighbour = scheduler.schedule(work, TICK), scheduler.schedule(int, TICK)
        once = scheduler.schedule(work)
        clock.advance(2)
        assert dues(task.runs()) == dues(neighbour.runs()) == [1, 2]
        assert [run.state for run in task.runs()] == ["failed"] * 2
        assert all((run.error or "").startswith(type(error).__name__) for run in task.runs())
        assert once.state == "failed"
        with pytest.raises(type(error)):
            once.result(timeout=0)
    assert len(ear.of(EventKind.FAILED)) == 3
    assert ear.of(EventKind.TROUBLE) == []


def test_BUG_045_worker_thread_outlives_every_error() -> None:
    """In life: a pool of four loses a worker with each sys.exit(), and on the fifth nothing runs any more."""

    def work(error: BaseException) -> None:
        raise error

    with Scheduler(slots=1, observers=[]) as scheduler:
        tasks = [scheduler.schedule(work, args=(error,)) for error in ERRORS]
        assert scheduler.schedule(lambda: "alive").result(PATIENCE_S) == "alive"
        assert [task.state for task in tasks] == ["failed"] * len(ERRORS)


def test_BUG_045_error_or_result_that_cannot_leave_its_process_fails_its_run_and_the_next_one_is_accepted() -> None:
    """In life: the result never arrives, the slot is never freed, and the pool of processes is empty for ever."""
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads is no ground for a test
    with (
        ProcessPoolExecutor(1, mp_context=context) as pool,
        Scheduler(Pool(pool, slots=1), observers=[]) as scheduler,
    ):
        works: list[Callable[[], Any]] = [
            processes.fail_unpicklable,
            processes.give_unpicklable,
            processes.exit_at_once,
        ]
        failed = [scheduler.schedule(work) for work in works]
        here = scheduler.schedule(lambda: None, name="a lambda cannot go there")
        assert scheduler.schedule(processes.answer).result(PATIENCE_S) == 42
        assert [task.state for task in (*failed, here)] == ["failed"] * 4
        assert all(task.last_run and task.last_run.error for task in (*failed, here))


async def coroutine_function() -> None: ...


async def async_generator_function() -> AsyncIterator[int]:
    yield 1


def generator_function() -> Iterator[int]:
    yield 1


class AsyncCall:
    async def __call__(self) -> None: ...


class Methods:
    async def coroutine(self) -> None: ...

    def generator(self) -> Iterator[int]:
        yield 1

    @staticmethod
    async def static() -> None: ...

    @classmethod
    async def of_class(cls) -> None: ...


def decorated(work: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(work)
    def wrapper() -> Any:
        return work()

    return wrapper


REFUSED: dict[str, Callable[..., Any]] = {
    "async def": coroutine_function,
    "partial of async def": functools.partial(coroutine_function),
    "partial of partial": functools.partial(functools.partial(coroutine_function)),
    "async __call__": AsyncCall(),
    "partial of async __call__": functools.partial(AsyncCall()),
    "async method": Methods().coroutine,
    "async static method": Methods.static,
    "async class method": Methods.of_class,
    "generator method": Methods().generator,
    "generator function": generator_function,
    "async generator function": async_generator_function,
}
FAILED_WHEN_RUN: dict[str, Callable[..., Any]] = {
    "lambda that returns a coroutine": lambda: coroutine_function(),
    "decorated async def": decorated(coroutine_function),
    "decorated generator": decorated(generator_function),
    "lambda that returns a generator": lambda: generator_function(),
    "lambda that returns an async generator": lambda: async_generator_function(),
    "generator expression": lambda: (number for number in range(3)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_BUG_046_what_would_only_make_an_object_is_refused_at_the_call(what: str) -> None:
    """In life: the task "succeeds" in a microsecond, and nothing has happened."""
    with inline() as (scheduler, _):
        with pytest.raises(ScheduleError, match="schedule a plain function"):
            scheduler.schedule(REFUSED[what])
        assert scheduler.tasks() == []


@pytest.mark.parametrize("what", FAILED_WHEN_RUN)
def test_BUG_046_result_that_never_ran_is_a_failure_and_is_closed(what: str) -> None:
    """In life: "coroutine was never awaited" on stderr, and the task shows success. Warnings are errors here."""
    with inline() as (scheduler, _):
        task = scheduler.schedule(FAILED_WHEN_RUN[what])
        assert task.state == "failed"
        assert task.last_run is not None
        assert "which nobody runs" in (task.last_run.error or "")
        with pytest.raises(ScheduleError):
            task.result(timeout=0)


def test_BUG_046_plain_function_around_a_coroutine_is_what_the_message_says_and_works() -> None:
    """In life: the way out that is named must be one."""

    async def seven() -> int:
        return 7

    with inline() as (scheduler, _):
        assert scheduler.schedule(lambda: asyncio.run(seven())).result(timeout=0) == 7


class Callable7:
    def __call__(self) -> int:
        return 7

    def method(self) -> int:
        return 7

    @classmethod
    def of_class(cls) -> int:
        return 7

    @staticmethod
    def static() -> int:
        return 7


def seven() -> int:
    return 7


def nested() -> Callable[[], int]:
    def inner() -> int:
        return 7

    return inner


TWELVE: dict[str, Callable[[], Any]] = {
    "function": seven,
    "lambda": lambda: 7,
    "nested function": nested(),
    "callable object": Callable7(),
    "bound method": Callable7().method,
    "class method": Callable7.of_class,
    "static method": Callable7.static,
    "partial": functools.partial(int, "7"),
    "decorated": decorated(seven),
    "class": Callable7,
    "builtin": functools.partial(operator.add, 3, 4),
    "method of a builtin": [7].pop,
}


@pytest.mark.parametrize("what", TWELVE)
def test_BUG_078_in_memory_everything_that_can_be_called_is_accepted(what: str) -> None:
    """In life: a rule that is there for the sake of a database is in the way of those who have none."""
    with inline() as (scheduler, _):
        task = scheduler.schedule(TWELVE[what])
        value = task.result(timeout=0)
        assert value == 7 or isinstance(value, Callable7)
        assert task.name


def test_BUG_078_wrong_function_is_not_stored_in_place_of_the_right_one() -> None:
    """In life: a decorator takes the name of what it wraps, and the unwrapped function runs."""
    with inline() as (scheduler, _):

        @functools.wraps(seven)
        def eight() -> int:
            return 8

        assert scheduler.schedule(eight).result(timeout=0) == 8


@pytest.mark.parametrize("what", [None, 3, "module:name", seven(), [seven], Awaitable, Generator])
def test_BUG_078_what_cannot_be_called_is_refused_at_the_call(what: Any) -> None:
    """In life: the error comes at three in the morning, when the task is due."""
    with inline() as (scheduler, _):
        if callable(what):
            assert scheduler.schedule(what).state == "failed", "an abstract class can be called, and says what is wrong"
        else:
            with pytest.raises(ScheduleError, match="needs something to call"):
                scheduler.schedule(what)
