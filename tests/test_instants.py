"""The doors where numbers and datetimes become instants."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import instants, spans_us
from tickless.errors import RuleError, shown
from tickless.instants import (
    MAX_INSTANT,
    MAX_SPAN_US,
    MIN_INSTANT,
    SECOND_US,
    Instant,
    datetime_of,
    instant_of,
    span_us,
)

HOUR_US = 3_600 * SECOND_US


class Overflowing(tzinfo):
    """A zone that computes beyond the calendar, as some do near its edges."""

    def dst(self, when: datetime | None) -> timedelta | None:
        return None

    def tzname(self, when: datetime | None) -> str | None:
        return None

    def utcoffset(self, when: datetime | None) -> timedelta:
        raise OverflowError("date value out of range")


@given(instants())
def test_an_instant_comes_back_from_its_datetime(instant: Instant) -> None:
    """To the microsecond, over the whole calendar: through floats it would be lost near 2100."""
    assert instant_of(datetime_of(instant), "test") == instant
    assert datetime_of(instant).utcoffset() == timedelta(0)


@given(instants(MIN_INSTANT + 24 * HOUR_US, MAX_INSTANT - 24 * HOUR_US), st.integers(-14 * 60, 14 * 60))
def test_the_zone_of_a_datetime_does_not_matter(instant: Instant, offset_min: int) -> None:
    """One instant has many names."""
    elsewhere = datetime_of(instant).astimezone(timezone(timedelta(minutes=offset_min)))
    assert instant_of(elsewhere, "test") == instant


def test_both_passes_of_a_repeated_hour_are_two_instants() -> None:
    """`02:30+02:00 == 02:30+01:00` in one ZoneInfo: datetimes cannot order them, integers can."""
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert instant_of(first.replace(fold=1), "test") - instant_of(first, "test") == HOUR_US


def test_a_naive_datetime_is_refused_with_the_way_out() -> None:
    """Nobody knows which instant it is."""
    with pytest.raises(RuleError, match=r"^until: .* is naive; give it a zone, e\.g\. \.replace\(tzinfo="):
        instant_of(datetime(2026, 1, 1), "until")  # noqa: DTZ001  # being naive is what it is for


@pytest.mark.parametrize(
    "when",
    [
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime(2026, 1, 1, tzinfo=Overflowing()),
    ],
)
def test_a_datetime_that_leaves_the_calendar_in_utc_is_refused(when: datetime) -> None:
    """It could be stored and sorted, and would fail later, wherever somebody lists it."""
    with pytest.raises(RuleError, match=r"^until: .* is not within the years 1 to 9999 in UTC"):
        instant_of(when, "until")


def test_the_ends_of_the_calendar_are_inside() -> None:
    """The bound belongs to it."""
    assert instant_of(datetime.max.replace(tzinfo=UTC), "test") == MAX_INSTANT
    assert instant_of(datetime.min.replace(tzinfo=UTC), "test") == MIN_INSTANT


@given(spans_us(-MAX_SPAN_US, MAX_SPAN_US))
def test_a_timedelta_is_taken_to_the_microsecond(us: int) -> None:
    """Also where it is negative or longer than floats are exact."""
    assert span_us(timedelta(microseconds=us), "test") == us


def test_the_longest_span_is_the_whole_calendar() -> None:
    """The bound belongs to it, and one microsecond more does not."""
    for longest in (MAX_SPAN_US, -MAX_SPAN_US):
        assert span_us(timedelta(microseconds=longest), "test") == longest
    with pytest.raises(RuleError, match="longer than the calendar"):
        span_us(timedelta(microseconds=MAX_SPAN_US + 1), "test")


@given(st.floats(-1e6, 1e6))
def test_seconds_are_rounded_to_the_nearest_microsecond(seconds: float) -> None:
    """Cut off, 0.1 + 0.2 would be early by one."""
    assert abs(span_us(seconds, "test") - seconds * SECOND_US) <= 0.5
    assert type(span_us(seconds, "test")) is int


def test_a_unit_multiplies_the_number_and_not_the_timedelta() -> None:
    """A timedelta has its unit."""
    assert span_us(2, "test", HOUR_US) == 2 * HOUR_US
    assert span_us(0.5, "test", HOUR_US) == HOUR_US // 2
    assert span_us(timedelta(seconds=2), "test", HOUR_US) == 2 * SECOND_US


@given(st.one_of(st.floats(), st.integers(), st.timedeltas()), st.sampled_from([1, SECOND_US, HOUR_US]))
def test_any_number_is_a_span_in_the_calendar_or_a_rule_error(value: float | timedelta, unit_us: int) -> None:
    """Never an OverflowError, nor NaN where an int is promised."""
    us_or_error: int | str
    try:
        us_or_error = span_us(value, "test", unit_us)
    except RuleError as error:
        us_or_error = str(error)
    if isinstance(us_or_error, int):
        assert type(us_or_error) is int
        assert abs(us_or_error) <= MAX_SPAN_US
    elif isinstance(value, float) and not math.isfinite(value):
        assert us_or_error == f"test: {value!r} is not a length of time"
    else:
        assert us_or_error == f"test: {value!r} is longer than the calendar (years 1 to 9999)"


def test_a_number_of_a_class_of_its_own_is_taken_as_the_number_it_is() -> None:
    """numpy's float64 is a float; its microseconds must be a plain int."""

    class Own(float):
        pass

    assert span_us(Own(1.5), "test") == 1_500_000
    assert type(span_us(Own(1.5), "test")) is int


def test_a_value_is_shown_whatever_its_repr_does() -> None:
    """A message that fails hides the error it was made for."""

    class Silent:
        def __repr__(self) -> str:
            raise ValueError

    assert shown("5") == "'5'"
    assert shown(Silent()) == "<Silent>"
    assert shown(10**5_000) == "<int>"
    assert len(shown("x" * 1_000)) == 200
