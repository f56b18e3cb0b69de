"""`start=`, `until=`, `max_runs=` and `jitter=`: limits on a schedule, whatever its rule."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.custom import Squares
from tickless import Call, Reason, Rule, RuleError, ScheduleError, Scheduler, State, after, at, cron, every
from tickless.core.invariants import check
from tickless.instants import SECOND_US, Instant
from tickless.policies import jitter_of
from tickless.rules import Window, checked_next, span
from tickless.testing import FakeClock, InlinePool, ManualPool
from tickless.testing.rule_suite import RuleSuite

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""A Monday."""


def nothing() -> None: ...


class Fires:
    """A world that begins on that Monday at noon, and notes when its one task runs."""

    def __init__(self, when: Rule | None, **limits: Any) -> None:
        self.clock = FakeClock(start=NOON)
        self.scheduler = Scheduler(InlinePool(), clock=self.clock, observers=[])
        self.at: list[str] = []
        self.task = self.scheduler.schedule(self.note, when, **limits)
        self.scheduler.start()

    def note(self) -> None:
        fired = NOON + timedelta(microseconds=self.clock.wall() - us_of(NOON))
        self.at.append(f"{fired:%d %H:%M:%S}".removeprefix("02 "))

    def after(self, **span: float) -> list[str]:
        self.clock.advance(timedelta(**span))
        check(self.scheduler._store)
        return self.at


def us_of(when: datetime) -> int:
    return int(when.timestamp()) * SECOND_US


def noon(**later: float) -> datetime:
    return NOON + timedelta(**later)


# start and until


def test_a_rule_that_counts_from_when_it_is_scheduled_counts_from_the_start() -> None:
    """Every ten minutes, from a quarter past: and a quarter past counts."""
    world = Fires(every(minutes=10), start=noon(minutes=15))
    assert world.task.next_fire == noon(minutes=15)
    assert world.after(minutes=40) == ["12:15:00", "12:25:00", "12:35:00"]


def test_a_start_at_this_very_moment_counts() -> None:
    """As it would a microsecond earlier."""
    assert Fires(every(minutes=10), start=NOON).after(minutes=20) == ["12:00:00", "12:10:00", "12:20:00"]
    assert Fires(cron("0 * * * *"), start=NOON).after(minutes=20) == ["12:00:00"]


def test_a_start_that_has_been_gives_the_grid_and_no_fire_of_the_past() -> None:
    world = Fires(every(minutes=10), start=noon(minutes=-25))
    assert world.after(minutes=20) == ["12:05:00", "12:15:00"]


def test_a_sliding_rule_begins_at_the_start_and_slides_from_there() -> None:
    world = Fires(every(minutes=10, sliding=True), start=noon(minutes=3))
    assert world.after(minutes=30) == ["12:03:00", "12:13:00", "12:23:00"]


def test_a_cron_fires_at_its_start_and_at_its_end() -> None:
    """Both count: whoever says "from nine to eleven" means eleven too."""
    world = Fires(cron("0 * * * *"), start=noon(hours=2), until=noon(hours=4))
    assert world.after(hours=9) == ["14:00:00", "15:00:00", "16:00:00"]
    assert (world.task.state, world.task.reason) == (State.SUCCEEDED, Reason.NO_NEXT_FIRE)


def test_an_interval_of_the_calendar_counts_its_days_from_the_start() -> None:
    world = Fires(every(days=2, at="09:00"), start=noon(days=1))
    assert world.after(days=6) == ["05 09:00:00", "07 09:00:00"]


def test_an_end_before_the_first_fire_is_refused_and_one_before_the_start_too() -> None:
    """Neither would ever run, and nobody would be told."""
    with pytest.raises(RuleError, match="never fires"):
        Fires(every(hours=1), until=noon(minutes=59))
    with pytest.raises(RuleError, match="ends before it begins"):
        Fires(every(hours=1), start=noon(hours=2), until=noon(hours=1))


def test_fires_that_were_missed_are_counted_within_the_window_only() -> None:
    """A suspend over all of it: the newest within it runs, late, and the others are one record."""
    world = Fires(every(minutes=1), start=noon(minutes=10), until=noon(minutes=19))
    world.clock.suspend(timedelta(hours=3))
    assert world.after(minutes=1) == ["15:00:00"]
    skipped, ran = world.task.runs()
    assert (skipped.count, skipped.due, skipped.last_due) == (9, noon(minutes=10), noon(minutes=18))
    assert ran.due == noon(minutes=19)
    assert world.task.state is State.SUCCEEDED


def test_a_child_counts_from_the_start_too() -> None:
    """Its rule is bound when the parent lets go."""
    world = Fires(after(60))
    child = world.scheduler.schedule(nothing, every(minutes=10), after_tasks=[world.task], start=noon(minutes=15))
    world.after(minutes=1)
    assert child.next_fire == noon(minutes=15)


# max_runs


@pytest.mark.parametrize("rule", [every(minutes=1), every(minutes=1, sliding=True), cron("* * * * *")])
def test_a_task_ends_with_its_last_run(rule: Rule) -> None:
    """As that run ended, and it says why there are no more."""
    world = Fires(rule, max_runs=3)
    assert world.after(minutes=9) == ["12:01:00", "12:02:00", "12:03:00"]
    assert (world.task.state, world.task.reason, world.task.next_fire) == (State.SUCCEEDED, Reason.MAX_RUNS, None)
    assert world.scheduler.wait(0)


def test_the_result_is_that_of_the_last_run() -> None:
    world = Fires(after(3600))
    left = [1, 2]
    task = world.scheduler.schedule(left.pop, every(minutes=1), max_runs=2)
    world.after(minutes=5)
    assert task.result(0) == 1


def test_fires_that_were_skipped_are_no_runs() -> None:
    world = Fires(every(minutes=1), max_runs=2)
    world.clock.suspend(timedelta(minutes=10))
    assert world.after(minutes=3) == ["12:10:00", "12:11:00"]


def test_runs_that_failed_are_runs() -> None:
    world = Fires(after(3600))
    task = world.scheduler.schedule(lambda: 1 // 0, every(minutes=1), max_runs=2)
    world.after(minutes=5)
    assert [run.state for run in task.runs()] == [State.FAILED, State.FAILED]
    assert (task.state, task.reason) == (State.FAILED, Reason.MAX_RUNS)
    with pytest.raises(ZeroDivisionError):
        task.result(0)


def test_children_go_on_after_the_last_run() -> None:
    world = Fires(after(3600))
    once = world.scheduler.schedule(nothing, after(30), id="gate")
    beat = world.scheduler.schedule(nothing, every(minutes=1), after_tasks=[once], max_runs=2)
    world.after(minutes=5)
    assert (beat.state, beat.reason, len(beat.runs())) == (State.SUCCEEDED, Reason.MAX_RUNS, 2)


def test_an_update_counts_anew() -> None:
    """Same rule, so its next fire and its history stay; the limit is that of the new call."""
    world = Fires(every(minutes=1), id="x", max_runs=3)
    world.after(minutes=2)
    again = world.scheduler.schedule(world.note, every(minutes=1), id="x", max_runs=2, exists="update")
    assert again is world.task
    assert world.after(minutes=9) == ["12:01:00", "12:02:00", "12:03:00", "12:04:00"]
    assert len(world.task.runs()) == 4


def test_an_update_without_the_limit_lifts_it() -> None:
    world = Fires(every(minutes=1), id="x", max_runs=2)
    world.after(minutes=1)
    world.scheduler.schedule(world.note, every(minutes=1), id="x", exists="update")
    assert len(world.after(minutes=9)) == 10


def test_an_update_during_the_last_run_gives_it_more() -> None:
    """It is told while it runs; what it becomes is what the call says."""
    clock, pool = FakeClock(start=NOON), ManualPool()
    scheduler = Scheduler(pool, clock=clock, observers=[])
    scheduler.start()

    def renews() -> None:
        if len(task.runs()) == 1:
            scheduler.schedule(renews, every(minutes=1), id="x", max_runs=2, exists="update")

    task = scheduler.schedule(renews, every(minutes=1), id="x", max_runs=1)
    for _ in range(5):
        clock.advance(timedelta(minutes=1))
        pool.run_all()
    assert len(task.runs()) == 3
    assert task.reason is Reason.MAX_RUNS
    check(scheduler._store)


# jitter


def test_jitter_makes_fires_later_by_a_part_of_it_and_the_plan_stays() -> None:
    """The grid is the grid: no fire moves the next one."""
    world = Fires(every(minutes=10), jitter=60)
    world.after(hours=5)
    runs = world.task.runs()
    assert [run.due for run in runs] == [noon(minutes=10 * n) for n in range(1, 30)]
    late = [run.started - run.due for run in runs if run.started and run.due]
    assert all(timedelta(0) <= by <= timedelta(minutes=1) for by in late)
    assert len(set(late)) > 20
    assert {run.lateness for run in runs} == {timedelta(0)}  # late on purpose is not late


def test_the_next_fire_that_is_shown_is_the_planned_one() -> None:
    world = Fires(every(minutes=10), jitter=timedelta(minutes=1))
    assert world.task.next_fire == noon(minutes=10)


@pytest.mark.parametrize("rule", [after(600), at(NOON + timedelta(minutes=10))])
def test_one_shots_have_jitter_too(rule: Rule) -> None:
    """A thousand processes that all start a job at ten past."""
    world = Fires(rule, jitter=300)
    before = world.after(minutes=10)
    assert before == [] or world.task.last_run is not None
    assert len(world.after(minutes=5)) == 1
    (run,) = world.task.runs()
    assert run.due == noon(minutes=10)
    assert run.lateness == timedelta(0)


def test_the_same_program_has_the_same_jitter() -> None:
    first, second = (Fires(every(minutes=10), id="x", jitter=60).after(hours=2) for _ in range(2))
    assert first == second
    assert first != Fires(every(minutes=10), id="y", jitter=60).after(hours=2)


def test_tasks_of_one_rule_are_spread() -> None:
    world = Fires(after(1))
    tasks = world.scheduler.schedule_many(Call(nothing, every(minutes=10), jitter=60) for _ in range(200))
    world.after(minutes=12)
    started = sorted({run.started_us for task in tasks for run in task.runs() if run.started_us is not None})
    assert len(started) > 190
    assert started[-1] - started[0] > 50 * SECOND_US


def test_a_fire_that_jitter_puts_off_beyond_the_end_of_the_run_is_not_skipped() -> None:
    """The run goes on at the planned instant of the next fire, and has ended at the instant that jitter gave it."""
    clock, pool = FakeClock(start=NOON), ManualPool()
    scheduler = Scheduler(pool, clock=clock, observers=[])
    scheduler.start()
    task = scheduler.schedule(nothing, every(minutes=1), jitter=59)
    for _ in range(200):
        clock.advance(timedelta(seconds=7))
        pool.run_all()
    check(scheduler._store)
    skipped = [run for run in task.runs() if run.state is State.SKIPPED]
    assert skipped == []
    dues = [run.due for run in task.runs()]
    assert dues == [noon(minutes=n) for n in range(1, len(dues) + 1)]


def test_a_step_of_the_wall_clock_moves_a_fire_with_jitter_along() -> None:
    world = Fires(cron("0 * * * *"), jitter=600)
    world.clock.advance(timedelta(minutes=30))
    world.clock.step_wall(timedelta(minutes=20))
    assert world.after(minutes=9) == []
    world.after(minutes=11)
    (run,) = world.task.runs()
    assert run.due == noon(hours=1)
    assert run.lateness == timedelta(0)


def test_an_update_that_changes_the_jitter_places_the_next_fire_anew() -> None:
    world = Fires(every(minutes=10), id="x")
    world.scheduler.schedule(world.note, every(minutes=10), id="x", jitter=300, exists="update")
    assert world.task.next_fire == noon(minutes=10)
    check(world.scheduler._store)
    world.after(minutes=16)
    (run,) = world.task.runs()
    assert run.due == noon(minutes=10)
    assert run.started != run.due
    world.scheduler.schedule(world.note, every(minutes=10), id="x", exists="update")
    assert world.after(minutes=4)[-1] == "12:20:00"
    check(world.scheduler._store)


@given(st.text(max_size=9), st.integers(-(10**15), 10**15), st.integers(0, 10**12))
def test_jitter_is_within_what_was_asked_and_needs_no_memory(key: str, due: int, jitter_us: int) -> None:
    drawn = jitter_of(key, Instant(due), jitter_us)
    assert 0 <= drawn < max(1, jitter_us)
    assert drawn == jitter_of(key, Instant(due), jitter_us)


# All together, and what is refused


@given(
    st.sampled_from([every(minutes=7), every(minutes=7, sliding=True), cron("*/7 * * * *"), every(days=1, at="13:00")]),
    st.none() | st.integers(-3000, 3000),
    st.none() | st.integers(0, 6000),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(0, 90),
)
def test_whatever_the_limits_no_run_breaks_them(
    rule: Rule, start: int | None, until: int | None, most: int | None, jitter: int | None
) -> None:
    """Seconds from noon. `until` lies after the start."""
    limits: dict[str, Any] = {}
    if start is not None:
        limits["start"] = noon(seconds=start)
    if until is not None:
        limits["until"] = noon(seconds=max(0, start or 0) + until)
    if most is not None:
        limits["max_runs"] = most
    if jitter is not None and rule != every(minutes=7, sliding=True):
        limits["jitter"] = jitter
    try:
        world = Fires(rule, **limits)
    except RuleError:  # the window is so short that it never fires
        assert until is not None
        return
    world.after(hours=30)
    runs = [run for run in world.task.runs() if run.state is not State.SKIPPED]
    assert most is None or len(runs) <= most
    for run in runs:
        assert run.due is not None
        assert limits.get("start", run.due) <= run.due <= limits.get("until", run.due)
        assert run.lateness == timedelta(0)


@pytest.mark.parametrize(
    ("when", "limits", "says"),
    [
        (None, {"jitter": 5}, "jitter=5: limits a rule, and there is none"),
        (None, {"max_runs": 5}, "max_runs=5: limits a rule, and there is none"),
        (after(5), {"max_runs": 2}, "fires once"),
        (at(NOON), {"start": NOON}, "fires once"),
        (every(hours=1), {"max_runs": 0}, "max_runs=0: needs a whole number"),
        (every(hours=1), {"max_runs": True}, "max_runs=True"),
        (every(hours=1), {"max_runs": 2.0}, "max_runs=2.0"),
        (every(hours=1), {"jitter": -1}, "never earlier"),
        (every(hours=1), {"jitter": True}, "jitter"),
        (every(hours=1), {"jitter": float("nan")}, "jitter"),
        (every(hours=1), {"jitter": "5s"}, "jitter"),
        (every(hours=1, sliding=True), {"jitter": 5}, "sliding"),
        (every(hours=1), {"jitter": 3600}, "as long as the interval"),
        (every(hours=1), {"start": "09:00"}, "start: needs a datetime"),
        (every(hours=1), {"until": datetime(2026, 3, 3)}, "naive"),  # noqa: DTZ001  # that is the point
        (every(hours=1), {"until": 5}, "until: needs a datetime"),
        ("every 5m", {"max_runs": 2}, "every 5m"),
    ],
)
def test_what_is_no_limit_is_refused_and_nothing_is_added(when: Any, limits: dict[str, Any], says: str) -> None:
    """By name and value, with the way out."""
    world = Fires(after(1))
    with pytest.raises((ScheduleError, RuleError), match=says):
        world.scheduler.schedule(nothing, when, **limits)
    assert len(world.scheduler.tasks()) == 1


# The window as a rule


class TestWindow(RuleSuite):
    def rules(self) -> st.SearchStrategy[Rule]:
        ends = st.none() | self.instants()
        inner = st.sampled_from([every(minutes=7), cron("*/5 9 * * *"), every(days=3)])

        def window(rule: Rule, one: Instant | None, other: Instant | None) -> Rule:
            first, last = (one, other) if one is None or other is None else sorted((one, other))
            return Window(rule, first, last)

        return st.builds(window, inner, ends, ends)


def test_a_window_counts_what_is_in_it_exactly() -> None:
    grid = every(seconds=1).bound(Instant(0))
    window = Window(grid, Instant(10 * SECOND_US), Instant(2_000_000 * SECOND_US))
    found = span(window, Instant(0), Instant(10**15))
    assert found == (1_999_991, 10 * SECOND_US, 2_000_000 * SECOND_US)
    assert span(window, Instant(3_000_000 * SECOND_US), Instant(10**15)) is None
    assert checked_next(window, Instant(0)) == 10 * SECOND_US


def test_a_window_is_a_value() -> None:
    window = Window(cron("0 9 * * *"), Instant(0), None)
    assert pickle.loads(pickle.dumps(window)) == window
    assert str(window).endswith("from 1970-01-01 00:00:00 UTC")


def test_a_rule_of_your_own_has_limits_too() -> None:
    """It is asked without a lock, as ever."""
    squares = Squares(unit_us=SECOND_US, last=10**6)
    world = Fires(squares, start=noon(hours=5), until=noon(hours=70))
    world.after(hours=90)
    dues = [run.due for run in world.task.runs() if run.due is not None]
    assert len(dues) > 2
    assert dues[0] >= noon(hours=5)
    assert dues[-1] <= noon(hours=70)
    assert world.task.state is State.SUCCEEDED
