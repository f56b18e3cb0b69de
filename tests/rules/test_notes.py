"""Notes beside the brute-force walk of brute.py: what is unusual is noted, and nothing else is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.rules.brute import Brute, Window
from tickless.instants import datetime_of, instant_of
from tickless.rules import Rule, cron, every, preview, rrule, weekdays
from tickless.rules.zones import next_change, zone_of

ZONES = (
    "Europe/Berlin",
    "Australia/Lord_Howe",  # 30 minutes
    "Antarctica/Troll",  # 2 hours
    "Africa/Casablanca",  # negative, in Ramadan
    "America/Santiago",  # at midnight
    "America/Godthab",  # over midnight
    "America/St_Johns",
    "Asia/Kathmandu",  # none
)
EXPRESSIONS = ("30 2 * * *", "*/20 * * * *", "0,15,59 0-3 * * *", "10 0 * * 0", "45 23 1-15 * *", "5 */2 * * *")
CHOICES = ((None, None), ("next", "last"), ("skip", "both"))
YEARS = (2011, 2019, 2026, 2036)
FAR = timedelta(hours=15)


def windows(zone: str, year: int) -> list[Window]:
    """Around each of the next two changes of clocks."""
    found, after = [], instant_of(datetime(year, 1, 1, tzinfo=UTC), "year")
    for _ in range(2):
        change = next_change(zone_of(zone, "zone"), after)
        if change is None:
            break
        after = change[0]
        middle = datetime_of(after).replace(second=0)
        found.append(Window(zone, middle - FAR, middle + FAR))
    return found or [Window(zone, datetime(year, 1, 1, tzinfo=UTC), datetime(year, 1, 2, tzinfo=UTC))]


def expected(window: Window, expr: str, fires: list[datetime], moved: bool) -> list[list[str]]:
    """For each fire the beginnings of its notes, found by the walk."""
    rule = Brute(expr)
    minutes, hours = rule.times()[1:]
    told: list[list[str]] = [[] for _ in fires]
    for jump, leapt in window.missing.items():
        days = rule.days_of({wall.date() for wall in leapt})
        lost = [wall for wall in leapt if wall.minute in minutes and wall.hour in hours and wall.date() in days]
        late = next((index for index, fire in enumerate(fires) if fire >= jump), None)
        if lost and late is not None:
            span = f"{lost[0]:%H:%M} does" if len(lost) == 1 else f"{lost[0]:%H:%M} to {lost[-1]:%H:%M} do"
            there = next(wall for instant, wall in window.moments if instant == jump)
            what = f"fires at {there:%H:%M}" if moved else "no fire then"
            told[late].append(f"{span} not exist on {lost[0].day} {lost[0]:%b} in {{zone}}; {what}")
    shown = dict(window.moments)
    for notes, fire in zip(told, fires, strict=True):
        passes = window.passes[shown[fire]]
        if len(passes) > 1:
            which = "first" if fire == passes[0] else "second"
            both = all(each in fires for each in passes)
            what = f"fires both times, this is the {which}" if both else f"fires the {which} time"
            notes.append(f"{shown[fire]:%H:%M} comes twice on {shown[fire].day} {shown[fire]:%b} in {{zone}}; {what}")
    return told


@pytest.mark.parametrize("zone", ZONES)
def test_every_change_of_clocks_is_noted_where_it_matters(zone: str) -> None:
    """A note that is missing leaves somebody puzzled at night; one too many is believed as well."""
    noted = 0
    for window in (window for year in YEARS for window in windows(zone, year)):
        for expr in EXPRESSIONS:
            for gap, fold in CHOICES:
                rule = cron(expr, tz=zone, gap=gap, fold=fold)  # type: ignore[arg-type]  # of the table above
                fires = window.fires(expr, gap, fold)
                listed = preview(rule, window.start, len(fires))
                assert [fire.due for fire in listed] == fires
                told = expected(window, expr, fires, moved=rule.gap == "next")
                for fire, notes in zip(listed, told, strict=True):
                    begun = [note.format(zone=zone) for note in notes]
                    assert [note.split(" (")[0] for note in fire.notes] == begun, (expr, gap, fold, window.start)
                    noted += len(notes)
    assert noted > 50 or zone == "Asia/Kathmandu"


BERLIN = "Europe/Berlin"


def notes(rule: Rule, year: int, month: int, day: int) -> tuple[str, ...]:
    """Of the first fire after that day at noon, UTC."""
    return preview(rule, datetime(year, month, day, 12, tzinfo=UTC), 1)[0].notes


def test_a_note_about_a_day_of_another_year_names_the_year() -> None:
    """Else a gap of last spring looks like one of the day of the fire."""
    told = notes(cron("30 2 29 3 *", tz=BERLIN, gap="skip"), 2026, 1, 1)  # fires in 2027
    assert told == ("02:30 does not exist on 29 Mar 2026 in Europe/Berlin; no fire then",)
    moved = every(years=1, at="09:00", anchor=date(2026, 12, 31)).not_on({date(2026, 12, 31)}, shift="next")
    assert notes(moved, 2026, 12, 30) == ("moved from 31 Dec 2026",)


def test_a_fire_that_is_moved_into_a_gap_or_an_overlap_says_so() -> None:
    """Its time of day is not the one that was asked for, or comes twice."""
    gap = cron("30 2 * * sat", tz=BERLIN).not_on(weekdays("sat"), shift="next")
    assert notes(gap, 2027, 3, 26) == (
        "moved from 27 Mar",
        "02:30 does not exist on 28 Mar in Europe/Berlin; fires at 03:00",
    )
    overlap = notes(gap, 2027, 10, 29)
    assert overlap == (
        "moved from 30 Oct",
        "02:30 comes twice on 31 Oct in Europe/Berlin; fires the first time (+02:00)",
    )


def test_a_missing_time_on_a_day_that_is_left_is_noted_and_on_others_not() -> None:
    """The Sunday that somebody waits for in vain is a week before the next fire."""
    told = ("02:30 does not exist on 28 Mar in Europe/Berlin; no fire then",)
    nightly = cron("30 2 * * *", tz=BERLIN, gap="skip")
    assert notes(nightly.on_days(weekdays("sun")), 2027, 3, 26) == told
    assert notes(nightly.not_on(weekdays("mon-sat")), 2027, 3, 26) == told
    assert notes(nightly.on_days(weekdays("sun")).not_on({date(2027, 3, 28)}), 2027, 3, 26) == ()
    assert notes(nightly.on_days(weekdays("mon")), 2027, 3, 26) == ()


def test_count_and_until_do_not_hide_a_missing_time() -> None:
    """As if in UTC the rule would count what is skipped, and take an UNTIL with a Z for wall time."""
    told = ("02:30 does not exist on 28 Mar in Europe/Berlin; no fire then",)
    eve = datetime(2027, 3, 27, 2, 30)  # noqa: DTZ001  # a wall time
    for end in ("COUNT=2", "UNTIL=20270329T003000Z", "UNTIL=20270329"):
        rule = rrule(f"FREQ=DAILY;{end}", start=eve, tz=BERLIN)
        assert notes(rule, 2027, 3, 27) == told, end
    count = rrule("FREQ=DAILY;COUNT=365", start=eve, tz=BERLIN)  # as if in UTC it ended on 25 March
    assert notes(count, 2028, 3, 25) == ("02:30 does not exist on 26 Mar in Europe/Berlin; no fire then",)
    half = datetime(2027, 3, 28, 1, 30)  # noqa: DTZ001  # a wall time
    until = rrule("FREQ=MINUTELY;INTERVAL=30;UNTIL=20270328T010000Z", start=half, tz=BERLIN)
    (at_three,) = preview(until, datetime(2027, 3, 28, 0, 45, tzinfo=UTC))
    assert at_three.notes == ("02:00 to 02:30 do not exist on 28 Mar in Europe/Berlin; no fire then",)
    over = rrule("FREQ=DAILY;COUNT=1", start=eve, tz=BERLIN) | cron("0 9 29 * *", tz=BERLIN)
    assert notes(over, 2027, 3, 27) == ()
    edge = rrule("FREQ=WEEKLY;UNTIL=20270405T013000Z", start=datetime(2027, 3, 21, 2, 30), tz=BERLIN)  # noqa: DTZ001
    assert notes(edge, 2027, 3, 22) == told
