"""Wall times in order become instants in order: what calendar intervals and RRULEs share.

Cron goes another way (`cron.py`), since its gaps and overlaps depend on the expression.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, tzinfo
from functools import lru_cache
from typing import get_args

from tickless.errors import RuleError, shown
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant
from tickless.rules.zones import Fold, Gap, MissingTime, gap_at, instants_at, naive_of, naive_us, stretch_of, zone_of

MIN_WALL = datetime.min  # noqa: DTZ901  # wall times are naive
MAX_WALL = datetime.max  # noqa: DTZ901  # wall times are naive
_MIN_WALL_US = naive_us(MIN_WALL)
_MAX_WALL_US = naive_us(MAX_WALL)


@lru_cache(maxsize=1_024)
def zone_named(tz: str) -> tzinfo:
    """The zone of a name that a rule holds: the rule has checked it."""
    return zone_of(tz, "tz")


def wall_from(after: Instant, zone: tzinfo, fold: Fold) -> datetime:
    """The earliest wall time (naive) that may have an instant strictly after `after`, when `fold` chooses.

    Within the years 1 to 9999, whatever `after` is.
    """
    part = stretch_of(after, zone)
    wall_us = after + part.offset_us
    if fold != "first" and part.end + part.after_us <= wall_us:
        wall_us = part.end + part.after_us  # in the first pass of an overlap: all of it comes again
    return naive_of(min(max(wall_us, _MIN_WALL_US), _MAX_WALL_US))


def fires_of(walls: Iterable[datetime], zone: tzinfo, gap: Gap, fold: Fold, after: Instant) -> Iterator[Instant]:
    """The instants of ascending naive wall times that lie strictly after `after`: ascending, each once.

    With gap="raise" a wall time that does not exist raises RuleError when its turn comes. So the wall times begin where
    `wall_from(after, ...)` says, or one that has been would raise.
    """
    second: deque[Instant] = deque()  # of fold="both": passes that come after the next wall times' first
    for wall in walls:
        try:
            found = instants_at(wall, zone, gap, fold)
        except MissingTime:
            yield from second
            raise
        while found and second and second[0] < found[0]:
            after = second.popleft()
            yield after
        for instant in found[:1]:
            if instant > after:  # not so: it was asked about, or two wall times of one gap became one
                after = instant
                yield instant
        second.extend(instant for instant in found[1:] if instant > after)
    yield from second


def gap_choice(gap: Gap | None, default: Gap, what: str) -> Gap:
    """What was given for `gap`, or the default. Raises RuleError for what is no choice."""
    if gap is None:
        return default
    if type(gap) is not str or gap not in get_args(Gap):
        raise RuleError(f'{what}(gap={shown(gap)}): needs "next", "skip" or "raise"')
    return gap


def fold_choice(fold: Fold | None, default: Fold, what: str) -> Fold:
    """What was given for `fold`, or the default. Raises RuleError for what is no choice."""
    if fold is None:
        return default
    if type(fold) is not str or fold not in get_args(Fold):
        raise RuleError(f'{what}(fold={shown(fold)}): needs "first", "last" or "both"')
    return fold


def choices_text(gap: Gap, default_gap: Gap, fold: Fold, default_fold: Fold) -> str:
    """The two as they are written at the end of a rule's repr; what is the default is left out."""
    text = "" if gap == default_gap else f", gap={gap!r}"
    return text if fold == default_fold else f"{text}, fold={fold!r}"


def choices_words(gap: Gap, default_gap: Gap, fold: Fold, default_fold: Fold) -> str:
    """The same for people."""
    words = {
        "next": "right after it where clocks are put forward over it",
        "skip": "not where clocks are put forward over it",
        "raise": "an error where clocks are put forward over it",
        "first": "the first time where clocks are put back over it",
        "last": "the last time where clocks are put back over it",
        "both": "twice where clocks are put back over it",
    }
    parts = [words[given] for given, default in ((gap, default_gap), (fold, default_fold)) if given != default]
    return "".join(f", {part}" for part in parts)


def wall_near(instant: Instant, zone: tzinfo) -> datetime:
    """The naive wall time of an instant; the first or the last of the calendar where it would lie beyond."""
    wall_us = instant + stretch_of(instant, zone).offset_us
    return naive_of(min(max(wall_us, _MIN_WALL_US), _MAX_WALL_US))


def day_begin(day: date, zone: tzinfo) -> Instant:
    """The first instant of a day: midnight, or the end of the gap that midnight is in."""
    midnight = datetime.combine(day, time())
    found = instants_at(midnight, zone, "skip", "first")
    if found:
        return found[0]
    missing = gap_at(midnight, zone)
    return missing[0] if missing is not None else MIN_INSTANT if day.year == 1 else MAX_INSTANT
