"""`rrule(text, start=, tz=)`: what it fires, its speed, and that it is a value."""

from __future__ import annotations

import datetime as datetime_module
import sys
import threading
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from time import perf_counter
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.wall_rules import rrules
from tests.rules.zoned import moments, us, walked
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant, datetime_of, instant_of
from tickless.policies import same_rule
from tickless.rules import RRule, Rule, is_ours, rrule, span

BERLIN = "Europe/Berlin"
NINE = datetime(2026, 1, 5, 9)  # noqa: DTZ001  # a wall time: a Monday


def first_fires(rule: Rule, many: int) -> list[datetime]:
    found, after = [], Instant(MIN_INSTANT - 1)
    for _ in range(many):
        fire = rule.next_after(after)
        if fire is None:
            break
        found.append(datetime_of(fire))
        after = fire
    return found


def walls(rule: Rule, many: int, tz: str) -> list[str]:
    return [f"{fire.astimezone(ZoneInfo(tz)):%Y-%m-%d %H:%M}" for fire in first_fires(rule, many)]


def test_a_wall_time_that_does_not_exist_is_neither_fired_nor_counted() -> None:
    """RFC 5545 says so; dateutil counts it, and fires it an hour off."""
    rule = rrule("FREQ=DAILY;COUNT=3", start=datetime(2026, 3, 28, 2, 30), tz=BERLIN)  # noqa: DTZ001  # a wall time
    assert walls(rule, 9, BERLIN) == ["2026-03-28 02:30", "2026-03-30 02:30", "2026-03-31 02:30"]


def test_a_wall_time_that_comes_twice_fires_once() -> None:
    """In the first pass, unless `fold` says else."""
    start = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001  # a wall time
    for fold, hours in (("first", [0]), ("last", [1]), ("both", [0, 1])):
        rule = rrule("FREQ=DAILY;UNTIL=20261025", start=start, tz=BERLIN, fold=fold)  # type: ignore[arg-type]  # all are folds
        assert [fire.hour for fire in first_fires(rule, 9)] == hours


def test_with_gap_next_the_wall_times_of_a_gap_become_one_fire() -> None:
    """As for cron."""
    start = datetime(2026, 3, 29, 1, 30)  # noqa: DTZ001  # a wall time
    rule = rrule("FREQ=MINUTELY;INTERVAL=20;COUNT=4", start=start, tz=BERLIN, gap="next")
    assert walls(rule, 9, BERLIN) == ["2026-03-29 01:30", "2026-03-29 01:50", "2026-03-29 03:00", "2026-03-29 03:10"]


def test_both_passes_of_an_hour_are_in_order() -> None:
    """The second pass comes after all of the first, not in between."""
    start = datetime(2026, 10, 25, 2)  # noqa: DTZ001  # a wall time
    rule = rrule("FREQ=MINUTELY;INTERVAL=20;COUNT=7", start=start, tz=BERLIN, fold="both")
    assert [f"{fire:%H:%M}" for fire in first_fires(rule, 9)] == [
        *("00:00", "00:20", "00:40"),
        *("01:00", "01:20", "01:40", "02:00"),
    ]


@pytest.mark.parametrize(("fold", "minute"), [("first", 60), ("last", 0), ("both", 0)])
def test_asked_in_the_first_pass_it_knows_what_is_to_come_in_the_second(fold: Any, minute: int) -> None:
    """At 02:50 the wall time 02:00 is still to come, once more."""
    start = datetime(2026, 10, 1)  # noqa: DTZ001  # a wall time
    rule = rrule("FREQ=MINUTELY;INTERVAL=20", start=start, tz=BERLIN, fold=fold)
    assert rule.next_after(us(2026, 10, 25, 0, 50)) == us(2026, 10, 25, 1 + minute // 60, 0)


@pytest.mark.parametrize(
    ("until", "days"),
    [
        ("20260107T080000Z", 3),  # 09:00 in Berlin, to the second
        ("20260107T075959Z", 2),
        ("20260107T090000", 3),  # wall time
        ("20260107T085959", 2),
        ("20260107", 3),  # all of the day
        ("20260106", 2),
    ],
)
def test_until_is_inclusive(until: str, days: int) -> None:
    """An instant with a Z, wall time without, and a date is all of its day."""
    assert len(first_fires(rrule(f"FREQ=DAILY;UNTIL={until}", start=NINE, tz=BERLIN), 9)) == days


def test_a_start_that_does_not_match_is_no_fire() -> None:
    """RFC 5545 leaves it open; calendars that add it fire on a day that no part names."""
    rule = rrule("FREQ=WEEKLY;BYDAY=TU;COUNT=2", start=NINE)
    assert walls(rule, 9, "UTC") == ["2026-01-06 09:00", "2026-01-13 09:00"]


def test_a_week_number_alone_takes_the_weekday_of_the_start() -> None:
    """What the rule leaves open is the start's; dateutil fires on all seven days."""
    rule = rrule("FREQ=YEARLY;BYWEEKNO=20;COUNT=2", start=NINE)
    assert walls(rule, 9, "UTC") == ["2026-05-11 09:00", "2027-05-17 09:00"]


def test_a_position_counts_from_the_beginning_of_the_week_also_in_the_first() -> None:
    """The week of the start has a Monday, though it is over."""
    rule = rrule("FREQ=WEEKLY;BYDAY=MO,TU,WE;BYSETPOS=1", start=NINE + timedelta(days=1))
    assert walls(rule, 1, "UTC") == ["2026-01-12 09:00"]


def test_an_aware_start_is_a_wall_time_of_the_zone() -> None:
    """Its own zone, where no other is named."""
    aware = datetime(2026, 7, 1, 9, tzinfo=ZoneInfo(BERLIN))
    assert rrule("FREQ=DAILY", start=aware) == rrule("FREQ=DAILY", start=aware.replace(tzinfo=None), tz=BERLIN)
    assert rrule("FREQ=DAILY", start=aware.astimezone(UTC), tz=BERLIN) == rrule("FREQ=DAILY", start=aware)


PLAIN = (
    "FREQ=YEARLY;INTERVAL=3",
    "FREQ=YEARLY;BYMONTH=1,6;BYDAY=-1FR,1MO",
    "FREQ=YEARLY;BYWEEKNO=1,20,53;BYDAY=MO,SU;WKST=SU",
    "FREQ=YEARLY;BYYEARDAY=1,60,-1;BYHOUR=1,13",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=MONTHLY;INTERVAL=5",
    "FREQ=MONTHLY;BYMONTHDAY=-1,13;INTERVAL=2",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2,1",
    "FREQ=WEEKLY;INTERVAL=3;BYDAY=SU,MO,WE",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,MO;WKST=SU",
    "FREQ=WEEKLY;BYMONTH=3",
    "FREQ=DAILY;INTERVAL=11",
    "FREQ=DAILY;BYDAY=FR;BYMONTHDAY=13",
    "FREQ=HOURLY;INTERVAL=7",
    "FREQ=HOURLY;INTERVAL=5;BYHOUR=3,4;BYMINUTE=15,30",
    "FREQ=MINUTELY;INTERVAL=50;BYDAY=SA",
    "FREQ=SECONDLY;INTERVAL=3601",
)


@given(
    text=st.sampled_from(PLAIN),
    start=st.datetimes(datetime(1996, 1, 1), datetime(2012, 1, 1)).map(lambda start: start.replace(microsecond=0)),  # noqa: DTZ001  # wall times
    number=st.integers(0, 150),
)
def test_a_search_from_anywhere_finds_what_dateutil_finds_from_the_start(
    text: str, start: datetime, number: int
) -> None:
    """Searches begin at the period asked about, hundreds of years on: the phase of INTERVAL and WKST must stay."""
    try:
        expected = list(islice(rrulestr(text, dtstart=start), number, number + 3))
    except ValueError:  # dateutil: the start is at an hour from which INTERVAL never leads to BYHOUR
        with pytest.raises(RuleError, match="never fires"):
            rrule(text, start=start)
        return
    rule = rrule(text, start=start)
    for wall in expected:
        fire = instant_of(wall.replace(tzinfo=UTC), "")
        assert rule.next_after(Instant(fire - 1)) == fire
    for wall, following in pairwise(expected):
        assert rule.next_after(instant_of(wall.replace(tzinfo=UTC), "")) == instant_of(
            following.replace(tzinfo=UTC), ""
        )


@given(
    start=st.datetimes(datetime(2001, 1, 1), datetime(2030, 1, 1)).map(lambda start: start.replace(microsecond=0)),  # noqa: DTZ001  # wall times
    tz=st.sampled_from(["Australia/Lord_Howe", "Antarctica/Troll", "Africa/Casablanca", "Europe/Dublin", BERLIN]),
    gap=st.sampled_from(["next", "skip"]),
    fold=st.sampled_from(["first", "last", "both"]),
)
def test_its_instants_are_those_of_a_walk_over_utc(start: datetime, tz: str, gap: Any, fold: Any) -> None:
    """A month around each change, by an oracle that knows zoneinfo alone."""
    rule = rrule("FREQ=HOURLY;INTERVAL=5;BYMINUTE=0,30;COUNT=60", start=start, tz=tz, gap=gap, fold=fold)
    nominal = rrulestr("FREQ=HOURLY;INTERVAL=5;BYMINUTE=0,30", dtstart=start)
    expected = sorted({fire for wall in islice(nominal, 70) for fire in walked(wall, tz, gap, fold)})
    assert first_fires(rule, 60) == expected[:60]


def test_the_last_week_of_the_calendar_is_no_error() -> None:
    """BUG-006: it reaches into the year 10000."""
    rule = rrule("FREQ=WEEKLY;BYDAY=FR,SU", start=datetime(9999, 12, 20))  # noqa: DTZ001  # a wall time
    assert walls(rule, 9, "UTC") == ["9999-12-24 00:00", "9999-12-26 00:00", "9999-12-31 00:00"]
    assert rule.next_after(MAX_INSTANT) is None


@pytest.mark.parametrize("year", [1999, 2000, 2399, 2400, 2401])
def test_weeks_over_the_end_of_a_cycle_of_400_years_are_found(year: int) -> None:
    """The search goes on in another stretch of the calendar there."""
    start = datetime(1996, 1, 1, 12)  # noqa: DTZ001  # a wall time
    rule, expected = rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU", start=start), []
    for wall in takewhile(
        lambda wall: wall.year <= year + 1, rrulestr("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU", dtstart=start)
    ):
        if (wall.year, wall.month) in ((year, 12), (year + 1, 1)):
            expected.append(wall.replace(tzinfo=UTC))
    after = us(year, 12, 1)
    for wall in expected:
        fire = rule.next_after(after)
        assert fire is not None
        assert datetime_of(fire) == wall
        after = fire


def test_a_rule_from_2000_seeks_to_now_within_5_milliseconds() -> None:
    """Counting from the start takes longer each year. The best of some, since the machine is shared."""
    start = datetime(2000, 1, 1, 9)  # noqa: DTZ001  # a wall time
    for text in ("FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=DAILY;COUNT=20000"):
        rule = rrule(text, start=start, tz=BERLIN)
        assert rule.next_after(us(2026, 7, 1)) is not None
        times = []
        for day in range(1, 20):
            begin = perf_counter()
            rule.next_after(us(2026, 8 - day % 2, day))
            times.append(perf_counter() - begin)
        assert min(times) < 0.005


def test_a_rule_that_never_fires_is_refused_soon() -> None:
    """dateutil looks for 8,000 years, which takes 5 seconds and more."""
    begin = perf_counter()
    with pytest.raises(RuleError, match=r"never fires"):
        rrule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", start=NINE)
    assert perf_counter() - begin < 2


def test_threads_that_ask_at_once_get_the_same_answers() -> None:
    """The place where a search stands is kept, and no two may go on from it."""
    rule = rrule("FREQ=HOURLY", start=NINE, tz=BERLIN)
    expected = first_fires(rule, 300)
    found: list[list[datetime]] = []
    threads = [threading.Thread(target=lambda: found.append(first_fires(rule, 300))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [expected] * 4


def test_without_dateutil_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is not installed on every machine."""
    monkeypatch.setitem(sys.modules, "dateutil.rrule", None)
    with pytest.raises(RuleError, match=r"needs python-dateutil; pip install 'tickless\[rrule\]'"):
        rrule("FREQ=DAILY", start=NINE)


@given(rrules())
def test_its_repr_makes_the_same_rule(rule: Rule) -> None:
    """What a log shows can be pasted."""
    assert eval(repr(rule), {"rrule": rrule, "datetime": datetime_module}) == rule


def test_its_text_is_one_for_one_meaning() -> None:
    """Case, order, spaces and the name in front say nothing."""
    rule = rrule("RRULE:byday=mo ; freq=weekly", start=NINE)
    assert rule == rrule("FREQ=WEEKLY;BYDAY=MO", start=NINE)
    assert rule.text == "FREQ=WEEKLY;BYDAY=MO"
    assert repr(rule) == "rrule('FREQ=WEEKLY;BYDAY=MO', start=datetime.datetime(2026, 1, 5, 9, 0))"


def test_it_is_a_rule_of_ours_on_the_wall_clock() -> None:
    """So it may be asked under a lock; an update with the same keeps the schedule."""
    rule = rrule("FREQ=DAILY", start=NINE)
    assert isinstance(rule, RRule)
    assert is_ours(rule)
    assert (rule.wall, rule.recurring) == (True, True)
    assert rule.bound(us(2026, 7, 1)) is rule
    assert same_rule(rule, rrule("FREQ=DAILY", start=NINE))
    assert not same_rule(rule, rrule("FREQ=DAILY", start=NINE, tz=BERLIN))


@given(moments())
def test_gap_raise_raises_only_at_its_gap(asked: Instant) -> None:
    """Neither a day before, nor for ever after."""
    start = datetime(2026, 3, 1, 2, 30)  # noqa: DTZ001  # a wall time
    rule = rrule("FREQ=DAILY;UNTIL=20260430", start=start, tz=BERLIN, gap="raise")
    if us(2026, 3, 28, 1, 30) <= asked < us(2026, 3, 29, 1):
        with pytest.raises(RuleError, match="does not exist in Europe/Berlin"):
            rule.next_after(asked)
    else:
        like = rrule("FREQ=DAILY;UNTIL=20260430", start=start, tz=BERLIN)
        assert rule.next_after(asked) == like.next_after(asked)


def test_span_over_a_long_gap() -> None:
    """The newest of the missed fires runs."""
    rule = rrule("FREQ=HOURLY", start=NINE)
    assert span(rule, us(2026, 1, 5), us(2036, 1, 5, 0, 30)) == (1_000, us(2026, 1, 5, 9), us(2036, 1, 5))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FREQ=DAILY", "every day at 09:00, UTC, from 2026-01-05"),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=10", "every 2 weeks on Monday at 09:00, 10 times, UTC, from 2026-01-05"),
        (
            "FREQ=MONTHLY;BYDAY=-1FR,2MO;UNTIL=20301231T000000Z",
            "every month on the 2nd Monday and the last Friday at 09:00, until 2030-12-31 00:00:00 UTC, UTC, "
            "from 2026-01-05",
        ),
        ("FREQ=YEARLY", "every year on 5 January at 09:00, UTC, from 2026-01-05"),
        ("FREQ=YEARLY;BYMONTH=3", "every year in March on the 5th at 09:00, UTC, from 2026-01-05"),
        ("FREQ=YEARLY;BYWEEKNO=20", "every year in the 20th week of the year on Monday at 09:00, UTC, from 2026-01-05"),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "every month on every Monday, every Tuesday, every Wednesday, every Thursday and every Friday at 09:00, "
            "of these the last of each month, UTC, from 2026-01-05",
        ),
        (
            "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10",
            "every 20 minutes in hour 9 and 10, UTC, from 2026-01-05 09:00",
        ),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;WKST=SU",  # other fires than without it
            "every 2 weeks on Monday and Sunday at 09:00, weeks begin on Sunday, UTC, from 2026-01-05",
        ),
        ("FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0,30", "every day at 09:00, 09:30, 17:00 and 17:30, UTC, from 2026-01-05"),
    ],
)
def test_its_words(text: str, words: str) -> None:
    """For people who do not read RFC 5545."""
    assert str(rrule(text, start=NINE)) == words


@pytest.mark.parametrize(
    ("text", "words", "days"),
    [
        ("FREQ=MONTHLY;BYDAY=1FR,FR", "every Friday", "02 09 16 23 30"),
        ("FREQ=MONTHLY;BYDAY=1MO,FR", "the 1st Monday and every Friday", "02 05 09 16 23 30"),
        ("FREQ=MONTHLY;BYDAY=9MO,FR", "every Friday and the 9th Monday", "02 09 16 23 30"),
        ("FREQ=YEARLY;BYMONTH=1;BYDAY=-1MO,FR", "the last Monday and every Friday", "02 09 16 23 26 30"),
        ("FREQ=YEARLY;BYDAY=2MO,FR", "the 2nd Monday and every Friday", "02 09 12 16 23 30"),
        ("FREQ=MONTHLY;BYDAY=1MO,FR;BYSETPOS=2", "of these the 2nd of each month", "05"),
    ],
)
def test_numbered_and_plain_days_are_alternatives(text: str, words: str, days: str) -> None:
    """RFC 5545 says so. dateutil lets only days through that match both: the first Fridays, or none at all."""
    rule = rrule(text, start=datetime(2026, 1, 1, 9))  # noqa: DTZ001  # a wall time
    january = takewhile(lambda day: day < "2026-02", walls(rule, 9, "UTC"))
    assert [day[8:10] for day in january] == days.split()
    assert all(word in str(rule) for word in words.split(" and "))


def test_the_last_plain_day_of_a_year_is_among_the_alternatives() -> None:
    """The 53rd Friday, which few years have."""
    rule = rrule("FREQ=YEARLY;BYDAY=2MO,FR", start=datetime(2027, 1, 1, 9))  # noqa: DTZ001  # a wall time
    assert walls(rule, 54, "UTC")[-1] == "2027-12-31 09:00"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FREQ=HOURLY", "every hour at second 5 at minute 17, UTC, from 2026-01-05 09:17:05"),
        ("FREQ=HOURLY;BYMINUTE=30;BYSECOND=0", "every hour at second 0 at minute 30, UTC, from 2026-01-05 09:17:05"),
        ("FREQ=MINUTELY;INTERVAL=15", "every 15 minutes at second 5, UTC, from 2026-01-05 09:17:05"),
        ("FREQ=SECONDLY;INTERVAL=7", "every 7 seconds, UTC, from 2026-01-05 09:17:05"),
    ],
)
def test_its_words_name_the_minute_that_it_has_from_its_start(text: str, words: str) -> None:
    """ "Every hour" is taken for the full hour; and where the count of minutes begins decides where they fall."""
    assert str(rrule(text, start=NINE.replace(minute=17, second=5))) == words
