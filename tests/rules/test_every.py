"""`every(interval)`: aligned, anchored, sliding."""

from __future__ import annotations

import datetime as datetime_module
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import NOW, YEAR_US, aligned, anchored, instants, sliding, spans
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, SECOND_US, Instant, datetime_of, instant_of
from tickless.rules import Every, Rule, every, first_fire

TEN_YEARS_US = 10 * YEAR_US


def iso(text: str) -> Instant:
    return instant_of(datetime.fromisoformat(text), "test")


def test_the_first_fire_is_one_interval_after_it_was_bound() -> None:
    """Not at once: a heartbeat every hour that beats at each restart is no heartbeat."""
    rule = every(seconds=30).bound(NOW)
    assert rule.next_after(NOW) == NOW + 30 * SECOND_US
    assert rule.next_after(Instant(0)) == NOW + 30 * SECOND_US


def test_a_late_question_does_not_move_the_grid() -> None:
    """No drift: each run some ms late would otherwise add up to hours in a year."""
    rule = every(seconds=30).bound(NOW)
    for late_us in (0, 1, 7_000_000, 29_999_999):
        asked = Instant(NOW + 300 * SECOND_US + late_us)
        assert rule.next_after(asked) == NOW + 330 * SECOND_US


def test_ten_years_of_missed_fires_are_counted_by_division() -> None:
    """A laptop out of the drawer: 315 million fires may not be walked through. Exact, to the last one."""
    rule = every(timedelta(milliseconds=1)).bound(NOW)
    until = Instant(NOW + TEN_YEARS_US + 999)
    assert rule.span(NOW, until) == (TEN_YEARS_US // 1_000, NOW + 1_000, NOW + TEN_YEARS_US)
    assert rule.next_after(until) == NOW + TEN_YEARS_US + 1_000


def test_span_leaves_out_its_start_and_takes_in_its_end() -> None:
    """A finish at the very instant of a fire neither loses that fire nor counts it twice."""
    rule = every(seconds=1).bound(Instant(0))
    second = SECOND_US
    assert rule.span(Instant(0), Instant(second - 1)) is None
    assert rule.span(Instant(0), Instant(second)) == (1, second, second)
    assert rule.span(Instant(second), Instant(3 * second)) == (2, 2 * second, 3 * second)
    assert rule.span(Instant(3 * second), Instant(3 * second)) is None
    assert rule.span(Instant(5 * second), Instant(second)) is None


@given(st.one_of(aligned(), anchored()), instants(), instants(), instants())
def test_two_spans_side_by_side_make_the_whole(rule: Rule, now: Instant, one: Instant, two: Instant) -> None:
    """However a gap is cut into pieces, the same fires are missed."""
    grid = rule.bound(now)
    assert isinstance(grid, Every)
    low, high = min(one, two), max(one, two)
    middle = Instant((low + high) // 2)
    parts = [part for part in (grid.span(low, middle), grid.span(middle, high)) if part]
    whole = grid.span(low, high)
    if not parts:
        assert whole is None
    else:
        assert whole == (sum(count for count, _, _ in parts), parts[0][1], parts[-1][2])


@given(st.one_of(aligned(), anchored()), instants(), instants(), instants())
def test_the_ends_of_a_span_are_fires_and_none_lies_outside(
    rule: Rule, now: Instant, one: Instant, two: Instant
) -> None:
    """The record of what was missed names its first and its last."""
    grid = rule.bound(now)
    assert isinstance(grid, Every)
    low, high = min(one, two), max(one, two)
    found = grid.span(low, high)
    if found is None:
        following = grid.next_after(low)
        assert following is None or following > high
        return
    count, first, last = found
    assert grid.next_after(low) == first
    assert grid.next_after(Instant(last - 1)) == last
    beyond = grid.next_after(last)
    assert beyond is None or beyond > high
    assert last - first == (count - 1) * grid.interval_us


def test_seconds_minutes_and_hours_add_up() -> None:
    """And are the same rule as the timedelta."""
    assert every(hours=1, minutes=1, seconds=1) == every(timedelta(seconds=3661)) == every(seconds=3661.0)
    assert every(hours=0.1) == every(minutes=6) == every(seconds=360)
    assert every(minutes=1, seconds=-30) == every(seconds=30)


def test_one_millisecond_is_the_least() -> None:
    """Below it a pass of the dispatcher takes longer than the interval."""
    assert every(seconds=0.001).interval_us == 1_000
    with pytest.raises(RuleError, match=r"every\(seconds=0\.000999\): an interval must be at least 1 ms; .* a thread"):
        every(timedelta(microseconds=999))


def test_24_hours_are_24_hours() -> None:
    """Elapsed time knows no DST; "the same time tomorrow" is another rule."""
    rule = every(hours=24, anchor=datetime.fromisoformat("2026-03-28T12:00+01:00"))
    assert rule.next_after(iso("2026-03-28T12:00+01:00")) == iso("2026-03-29T13:00+02:00")


@pytest.mark.parametrize(
    ("rule", "start", "expected"),
    [
        pytest.param(
            every(hours=2, anchor=datetime.fromisoformat("2026-11-01T00:30-04:00")),
            "2026-11-01T00:30-04:00",
            ["2026-11-01T01:30-05:00", "2026-11-01T03:30-05:00"],
            id="t105",
        ),
        pytest.param(
            every(minutes=4, anchor=datetime.fromisoformat("2024-11-03T01:52:03-04:00")),
            "2024-11-03T01:52:03-04:00",
            ["2024-11-03T01:56:03-04:00", "2024-11-03T01:00:03-05:00", "2024-11-03T01:04:03-05:00"],
            id="t106",
        ),
        pytest.param(
            every(seconds=30, anchor="epoch"),
            "2022-07-04T12:00:12+00:00",
            ["2022-07-04T12:00:30+00:00", "2022-07-04T12:01:00+00:00"],
            id="t114",
        ),
        pytest.param(
            every(minutes=30, anchor="epoch"),
            "2026-01-01T12:07+05:45",
            ["2026-01-01T12:15+05:45", "2026-01-01T12:45+05:45"],
            id="t115",
        ),
    ],
)
def test_time_cases(rule: Rule, start: str, expected: list[str]) -> None:
    """The researched cases of anchored intervals: elapsed over DST, and multiples of UTC in a zone of 45 minutes."""
    asked, fires = iso(start), []
    for _ in expected:
        fire = rule.bound(NOW).next_after(asked)
        assert fire is not None
        fires.append(fire)
        asked = fire
    assert fires == [iso(text) for text in expected]


def test_an_anchored_rule_is_of_the_wall_clock_and_bound_as_it_stands() -> None:
    """When it was scheduled does not matter: that is what an anchor is for."""
    rule = every(minutes=5, anchor="epoch")
    assert (rule.wall, rule.recurring) == (True, True)
    assert rule.bound(NOW) is rule
    assert (every(minutes=5).wall, every(minutes=5).recurring) == (False, True)


def test_a_future_anchor_is_the_first_fire() -> None:
    """`anchor=` the opening of the shop: nothing before it, and the opening itself counts."""
    opening = datetime_of(Instant(NOW + 1_000 * SECOND_US))
    rule = every(minutes=5, anchor=opening).bound(NOW)
    assert first_fire(rule, NOW) == NOW + 1_000 * SECOND_US
    assert rule.next_after(Instant(NOW + 1_000 * SECOND_US)) == NOW + 1_300 * SECOND_US


def test_a_past_anchor_gives_the_next_point_of_its_grid() -> None:
    """Not the anchor, and not all that has passed since."""
    rule = every(minutes=5, anchor=datetime_of(Instant(NOW - 1_000 * SECOND_US)))
    assert first_fire(rule, NOW) == NOW + 200 * SECOND_US


@given(spans(1_000), instants(high=NOW), instants(high=NOW))
def test_sliding_is_always_one_interval_after_it_was_bound(
    interval: timedelta, start: Instant, finished: Instant
) -> None:
    """Bound anew at each finish, it keeps the pause between two runs, however long a run takes."""
    rule = every(interval, sliding=True).bound(start)
    assert rule.next_after(start) == start + interval // timedelta(microseconds=1)
    again = rule.bound(finished)
    assert again.next_after(finished) == finished + interval // timedelta(microseconds=1)


def test_a_sliding_rule_owes_one_fire_however_late() -> None:
    """After a night of suspend it has missed nothing: its next fire is set by the finish."""
    rule = every(seconds=10, sliding=True).bound(NOW)
    due = NOW + 10 * SECOND_US
    assert rule.span(NOW, Instant(NOW + TEN_YEARS_US)) == (1, due, due)
    assert rule.next_after(Instant(due)) is None


def test_past_the_year_9999_there_is_no_next_fire() -> None:
    """BUG-006: the end of the calendar ends one task, and may not make a negative due or a loop."""
    rule = every(hours=1).bound(Instant(MAX_INSTANT - 3_600 * SECOND_US))
    assert rule.next_after(Instant(MAX_INSTANT - 1)) == MAX_INSTANT
    assert rule.next_after(MAX_INSTANT) is None
    assert rule.span(Instant(0), Instant(MAX_INSTANT + TEN_YEARS_US)) == (1, MAX_INSTANT, MAX_INSTANT)
    late = every(timedelta(days=3_000_000)).bound(NOW)
    assert late.next_after(NOW) is None
    assert late.span(NOW, MAX_INSTANT) is None
    assert eval(repr(late), {"every": every}) == late


def test_asked_before_it_is_bound_it_says_what_to_do() -> None:
    """An interval alone has no grid."""
    for ask in (lambda: every(seconds=5).next_after(NOW), lambda: every(seconds=5).span(NOW, NOW)):
        with pytest.raises(RuleError, match=r"every\(seconds=5\) is not bound .* ask every\(seconds=5\)\.bound\(now\)"):
            ask()


@pytest.mark.parametrize("name", ["interval_us", "first", "sliding", "wall", "recurring", "anything"])
def test_it_cannot_be_changed(name: str) -> None:
    """A rule is shared: by tasks, threads, and as a key."""
    with pytest.raises((AttributeError, TypeError)):
        setattr(every(seconds=5), name, 5)


@given(st.one_of(aligned(), anchored(), sliding()), instants())
def test_its_repr_makes_the_same_rule(rule: Rule, now: Instant) -> None:
    """Bound or not, and where a float of seconds can no longer tell microseconds apart."""
    for each in (rule, rule.bound(now)):
        assert eval(repr(each), {"every": every, "datetime": datetime_module}) == each


def test_its_repr_reads_as_it_was_written() -> None:
    """It is what the lists and the logs show."""
    assert repr(every(seconds=30)) == "every(seconds=30)"
    assert repr(every(minutes=1, sliding=True)) == "every(seconds=60, sliding=True)"
    assert repr(every(seconds=0.25, anchor="epoch")) == 'every(seconds=0.25, anchor="epoch")'
    anchor = datetime(2026, 1, 1, tzinfo=UTC)
    assert repr(every(hours=1, anchor=anchor)) == f"every(seconds=3600, anchor={anchor!r})"


def test_an_anchor_at_the_epoch_is_the_epoch() -> None:
    """Two spellings of one grid are one rule."""
    assert every(seconds=7, anchor=datetime(1970, 1, 1, tzinfo=UTC)) == every(seconds=7, anchor="epoch")
