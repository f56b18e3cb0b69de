"""`every(interval)`: fires on a grid, found by division over a gap of any length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any, Literal, Never, final, overload

from tickless.errors import RuleError, shown
from tickless.instants import MAX_INSTANT, MAX_SPAN_US, SECOND_US, Instant, datetime_of, instant_of, span_us
from tickless.rules import combine
from tickless.rules.calendars import Calendar
from tickless.rules.zones import Fold, Gap

MIN_INTERVAL_US = 1_000
_MINUTE_US = 60 * SECOND_US
_HOUR_US = 60 * _MINUTE_US


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Every:
    """Fires again and again: `every(timedelta)`, or `every(seconds=, minutes=, hours=)`, which add up; at least 1 ms.

    Aligned by default: the grid is start + k * interval for k = 1, 2, ... where the start is the instant at which it
    is bound. Late runs move nothing, so there is no drift. It counts elapsed time: 24 hours are 24 hours.
    `anchor=` an aware datetime, or "epoch" (1970-01-01T00:00Z), puts the grid on the wall clock instead, at
    anchor + k * interval for k = 0, 1, ...: a future anchor is itself the first fire; after a past one comes the next
    point of its grid, whenever it is scheduled.
    `sliding=True` measures from the finish of a run: the rule has one fire, start + interval, and is bound anew at
    each finish. No fire lies past the year 9999.

    Raises RuleError for an interval below 1 ms or longer than the calendar, for anything that is not a time, for a
    timedelta together with keywords, and for a sliding rule with an anchor.
    """

    interval_us: int
    first: Instant | None
    """The first fire; None while it is not bound. May lie past the year 9999: then it never fires."""
    sliding: bool
    wall: bool
    recurring = True

    def __init__(
        self,
        interval: timedelta | None = None,
        *,
        seconds: float | None = None,
        minutes: float | None = None,
        hours: float | None = None,
        sliding: bool = False,
        anchor: datetime | Literal["epoch"] | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            raise RuleError(
                f"every({next(iter(unknown))}=): knows a timedelta, or seconds=, minutes=, hours=; "
                f"or days=, weeks=, months=, years="
            )
        interval_us = _keywords_us(seconds, minutes, hours)
        if interval is not None or interval_us is None:
            interval_us = _positional_us(interval, alone=interval_us is None)
        if interval_us < MIN_INTERVAL_US:
            raise RuleError(
                f"every({_text(interval_us)}): an interval must be at least 1 ms; for tighter loops use a thread"
            )
        if interval_us > MAX_SPAN_US:
            raise RuleError(f"every({_text(interval_us)}): the interval is longer than the calendar (years 1 to 9999)")
        if sliding is not False and sliding is not True:
            raise RuleError(f"every(sliding={shown(sliding)}): needs True or False")
        first = None if anchor is None else _anchor(anchor, sliding)
        _fill(self, interval_us, first, sliding, wall=anchor is not None)

    def bound(self, now: Instant) -> Every:
        """The rule with its first fire at `now` + interval; an anchored one, or one bound before, is itself.

        A sliding rule is bound anew each time: that is how it measures from the finish.
        """
        if self.first is not None and not self.sliding:
            return self
        rule: Every = object.__new__(Every)
        _fill(rule, self.interval_us, Instant(now + self.interval_us), self.sliding, wall=False)
        return rule

    def next_after(self, after: Instant) -> Instant | None:
        """The first point of the grid strictly after `after`, or None past the year 9999. Costs one division.

        A sliding rule gives its one fire, then None until it is bound anew. Raises RuleError when it is not bound.
        """
        fire = self.first
        if fire is None:
            raise RuleError(f"{self!r} is not bound to a start, so it has no fires yet; ask {self!r}.bound(now)")
        if after >= fire:
            if self.sliding:
                return None
            fire = Instant(after + self.interval_us - (after - fire) % self.interval_us)
        return fire if fire <= MAX_INSTANT else None

    def span(self, after: Instant, until: Instant) -> tuple[int, Instant, Instant] | None:
        """(count, first, last) of the fires in (after, until], None if there are none. Exact, and costs two divisions.

        A sliding rule counts at most one: until it is bound anew it owes no other.
        """
        first = self.next_after(after)
        if first is None or first > until:
            return None
        if self.sliding:
            return 1, first, first
        more = (min(until, MAX_INSTANT) - first) // self.interval_us
        return more + 1, first, Instant(first + more * self.interval_us)

    __or__ = combine.union
    __ror__ = combine.union_reversed
    on_days = combine.on_days
    not_on = combine.not_on

    def __repr__(self) -> str:
        text = _text(self.interval_us)
        if self.sliding:
            text += ", sliding=True"
        if self.first is None:
            return f"every({text})"
        if not self.wall:
            return f"every({text}).bound({self.first - self.interval_us})"
        return f"every({text}, anchor={datetime_of(self.first)!r})" if self.first else f'every({text}, anchor="epoch")'

    def __str__(self) -> str:
        length = span_words(self.interval_us)
        words = f"every {length.removeprefix('1 ') if length.count(' ') == 1 else length}"
        if self.sliding:
            return f"{words}, measured from the finish of the run before"
        if self.first is None:
            return f"{words}, counted from when it is scheduled"
        first = (
            datetime_of(self.first).replace(tzinfo=None) if self.first <= MAX_INSTANT else "a time past the year 9999"
        )
        return f"{words}, counted from {first}, UTC" if self.wall else f"{words}, the first at {first}, UTC"


def _fill(rule: Every, interval_us: int, first: Instant | None, sliding: bool, *, wall: bool) -> None:
    """The one place that writes the fields of a frozen rule."""
    write = object.__setattr__
    write(rule, "interval_us", interval_us)
    write(rule, "first", first)
    write(rule, "sliding", sliding)
    write(rule, "wall", wall)


def _keywords_us(seconds: float | None, minutes: float | None, hours: float | None) -> int | None:
    """The sum of the keywords, or None when there are none."""
    if minutes is None and hours is None:
        return None if seconds is None else span_us(seconds, "every(seconds=)")
    total = 0 if seconds is None else span_us(seconds, "every(seconds=)")
    if minutes is not None:
        total += span_us(minutes, "every(minutes=)", _MINUTE_US)
    if hours is not None:
        total += span_us(hours, "every(hours=)", _HOUR_US)
    return total


def _positional_us(interval: timedelta | None, *, alone: bool) -> int:
    if interval is None:
        raise RuleError("every(): needs an interval, e.g. every(seconds=5)")
    if not isinstance(interval, timedelta):
        raise RuleError(f"every({shown(interval)}): needs a timedelta, or a unit, e.g. every(seconds=5)")
    if not alone:
        raise RuleError(f"every({shown(interval)}, ...): give a timedelta or seconds=, minutes=, hours=, not both")
    return span_us(interval, "every(timedelta)")


def _anchor(anchor: datetime | str, sliding: bool) -> Instant:
    if sliding:
        raise RuleError("every(sliding=True, anchor=): a sliding rule has no grid to anchor; leave one of them out")
    if isinstance(anchor, datetime):
        return instant_of(anchor, "every(anchor=)")
    if type(anchor) is str and anchor == "epoch":  # not by == alone: that is foreign code on a foreign object
        return Instant(0)
    raise RuleError(f'every(anchor={shown(anchor)}): needs an aware datetime, or "epoch"')


def _text(interval_us: int) -> str:
    """The interval as it is written between the brackets; reads back exactly."""
    if interval_us % SECOND_US == 0:
        return f"seconds={interval_us // SECOND_US}"
    seconds = interval_us / SECOND_US
    exact = round(seconds * SECOND_US) == interval_us
    return f"seconds={seconds}" if exact else repr(timedelta(microseconds=interval_us))


def span_words(span_us: int) -> str:
    """A length of time in words: "2 hours 30 minutes", "1 second"."""
    parts = []
    for unit, unit_us in _UNITS_US.items():
        count, span_us = divmod(span_us, unit_us)
        if count:
            parts.append(f"{count} {unit}s" if count > 1 else f"1 {unit}")
    return " ".join(parts) or "0 seconds"


_UNITS_US = {"hour": _HOUR_US, "minute": _MINUTE_US, "second": SECOND_US, "millisecond": 1_000, "microsecond": 1}
_CLOCK_UNITS = ("seconds", "minutes", "hours")
_CALENDAR_UNITS = ("days", "weeks", "months", "years")
_CALENDAR_ONLY = ("on", "at", "tz", "gap", "fold")


@overload
def every(
    interval: timedelta | None = None,
    *,
    seconds: float | None = None,
    minutes: float | None = None,
    hours: float | None = None,
    sliding: bool = False,
    anchor: datetime | Literal["epoch"] | None = None,
) -> Every: ...


@overload
def every(
    *,
    days: int,
    weeks: int | None = None,
    at: str | time | None = None,
    tz: str | tzinfo | None = None,
    anchor: date | None = None,
    gap: Gap | None = None,
    fold: Fold | None = None,
) -> Calendar: ...


@overload
def every(
    *,
    weeks: int,
    on: str | Iterable[str] | None = None,
    at: str | time | None = None,
    tz: str | tzinfo | None = None,
    anchor: date | None = None,
    gap: Gap | None = None,
    fold: Fold | None = None,
) -> Calendar: ...


@overload
def every(
    *,
    months: int,
    years: int | None = None,
    at: str | time | None = None,
    tz: str | tzinfo | None = None,
    anchor: date | None = None,
    gap: Gap | None = None,
    fold: Fold | None = None,
) -> Calendar: ...


@overload
def every(
    *,
    years: int,
    at: str | time | None = None,
    tz: str | tzinfo | None = None,
    anchor: date | None = None,
    gap: Gap | None = None,
    fold: Fold | None = None,
) -> Calendar: ...


def every(interval: timedelta | None = None, **given: Any) -> Every | Calendar:
    """Fires again and again. Clock units are elapsed time, calendar units the same wall time so many days later.

    `every(timedelta)`, `every(seconds=, minutes=, hours=)` is an `Every`: 24 hours are 24 hours. It can be
    `sliding=True`, or anchored at an aware datetime or "epoch". `every(days=, weeks=)`, `every(months=, years=)` is a
    `Calendar`: tomorrow at the same time, also when the clocks are put forward in between; with `at=`, `tz=`,
    `anchor=`, `on=` (of weeks), `gap=`, `fold=`. The classes tell the rest.

    Raises RuleError for an interval that cannot be, and for clock and calendar units together: a day has 23 to 25
    hours, so their sum would have no meaning.
    """
    calendar = [name for name in _CALENDAR_UNITS if given.get(name) is not None]
    if not calendar:
        for name in _CALENDAR_ONLY:
            if given.pop(name, None) is not None:
                raise RuleError(
                    f"every({name}=): belongs to days=, weeks=, months=, years=; e.g. every(days=1, {name}=...)"
                )
        return Every(interval, **{name: value for name, value in given.items() if name not in _CALENDAR_UNITS})
    if given.pop("sliding", False):
        raise RuleError(
            f"every({calendar[0]}=, sliding=): only clock units can be sliding; days are counted in the calendar"
        )
    clock = [name for name in _CLOCK_UNITS if given.pop(name, None) is not None]
    if interval is not None or clock:
        other = f"{clock[0]}=" if clock else shown(interval)
        raise RuleError(
            f"every({calendar[0]}=, {other}): days and longer are counted in the calendar, where a day has 23 to 25 "
            f"hours, and clock units are elapsed time; choose one, e.g. hours=24 or days=1"
        )
    unknown = given.keys() - {*_CALENDAR_UNITS, *_CALENDAR_ONLY, "anchor"}
    if unknown:
        raise RuleError(
            f"every({min(unknown)}=): takes days=, weeks=, months=, years=, and with them on=, at=, tz=, anchor=, "
            f"gap=, fold="
        )
    return Calendar(**given)
