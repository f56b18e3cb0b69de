"""One thing fails: nothing else does, and it is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.cases.kit import Ear, dues, entries, inline, starts
from tests.cases.rules import WRONG, Breaks
from tickless import (
    Call,
    Event,
    EventKind,
    Instant,
    Reason,
    RuleError,
    Scheduler,
    TicklessError,
    after,
    at,
    every,
)
from tickless.instants import datetime_of
from tickless.testing import FakeClock, InlinePool

TICK = every(seconds=1)


def fail() -> None:
    raise ValueError("broken")


@pytest.mark.parametrize(
    "bad",
    [
        Call(int, after(5), id="healthy"),
        Call(int, after(5), after_tasks=["nobody"], id="b"),
        Call(int, after(5), after_tasks=["b"], id="b"),
        Call(int, after(3 * 10**11), id="b"),
        Call(int, Breaks(0, WRONG["fails"]), id="b"),
        Call(int, after(5), run_if="sometimes", id="b"),
        Call(3, after(5), id="b"),  # type: ignore[arg-type]  # that is the fault
    ],
    ids=["duplicate", "unknown parent", "itself", "past the calendar", "broken rule", "no such option", "no work"],
)
@pytest.mark.parametrize("many", [False, True], ids=["alone", "last of a batch"])
def test_BUG_002_add_that_fails_leaves_no_trace_and_stops_nothing(bad: Call, many: bool) -> None:
    """In life: one add fails, half of it stays in the heap, and healthy tasks wait for somebody to call."""
    with inline() as (scheduler, clock):
        healthy = scheduler.schedule(int, every(seconds=10), id="healthy")
        before = scheduler.tasks(), entries(scheduler)
        with pytest.raises(TicklessError):
            scheduler.schedule_many([Call(int, after(1), id="good"), bad] if many else [bad])
        assert (scheduler.tasks(), entries(scheduler)) == before
        clock.advance(10)
        assert dues(healthy.runs()) == [10]


def test_BUG_002_ids_of_a_batch_that_failed_are_free() -> None:
    """In life: the corrected batch is refused, since the wrong one has left its names behind."""
    with inline() as (scheduler, _):
        calls = [Call(int, id="a"), Call(int, id="b", after_tasks=["c"])]
        with pytest.raises(TicklessError):
            scheduler.schedule_many(calls)
        tasks = scheduler.schedule_many([*calls, Call(int, id="c")])
        assert [task.state for task in tasks] == ["succeeded"] * 3


def failing_once(verb: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    """The verb, whose first call raises and does nothing."""
    faults = [error]

    def call(*args: Any, **kwargs: Any) -> Any:
        if faults:
            raise faults.pop()
        return verb(*args, **kwargs)

    return call


@pytest.mark.parametrize("verb", ["due", "next_wake", "take"])
def test_BUG_003_store_that_fails_once_stops_nothing(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In life: one write fails, the thread ends, the process looks healthy, and nothing ever runs again."""
    with inline() as (scheduler, clock):
        broken = scheduler.schedule(int, every(seconds=10))
        monkeypatch.setattr(scheduler._store, verb, failing_once(getattr(scheduler._store, verb), OSError("disk")))
        clock.advance(10)
        neighbour = scheduler.schedule(int, every(seconds=10))
        clock.advance(25)
        assert dues(neighbour.runs()) == [20, 30]
        assert dues(broken.runs()) == [10, 20, 30]


def test_BUG_003_pass_that_fails_is_told_and_tried_again_later_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In life: a store that is away for a minute is asked a million times, and the log fills the disk."""
    ear = Ear()
    with inline(ear=ear) as (scheduler, clock):
        task = scheduler.schedule(int, after(1))
        calls: list[Instant] = []
        due = scheduler._store.due

        def away(now: Instant, wall: Instant, *more: Any) -> bool:
            calls.append(now)
            if clock.now() < FakeClock().now() + 60 * 1_000_000:
                raise OSError("no store")
            return due(now, wall, *more)

        monkeypatch.setattr(scheduler._store, "due", away)
        clock.advance(120)
        assert task.state == "succeeded"
        trouble = ear.of(EventKind.TROUBLE)
        assert 0 < len(trouble) <= 12
        assert len(calls) <= len(trouble) + 4
        assert all("no store" in (event.error or "") for event in trouble)


class StumblingClock(FakeClock):
    """Raises at the next reading, once `stumble` is set."""

    stumble = False

    def wall(self) -> Instant:
        if self.stumble:
            self.stumble = False
            raise OSError("clock_gettime")
        return super().wall()


def test_BUG_003_clock_that_fails_once_stops_nothing() -> None:
    """In life: a sandbox refuses one system call, and that was the scheduler's last pass."""
    clock = StumblingClock()
    with inline(clock) as (scheduler, _):
        task = scheduler.schedule(int, every(seconds=10))
        clock.stumble = True
        clock.advance(20)
        assert dues(task.runs()) == [10, 20]


class Raising:
    """An observer that raises at everything."""

    kinds = frozenset(EventKind)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def observe(self, events: Sequence[Event]) -> None:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("listener"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_BUG_003_listener_that_raises_stops_nothing_and_is_told_to_the_others(error: BaseException) -> None:
    """In life: a metrics exporter loses its connection, and with it the scheduler dies."""
    clock, ear = FakeClock(), Ear()
    with Scheduler(InlinePool(), clock=clock, observers=[Raising(error), ear]) as scheduler:
        task = scheduler.schedule(int, every(seconds=10))
        clock.advance(30)
        assert dues(task.runs()) == [10, 20, 30]
    assert len(ear.of(EventKind.SUCCEEDED)) == 3
    assert {event.name for event in ear.of(EventKind.TROUBLE)} == {"observer Raising"}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("good", [1, 3])
def test_BUG_003_BUG_006_rule_that_goes_wrong_later_ends_its_own_task_only(wrong: str, good: int) -> None:
    """In life: a fire past the year 9999 sorts first and blocks all others, or is tried again without end."""
    with inline() as (scheduler, clock):
        rule = Breaks(good, WRONG[wrong])
        broken = scheduler.schedule(int, rule)
        neighbour = scheduler.schedule(int, TICK)
        clock.advance(10)
        assert dues(neighbour.runs()) == list(range(1, 11))
        info = broken.info
        assert (info.state, info.reason, info.next_fire) == ("failed", Reason.RULE, None)
        assert info.last_run is not None
        assert "its rule could not tell the next fire" in (info.last_run.error or "")
        # The fire that was planned before the rule broke has run; the one that could not be told has no time.
        assert dues(broken.runs()) == list(range(1, good + 1)), "what had run stays in its history"
        assert info.last_run.due_us is None
        asked = len(rule.asked)
        clock.advance(10)
        assert len(rule.asked) == asked, "it is not asked again"
        with pytest.raises(RuleError):
            broken.result(timeout=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: every(seconds=10**15),
        lambda: every(hours=24 * 4_000_000),
        lambda: every(timedelta.max),
        lambda: every(seconds=float("inf")),
        lambda: after(9e12 * 3600),
        lambda: after(timedelta.max),
        lambda: at(datetime.max),  # noqa: DTZ901 - that it is naive is the fault
        lambda: at(datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))),
        lambda: at(datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
    ],
)
def test_BUG_006_time_beyond_the_calendar_is_refused_at_the_call(make: Callable[[], object]) -> None:
    """In life: the sum overflows into the past, and the task is due at once, for ever."""
    with pytest.raises(RuleError, match=r"years 1 to 9999|naive|is not a length of time"):
        make()


@pytest.mark.parametrize("rule", [every(hours=24 * 365 * 8_000), after(timedelta(days=365 * 8_000))])
def test_BUG_006_first_fire_past_the_year_9999_is_refused_at_the_call(rule: Any) -> None:
    """In life: it is accepted, and then nobody can show when it comes."""
    with inline() as (scheduler, _):
        with pytest.raises(RuleError):
            scheduler.schedule(int, rule)
        assert scheduler.tasks() == []


def test_BUG_006_farthest_times_can_be_listed_and_block_nobody() -> None:
    """In life: the list of tasks raises, since one of them is due in a year that a datetime cannot show."""
    with inline() as (scheduler, clock):
        last = scheduler.schedule(int, at(datetime.max.replace(tzinfo=UTC)))
        yearly = scheduler.schedule(int, every(hours=24 * 365 * 7_000))
        neighbour = scheduler.schedule(int, TICK)
        clock.advance(3)
        assert dues(neighbour.runs()) == [1, 2, 3]
        assert last.next_fire == datetime.max.replace(tzinfo=UTC)
        assert yearly.next_fire is not None
        assert yearly.next_fire.year > 9000
        assert "9999" in repr(scheduler.tasks())


def test_BUG_006_interval_that_leaves_the_calendar_ends_with_its_last_fire() -> None:
    """In life: 100 % of a processor goes into one task whose next fire cannot be computed."""
    with inline(FakeClock(datetime(9999, 12, 31, 23, 59, 57, tzinfo=UTC))) as (scheduler, clock):
        task = scheduler.schedule(int, TICK)
        clock.advance(2.5)
        info = task.info
        assert [run.state for run in task.runs()] == ["succeeded", "succeeded"]
        assert (info.state, info.reason, info.next_fire) == ("succeeded", Reason.NO_NEXT_FIRE, None)
        assert task.result(timeout=0) == 0
        assert datetime_of(clock.now()).year == 9999


def test_BUG_003_failing_task_is_marked_and_its_neighbour_fires() -> None:
    """In life: the first exception in a task is the last thing that the scheduler does."""
    with inline() as (scheduler, clock):
        broken = scheduler.schedule(fail, TICK)
        neighbour = scheduler.schedule(int, TICK)
        clock.advance(3)
        assert starts(neighbour.runs()) == [1, 2, 3]
        assert [run.error for run in broken.runs()] == ["ValueError: broken"] * 3
        assert broken.state == "pending", "the run fails, the schedule goes on"
