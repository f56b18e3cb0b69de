"""`rrule(text, start=, tz=)`: the recurrence rules of calendars, RFC 5545, searched by python-dateutil.

dateutil sees naive wall times only, and neither COUNT nor UNTIL: it counts wall times that the zone skips, which the
RFC does not. It begins at the period that was asked about, so that it never walks through the years since the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Any, final

from tickless.errors import RuleError, shown
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant, instant_of
from tickless.rules.combine import not_on, on_days, union, union_reversed
from tickless.rules.recur import FREQUENCIES, MOST_YEARS, Recur, normal, read, words
from tickless.rules.walls import (
    MAX_WALL,
    MIN_WALL,
    choices_text,
    choices_words,
    fires_of,
    fold_choice,
    gap_choice,
    wall_from,
    zone_named,
)
from tickless.rules.zones import DAY_US, Fold, Gap, MissingTime, wall_of, zone_name, zone_of

CYCLE_YEARS = 400
"""The calendar repeats after so many years, weekdays included."""
_MOST_CURSORS = 256
_MOST_STEPS = 64
"""A cursor goes forward by so many fires; farther on a new search is cheaper."""


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class RRule:
    """The fires of an RFC 5545 RRULE: `rrule("FREQ=WEEKLY;BYDAY=MO,WE", start=datetime(2026, 1, 5, 9), tz="UTC")`.

    `start` is its DTSTART: the first fire where it matches the rule, else none. It is a wall time in `tz` (default
    UTC); an aware one is turned into one, and names the zone where `tz` does not. Wall times that the zone skips are
    left out and not counted, those that come twice are the first; `gap=` and `fold=` override it. UNTIL is inclusive,
    in UTC with a Z, else in wall time; a date alone is all of that day. Needs python-dateutil: `tickless[rrule]`.

    Raises RuleError for what RFC 5545 forbids, for DTSTART, EXDATE and RDATE in the text, and for a rule that never
    fires, or less than once in 50 years.
    """

    text: str
    """In capitals, its parts in the order of the RFC."""
    start: datetime
    """Naive, in the zone."""
    tz: str
    gap: Gap
    fold: Fold
    recurring = True
    wall = True

    def __init__(
        self,
        text: str,
        *,
        start: datetime,
        tz: str | tzinfo | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        _dateutil()
        text = normal(text)
        local, zone = _local(start, tz)
        values = (text, local, zone, gap_choice(gap, "skip", "rrule"), fold_choice(fold, "first", "rrule"))
        for name, value in zip(RRule.__slots__, values, strict=True):
            object.__setattr__(self, name, value)
        first = self.next_after(Instant(MIN_INSTANT - 1))
        if first is None:
            raise RuleError(f"{self!r}: never fires")
        try:
            second = self.next_after(first)
        except MissingTime:  # gap="raise": an error when its turn comes, not here
            return
        if second is not None and second - first > MOST_YEARS * 366 * DAY_US:
            raise RuleError(f"{self!r}: its second fire is more than {MOST_YEARS} years away; give dates with at(...)")

    def bound(self, now: Instant) -> RRule:
        """Itself: its start is part of it."""
        return self

    def next_after(self, after: Instant) -> Instant | None:
        """The first fire strictly after `after`, or None when COUNT, UNTIL or the calendar has ended it.

        Costs some 100 microseconds, and few where the question before was about the fire before. Raises RuleError
        after centuries without a match; with gap="raise" also where the next wall time does not exist.
        """
        cursor = _CURSORS.pop(self, None)  # taken out in one step: another thread makes one of its own
        if cursor is None or not cursor.forward(after):
            try:
                cursor = Cursor(after, _fires(self, after, self.gap))
            except MissingTime as missing:
                if read(self.text).count is not None and missing.end > _last(self):
                    return None
                raise
        fire = cursor.fire  # before it is put back: from then on it is somebody else's
        if len(_CURSORS) >= _MOST_CURSORS:
            _CURSORS.clear()
        _CURSORS[self] = cursor
        if fire is not None and read(self.text).count is not None and fire > _last(self):
            return None
        return fire

    def without_gaps(self) -> RRule:
        """The same with gap="skip"."""
        return _again(self.text, self.start, self.tz, "skip", self.fold)

    __or__ = union
    __ror__ = union_reversed
    on_days = on_days
    not_on = not_on

    def __reduce__(self) -> tuple[Callable[..., RRule], tuple[Any, ...]]:
        """Pickled as it is written, so that later versions read it, and check it again."""
        return _again, (self.text, self.start, self.tz, self.gap, self.fold)

    def __repr__(self) -> str:
        tz = "" if self.tz == "UTC" else f", tz={self.tz!r}"
        choices = choices_text(self.gap, "skip", self.fold, "first")
        return f"rrule({self.text!r}, start={self.start!r}{tz}{choices})"

    def __str__(self) -> str:
        recur = read(self.text)
        start = str(self.start.date())
        if FREQUENCIES.index(recur.freq) > 3:  # hours and less are counted from the time of day
            start = self.start.isoformat(" ", "auto" if self.start.second else "minutes")
        begin = f"{self.tz}, from {start}"
        return f"{words(recur, self.start)}, {begin}{choices_words(self.gap, 'skip', self.fold, 'first')}"


rrule = RRule


def _again(text: str, start: datetime, tz: str, gap: Gap, fold: Fold) -> RRule:
    return RRule(text, start=start, tz=tz, gap=gap, fold=fold)


class Cursor:
    """Where a search stands: `fire` is the first after `low`, and `later` gives those that follow."""

    __slots__ = ("low", "fire", "later")

    def __init__(self, low: Instant, fires: Iterator[Instant]) -> None:
        self.low = low
        self.fire = next(fires, None)
        self.later = fires

    def forward(self, after: Instant) -> bool:
        """Move to the first fire after `after`, if that is not behind and not far ahead."""
        if after < self.low:
            return False
        for _ in range(_MOST_STEPS):
            if self.fire is None or after < self.fire:
                return True
            try:
                self.low, self.fire = self.fire, next(self.later, None)
            except RuleError:  # gap="raise", at a gap that may lie before `after`: a new search knows
                return False
        return False


_CURSORS: dict[RRule, Cursor] = {}
"""For speed alone, outside of the values: the answers are the same without it."""


def _local(start: datetime, tz: str | tzinfo | None) -> tuple[datetime, str]:
    """(the start as a naive wall time, the name of its zone)."""
    if not isinstance(start, datetime):
        raise RuleError(f"rrule(start={shown(start)}): needs a datetime")
    if start.microsecond:
        raise RuleError(f"rrule(start={shown(start)}): an RRULE knows whole seconds; .replace(microsecond=0)")
    if start.tzinfo is None:
        zone = zone_of("UTC" if tz is None else tz, "rrule(tz=)")
        return datetime.combine(start.date(), start.time().replace(fold=0)), zone_name(zone)
    zone = zone_of(start.tzinfo, "rrule(start=)") if tz is None else zone_of(tz, "rrule(tz=)")
    return wall_of(instant_of(start, "rrule(start=)"), zone).replace(fold=0), zone_name(zone)


@lru_cache(maxsize=1_024)
def _last(rule: RRule) -> Instant:
    """The COUNT-th fire, or the last one if there are fewer; before all time if there is none."""
    before = Instant(MIN_INSTANT - 1)
    # What does not exist is not counted, so an error in a gap on the way would help nobody.
    counted = _fires(rule, before, "skip" if rule.gap == "raise" else rule.gap)
    newest = deque(islice(counted, read(rule.text).count), maxlen=1)
    return newest[0] if newest else before


def _fires(rule: RRule, after: Instant, gap: Gap) -> Iterator[Instant]:
    """The fires strictly after `after`, up to UNTIL; COUNT is not looked at."""
    zone, until = zone_named(rule.tz), read(rule.text).until
    end = MAX_INSTANT
    if until is not None and until.utc:
        end = instant_of(until.moment.replace(tzinfo=UTC), "UNTIL")
    last = MAX_WALL if until is None or until.utc else until.moment
    walls = _walls(rule, wall_from(after, zone, rule.fold), last)
    try:
        for fire in fires_of(walls, zone, gap, rule.fold, after):
            if fire > end:
                return
            yield fire
    except MissingTime as missing:
        if missing.end <= end:
            raise


def _walls(rule: RRule, low: datetime, last: datetime) -> Iterator[datetime]:
    """The wall times from `low` to `last`, naive and ascending.

    dateutil ends a search that finds nothing at the year 9999 only. So it is asked about the like years at the end of
    the calendar, 400 * n years later, and once they have passed about the next 400.
    """
    recur, low = read(rule.text), max(low, rule.start)
    while low <= last:
        base = _base(recur, rule.start, low)
        shift = (date.max.year - low.year) // CYCLE_YEARS * CYCLE_YEARS
        empty = True
        for found in _search(rule, recur, base.replace(year=base.year + shift)):
            wall = found.replace(year=found.year - shift)
            if wall > last:
                return
            if wall >= low:
                empty = False
                yield wall
        end = date.max.year - shift
        if empty and end - low.year > MOST_YEARS:
            raise RuleError(f"{rule!r}: never fires, or not from {low.year} to {end}")
        if end == date.max.year:
            return
        low = datetime(end + 1, 1, 1)  # noqa: DTZ001  # a wall time


def _search(rule: RRule, recur: Recur, base: datetime) -> Iterator[datetime]:
    try:
        yield from _dateutil()(FREQUENCIES.index(recur.freq), dtstart=base, **_parts(recur, rule.start))
    except ValueError as error:
        if "out of range" in str(error):  # a week over the end of the calendar
            return
        # What can never match is sometimes found out by dateutil, in its own words.
        raise RuleError(f"{rule!r}: never fires ({error})") from error


def _base(recur: Recur, start: datetime, low: datetime) -> datetime:
    """The beginning of the last period (year, month, ... as FREQ and INTERVAL say) that begins at `low` or before."""
    if recur.freq == "YEARLY":
        years = (low.year - start.year) // recur.interval * recur.interval
        return datetime(start.year + years, 1, 1)  # noqa: DTZ001  # a wall time, as all here
    if recur.freq == "MONTHLY":
        first = start.year * 12 + start.month - 1
        month = first + (low.year * 12 + low.month - 1 - first) // recur.interval * recur.interval
        return datetime(month // 12, month % 12 + 1, 1)  # noqa: DTZ001  # a wall time
    origin, unit = start, timedelta(seconds=1)
    if recur.freq in ("WEEKLY", "DAILY"):
        origin, unit = datetime.combine(start, time()), timedelta(days=1)
        if recur.freq == "WEEKLY":
            back, unit = timedelta(days=(start.weekday() - recur.wkst) % 7), timedelta(weeks=1)
            origin = origin - back if origin - MIN_WALL >= back else origin
    elif recur.freq == "HOURLY":
        origin, unit = start.replace(minute=0, second=0), timedelta(hours=1)
    elif recur.freq == "MINUTELY":
        origin, unit = start.replace(second=0), timedelta(minutes=1)
    step = unit * recur.interval
    return origin + (low - origin) // step * step


def _parts(recur: Recur, start: datetime) -> dict[str, Any]:
    """The parts for dateutil. What the text leaves open is the start's; said in so many words, since the search
    begins elsewhere."""
    level = FREQUENCIES.index(recur.freq)
    parts: dict[str, Any] = {name.lower(): values for name, values in recur.by.items()}
    if recur.days:
        parts["byweekday"] = [_weekday()(day, which or None) for day, which in recur.numbered_days()]
    elif recur.by.keys() & {"BYMONTHDAY", "BYYEARDAY"}:
        pass
    elif "BYWEEKNO" in recur.by or recur.freq == "WEEKLY":
        parts["byweekday"] = start.weekday()
    elif level < 2:
        parts["bymonthday"] = start.day
        if recur.freq == "YEARLY":
            parts.setdefault("bymonth", start.month)
    for name, finer_than, value in (
        ("byhour", 4, start.hour),
        ("byminute", 5, start.minute),
        ("bysecond", 6, start.second),
    ):
        if level < finer_than:
            parts.setdefault(name, value)
    return {**parts, "interval": recur.interval, "wkst": recur.wkst}


def _dateutil() -> Callable[..., Any]:
    """dateutil's rrule. Raises RuleError where it is not installed."""
    try:
        from dateutil.rrule import rrule as search
    except ImportError:
        raise RuleError("rrule(): needs python-dateutil; pip install 'tickless[rrule]'") from None
    return search  # type: ignore[no-any-return]  # dateutil ships no types


def _weekday() -> Callable[[int, int | None], Any]:
    from dateutil.rrule import weekday

    return weekday  # type: ignore[no-any-return]  # dateutil ships no types
