"""`every(days= weeks= months= years=)`."""

from __future__ import annotations

import datetime as datetime_module
from datetime import UTC, date, datetime, time, timedelta
from itertools import count, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import whenever
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.wall_rules import calendars
from tests.rules.zoned import ZONES, moments, us, walked
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, Instant, datetime_of, instant_of
from tickless.policies import same_rule
from tickless.rules import Calendar, Every, Rule, every, is_ours, span

BERLIN = "Europe/Berlin"


def fires(rule: Rule, start: datetime, many: int, tz: str = "UTC") -> list[str]:
    """The first fires after `start`, as wall times of a zone."""
    after, found = instant_of(start, "start"), []
    for _ in range(many):
        fire = rule.next_after(after)
        assert fire is not None
        found.append(f"{datetime_of(fire).astimezone(ZoneInfo(tz)):%Y-%m-%d %H:%M}")
        after = fire
    return found


def test_a_day_later_is_the_same_wall_time_also_when_clocks_are_put_forward() -> None:
    """24 hours later it would be an hour off until autumn."""
    rule = every(days=1, at="16:00", tz=BERLIN, anchor=date(2026, 3, 28))
    start = datetime(2026, 3, 28, tzinfo=UTC)
    assert fires(rule, start, 3, BERLIN) == ["2026-03-28 16:00", "2026-03-29 16:00", "2026-03-30 16:00"]
    tomorrow: Rule = every(days=1)
    assert tomorrow != every(hours=24)


def test_a_wall_time_that_does_not_exist_fires_at_the_end_of_the_gap_and_counting_goes_on() -> None:
    """The gap of one day must not move the days after."""
    rule = every(days=1, at="02:30", tz=BERLIN, anchor=date(2026, 3, 28))
    start = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert fires(rule, start, 2, BERLIN) == ["2026-03-29 03:00", "2026-03-30 02:30"]


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        ("first", ["2026-10-25T00:30+00:00", "2026-10-26T01:30+00:00"]),
        ("last", ["2026-10-25T01:30+00:00", "2026-10-26T01:30+00:00"]),
        ("both", ["2026-10-25T00:30+00:00", "2026-10-25T01:30+00:00"]),
    ],
)
def test_a_wall_time_that_comes_twice_fires_as_fold_says(fold: Any, expected: list[str]) -> None:
    """The default runs the nightly task once in the long night."""
    rule = every(days=1, at="02:30", tz=BERLIN, anchor=date(2026, 10, 1), fold=fold)
    first = rule.next_after(us(2026, 10, 24, 12))
    assert first is not None
    second = rule.next_after(first)
    assert second is not None
    assert [datetime_of(each).isoformat(timespec="minutes") for each in (first, second)] == expected


def test_gap_raise_raises_when_the_turn_of_the_gap_comes() -> None:
    """Neither a day before, nor for ever after."""
    rule = every(days=1, at="02:30", tz=BERLIN, anchor=date(2026, 3, 1), gap="raise")
    assert rule.next_after(us(2026, 3, 27, 12)) == us(2026, 3, 28, 1, 30)
    with pytest.raises(RuleError, match=r"2026-03-29 02:30:00 does not exist in Europe/Berlin"):
        rule.next_after(us(2026, 3, 28, 12))
    assert rule.next_after(us(2026, 3, 29, 1)) == us(2026, 3, 30, 0, 30)


@pytest.mark.parametrize(
    ("interval", "anchor"),
    [
        ({"months": 1}, date(2026, 1, 29)),
        ({"weeks": 1}, date(2026, 3, 22)),
        ({"days": 28}, date(2026, 3, 1)),
        ({"weeks": 1, "on": "sun"}, date(2026, 3, 17)),
        ({"years": 1}, date(2025, 3, 29)),
    ],
    ids=str,
)
def test_a_gap_that_has_been_raises_no_more(interval: dict[str, Any], anchor: date) -> None:
    """The search begins in the month, or the week, of the gap."""
    rule = every(**interval, at="02:30", tz=BERLIN, anchor=anchor, gap="raise")
    after = rule.next_after(us(2026, 3, 29, 1))
    assert after is not None
    assert datetime_of(after) > datetime(2026, 4, 1, tzinfo=UTC)


def test_the_31st_comes_back_after_a_short_month() -> None:
    """Steps from the fire before drift to the 28th, for ever."""
    rule = every(months=1, at="09:00", anchor=date(2026, 1, 31))
    assert fires(rule, datetime(2026, 1, 31, 9, tzinfo=UTC), 3) == [
        "2026-02-28 09:00",
        "2026-03-31 09:00",
        "2026-04-30 09:00",
    ]


def test_the_29th_of_february_is_the_28th_between_leap_years() -> None:
    """And 2100 is none."""
    rule = every(years=1, anchor=date(2024, 2, 29))
    assert fires(rule, datetime(2027, 1, 1, tzinfo=UTC), 2) == ["2027-02-28 00:00", "2028-02-29 00:00"]
    assert fires(rule, datetime(2099, 12, 1, tzinfo=UTC), 1) == ["2100-02-28 00:00"]


def test_a_day_that_a_zone_left_out_is_left_out() -> None:
    """Samoa moved over the date line: its 30 December 2011 never was."""
    rule = every(days=1, at="12:00", tz="Pacific/Apia", anchor=date(2011, 12, 28))
    assert fires(rule, datetime(2011, 12, 29, tzinfo=UTC), 2, "Pacific/Apia") == [
        "2011-12-29 12:00",
        "2011-12-31 12:00",
    ]


def test_without_an_anchor_it_counts_from_the_day_on_which_it_is_bound() -> None:
    """At a later time of day the first fire is still to come on that day."""
    rule = every(days=3, at="09:00", tz=BERLIN)
    morning, evening = datetime(2026, 7, 1, 5, tzinfo=UTC), datetime(2026, 7, 1, 20, tzinfo=UTC)
    assert fires(rule.bound(instant_of(morning, "")), morning, 2, BERLIN) == ["2026-07-01 09:00", "2026-07-04 09:00"]
    assert fires(rule.bound(instant_of(evening, "")), evening, 2, BERLIN) == ["2026-07-04 09:00", "2026-07-07 09:00"]


def test_without_a_time_of_day_it_is_that_of_the_instant_at_which_it_is_bound() -> None:
    """`every(days=1)` is "the same time tomorrow", to the microsecond."""
    now = Instant(us(2026, 7, 1, 5, 17, 3) + 123)
    assert every(days=1).bound(now).next_after(now) == now + 24 * 3600 * 1_000_000


def test_asked_before_it_is_bound_it_says_what_to_do() -> None:
    """None would mean that it never fires."""
    with pytest.raises(RuleError, match=r"every\(days=1\) is not bound .* ask every\(days=1\)\.bound\(now\)"):
        every(days=1).next_after(Instant(0))


def test_weeks_are_counted_from_the_monday_of_the_first_fire() -> None:
    """A fortnight begins with the first day that is named, not with the week in which somebody wrote it."""
    rule = every(weeks=2, on="mon,thu", at="09:00", anchor=date(2026, 7, 3))  # a Friday
    assert fires(rule, datetime(2026, 7, 1, tzinfo=UTC), 4) == [
        "2026-07-06 09:00",
        "2026-07-09 09:00",
        "2026-07-20 09:00",
        "2026-07-23 09:00",
    ]
    midweek = every(weeks=2, on="mon,thu", at="09:00", anchor=date(2026, 7, 7))  # a Tuesday
    assert fires(midweek, datetime(2026, 7, 1, tzinfo=UTC), 2) == ["2026-07-09 09:00", "2026-07-20 09:00"]


def test_an_anchor_in_the_future_is_itself_the_first_fire() -> None:
    """And before it there is none."""
    rule = every(weeks=1, anchor=datetime(2026, 7, 1, 8, 30), tz=BERLIN)  # noqa: DTZ001  # in the zone that is named
    assert fires(rule, datetime(2020, 1, 1, tzinfo=UTC), 1, BERLIN) == ["2026-07-01 08:30"]


def test_an_aware_anchor_is_a_wall_time_of_the_zone() -> None:
    """Its own zone, where no other is named: whoever writes Berlin means Berlin's clock."""
    summer = datetime(2026, 7, 1, 8, 30, tzinfo=ZoneInfo(BERLIN))
    assert every(months=1, anchor=summer) == every(months=1, anchor=summer.astimezone(UTC), tz=BERLIN)
    assert every(months=1, anchor=summer) == every(months=1, at=time(8, 30), anchor=date(2026, 7, 1), tz=BERLIN)
    assert every(months=1, anchor=summer, tz="UTC") == every(months=1, at="6:30", anchor=date(2026, 7, 1))


def test_days_and_weeks_add_up_and_so_do_months_and_years() -> None:
    """One value for one meaning."""
    assert every(weeks=1, days=3) == every(days=10)
    assert every(years=1, months=6) == every(months=18)
    assert every(weeks=2) == every(days=14)
    assert hash(every(weeks=2)) == hash(every(days=14))


def test_the_last_fire_is_in_the_calendar() -> None:
    """BUG-006: past the year 9999 there is no date, and no OverflowError."""
    rule = every(months=1, anchor=date(9999, 10, 31))
    assert fires(rule, datetime(9999, 10, 1, tzinfo=UTC), 3) == [
        "9999-10-31 00:00",
        "9999-11-30 00:00",
        "9999-12-31 00:00",
    ]
    assert rule.next_after(us(9999, 12, 31)) is None
    assert rule.next_after(MAX_INSTANT) is None
    assert every(weeks=1, on="fri", anchor=date(9999, 12, 31)).next_after(us(9999, 12, 31)) is None
    assert every(days=1, anchor=date(9999, 12, 31)).next_after(us(9999, 12, 31)) is None
    assert every(years=9_000).bound(us(2026, 1, 1)).next_after(us(2026, 1, 1)) is None


def test_the_first_day_of_the_calendar_can_be_an_anchor() -> None:
    """The other end."""
    assert every(weeks=1, on="sun", anchor=date(1, 1, 1)).next_after(us(2026, 7, 1)) == us(2026, 7, 5)
    assert every(months=1, anchor=date(1, 1, 1)).next_after(us(2026, 7, 1)) == us(2026, 8, 1)


def steps(unit: str, many: int, anchor: datetime) -> Any:
    """anchor + n * interval for n = 0, 1, ... by another library, which clamps as we promise."""
    start = whenever.PlainDateTime(anchor.year, anchor.month, anchor.day, anchor.hour, anchor.minute, anchor.second)
    for number in count():
        yield datetime.fromisoformat(str(start.date().add(**{unit: number * many}).at(start.time())))


@given(
    unit=st.sampled_from(["days", "weeks", "months", "years"]),
    many=st.integers(1, 20),
    anchor=st.datetimes(datetime(2000, 1, 1), datetime(2036, 12, 31)),  # noqa: DTZ001  # wall times
    of_day=st.sampled_from([time(0), time(0, 30), time(1, 30), time(2, 30), time(2, 45), time(23, 30)]),
    tz=st.sampled_from([zone for zone in ZONES if zone not in ("Pacific/Apia", "+05:45")]),
    gap=st.sampled_from(["next", "skip"]),
    fold=st.sampled_from(["first", "last", "both"]),
    asked=st.integers(0, 12),
)
def test_it_fires_where_other_libraries_put_it(
    unit: str, many: int, anchor: datetime, of_day: time, tz: str, gap: Any, fold: Any, asked: int
) -> None:
    """`whenever` counts, and a walk over UTC minutes finds the instants: neither shares code with the rule."""
    nominal = steps(unit, many, datetime.combine(anchor, of_day))
    expected = [fire for _ in range(asked + 4) for fire in walked(next(nominal), tz, gap, fold)]
    units: dict[str, Any] = {unit: many}
    rule = every(**units, at=of_day, tz=tz, anchor=anchor.date(), gap=gap, fold=fold)
    for before, after in pairwise(expected):
        assert rule.next_after(instant_of(before, "")) == instant_of(after, "")
        assert rule.next_after(Instant(instant_of(after, "") - 1)) == instant_of(after, "")
    assert not expected or rule.next_after(Instant(instant_of(expected[0], "") - 1)) == instant_of(expected[0], "")


@given(st.data())
def test_its_repr_makes_the_same_rule(data: st.DataObject) -> None:
    """Bound or not: what a log shows can be pasted."""
    rule = data.draw(calendars())
    for each in (rule, rule.bound(data.draw(moments()))):
        assert eval(repr(each), {"every": every, "datetime": datetime_module}) == each


def test_its_repr_reads_as_it_was_written() -> None:
    """The largest unit, and no defaults."""
    assert repr(every(days=1)) == "every(days=1)"
    assert repr(every(days=14, at="9:00")) == "every(weeks=2, at='09:00')"
    text = (
        "every(weeks=2, on='mon,fri', at='09:00:05', tz='Europe/Berlin', anchor=datetime.date(2026, 1, 1), gap='skip')"
    )
    rule = every(weeks=2, on="fri,mon", at="09:00:05", tz=BERLIN, anchor=date(2026, 1, 1), gap="skip", fold="first")
    assert repr(rule) == text
    assert repr(every(months=24)) == "every(years=2)"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (every(days=1), "every day at the time at which it is scheduled, UTC"),
        (every(days=1, at="09:00", tz=BERLIN), "every day at 09:00, Europe/Berlin"),
        (every(days=1, at="09:00", anchor=date(2099, 1, 1)), "every day at 09:00, UTC, from 2099-01-01"),
        (every(weeks=2, on="mon-wed", at="09:00"), "every 2 weeks on Monday, Tuesday and Wednesday at 09:00, UTC"),
        (
            every(months=1, at="09:00", anchor=date(2026, 1, 31), gap="skip"),
            "every month at 09:00, UTC, counted from 2026-01-31 (in shorter months their last day), "
            "not where clocks are put forward over it",
        ),
    ],
)
def test_its_words(rule: Rule, words: str) -> None:
    """For people who do not read Python."""
    assert str(rule) == words


def test_an_update_with_the_same_interval_keeps_the_schedule() -> None:
    """Deploying the same program again must not move a fortnightly task."""
    monday, friday = us(2026, 7, 6, 12), us(2026, 7, 10, 12)
    rule = every(days=14, at="09:00")
    assert same_rule(rule.bound(monday), rule.bound(friday))
    assert not same_rule(rule.bound(monday), every(days=14, at="10:00").bound(friday))
    anchored = every(days=14, at="09:00", anchor=date(2026, 7, 6))
    assert not same_rule(rule.bound(monday), anchored)
    assert same_rule(anchored, every(days=14, at="09:00", anchor=date(2026, 7, 6)))
    assert not same_rule(anchored, every(days=14, at="09:00", anchor=date(2026, 7, 7)))


def test_it_is_a_rule_of_ours_on_the_wall_clock() -> None:
    """So it may be asked under a lock, and moves when the clock is set."""
    rule = every(days=1)
    assert isinstance(rule, Calendar)
    assert is_ours(rule)
    assert (rule.wall, rule.recurring) == (True, True)
    assert isinstance(every(timedelta(days=1)), Every)


def test_span_over_ten_years_is_exact_at_both_ends() -> None:
    """The newest of the missed fires runs; more than a thousand are "at least"."""
    rule = every(days=1, at="09:00", anchor=date(2016, 1, 1))
    assert span(rule, us(2016, 1, 1), us(2026, 1, 1)) == (1_000, us(2016, 1, 1, 9), us(2025, 12, 31, 9))
    monthly = every(months=1, anchor=date(2016, 1, 31))
    assert span(monthly, us(2016, 1, 1), us(2026, 1, 1)) == (120, us(2016, 1, 31), us(2025, 12, 31))
