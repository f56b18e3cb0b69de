"""What `close` waits for, and for how long: from outside for everything, never longer than its time, once for all.

In life: a task finds that all is done and closes; the main thread closes too, and then the process is gone, with the
task's last write half done and its failure never logged.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World, running_until_let_go
from tests.observe.observers import Gated, Keeper
from tests.pools.executors import Blocking
from tickless import Call, EventKind, Reason, Run, Scheduler, State, after, every
from tickless.worker import run_going_on


def nothing() -> None: ...


class Closer(threading.Thread):
    """Closes from outside, in a thread of its own that holds no test up."""

    def __init__(self, scheduler: Scheduler, timeout: float | None = None) -> None:
        super().__init__(daemon=True)
        self._close: Callable[[], list[Run]] = lambda: scheduler.close(timeout)
        self.answers: list[list[Run]] = []

    def run(self) -> None:
        self.answers.append(self._close())

    def has_returned(self, patience_s: float) -> bool:
        self.join(patience_s)
        return not self.is_alive()


# From outside, while a task that closed goes on


@contextmanager
def a_task_that_has_closed(scheduler: Scheduler, count: int = 1) -> Iterator[threading.Event]:
    """Inside, `count` tasks have begun to close, and one of them has closed and goes on until the gate is opened."""
    together, closed, gate = threading.Barrier(count), threading.Event(), threading.Event()

    def body() -> str:
        together.wait(PATIENCE_S)  # who is not running yet would be cancelled
        scheduler.close()
        closed.set()
        assert gate.wait(PATIENCE_S)
        return "went on"

    scheduler.schedule_many(Call(body, id=f"t{number}") for number in range(count))
    try:
        assert closed.wait(PATIENCE_S)
        yield gate
    finally:
        gate.set()


@pytest.mark.parametrize("count", [1, 2])
def test_close_from_outside_waits_for_a_task_that_has_closed_itself(count: int) -> None:
    """It is running code like any other, and its pool is shut down under it."""
    keeper = Keeper()
    scheduler = Scheduler(slots=2, observers=[keeper])
    scheduler.start()
    scheduler.schedule(nothing, after(3600), id="later")
    with a_task_that_has_closed(scheduler, count) as gate:
        closer = Closer(scheduler)
        closer.start()
        assert not closer.has_returned(0.05), "it did not wait"
        gate.set()
        assert closer.has_returned(PATIENCE_S)
    assert closer.answers == [[]]
    for number in range(count):
        assert scheduler.get(f"t{number}").state is State.SUCCEEDED
    ends = [event.task_id for event in keeper.events if event.kind in (EventKind.SUCCEEDED, EventKind.CANCELLED)]
    assert sorted(str(id) for id in ends) == sorted(["later", *(f"t{number}" for number in range(count))])
    assert keeper.closed == 1


def test_close_from_outside_with_a_timeout_tells_of_the_task_that_has_closed_itself() -> None:
    scheduler = Scheduler(slots=2, observers=[])
    scheduler.start()
    with a_task_that_has_closed(scheduler) as gate:
        assert [(run.task_id, run.state) for run in scheduler.close(0)] == [("t0", State.RUNNING)]
        gate.set()
        assert scheduler.close() == []
    assert scheduler.get("t0").state is State.SUCCEEDED


def test_the_failure_of_a_task_after_its_close_reaches_the_observers() -> None:
    """The `with` block is left when the task has ended, and its error is in the log by then."""
    keeper = Keeper()

    def body() -> None:
        scheduler.close()
        closed.set()
        assert gate.wait(PATIENCE_S)
        raise ValueError("after the close")

    closed, gate = threading.Event(), threading.Event()
    scheduler = Scheduler(observers=[keeper])
    scheduler.start()
    scheduler.schedule(body)
    assert closed.wait(PATIENCE_S)
    closer = Closer(scheduler)
    closer.start()
    closer.has_returned(0.05)
    gate.set()
    assert closer.has_returned(PATIENCE_S)
    assert [event.error for event in keeper.of(EventKind.FAILED)] == ["ValueError: after the close"]
    assert keeper.closed == 1


# Within its time


def test_close_keeps_to_its_time_while_a_submit_blocks() -> None:
    """The dispatcher sits in a pool with a full queue. The service manager's ten seconds are over all the same."""
    with Blocking(1) as pool:
        scheduler = Scheduler(pool, observers=[])
        scheduler.start()
        task = scheduler.schedule(nothing, after(0.001))
        assert pool.entered.wait(PATIENCE_S)
        closer = Closer(scheduler, timeout=0.01)
        closer.start()
        in_time = closer.has_returned(PATIENCE_S / 2)
        pool.gate.set()
        assert in_time, "it waits for the pool"
        assert closer.answers == [[]]
        assert (task.state, task.reason) == (State.CANCELLED, Reason.CLOSED)
        assert scheduler.close() == []


def test_close_keeps_to_its_time_while_an_observer_is_slow() -> None:
    """One that writes to a disk that is full. What was posted comes to it when it goes on."""
    gated = Gated()
    scheduler = Scheduler(observers=[gated])
    scheduler.start()
    scheduler.schedule(nothing)
    assert gated.entered.wait(PATIENCE_S)
    later = scheduler.schedule(nothing, after(3600))
    closer = Closer(scheduler, timeout=0.01)
    closer.start()
    in_time = closer.has_returned(PATIENCE_S / 2)
    gated.go.set()
    assert in_time, "it waits for the observer"
    assert closer.answers == [[]]
    assert scheduler.close() == []
    assert gated.of(EventKind.CANCELLED)[0].task_id == later.id
    assert gated.closed == 1


# From the context of a run that is over


def context_of_a_run(world: World, when: Any = None) -> contextvars.Context:
    """A context that was copied inside of a run, as a thread, a timer or a callback keeps it."""
    contexts: list[contextvars.Context] = []
    world.scheduler.schedule(lambda: contexts.append(contextvars.copy_context()), when)
    world.clock.advance(1)
    return contexts[0]


@pytest.mark.parametrize("keep_finished", [0, 1000], ids=["forgotten", "listed"])
def test_who_closes_from_the_context_of_a_run_that_has_ended_is_outside(keep_finished: int) -> None:
    """It waits for all, and closes the observers: there is no run any more that would have to go on."""
    world = World(keep_finished=keep_finished)
    context = context_of_a_run(world)
    assert len(world.scheduler.tasks()) == min(keep_finished, 1)
    assert context.run(run_going_on, world.scheduler._store) is None
    assert context.run(world.scheduler.close) == []
    assert world.scheduler.phase == "closed"
    assert world.keeper.closed == 1


def test_who_closes_from_the_context_of_an_earlier_run_of_a_recurring_task_is_outside() -> None:
    world = World()
    context = context_of_a_run(world, every(seconds=1))
    assert context.run(run_going_on, world.scheduler._store) is None
    assert context.run(world.scheduler.close) == []
    assert world.keeper.closed == 1


def test_who_closes_from_the_context_of_an_earlier_run_waits_for_the_later_one() -> None:
    """The task is the same, the run is not: a timer that a body left behind must not be taken for the body."""
    contexts: list[contextvars.Context] = []
    entered, gate = threading.Event(), threading.Event()

    def body() -> None:
        contexts.append(contextvars.copy_context())
        if len(contexts) > 1:
            entered.set()
            assert gate.wait(PATIENCE_S)

    scheduler = Scheduler(observers=[])
    scheduler.start()
    scheduler.schedule(body, every(seconds=0.001), id="beat")
    assert entered.wait(PATIENCE_S)
    try:
        assert [run.task_id for run in contexts[0].run(scheduler.close, 0)] == ["beat"]
    finally:
        gate.set()
    assert scheduler.close() == []


def test_who_closes_from_a_thread_with_the_context_of_a_run_that_goes_on_is_inside() -> None:
    """The body waits for that thread, so that must not wait for the body."""
    answers: list[list[Run]] = []

    def body() -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: answers.append(context.run(scheduler.close)), daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()

    scheduler = Scheduler(observers=[])
    scheduler.start()
    task = scheduler.schedule(body)
    assert task.wait(2 * PATIENCE_S)
    assert scheduler.close() == []
    assert task.state is State.SUCCEEDED
    assert answers == [[]]


def test_a_run_that_goes_on_elsewhere_does_not_make_the_caller_an_insider() -> None:
    scheduler = Scheduler(observers=[])
    scheduler.start()
    with running_until_let_go(scheduler, id="x") as (_, gate):
        assert run_going_on(scheduler._store) is None
        assert [run.task_id for run in scheduler.close(0)] == ["x"]
        gate.set()
    assert scheduler.close() == []
