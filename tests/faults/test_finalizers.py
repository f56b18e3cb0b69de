"""A `__del__` is foreign code, and it runs where the last reference goes: never where a lock of ours is held.

In life: a result that owns a connection whose `__del__` logs, and the log handler asks the scheduler what runs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faults.world import World
from tickless import State, Task, every
from tickless.core.record import RunRecord, TaskRecord
from tickless.instants import Instant
from tickless.records import SUCCESS, Outcome
from tickless.rules import Rule
from tickless.stores.memory import MemoryStore
from tickless.testing import ManualPool
from tickless.testing.drafts import NOON_US, draft, later


@pytest.fixture(autouse=True)
def no_collection_of_garbage() -> Iterator[None]:
    """What goes, goes by counting, at one place."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Probe:
    """Notes when it goes, and whether the lock was held then."""

    def __init__(self, store: MemoryStore, went: list[bool]) -> None:
        self._store = store
        self._went = went

    def __del__(self) -> None:
        self._went.append(self._store.lock.locked())


def failure(held: object) -> Outcome:
    """The outcome of a work that raised while a frame of it held that."""

    def body(local: object) -> None:
        raise ValueError("broken")

    try:
        body(held)
    except ValueError as error:
        return Outcome(State.FAILED, error, None, "ValueError: broken")
    raise AssertionError


ENDS: dict[str, Callable[[object], Outcome]] = {
    "returns it": lambda probe: Outcome(State.SUCCEEDED, probe),
    "raises, and a frame holds it": failure,
}


def running(store: MemoryStore, task: TaskRecord) -> RunRecord:
    store.open()
    store.add(task, NOON_US)
    store.due(later(1), later(1))
    run = store.take(later(1))
    assert run is not None
    return run


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("when", [None, every(seconds=1)], ids=["once", "recurring"])
def test_an_outcome_that_was_handed_over_goes_when_the_lock_is_free(when: Rule | None, end: str) -> None:
    """Whoever held the lock settles it on its way out; nobody holds a handle, so that is where the value goes."""
    store, went = MemoryStore(always_hold=True), list[bool]()
    run = running(store, draft(when, NOON_US, NOON_US))
    with store.lock:
        store.finish(run, ENDS[end](Probe(store, went)), later(1))
    store.tasks()
    assert went == [False]


@pytest.mark.parametrize("end", ENDS)
def test_the_last_of_many_that_were_handed_over_goes_when_the_lock_is_free(end: str) -> None:
    """A loop lets go of each when it comes to the next, and of the last when it ends."""
    store, went = MemoryStore(), list[bool]()
    runs = [running(store, draft(every(seconds=1), NOON_US, NOON_US)) for _ in range(3)]
    with store.lock:
        for run in runs:
            store.finish(run, ENDS[end](Probe(store, went)), later(1))
    store.tasks()
    assert went == [False] * 3


@pytest.mark.parametrize("end", ENDS)
def test_an_outcome_of_a_recurring_task_that_was_cancelled_goes_when_the_lock_is_free(end: str) -> None:
    """Its last one, which would have been its result."""
    store, went = MemoryStore(), list[bool]()
    task = draft(every(seconds=1), NOON_US, NOON_US)
    run = running(store, task)
    store.cancel(task, later(1))
    with store.lock:
        store.finish(run, ENDS[end](Probe(store, went)), later(1))
    store.tasks()
    assert went == [False]


class Own:
    """A user's own rule. It has a `__del__` when the test gives it a probe."""

    recurring = True
    wall = False

    def __init__(self, probe: Probe, fires: int = 100) -> None:
        self.probe = probe
        self.last = NOON_US + fires * 1_000_000

    def bound(self, now: Instant) -> Rule:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        fire = Instant((after // 1_000_000 + 1) * 1_000_000)
        return fire if fire <= self.last else None


def test_a_users_own_rule_goes_when_the_lock_is_free() -> None:
    """It may hold a calendar with a connection."""
    store, went = MemoryStore(), list[bool]()
    task = draft(Own(Probe(store, went)), NOON_US, NOON_US)
    store.open()
    store.add(task, NOON_US)
    store.cancel(task, later(0.5))
    assert went == [False]


def test_a_users_own_rule_that_an_update_replaces_goes_when_the_lock_is_free() -> None:
    store, went = MemoryStore(), list[bool]()
    store.open()
    store.add(draft(Own(Probe(store, went)), NOON_US, NOON_US, "x"), NOON_US)
    store.add_or("update", draft(every(seconds=1), NOON_US, NOON_US, "x"), NOON_US)
    assert went == [False]


def with_probe(store: MemoryStore, went: list[bool], when: Rule | None = None) -> TaskRecord:
    """A new version of the task x whose argument is watched."""
    new = draft(when, NOON_US, NOON_US, "x")
    new._args = (Probe(store, went),)
    return new


def test_an_update_that_another_one_overtakes_goes_when_the_lock_is_free() -> None:
    """Two updates under one run: the first never comes into force, and nobody else holds its arguments."""
    store, went = MemoryStore(), list[bool]()
    run = running(store, draft(every(seconds=1), NOON_US, NOON_US, "x"))
    store.add_or("update", with_probe(store, went, every(seconds=1)), later(1))
    assert went == []
    store.add_or("update", draft(every(seconds=1), NOON_US, NOON_US, "x"), later(1))
    assert went == [False]
    store.finish(run, SUCCESS, later(1))
    assert went == [False]


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_an_update_that_never_comes_into_force_goes_when_the_lock_is_free(how: str) -> None:
    store, went = MemoryStore(), list[bool]()
    task = draft(every(seconds=1), NOON_US, NOON_US, "x")
    run = running(store, task)
    store.add_or("update", with_probe(store, went, every(seconds=1)), later(1))
    store.cancel(task, later(1)) if how == "cancel" else store.close(later(1))
    store.finish(run, SUCCESS, later(1))
    del run, task
    assert went == [False]


def test_the_result_of_a_recurring_run_may_ask_the_scheduler_when_it_goes() -> None:
    """The whole way: a body's value, a worker that finds the lock taken, and a `__del__` that takes it."""
    world = World(ManualPool())
    scheduler, pool = world.scheduler, world.pool
    assert isinstance(pool, ManualPool)

    class Asks:
        def __del__(self) -> None:
            held = scheduler._store.lock.locked()
            world.story.append("held" if held else len(scheduler.tasks()))

    task: Task[Any] = scheduler.schedule(Asks, every(seconds=1))
    world.clock.advance(1)
    with scheduler._store.lock:
        pool.run_next()
    assert len(scheduler.tasks()) == 1
    assert world.story == [1]
    assert task.state is State.PENDING
    task.cancel()
