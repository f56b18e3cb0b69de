"""`.on_days(cal)`, `.not_on(cal, shift=)`, and rules of rules as values. `a | b`: test_union.py."""

from __future__ import annotations

import datetime as datetime_module
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import holidays
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.custom import OneShot, Squares
from tests.rules.wall_rules import EvenDays, calendars, crons, date_sets, day_sets
from tests.rules.zoned import fires, moments, us, walked, walls
from tickless.errors import RuleError
from tickless.instants import SECOND_US, Instant, datetime_of, instant_of
from tickless.policies import same_rule
from tickless.rules import (
    Filtered,
    Rule,
    at,
    checked_next,
    cron,
    every,
    first_fire,
    is_ours,
    rrule,
    weekdays,
)
from tickless.rules.combine import not_on, on_days
from tickless.rules.zones import wall_of, zone_of

BERLIN = "Europe/Berlin"
DAY_US = 24 * 3600 * SECOND_US
DAILY = every(days=1, at="09:00", anchor=date(2026, 1, 1))
WEEKEND = weekdays("sat,sun")


# Days


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (DAILY.on_days(WEEKEND), ["Sat 07-04 09:00", "Sun 07-05 09:00", "Sat 07-11 09:00"]),
        (DAILY.not_on(WEEKEND), ["Wed 07-01 09:00", "Thu 07-02 09:00", "Fri 07-03 09:00", "Mon 07-06 09:00"]),
        (DAILY.on_days({date(2026, 7, 9), date(2026, 7, 2)}), ["Thu 07-02 09:00", "Thu 07-09 09:00"]),
        (DAILY.not_on([date(2026, 7, 1)]), ["Thu 07-02 09:00"]),
        (
            DAILY.not_on(WEEKEND, shift="next"),
            ["Wed 07-01 09:00", "Thu 07-02 09:00", "Fri 07-03 09:00", "Mon 07-06 09:00", "Tue 07-07 09:00"],
        ),
        (
            every(months=1, at="09:00", anchor=date(2026, 8, 1)).not_on(WEEKEND, shift="next"),
            ["Mon 08-03 09:00", "Tue 09-01 09:00", "Thu 10-01 09:00", "Mon 11-02 09:00"],
        ),
        (  # both days of a weekend land on Monday, each at its own time
            (cron("0 10 * * sat") | cron("0 8 * * sun") | cron("0 9 * * mon")).not_on(WEEKEND, shift="next"),
            ["Mon 07-06 08:00", "Mon 07-06 09:00", "Mon 07-06 10:00", "Mon 07-13 08:00"],
        ),
        (  # Christmas on a Friday: the weekend after it belongs to what is left out
            cron("0 9 25 12 *").not_on({date(2026, 12, day) for day in (25, 26, 27)}, shift="next"),
            ["Mon 12-28 09:00", "Sat 12-25 09:00"],
        ),
        (DAILY.on_days(weekdays("mon-fri")).not_on({date(2026, 7, 1)}), ["Thu 07-02 09:00", "Fri 07-03 09:00"]),
    ],
)
def test_fires_are_chosen_and_moved_by_their_day(rule: Rule, expected: list[str]) -> None:
    """Business days, and days off."""
    assert walls(rule, us(2026, 7, 1), len(expected)) == expected


def test_the_day_is_that_of_the_zone() -> None:
    """23:30 UTC on a Friday is Saturday in Berlin, all year round."""
    rule = cron("30 0 * * *", tz=BERLIN).on_days(weekdays("sat"))
    assert walls(rule, us(2026, 7, 1), 1) == ["Fri 07-03 22:30"]
    hourly = every(hours=1, anchor="epoch").on_days(weekdays("sat"))
    assert walls(hourly, us(2026, 7, 1), 1) == ["Sat 07-04 00:00"]


def test_in_a_union_each_rule_has_the_days_of_its_own_zone() -> None:
    """Two branches, one holiday: each has it on its own day."""
    rule = (cron("0 0 * * *", tz="Asia/Tokyo") | cron("0 0 * * *", tz="America/New_York")).on_days({date(2026, 7, 4)})
    assert walls(rule, us(2026, 7, 1), 9) == ["Fri 07-03 15:00", "Sat 07-04 04:00"]


def test_of_a_union_the_rules_that_have_a_fire_left_go_on() -> None:
    """Mondays and Tuesdays, on Mondays, are Mondays; and on Fridays nothing."""
    monday, tuesday = cron("0 9 * * mon"), cron("0 9 * * tue")
    assert (monday | tuesday).on_days(weekdays("mon")) == monday.on_days(weekdays("mon"))
    assert (monday | tuesday | DAILY).not_on(weekdays("mon")) == tuesday.not_on(weekdays("mon")) | DAILY.not_on(
        weekdays("mon")
    )
    with pytest.raises(RuleError, match="never fires"):
        (monday | tuesday).on_days(weekdays("fri"))


def test_what_is_moved_into_a_gap_fires_at_its_end() -> None:
    """Saturday's 02:30 lands on the Sunday on which the clocks are put forward."""
    rule = cron("30 2 * * sat", tz=BERLIN).not_on(weekdays("sat"), shift="next")
    assert walls(rule, us(2026, 3, 27), 2, BERLIN) == ["Sun 03-29 03:00", "Sun 04-05 02:30"]


def test_a_fire_is_moved_by_a_year_at_most() -> None:
    """A calendar that holds all days from now on is a mistake, and no reason to look for ever."""

    class FromJuly:
        def __contains__(self, day: date) -> bool:
            return day >= date(2026, 7, 1)

    rule = every(days=1, at="09:00", anchor=date(2026, 6, 29)).not_on(FromJuly(), shift="next")
    assert walls(rule, us(2026, 6, 1), 5) == ["Mon 06-29 09:00", "Tue 06-30 09:00"]


def test_a_fire_that_would_be_moved_by_more_than_a_year_is_dropped() -> None:
    """July 2026 does not run in January 2028."""
    closed = {date(2026, 7, 1) + timedelta(days=days) for days in range(549)}
    rule = every(years=2, at="09:00", anchor=date(2026, 7, 5)).not_on(closed, shift="next")
    assert fires(rule, us(2026, 1, 1), 1) == [us(2028, 7, 5, 9)]
    near = every(years=1, at="09:00", anchor=date(2026, 7, 5)).not_on(closed, shift="next")
    assert fires(near, us(2026, 1, 1), 2) == [us(2028, 1, 1, 9), us(2028, 7, 5, 9)]


class Minutes:
    """A rule of somebody else's that counts how often it is asked."""

    recurring = True
    wall = True
    asked = 0

    def bound(self, now: Instant) -> Minutes:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.asked += 1
        return Instant((after // (60 * SECOND_US) + 1) * 60 * SECOND_US)


@pytest.mark.parametrize("kind", ["on", "skip", "next"])
@pytest.mark.parametrize("hour", [0, 12, 23])
def test_a_rule_is_asked_few_times_however_many_fires_are_left_out(kind: Any, hour: int) -> None:
    """A rule of each minute has 2,880 in a weekend."""
    rule = Minutes()
    filtered = on_days(rule, weekdays("mon-fri")) if kind == "on" else not_on(rule, WEEKEND, kind)
    before = rule.asked
    assert filtered.next_after(us(2026, 7, 4, hour)) == us(2026, 7, 6)
    assert filtered.next_after(us(2026, 7, 6, hour, 30)) == us(2026, 7, 6, hour, 31)
    assert rule.asked - before < 20


def brute(rule: Rule, cal: Any, shift: str, start: Instant, tz: str, days: int = 21) -> set[Instant]:
    """The fires of so many days around `start`, each looked at one by one; of those near the ends some may lack."""
    found: set[Instant] = set()
    for fire in _all(rule, Instant(start - days * DAY_US), Instant(start + days * DAY_US)):
        wall = wall_of(fire, zone_of(tz, "test")).replace(fold=0)
        if shift == "on":
            found |= {fire} if wall.date() in cal else set()
        elif wall.date() not in cal:
            found.add(fire)
        elif shift == "next":
            day = wall.date()
            while day in cal:
                day += timedelta(days=1)
            key = tz if tz[0] not in "+-" else f"Etc/GMT{'-' if tz[0] == '+' else '+'}{int(tz[1:3])}"
            landed = walked(datetime.combine(day, wall.time()), key, "next", "first")
            found |= {instant_of(each, "") for each in landed}
    return found


def _all(rule: Rule, start: Instant, end: Instant) -> list[Instant]:
    found, fire = [], rule.next_after(start)
    while fire is not None and fire <= end:
        found.append(fire)
        fire = rule.next_after(fire)
    return found


CROWDED = ("30 */6 * * *", "15 0,2,23 * * *", "30 2 */3 * *", "45 23 * * mon,sat", "*/45 1-2 * * *")


@given(
    expr=st.sampled_from(CROWDED),
    tz=st.sampled_from(
        [
            "UTC",
            BERLIN,
            "Australia/Lord_Howe",
            "Antarctica/Troll",
            "America/Santiago",
            "America/Nuuk",
            "America/St_Johns",
        ]
    ),
    start=moments(),
    cal=st.one_of(
        st.lists(st.sampled_from(["mon", "tue", "thu", "fri", "sat", "sun"]), min_size=1).map(weekdays),
        st.sets(st.integers(-10, 10), min_size=1),
        st.just(EvenDays()),
    ),
    kind=st.sampled_from(["on", "skip", "next"]),
)
def test_days_are_looked_at_as_one_by_one(expr: str, tz: str, start: Instant, cal: Any, kind: str) -> None:
    """By the definition, around each change of each zone; jumping over days must lose none."""
    if isinstance(cal, set):
        cal = {datetime_of(Instant(start + days * DAY_US)).date() for days in cal}
    rule = cron(expr, tz=tz)
    expected = brute(rule, cal, kind, start, tz)
    try:
        filtered = rule.on_days(cal) if kind == "on" else rule.not_on(cal, shift=kind)  # type: ignore[arg-type]
    except RuleError:  # never fires
        assert not expected
        return
    low, high = Instant(start - 8 * DAY_US), Instant(start + 8 * DAY_US)
    assert _all(filtered, low, high) == sorted(fire for fire in expected if low < fire <= high)


def test_clocks_that_are_put_back_over_midnight_bring_back_the_day_before() -> None:
    """St John's, until 2011: at 00:01 on Sunday it was 23:01 on Saturday again."""
    rule = cron("*/30 * * * *", tz="America/St_Johns").on_days({date(2006, 10, 28)})
    last = fires(rule, us(2006, 10, 29, 1), 9)
    assert [f"{datetime_of(fire):%H:%M}" for fire in last] == ["01:30", "02:00", "03:00"]


@pytest.mark.parametrize("kind", ["on", "skip", "next"])
@pytest.mark.parametrize("day", [27, 28, 29])
@pytest.mark.parametrize("expr", ["* * * * *", "30 23 * * *", "0 0 * * *"])
def test_the_night_of_two_midnights_minute_by_minute(expr: str, day: int, kind: Any) -> None:
    """The same night, asked at each minute around: Saturday, a minute of Sunday, Saturday again."""
    rule, cal = cron(expr, tz="America/St_Johns"), {date(2006, 10, day)}
    filtered = rule.on_days(cal) if kind == "on" else rule.not_on(cal, shift=kind)
    expected = sorted(brute(rule, cal, kind, us(2006, 10, 29), "America/St_Johns", 3))
    for minute in range(90):
        after = us(2006, 10, 29, 2 + minute // 60, minute % 60)
        later = [fire for fire in expected if fire > after]
        found = filtered.next_after(after)
        assert found == later[0] if later else found is None or found > us(2006, 10, 31)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DAILY.on_days(set()), "never fires"),
        (lambda: DAILY.on_days({date(2025, 1, 1)}), "never fires"),
        (lambda: cron("0 9 * * mon").on_days(weekdays("tue")), "never fires, since no fire of the rule is left"),
        (lambda: cron("0 9 * * mon").not_on(weekdays("mon")), "never fires"),
        (lambda: DAILY.not_on(weekdays("mon-sun"), shift="next"), "never fires"),
        (lambda: DAILY.on_days(WEEKEND).not_on(WEEKEND), "never fires"),
        (lambda: at(datetime(2026, 7, 1, tzinfo=UTC)).on_days(WEEKEND), "never fires"),
        (
            lambda: DAILY.not_on(WEEKEND, shift="prev"),  # type: ignore[arg-type]  # that is what it is about
            r"\.not_on\(shift='prev'\): needs \"skip\" or \"next\"",
        ),
        (lambda: DAILY.on_days("mon-fri"), r"\.on_days\(\): needs days, not the text 'mon-fri'"),
        (lambda: DAILY.not_on(5), r"\.not_on\(\): needs an object with `date in cal`"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(make: Callable[[], object], message: str) -> None:
    """A rule that never fires is a mistake; later nobody would notice."""
    with pytest.raises(RuleError, match=message):
        make()


def test_one_shots_keep_being_one_shots() -> None:
    """So a past instant runs now, as it does alone."""
    rule = at(datetime(2026, 7, 4, 12, tzinfo=UTC)).on_days(WEEKEND)
    assert not rule.recurring
    assert first_fire(rule, us(2027, 1, 1)) == us(2026, 7, 4, 12)


# Sets of days of somebody else's


def test_the_package_holidays_fits_as_it_is() -> None:
    """2026: Good Friday on 3 April, Easter Monday on the 6th."""
    rule = cron("0 9 * * mon-fri", tz=BERLIN).not_on(holidays.country_holidays("DE"))
    assert walls(rule, us(2026, 4, 2), 3, BERLIN) == ["Thu 04-02 09:00", "Tue 04-07 09:00", "Wed 04-08 09:00"]
    moved = cron("0 9 3 4 *", tz=BERLIN).not_on(holidays.country_holidays("DE"), shift="next")
    assert walls(moved, us(2026, 4, 2), 1, BERLIN) == ["Sat 04-04 09:00"]
    assert hash(rule) == hash(pickle.loads(pickle.dumps(rule)))


def test_a_calendar_that_ends_ends_the_rule() -> None:
    """After 50 years without a day of it."""

    class Year2026:
        def __contains__(self, day: date) -> bool:
            return day.year == 2026

    rule = cron("0 9 31 12 *").on_days(Year2026())
    assert fires(rule, us(2026, 1, 1), 9) == [us(2026, 12, 31, 9)]


def test_a_rule_with_foreign_code_in_it_is_foreign() -> None:
    """It is asked without any lock held, and an update of it counts as a change."""
    ours = DAILY.on_days(WEEKEND) | cron("0 9 * * *").not_on({date(2026, 1, 1)}, shift="next")
    assert is_ours(ours)
    assert same_rule(ours, pickle.loads(pickle.dumps(ours)))
    for foreign in (
        DAILY.on_days(EvenDays()),
        DAILY.on_days(EvenDays()).not_on(WEEKEND),
        DAILY | DAILY.not_on(EvenDays()),
        DAILY | OneShot(us(2026, 7, 1)),
    ):
        assert not is_ours(foreign)
        assert same_rule(foreign, foreign)
        assert not same_rule(foreign, pickle.loads(pickle.dumps(foreign)))
    assert not is_ours(Squares())


def test_an_update_of_a_combined_rule_keeps_the_schedule() -> None:
    """Also where an interval in it was bound on another day."""

    def written() -> Rule:
        return (every(days=14, at="09:00") | cron("0 12 * * *")).not_on(WEEKEND)

    old, new = written().bound(us(2026, 7, 6)), written().bound(us(2026, 7, 10))
    assert old != new
    assert same_rule(old, new)
    assert not same_rule(
        old, (every(days=14, at="09:00") | cron("0 12 * * *")).not_on(weekdays("sun")).bound(us(2026, 7, 6))
    )


class Failing:
    def __contains__(self, day: date) -> bool:
        raise OSError("no network")


def test_a_set_of_days_that_raises_is_named() -> None:
    """Its own task ends, and the message says why."""
    with pytest.raises(RuleError, match=r"Failing.*raised OSError\('no network'\)"):
        checked_next(cron("0 9 * * *").on_days(Failing()), us(2026, 1, 1))


# Values


@given(st.one_of(calendars(), crons()), st.one_of(date_sets(), day_sets()), st.sampled_from(["on", "skip", "next"]))
def test_the_repr_makes_the_same_rule(rule: Any, cal: Any, kind: str) -> None:
    """What a log shows can be pasted."""
    names = {"every": every, "cron": cron, "weekdays": weekdays, "datetime": datetime_module, "EvenDays": EvenDays}
    try:
        made = rule.on_days(cal) if kind == "on" else rule.not_on(cal, shift=kind)
    except RuleError:
        return
    both = made | DAILY
    assert eval(repr(made), names) == made
    assert eval(repr(both), names) == both


def test_equal_where_it_is_written_the_same() -> None:
    """As keys, and in updates."""
    assert DAILY.on_days({date(2026, 7, 1)}) == DAILY.on_days([date(2026, 7, 1)])
    assert DAILY.not_on(WEEKEND) != DAILY.not_on(WEEKEND, shift="next")
    assert DAILY.not_on(WEEKEND) != DAILY.on_days(weekdays("mon-fri"))
    assert hash(DAILY.not_on(WEEKEND)) == hash(DAILY.not_on(weekdays("sun,sat")))
    assert isinstance(DAILY.on_days(WEEKEND), Filtered)


@dataclass(frozen=True)
class Named:
    """A set of days with a name."""

    def __contains__(self, day: date) -> bool:
        return True

    def __repr__(self) -> str:
        return "company_days"


class Holidays(dict[date, str]):
    """As those of the package `holidays`: their repr is a dict that grows with every year that was asked about."""


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (DAILY.on_days(WEEKEND), "every day at 09:00, UTC, from 2026-01-01, only on Saturday and Sunday"),
        (DAILY.not_on({date(2026, 12, 25)}), "every day at 09:00, UTC, from 2026-01-01, not on 2026-12-25"),
        (
            DAILY.not_on(WEEKEND, shift="next"),
            "every day at 09:00, UTC, from 2026-01-01, not on Saturday and Sunday but on the next other day",
        ),
        (
            DAILY.on_days(weekdays("mon")).not_on({date(2027, 1, 1)}, shift="next"),  # may land on a Saturday
            "every day at 09:00, UTC, from 2026-01-01, only on Monday, then moved off 2027-01-01 "
            "to the next other day, whatever day that is",
        ),
        (
            DAILY.not_on(Holidays({date(2027, 1, 1): "a name"})),
            "every day at 09:00, UTC, from 2026-01-01, not on the days of Holidays",
        ),
        (DAILY.on_days(Named()), "every day at 09:00, UTC, from 2026-01-01, only on the days of company_days"),
        (
            DAILY | rrule("FREQ=DAILY", start=datetime(2026, 1, 5, 10)),  # noqa: DTZ001  # a wall time
            "every day at 09:00, UTC, from 2026-01-01; and every day at 10:00, UTC, from 2026-01-05",
        ),
    ],
)
def test_the_words(rule: Rule, words: str) -> None:
    """For people who do not read Python."""
    assert str(rule) == words


def test_a_filter_of_times_at_the_end_of_the_calendar() -> None:
    """BUG-006: no date after 9999-12-31, and no OverflowError."""
    late = every(days=1, at=time(9), anchor=date(9999, 12, 30))
    for rule in (
        late.on_days(weekdays("thu,fri")),
        late.not_on(weekdays("mon")),
        late.not_on(weekdays("mon"), shift="next"),
    ):
        assert fires(rule, us(9999, 12, 1), 9) == [us(9999, 12, 30, 9), us(9999, 12, 31, 9)]
    assert fires(late.on_days({date(9999, 12, 30)}), us(9999, 12, 1), 9) == [us(9999, 12, 30, 9)]
    assert fires(late.not_on(weekdays("fri"), shift="next"), us(9999, 12, 1), 9) == [us(9999, 12, 30, 9)]
