"""What was missed: late is better than never, unless a task says how late, and how much of it is caught up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.cases.kit import dues, fires_skipped, inline, seconds, sound, starts
from tickless import EventKind, Reason, Rule, Scheduler, State, Task, after, at, every
from tickless.instants import datetime_of
from tickless.testing import FakeClock, ManualPool

HOUR = 3600
Make = Callable[[Scheduler, FakeClock, float], Task[int]]


def one_shot(scheduler: Scheduler, clock: FakeClock, grace: float) -> Task[int]:
    return scheduler.schedule(int, at(datetime_of(clock.wall()) + timedelta(seconds=10)), grace=grace)


def delayed(scheduler: Scheduler, clock: FakeClock, grace: float) -> Task[int]:
    return scheduler.schedule(int, after(10), grace=grace)


@pytest.mark.parametrize("make", [one_shot, delayed])
def test_BUG_008_one_shot_later_than_its_grace_is_skipped_and_says_so(make: Make) -> None:
    """In life: it is dropped with a line in the log, and whoever looks for the task finds nothing."""
    with inline() as (scheduler, clock):
        task = make(scheduler, clock, 1)
        clock.suspend(11.2)
        assert (task.state, task.reason) == ("skipped", Reason.MISFIRE)
        assert [(run.state, run.reason, seconds(run.due_us), run.started_us) for run in task.runs()] == [
            ("skipped", Reason.MISFIRE, 10, None)
        ]
        assert scheduler.get(task).state == "skipped", "it has not vanished"
        sound(scheduler)


@pytest.mark.parametrize("make", [one_shot, delayed])
@pytest.mark.parametrize(("late", "runs"), [(1.0, True), (1.000_001, False), (0.999_999, True)])
def test_BUG_008_exactly_as_late_as_its_grace_runs(make: Make, late: float, runs: bool) -> None:
    """In life: two libraries of one house that differ by one comparison."""
    with inline() as (scheduler, clock):
        task = make(scheduler, clock, 1)
        clock.suspend(10 + late)
        assert task.state == ("succeeded" if runs else "skipped")


def test_BUG_008_time_in_the_queue_counts_as_late_too() -> None:
    """In life: grace is looked at when the fire surfaces, and the pool is free an hour later."""
    clock, pool = FakeClock(), ManualPool()
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        exact, late = (scheduler.schedule(int, after(10), grace=grace) for grace in (5, 4.999))
        clock.advance(10)
        assert [exact.state, late.state] == ["ready", "ready"]
        clock.advance(5)
        pool.run_all()
        assert (exact.state, late.state, late.reason) == ("succeeded", "skipped", Reason.MISFIRE)
        assert late.last_run is not None
        assert late.last_run.started_us is None
        sound(scheduler)


def test_BUG_008_single_late_fire_of_a_long_interval_is_told_when_its_grace_drops_it() -> None:
    """In life: a task of three days runs each six, and no record says why."""
    day = 24 * HOUR
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, every(days=3, at="00:00"), grace=60, id="report")
        clock.suspend(3 * day + 61)
        assert fires_skipped(task, Reason.MISFIRE) == 1
        clock.advance(3 * day)
        assert len(dues(task.runs())) == 1
        sound(scheduler)


def test_BUG_008_misfire_is_an_event_and_a_child_is_decided() -> None:
    """In life: the parent was dropped, and what waits for it waits for ever."""
    with inline() as (scheduler, clock):
        parent = scheduler.schedule(int, after(10), grace=1)
        child = scheduler.schedule(int, after_tasks=[parent])
        cleanup = scheduler.schedule(int, after_tasks=[parent], run_if="all_done")
        clock.suspend(20)
        assert (child.state, child.reason) == ("skipped", Reason.PARENT_SKIPPED)
        assert cleanup.state == "succeeded"
        sound(scheduler)


# Suspended, or the clock put forward


def jump(clock: FakeClock, how: str, span: float = 8 * HOUR) -> None:
    if how == "suspend":
        clock.suspend(span)
    else:
        clock.step_wall(span)


on_each_jump = pytest.mark.parametrize(
    ("rule", "how"),
    [
        (every(seconds=300, anchor="epoch"), "step"),
        (every(seconds=300, anchor="epoch"), "suspend"),
        (every(seconds=300), "suspend"),
    ],
)


@on_each_jump
@pytest.mark.parametrize(("most", "ran"), [(10, 10), (1, 1), (None, 96)])
def test_BUG_013_catch_up_of_all_is_bounded_and_counts_the_others(
    rule: Rule, how: str, most: int | None, ran: int
) -> None:
    """In life: the laptop wakes up and does a night's work at once; or forgets what it has left out."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, rule, catch_up="all", max_catch_up=most)
        jump(clock, how)
        assert dues(task.runs()) == [8 * HOUR - 300 * n for n in range(ran - 1, -1, -1)], "the newest, in order"
        assert fires_skipped(task, Reason.COALESCED) == 96 - ran
        assert len([run for run in task.runs() if run.reason is Reason.COALESCED]) == min(1, 96 - ran), "one record"
        clock.advance(300)
        assert dues(task.runs())[ran:] == [8 * HOUR + 300], "the next is on the grid"
        sound(scheduler)


@on_each_jump
@pytest.mark.parametrize(("late", "ran"), [(0, 1), (1, 1), (1.5, 0), (299, 0)])
def test_BUG_013_catch_up_of_none_runs_only_what_is_on_time(rule: Rule, how: str, late: float, ran: int) -> None:
    """In life: a mail "good morning" goes out at the moment at which the laptop is opened."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, rule, catch_up="none")
        jump(clock, how, 8 * HOUR + late)
        assert len(dues(task.runs())) == ran
        assert fires_skipped(task, Reason.COALESCED) == 96 - ran
        clock.advance(300 - late)
        assert starts(task.runs())[ran:] == [8 * HOUR + 300 if how == "suspend" else 300 - late]
        sound(scheduler)


@on_each_jump
@pytest.mark.parametrize("catch_up", ["latest", "all"])
def test_BUG_013_grace_drops_the_old_ones_first_whatever_is_caught_up(rule: Rule, how: str, catch_up: str) -> None:
    """In life: two reasons in one record, and nobody can tell what was too late from what was too many."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, rule, catch_up=catch_up, grace=HOUR)  # type: ignore[arg-type]  # one of three
        jump(clock, how)
        on_time = 13  # those of the last hour, the one at its very beginning included
        ran = on_time if catch_up == "all" else 1
        assert fires_skipped(task, Reason.MISFIRE) == 96 - on_time
        assert fires_skipped(task, Reason.COALESCED) == on_time - ran
        assert len(dues(task.runs())) == ran
        sound(scheduler)


def test_BUG_013_what_is_caught_up_does_not_run_side_by_side() -> None:
    """In life: ten runs of one task that was never meant to run twice at once."""
    clock, pool = FakeClock(), ManualPool(slots=4)
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        task = scheduler.schedule(int, every(seconds=60), catch_up="all", overlap="allow")
        clock.suspend(180)
        for _ in range(3):
            assert [run.state for run in task.runs()].count(State.READY) == 1
            sound(scheduler)
            pool.run_next()
        assert dues(task.runs()) == [60, 120, 180]
        assert task.state == "pending"
        sound(scheduler)


def test_BUG_013_fires_of_a_catch_up_that_a_stop_cuts_short_are_not_lost_without_a_word() -> None:
    """In life: the process ends in the middle of the catch-up. In memory all that is left to say is "closed"."""
    clock, pool = FakeClock(), ManualPool()
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        task = scheduler.schedule(int, every(seconds=60), catch_up="all")
        clock.suspend(180)
        pool.run_next()
        scheduler.close()
        assert (task.state, task.reason) == ("cancelled", Reason.CLOSED)
        assert EventKind.CANCELLED.value == task.runs()[-1].state.value
        sound(scheduler)
