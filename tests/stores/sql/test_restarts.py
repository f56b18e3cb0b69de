"""What outlives a stop and a start: plans, histories, pauses, results, and what was missed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stores.sql.house import House, fail, note, told
from tickless import (
    DependencyError,
    DuplicateId,
    OutputGone,
    Reason,
    Retry,
    Scheduler,
    State,
    TaskFailed,
    UnknownTask,
    after,
    at,
    cron,
    every,
)
from tickless.instants import datetime_of

HOUR_S = 3_600


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_BUG_020_a_daily_task_runs_though_the_program_is_started_every_three_hours(house: House) -> None:
    """Anchored anew at each start, it never ran."""
    for _ in range(40):
        with house.start(lambda scheduler: scheduler.schedule(note, every(hours=24), id="x")):
            house.clock.advance(3 * HOUR_S)
    assert len(told) == 5


def test_BUG_020_a_changed_interval_counts_from_the_start_with_no_extra_run(house: House) -> None:
    with house.start(lambda scheduler: scheduler.schedule(note, every(hours=24), id="x")):
        house.clock.advance(3 * HOUR_S)
    with house.start(lambda scheduler: scheduler.schedule(note, every(hours=2), id="x")):
        assert told == []
        house.clock.advance(5 * HOUR_S)
        assert len(told) == 2


@pytest.mark.parametrize(("catch_up", "runs", "skipped"), [("latest", 1, 95), ("all", 10, 86), ("none", 1, 95)])
def test_BUG_013_eight_hours_of_rest_are_one_misfire_whether_suspended_or_stopped(
    house: House, catch_up: str, runs: int, skipped: int
) -> None:
    """The same figures as those of a suspend: one path."""
    policy = {"catch_up": catch_up, "max_catch_up": 10} if catch_up == "all" else {"catch_up": catch_up}

    def prepare(scheduler: Scheduler) -> None:
        scheduler.schedule(note, every(minutes=5), id="x", **policy)

    with house.start(prepare):
        house.clock.advance(1)
    house.clock.advance(8 * HOUR_S)
    with house.start(prepare) as scheduler:
        house.clock.advance(0)
        count = sum(run.count for run in scheduler.runs("x") if run.state is State.SKIPPED)
        assert (len(told), count) == (runs, skipped)
        house.clock.advance(300)
        assert len(told) == runs + 1


def test_BUG_021_what_came_due_between_two_programs_runs_once(house: House) -> None:
    """A daily fire, and a time: neither is lost in the twenty seconds of a deployment."""
    noon = datetime_of(house.clock.wall()).replace(hour=15, minute=0)

    def prepare(scheduler: Scheduler) -> None:
        scheduler.schedule(note, cron("0 15 * * *", tz="UTC"), id="daily", args=("daily",))

    with house.start(prepare) as scheduler:
        scheduler.schedule(note, at(noon), args=("once",))
        house.clock.advance((noon - datetime_of(house.clock.wall())).total_seconds() - 10)
    house.clock.advance(20)
    with house.start(prepare):
        house.clock.advance(0)
    assert sorted(told) == ["daily", "once"]


def test_BUG_022_a_touched_schedule_loses_no_fire_of_its_own_or_of_others(house: House) -> None:
    def prepare(scheduler: Scheduler) -> None:
        scheduler.schedule(note, every(hours=1), id="a", args=("a",))
        scheduler.schedule(note, every(hours=1), id="b", args=("b",))

    with house.start(prepare) as scheduler:
        house.clock.advance(HOUR_S - 1)
        scheduler.schedule(note, every(hours=1), id="a", args=("a",))
        house.clock.advance(1)
        assert sorted(told) == ["a", "b"]
        scheduler.schedule(note, every(minutes=1), id="a", args=("a",))
        house.clock.advance(60)
        assert sorted(told) == ["a", "a", "b"]


def test_BUG_033_one_id_is_one_task_before_the_start_after_it_and_over_a_restart(house: House) -> None:
    scheduler = house.make()
    scheduler.schedule(note, after(60), id="x")
    with pytest.raises(DuplicateId):
        scheduler.schedule(note, after(60), id="x")
    with scheduler, pytest.raises(DuplicateId):
        scheduler.schedule(note, after(60), id="x")
    with house.start() as scheduler, pytest.raises(DuplicateId):
        scheduler.schedule(note, after(60), id="x")
    with house.start() as scheduler:
        scheduler.schedule(note, after(30), id="x", exists="update")
        house.clock.advance(60)
        assert [info.id for info in scheduler.tasks()] == ["x"]
    assert len(told) == 1


def test_a_recurring_task_without_an_id_has_that_of_its_work_and_is_there_once(house: House) -> None:
    """A program schedules the same tasks at each start."""
    for _ in range(3):
        with house.start(lambda scheduler: scheduler.schedule(note, every(hours=1)), works={"beat": note}) as scheduler:
            house.clock.advance(HOUR_S)
            assert [info.id for info in scheduler.tasks()] == ["beat"]
    assert len(told) == 3
    with house.start() as scheduler:
        task = scheduler.schedule(fail, every(hours=1))
        assert task.id == "tests.stores.sql.house:fail"


def test_history_pause_and_tags_are_there_after_a_restart(house: House) -> None:
    def prepare(scheduler: Scheduler) -> None:
        scheduler.schedule(note, every(hours=1), id="x", tags=["t"])

    with house.start(prepare) as scheduler:
        house.clock.advance(2 * HOUR_S)
        scheduler.pause("x", reason="repair")
        scheduler.pause(tag="u")
    with house.start(prepare) as scheduler:
        house.clock.advance(2 * HOUR_S)
        info = scheduler.get("x")
        assert (info.paused, info.pause_reason, info.tags, len(scheduler.runs("x"))) == (True, "repair", ("t",), 2)
        tagged = scheduler.schedule(note, after(1), tags=["u"])
        house.clock.advance(5)
        assert tagged.info.paused
        scheduler.resume("x")
        house.clock.advance(HOUR_S)
        assert [run.state for run in scheduler.runs("x")].count(State.SUCCEEDED) == 3


def test_a_pause_that_ends_by_itself_ends_though_nobody_was_there(house: House) -> None:
    with house.start(lambda scheduler: scheduler.schedule(note, every(hours=1), id="x")) as scheduler:
        scheduler.pause("x", until=datetime_of(house.clock.wall()).replace(hour=23))
    house.clock.advance(24 * HOUR_S)
    with house.start() as scheduler:
        house.clock.advance(0)
        assert not scheduler.get("x").paused


def test_a_child_waits_over_a_restart_and_takes_the_result_that_was_kept_for_it(house: House) -> None:
    with house.start() as scheduler:
        parent = scheduler.schedule(note, after(10), args=({"rows": [1, 2]},))
        scheduler.schedule(note, after(100), args=(parent.output, "child"), id="child")
        house.clock.advance(20)
        assert parent.state is State.SUCCEEDED
    with house.start() as scheduler:
        house.clock.advance(200)
        assert scheduler.get("child").state is State.SUCCEEDED
    assert told == [{"rows": [1, 2]}, ({"rows": [1, 2]}, "child")]


def test_a_retry_goes_on_with_the_next_number_after_a_restart(house: House) -> None:
    with house.start() as scheduler:
        scheduler.schedule(fail, id="x", retry=Retry(3, delay=60, factor=1))
        house.clock.advance(60)
    with house.start() as scheduler:
        house.clock.advance(60)
        run = scheduler.runs("x")[-1]
        assert (run.state, run.attempt, len(run.attempts)) == (State.FAILED, 3, 2)
    assert len(told) == 3


def test_limits_are_known_to_the_next_program_as_they_were(house: House) -> None:
    """`max_runs` counts over restarts; so do failures that pause a task."""

    def prepare(scheduler: Scheduler) -> None:
        if not house.path.with_suffix(".seen").exists():
            scheduler.schedule(note, every(minutes=1), id="x", max_runs=3)
            scheduler.schedule(fail, every(minutes=1), id="f", pause_after_failures=3)
            house.path.with_suffix(".seen").touch()

    for _ in range(4):
        with house.start(prepare):
            house.clock.advance(60)
    with house.start() as scheduler:
        assert (scheduler.get("x").state, scheduler.get("x").reason) == (State.SUCCEEDED, Reason.MAX_RUNS)
        assert scheduler.get("f").pause_reason == "3 failures in a row"


def test_a_step_of_the_wall_clock_while_nobody_was_there_counts_when_somebody_is(house: House) -> None:
    """`cron` goes by the wall, `every` by what has elapsed; neither fires early, and the cron not twice."""

    def prepare(scheduler: Scheduler) -> None:
        scheduler.schedule(note, cron("0 13 * * *", tz="UTC"), id="wall", args=("wall",))
        scheduler.schedule(note, after(2 * HOUR_S), id="span", args=("span",), exists="keep")

    house.clock.step_wall(0)
    hour = datetime_of(house.clock.wall()).hour
    with house.start(prepare):
        house.clock.advance(1)
    house.clock.step_wall((13 - hour) % 24 * HOUR_S)
    with house.start(prepare):
        house.clock.advance(1)
        assert told == ["wall"]
        house.clock.advance(2 * HOUR_S)
        assert told == ["wall", "span"]


def test_results_are_kept_for_later_handles_only_where_that_was_asked(house: House) -> None:
    with house.start(results=True) as scheduler:
        scheduler.schedule(note, args=(42,), id="kept")
        scheduler.schedule(fail, id="failed")
    with house.start() as scheduler:
        scheduler.schedule(note, args=(42,), id="not kept")
    with house.start() as scheduler:
        find = scheduler._store.find  # handles that were made after the end
        assert find("kept").result() == 42  # type: ignore[attr-defined]
        with pytest.raises(TaskFailed, match="ValueError: broken"):
            find("failed").result()  # type: ignore[attr-defined]
        with pytest.raises(OutputGone):
            find("not kept").result()  # type: ignore[attr-defined]


def test_a_cancelled_task_does_not_come_back(house: House) -> None:
    with house.start() as scheduler:
        scheduler.schedule(note, after(60), id="x").cancel()
    with house.start() as scheduler:
        house.clock.advance(120)
        assert (scheduler.get("x").state, told) == (State.CANCELLED, [])


def test_what_has_ended_is_forgotten_beyond_what_is_kept_and_its_id_is_free(house: House) -> None:
    with house.start(keep_finished=2) as scheduler:
        for name in "abc":
            scheduler.schedule(note, id=name)
        assert [info.id for info in scheduler.tasks()] == ["b", "c"]
        with pytest.raises(UnknownTask):
            scheduler.get("a")
        assert scheduler.schedule(note, id="a").state is State.SUCCEEDED


def test_rows_of_what_is_forgotten_go_and_what_a_child_waits_for_stays(house: House) -> None:
    """In batches, when nothing is due: a file must not grow for ever."""
    with house.start(keep_finished=3, keep_runs=5) as scheduler:
        parent = scheduler.schedule(note, args=("kept",), id="parent")
        child = scheduler.schedule(note, after(10 * 24 * HOUR_S), args=(parent.output,), id="child")
        beat = scheduler.schedule(note, every(seconds=1), id="beat")
        for _ in range(400):
            scheduler.schedule(note)
        house.clock.advance(400)
        count = scheduler._store.db.execute  # type: ignore[attr-defined]
        assert count("SELECT count(*) FROM tasks WHERE ended IS NOT NULL").fetchone()[0] < 300
        assert count("SELECT count(*) FROM runs").fetchone()[0] < 300
        assert len(beat.runs()) == 5
        beat.cancel()
        house.clock.advance(11 * 24 * HOUR_S)
        assert child.state is State.SUCCEEDED


def test_what_is_older_than_keep_for_goes(house: House) -> None:
    with house.start(keep_for=HOUR_S) as scheduler:
        for _ in range(300):
            scheduler.schedule(note)
        house.clock.advance(2 * HOUR_S)
        for _ in range(300):
            scheduler.schedule(note)
        house.clock.advance(1)
        assert len(scheduler.tasks()) <= 300 + 256


def test_BUG_055_a_child_that_is_linked_while_its_parent_ends_elsewhere_runs_once(house: House) -> None:
    """Two connections, and a parent that is ready, running or over when the child comes."""
    with house.start() as runner, house.make() as caller:
        for number in range(60):
            parent = runner.schedule(note, after(1), id=f"p{number}")
            house.clock.advance(number % 3 * 0.75)
            caller.schedule(note, args=(f"c{number}",), after_tasks=[f"p{number}"], id=f"c{number}")
            house.clock.advance(2)
            assert parent.state is State.SUCCEEDED
            assert runner.get(f"c{number}").state is State.SUCCEEDED
    assert sorted(one for one in told if one is not None and str(one).startswith("c")) == sorted(
        f"c{number}" for number in range(60)
    )


def test_BUG_060_a_circle_of_parents_is_refused_over_connections_too(house: House) -> None:
    with house.start() as one, house.make() as two:
        one.schedule(note, after(100), id="a")
        two.schedule(note, after_tasks=["a"], id="b")
        with pytest.raises(DependencyError, match="cycle"):
            one.schedule(note, after_tasks=["b"], id="a", exists="update")
        with pytest.raises(DependencyError, match="itself"):
            two.schedule(note, after_tasks=["c"], id="c")
