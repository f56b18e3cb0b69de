"""What is unusual about a fire, in words: its wall time does not exist, comes twice, or was moved."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, tzinfo
from functools import lru_cache

from tickless.errors import RuleError
from tickless.instants import SECOND_US, Instant
from tickless.rules.asking import Rule, checked_next, span
from tickless.rules.at import At
from tickless.rules.calendars import Calendar
from tickless.rules.combine import Filtered, Union
from tickless.rules.cron import Cron
from tickless.rules.days import DAY, listed
from tickless.rules.forms import from_json, to_json
from tickless.rules.rrule import RRule
from tickless.rules.walls import day_begin, zone_named
from tickless.rules.zones import (
    DATE_LINE_US,
    MissingTime,
    instants_at,
    is_twice,
    naive_of,
    next_change,
    stretch_of,
    wall_of,
    zone_name,
)

MOST_MOVED_DAYS = 31
MOST_MOVED_FIRES = 200
"""So far back, and through so many fires, the origin of a moved fire is looked for."""
MOST_CHANGES = 200
"""So many changes of the clocks between two fires are looked at: a century's."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def zone_shown(rule: Rule) -> tzinfo | None:
    """The zone whose wall clock the rule follows; of several parts the first that has one; None for elapsed time."""
    if type(rule) is Union:
        return next((zone for part in rule.rules if (zone := zone_shown(part)) is not None), None)
    if type(rule) is Filtered:
        return zone_shown(rule.rule)
    tz = rule.tz if isinstance(rule, At | Calendar | Cron | RRule) else None
    return None if tz is None else zone_named(tz)


def notes_on(rule: Rule, before: Instant, fire: Instant) -> list[str]:
    """What is unusual about `fire`, and about the time since `before`, the fire before it; each once, in order.

    Asks our own rules only. Costs some microseconds where clocks do not change in between.
    """
    try:
        return list(dict.fromkeys(_notes(rule, before, fire, ())))
    except RuleError:  # within hours of an end of the calendar, where there is no wall time
        return []


def _notes(rule: Rule, before: Instant, fire: Instant, filters: tuple[Filtered, ...]) -> Iterator[str]:
    if type(rule) is Union:
        for part in rule.rules:
            yield from _notes(part, before, fire, filters)
    elif type(rule) is Filtered:
        yield from _notes(rule.rule, before, fire, (*filters, rule))
        if rule.shift == "next" and not _fires_at(rule.rule, fire):
            yield from _moved(rule, fire)
    elif type(rule) is At:
        if rule.due == fire:
            yield from _once(rule)
    elif isinstance(rule, Cron | Calendar | RRule):
        zone = zone_named(rule.tz)
        yield from _missing(rule, filters, zone, before, fire)
        yield from _repeated(rule, zone, fire)
        if isinstance(rule, Calendar) and _fires_at(rule, fire):
            yield from _clamped(rule, wall_of(fire, zone))


def _fires_at(rule: Rule, fire: Instant) -> bool:
    try:
        return checked_next(rule, Instant(fire - 1)) == fire
    except RuleError:  # gap="raise": another fire's turn would be next
        return False


@lru_cache(maxsize=256)
def _in_utc(rule: Cron | Calendar | RRule) -> Rule:
    """The rule as if its zone were UTC, where every wall time exists once: its fires are the wall times it wants.

    Without COUNT and UNTIL, which would end elsewhere there: count what is skipped, and take UTC for wall time.
    """
    form = {**to_json(rule), "tz": "UTC", "gap": "next", "fold": "first"}
    if type(rule) is RRule:
        form["rrule"] = ";".join(part for part in rule.text.split(";") if not part.startswith(("COUNT=", "UNTIL=")))
    try:
        return from_json(form)
    except RuleError:  # its second fire, which COUNT left out, is too far away
        return from_json({**form, **({"rrule": rule.text} if type(rule) is RRule else {})})


def _missing(
    rule: Cron | Calendar | RRule, filters: tuple[Filtered, ...], zone: tzinfo, before: Instant, fire: Instant
) -> Iterator[str]:
    """The wanted wall times that clocks were put forward over, in (before, fire], on days that are left."""
    after, twin = before, _in_utc(rule)
    for _ in range(MOST_CHANGES):
        change = next_change(zone, after)
        if change is None or change[0] > fire:
            return
        after, before_us, after_us = change
        if after_us < before_us:
            continue
        lost = span(twin, Instant(after + before_us - 1), Instant(after + after_us - 1))
        if lost is None:
            continue
        first, last = naive_of(lost[1]), naive_of(lost[2])
        # What was left out anyway need not be explained by the clocks, nor what comes after the rule's end.
        if not all((first.date() in one.cal) is (one.kind == "on_days") for one in filters) or _ended(rule, after):
            continue
        moved = rule.gap == "next" and after_us - before_us < DATE_LINE_US
        which = f"{_time(first)} does" if first == last else f"{_time(first)} to {_time(last)} do"
        what = f"fires at {_time(wall_of(after, zone))}" if moved else "no fire then"
        yield f"{which} not exist on {_day(first, wall_of(fire, zone))} in {zone_name(zone)}; {what}"


def _ended(rule: Rule, after: Instant) -> bool:
    """Of a rule in a union: it has no fire any more from `after` on."""
    try:
        return checked_next(rule, Instant(after - 1)) is None
    except RuleError:  # gap="raise": there is one
        return False


def _repeated(rule: Rule, zone: tzinfo, fire: Instant) -> Iterator[str]:
    """Whether the fire's wall time comes twice, and what becomes of the other one."""
    wall = wall_of(fire, zone)
    if not is_twice(wall, zone) or not _fires_at(rule, fire):
        return
    passes = instants_at(wall, zone, "next", "both")
    which = "first" if fire == passes[0] else "second"
    both = all(_fires_at(rule, one) for one in passes)
    what = f"fires both times, this is the {which}" if both else f"fires the {which} time"
    yield f"{_time(wall)} comes twice on {_day(wall)} in {zone_name(zone)}; {what} ({offset_text(fire, zone)})"


def _once(rule: At) -> Iterator[str]:
    """Of a wall time that was given with its zone: what became of it there."""
    if rule.local is None or rule.tz is None:
        return
    zone = zone_named(rule.tz)
    there = wall_of(rule.due, zone)
    if there != rule.local:
        yield f"{_time(rule.local)} does not exist on {_day(rule.local)} in {rule.tz}; fires at {_time(there)}"
    yield from _repeated(rule, zone, rule.due)


def _clamped(rule: Calendar, wall: datetime) -> Iterator[str]:
    """Where a month has no such day as the one that is counted from."""
    if rule.months and rule.start is not None and wall.day < rule.start.day and wall.day >= 28:
        yield f"{_MONTHS[wall.month - 1]} {wall.year} has no {_nth(rule.start.day)}; fires on the {_nth(wall.day)}"


def _moved(rule: Filtered, fire: Instant) -> Iterator[str]:
    """From which days that are left out a fire came."""
    zone = zone_named(rule.tz)
    landed = wall_of(fire, zone)
    first, there = landed.date(), landed
    while first > date.min and (landed.date() - first).days < MOST_MOVED_DAYS and first - DAY in rule.cal:
        first -= DAY
    after, days, lost = Instant(day_begin(first, zone) - 1), list[str](), list[str]()
    for _ in range(MOST_MOVED_FIRES):
        try:
            own = rule.rule.next_after(after)
        except MissingTime as missing:
            own, there = missing.end, missing.wall
        else:
            there = there if own is None else wall_of(own, zone)
        if own is None or own >= fire:
            break
        wanted = datetime.combine(landed, there.time())
        if there.date() < landed.date() and instants_at(wanted, zone, "next", "first") == (fire,):
            days.append(_day(there, landed))
            if wanted != landed.replace(fold=0):
                lost.append(f"{_time(wanted)} does not exist on {_day(wanted)} in {zone_name(zone)}")
        after = own
    if days:
        yield f"moved from {listed(list(dict.fromkeys(days)))}"
        yield from (f"{which}; fires at {_time(landed)}" for which in dict.fromkeys(lost))
        yield from _repeated(rule, zone, fire)


def offset_text(instant: Instant, zone: tzinfo) -> str:
    """The offset from UTC that holds there and then: `+02:00`, with seconds where there are any."""
    seconds = stretch_of(instant, zone).offset_us // SECOND_US
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{rest:02}" if rest else text


def _time(wall: datetime) -> str:
    """`02:30`; seconds where there are any."""
    return wall.strftime("%H:%M:%S" if wall.second else "%H:%M")


def _nth(day: int) -> str:
    """`28th`, `31st`; of the days that a month may lack."""
    return f"{day}{'st' if day % 10 == 1 else 'th'}"


def _day(wall: datetime, beside: datetime | None = None) -> str:
    """`28 Mar`, in English whatever the host speaks; with its year where that is not the one of `beside`."""
    year = "" if beside is None or beside.year == wall.year else f" {wall.year}"
    return f"{wall.day} {_MONTHS[wall.month - 1]}{year}"
