"""`between` and `preview`: what a rule will do, with notes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.rules.custom import OneShot, Says, Squares
from tests.rules.written import ZONES, any_rule
from tickless.errors import RuleError
from tickless.instants import SECOND_US, Instant, datetime_of, instant_of
from tickless.rules import Rule, after, at, between, cron, every, parse, preview, weekdays
from tickless.rules.preview import ClockChange, Count, clock_changes, fires_in_year, upcoming
from tickless.rules.zones import zone_of

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = datetime(2027, 3, 27, 12, tzinfo=UTC)
"""The day before clocks are put forward in Berlin: 02:00 -> 03:00 on 28 March."""
AUTUMN = datetime(2027, 10, 30, 12, tzinfo=UTC)
"""The day before they are put back: 03:00 -> 02:00 on 31 October."""
starts = st.datetimes(datetime(2000, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # zones drawn


def notes(text: str, start: datetime, n: int = 3) -> list[tuple[str, tuple[str, ...]]]:
    """(local time, notes) of the next fires."""
    return [(f"{fire.local:%d %b %H:%M %z}", fire.notes) for fire in preview(parse(text), start, n)]


def test_a_time_that_does_not_exist_is_noted_where_it_fires() -> None:
    """Why does the nightly run start at three today? The sentence answers before somebody asks."""
    assert notes("30 2 * * * Europe/Berlin", SPRING) == [
        ("28 Mar 03:00 +0200", ("02:30 does not exist on 28 Mar in Europe/Berlin; fires at 03:00",)),
        ("29 Mar 02:30 +0200", ()),
        ("30 Mar 02:30 +0200", ()),
    ]


@pytest.mark.parametrize(
    ("text", "start", "note"),
    [
        ("30 2 * * * Europe/Berlin gap=skip", SPRING, "02:30 does not exist on 28 Mar in Europe/Berlin; no fire then"),
        ("*/30 * * * * Europe/Berlin", SPRING, "02:00 to 02:30 do not exist on 28 Mar in Europe/Berlin; no fire then"),
        (
            "5,50 2 * * * Europe/Berlin",
            SPRING,
            "02:05 to 02:50 do not exist on 28 Mar in Europe/Berlin; fires at 03:00",
        ),
        ("every day at 02:30 Europe/Berlin", SPRING, "02:30 does not exist on 28 Mar in Europe/Berlin; fires at 03:00"),
        (
            "rrule FREQ=DAILY from 2027-03-01T02:30 Europe/Berlin",
            SPRING,
            "02:30 does not exist on 28 Mar in Europe/Berlin; no fire then",
        ),
        (
            "at 2027-03-28T02:30 Europe/Berlin gap=next",
            SPRING,
            "02:30 does not exist on 28 Mar in Europe/Berlin; fires at 03:00",
        ),
        (
            "15 2 * * * Australia/Lord_Howe",
            datetime(2027, 10, 2, tzinfo=UTC),
            "02:15 does not exist on 3 Oct in Australia/Lord_Howe; fires at 02:30",
        ),
        (
            "0 0 * * * America/Santiago",
            datetime(2027, 9, 4, 12, tzinfo=UTC),
            "00:00 does not exist on 5 Sep in America/Santiago; fires at 01:00",
        ),
        (
            "0 12 * * * Pacific/Apia",
            datetime(2011, 12, 29, tzinfo=UTC),
            "12:00 does not exist on 30 Dec in Pacific/Apia; no fire then",
        ),
        (
            "30 2 * * * Europe/Berlin",
            AUTUMN,
            "02:30 comes twice on 31 Oct in Europe/Berlin; fires the first time (+02:00)",
        ),
        (
            "30 2 * * * Europe/Berlin fold=last",
            AUTUMN,
            "02:30 comes twice on 31 Oct in Europe/Berlin; fires the second time (+01:00)",
        ),
        (
            "15 2 * * * Africa/Casablanca",  # negative summer time: clocks are put back for Ramadan
            datetime(2027, 2, 6, 12, tzinfo=UTC),
            "02:15 comes twice on 7 Feb in Africa/Casablanca; fires the first time (+01:00)",
        ),
        ("every month from 2027-01-31", datetime(2027, 1, 31, tzinfo=UTC), "Feb 2027 has no 31st; fires on the 28th"),
        ("every year from 2028-02-29", datetime(2028, 3, 1, tzinfo=UTC), "Feb 2029 has no 29th; fires on the 28th"),
        (
            "0 9 25 12 * UTC | 0 9 26 12 * UTC not on 2027-12-26,2027-12-27 shift=next",
            datetime(2027, 12, 25, 12, tzinfo=UTC),
            "moved from 26 Dec",
        ),
    ],
)
def test_what_is_unusual_is_noted(text: str, start: datetime, note: str) -> None:
    """In zones of half an hour, at midnight, over the date line, and for every kind of rule of the wall clock."""
    assert any(note in fire.notes for fire in preview(parse(text), start, 60))


def test_a_time_that_comes_twice_is_noted_at_both() -> None:
    """Two equal times in one list look like a fault."""
    assert notes("30 2 * * * Europe/Berlin fold=both", AUTUMN) == [
        (
            "31 Oct 02:30 +0200",
            ("02:30 comes twice on 31 Oct in Europe/Berlin; fires both times, this is the first (+02:00)",),
        ),
        (
            "31 Oct 02:30 +0100",
            ("02:30 comes twice on 31 Oct in Europe/Berlin; fires both times, this is the second (+01:00)",),
        ),
        ("01 Nov 02:30 +0100", ()),
    ]


def test_a_part_of_a_union_has_the_note_at_its_own_fire() -> None:
    """A note of one rule at the fire of another explains the wrong thing."""
    listed = notes("30 2 * * * Europe/Berlin | 0 4 * * * Europe/Berlin", SPRING)
    assert [bool(told) for _, told in listed] == [True, False, False]
    listed = notes("at 2027-03-28T02:30 Europe/Berlin gap=next | 0 0 * * * Europe/Berlin", SPRING)
    assert [bool(told) for _, told in listed] == [False, True, False]
    listed = notes("every month from 2027-01-31T12:00 | 0 0 * * *", datetime(2027, 2, 27, 12, tzinfo=UTC))
    assert [told for _, told in listed] == [(), ("Feb 2027 has no 31st; fires on the 28th",), ()]


def test_what_is_left_out_by_its_day_needs_no_clock_to_explain_it() -> None:
    """The Sunday of the change is not wanted at all."""
    assert notes("30 2 * * * Europe/Berlin not on sun", SPRING, 2) == [
        ("29 Mar 02:30 +0200", ()),
        ("30 Mar 02:30 +0200", ()),
    ]


def test_a_sliding_rule_says_that_the_rest_is_not_known() -> None:
    """One line alone would look as if it fired once."""
    (fire,) = preview(every(minutes=5, sliding=True), SPRING, 5)
    assert fire.due == SPRING + timedelta(minutes=5)
    assert fire.notes == ("the ones after it count from the finish of each run",)


def test_a_one_shot_that_is_due_runs_at_once() -> None:
    """A schedule does not drop it, so a preview that showed nothing would be wrong."""
    assert [fire.notes for fire in preview(after(0), SPRING, 3)] == [("runs at once",)]
    assert [fire.notes for fire in preview(at(SPRING - timedelta(1)), SPRING)] == [("has passed, and runs at once",)]
    assert [fire.notes for fire in preview(OneShot(Instant(5)), SPRING)] == [("has passed, and runs at once",)]
    assert [fire.notes for fire in preview(after(1), SPRING, 3)] == [()]


def test_a_rule_of_your_own_is_previewed() -> None:
    """Checked, as in a scheduler."""
    assert [fire.due for fire in preview(Squares(), datetime_of(Instant(0)), 3)] == [
        datetime_of(Instant(root * root * SECOND_US)) for root in (1, 2, 3)
    ]
    with pytest.raises(RuleError, match="strictly after"):
        preview(Says(lambda after: after), SPRING)


@given(any_rule(), starts, st.sampled_from(ZONES))
def test_a_preview_is_the_fires(rule: Rule, start: datetime, tz: str) -> None:
    """The list that is shown must be what a scheduler will do; and notes may not fail where the fires do not."""
    bound, asked = rule.bound(instant_of(start, "start")), instant_of(start, "start")
    expected: list[Instant] = []
    try:
        while len(expected) < 4 and (fire := bound.next_after(expected[-1] if expected else asked)) is not None:
            expected.append(fire)
    except RuleError:  # gap="raise"
        return
    shown = [fire for fire in islice(upcoming(rule, start, tz=tz), 4) if fire.due > start]
    assert [instant_of(fire.due, "due") for fire in shown] == expected
    far = datetime(9999, 12, 31, tzinfo=UTC)
    assert all(fire.local.astimezone(UTC) == fire.due for fire in shown)
    assert all(fire.local.tzinfo == zone_of(tz, "tz") for fire in shown if fire.due < far)


@given(any_rule(), starts, st.timedeltas(timedelta(0), timedelta(days=40)), st.floats(0, 1))
def test_two_spans_side_by_side_make_the_whole(rule: Rule, start: datetime, length: timedelta, cut: float) -> None:
    """Who lists a month day by day sees each fire once. (A sliding rule is bound anew each time: it has one fire.)"""
    assume(not getattr(rule, "sliding", False))
    bound = rule.bound(instant_of(start, "start"))
    middle, stop = start + length * cut, start + length
    try:
        whole = list(islice(between(bound, start, stop), 300))
        parts = [*between(bound, start, middle), *islice(between(bound, middle, stop), 300)] if len(whole) < 300 else []
    except RuleError:  # gap="raise"
        return
    assert all(one < two for one, two in pairwise(whole))
    assert all(start < fire <= stop for fire in whole)
    assert len(whole) == 300 or parts == whole


def test_between_leaves_out_its_start_and_takes_in_its_end() -> None:
    """As `until=` does, and `next_after`."""
    noon = datetime(2027, 1, 1, 12, tzinfo=UTC)
    hourly = cron("0 * * * *")
    assert list(between(hourly, noon, noon + timedelta(hours=2))) == [
        noon + timedelta(hours=1),
        noon + timedelta(hours=2),
    ]
    assert list(between(hourly, noon, noon)) == []
    assert list(between(every(minutes=30), noon, noon + timedelta(hours=1))) == [
        noon + timedelta(minutes=30),
        noon + timedelta(hours=1),
    ]


def test_between_looks_for_a_fire_when_it_is_asked_for() -> None:
    """A thousand years of seconds are not made into a list by somebody who wants two."""
    fires = between(every(seconds=1), SPRING, datetime(3027, 1, 1, tzinfo=UTC))
    assert list(islice(fires, 2)) == [SPRING + timedelta(seconds=1), SPRING + timedelta(seconds=2)]


def anything(value: object) -> Any:
    """The value without its type: what users hand over."""
    return value


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda rule: between(rule, SPRING.replace(tzinfo=None), SPRING), "is naive"),
        (lambda rule: between(rule, SPRING, SPRING - timedelta(1)), "the stop lies before the start"),
        (lambda rule: between(rule, SPRING, anything("tomorrow")), "needs a datetime"),
        (lambda rule: preview(rule, SPRING.replace(tzinfo=None)), "is naive"),
        (lambda rule: preview(rule, SPRING, -1), "a whole number of fires"),
        (lambda rule: preview(rule, SPRING, True), "a whole number of fires"),
        (lambda rule: preview(rule, SPRING, anything(1.5)), "a whole number of fires"),
        (lambda rule: preview(rule, SPRING, tz="Mars"), "is no zone"),
    ],
)
def test_what_is_no_question_is_refused_at_once(call: Any, words: str) -> None:
    """Not when the first fire is asked for, somewhere else."""
    with pytest.raises(RuleError, match=words):
        call(cron("0 9 * * *"))


def test_nothing_is_a_preview_too() -> None:
    """No fires, asked for or left."""
    assert preview(cron("0 9 * * *"), SPRING, 0) == []
    assert preview(parse("rrule FREQ=DAILY;COUNT=1 from 2020-01-01T00:00"), SPRING) == []


def test_a_preview_shows_the_rule_s_own_zone_unless_told_otherwise() -> None:
    """People think in the zone that they wrote."""
    (fire,) = preview(cron("0 9 * * *", tz="Europe/Berlin"), SPRING, 1)
    assert (fire.local.utcoffset(), fire.local.hour) == (timedelta(hours=2), 9)
    (fire,) = preview(cron("0 9 * * *", tz="Europe/Berlin"), SPRING, 1, tz="Asia/Tokyo")
    assert (fire.local.utcoffset(), fire.local.hour) == (timedelta(hours=9), 16)


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        (cron("30 2 * * *", tz="Europe/Berlin"), Count(365, "exactly")),
        (cron("* * * * *"), Count(365 * 1440, "about")),
        (cron("*/15 9-17 * * mon-fri"), Count(260 * 36, "about")),
        (every(seconds=1), Count(365 * 86_400, "exactly")),
        (every(seconds=1, sliding=True), Count(365 * 86_400, "at most")),
        (every(hours=1, anchor="epoch") | cron("* * * * *"), Count(367 * 1440 + 365 * 24, "at most")),
        (cron("* * 1 feb *"), Count(1440, "about")),
        (cron("* * * * *").on_days(weekdays("mon")), Count(52 * 1440, "about")),
        (cron("* * * * *").not_on(weekdays("mon")).not_on({date(2027, 3, 30)}), Count(312 * 1440, "about")),
        (cron("* * * * mon").not_on(weekdays("mon"), shift="next"), Count(52 * 1440, "about")),
        (cron("* * * * fri,sat,sun").not_on(weekdays("sat,sun"), shift="next"), Count(2 * 52 * 1440, "about")),
        (cron("0 9 * * *") | cron("0 9,10 * * *"), Count(730, "exactly")),
        (parse("rrule FREQ=MINUTELY from 2020-01-01T00:00"), Count(1000, "at least")),
        (parse("* * * * * | rrule FREQ=MINUTELY from 2020-01-01T00:00"), Count(365 * 1440, "at least")),
        (at(SPRING), Count(1, "exactly")),  # due, and so it runs at once
        (at(SPRING + timedelta(days=365)), Count(1, "exactly")),
        (after(5), Count(1, "exactly")),
    ],
)
def test_the_fires_of_a_year_are_counted(rule: Rule, count: Count) -> None:
    """`* 9 * * *` for `0 9 * * *` shows here, at a glance: 21,900 instead of 365."""
    assert fires_in_year(rule, SPRING) == count


def test_the_next_clock_changes() -> None:
    """Both sides in offsets, since not all are of an hour."""
    hour = 3_600 * SECOND_US
    spring, autumn = clock_changes(BERLIN, SPRING)
    assert spring == ClockChange(instant_of(datetime(2027, 3, 28, 1, tzinfo=UTC), "t"), hour, 2 * hour)
    assert autumn == ClockChange(instant_of(datetime(2027, 10, 31, 1, tzinfo=UTC), "t"), 2 * hour, hour)
    assert clock_changes(zone_of("Asia/Tokyo", "tz"), SPRING) == []


def test_notes_do_not_ask_foreign_days_more_than_the_fires_do() -> None:
    """A set of days of somebody else's has no JSON form, and its preview works all the same."""

    class Holidays:
        def __contains__(self, day: date) -> bool:
            return (day.month, day.day) == (12, 25)

    rule = cron("0 9 * * *").not_on(Holidays(), shift="next")
    listed = preview(rule, datetime(2027, 12, 24, 10, tzinfo=UTC), 2)
    assert [(fire.due.day, fire.notes) for fire in listed] == [(26, ()), (27, ())]


def test_a_union_has_at_most_so_many_fires_also_where_its_parts_are_estimates() -> None:
    """The hour that comes twice is in no estimate, and a sum of those was below what the union fires."""
    text = "*/2 0-2 * * * Europe/Berlin | 1-59/2 0-2 * * * Europe/Berlin fold=both"
    rule, start = parse(text), datetime(2027, 10, 30, 22, tzinfo=UTC)
    fires = sum(1 for _ in between(rule, start, start + timedelta(days=365)))
    count = fires_in_year(rule, start)
    assert count.known == "at most"
    assert fires <= count.fires <= fires * 1.01
