"""The text form of rules, for files and the command line: `parse` reads what `text_of` writes, and more.

    text    = rule { "|" rule }                                   fires when any of them does
    rule    = ( every | after | at | cron | rrule ) { filter }
    every   = "every" span [ "sliding" | "from" start ] [ zone ]  clock units: us ms s m h
            | "every" ( [ count ] unit | weekdays ) { "on" weekdays | "at" time | "from" start } [ zone ] { option }
    after   = ( "after" | "in" ) span
    at      = "at" date-time [ zone ] { option }
    cron    = ( five or six fields | "@" name ) [ zone ] { option }
    rrule   = "rrule" parts "from" date-time [ zone ] { option }
    filter  = ( "only" | "not" ) "on" ( weekdays | dates ) [ "shift=next" ]
    option  = "gap=" ( next | skip | raise ) | "fold=" ( first | last | both )

docs/time.md explains it by examples.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, tzinfo
from typing import TYPE_CHECKING, Any, Never

from tickless.errors import RuleError, TextError, shown
from tickless.instants import Instant, datetime_of
from tickless.rules.after import After, Due
from tickless.rules.at import At
from tickless.rules.calendars import Calendar
from tickless.rules.combine import Filtered, Union
from tickless.rules.cron import Cron, default_fold, default_gap
from tickless.rules.days import SHORT_NAMES, Dates, Weekdays
from tickless.rules.every import Every
from tickless.rules.grammar import crontab
from tickless.rules.read import Reader, made
from tickless.rules.rrule import RRule
from tickless.rules.scan import Scanner, clock_text
from tickless.rules.zones import Fold, Gap, gap_at, zone_of

if TYPE_CHECKING:
    from tickless.rules import Rule

MOST_CHARACTERS = 2_000


def parse(text: str, *, tz: str | tzinfo | None = None) -> Rule:
    """The rule that the text says. `tz` is the zone of the parts that name none; without it UTC.

    An `at` with neither an offset nor a zone is refused, unless `tz` is given. Raises TextError, a RuleError that has
    the position and, where one is near, a suggestion.
    """
    if type(text) is not str:
        raise RuleError(f"parse({shown(text)}): needs a text, e.g. 'every 5m'")
    if len(text) > MOST_CHARACTERS:
        raise TextError(f"is {len(text)} characters long, and at most {MOST_CHARACTERS} are read", text)
    default = None if tz is None else zone_of(tz, "parse(tz=)")
    pieces, at_ = [], 0
    for piece in text.split("|"):
        pieces.append(Reader(Scanner(text, at_, at_ + len(piece)), default).rule())
        at_ += len(piece) + 1
    if len(pieces) == 1:
        return pieces[0]
    return made(Scanner(text), 0, lambda: Union(*pieces))


def text_of(rule: Rule) -> str:
    """The text that `parse` reads as an equal rule; zones are always named.

    Raises RuleError, saying why, for what has no text form: bound rules, which `to_json` takes; rules that are confined
    to the days of a foreign object; rules of your own.
    """
    write = _WRITERS.get(type(rule))
    if write is None:
        raise RuleError(f"text_of({shown(rule)}): has no text form; to_json writes what can be written")
    text = write(rule)
    if len(text) > MOST_CHARACTERS:
        _no_text(rule, f"would take {len(text)} characters, more than the {MOST_CHARACTERS} that are read")
    return text


def _no_text(rule: Rule, why: str) -> Never:
    raise RuleError(f"text_of({shown(rule)}): {why}, and has no text form; use to_json")


def _after_text(rule: After) -> str:
    return f"after {clock_text(rule.delay_us)}"


def _due_text(rule: Due) -> str:
    _no_text(rule, "is bound to an instant of elapsed time")


def _at_text(rule: At) -> str:
    if rule.local is None or rule.tz is None:
        return f"at {_instant_text(rule.due)}"
    if rule.gap == "raise" and gap_at(rule.local, zone_of(rule.tz, "tz")) is not None:
        _no_text(rule, "is at a wall time that its zone has come to skip")
    return f"at {_wall_text(rule.local)} {rule.tz}{_options_text(rule, 'raise', 'first')}"


def _every_text(rule: Every) -> str:
    text = f"every {clock_text(rule.interval_us)}"
    if rule.wall and rule.first is not None:
        return f"{text} from {_instant_text(rule.first) if rule.first else 'epoch'}"
    if rule.first is not None:
        _no_text(rule, "is bound to a start")
    return f"{text} sliding" if rule.sliding else text


def _cron_text(rule: Cron) -> str:
    fixed = crontab(rule.expr).fixed
    options = _options_text(rule, default_gap(fixed), default_fold(fixed))
    return f"{rule.expr} {rule.tz}{options}"


def _calendar_text(rule: Calendar) -> str:
    if rule.start is not None and not rule.anchored:
        _no_text(rule, "is bound to a start")
    unit, count = ("weeks", rule.days // 7) if rule.on or (rule.days and rule.days % 7 == 0) else ("days", rule.days)
    if rule.months:
        unit, count = ("months", rule.months) if rule.months % 12 else ("years", rule.months // 12)
    text = f"every {unit[:-1] if count == 1 else f'{count} {unit}'}"
    if rule.on:
        text += f" on {','.join(SHORT_NAMES[number] for number in rule.on)}"
    if rule.at is not None:
        text += f" at {_time_text(rule.at)}"
    if rule.start is not None:
        text += f" from {rule.start.date()}"
    return f"{text} {rule.tz}{_options_text(rule, 'next', 'first')}"


def _rrule_text(rule: RRule) -> str:
    options = _options_text(rule, "skip", "first")
    return f"rrule {rule.text} from {_wall_text(rule.start)} {rule.tz}{options}"


def _union_text(rule: Union) -> str:
    if len(rule.rules) < 2:
        _no_text(rule, "is a union of one rule")
    return " | ".join(map(text_of, rule.rules))


def _filtered_text(rule: Filtered) -> str:
    days = rule.cal
    if type(days) is Weekdays:
        names = days.text()
    elif type(days) is Dates and days.days:
        names = ",".join(map(str, days.days))
    else:
        _no_text(rule, "is confined to days that no text names")
    which = "only on" if rule.kind == "on_days" else "not on"
    return f"{text_of(rule.rule)} {which} {names}" + (" shift=next" if rule.shift == "next" else "")


def _options_text(rule: At | Cron | Calendar | RRule, gap: Gap, fold: Fold) -> str:
    """What differs from the defaults."""
    text = "" if rule.gap == gap else f" gap={rule.gap}"
    return text if rule.fold == fold else f"{text} fold={rule.fold}"


def _time_text(moment: datetime | time) -> str:
    return moment.isoformat(timespec="auto" if moment.second or moment.microsecond else "minutes")


def _wall_text(wall: datetime) -> str:
    return f"{wall.date()}T{_time_text(wall.time())}"


def _instant_text(instant: Instant) -> str:
    return f"{_wall_text(datetime_of(instant))}Z"


_WRITERS: dict[type, Callable[[Any], str]] = {
    After: _after_text,
    Due: _due_text,
    At: _at_text,
    Every: _every_text,
    Cron: _cron_text,
    Calendar: _calendar_text,
    RRule: _rrule_text,
    Union: _union_text,
    Filtered: _filtered_text,
}
