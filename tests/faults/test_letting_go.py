"""What a task keeps alive, and when it lets go. In life: a service that runs for a year, and the memory of one day."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.world import World
from tickless import State, Task, after, every


class Big:
    """Something that can be watched."""


def test_an_output_dies_with_the_last_handle() -> None:
    """At once, by counting: a scheduler runs where the collector is switched off, too."""
    world = World()
    gc.collect()
    gc.disable()
    try:
        task = world.scheduler.schedule(Big, id="x")
        output = weakref.ref(task.result())
        assert output() is not None
        del task
        assert output() is None
        assert world.scheduler.get("x").state is State.SUCCEEDED
    finally:
        gc.enable()


def test_an_output_that_nobody_holds_is_not_kept_at_all() -> None:
    world = World()
    outputs: list[weakref.ref[Big]] = []

    def make() -> Big:
        big = Big()
        outputs.append(weakref.ref(big))
        return big

    for _ in range(10):
        world.scheduler.schedule(make)
    beat = world.scheduler.schedule(make, every(seconds=1))
    world.clock.advance(10)
    assert [ref() for ref in outputs] == [None] * 20
    assert beat.state is State.PENDING


ENDINGS: dict[str, Callable[[World, Task[Any]], object]] = {
    "cancel": lambda world, task: task.cancel(),
    "run": lambda world, task: world.clock.advance(5),
    "close": lambda world, task: world.scheduler.close(),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_function_and_arguments_are_let_go_when_the_task_ends(how: str) -> None:
    """At the cancel itself, and not when the orphan in the heap comes up in a year (BUG-031)."""
    world = World()
    argument, keyword = Big(), Big()

    def work(*args: Any, **kwargs: Any) -> None: ...

    watched = [weakref.ref(thing) for thing in (argument, keyword, work)]
    task = world.scheduler.schedule(work, after(5), args=(argument,), kwargs={"x": keyword})
    del argument, keyword, work
    assert all(ref() is not None for ref in watched)
    ENDINGS[how](world, task)
    gc.collect()
    assert [ref() for ref in watched] == [None, None, None]


def test_a_finished_run_keeps_no_exception_once_its_handle_is_gone() -> None:
    """An exception holds its traceback, which holds frames, which hold everything."""
    world = World()

    def body() -> None:
        big = Big()
        watched.append(weakref.ref(big))
        raise KeyError(big)

    watched: list[weakref.ref[Big]] = []
    task = world.scheduler.schedule(body, id="x")
    assert watched[0]() is not None
    del task
    gc.collect()
    assert watched[0]() is None
    assert "KeyError" in str(world.scheduler.runs("x")[0].error)


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_the_finalizer_of_an_argument_may_call_the_scheduler_back(how: str) -> None:
    """A `__del__` of an argument is foreign code: no lock may be held when the last reference goes."""
    world = World()

    class CallsBack:
        def __del__(self) -> None:
            world.story.append(len(world.scheduler.tasks()))

    task = world.scheduler.schedule(print, after(5), args=(CallsBack(),))
    done = threading.Event()

    def end() -> None:
        ENDINGS[how](world, task)
        done.set()

    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    assert done.wait(2), "it hangs in the __del__ of an argument"
    assert world.story == [1]
