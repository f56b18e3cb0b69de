"""Every other executor gets one submit per run, at most `slots` at a time."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World, fail
from tests.pools.executors import Eager, Held, Threads
from tickless import Cancelled, Pool, Reason, Scheduler, State, Stopped, after, current_run, every


def held_world(slots: int = 2, **options: Any) -> tuple[World, Held]:
    held = Held()
    return World(Pool(held, slots=slots), **options), held


def test_at_most_slots_are_submitted_and_those_are_running() -> None:
    """What is in somebody else's queue cannot be taken back: so it is RUNNING from the submit on."""
    world, held = held_world(2)
    tasks = [world.scheduler.schedule(world.note(n)) for n in range(5)]
    assert [task.state for task in tasks] == [State.RUNNING] * 2 + [State.READY] * 3
    assert held.submits == 2
    held.run_next()
    assert [task.state for task in tasks] == [State.SUCCEEDED] + [State.RUNNING] * 2 + [State.READY] * 2
    for _ in range(4):
        held.run_next()
    assert world.story == [0, 1, 2, 3, 4]
    assert held.submits == 5


def test_by_priority_then_by_readiness() -> None:
    world, held = held_world(1, start=False)
    for n, priority in enumerate([0, 1, 2, 1]):
        world.scheduler.schedule(world.note(n), priority=priority)
    world.scheduler.start()
    while held.held:
        held.run_next()
    assert world.story == [2, 1, 3, 0]


def test_values_errors_and_outputs_pass_through() -> None:
    world, held = held_world(1)
    value = world.scheduler.schedule(lambda: 5)
    child = world.scheduler.schedule(lambda x, *, y: x + y, args=(value.output,), kwargs={"y": 1})
    broken = world.scheduler.schedule(fail)
    skipped = world.scheduler.schedule(world.note("never"), after_tasks=[broken])
    while held.held:
        held.run_next()
    assert (value.result(), child.result()) == (5, 6)
    with pytest.raises(ValueError, match="broken"):
        broken.result()
    assert skipped.reason is Reason.PARENT_FAILED


def test_a_recurring_task_goes_through_it_fire_by_fire() -> None:
    world, held = held_world(2)
    beat = world.scheduler.schedule(world.timed("beat"), every(seconds=1))
    for _ in range(3):
        world.clock.advance(1)
        assert len(held.held) == 1
        held.run_next()
    assert world.story == [("beat", 1), ("beat", 2), ("beat", 3)]
    assert beat.state is State.PENDING


def test_what_is_submitted_can_only_be_asked_and_what_waits_is_cancelled() -> None:
    world, held = held_world(1)
    running = world.scheduler.schedule(world.note("runs"))
    ready = world.scheduler.schedule(world.note("never"))
    assert running.cancel() is Cancelled.ASKED
    assert ready.cancel() is Cancelled.CANCELLED
    held.run_next()
    assert world.story == ["runs"]
    assert running.state is State.SUCCEEDED, "its outcome stands"
    assert not held.held


def test_current_run_gives_the_ids_of_the_run() -> None:
    world, held = held_world(1)
    task = world.scheduler.schedule(lambda: (current_run().task_id, current_run().due), after(5), id="x")
    world.clock.advance(5)
    held.run_next()
    task_id, due = task.result()
    assert (task_id, world.second(due)) == ("x", 5)


def test_a_work_that_raises_stopped_is_cancelled() -> None:
    def stops() -> None:
        raise Stopped

    world, held = held_world(1)
    task = world.scheduler.schedule(stops)
    held.run_next()
    assert (task.state, task.reason) == (State.CANCELLED, Reason.STOPPED)


def test_a_cancelled_error_of_the_works_own_is_its_failure() -> None:
    """It asked some future of its own: that is not the pool dropping the run."""

    def asks() -> None:
        raise CancelledError("mine")

    world, held = held_world(1)
    task = world.scheduler.schedule(asks)
    held.run_next()
    assert (task.state, task.reason) == (State.FAILED, None)


def test_an_executor_that_runs_inline_has_no_deep_recursion() -> None:
    """Each end frees a slot and has the next one submitted: by a loop, or a thousand tasks overflow the stack."""
    world = World(Pool(Eager(), slots=1), start=False)
    for n in range(5_000):
        world.scheduler.schedule(world.note(n))
    world.scheduler.start()
    assert world.story == list(range(5_000))


def test_a_chain_through_an_inline_executor_has_no_deep_recursion() -> None:
    world = World(Pool(Eager(), slots=1), start=False)
    last = world.scheduler.schedule(world.note(0))
    for n in range(1, 5_000):
        last = world.scheduler.schedule(world.note(n), after_tasks=[last])
    world.scheduler.start()
    assert world.story == list(range(5_000))


def test_threads_fed_one_by_one_run_everything_once() -> None:
    executor = Threads(3)
    counts = [0] * 2_000

    def count(n: int) -> None:
        counts[n] += 1

    with Scheduler(Pool(executor, slots=3), observers=[]) as scheduler:
        for n in range(2_000):
            scheduler.schedule(count, args=(n,))
        assert scheduler.wait(PATIENCE_S)
    executor.shutdown()
    assert counts == [1] * 2_000
