"""`every(days= weeks= months= years=)`: the same wall time, so many days or months on, counted from an anchor.

Each fire is anchor + n * interval, found by division, never the former fire + interval: so the 31st becomes the 28th
in February and the 31st again in March.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import final

from tickless.errors import RuleError, shown
from tickless.instants import MIN_INSTANT, Instant, instant_of
from tickless.rules.combine import not_on, on_days, union, union_reversed
from tickless.rules.days import DAY_NAMES, SHORT_NAMES, listed, weekday_numbers
from tickless.rules.walls import (
    choices_text,
    choices_words,
    fires_of,
    fold_choice,
    gap_choice,
    wall_from,
    zone_named,
)
from tickless.rules.zones import Fold, Gap, gap_at, instants_at, naive_us, wall_of, zone_name, zone_of

_MOST_DAYS = date.max.toordinal()
_MOST_MONTHS = 12 * date.max.year
_TIME = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Calendar:
    """The same wall time again and again: `every(days=1, at="09:00", tz="Europe/Berlin")`; weeks, months, years.

    Fires at anchor + n * interval for n = 0, 1, ..., a month's day clamped to its end: from 31 January 28 February,
    then 31 March; from 29 February 28 February, and the 29th again in leap years. Days and weeks add up, so do months
    and years. `on=` names weekdays, for weeks only: weeks begin on Monday, and are counted from that of the first fire.
    `at=` is the time of day, as text or `datetime.time`. `anchor=` is a date, or a datetime that gives the time as
    well: naive in the zone, or aware. A fire before it there is none. Without it the rule counts from the day on which
    it is bound, and without `at=` from its time of day.
    `tz` is UTC unless it is given, or an aware anchor has one. A wall time that the zone skips is the first instant
    after the gap (a gap of three hours and more: none), one that comes twice the first; `gap=` and `fold=` override it.

    Raises RuleError for an interval that is no whole number of at least 1, or longer than the calendar, for days mixed
    with months, and for a rule that never fires.
    """

    days: int
    """The interval in days, or 0 where it is in months."""
    months: int
    on: tuple[int, ...]
    """Weekdays, 0 is Monday; empty: that of the anchor."""
    at: time | None
    """As given; None: that of the instant at which it is bound."""
    tz: str
    gap: Gap
    fold: Fold
    start: datetime | None
    """Anchor and time of day, naive in the zone; None while it is not bound."""
    anchored: bool
    """The start was given, and does not come from binding."""
    recurring = True
    wall = True

    def __init__(
        self,
        *,
        days: int | None = None,
        weeks: int | None = None,
        months: int | None = None,
        years: int | None = None,
        on: str | Iterable[str] | None = None,
        at: str | time | None = None,
        tz: str | tzinfo | None = None,
        anchor: date | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        in_days = _whole(days, "days", _MOST_DAYS) + 7 * _whole(weeks, "weeks", _MOST_DAYS // 7)
        in_months = _whole(months, "months", _MOST_MONTHS) + 12 * _whole(years, "years", _MOST_MONTHS // 12)
        if in_days and in_months:
            raise RuleError("every(): days and months cannot be added up, since months differ in length; choose one")
        if not in_days and not in_months:
            raise RuleError("every(): needs an interval, e.g. every(days=1)")
        if in_days > _MOST_DAYS or in_months > _MOST_MONTHS:
            raise RuleError("every(): the interval is longer than the calendar (years 1 to 9999)")
        if on is not None and (weeks is None or days is not None):
            raise RuleError(
                f"every(on={shown(on)}): weekdays need weeks=, e.g. every(weeks=1, on={shown(on)}); "
                f"other intervals can be confined to them: .on_days(weekdays({shown(on)}))"
            )
        numbers = () if on is None else weekday_numbers(on, f"every(on={shown(on)})")
        of_day = None if at is None else _time(at)
        zone = _zone(tz, anchor)
        start = None if anchor is None else _start(anchor, of_day, zone)
        gap, fold = gap_choice(gap, "next", "every"), fold_choice(fold, "first", "every")
        if start is not None:
            of_day = start.time()
        _fill(self, (in_days, in_months, numbers, of_day, zone_name(zone), gap, fold, start, start is not None))
        if start is not None and self.next_after(Instant(MIN_INSTANT - 1)) is None:
            raise RuleError(f"{self!r}: never fires within the years 1 to 9999; choose an earlier anchor")

    def bound(self, now: Instant) -> Calendar:
        """The rule counted from the day of `now` in its zone. One with an anchor, or bound before, is itself."""
        if self.start is not None:
            return self
        start = wall_of(now, zone_named(self.tz)).replace(fold=0)
        if self.at is not None:
            start = datetime.combine(start, self.at)
        return self._with_start(start)

    def next_after(self, after: Instant) -> Instant | None:
        """The first fire strictly after `after`, or None past the year 9999. Costs one division and a look at the zone.

        Raises RuleError when it is not bound; with gap="raise" also where the next wall time does not exist.
        """
        zone = zone_named(self.tz)
        return next(fires_of(self._walls(wall_from(after, zone, self.fold)), zone, self.gap, self.fold, after), None)

    def as_written(self) -> Calendar:
        """The rule as it was before it was bound; one with an anchor is itself."""
        return self if self.anchored else self._with_start(None)

    __or__ = union
    __ror__ = union_reversed
    on_days = on_days
    not_on = not_on

    def without_gaps(self) -> Calendar:
        """The same with gap="skip"."""
        return _again(self.days, self.months, self.on, self.at, self.tz, "skip", self.fold, self.start, self.anchored)

    def _with_start(self, start: datetime | None) -> Calendar:
        return _again(self.days, self.months, self.on, self.at, self.tz, self.gap, self.fold, start, self.anchored)

    def _walls(self, low: datetime) -> Iterator[datetime]:
        """The wall times from `low` on, naive and ascending, whether they exist in the zone or not."""
        start = self.start
        if start is None:
            raise RuleError(f"{self!r} is not bound to a start, so it has no fires yet; ask {self!r}.bound(now)")
        if self.on:
            return _weekly(start, self.days, self.on, max(low, start))
        return _daily(start, self.days, low) if self.days else _monthly(start, self.months, low)

    def __reduce__(self) -> tuple[Callable[..., Calendar], tuple[object, ...]]:
        """Pickled as plain values, so that later versions can read what this one wrote."""
        return _again, tuple(getattr(self, name) for name in Calendar.__slots__)

    def __repr__(self) -> str:
        text = f"every({_interval(self.days, self.months, bool(self.on), '{unit}={count}')}"
        if self.on:
            text += f", on={','.join(SHORT_NAMES[number] for number in self.on)!r}"
        if self.at is not None:
            text += f", at={_time_text(self.at)!r}"
        text += f", tz={self.tz!r}" if self.tz != "UTC" else ""
        if self.anchored and self.start is not None:
            text += f", anchor={self.start.date()!r}"
        text += choices_text(self.gap, "next", self.fold, "first") + ")"
        if self.anchored or self.start is None:
            return text
        return f"{text}.bound({_bound_at(self.start, self.at is None, zone_named(self.tz))})"

    def __str__(self) -> str:
        unit = _interval(self.days, self.months, bool(self.on), "{count} {unit}")
        one = re.fullmatch(r"1 (\w+)s", unit)
        words = f"every {one[1] if one else unit}"
        if self.on:
            words += f" on {listed([DAY_NAMES[number] for number in self.on])}"
        of_day = self.start.time() if self.start is not None else self.at
        words += " at the time at which it is scheduled" if of_day is None else f" at {_time_text(of_day)}"
        words += f", {self.tz}"
        if self.start is not None and (self.days, bool(self.on)) == (1, False):
            words += f", from {self.start.date()}" if self.anchored else ""
        elif self.start is not None:
            words += f", counted from {self.start.date()}"
            if self.months and self.start.day > 28:
                words += " (in shorter months their last day)"
        return words + choices_words(self.gap, "next", self.fold, "first")


def _again(*values: object) -> Calendar:
    """A rule of the values of its fields, which have been checked before."""
    rule: Calendar = object.__new__(Calendar)
    _fill(rule, values)
    return rule


def _fill(rule: Calendar, values: tuple[object, ...]) -> None:
    """The one place that writes the fields of a frozen rule."""
    for name, value in zip(Calendar.__slots__, values, strict=True):
        object.__setattr__(rule, name, value)


def _daily(start: datetime, days: int, low: datetime) -> Iterator[datetime]:
    step = timedelta(days=days)
    wall = start
    try:
        if low > start:
            wall -= (start - low) // step * step  # rounded up: the first that is not before `low`
        while True:
            yield wall
            wall += step
    except OverflowError:  # past the year 9999
        return


def _monthly(start: datetime, months: int, low: datetime) -> Iterator[datetime]:
    first = _month(start)
    month = first + max(0, (_month(low) - first) // months) * months
    while month <= _MOST_MONTHS + 11:
        year, index = divmod(month, 12)
        wall = start.replace(year, index + 1, min(start.day, monthrange(year, index + 1)[1]))
        if wall >= low:
            yield wall
        month += months


def _month(wall: datetime) -> int:
    return wall.year * 12 + wall.month - 1


def _weekly(start: datetime, days: int, on: tuple[int, ...], low: datetime) -> Iterator[datetime]:
    first = start.toordinal()
    while (first - 1) % 7 not in on:  # the ordinal 1 is a Monday
        first += 1
    monday = first - (first - 1) % 7
    monday += max(0, (low.toordinal() - monday) // days) * days
    while True:
        for number in on:
            if monday + number > _MOST_DAYS:
                return
            if monday + number > 0 and (wall := _on(monday + number, start)) >= low:
                yield wall
        monday += days


def _on(ordinal: int, start: datetime) -> datetime:
    return datetime.combine(date.fromordinal(ordinal), start.time())


def _whole(value: int | None, unit: str, most: int) -> int:
    """The number of a unit; 0 where it is not given."""
    if value is None:
        return 0
    if type(value) is not int:
        half = ", since calendar units have no parts; parts of a day are hours=" if isinstance(value, float) else ""
        raise RuleError(f"every({unit}={shown(value)}): needs a whole number{half}")
    if value < 1:
        raise RuleError(f"every({unit}={value}): an interval must be at least 1")
    if value > most:
        raise RuleError(f"every({unit}={shown(value)}): the interval is longer than the calendar (years 1 to 9999)")
    return value


def _time(at: object) -> time:
    """A naive time of day. Raises RuleError for anything else."""
    if isinstance(at, time):
        if at.tzinfo is not None:
            raise RuleError(f"every(at={shown(at)}): the time has a zone of its own; give it as tz=")
        return time(at.hour, at.minute, at.second, at.microsecond)
    found = _TIME.fullmatch(at) if isinstance(at, str) else None
    if found is None:
        raise RuleError(f'every(at={shown(at)}): needs a time of day, e.g. "09:00", or a datetime.time')
    hour, minute, second, fraction = found.groups(default="0")
    try:
        return time(int(hour), int(minute), int(second), int(fraction.ljust(6, "0")))
    except ValueError:
        raise RuleError(f"every(at={shown(at)}): no such time of day; they go from 00:00 to 23:59:59") from None


def _zone(tz: str | tzinfo | None, anchor: object) -> tzinfo:
    if tz is not None:
        return zone_of(tz, "every(tz=)")
    if isinstance(anchor, datetime) and anchor.tzinfo is not None:
        return zone_of(anchor.tzinfo, "every(anchor=)")
    return zone_of("UTC", "every(tz=)")


def _start(anchor: date, of_day: time | None, zone: tzinfo) -> datetime:
    """Where counting begins: a naive wall time in the zone."""
    if isinstance(anchor, datetime):
        if of_day is not None:
            raise RuleError(f"every(at=, anchor={shown(anchor)}): both say a time of day; give the anchor as a date")
        if anchor.tzinfo is not None:
            return wall_of(instant_of(anchor, "every(anchor=)"), zone).replace(fold=0)
        return datetime.combine(date(anchor.year, anchor.month, anchor.day), anchor.time().replace(fold=0))
    if isinstance(anchor, date):
        return datetime.combine(date(anchor.year, anchor.month, anchor.day), of_day or time())
    if isinstance(anchor, str):
        raise RuleError(f"every(anchor={shown(anchor)}): calendar units count from a date, e.g. date(2026, 1, 31)")
    raise RuleError(f"every(anchor={shown(anchor)}): needs a date or a datetime")


def _interval(days: int, months: int, weeks: bool, form: str) -> str:
    """The interval in its largest unit."""
    unit, count = ("years", months // 12) if months and months % 12 == 0 else ("months", months)
    if days:
        unit, count = ("weeks", days // 7) if weeks or days % 7 == 0 else ("days", days)
    return form.format(unit=unit, count=count)


def _time_text(of_day: time) -> str:
    return of_day.isoformat("auto" if of_day.second or of_day.microsecond else "minutes")


def _bound_at(start: datetime, to_the_moment: bool, zone: tzinfo) -> Instant:
    """An instant that binds a rule to this start again; where there is none, one near by."""
    midnight = datetime.combine(start, time())
    for wall in (start,) if to_the_moment else (midnight, start, datetime.combine(start, time.max)):
        found = instants_at(wall, zone, "next", "first")
        if found and wall_of(found[0], zone).date() == start.date():
            return found[0]
    # Of a form that was written under another zone database, or by hand: the zone left that day out.
    missing = gap_at(start, zone)
    return Instant(naive_us(start)) if missing is None else missing[0]
