"""Sets of days."""

from __future__ import annotations

import datetime
import pickle
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickless.errors import RuleError
from tickless.rules import Dates, weekdays
from tickless.rules.days import Days, days_of, first_in, first_out, is_plain

MONDAY = date(2026, 7, 6)
WEEK = [MONDAY + timedelta(days=days) for days in range(7)]


@pytest.mark.parametrize(
    ("names", "inside"),
    [
        ("mon-fri", [0, 1, 2, 3, 4]),
        ("sat,sun", [5, 6]),
        ("Tuesday", [1]),
        (" mon , WED-thu", [0, 2, 3]),
        (["fri", "monday"], [0, 4]),
        ("mon-sun", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_weekdays_hold_the_days_that_they_name(names: str, inside: list[int]) -> None:
    """Short or long, in any case, as text or as a collection."""
    days = weekdays(names)
    assert [day.weekday() for day in WEEK if day in days] == inside


@given(st.sets(st.integers(0, 6), min_size=1))
def test_weekdays_are_a_value_that_can_be_written_again(numbers: set[int]) -> None:
    """As keys, in pickles, in logs."""
    names = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    days = weekdays([names[number] for number in numbers])
    assert eval(repr(days), {"weekdays": weekdays}) == days
    assert pickle.loads(pickle.dumps(days)) == days
    assert hash(weekdays(days.text())) == hash(days)


def test_weekdays_in_words() -> None:
    """As they are said."""
    assert str(weekdays("sat,mon,tue")) == "Monday, Tuesday and Saturday"
    assert repr(weekdays("mon,tue,wed,sat")) == "weekdays('mon-wed,sat')"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("fri-mon", r"weekdays\('fri-mon'\): fri-mon runs backwards; write fri,sat,sun,mon"),
        ("mo", r"weekdays\('mo'\): 'mo' is no weekday; they are mon, tue,"),
        ("", r"weekdays\(''\): '' is no weekday"),
        ("mon,,tue", "'' is no weekday"),
        ([], r"weekdays\(\[\]\): names no weekday"),
        ([1], "1 is no name of a weekday"),
        (5, r"weekdays\(5\): needs names of weekdays, e\.g\. 'mon-fri'"),
    ],
)
def test_weekdays_refuse_what_names_no_day(names: object, message: str) -> None:
    """A name that is skipped in silence is a day on which nothing runs."""
    with pytest.raises(RuleError, match=message):
        weekdays(names)  # type: ignore[arg-type]  # that is what it is about


def test_plain_collections_of_dates_are_copied() -> None:
    """Else a rule, which is a key, changes when its user adds a holiday."""
    mutable = {MONDAY}
    days = days_of(mutable, "x")
    mutable.add(WEEK[1])
    assert (MONDAY in days, WEEK[1] in days) == (True, False)
    assert days == days_of([MONDAY, MONDAY], "x") == days_of({MONDAY: "a holiday"}, "x") == Dates((MONDAY,))
    assert eval(repr(days), {"datetime": datetime}) == {MONDAY}


class Heir(date):
    """A date whose `==` is somebody else's code."""

    __hash__ = date.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("foreign code was called")


def test_heirs_of_date_are_turned_into_dates() -> None:
    """Else their code would run under a lock."""
    assert MONDAY in Dates([Heir(2026, 7, 6)])


@pytest.mark.parametrize(
    ("cal", "message"),
    [
        ({datetime.datetime(2026, 7, 6, tzinfo=datetime.UTC)}, "which is no date; give datetime.date objects"),
        (["2026-07-06"], "holds '2026-07-06', which is no date"),
        ("mon-fri", r"x: needs days, not the text 'mon-fri'; e\.g\. weekdays\('mon-fri'\)"),
        (5, "x: needs an object with `date in cal`, e.g. a set of dates, not 5"),
        (None, "x: needs an object with `date in cal`"),
        (Dates, "x: needs an object with `date in cal`"),
    ],
)
def test_what_is_no_set_of_days_is_refused(cal: object, message: str) -> None:
    """A datetime is never equal to a date: a set of them would hold no day at all."""
    with pytest.raises(RuleError, match=message):
        days_of(cal, "x")


class Odd:
    def __contains__(self, day: date) -> bool:
        return day.day % 2 == 1


def test_anything_with_in_is_taken_and_is_foreign() -> None:
    """The package `holidays`, and whatever a company has."""
    odd = Odd()
    assert days_of(odd, "x") is odd
    assert isinstance(odd, Days)
    assert not is_plain(odd)
    assert is_plain(weekdays("mon"))
    assert is_plain(Dates([]))


@given(st.sets(st.sampled_from(WEEK)), st.sampled_from(WEEK), st.integers(0, 10))
def test_the_first_day_inside_and_outside(days: set[date], start: date, most: int) -> None:
    """By the definition, for every kind of set."""
    ahead = [start + timedelta(days=number) for number in range(most)]
    for cal in (Dates(days), days):
        inside = next((day for day in ahead if day in days), None)
        if type(cal) is Dates:  # by bisection, so without a limit
            inside = min((day for day in days if day >= start), default=None)
        assert first_in(cal, start, most) == inside
        assert first_out(cal, start, most) == next((day for day in ahead if day not in days), None)
    assert first_out(weekdays("mon-sun"), start, most) is None
    assert first_in(weekdays("mon"), date(9999, 12, 31), 10) is None
