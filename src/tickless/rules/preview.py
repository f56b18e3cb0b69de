"""What a rule will do: `between` gives its fires, `preview` the next ones with notes on what is unusual about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from typing import Literal

from tickless.errors import RuleError, shown
from tickless.instants import MAX_INSTANT, SECOND_US, Instant, datetime_of, instant_of
from tickless.rules.asking import Rule, checked_next, first_fire, span
from tickless.rules.combine import MOST_SHIFT_DAYS, Filtered, Union
from tickless.rules.counting import COUNT_LIMIT
from tickless.rules.cron import Cron
from tickless.rules.days import first_out, is_plain
from tickless.rules.every import Every
from tickless.rules.grammar import crontab
from tickless.rules.notes import notes_on, zone_shown
from tickless.rules.walls import wall_near, zone_named
from tickless.rules.zones import MissingTime, next_change, wall_of, zone_of

MOST_PARTS = 20
"""Unions of more rules are not counted beyond 1,000 fires."""
YEAR_US = 365 * 86_400 * SECOND_US


@dataclass(frozen=True, slots=True)
class Fire:
    """One entry of a preview: `due` in UTC, `local` the same instant in the rule's zone, and notes for people.

    Where the wall time there would leave the years 1 to 9999, `local` is in UTC.
    """

    due: datetime
    local: datetime
    notes: tuple[str, ...]


def between(rule: Rule, start: datetime, stop: datetime) -> Iterator[datetime]:
    """The fires after `start`, up to and including `stop`, in UTC, ascending; each is looked for when it is asked for.

    So spans side by side share no fire and lose none. A rule that is not bound is bound to `start`. Raises RuleError
    for a naive datetime and for a stop before the start; from the iterator, as `checked_next` does.
    """
    first, last = instant_of(start, "between(start)"), instant_of(stop, "between(stop)")
    if last < first:
        raise RuleError(f"between({shown(start)}, {shown(stop)}): the stop lies before the start; swap them")
    return (datetime_of(fire) for fire in _fires(rule.bound(first), first, last))


def preview(rule: Rule, start: datetime, n: int = 10, *, tz: str | tzinfo | None = None) -> list[Fire]:
    """The next `n` fires after `start`, fewer where the rule ends, each with notes.

    Notes tell of wall times that do not exist or come twice, and of days that a month does not have. `tz` is the zone
    of `local`; without it the rule's own, or UTC. A rule that is not bound is bound to `start`. A one-shot that is due
    by `start`, which a schedule would run at once, is the one entry. Costs what asking for the fires does, and some
    microseconds for each change of the clocks on the way. Raises RuleError, also for a rule whose gap="raise" does.
    """
    if type(n) is not int or n < 0:
        raise RuleError(f"preview(n={shown(n)}): needs a whole number of fires, 0 or more")
    return list(islice(upcoming(rule, start, tz=tz), n))


def upcoming(rule: Rule, start: datetime, *, tz: str | tzinfo | None = None) -> Iterator[Fire]:
    """What `preview` lists, one by one: for those who do not know how many they want."""
    asked = instant_of(start, "preview(start)")
    zone = zone_of(tz, "preview(tz=)") if tz is not None else zone_shown(rule) or UTC
    bound = rule.bound(asked)
    if not rule.recurring:
        due = first_fire(bound, asked)
        if due is not None and due <= asked:
            yield _entry(due, zone, ("runs at once" if due == asked else "has passed, and runs at once",))
            return
    if type(bound) is Every and bound.sliding:
        notes: tuple[str, ...] = ("the ones after it count from the finish of each run",)
        yield from (_entry(due, zone, notes) for due in _fires(bound, asked))
        return
    before = asked
    for due in _fires(bound, asked):
        yield _entry(due, zone, tuple(notes_on(bound, before, due)))
        before = due


def _entry(due: Instant, zone: tzinfo, notes: tuple[str, ...]) -> Fire:
    try:
        local = wall_of(due, zone).replace(tzinfo=zone)  # its fold is right, so that the offset is, too
    except RuleError:  # within hours of the end of the year 9999
        local = datetime_of(due)
    return Fire(datetime_of(due), local, notes)


def _fires(rule: Rule, after: Instant, until: Instant | None = None) -> Iterator[Instant]:
    try:
        while (fire := checked_next(rule, after)) is not None and (until is None or fire <= until):
            yield fire
            after = fire
    except RuleError as error:
        if until is None or not lies_beyond(error, until):
            raise


def lies_beyond(error: RuleError, until: Instant) -> bool:
    """Whether a rule refused a fire, with gap="raise", whose turn comes after `until`."""
    missing = error.__cause__ or error  # a rule with foreign parts is quoted
    return isinstance(missing, MissingTime) and missing.end > until


@dataclass(frozen=True, slots=True)
class Count:
    """A number of fires, and how well it is known."""

    fires: int
    known: Literal["exactly", "about", "at least", "at most"]


def fires_in_year(rule: Rule, start: datetime) -> Count:
    """How often the rule fires in the 365 days after `start`; bound to that if it is not bound.

    Exact to 1,000, and for `every` always; at most so many where each run puts off the next. For more of a cron, about:
    the matching times of a day times the matching days. For more of a union, at most: the sum, and two days' fires more
    for each cron of which it is known about. A one-shot that is due runs at once, and so counts. Costs at most 1,000
    questions, and as many for each part of a union. Raises RuleError as `checked_next` does.
    """
    asked = instant_of(start, "fires_in_year(start)")
    until = Instant(min(asked + YEAR_US, MAX_INSTANT))
    bound = rule.bound(asked)
    if not rule.recurring:
        due = first_fire(bound, asked)
        return Count(int(due is not None and due <= until), "exactly")
    if type(bound) is Every and bound.sliding:
        return Count(YEAR_US // bound.interval_us, "at most")
    if type(bound) is Union and len(bound.rules) <= MOST_PARTS:
        counts = [fires_in_year(part, start) for part in bound.rules]
        fires = sum(
            count.fires + (count.known == "about") * 2 * _a_day(part)
            for part, count in zip(bound.rules, counts, strict=True)
        )
        if fires >= 2 * COUNT_LIMIT:  # else the union itself is counted, each fire once
            known = all(count.known != "at least" for count in counts)
            return Count(fires, "at most") if known else Count(max(count.fires for count in counts), "at least")
    about = _estimate(bound, asked)
    if about > COUNT_LIMIT:
        return Count(about, "about")
    found = span(bound, asked, until)
    if found is None:
        return Count(0, "exactly")
    return Count(found[0], "exactly" if found[0] < COUNT_LIMIT or type(bound) is Every else "at least")


def _estimate(rule: Rule, asked: Instant) -> int:
    """Of a cron, or of one that is confined to days of ours, the times of a day times the days; 0 for others.

    Clock changes, and the halves of the first and the last day, are left out.
    """
    filters: list[Filtered] = []
    times = _a_day(rule)
    while type(rule) is Filtered and is_plain(rule.cal):
        filters.append(rule)
        rule = rule.rule
    if type(rule) is not Cron:
        return 0
    table, first = crontab(rule.expr), wall_near(asked, zone_named(rule.tz)).date()
    last = first + timedelta(min(364, (date.max - first).days))
    early = first - timedelta(min(MOST_SHIFT_DAYS, (first - date.min).days))  # from there a fire may have been moved
    year = (early + timedelta(days) for days in range((last - early).days + 1))
    days = {day for day in year if table.search.match_day(day) and day.month in table.months}
    for one in reversed(filters):
        kept = {day for day in days if (day in one.cal) is (one.kind == "on_days")}
        if one.shift == "next":
            moved = (first_out(one.cal, day, MOST_SHIFT_DAYS + 1) for day in days - kept)
            kept |= {day for day in moved if day is not None}
        days = kept
    return sum(first <= day <= last for day in days) * times


def _a_day(rule: Rule) -> int:
    """The times of a day of a cron, or of one that is confined to some days; 0 for others."""
    while type(rule) is Filtered:
        rule = rule.rule
    if type(rule) is not Cron:
        return 0
    table = crontab(rule.expr)
    return len(table.hours) * len(table.minutes) * len(table.seconds)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """Clocks of a zone are put forward or back at `at`, by an instant; offsets from UTC in microseconds."""

    at: Instant
    before_us: int
    after_us: int


def clock_changes(zone: tzinfo, start: datetime, n: int = 2) -> list[ClockChange]:
    """The next `n` changes of the zone's offset after `start`; fewer where the next two years have none."""
    found: list[ClockChange] = []
    after = instant_of(start, "clock_changes(start)")
    while len(found) < n and (change := next_change(zone, after)) is not None:
        after, before_us, after_us = change
        found.append(ClockChange(after, before_us, after_us))
    return found
