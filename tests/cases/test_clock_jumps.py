"""The wall clock is set, or the machine sleeps: elapsed rules do not notice, wall rules follow, nothing fires twice."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.cases.kit import dues, fires_skipped, inline, seconds, starts
from tickless import Reason, Rule, after, at, every
from tickless.instants import SECOND_US, datetime_of
from tickless.testing import FakeClock

HOUR = 3600
ANCHORED = every(minutes=1, anchor="epoch")


@pytest.mark.parametrize("rule", [every(minutes=1, sliding=True), every(minutes=1)], ids=["sliding", "aligned"])
def test_BUG_012_interval_does_not_notice_that_the_clock_is_set_back(rule: Rule) -> None:
    """In life: the clock is put right by twelve hours, and nothing runs for twelve hours."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, rule)
        clock.advance(90)
        clock.step_wall(-12 * HOUR)
        clock.advance(150)
        assert starts(task.runs()) == [60, 120, 180, 240]


def test_BUG_012_delay_does_not_notice_that_the_clock_is_set() -> None:
    """In life: the wait was a difference of wall times, and the step goes into it."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, after(60))
        clock.step_wall(-12 * HOUR)
        clock.advance(59)
        clock.step_wall(24 * HOUR)
        assert task.state == "pending"
        clock.advance(1)
        assert starts(task.runs()) == [60]


def test_BUG_012_anchored_interval_goes_by_the_new_wall_time() -> None:
    """In life: the next fire lies twelve hours off by the new wall clock, and is waited for."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, ANCHORED)
        clock.advance(90)
        clock.step_wall(-12 * HOUR)
        fire = task.next_fire
        assert fire is not None
        assert fire - datetime_of(clock.wall()) <= timedelta(minutes=1)
        clock.advance(60)
        assert starts(task.runs()) == [60, 120]


def test_BUG_012_no_fire_comes_twice_when_the_clock_is_set_back_by_less_than_three_hours() -> None:
    """In life: a backup for 02:00 runs twice in the night in which the clock is put right."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, ANCHORED)
        for step in (-2 * HOUR, -1800, 900):
            clock.advance(300)
            clock.step_wall(step)
        clock.advance(3 * HOUR)
        named = [run.due_us for run in task.runs(limit=None) if run.started_us is not None]
        assert len(named) > 50
        assert len(set(named)) == len(named)


@pytest.mark.parametrize(("step", "ran_at"), [(-1800, 5400), (1800, 1800), (2 * HOUR, 0), (-12 * HOUR, 13 * HOUR)])
def test_BUG_012_fixed_time_moves_with_the_wall_clock(step: float, ran_at: float) -> None:
    """In life: the noon mail goes out when the old clock would have shown noon."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, at(datetime_of(clock.wall()) + timedelta(hours=1)))
        clock.step_wall(step)
        clock.advance(14 * HOUR)
        assert starts(task.runs()) == [ran_at]


def jump(clock: FakeClock, how: str) -> None:
    if how == "suspend":
        clock.suspend(8 * HOUR)
    else:
        clock.step_wall(8 * HOUR)


@pytest.mark.parametrize(
    ("rule", "how"),
    [
        (every(seconds=300, anchor="epoch"), "step"),
        (every(seconds=300, anchor="epoch"), "suspend"),
        (every(seconds=300), "suspend"),
    ],
)
def test_BUG_013_eight_hours_of_sleep_are_one_run_and_one_summary(rule: Rule, how: str) -> None:
    """In life: the laptop wakes up, and a task of five minutes runs ninety-six times at once."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, rule)
        jump(clock, how)
        summaries = [run for run in task.runs() if run.reason is Reason.COALESCED]
        assert dues(task.runs()) == [8 * HOUR], "the newest runs"
        assert [(seconds(run.due_us), seconds(run.last_due_us), run.count) for run in summaries] == [(300, 28_500, 95)]
        assert fires_skipped(task, Reason.COALESCED) == 95
        clock.advance(299)
        assert len(starts(task.runs())) == 1
        clock.advance(1)
        assert dues(task.runs())[1:] == [8 * HOUR + 300], "the next is on the grid"


def test_BUG_013_interval_of_elapsed_time_does_not_leap_with_the_wall() -> None:
    """In life: the clock is put forward, and what counts elapsed time believes it."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, every(seconds=300))
        jump(clock, "step")
        assert task.runs() == []
        clock.advance(300)
        assert starts(task.runs()) == [300]


@pytest.mark.parametrize("how", ["suspend", "step"])
def test_BUG_013_time_that_passed_in_the_sleep_is_run_at_the_wake_up(how: str) -> None:
    """In life: the noon task runs at 22:00, since the rest of its wait went on where it had stopped; or never."""
    with inline() as (scheduler, clock):
        noon = scheduler.schedule(int, at(datetime_of(clock.wall()) + timedelta(hours=1)))
        delay = scheduler.schedule(int, after(HOUR))
        jump(clock, how)
        assert noon.state == "succeeded"
        assert delay.state == ("succeeded" if how == "suspend" else "pending")
        run = noon.last_run
        assert run is not None
        assert run.due_us == noon.info.last_run.due_us  # type: ignore[union-attr]  # it has one, see above
        assert (run.due_us or 0) - SECOND_US * HOUR == FakeClock().now(), "its name is the time that was missed"
