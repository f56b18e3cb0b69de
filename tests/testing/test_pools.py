"""InlinePool and ManualPool: a user's test decides when, and in which thread, a task runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.faults.world import World, fail
from tickless import Call, PoolError, Scheduler, State, TaskInfo, after, every
from tickless.testing import FakeClock, InlinePool, ManualPool


def manual(slots: int = 1, **options: Any) -> tuple[World, ManualPool]:
    pool = ManualPool(slots)
    return World(pool, **options), pool


# Inline


def test_inline_runs_in_the_thread_of_the_test_and_is_done_when_the_call_returns() -> None:
    world = World(InlinePool())
    task = world.scheduler.schedule(threading.get_ident)
    assert task.result(0) == threading.get_ident()
    later = world.scheduler.schedule(world.note("later"), after(1))
    world.clock.advance(1)
    assert world.story == ["later"]
    assert later.state is State.SUCCEEDED


def test_inline_what_a_task_schedules_for_now_runs_after_it_and_not_inside_it() -> None:
    """One slot: a task that schedules itself ten thousand times is no recursion."""
    world = World(InlinePool())

    def again(left: int) -> None:
        world.story.append(("begin", left))
        if left:
            world.scheduler.schedule(again, args=(left - 1,))
        world.story.append(("end", left))

    world.scheduler.schedule(again, args=(10_000,))
    assert world.story == [(what, left) for left in range(10_000, -1, -1) for what in ("begin", "end")]


def test_inline_a_failing_task_raises_nothing_into_the_test() -> None:
    world = World(InlinePool())
    task = world.scheduler.schedule(fail)
    world.clock.advance(1)
    with pytest.raises(ValueError, match="broken"):
        task.result(0)


def test_inline_keyboard_interrupt_in_a_task_is_its_outcome() -> None:
    """As in a thread: the test sees it where it asks for the result."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    world = World(InlinePool())
    task = world.scheduler.schedule(interrupt)
    assert task.state is State.FAILED
    with pytest.raises(KeyboardInterrupt):
        task.result(0)


def test_inline_works_with_a_real_clock_too() -> None:
    """In the dispatcher's thread, then: its user's choice."""
    with Scheduler(InlinePool(), observers=[]) as scheduler:
        task = scheduler.schedule(lambda: threading.current_thread().name, after(0.001))
        assert task.result(30) == "tickless-dispatcher"


# Manual


def test_manual_holds_runs_until_they_are_asked_for() -> None:
    """READY while held, RUNNING only inside."""
    world, pool = manual()
    states: list[State] = []
    task = world.scheduler.schedule(lambda: states.append(world.scheduler.get(task).state))
    assert (world.scheduler.get(task).state, len(pool)) == (State.READY, 1)
    assert pool.run_next()
    assert states == [State.RUNNING]
    assert world.scheduler.get(task).state is State.SUCCEEDED
    assert not pool.run_next()


def test_manual_run_next_runs_one_task_however_many_are_ready() -> None:
    world, pool = manual(2)
    for n in range(5):
        world.scheduler.schedule(world.note(n))
    for n in range(5):
        assert world.story == list(range(n))
        assert len(pool) <= 2
        assert pool.run_next()
    assert world.story == [0, 1, 2, 3, 4]


def test_manual_run_all_runs_what_the_tasks_schedule_too_and_counts() -> None:
    world, pool = manual()
    world.scheduler.schedule(lambda: world.scheduler.schedule(world.note("inner")))
    parent = world.scheduler.schedule(world.note("parent"))
    world.scheduler.schedule(world.note("child"), after_tasks=[parent])
    pool.run_all()
    assert sorted(world.story) == ["child", "inner", "parent"]
    assert pool.run_all() == 0


def test_manual_run_all_ends_for_a_task_that_never_stops_scheduling() -> None:
    world, pool = manual()

    def again() -> None:
        world.scheduler.schedule(again)

    world.scheduler.schedule(again)
    with pytest.raises(PoolError, match="50 submits and no end"):
        pool.run_all(limit=50)


def test_manual_a_run_that_is_cancelled_while_held_never_starts() -> None:
    """The race between cancel and begin, in the test's hand."""
    world, pool = manual()
    task = world.scheduler.schedule(world.note("never"))
    assert task.cancel()
    pool.run_all()
    assert world.story == []


def test_manual_overlap_can_be_made_at_will() -> None:
    """The first fire is held, and what falls due meanwhile is skipped."""
    world, pool = manual()
    beat = world.scheduler.schedule(world.timed("beat"), every(seconds=1))
    world.clock.advance(3.5)
    pool.run_all()
    assert world.story == [("beat", 3.5)]
    world.clock.advance(1)
    pool.run_all()
    assert world.story == [("beat", 3.5), ("beat", 4.5)]
    assert [run.state for run in beat.runs()].count(State.SUCCEEDED) == 2
    assert [run.count for run in beat.runs() if run.state is State.SKIPPED] == [2]


def test_the_same_program_gives_the_same_trace_on_either_pool() -> None:
    """P10. What differs is when, and nothing else."""

    def trace(pool: Any) -> list[Any]:
        world = World(pool)
        calls = [Call(world.note(n), after(n % 3), id=f"t{n}", priority=n % 2) for n in range(20)]
        world.scheduler.schedule_many([*calls, Call(fail, after(1), id="bad"), Call(fail, after_tasks=["bad"])])
        for _ in range(5):
            if isinstance(pool, ManualPool):
                pool.run_all()
            world.clock.advance(1)
        return [world.story, world.events]

    assert trace(InlinePool()) == trace(InlinePool())
    assert trace(ManualPool()) == trace(ManualPool())
    assert sorted(trace(InlinePool())[0]) == sorted(trace(ManualPool())[0])


def test_pools_may_be_shared_and_outlive_a_scheduler() -> None:
    pool = InlinePool()
    clock = FakeClock()
    infos: list[list[TaskInfo]] = []
    for _ in range(2):
        with Scheduler(pool, clock=clock, observers=[]) as scheduler:
            scheduler.schedule(int)
            infos.append(scheduler.tasks())
    assert [[info.state for info in listed] for listed in infos] == [[State.SUCCEEDED]] * 2
