"""Calendar intervals, RRULEs and combined rules in a scheduler, whose clock is driven by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from tests.cases.kit import inline
from tests.rules.wall_rules import EvenDays
from tests.rules.zoned import utc
from tickless import at, cron, every, rrule, weekdays
from tickless.testing import FakeClock

BERLIN = "Europe/Berlin"


def test_a_calendar_interval_runs_at_the_same_wall_time_over_the_change_of_clocks() -> None:
    """Scheduled in the afternoon, it first runs the next morning."""
    with inline(FakeClock(utc(2026, 3, 27, 15))) as (scheduler, clock):
        task = scheduler.schedule(int, every(days=1, at="09:00", tz=BERLIN))
        clock.advance(timedelta(days=3))
        assert [run.due for run in task.runs()] == [utc(2026, 3, 28, 8), utc(2026, 3, 29, 7), utc(2026, 3, 30, 7)]


def test_an_update_with_the_same_interval_keeps_the_days() -> None:
    """The same program started again in the middle of a fortnight."""
    with inline(FakeClock(utc(2026, 7, 6, 12))) as (scheduler, clock):
        task = scheduler.schedule(int, every(days=14, at="09:00"), id="a")
        assert task.next_fire == utc(2026, 7, 20, 9)
        clock.advance(timedelta(days=3))
        scheduler.schedule(int, every(days=14, at="09:00"), id="a", exists="update")
        assert task.next_fire == utc(2026, 7, 20, 9)
        scheduler.schedule(int, every(days=7, at="09:00"), id="a", exists="update")
        assert task.next_fire == utc(2026, 7, 16, 9)


def test_a_rule_with_days_of_somebody_else_runs_and_is_asked_without_the_lock() -> None:
    """Foreign code that calls the scheduler would wait for its own lock."""
    asked: list[object] = []

    class Asks(EvenDays):
        def __contains__(self, day: date) -> bool:
            asked.append(scheduler.tasks())
            return super().__contains__(day)

    with inline(FakeClock(utc(2026, 7, 6, 12))) as (scheduler, clock):
        task = scheduler.schedule(int, cron("0 9 * * *").on_days(Asks()))
        clock.advance(timedelta(days=5))
        assert [run.due and run.due.toordinal() % 2 for run in task.runs()] == [0, 0, 0]
        assert len(asked) > 3


def test_missed_fires_of_an_rrule_become_one() -> None:
    """A machine that slept over a week runs the newest at once."""
    with inline(FakeClock(utc(2026, 7, 6, 12))) as (scheduler, clock):
        rule = rrule("FREQ=DAILY;BYHOUR=9", start=datetime(2000, 1, 1, tzinfo=UTC))
        task = scheduler.schedule(int, rule)
        clock.suspend(timedelta(days=7))
        skipped, ran = task.runs()
        assert (skipped.reason, skipped.count) == ("coalesced", 6)
        assert ran.due == utc(2026, 7, 13, 9)


def test_a_rule_that_ends_ends_its_task() -> None:
    """COUNT, and a set of dates that is used up."""
    with inline(FakeClock(utc(2026, 7, 6, 12))) as (scheduler, clock):
        counted = scheduler.schedule(int, rrule("FREQ=DAILY;COUNT=2", start=datetime(2026, 7, 7, tzinfo=UTC)))
        listed = scheduler.schedule(int, cron("0 9 * * *").on_days({date(2026, 7, 8)}))
        clock.advance(timedelta(days=7))
        for task in (counted, listed):
            assert (task.state, task.info.reason) == ("succeeded", "no_next_fire")
        assert (len(counted.runs()), len(listed.runs())) == (2, 1)


def test_a_wall_time_of_a_zone_runs_once() -> None:
    """And a union of two runs twice."""
    with inline(FakeClock(utc(2026, 7, 6, 12))) as (scheduler, clock):
        first, second = (at(datetime(2026, 7, day, 9), tz=BERLIN) for day in (8, 9))  # noqa: DTZ001  # with a zone beside it
        once, twice = scheduler.schedule(int, first), scheduler.schedule(int, first | second)
        clock.advance(timedelta(days=7))
        assert [run.due for run in once.runs()] == [utc(2026, 7, 8, 7)]
        assert [run.due for run in twice.runs()] == [utc(2026, 7, 8, 7), utc(2026, 7, 9, 7)]


def test_a_clock_that_is_set_back_fires_nothing_again() -> None:
    """An hour back: what has run waits for its next fire."""
    with inline(FakeClock(utc(2026, 7, 6, 8, 30))) as (scheduler, clock):
        rule = every(days=1, at="09:00").not_on(weekdays("sat,sun")) | cron("30 9 * * *")
        task = scheduler.schedule(int, rule)
        clock.advance(timedelta(minutes=45))
        clock.step_wall(timedelta(minutes=-30))
        assert task.next_fire == utc(2026, 7, 6, 9, 30)
        clock.advance(timedelta(hours=1))
        assert [run.due for run in task.runs()] == [utc(2026, 7, 6, 9), utc(2026, 7, 6, 9, 30)]
