"""The oracle for cron: a walk over every UTC minute around a change of clocks. It shares no code with what it judges.

Of the standard library it takes `astimezone` from UTC to a zone, minute by minute, and nothing else about zones; it
reads expressions by itself, and asks of each minute whether it matches. Slow, and plain enough to be believed.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def _value(text: str) -> int:
    if text in MONTHS:
        return MONTHS.index(text) + 1
    return DAYS.index(text) if text in DAYS else int(text)


def _matches(field: str, value: int, low: int, high: int) -> bool:
    """Does a value match one of the terms: `*`, `5`, `1-5`, each with or without `/2`."""
    for term in field.split(","):
        base, _, step = term.partition("/")
        if base == "*":
            first, last = low, high
        elif "-" in base:
            first, last = (_value(part) for part in base.split("-"))
        else:
            first = _value(base)
            last = high if step else first
        if first <= value <= last and (value - first) % int(step or 1) == 0:
            return True
    return False


def _day_matches(field: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    for term in field.split(","):
        if term == "L":
            found = day.day == length
        elif term == "LW":
            left = [date(day.year, day.month, number).isoweekday() for number in range(day.day, length + 1)]
            found = left[0] <= 5 and all(number > 5 for number in left[1:])
        else:
            found = _matches(term, day.day, 1, 31)
        if found:
            return True
    return False


def _weekday_matches(field: str, day: date) -> bool:
    numbers = {day.isoweekday(), day.isoweekday() % 7}  # Sunday is 7 and 0
    for term in field.split(","):
        if "#" in term:
            name, nth = term.split("#")
            found = _value(name) in numbers and (day.day - 1) // 7 + 1 == int(nth)
        elif term.endswith("L"):
            length = calendar.monthrange(day.year, day.month)[1]
            found = int(term[:-1]) in numbers and day.day + 7 > length
        else:
            found = any(_matches(term, number, 0, 7) for number in numbers)
        if found:
            return True
    return False


@dataclass(frozen=True)
class Brute:
    """An expression of five fields, or six with the second first, read as the manual page crontab(5) describes it."""

    expr: str

    @property
    def fields(self) -> list[str]:
        fields = self.expr.split()
        return fields if len(fields) == 6 else ["0", *fields]

    @property
    def fixed(self) -> bool:
        return all(field[0] != "*" for field in self.fields[:3])

    def days_of(self, days: Iterable[date]) -> set[date]:
        """Those that match the three day fields."""
        day_field, month_field, weekday_field = self.fields[3:]
        found = set()
        for day in days:
            of_month, of_week = _day_matches(day_field, day), _weekday_matches(weekday_field, day)
            both = day_field[0] == "*" or weekday_field[0] == "*"
            if _matches(month_field, day.month, 1, 12) and (of_month and of_week if both else of_month or of_week):
                found.add(day)
        return found

    def times(self) -> tuple[set[int], set[int], set[int]]:
        """The seconds, minutes and hours that match."""
        second, minute, hour = self.fields[:3]
        return (
            {value for value in range(60) if _matches(second, value, 0, 59)},
            {value for value in range(60) if _matches(minute, value, 0, 59)},
            {value for value in range(24) if _matches(hour, value, 0, 23)},
        )


class Window:
    """Every UTC minute (or second) from `start` to `stop`, and what clocks of a zone show then."""

    def __init__(self, zone: str, start: datetime, stop: datetime, step: timedelta = MINUTE) -> None:
        self.start, self.stop, self.step = start, stop, step
        there = ZoneInfo(zone)
        self.moments: list[tuple[datetime, datetime]] = []
        """(instant, what clocks show, without a zone)"""
        self.missing: dict[datetime, list[datetime]] = {}
        """An instant at which clocks jump forward -> what they leap over."""
        self.passes: dict[datetime, list[datetime]] = {}
        """What clocks show -> when they do, ascending."""
        instant, before = start, None
        while instant <= stop:
            shown = instant.astimezone(there).replace(tzinfo=None, fold=0)
            if before is not None and shown > before + step:
                self.missing[instant] = [before + number * step for number in range(1, (shown - before) // step)]
            self.moments.append((instant, shown))
            self.passes.setdefault(shown, []).append(instant)
            instant, before = instant + step, shown

    def fires(self, expr: str, gap: str | None = None, fold: str | None = None) -> list[datetime]:
        """All instants of the window, but for the first, at which the expression fires."""
        rule = Brute(expr)
        gap = gap or ("next" if rule.fixed else "skip")
        fold = fold or ("first" if rule.fixed else "both")
        days = rule.days_of({shown.date() for _, shown in self.moments} | self._missing_days())
        seconds, minutes, hours = rule.times()

        def matches(shown: datetime) -> bool:
            return shown.hour in hours and shown.minute in minutes and shown.second in seconds and shown.date() in days

        found = []
        for instant, shown in self.moments[1:]:
            leapt = self.missing.get(instant, [])
            late = gap == "next" and len(leapt) * self.step < timedelta(hours=3) and any(map(matches, leapt))
            if late or (matches(shown) and self._counts(instant, shown, fold)):
                found.append(instant)
        return found

    def _counts(self, instant: datetime, shown: datetime, fold: str) -> bool:
        passes = self.passes[shown]
        return fold == "both" or instant == (passes[0] if fold == "first" else passes[-1])

    def _missing_days(self) -> set[date]:
        return {shown.date() for leapt in self.missing.values() for shown in leapt}
