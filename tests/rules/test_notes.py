"""Notes beside the brute-force walk of brute.py: what is unusual is noted, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.rules.brute import Brute, Window
from tickless.instants import datetime_of, instant_of
from tickless.rules import cron, preview
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
