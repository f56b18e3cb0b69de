"""What a work returns or raises is foreign code too: it answers `isinstance`, `str` and `close`. It ends its own run.

In life: one task in a service hands back the row of an ORM whose session is closed, and from then on nothing runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

from tests.faults.world import PATIENCE_S
from tests.observe.observers import Keeper
from tests.pools.executors import Threads
from tickless import Pool, Scheduler, State, Task, every
from tickless.testing import FakeClock, InlinePool

EXECUTORS: dict[str, Callable[[], Executor]] = {
    "threads": lambda: ThreadPoolExecutor(1),
    "inline": InlinePool,
    "one by one": lambda: Threads(1),
}


@contextmanager
def scheduler_on(kind: str) -> Iterator[Scheduler]:
    """A started scheduler with one slot whose failures somebody wants told. A drainer that died hangs no test."""
    executor: Executor = EXECUTORS[kind]()
    pool = Pool(executor, slots=1) if kind == "one by one" else executor
    clock = FakeClock() if kind == "inline" else None
    scheduler = Scheduler(pool, clock=clock, observers=[Keeper()])
    scheduler.start()
    try:
        with contained():
            yield scheduler
    finally:
        assert scheduler.close(PATIENCE_S) == [], "a run never ended"
        executor.shutdown()


@contextmanager
def contained() -> Iterator[None]:
    """What comes out of the scheduler must not reach pytest, which would ask it what it is."""
    try:
        yield
    except AssertionError:
        raise
    except BaseException:  # noqa: BLE001 - that nothing comes out is what is tested
        raise AssertionError("it came out of the scheduler") from None


def goes_on(scheduler: Scheduler, task: Task[Any], state: State) -> None:
    """The run has ended so, and the next one is taken."""
    assert task.wait(PATIENCE_S), "the run never ended"
    assert task.state is state
    following = scheduler.schedule(lambda: "next")
    assert following.wait(PATIENCE_S), "nothing is taken any more"
    assert following.result() == "next"
    assert scheduler.wait(PATIENCE_S)


# Returned


class Row:
    """Something that a proxy can stand for."""


def dead_proxy() -> object:
    return weakref.proxy(Row())


class Unbound:
    """A lazy proxy that has nothing behind it yet, as those of web frameworks outside of a request."""

    @property  # type: ignore[misc]  # what it says of its class is the point
    def __class__(self) -> Any:
        raise RuntimeError("working outside of a request")


class Pretender:
    """A proxy of a generator that it cannot close."""

    @property  # type: ignore[misc]  # what it says of its class is the point
    def __class__(self) -> Any:
        return type(stubborn())


@pytest.mark.parametrize("kind", EXECUTORS)
@pytest.mark.parametrize("work", [dead_proxy, Unbound, Pretender])
def test_a_proxy_is_a_value_like_any_other(work: Callable[[], object], kind: str) -> None:
    """Whether it is a coroutine that was forgotten is not its own business to say."""
    with scheduler_on(kind) as scheduler:
        task = scheduler.schedule(work)
        goes_on(scheduler, task, State.SUCCEEDED)
        assert type(task.result()) in (weakref.ProxyType, Unbound, Pretender)


@pytest.mark.parametrize("kind", EXECUTORS)
def test_a_recurring_task_that_returns_a_dead_proxy_goes_on(kind: str) -> None:
    with scheduler_on(kind) as scheduler:
        beat = scheduler.schedule(dead_proxy, every(hours=1))
        once = scheduler.schedule(dead_proxy)
        goes_on_but_for(scheduler, beat, once)


def goes_on_but_for(scheduler: Scheduler, beat: Task[Any], once: Task[Any]) -> None:
    assert once.wait(PATIENCE_S), "the run never ended"
    clock = scheduler._clock
    if isinstance(clock, FakeClock):
        clock.advance(7200)
        assert [run.state for run in beat.runs()] == [State.SUCCEEDED] * 2
    assert beat.state is State.PENDING
    beat.cancel()
    assert scheduler.schedule(lambda: "next").result(PATIENCE_S) == "next"


def stubborn() -> Generator[int, None, None]:
    """Does not end when it is closed."""
    while True:
        try:
            yield 1
        except GeneratorExit:
            yield 2
            return


def raising(error: BaseException) -> Generator[int, None, None]:
    try:
        yield 1
    finally:
        raise error


def started(generator: Generator[int, None, None]) -> Generator[int, None, None]:
    next(generator)
    return generator


GENERATORS: dict[str, Callable[[], Generator[int, None, None]]] = {
    "its finally raises": lambda: started(raising(ValueError("in finally"))),
    "its finally interrupts": lambda: started(raising(KeyboardInterrupt())),
    "its finally exits": lambda: started(raising(SystemExit(3))),
    "it goes on": lambda: started(stubborn()),
}


@pytest.mark.parametrize("kind", EXECUTORS)
@pytest.mark.parametrize("how", GENERATORS)
def test_a_generator_that_cannot_be_closed_is_a_failure_of_its_own_run(how: str, kind: str) -> None:
    """Nobody would run it, so it is closed; what that raises is the run's own outcome."""
    with scheduler_on(kind) as scheduler:
        task = scheduler.schedule(GENERATORS[how])
        goes_on(scheduler, task, State.FAILED)
        assert task.last_run is not None
        assert task.last_run.error
        with pytest.raises(BaseException):
            task.result()


# Raised


class Text(str):
    """Cannot even be measured."""

    def _no(self, *args: object) -> NoReturn:
        raise RuntimeError("not even that")

    __len__ = __getitem__ = __iter__ = __format__ = __add__ = __eq__ = __hash__ = __bool__ = __str__ = __repr__ = _no
    isprintable = encode = split = rstrip = expandtabs = replace = _no  # type: ignore[assignment]


class Unspeakable(Exception):
    """Its message is a text that answers nothing."""

    def __str__(self) -> str:
        return Text("x")


class Interrupting(Exception):
    """A note that is computed, by code that a Ctrl-C lands in."""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # others have a list there
        raise KeyboardInterrupt

    __repr__ = Exception.__repr__


class Faceless(Exception):
    """Will not say what it is."""

    @property  # type: ignore[misc]  # what it says of its class is the point
    def __class__(self) -> Any:
        raise RuntimeError("ask somebody else")


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise KeyboardInterrupt


class Anonymous(Exception, metaclass=Nameless):
    """Of a class without a name."""


class Oddly(type):
    __name__ = Text("x")


class OddlyNamed(Exception, metaclass=Oddly):
    """Of a class whose name answers nothing."""


ERRORS: tuple[type[Exception], ...] = (Unspeakable, Interrupting, Faceless, Anonymous, OddlyNamed)
IDS = ("Unspeakable", "Interrupting", "Faceless", "Anonymous", "OddlyNamed")


@pytest.mark.parametrize("kind", EXECUTORS)
@pytest.mark.parametrize("make", ERRORS, ids=IDS)
def test_an_exception_that_is_hostile_in_itself_is_an_outcome_like_any_other(make: type[Exception], kind: str) -> None:
    """Its line and its traceback are made from foreign code, where the drainer stands."""
    error = make()

    def body() -> None:
        raise error

    with scheduler_on(kind) as scheduler:
        task = scheduler.schedule(body)
        goes_on(scheduler, task, State.FAILED)
        assert task.last_run is not None
        assert type(task.last_run.error) is str
        caught: list[BaseException] = []
        try:
            task.result()
        except BaseException as raised:  # noqa: BLE001 - pytest.raises would look at it, which is foreign code
            caught.append(raised)
        same = caught[0] is error
        assert same


@pytest.mark.parametrize("make", ERRORS, ids=IDS)
def test_a_hostile_exception_reaches_the_observers_as_plain_text(make: type[Exception]) -> None:
    """The log is where somebody looks for what went wrong."""
    keeper = Keeper()
    scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[keeper])
    scheduler.start()

    def body() -> None:
        raise make()

    with contained():
        scheduler.schedule(body)
    failed = [event for event in keeper.events if event.error is not None]
    assert len(failed) == 1
    assert type(failed[0].error) is str
    assert type(failed[0].traceback) is str
    scheduler.close()
