"""Zones: from an instant to the wall time there, and back. The only place that asks a tzinfo for its offset.

A zone is seen as stretches of constant offset. All is integer arithmetic in UTC, since two aware datetimes of one zone
may compare equal an hour apart, and `aware + timedelta` calculates in wall time.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from tickless.errors import RuleError, shown
from tickless.instants import MAX_INSTANT, MIN_INSTANT, SECOND_US, Instant

Gap = Literal["next", "skip", "raise"]
Fold = Literal["first", "last", "both"]

HOUR_US = 3_600 * SECOND_US
DAY_US = 24 * HOUR_US
DATE_LINE_US = 3 * HOUR_US
"""A gap as long as this is no summer time: the zone moved over the date line, and what fell into it is lost."""

_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # wall times are naive here, and this is where they are counted from
_MICROSECOND = timedelta(microseconds=1)
_FIXED = re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{6}))?)?", re.ASCII)
_UTC_NAMES = frozenset({"UTC", "utc", "Z"})
_HOST_NAMES = frozenset({"localtime", "local", "posixrules"})


class MissingTime(RuleError):
    """With gap="raise": clocks are put forward over the naive `wall`. Its turn would come at `end`, that of the gap."""

    def __init__(self, why: str, wall: datetime, end: Instant) -> None:
        super().__init__(why, wall, end)
        self.wall = wall
        self.end = end

    def __str__(self) -> str:
        return str(self.args[0])


def zone_of(tz: object, what: str) -> tzinfo:
    """The zone that `tz` names: a key of the zone database, "UTC", or an offset such as "+05:30"; or a zone as it is.

    One zone, one object: UTC is `datetime.UTC` however it was given, and a key gives the same ZoneInfo for ever. So
    rules of one zone are equal. `what` names the argument in errors. Raises RuleError for an unknown key (with near
    ones), for a ZoneInfo without a key, which could not be stored, and for tzinfo of other makes.
    """
    if type(tz) is str:
        return _zone_named(tz, what)
    if type(tz) is timezone:
        return timezone(_fixed_offset(tz)) if tz != UTC else UTC
    if isinstance(tz, ZoneInfo):
        if tz.key is None:
            raise RuleError(
                f"{what}: {shown(tz)} has no key, so it could not be stored; give ZoneInfo('Europe/Berlin')"
            )
        return _zone_named(tz.key, what)
    if tz is None:
        raise RuleError(f"{what}: needs a zone, e.g. 'Europe/Berlin'; the host's own is never taken silently")
    name = getattr(tz, "zone", None)  # pytz and its like
    better = f"ZoneInfo({name!r})" if type(name) is str else "'Europe/Berlin' or a zoneinfo.ZoneInfo"
    raise RuleError(f"{what}: needs a key, a zoneinfo.ZoneInfo or a datetime.timezone, not {shown(tz)}; give {better}")


def zone_name(zone: tzinfo) -> str:
    """The zone as text that `zone_of` reads back: "Europe/Berlin", "UTC", "+05:30"."""
    if isinstance(zone, ZoneInfo):
        return str(zone.key)
    offset = _fixed_offset(zone)
    if not offset:
        return "UTC"
    minutes, rest = divmod(abs(offset), timedelta(minutes=1))
    text = f"{'-' if offset < timedelta(0) else '+'}{minutes // 60:02}:{minutes % 60:02}"
    if rest:
        text += f":{rest.seconds:02}"
    return f"{text}.{rest.microseconds:06}" if rest.microseconds else text


def wall_of(instant: Instant, zone: tzinfo) -> datetime:
    """The naive wall time there; `fold` is 1 in the second pass of an overlap.

    Raises RuleError where it would leave the years 1 to 9999.
    """
    part = stretch_of(instant, zone)
    wall = naive_of(instant + part.offset_us)
    return wall.replace(fold=1) if instant + part.offset_us < part.start + part.before_us else wall


def instants_at(wall: datetime, zone: tzinfo, gap: Gap, fold: Fold) -> tuple[Instant, ...]:
    """The instants at which clocks there show this naive wall time: one, or two in an overlap; ascending.

    `fold` chooses in an overlap (the attribute of `wall` is not looked at). For a wall time that does not exist: "next"
    gives the instant at which the gap ends, or () where the gap is three hours or longer; "skip" gives (); "raise"
    raises RuleError. () also where the instant would leave the years 1 to 9999.
    """
    found = _passes(wall, zone)
    if found:
        return found if fold == "both" else found[:1] if fold == "first" else found[-1:]
    missing = gap_at(wall, zone)
    if missing is None:
        return ()
    end, length_us = missing
    if gap == "raise":
        raise MissingTime(
            f"{wall:%Y-%m-%d %H:%M:%S} does not exist in {zone_name(zone)}, where clocks are put forward over it; "
            f'choose another time, or gap="next" or "skip"',
            wall,
            end,
        )
    return (end,) if gap == "next" and length_us < DATE_LINE_US else ()


def gap_at(wall: datetime, zone: tzinfo) -> tuple[Instant, int] | None:
    """(instant at which the gap ends, its length in microseconds) where this naive wall time is skipped, else None."""
    wall_us = naive_us(wall)
    change = next_change(zone, Instant(wall_us - DAY_US - HOUR_US))
    while change is not None and change[0] + change[1] <= wall_us:
        when, before_us, after_us = change
        if wall_us < when + after_us:
            return when, after_us - before_us
        change = next_change(zone, when)
    return None


def is_twice(wall: datetime, zone: tzinfo) -> bool:
    """True when clocks there show this naive wall time twice, since they are put back over it."""
    return len(_passes(wall, zone)) > 1


def next_change(zone: tzinfo, after: Instant) -> tuple[Instant, int, int] | None:
    """(when, offset before, offset after) of the next change of the offset strictly after `after`; in microseconds.

    None when there is none within some two years, as in zones that have given up summer time.
    """
    asked: int = after
    for _ in range(3):
        part = stretch_of(Instant(asked), zone)
        if part.after_us != part.offset_us:
            return Instant(part.end), part.offset_us, part.after_us
        if part.end > MAX_INSTANT:
            return None
        asked = part.end
    return None


class Stretch(NamedTuple):
    """Instants from `start` up to, not including, `end` at which one offset holds; all in microseconds.

    Where `before_us` (or `after_us`) equals `offset_us`, nothing changes at that end: the stretch goes on, and is cut
    off there for the cache alone. No change lies within two days beyond such a cut, so no overlap or gap reaches in.
    """

    start: int
    end: int
    offset_us: int
    before_us: int
    after_us: int


_BLOCK_BITS = 45  # 407 days
_MARGIN_US = 2 * DAY_US  # longer than any gap or overlap: a zone's day may be missing, or come twice
_STEP_US = 5 * DAY_US  # no two changes are as near as that: the nearest are 6.96 days apart (Noronha, 2000)


def stretch_of(instant: Instant, zone: tzinfo) -> Stretch:
    """The stretch that the instant is in. Costs a look into a cache; a new zone or year some 100 microseconds."""
    for part in _stretches(zone, instant >> _BLOCK_BITS):
        if instant < part.end:
            return part
    raise AssertionError(f"no stretch of {zone!r} holds {instant}")


@lru_cache(maxsize=4_096)
def _stretches(zone: tzinfo, block: int) -> tuple[Stretch, ...]:
    """The stretches that cover one block of time, in order."""
    low, high = block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS
    first_us = _offset_us(low - _MARGIN_US, zone)
    if type(zone) is timezone:
        return (Stretch(low, high, first_us, first_us, first_us),)
    parts = []
    start, before_us, offset_us = low, first_us, first_us
    for when, after_us in _changes(zone, low - _MARGIN_US, high + _MARGIN_US):
        if when > low:
            parts.append(Stretch(start, when, offset_us, before_us, after_us))
        start, before_us, offset_us = when, offset_us, after_us
        if when >= high:
            break
    else:
        parts.append(Stretch(start, high, offset_us, before_us, offset_us))
    return tuple(parts)


def _changes(zone: tzinfo, low: int, high: int) -> Iterator[tuple[int, int]]:
    """(when, offset from then on) of each change in (low, high]: sampled, and then bisected to the second."""
    offset_us = _offset_us(low, zone)
    while low < high:
        step = min(low + _STEP_US, high)
        after_us = _offset_us(step, zone)
        if after_us != offset_us:
            left, right = low // SECOND_US, -(-step // SECOND_US)  # changes come at whole seconds
            while right - left > 1:
                middle = (left + right) // 2
                if _offset_us(middle * SECOND_US, zone) == offset_us:
                    left = middle
                else:
                    right = middle
            yield right * SECOND_US, after_us
            offset_us = after_us
        low = step


def _offset_us(instant: int, zone: tzinfo) -> int:
    """What to add to the instant for the wall time. Near the ends of the calendar, the offset a day further in."""
    instant = min(max(instant, MIN_INSTANT + DAY_US), MAX_INSTANT - DAY_US)
    there = (_NAIVE_EPOCH + timedelta(microseconds=instant)).replace(tzinfo=zone)
    wall = zone.fromutc(there).replace(tzinfo=None)  # fromutc takes UTC with the zone put on it
    return (wall - _NAIVE_EPOCH) // _MICROSECOND - instant


def naive_us(wall: datetime) -> int:
    """Microseconds from 1970-01-01 00:00 of the wall clock to a naive wall time."""
    return (wall - _NAIVE_EPOCH) // _MICROSECOND


def naive_of(wall_us: int) -> datetime:
    """The naive wall time so many microseconds after 1970-01-01 00:00 of the wall clock."""
    try:
        return _NAIVE_EPOCH + timedelta(microseconds=wall_us)
    except OverflowError:
        raise RuleError("a wall time beyond the years 1 to 9999; choose a nearer time") from None


def _passes(wall: datetime, zone: tzinfo) -> tuple[Instant, ...]:
    """The instants of a naive wall time: none in a gap, two in an overlap."""
    wall_us = naive_us(wall)
    # Offsets lie between -16 and +16 hours, so the offset before and after any change near by is one of these two.
    offsets = {stretch_of(Instant(wall_us + far_us), zone).offset_us for far_us in (-DAY_US, DAY_US)}
    found = sorted(wall_us - offset_us for offset_us in offsets)
    return tuple(
        Instant(instant)
        for instant in found
        if MIN_INSTANT <= instant <= MAX_INSTANT and stretch_of(Instant(instant), zone).offset_us == wall_us - instant
    )


def _fixed_offset(zone: tzinfo) -> timedelta:
    return zone.utcoffset(None) or timedelta(0)


def _zone_named(name: str, what: str) -> tzinfo:
    """The zone of a key, or of a fixed offset."""
    if name in _UTC_NAMES:
        return UTC
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        sign, hours, minutes, seconds, micros = fixed.groups()
        size = timedelta(
            hours=int(hours), minutes=int(minutes), seconds=int(seconds or 0), microseconds=int(micros or 0)
        )
        if int(minutes) > 59 or int(seconds or 0) > 59 or size >= timedelta(days=1):
            raise RuleError(f"{what}: {shown(name)} is no offset; it is written +HH:MM, and is less than a day")
        return zone_of(timezone(-size if sign == "-" else size), what)
    if name in _HOST_NAMES:
        raise RuleError(
            f"{what}: {shown(name)} would be another zone on another machine; name it, e.g. 'Europe/Berlin'"
        )
    if name.startswith(("posix/", "right/")):
        raise RuleError(f"{what}: {shown(name)} is a private part of the zone database; give {name[6:]!r}")
    zone = _loaded(name)
    if zone is None:
        raise RuleError(f"{what}: {shown(name)} is no zone of the database; {_hint(name)}")
    return zone


@cache  # some 600 zones; a rule's zone stays the same object, also after ZoneInfo.clear_cache()
def _known(key: str) -> ZoneInfo:
    return ZoneInfo(key)


def _loaded(key: str) -> ZoneInfo | None:
    """None for what is no key: some of them are directories, some no file names at all."""
    try:
        return _known(key)
    except (LookupError, ValueError, OSError):
        return None


def _hint(name: str) -> str:
    """Near keys. Costs some 20 ms, since the whole database is listed."""
    keys = sorted(available_timezones() - _HOST_NAMES)
    if not keys:
        return "this machine has no zone database at all: pip install tzdata"
    short = name[:60].casefold()
    folded = {key.casefold(): key for key in keys}
    cities = [key for key in keys if key.casefold().rsplit("/", 1)[-1] == short.replace(" ", "_")]
    near = (
        [folded[short]] if short in folded else cities or [folded[f] for f in difflib.get_close_matches(short, folded)]
    )
    return f"did you mean {', '.join(map(repr, near[:3]))}?" if near else "give a key such as 'Europe/Berlin', or 'UTC'"
