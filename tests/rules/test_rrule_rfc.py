"""RFC 5545's own examples (section 3.8.5.3), with the fires that it gives, in America/New_York."""

from __future__ import annotations

from datetime import datetime

import pytest

from tickless.instants import MIN_INSTANT, Instant
from tickless.rules import rrule
from tickless.rules.zones import wall_of, zone_of

NEW_YORK = "America/New_York"
SEPTEMBER_2 = "1997-09-02 09:00"
ALL_DAYS = "SU,MO,TU,WE,TH,FR,SA"


def at_nine(*months: str) -> list[str]:
    """ "1997-09 2 4" -> 09:00 on the 2nd and the 4th of that month."""
    found = []
    for month in months:
        name, *days = month.split()
        found += [f"{name}-{int(day):02} 09:00" for day in days]
    return found


def days(first: int, last: int, step: int = 1) -> str:
    return " ".join(map(str, range(first, last + 1, step)))


ENDED: list[tuple[str, str, list[str]]] = [
    ("FREQ=DAILY;COUNT=10", SEPTEMBER_2, at_nine(f"1997-09 {days(2, 11)}")),
    (
        "FREQ=DAILY;UNTIL=19971224T000000Z",
        SEPTEMBER_2,
        at_nine(f"1997-09 {days(2, 30)}", f"1997-10 {days(1, 31)}", f"1997-11 {days(1, 30)}", f"1997-12 {days(1, 23)}"),
    ),
    ("FREQ=DAILY;INTERVAL=10;COUNT=5", SEPTEMBER_2, at_nine("1997-09 2 12 22", "1997-10 2 12")),
    *(
        (text, "1998-01-01 09:00", at_nine(*(f"{year}-01 {days(1, 31)}" for year in (1998, 1999, 2000))))
        for text in (
            f"FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY={ALL_DAYS}",
            "FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1",
        )
    ),
    ("FREQ=WEEKLY;COUNT=10", SEPTEMBER_2, at_nine("1997-09 2 9 16 23 30", "1997-10 7 14 21 28", "1997-11 4")),
    (
        "FREQ=WEEKLY;UNTIL=19971224T000000Z",
        SEPTEMBER_2,
        at_nine("1997-09 2 9 16 23 30", "1997-10 7 14 21 28", "1997-11 4 11 18 25", "1997-12 2 9 16 23"),
    ),
    *(
        (text, SEPTEMBER_2, at_nine("1997-09 2 4 9 11 16 18 23 25 30", "1997-10 2"))
        for text in (
            "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH",
            "FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH",
        )
    ),
    (
        "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
        "1997-09-01 09:00",
        at_nine(
            "1997-09 1 3 5 15 17 19 29",
            "1997-10 1 3 13 15 17 27 29 31",
            "1997-11 10 12 14 24 26 28",
            "1997-12 8 10 12 22",
        ),
    ),
    (
        "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH",
        SEPTEMBER_2,
        at_nine("1997-09 2 4 16 18 30", "1997-10 2 14 16"),
    ),
    (
        "FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
        "1997-09-05 09:00",
        at_nine(
            *("1997-09 5", "1997-10 3", "1997-11 7", "1997-12 5"),
            *("1998-01 2", "1998-02 6", "1998-03 6", "1998-04 3", "1998-05 1", "1998-06 5"),
        ),
    ),
    (
        "FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR",
        "1997-09-05 09:00",
        at_nine("1997-09 5", "1997-10 3", "1997-11 7", "1997-12 5"),
    ),
    (
        "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
        "1997-09-07 09:00",
        at_nine("1997-09 7 28", "1997-11 2 30", "1998-01 4 25", "1998-03 1 29", "1998-05 3 31"),
    ),
    (
        "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO",
        "1997-09-22 09:00",
        at_nine("1997-09 22", "1997-10 20", "1997-11 17", "1997-12 22", "1998-01 19", "1998-02 16"),
    ),
    (
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15",
        SEPTEMBER_2,
        at_nine("1997-09 2 15", "1997-10 2 15", "1997-11 2 15", "1997-12 2 15", "1998-01 2 15"),
    ),
    (
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1",
        "1997-09-30 09:00",
        at_nine("1997-09 30", "1997-10 1 31", "1997-11 1 30", "1997-12 1 31", "1998-01 1 31", "1998-02 1"),
    ),
    (
        "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
        "1997-09-10 09:00",
        at_nine(f"1997-09 {days(10, 15)}", f"1999-03 {days(10, 13)}"),
    ),
    (
        "FREQ=YEARLY;COUNT=10;BYMONTH=6,7",
        "1997-06-10 09:00",
        at_nine(*(f"{year}-{month} 10" for year in range(1997, 2002) for month in ("06", "07"))),
    ),
    (
        "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3",
        "1997-03-10 09:00",
        at_nine("1997-03 10", *(f"{year}-{month} 10" for year in (1999, 2001, 2003) for month in ("01", "02", "03"))),
    ),
    (
        "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
        "1997-01-01 09:00",
        at_nine(
            *("1997-01 1", "1997-04 10", "1997-07 19", "2000-01 1", "2000-04 9", "2000-07 18"),
            *("2003-01 1", "2003-04 10", "2003-07 19", "2006-01 1"),
        ),
    ),
    (
        "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3",
        "1997-09-04 09:00",
        at_nine("1997-09 4", "1997-10 7", "1997-11 6"),
    ),
    # With the erratum: 17:00 local time is 21:00Z.
    (
        "FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z",
        SEPTEMBER_2,
        ["1997-09-02 09:00", "1997-09-02 12:00", "1997-09-02 15:00"],
    ),
    (
        "FREQ=MINUTELY;INTERVAL=15;COUNT=6",
        SEPTEMBER_2,
        [f"1997-09-02 {time}" for time in ("09:00", "09:15", "09:30", "09:45", "10:00", "10:15")],
    ),
    (
        "FREQ=MINUTELY;INTERVAL=90;COUNT=4",
        SEPTEMBER_2,
        [f"1997-09-02 {time}" for time in ("09:00", "10:30", "12:00", "13:30")],
    ),
    ("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "1997-08-05 09:00", at_nine("1997-08 5 10 19 24")),
    ("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "1997-08-05 09:00", at_nine("1997-08 5 17 19 31")),
    (
        "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5",
        "2007-01-15 09:00",
        at_nine("2007-01 15 30", "2007-02 15", "2007-03 15 30"),
    ),
]

ENDLESS: list[tuple[str, str, list[str]]] = [
    (
        "FREQ=DAILY;INTERVAL=2",
        SEPTEMBER_2,
        at_nine(f"1997-09 {days(2, 30, 2)}", f"1997-10 {days(2, 30, 2)}", f"1997-11 {days(1, 29, 2)}", "1997-12 1 3"),
    ),
    (
        "FREQ=WEEKLY;INTERVAL=2;WKST=SU",
        SEPTEMBER_2,
        at_nine("1997-09 2 16 30", "1997-10 14 28", "1997-11 11 25", "1997-12 9 23", "1998-01 6 20", "1998-02 3 17"),
    ),
    (
        "FREQ=MONTHLY;BYMONTHDAY=-3",
        "1997-09-28 09:00",
        at_nine("1997-09 28", "1997-10 29", "1997-11 28", "1997-12 29", "1998-01 29", "1998-02 26"),
    ),
    (
        "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU",
        SEPTEMBER_2,
        at_nine("1997-09 2 9 16 23 30", "1997-11 4 11 18 25", "1998-01 6 13 20 27", "1998-03 3 10 17 24 31"),
    ),
    ("FREQ=YEARLY;BYDAY=20MO", "1997-05-19 09:00", at_nine("1997-05 19", "1998-05 18", "1999-05 17")),
    ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997-05-12 09:00", at_nine("1997-05 12", "1998-05 11", "1999-05 17")),
    (
        "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
        "1997-03-13 09:00",
        at_nine("1997-03 13 20 27", "1998-03 5 12 19 26", "1999-03 4 11 18 25"),
    ),
    (
        "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8",
        "1997-06-05 09:00",
        at_nine(
            *("1997-06 5 12 19 26", "1997-07 3 10 17 24 31", "1997-08 7 14 21 28"),
            *("1998-06 4 11 18 25", "1998-07 2 9 16 23 30", "1998-08 6 13 20 27"),
        ),
    ),
    (
        "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
        SEPTEMBER_2,
        at_nine("1998-02 13", "1998-03 13", "1998-11 13", "1999-08 13", "2000-10 13"),
    ),
    (
        "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
        "1997-09-13 09:00",
        at_nine(
            *("1997-09 13", "1997-10 11", "1997-11 8", "1997-12 13", "1998-01 10"),
            *("1998-02 7", "1998-03 7", "1998-04 11", "1998-05 9", "1998-06 13"),
        ),
    ),
    (
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
        "1996-11-05 09:00",
        at_nine("1996-11 5", "2000-11 7", "2004-11 2"),
    ),
    (
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
        "1997-09-29 09:00",
        at_nine("1997-09 29", "1997-10 30", "1997-11 27", "1997-12 30", "1998-01 29", "1998-02 26", "1998-03 30"),
    ),
    *(
        (
            text,
            SEPTEMBER_2,
            [
                f"1997-09-{day:02} {hour:02}:{minute:02}"
                for day in (2, 3)
                for hour in range(9, 17)
                for minute in (0, 20, 40)
            ],
        )
        for text in (
            "FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40",
            "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16",
        )
    ),
]


def fires(text: str, start: str, many: int) -> list[str]:
    rule = rrule(text, start=datetime.fromisoformat(start), tz=NEW_YORK)
    found: list[str] = []
    after = Instant(MIN_INSTANT - 1)
    while len(found) < many:
        fire = rule.next_after(after)
        if fire is None:
            break
        found.append(f"{wall_of(fire, zone_of(NEW_YORK, 'test')):%Y-%m-%d %H:%M}")
        after = fire
    return found


@pytest.mark.parametrize(("text", "start", "expected"), ENDED, ids=[text for text, _, _ in ENDED])
def test_an_example_that_ends(text: str, start: str, expected: list[str]) -> None:
    """All of its fires, and then none."""
    assert fires(text, start, len(expected) + 5) == expected


@pytest.mark.parametrize(("text", "start", "expected"), ENDLESS, ids=[text for text, _, _ in ENDLESS])
def test_an_example_without_an_end(text: str, start: str, expected: list[str]) -> None:
    """As many of its fires as the RFC lists."""
    assert fires(text, start, len(expected)) == expected
