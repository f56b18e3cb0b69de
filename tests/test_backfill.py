"""Runs for fires that have been: one after another, beside the plan, each once. In memory, and on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.cases.kit import sound
from tickless import (
    Cancelled,
    Flow,
    Limit,
    Retry,
    RuleError,
    ScheduleError,
    Scheduler,
    SchedulerClosed,
    State,
    UnknownTask,
    after,
    cron,
    current_run,
    every,
)
from tickless.testing import FakeClock, InlinePool, ManualPool

NOON = datetime(2024, 1, 5, 12, tzinfo=UTC)
HOURLY = cron("0 * * * *")
HOUR_S = 3_600
told: list[Any] = []
failing: set[int] = set()


def hour() -> int:
    """Tells the hour that it runs for, and fails for some."""
    run = current_run()
    due = run.due
    assert due is not None
    told.append(due.hour)
    if due.hour in failing:
        raise ValueError("broken")
    return due.hour


def load(due: datetime) -> int:
    told.append(("load", due.hour))
    return due.hour


def report(of: int) -> None:
    told.append(("report", of))
    if of in failing:
        raise ValueError("broken")


@pytest.fixture
def clock() -> FakeClock:
    told.clear()
    failing.clear()
    return FakeClock(NOON)


@pytest.fixture
def scheduler(clock: FakeClock) -> Iterator[Scheduler]:
    with Scheduler(InlinePool(), clock=clock, observers=[], limits=[Limit("db", running=1)]) as scheduler:
        yield scheduler
        sound(scheduler)


def at_hour(hour: int) -> datetime:
    return NOON.replace(hour=hour)


def flow_of(scheduler: Scheduler, **options: Any) -> Flow:
    with scheduler.flow("etl", HOURLY, **options) as flow:
        first = flow.task(load, args=(flow.due,))
        flow.task(report, args=(first.output,))
    return flow


def states(scheduler: Scheduler, *hours: int, of: str = "x") -> list[str]:
    return [str(scheduler.get(f"{of}@2024-01-05T{hour:02}:00:00Z").state) for hour in hours]


def hold(clock: FakeClock, **options: Any) -> tuple[Scheduler, ManualPool]:
    """A scheduler whose workers come when the test says so."""
    pool = ManualPool()
    scheduler = Scheduler(pool, clock=clock, observers=[], **options)
    scheduler.start()
    return scheduler, pool


# Which fires


def test_each_fire_of_a_span_runs_once_the_oldest_first_with_its_own_due(scheduler: Scheduler) -> None:
    task = scheduler.schedule(hour, HOURLY, id="x")
    runs = scheduler.backfill(task, at_hour(3), at_hour(7))
    assert [(run.task_id, run.due) for run in runs] == [
        (f"x@2024-01-05T0{hour}:00:00Z", at_hour(hour)) for hour in (3, 4, 5, 6)
    ]
    assert told == [3, 4, 5, 6]
    assert [run.due for run in task.runs()] == [at_hour(hour) for hour in (3, 4, 5, 6)]
    assert states(scheduler, 3, 4, 5, 6) == ["succeeded"] * 4


def test_the_hours_are_those_of_the_rules_own_zone(scheduler: Scheduler) -> None:
    """Midnight in Berlin, whoever asks in whatever zone."""
    scheduler.schedule(hour, cron("0 0 * * *", tz="Europe/Berlin"), id="x")
    start = datetime(2024, 1, 3, tzinfo=ZoneInfo("America/New_York"))
    runs = scheduler.backfill("x", start, NOON)
    assert [run.due for run in runs] == [datetime(2024, 1, day, 23, tzinfo=UTC) for day in (3, 4)]


def test_a_fire_that_is_to_come_is_the_plans(scheduler: Scheduler, clock: FakeClock) -> None:
    scheduler.schedule(hour, HOURLY, id="x")
    assert [run.due for run in scheduler.backfill("x", at_hour(11), at_hour(23))] == [at_hour(11)]
    clock.advance(HOUR_S)
    assert told == [11, 13]


def test_a_missed_fire_that_the_plan_will_make_up_for_is_left_to_it(clock: FakeClock) -> None:
    """It would run twice: once by hand, and once since it is late."""
    scheduler = Scheduler(InlinePool(), clock=clock, observers=[])
    scheduler.schedule(hour, HOURLY, id="x")
    clock.advance(3 * HOUR_S)
    assert [run.due for run in scheduler.backfill("x", at_hour(12), at_hour(23))] == [at_hour(12)]
    with scheduler:
        assert sorted(told) == [12, 15]


def test_a_rule_that_counts_from_when_it_was_scheduled_has_no_fires_before(scheduler: Scheduler) -> None:
    scheduler.schedule(hour, every(hours=1), id="x")
    assert scheduler.backfill("x", at_hour(1), NOON) == []


def test_what_has_succeeded_is_left_out_and_what_has_failed_is_not(scheduler: Scheduler, clock: FakeClock) -> None:
    scheduler.schedule(hour, HOURLY, id="x")
    failing.add(14)
    clock.advance(3 * HOUR_S)
    told.clear()
    scheduler.backfill("x", at_hour(12), at_hour(16))
    assert told == [12, 14]
    told.clear()
    failing.clear()
    scheduler.backfill("x", at_hour(12), at_hour(16))
    assert told == [14]
    scheduler.backfill("x", at_hour(12), at_hour(16))
    assert told == [14]


def test_again_runs_what_has_succeeded_once_more_under_another_id(scheduler: Scheduler) -> None:
    scheduler.schedule(hour, HOURLY, id="x")
    scheduler.backfill("x", at_hour(3), at_hour(5))
    runs = scheduler.backfill("x", at_hour(3), at_hour(5), again=True)
    assert told == [3, 4, 3, 4]
    assert len({run.task_id for run in runs} | {"x@2024-01-05T03:00:00Z", "x@2024-01-05T04:00:00Z"}) == 4


def test_asked_twice_it_runs_once(clock: FakeClock) -> None:
    """In life: a command whose connection broke is given again."""
    scheduler, pool = hold(clock)
    scheduler.schedule(hour, HOURLY, id="x")
    assert len(scheduler.backfill("x", at_hour(3), at_hour(6))) == 3
    assert scheduler.backfill("x", at_hour(3), at_hour(6)) == []
    assert scheduler.backfill("x", at_hour(3), at_hour(6), again=True) == []
    assert [run.due for run in scheduler.backfill("x", at_hour(2), at_hour(7))] == [at_hour(2), at_hour(6)]
    pool.run_all()
    assert told == [3, 4, 5, 2, 6]
    scheduler.close()


def test_a_dry_run_gives_what_would_run_and_changes_nothing(scheduler: Scheduler, clock: FakeClock) -> None:
    scheduler.schedule(hour, HOURLY, id="x")
    scheduler.backfill("x", at_hour(4), at_hour(5))
    before = scheduler.tasks()
    runs = scheduler.backfill("x", at_hour(3), at_hour(6), dry_run=True)
    assert [(run.task_id, run.due, run.state) for run in runs] == [
        (f"x@2024-01-05T0{hour}:00:00Z", at_hour(hour), State.PENDING) for hour in (3, 5)
    ]
    assert scheduler.tasks() == before
    assert told == [4]


def test_more_than_ten_thousand_are_refused_with_the_number_and_the_way_out(scheduler: Scheduler) -> None:
    """A typing error in the year would else be a month of work."""
    scheduler.schedule(hour, cron("* * * * *"), id="x")
    with pytest.raises(
        ScheduleError, match=r"has more than 10,000 fires from 2023-01-01 .* up to 2023-01-07 22:40 UTC"
    ):
        scheduler.backfill("x", datetime(2023, 1, 1, tzinfo=UTC), NOON)
    scheduler.schedule(hour, every(seconds=1, anchor="epoch"), id="y")
    with pytest.raises(ScheduleError, match=r"has 86,400 fires"):
        scheduler.backfill("y", NOON - timedelta(days=1), NOON)
    assert told == []


def test_what_cannot_be_is_refused_by_name(scheduler: Scheduler) -> None:
    scheduler.schedule(hour, after(5), id="once")
    scheduler.schedule(hour, HOURLY, id="x")
    with pytest.raises(ScheduleError, match="once does not recur"):
        scheduler.backfill("once", at_hour(3), at_hour(4))
    with pytest.raises(RuleError, match="naive"):
        scheduler.backfill("x", datetime(2024, 1, 1), NOON)  # noqa: DTZ001  # that is what is refused
    with pytest.raises(RuleError, match="is after end="):
        scheduler.backfill("x", NOON, at_hour(3))
    with pytest.raises(UnknownTask):
        scheduler.backfill("y", at_hour(3), at_hour(4))
    scheduler.cancel("x")
    with pytest.raises(ScheduleError, match="x has ended"):
        scheduler.backfill("x", at_hour(3), at_hour(4))
    scheduler.close()
    with pytest.raises((SchedulerClosed, ScheduleError)):
        scheduler.backfill("x", at_hour(3), at_hour(4))


# One after another


@pytest.mark.parametrize("overlap", [{}, {"overlap": "queue"}, {"overlap": "allow", "max_running": 5}])
def test_never_do_two_run_at_once_whatever_overlap_says(clock: FakeClock, overlap: Any) -> None:
    scheduler, pool = hold(clock, slots=4)
    scheduler.schedule(hour, HOURLY, id="x", **overlap)
    scheduler.backfill("x", at_hour(3), at_hour(6))
    scheduler.backfill("x", at_hour(7), at_hour(9))
    for done in range(5):
        assert sum(info.state is State.READY for info in scheduler.tasks()) == 1
        assert len(told) == done
        sound(scheduler)
        pool.run_next()
        scheduler.tasks()
    assert told == [3, 4, 5, 7, 8]
    scheduler.close()


def test_one_that_fails_is_tried_again_before_the_next_begins(scheduler: Scheduler, clock: FakeClock) -> None:
    """What comes after may stand on what came before."""
    scheduler.schedule(hour, HOURLY, id="x", retry=Retry(2, delay=60))
    failing.add(3)
    scheduler.backfill("x", at_hour(3), at_hour(5))
    assert (told, states(scheduler, 3, 4)) == ([3], ["pending", "pending"])
    sound(scheduler)
    clock.advance(60)
    assert (told, states(scheduler, 3, 4)) == ([3, 3, 4], ["failed", "succeeded"])


def test_one_that_is_cancelled_while_it_waits_lets_nobody_pass_the_one_that_runs(clock: FakeClock) -> None:
    scheduler, pool = hold(clock)
    scheduler.schedule(hour, HOURLY, id="x")
    scheduler.backfill("x", at_hour(3), at_hour(7))
    assert scheduler.cancel("x@2024-01-05T05:00:00Z") is Cancelled.CANCELLED
    assert states(scheduler, 3, 4, 5, 6) == ["ready", "pending", "cancelled", "pending"]
    assert scheduler.cancel("x@2024-01-05T03:00:00Z")
    scheduler.tasks()
    sound(scheduler)
    assert states(scheduler, 3, 4, 5, 6) == ["cancelled", "ready", "cancelled", "pending"]
    pool.run_all()
    assert told == [4, 6]
    scheduler.close()


def test_one_that_waits_for_its_turn_cannot_jump_the_queue(clock: FakeClock) -> None:
    scheduler, pool = hold(clock)
    scheduler.schedule(hour, HOURLY, id="x", tags=["t"])
    scheduler.backfill("x", at_hour(3), at_hour(6))
    with pytest.raises(ScheduleError, match="has its turn when those before it have ended"):
        scheduler.run_now("x@2024-01-05T05:00:00Z")
    scheduler.pause(tag="t")
    scheduler.resume(tag="t")
    assert states(scheduler, 3, 4, 5) == ["ready", "pending", "pending"]
    sound(scheduler)
    pool.run_all()
    assert told == [3, 4, 5]
    scheduler.close()


def test_code_that_goes_on_after_its_timeout_holds_up_the_next(clock: FakeClock) -> None:
    """It is still at work on what the next one would touch, too."""
    scheduler, pool = hold(clock)
    scheduler.schedule(hour, HOURLY, id="x", timeout=60)
    scheduler.backfill("x", at_hour(3), at_hour(5))
    store, worker = scheduler._store, scheduler._workers[0]
    run = store.take(scheduler._now())
    assert run is not None
    clock.advance(61)
    assert states(scheduler, 3, 4) == ["failed", "pending"]
    sound(scheduler)
    store.finish(run, worker.outcome(run), scheduler._now())
    assert states(scheduler, 3, 4) == ["failed", "ready"]
    pool.run_all()
    sound(scheduler)
    scheduler.close()


def test_a_pause_of_its_tag_or_of_all_holds_it_and_one_of_its_task_does_not(
    scheduler: Scheduler, clock: FakeClock
) -> None:
    scheduler.schedule(hour, HOURLY, id="x", tags=["t"])
    scheduler.pause("x")
    scheduler.backfill("x", at_hour(3), at_hour(4))
    assert told == [3]
    scopes: tuple[Any, ...] = ({"tag": "t"}, {})
    for scope in scopes:
        told.clear()
        scheduler.pause(**scope)
        scheduler.backfill("x", at_hour(5), at_hour(7), again=True)
        sound(scheduler)
        assert told == []
        scheduler.resume(**scope)
        assert told == [5, 6]


def test_limits_are_kept(clock: FakeClock) -> None:
    scheduler, pool = hold(clock, limits=[Limit("db", running=1)], slots=3)
    scheduler.schedule(hour, HOURLY, id="x", limit="db")
    scheduler.schedule(hour, after(0), id="other", limit="db")
    scheduler.backfill("x", at_hour(3), at_hour(5))
    assert scheduler.get("x@2024-01-05T03:00:00Z").waiting_for == "db"
    pool.run_all()
    assert told == [12, 3, 4]
    sound(scheduler)
    scheduler.close()


# Beside the plan


def test_the_plan_goes_on_as_if_there_were_none(scheduler: Scheduler, clock: FakeClock) -> None:
    scheduler.schedule(hour, HOURLY, id="x", max_runs=2, pause_after_failures=2)
    failing.update(range(3, 9))
    scheduler.backfill("x", at_hour(3), at_hour(9))
    info = scheduler.get("x")
    assert (info.next_fire, info.paused, len(told)) == (at_hour(13), False, 6)
    clock.advance(3 * HOUR_S)
    assert told[6:] == [13, 14]
    assert scheduler.get("x").state is State.SUCCEEDED


def test_a_fire_of_the_plan_comes_while_a_backfill_goes_on(clock: FakeClock) -> None:
    scheduler, pool = hold(clock)
    scheduler.schedule(hour, HOURLY, id="x")
    scheduler.backfill("x", at_hour(3), at_hour(6))
    clock.advance(HOUR_S)
    assert scheduler.get("x").state is State.READY
    pool.run_all()
    assert sorted(told) == [3, 4, 5, 13]
    assert all(run.state is State.SUCCEEDED for run in scheduler.runs("x"))
    sound(scheduler)
    scheduler.close()


def test_grace_and_jitter_are_of_the_plan_alone(scheduler: Scheduler) -> None:
    scheduler.schedule(hour, HOURLY, id="x", grace=1, jitter=600)
    scheduler.backfill("x", at_hour(3), at_hour(5))
    assert told == [3, 4]


def test_with_its_task_all_of_it_is_cancelled(clock: FakeClock) -> None:
    scheduler, pool = hold(clock)
    scheduler.schedule(hour, HOURLY, id="x")
    scheduler.backfill("x", at_hour(3), at_hour(6))
    scheduler.cancel("x")
    assert states(scheduler, 3, 4, 5) == ["cancelled"] * 3
    pool.run_all()
    assert told == []
    sound(scheduler)
    scheduler.close()


def test_nothing_is_kept_of_one_that_was_cancelled_with_its_task(clock: FakeClock) -> None:
    scheduler, pool = hold(clock)
    scheduler.schedule(hour, HOURLY, id="x")
    scheduler.backfill("x", at_hour(3), at_hour(6))
    scheduler.cancel("x")
    pool.run_all()
    assert scheduler._store.machine.registry._asides == {}
    scheduler.close()


def test_its_end_is_not_that_of_the_backfill(scheduler: Scheduler, clock: FakeClock) -> None:
    """The last fire of a plan comes while the past is worked on."""
    scheduler.schedule(hour, HOURLY, id="x", retry=Retry(2, delay=2 * HOUR_S), until=at_hour(13))
    failing.add(3)
    scheduler.backfill("x", at_hour(3), at_hour(5))
    clock.advance(HOUR_S)
    assert scheduler.get("x").state is State.SUCCEEDED
    sound(scheduler)
    clock.advance(HOUR_S)
    assert told == [3, 13, 3, 4]


# Flows


def test_of_a_flow_each_is_a_round_whose_tasks_see_its_due(scheduler: Scheduler, clock: FakeClock) -> None:
    flow = flow_of(scheduler)
    runs = scheduler.backfill("etl", at_hour(3), at_hour(5))
    assert [(run.task_id, run.due) for run in runs] == [("etl", at_hour(3)), ("etl", at_hour(4))]
    assert told == [("load", 3), ("report", 3), ("load", 4), ("report", 4)]
    assert [one.id for one in flow.rounds()] == ["etl@2024-01-05T03:00:00Z", "etl@2024-01-05T04:00:00Z"]
    assert [one.due for one in flow.rounds()] == [at_hour(3), at_hour(4)]
    assert [run.due for run in flow.runs()] == [at_hour(3), at_hour(4)]
    assert scheduler.get("etl").next_fire == at_hour(13)
    clock.advance(HOUR_S)
    assert told[-1] == ("report", 13)
    assert scheduler.backfill("etl", at_hour(3), at_hour(5)) == []


def test_rounds_wait_for_the_whole_of_the_one_before(clock: FakeClock) -> None:
    scheduler, pool = hold(clock, slots=4)
    flow = flow_of(scheduler)
    scheduler.backfill("etl", at_hour(3), at_hour(6))
    assert [str(one.state) for one in flow.rounds()] == ["ready", "pending", "pending"]
    pool.run_next()
    scheduler.tasks()
    sound(scheduler)
    assert [str(one.state) for one in flow.rounds()] == ["running", "pending", "pending"]
    assert flow.rounds()[1].cancel() is Cancelled.CANCELLED
    assert [str(one.state) for one in flow.rounds()] == ["running", "cancelled", "pending"]
    sound(scheduler)
    pool.run_all()
    assert told == [("load", 3), ("report", 3), ("load", 5), ("report", 5)]
    scheduler.close()


def test_a_round_that_failed_is_filled_in_once_it_is_mended(scheduler: Scheduler) -> None:
    flow = flow_of(scheduler)
    failing.add(3)
    scheduler.backfill("etl", at_hour(3), at_hour(5))
    failing.clear()
    assert [run.due for run in scheduler.backfill("etl", at_hour(3), at_hour(5))] == [at_hour(3)]
    assert [str(one.state) for one in flow.rounds()] == ["failed", "succeeded", "succeeded"]
    assert flow.rounds()[-1].id.startswith("etl@2024-01-05T03:00:00Z+")
    assert scheduler.backfill("etl", at_hour(3), at_hour(5)) == []


def test_a_round_that_was_tried_again_counts_for_the_fire_of_the_first(scheduler: Scheduler) -> None:
    flow = flow_of(scheduler)
    failing.add(3)
    scheduler.backfill("etl", at_hour(3), at_hour(4))
    failing.clear()
    flow.rounds()[0].retry_failed()
    assert scheduler.backfill("etl", at_hour(3), at_hour(4)) == []


def test_rounds_that_are_kept_no_more_are_forgotten_as_they_end(scheduler: Scheduler) -> None:
    flow = flow_of(scheduler)
    scheduler.backfill("etl", NOON - timedelta(hours=40), NOON)
    assert len(told) == 80
    assert len(flow.rounds()) == 20


def test_with_its_flow_all_of_it_is_cancelled(clock: FakeClock) -> None:
    scheduler, pool = hold(clock)
    flow = flow_of(scheduler)
    scheduler.backfill("etl", at_hour(3), at_hour(6))
    pool.run_next()
    flow.cancel()
    pool.run_all()
    scheduler.tasks()
    assert [str(one.state) for one in flow.rounds()] == ["cancelled"] * 3
    sound(scheduler)
    scheduler.close()
