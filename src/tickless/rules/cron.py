"""`cron(expr, tz=)`: fires where the wall clock of a zone matches a cron expression.

cronsim searches naive wall time; here that is laid over the zone's stretches of constant offset. All in integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from itertools import islice
from typing import Any, final

from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant
from tickless.rules.combine import not_on, on_days, union, union_reversed
from tickless.rules.counting import COUNT_LIMIT, newest
from tickless.rules.grammar import Crontab, crontab, normal
from tickless.rules.walls import choices_text, choices_words, fold_choice, gap_choice, zone_named
from tickless.rules.words import cron_words
from tickless.rules.zones import (
    DATE_LINE_US,
    DAY_US,
    Fold,
    Gap,
    MissingTime,
    Stretch,
    naive_of,
    naive_us,
    stretch_of,
    zone_name,
    zone_of,
)

_NEVER = 1 << 62
"""A wall time later than any."""
_FAR_US = 2 * DAY_US
"""Longer than any gap or overlap."""


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Cron:
    """Fires where the wall clock of `tz` (default UTC) matches five cron fields, or six with the second first.

    `tz` is a key such as "Europe/Berlin", an offset such as "+05:30", a ZoneInfo with a key, or a datetime.timezone.
    A day must match day and weekday where one of these two starts with `*`; else one of them is enough, as in Debian.
    An expression is *fixed* where neither second, minute nor hour starts with `*`. Then each matching time of day fires
    once: in the first pass where it comes twice, and where it does not exist at the end of the gap, several in one gap
    as one. Others are wildcards: they fire in both passes, and not for times that do not exist.
    `gap="next" | "skip" | "raise"` and `fold="first" | "last" | "both"` override that. In a gap of three hours or more,
    where a zone moved over the date line, "next" drops the fire. With "raise", `next_after` raises RuleError there.

    Two are equal when expression (but for case and spaces), zone, gap and fold are. Raises RuleError, with a hint, for
    what the grammar refuses (docs/time.md has the list), for an expression that never fires, and for unknown zones.
    """

    expr: str
    tz: str
    gap: Gap
    fold: Fold
    recurring = True
    wall = True

    def __init__(
        self, expr: str, *, tz: str | tzinfo = "UTC", gap: Gap | None = None, fold: Fold | None = None
    ) -> None:
        text = normal(expr)
        fixed = crontab(text).fixed
        write = object.__setattr__
        write(self, "expr", text)
        write(self, "tz", zone_name(zone_of(tz, "cron(tz=)")))
        write(self, "gap", gap_choice(gap, default_gap(fixed), "cron"))
        write(self, "fold", fold_choice(fold, default_fold(fixed), "cron"))

    def bound(self, now: Instant) -> Cron:
        """Itself: the wall clock is the same whenever it was scheduled."""
        return self

    def next_after(self, after: Instant) -> Instant | None:
        """The first fire strictly after `after`, or None when there is none up to the year 9999.

        Costs one search of cronsim. Raises RuleError for a fire that falls into a gap, with gap="raise".
        """
        return next(_fires(self, after), None)

    def span(self, after: Instant, until: Instant) -> tuple[int, Instant, Instant] | None:
        """(count, first, last) of the fires in (after, until], None if there are none.

        The count is exact to 1,000, and 1,000 means "at least"; the others are exact. The last is found by bisection.
        """
        first = self.next_after(after)
        if first is None or first > until:
            return None
        count, last = 1, first
        for fire in islice(_fires(self, first), COUNT_LIMIT - 1):
            if fire > until:
                return count, first, last
            count, last = count + 1, fire
        return count, first, newest(self.next_after, last, until)

    __or__ = union
    __ror__ = union_reversed
    on_days = on_days
    not_on = not_on

    def __reduce__(self) -> tuple[Callable[..., Cron], tuple[Any, ...]]:
        """Pickled as it is written, so that later versions read it, and check it again."""
        return _again, (self.expr, self.tz, self.gap, self.fold)

    def __repr__(self) -> str:
        zone = f", tz={self.tz!r}" if self.tz != "UTC" else ""
        return f"cron({self.expr!r}{zone}{choices_text(*self._choices())})"

    def __str__(self) -> str:
        """What it means, in words: "every 15 minutes from 09:00 to 17:45, Monday to Friday, Europe/Paris"."""
        table = crontab(self.expr)
        text = cron_words(table)
        gap, usual_gap, fold, usual_fold = self._choices()
        if table.fixed and self._looks_wild(text, table):
            usual_gap, usual_fold = default_gap(False), default_fold(False)
        return f"{text}, {self.tz}{choices_words(gap, usual_gap, fold, usual_fold)}"

    def _looks_wild(self, text: str, table: Crontab) -> bool:
        """`0-59 0-23` has the words of `* *`, but is fixed: what it does where clocks change must be said."""
        night = not {0, 1, 2, 3}.isdisjoint(table.hours)  # when clocks are changed
        recurs = text.startswith("every ") and not text.startswith("every day")
        return recurs and night and type(zone_named(self.tz)) is not timezone

    def without_gaps(self) -> Cron:
        """The same with gap="skip"."""
        return _again(self.expr, self.tz, "skip", self.fold)

    def _choices(self) -> tuple[Gap, Gap, Fold, Fold]:
        """What was chosen for gap and fold, each with what it would be otherwise."""
        fixed = crontab(self.expr).fixed
        return self.gap, default_gap(fixed), self.fold, default_fold(fixed)


def default_gap(fixed: bool) -> Gap:
    """What happens to a time that does not exist, where nothing was said."""
    return "next" if fixed else "skip"


def default_fold(fixed: bool) -> Fold:
    """Which pass of a time that comes twice counts, where nothing was said."""
    return "first" if fixed else "both"


def _again(expr: str, tz: str, gap: Gap, fold: Fold) -> Cron:
    """A pickled rule, read."""
    return Cron(expr, tz=tz, gap=gap, fold=fold)


class _Search:
    """Matching wall times as integers, in microseconds; _NEVER where there are no more."""

    __slots__ = ("_found", "_table")

    def __init__(self, table: Crontab) -> None:
        self._table = table
        self._found: Iterator[datetime] = iter(())

    def after(self, wall_us: int) -> int:
        """The first match strictly after a wall time."""
        try:
            self._found = self._table.search_from(naive_of(max(wall_us, MIN_INSTANT)))
        except RuleError:  # past the calendar
            return _NEVER
        return self.following()

    def following(self) -> int:
        """The match after the last one given."""
        try:
            wall = next(self._found, None)
        except OverflowError:  # the search ran out of the year 9999
            return _NEVER
        return _NEVER if wall is None else naive_us(wall)


def _fires(rule: Cron, after: Instant) -> Iterator[Instant]:
    """The fires strictly after `after`, in order. Walks from stretch to stretch of the zone.

    `wall` is the next match that is not yet given: all matches before it are done with, or in an overlap ahead, whose
    second pass is searched anew. Where the next match is far away, the stretches before it are left out.
    """
    zone, fold = zone_named(rule.tz), rule.fold
    after = max(after, Instant(MIN_INSTANT - 1))
    search = _Search(crontab(rule.expr))
    part = stretch_of(after, zone)
    low = after + part.offset_us
    if fold == "first" and low < part.start + part.before_us:
        low = part.start + part.before_us - 1  # in the second pass, whose times are done with
    wall = search.after(low)
    while True:
        top = part.end + (min(part.offset_us, part.after_us) if fold == "last" else part.offset_us)
        while wall < top:
            fire = wall - part.offset_us
            if fire > MAX_INSTANT:
                return
            yield Instant(fire)
            wall = search.following()
        if part.after_us >= part.offset_us and wall - part.offset_us > part.end + _FAR_US:
            if wall == _NEVER:
                return
            part = stretch_of(Instant(wall - part.offset_us - _FAR_US), zone)
            continue
        change_us = part.after_us - part.offset_us  # 0 where the stretch is only cut off
        part = stretch_of(Instant(part.end), zone)
        if change_us > 0:
            start, wall = _over_gap(rule, part, wall, search)
            if start is not None:
                yield start
        elif change_us < 0 and fold != "first":
            wall = search.after(part.start + part.offset_us - 1)


def _over_gap(rule: Cron, part: Stretch, wall: int, search: _Search) -> tuple[Instant | None, int]:
    """(the fire at the end of the gap before `part`, if any, the next match from there on)."""
    end = part.start + part.offset_us
    if wall >= end:
        return None, wall
    if rule.gap == "raise":
        raise MissingTime(
            f"{rule!r}: {naive_of(wall):%Y-%m-%d %H:%M:%S} does not exist in {rule.tz}, where clocks are "
            f'put forward over it; choose another time, or gap="next" or "skip"',
            naive_of(wall),
            Instant(part.start),
        )
    if rule.gap == "next" and part.offset_us - part.before_us < DATE_LINE_US:
        return Instant(part.start), search.after(end)  # strictly after: a match at the end itself is the same fire
    return None, search.after(end - 1)


cron = Cron
