"""Who keeps a value, an argument, a child: only those who were promised it. By counting, without a collection.

In life: a service with the collector frozen, or one whose results are gigabytes: what is not let go at once is a leak.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World
from tests.pools.executors import Eager, Threads
from tests.rules.custom import Squares
from tickless import Call, OutputGone, Pool, Scheduler, State, Task, TicklessError, after, current_run, every
from tickless.core.invariants import check
from tickless.core.record import TaskRecord


@pytest.fixture(autouse=True, scope="module")
def what_was_there_before_is_no_garbage() -> None:
    """What other tests have left in caches would be walked over before each test here, as in `tests/conftest.py`."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_collection_of_garbage() -> Iterator[None]:
    """What is still there when a test looks is kept by somebody."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Big:
    """Something that can be watched."""


Refs = list[weakref.ref[Any]]


def watched(refs: Refs) -> Big:
    big = Big()
    refs.append(weakref.ref(big))
    return big


def alive(refs: Refs) -> list[bool]:
    return [ref() is not None for ref in refs]


def nothing(*args: object) -> None: ...


def fails() -> None:
    raise ValueError


# Values


def test_a_value_that_nobody_holds_dies_before_the_drainer_takes_the_next_run() -> None:
    """The next one may need the room, or take an hour."""
    world, refs, seen = World(), Refs(), list[bool]()

    def both() -> None:
        world.scheduler.schedule(watched, args=(refs,))
        world.scheduler.schedule(lambda: seen.extend(alive(refs)))

    world.scheduler.schedule(both)
    assert seen == [False]


def test_an_error_that_nobody_holds_dies_before_the_drainer_takes_the_next_run() -> None:
    """It holds the frames of the work, and those hold what the work worked on."""
    world, refs, seen = World(), Refs(), list[bool]()

    def broken() -> None:
        big = watched(refs)
        raise KeyError(id(big))

    def both() -> None:
        world.scheduler.schedule(broken)
        world.scheduler.schedule(lambda: seen.extend(alive(refs)))

    world.scheduler.schedule(both)
    assert seen == [False]


def test_the_value_of_a_recurring_run_dies_before_the_next_run_of_another() -> None:
    world, refs, seen = World(), Refs(), list[bool]()
    beat = world.scheduler.schedule(watched, every(seconds=1), args=(refs,), priority=1)
    world.scheduler.schedule(lambda: seen.extend(alive(refs)), after(1))
    world.clock.advance(1)
    assert seen == [False]
    beat.cancel()


def drops_and_raises(value: object) -> None:
    """Its own frame does not keep what it was given."""
    del value
    raise ValueError("broken")


POOLS: dict[str, Callable[[], Any]] = {
    "threads": lambda: ThreadPoolExecutor(1),
    "one by one": lambda: Pool(Threads(1), slots=1),
}


@contextmanager
def scheduler_on(kind: str) -> Iterator[Scheduler]:
    """A started scheduler. Afterwards its pool is shut down, and no frame of it is left."""
    pool = POOLS[kind]()
    with Scheduler(pool, observers=[]) as scheduler:
        yield scheduler
    (pool.executor if isinstance(pool, Pool) else pool).shutdown()


def raises_what_holds_big(refs: Refs) -> None:
    big = watched(refs)
    raise KeyError(id(big))


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("work", [watched, raises_what_holds_big])
def test_what_nobody_holds_is_gone_when_all_is_done(work: Callable[[Refs], object], kind: str) -> None:
    """No future, no frame and no callback of ours is left in a ring with it."""
    refs = Refs()
    with scheduler_on(kind) as scheduler:
        scheduler.schedule(work, args=(refs,))
        assert scheduler.wait(PATIENCE_S)
    assert alive(refs) == [False]


@pytest.mark.parametrize("kind", POOLS)
def test_the_handle_of_a_failed_task_keeps_no_output_that_was_its_argument(kind: str) -> None:
    """The error is held, with the frames that it went through. Ours must not hold the parent's output."""
    refs = Refs()
    with scheduler_on(kind) as scheduler:
        child = child_of_big(scheduler, refs)
        assert child.wait(PATIENCE_S)
    assert child.state is State.FAILED
    assert alive(refs) == [False]


def child_of_big(scheduler: Scheduler, refs: Refs) -> Task[None]:
    """A child that fails with the output of a parent whose handle nobody keeps."""
    parent = scheduler.schedule(watched, after(0.001), args=(refs,))
    return scheduler.schedule(drops_and_raises, args=(parent.output,))


def test_the_handle_of_a_failed_task_keeps_no_value_of_what_ran_after_it() -> None:
    """The frames of its error lead back into the drainer, which went on to other tasks."""
    world, refs, broken = World(), Refs(), list[Task[Any]]()

    def both() -> None:
        broken.append(world.scheduler.schedule(drops_and_raises, args=(1,)))
        world.scheduler.schedule(watched, args=(refs,))

    world.scheduler.schedule(both)
    assert broken[0].state is State.FAILED
    assert alive(refs) == [False]


# Outputs that are gone


@pytest.mark.parametrize("make", [World, lambda: World(Pool(Eager(), slots=1))], ids=["drained", "one by one"])
def test_a_child_never_gets_a_stand_in_for_an_output_that_is_gone(make: Callable[[], World]) -> None:
    """A handle that `exists="keep"` made after the end has no value: said at the call, or as the child's failure."""
    world = make()
    world.scheduler.schedule(lambda: 5, id="x")
    again = world.scheduler.schedule(lambda: 6, id="x", exists="keep")
    try:
        child = world.scheduler.schedule(world.story.append, args=(again.output,))
    except OutputGone:
        assert world.story == []
        return
    assert world.story == []
    assert child.state is State.FAILED
    with pytest.raises(OutputGone, match="keep what schedule"):
        child.result()


def test_a_child_inside_of_whose_list_an_output_is_gone_fails_too() -> None:
    world = World()
    world.scheduler.schedule(lambda: 5, id="x")
    again = world.scheduler.schedule(lambda: 6, id="x", exists="keep")
    with pytest.raises(OutputGone):
        world.scheduler.schedule(world.story.append, args=([again.output],)).result()
    with pytest.raises(OutputGone):
        world.scheduler.schedule(world.story.append, kwargs={"object": again.output}).result()
    assert world.story == []


# Arguments of calls that did not make a task


def refused(refs: Refs, call: Callable[[Big], object]) -> None:
    """Make the call with something that is watched, and forget all that comes of it."""
    with_big = watched(refs)
    try:
        call(with_big)
    except TicklessError:
        pass


def refusals(scheduler: Scheduler) -> dict[str, Callable[[Big], object]]:
    return {
        "duplicate": lambda big: scheduler.schedule(nothing, args=(big,), id="x"),
        "unknown parent": lambda big: scheduler.schedule(nothing, args=(big,), after_tasks=["nobody"]),
        "recurring parent": lambda big: scheduler.schedule(nothing, args=(big,), after_tasks=["beat"]),
        "bad exists": lambda big: scheduler.schedule(nothing, args=(big,), id="x", exists="no"),  # type: ignore[arg-type]
        "kept": lambda big: scheduler.schedule(nothing, args=(big,), id="x", exists="keep"),
        "many": lambda big: scheduler.schedule_many([Call(nothing, args=(big,)), Call(nothing, id="x")]),
        "many, of which one is wrong": lambda big: scheduler.schedule_many(
            [Call(nothing, args=(big,)), Call(nothing, id="#")]
        ),
        "a circle": lambda big: scheduler.schedule_many(
            [
                Call(nothing, args=(big,), id="a", after_tasks=["b"]),
                Call(nothing, args=(big,), id="b", after_tasks=["a"]),
            ]
        ),
    }


@pytest.mark.parametrize("how", refusals(World().scheduler))
def test_the_arguments_of_a_call_that_made_no_task_are_free_at_once(how: str) -> None:
    """A request that is refused a thousand times a second, each time with its body."""
    world, refs = World(), Refs()
    world.scheduler.schedule(nothing, after(60), id="x")
    world.scheduler.schedule(nothing, every(seconds=60), id="beat")
    refused(refs, refusals(world.scheduler)[how])
    assert alive(refs) == [False]


def test_the_arguments_of_a_call_that_came_after_the_close_are_free_at_once() -> None:
    world, refs = World(), Refs()
    world.scheduler.close()
    refused(refs, lambda big: world.scheduler.schedule(nothing, args=(big,)))
    refused(refs, lambda big: world.scheduler.schedule_many([Call(nothing, args=(big,))]))
    assert alive(refs) == [False, False]


@pytest.mark.parametrize("when", [after(60), every(seconds=60)], ids=["once", "recurring"])
def test_the_arguments_of_an_update_live_until_the_next_one_or_the_end(when: Any) -> None:
    """The handle and the record that the call made for itself are no use to anybody, and keep nothing."""
    world, refs = World(), Refs()
    for _ in range(3):
        refused(refs, lambda big: world.scheduler.schedule(nothing, when, args=(big,), id="x", exists="update"))
    assert alive(refs) == [False, False, True]
    world.scheduler.cancel("x")
    assert alive(refs) == [False, False, False]


def test_the_arguments_of_an_update_under_a_run_live_until_the_next_one_or_the_end() -> None:
    world, refs, seen = World(), Refs(), list[list[bool]]()
    scheduler = world.scheduler

    def updates_itself(*args: object) -> None:
        for _ in range(2):
            refused(
                refs,
                lambda big: scheduler.schedule(nothing, every(seconds=1), args=(big,), id="x", exists="update"),
            )
        seen.append(alive(refs))

    scheduler.schedule(updates_itself, every(seconds=1), id="x")
    world.clock.advance(1)
    assert seen == [[False, True]]
    world.clock.advance(3)
    assert alive(refs) == [False, True]
    scheduler.cancel("x")
    assert alive(refs) == [False, False]


# Children


def children_of(record: TaskRecord) -> int:
    """How many the record itself holds."""
    return 0 if record._children is None else len(record._children)


@pytest.mark.parametrize("gates", [1, 2])
def test_a_living_parent_does_not_keep_its_cancelled_children(gates: int) -> None:
    """In life: each request waits for the warm-up that never ends, and is cancelled when its client hangs up."""
    world = World()
    parents = [world.scheduler.schedule(nothing, after(3600)) for _ in range(gates)]
    kept: list[Task[Any]] = []
    for number in range(20_000):
        child = world.scheduler.schedule(world.note(number), after_tasks=parents)
        if number % 2_000:
            assert child.cancel()
        else:
            kept.append(child)
    for parent in parents:
        assert children_of(parent) < 2_000
        assert set(parent.children) >= {child.id for child in kept}
    check(world.scheduler._store)
    world.clock.advance(3600)
    assert world.story == list(range(0, 20_000, 2_000))
    assert {child.state for child in kept} == {State.SUCCEEDED}


def test_a_cancelled_child_is_let_go_by_each_parent_in_its_own_time() -> None:
    """One parent has many others, and so forgets it sooner: what it counts down must not be asked any more."""
    world = World()
    few, many = (world.scheduler.schedule(nothing, after(seconds)) for seconds in (10, 20))
    both = world.scheduler.schedule(world.note("both"), after_tasks=[few, many])
    for _ in range(2_000):
        world.scheduler.schedule(nothing, after_tasks=[many]).cancel()
        if len(few.children) < 50:
            world.scheduler.schedule(nothing, after_tasks=[few, many]).cancel()
    check(world.scheduler._store)
    world.clock.advance(10)
    check(world.scheduler._store)
    world.clock.advance(10)
    assert world.story == ["both"]
    assert both.state is State.SUCCEEDED


@pytest.mark.parametrize("run_if", ["any_succeeded", "any_failed"])
def test_a_parent_that_lives_on_does_not_keep_the_value_of_a_child_that_has_run(run_if: str) -> None:
    """The child did not wait for it."""
    world, refs = World(), Refs()
    work = nothing if run_if == "any_succeeded" else fails
    early, late = world.scheduler.schedule(work), world.scheduler.schedule(nothing, after(3600))
    child = world.scheduler.schedule(watched, args=(refs,), after_tasks=[early, late], run_if=run_if)
    assert child.state is State.SUCCEEDED
    assert late.children == (child.id,)
    del child
    assert alive(refs) == [False]
    check(world.scheduler._store)
    world.clock.advance(3600)
    check(world.scheduler._store)


@pytest.mark.parametrize("many", [False, True])
def test_a_parent_whose_last_handle_is_the_argument_goes_when_the_lock_is_free(many: bool) -> None:
    """`after_tasks` is a generator that gives up what it gives."""
    world, locked = World(), list[bool]()

    class Watched:
        def __del__(self) -> None:
            locked.append(world.scheduler._store.lock.locked())

    handles = [world.scheduler.schedule(Watched)]
    parents = (handles.pop() for _ in range(1))
    if many:
        world.scheduler.schedule_many([Call(nothing, after_tasks=parents)])
    else:
        world.scheduler.schedule(nothing, after_tasks=parents)
    assert locked == [False]


def test_what_is_no_handle_keeps_no_value() -> None:
    """A run that was kept, and the scheduler that a task closed from inside."""
    world, refs, kept = World(), Refs(), list[object]()

    def closes() -> Big:
        kept.append(current_run())
        world.scheduler.close()
        return watched(refs)

    world.scheduler.schedule(closes)
    assert alive(refs) == [False]


def test_a_rule_that_was_waiting_for_parents_goes_with_its_task_and_when_the_lock_is_free() -> None:
    """A user's own, whose finalizer is foreign code."""
    world, locked = World(), list[bool]()

    class Own(Squares):
        def __del__(self) -> None:
            locked.append(world.scheduler._store.lock.locked())

    parent = world.scheduler.schedule(nothing, after(10))
    world.scheduler.schedule(nothing, Own(), after_tasks=[parent])
    parent.cancel()
    assert locked == [False]
