"""Calendar intervals and RRULEs that cannot be are refused where they are written: by name, value and way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any

import pytest

from tickless.errors import RuleError, TicklessError
from tickless.rules import every, rrule

NAN = float("nan")
HUGE_INT = 10**5_000
START = datetime(2026, 1, 5, 9)  # noqa: DTZ001  # a wall time


class Foreign(tzinfo):
    """A zone of somebody else's."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(0)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, when: datetime | None) -> str:
        return "foreign"


def refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RuleError, match=re.escape(message)) as caught:
        call()
    assert isinstance(caught.value, TicklessError)


UNITS: list[tuple[Any, str]] = [
    (0, "an interval must be at least 1"),
    (-1, "an interval must be at least 1"),
    (1.5, "needs a whole number, since calendar units have no parts; parts of a day are hours="),
    (1.0, "needs a whole number"),
    (NAN, "needs a whole number"),
    (True, "needs a whole number"),
    ("1", "needs a whole number"),
    ([1], "needs a whole number"),
    (timedelta(days=1), "needs a whole number"),
    (10**9, "the interval is longer than the calendar (years 1 to 9999)"),
    (HUGE_INT, "the interval is longer than the calendar (years 1 to 9999)"),
]


@pytest.mark.parametrize("unit", ["days", "weeks", "months", "years"])
@pytest.mark.parametrize(("value", "rest"), UNITS, ids=[repr(rest)[:30] + str(n) for n, (_, rest) in enumerate(UNITS)])
def test_every_refuses_what_is_no_number_of_a_calendar_unit(unit: str, value: Any, rest: str) -> None:
    """Half a month is no date, and zero fires without end."""
    refused(lambda: every(**{unit: value}), f"every({unit}=")
    refused(lambda: every(**{unit: value}), rest)


CALENDARS: list[tuple[dict[str, Any], str]] = [
    (
        {"days": 1, "hours": 2},
        "every(days=, hours=): days and longer are counted in the calendar, where a day has 23 to",
    ),
    ({"months": 1, "seconds": 1}, "every(months=, seconds=): "),
    ({"interval": timedelta(hours=1), "days": 1}, "every(days=, datetime.timedelta(seconds=3600)): "),
    ({"days": 1, "months": 1}, "every(): days and months cannot be added up, since months differ in length"),
    ({"weeks": 1, "years": 1}, "every(): days and months cannot be added up"),
    ({"days": 3_000_000, "weeks": 500_000}, "the interval is longer than the calendar"),
    ({"days": 1, "sliding": True}, "every(days=, sliding=): only clock units can be sliding"),
    ({"days": 1, "when": 5}, "every(when=): takes days=, weeks=, months=, years="),
    ({"seconds": 5, "at": "09:00"}, "every(at=): belongs to days=, weeks=, months=, years="),
    ({"at": "09:00"}, "every(at=): belongs to days="),
    ({"hours": 5, "tz": "UTC"}, "every(tz=): belongs to days="),
    ({"hours": 5, "gap": "skip"}, "every(gap=): belongs to days="),
    ({"days": 1, "at": "9"}, "every(at='9'): needs a time of day, e.g. \"09:00\""),
    ({"days": 1, "at": "24:00"}, "every(at='24:00'): no such time of day"),
    ({"days": 1, "at": "9 am"}, "every(at='9 am'): needs a time of day"),
    ({"days": 1, "at": 9}, "every(at=9): needs a time of day"),
    ({"days": 1, "at": "\u0661\u0662:00"}, "needs a time of day"),
    ({"days": 1, "at": time(9, tzinfo=UTC)}, "the time has a zone of its own; give it as tz="),
    ({"days": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}, "needs a time of day"),
    ({"days": 1, "tz": "Mars/Olympus"}, "every(tz=): 'Mars/Olympus' is no zone"),
    ({"days": 1, "tz": 5}, "every(tz=): needs a key"),
    ({"days": 1, "tz": Foreign()}, "every(tz=): needs a key"),
    ({"days": 1, "anchor": datetime(2026, 1, 1, tzinfo=Foreign())}, "every(anchor=): needs a key"),
    ({"days": 1, "anchor": "epoch"}, "every(anchor='epoch'): calendar units count from a date"),
    ({"days": 1, "anchor": "2026-01-01"}, "every(anchor='2026-01-01'): calendar units count from a date"),
    ({"days": 1, "anchor": 5}, "every(anchor=5): needs a date or a datetime"),
    ({"days": 1, "anchor": START, "at": "09:00"}, "both say a time of day; give the anchor as a date"),
    ({"days": 1, "gap": "later"}, 'every(gap=\'later\'): needs "next", "skip" or "raise"'),
    ({"days": 1, "fold": 1}, 'every(fold=1): needs "first", "last" or "both"'),
    ({"days": 1, "on": "mon"}, "every(on='mon'): weekdays need weeks="),
    ({"months": 1, "on": "mon"}, ".on_days(weekdays('mon'))"),
    ({"weeks": 1, "days": 1, "on": "mon"}, "weekdays need weeks="),
    ({"weeks": 1, "on": "mo"}, "every(on='mo'): 'mo' is no weekday"),
    ({"weeks": 1, "on": []}, "names no weekday"),
    ({"weeks": 1, "on": 1}, "needs names of weekdays"),
    (
        {"days": 1, "anchor": date(9999, 12, 31), "at": "23:30", "tz": "America/New_York"},
        "never fires within the years 1 to 9999; choose an earlier anchor",
    ),
]


@pytest.mark.parametrize(("given", "message"), CALENDARS, ids=[str(given)[:50] for given, _ in CALENDARS])
def test_every_refuses_what_is_no_calendar_interval(given: dict[str, Any], message: str) -> None:
    """Each message says which argument, what it was, and what to write instead."""
    refused(lambda: every(**given), message)


def test_what_was_not_given_is_not_looked_at() -> None:
    """Settings that are None, or off, are no mixture."""
    given: dict[str, Any] = {"hours": None, "sliding": False, "at": None, "on": None, "tz": None}
    assert every(days=1, **given) == every(days=1)
    given = {"days": None, "at": None, "gap": None}
    assert every(hours=1, **given) == every(hours=1)


RRULES: list[tuple[Any, str]] = [
    (5, "rrule(5): needs a text, e.g. 'FREQ=WEEKLY;BYDAY=MO'"),
    (None, "rrule(None): needs a text"),
    ("", "'' is no part; parts are written NAME=value"),
    ("DAILY", "'DAILY' is no part"),
    ("FREQ=DAILY;", "'' is no part"),
    ("INTERVAL=2", "FREQ is missing"),
    ("FREQ=", "FREQ is missing"),
    ("FREQ=FORTNIGHTLY", "FREQ is FORTNIGHTLY; it is one of YEARLY, MONTHLY"),
    ("FREQ=DAILY;FREQ=DAILY", "FREQ is given twice"),
    ("FREQ=DAILY;BYDAYS=MO", "BYDAYS is no part of an RRULE; did you mean BYDAY?"),
    ("FREQ=DAILY;X-A=1", "X-A is no part of an RRULE"),
    ("FREQ=DAILY;INTERVAL=0", "INTERVAL=0 must be at least 1 (with 0 it would stand still)"),
    ("FREQ=DAILY;INTERVAL=-1", "INTERVAL=-1 must be at least 1"),
    ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL=1.5 is no number"),
    ("FREQ=DAILY;INTERVAL=", "INTERVAL= is no number"),
    ("FREQ=DAILY;INTERVAL=\u0661", "is no number"),
    ("FREQ=YEARLY;INTERVAL=51", "INTERVAL=51 is more than 50; it would fire less than once in 50 years"),
    ("FREQ=DAILY;INTERVAL=99999999999999999999", "is no number, or too large a one"),
    ("FREQ=DAILY;COUNT=0", "COUNT=0 must be at least 1"),
    ("FREQ=DAILY;COUNT=100001", "COUNT=100001 is more than 100,000; give UNTIL instead"),
    ("FREQ=DAILY;COUNT=5;UNTIL=20301231", "COUNT and UNTIL exclude each other"),
    ("FREQ=DAILY;UNTIL=2030-12-31", "UNTIL=2030-12-31 is no time; write 20301231,"),
    ("FREQ=DAILY;UNTIL=20301301", "UNTIL=20301301 is no time of the calendar"),
    ("FREQ=DAILY;UNTIL=20301231T250000Z", "is no time of the calendar"),
    ("FREQ=DAILY;UNTIL=20301231Z", "is no time; write"),
    ("FREQ=DAILY;UNTIL=20200101", "never fires"),
    ("FREQ=DAILY;WKST=XX", "WKST is XX; it is one of MO,"),
    ("FREQ=DAILY;BYMONTH=13", "BYMONTH holds 13; it takes 1 to 12"),
    ("FREQ=DAILY;BYMONTH=-1", "BYMONTH holds -1; it takes 1 to 12"),
    ("FREQ=DAILY;BYMONTH=", "BYMONTH holds nothing"),
    ("FREQ=DAILY;BYMONTH=1,,2", "BYMONTH holds nothing"),
    ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY holds 0; it takes 1 to 31 or -31 to -1"),
    ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY holds 32"),
    ("FREQ=YEARLY;BYYEARDAY=367", "BYYEARDAY holds 367"),
    ("FREQ=YEARLY;BYWEEKNO=54", "BYWEEKNO holds 54"),
    ("FREQ=DAILY;BYHOUR=24", "BYHOUR holds 24; it takes 0 to 23"),
    ("FREQ=DAILY;BYMINUTE=60", "BYMINUTE holds 60"),
    ("FREQ=DAILY;BYSECOND=60", "leap seconds do not exist in Unix time"),
    ("FREQ=WEEKLY;BYDAY=MON", "BYDAY holds MON; it takes MO, TU,"),
    ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY holds 0MO"),
    ("FREQ=YEARLY;BYDAY=54MO", "BYDAY holds 54MO"),
    ("FREQ=MONTHLY;BYDAY=6MO", "BYDAY counts beyond the fifth in a month, so it never fires"),
    ("FREQ=YEARLY;BYMONTH=1;BYDAY=-6MO", "BYDAY counts beyond the fifth"),
    ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY with a number, such as 1MO, is for FREQ=MONTHLY and YEARLY, not for WEEKLY"),
    ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", "BYDAY takes no numbers beside BYWEEKNO"),
    ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO is for FREQ=YEARLY alone"),
    ("FREQ=MONTHLY;BYYEARDAY=1", "BYYEARDAY is not for FREQ=MONTHLY"),
    ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY is not for FREQ=WEEKLY; use FREQ=DAILY or MONTHLY with BYDAY"),
    ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS chooses among what other BY parts give; there is none"),
    ("FREQ=SECONDLY;BYSECOND=1;BYSETPOS=2", "BYSETPOS is beyond all that a period can hold (1), so it never fires"),
    ("FREQ=DAILY;BYHOUR=1,2;BYSETPOS=3", "beyond all that a period can hold (2)"),
    ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
    ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
    ("FREQ=HOURLY;INTERVAL=2;BYHOUR=10", "never fires"),
    ("FREQ=YEARLY;BYWEEKNO=30;BYDAY=MO;BYMONTH=1", "never fires"),
    ("FREQ=YEARLY;INTERVAL=50;BYMONTH=2;BYMONTHDAY=29", "its second fire is more than 50 years away"),
    ("DTSTART=20260101;FREQ=DAILY", "DTSTART has no place in it; give the start as start="),
    ("DTSTART:20260101T090000\nRRULE:FREQ=DAILY", "DTSTART has no place in it"),
    ("DTSTART;TZID=Europe/Berlin:20260101T090000\nRRULE:FREQ=DAILY", "DTSTART has no place in it"),
    ("FREQ=DAILY\nEXDATE:20260101", "is followed by something else; one RRULE is read, and nothing more"),
    ("EXDATE:20260101", "EXDATE has no place in it; leave days out with .not_on({date(...)})"),
    ("RDATE:20260101T090000", "add instants with | at(...)"),
    ("FREQ=DAILY;BYEASTER=0", "BYEASTER has no place in it; it is no part of RFC 5545"),
    ("FREQ=MONTHLY;SKIP=BACKWARD", "every(months=1) clamps them"),
    ("FREQ=DAILY;" + "BYMONTH=1;" * 200, "2,011 characters; at most 1,000 are read"),
]


@pytest.mark.parametrize(("text", "message"), RRULES, ids=[str(text)[:40] for text, _ in RRULES])
def test_rrule_refuses_what_is_no_rrule(text: Any, message: str) -> None:
    """dateutil takes much of this, and fires otherwise than the RFC says, never, or without end."""
    refused(lambda: rrule(text, start=START), message)


STARTS: list[tuple[dict[str, Any], str]] = [
    ({"start": "2026-01-01"}, "rrule(start='2026-01-01'): needs a datetime"),
    ({"start": date(2026, 1, 1)}, "needs a datetime"),
    ({"start": START.replace(microsecond=1)}, "an RRULE knows whole seconds; .replace(microsecond=0)"),
    ({"start": START, "tz": "Europe/Belrin"}, "did you mean 'Europe/Berlin'"),
    ({"start": START, "tz": 5}, "rrule(tz=): needs a key"),
    ({"start": START.replace(tzinfo=Foreign())}, "rrule(start=): needs a key"),
    ({"start": datetime.max.replace(microsecond=0, tzinfo=timezone(timedelta(hours=-12)))}, "years 1 to 9999"),
    ({"start": START, "gap": "later"}, "rrule(gap='later'): needs"),
    ({"start": START, "fold": "second"}, "rrule(fold='second'): needs"),
]


@pytest.mark.parametrize(("given", "message"), STARTS)
def test_rrule_refuses_what_is_no_start(given: dict[str, Any], message: str) -> None:
    """What DTSTART and TZID are elsewhere."""
    refused(lambda: rrule("FREQ=DAILY", **given), message)
