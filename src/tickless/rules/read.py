"""Reads one rule of a text: the grammar of `tickless.rules.text`, one method for each kind of rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Never

from tickless.errors import RuleError, TextError
from tickless.instants import datetime_of
from tickless.rules.after import after
from tickless.rules.at import at
from tickless.rules.calendars import Calendar
from tickless.rules.combine import Shift, not_on, on_days
from tickless.rules.cron import cron
from tickless.rules.days import DAY_NAMES as LONG_NAMES
from tickless.rules.days import SHORT_NAMES, Dates, Weekdays
from tickless.rules.every import every
from tickless.rules.grammar import DAY_NAMES, MACROS, MONTH_NAMES
from tickless.rules.rrule import rrule
from tickless.rules.scan import CLOCK_UNITS_US, UNITS, Scanner, clock_us, nearest
from tickless.rules.zones import instants_at, zone_of

if TYPE_CHECKING:
    from tickless.rules import Rule

_WEEKDAYS = {name.lower(): name[:3].lower() for name in LONG_NAMES} | {name: name for name in SHORT_NAMES}
_OPTIONS = {"gap": ("next", "skip", "raise"), "fold": ("first", "last", "both")}
_CLAUSES = ("on", "at", "from", "sliding")
_FILTERS = ("only", "not")
_KINDS = ("every", "after", "in", "at", "rrule")
_PHRASES = {
    "hourly": "every hour",
    "daily": "every day",
    "weekly": "every week",
    "monthly": "every month",
    "yearly": "every year",
    "annually": "every year",
    "now": "after 0s",
    "weekdays": "every mon-fri",
    "weekday": "mon-fri",
    "weekend": "sat,sun",
    "weekends": "sat,sun",
    "other": "2, as in every 2 weeks",
    "second": "2, as in every 2 weeks",
    "noon": "12:00",
    "midnight": "00:00",
    "quarter": "3 months",
    "fortnight": "2 weeks",
}
"""What people write and this grammar does not have -> what it has."""

_NO_INSTANT = "has neither an offset nor a zone, so it is no instant; add Z, +01:00 or e.g. Europe/Berlin"

_FIELD = re.compile(rf"(?:[\d*,/#?~LWH-]|{'|'.join(DAY_NAMES + MONTH_NAMES)})+", re.IGNORECASE)
"""What may be a field of a cron expression, and is the name of no zone."""
_DAY_LIST = re.compile(r"[a-z]+(?:[-,][a-z]*)*", re.IGNORECASE)


def made(scanner: Scanner, place: int, make: Callable[[], Rule]) -> Rule:
    """What `make` gives; a refusal becomes one that has the place."""
    try:
        return make()
    except TextError:
        raise
    except RuleError as error:
        scanner.fail(str(error), place)


class Reader:
    """Reads one rule, from the first word to the last."""

    def __init__(self, scanner: Scanner, default: tzinfo | None) -> None:
        self.scan = scanner
        self.default = default

    def rule(self) -> Rule:
        scan = self.scan
        start = scan.at
        word = scan.peek().lower()
        if word in ("after", "in"):
            scan.take()
            rule = self._after(start)
        elif word == "at":
            scan.take()
            rule = self._at(start)
        elif word == "every":
            scan.take()
            rule = self._every(start)
        elif word == "rrule":
            scan.take()
            rule = self._rrule(start)
        elif word.startswith("@") or (_FIELD.fullmatch(word) and not re.match(r"\d{4}-\d", word)):
            rule = self._cron(start)
        else:
            self._no_rule(word)
        while scan.peek().lower() in _FILTERS:
            rule = self._filtered(rule, start)
        if scan.peek():
            self._unexpected(scan.peek())
        return rule

    # The kinds

    def _after(self, start: int) -> Rule:
        scan = self.scan
        parts = scan.spans()
        if not parts:
            self._wrong(scan.peek(), "here comes a length of time, e.g. 5m or 1h30m")
        total_us = 0
        for number, unit, place in parts:
            if unit in ("months", "years"):
                scan.fail(
                    f"{unit} differ in length, and a delay is elapsed time; give days or hours, or a date: at", place
                )
            # A day and a week are elapsed time here: 24 hours and 168.
            number_of = {"days": (24, "h"), "weeks": (168, "h")}.get(unit)
            factor, clock_unit = number_of or (1, unit)
            total_us += factor * self._clock_us(number, clock_unit, place)
        return made(scan, start, lambda: after(_delta(scan, total_us, start)))

    def _at(self, start: int) -> Rule:
        scan = self.scan
        place = scan.at
        if re.match(r"\d\d?:\d\d", scan.peek()):
            scan.fail(
                f"at needs a date and a time, e.g. at 2027-01-01T09:00Z; each day at {scan.peek()} is "
                f"'every day at {scan.peek()}'"
            )
        when = scan.moment(f"here comes a date and a time, e.g. 2027-01-01T09:00+01:00{self._hint(scan.peek())}")
        if not isinstance(when, datetime):
            scan.fail(f"{when} has no time; write e.g. {when}T09:00", place)
        named = self._zone()
        options = self._options()
        if when.tzinfo is not None:
            if named is not None:
                scan.fail("has both an offset and a zone, which may contradict; leave one of them out", place)
            return made(scan, start, lambda: at(when, **options))
        zone = named or self.default
        if zone is None:
            scan.fail(_NO_INSTANT, place)
        return made(scan, start, lambda: at(when, tz=zone, **options))

    def _every(self, start: int) -> Rule:
        scan = self.scan
        place = scan.at
        parts = scan.spans()
        if parts:
            if all(unit in CLOCK_UNITS_US for _, unit, _ in parts):
                return self._every_clock(start, sum(self._clock_us(*part) for part in parts))
            return self._every_calendar(start, self._calendar_units(parts), "")
        word = scan.peek().lower()
        unit = UNITS.get(word, "") if len(word) > 2 else ""  # "every m" says too little
        if unit in CLOCK_UNITS_US:
            scan.take()
            return self._every_clock(start, CLOCK_UNITS_US[unit])
        if unit:
            scan.take()
            return self._every_calendar(start, {unit: 1}, "")
        if _DAY_LIST.fullmatch(word) and re.split("[-,]", word)[0] in _WEEKDAYS:
            return self._every_calendar(start, {"weeks": 1}, self._days())
        hint = self._hint(word, UNITS, _WEEKDAYS)
        return scan.fail(f"every what? write e.g. every 5m, every day, every 2 weeks{hint}", place)

    def _every_clock(self, start: int, interval_us: int) -> Rule:
        scan = self.scan
        given: dict[str, Any] = {}
        if scan.takes("sliding"):
            given["sliding"] = True
        elif scan.takes("from"):
            place = scan.at
            if scan.takes("epoch"):
                given["anchor"] = "epoch"
            else:
                anchor = scan.moment("here comes epoch, or a date and a time, e.g. 2027-01-01T09:00Z")
                given["anchor"] = self._instant(anchor, place)
        elif scan.peek().lower() in ("at", "on"):
            scan.fail(f"{scan.peek()!r} belongs to days, weeks, months and years; clock units begin at a start: from")
        return made(scan, start, lambda: every(_delta(scan, interval_us, start), **given))

    def _instant(self, anchor: date, place: int) -> datetime:
        """The start of a grid of clock units: an aware datetime, by its offset or by the zone that follows."""
        scan = self.scan
        if not isinstance(anchor, datetime):
            scan.fail(f"{anchor} has no time; write e.g. {anchor}T09:00Z", place)
        if anchor.tzinfo is not None:
            return anchor
        zone = self._zone() or self.default
        if zone is None:
            scan.fail(_NO_INSTANT, place)
        try:
            return datetime_of(instants_at(anchor, zone, "raise", "first")[0])
        except (RuleError, IndexError) as error:
            scan.fail(str(error) if isinstance(error, RuleError) else "is not within the years 1 to 9999 in UTC", place)

    def _every_calendar(self, start: int, interval: dict[str, Any], days: str) -> Rule:
        scan = self.scan
        given: dict[str, Any] = {"on": days} if days else {}
        while (clause := scan.peek().lower()) in _CLAUSES:
            place = scan.at
            scan.take()
            name = {"from": "anchor"}.get(clause, clause)
            if name in given:
                scan.fail(f"{clause!r} is given twice; leave one of them out", place)
            if clause == "sliding":
                scan.fail("only clock units can be sliding: days are counted in the calendar", place)
            elif clause == "on":
                given[name] = self._days()
            elif clause == "at":
                given[name] = scan.whole_time(f"here comes a time of day, e.g. 09:00{self._hint(scan.peek())}")
            else:
                given[name] = scan.moment("here comes a date, e.g. 2027-01-31")
        given |= self._zone_and_options()
        return made(scan, start, lambda: Calendar(**interval, **given))

    def _cron(self, start: int) -> Rule:
        scan = self.scan
        fields: list[tuple[str, int]] = []
        alias = scan.peek().startswith("@")
        while word := scan.peek():
            enough = alias if alias and fields else len(fields) >= 5
            is_field = _FIELD.fullmatch(word) is not None
            if fields and not is_field and (enough or "=" in word or _is_zone(word)):
                break
            if alias and fields:
                break
            fields.append((word, scan.at))
            scan.take()
        expr = " ".join(field for field, _ in fields)
        try:
            cron(expr)
        except RuleError as error:
            place = _faulty_field(fields, start)
            known = MACROS if alias else (*MONTH_NAMES, *DAY_NAMES)
            wrong = expr if alias else next((field for field, at_ in fields if at_ == place), "")
            scan.fail(f"{error}{nearest(wrong, [name.lower() for name in known])}", place)
        given = self._zone_and_options()
        return made(scan, start, lambda: cron(expr, **given))

    def _rrule(self, start: int) -> Rule:
        scan = self.scan
        parts = scan.take()
        if not parts:
            scan.fail("here come the parts of an RRULE without spaces, e.g. FREQ=WEEKLY;BYDAY=MO")
        if not scan.takes("from"):
            self._wrong(scan.peek(), "an RRULE counts from a start: write from and a date with a time")
        place = scan.at
        first = scan.moment("here comes a date and a time, e.g. 2027-01-01T09:00")
        if not isinstance(first, datetime):
            scan.fail(f"{first} has no time; write e.g. {first}T09:00", place)
        named = self._zone()
        options = self._options()
        zone = named or (self.default if first.tzinfo is None else None)
        if first.tzinfo is not None and named is not None:
            scan.fail("has both an offset and a zone, which may contradict; leave one of them out", place)
        return made(scan, start, lambda: rrule(parts, start=first, tz=zone, **options))

    def _filtered(self, rule: Rule, start: int) -> Rule:
        """`only on mon-fri`, `not on 2027-12-25,2027-12-26 shift=next`."""
        scan = self.scan
        only = scan.take().lower() == "only"
        if not scan.takes("on"):
            self._wrong(scan.peek(), f"here comes 'on': {'only' if only else 'not'} on mon-fri")
        days: Weekdays | Dates = self._dates() if scan.peek()[:1].isdigit() else Weekdays(self._days())
        if only:
            return made(scan, start, lambda: on_days(rule, days))
        shift: Shift = "skip"
        if "=" in scan.peek():
            name, _, value = scan.peek().partition("=")
            if name != "shift" or value not in ("skip", "next"):
                scan.fail(f"{scan.peek()!r} is not expected here; days may be followed by shift=next")
            shift = "next" if value == "next" else "skip"
            scan.take()
        return made(scan, start, lambda: not_on(rule, days, shift))

    # Their parts

    def _clock_us(self, number: str, unit: str, place: int) -> int:
        try:
            return clock_us(number, unit)
        except RuleError as error:
            self.scan.fail(str(error), place)

    def _calendar_units(self, parts: list[tuple[str, str, int]]) -> dict[str, int]:
        """`{"weeks": 2, "days": 1}`. Units that cannot be added up are refused here, where the place is known."""
        units: dict[str, int] = {}
        first = parts[0][1]
        for number, unit, place in parts:
            if (unit in CLOCK_UNITS_US) != (first in CLOCK_UNITS_US):
                self.scan.fail(
                    "a day in the calendar is not always 24 hours, so days and hours cannot be added up; "
                    "write e.g. every 36h, or every day at 12:00",
                    place,
                )
            if "." in number:
                self.scan.fail(f"{number} {unit}: the calendar is counted in whole {unit}", place)
            if unit in units:
                self.scan.fail(f"{unit} are given twice; write their sum", place)
            units[unit] = int(number)
        return units

    def _days(self) -> str:
        """`mon,thu` or `mon-fri`, in lower case and with short names."""
        scan = self.scan
        place, word = scan.at, scan.peek().lower()
        if not word:
            scan.fail("here come days of the week, e.g. mon,thu or mon-fri")
        names = re.split("([-,])", word)
        for index in range(0, len(names), 2):
            name = names[index]
            if name not in _WEEKDAYS:
                at_ = place + sum(len(part) for part in names[:index])
                if not name:
                    scan.fail("here a day is missing; a list is written without spaces: mon,thu", at_)
                scan.fail(f"{name!r} is no day of the week{self._hint(name, _WEEKDAYS)}", at_)
            names[index] = _WEEKDAYS[name]
        scan.take()
        return "".join(names)

    def _dates(self) -> Dates:
        """`2027-12-25,2027-12-26`."""
        scan = self.scan
        days = []
        while True:
            days.append(scan.day("here comes a date, e.g. 2027-12-25"))
            if not scan.peek().startswith(",") or scan.text[scan.at - 1].isspace():
                scan.word_ends("a date")
                return Dates(days)
            scan.at += 1

    def _zone_and_options(self) -> dict[str, Any]:
        zone = self._zone() or self.default
        given: dict[str, Any] = {} if zone is None else {"tz": zone}
        return given | self._options()

    def _zone(self) -> tzinfo | None:
        """The zone that the next word names, None when there is no word or it is an option."""
        scan = self.scan
        word = scan.peek()
        if not word or "=" in word or word.lower() in _FILTERS:
            return None
        try:
            zone = zone_of(word, "zone")
        except RuleError as error:
            hint = nearest(word, _CLAUSES) if "/" not in word else ""
            scan.fail(f"{word!r} is not expected here{hint}" if hint else str(error))
        scan.take()
        return zone

    def _options(self) -> dict[str, Any]:
        scan = self.scan
        given: dict[str, str] = {}
        while "=" in (word := scan.peek()):
            name, _, value = word.partition("=")
            if name not in _OPTIONS:
                scan.fail(f"{name!r} is no option{nearest(name, _OPTIONS, '; the options are gap= and fold=')}")
            if value not in _OPTIONS[name]:
                scan.fail(f"{name}= is one of {', '.join(_OPTIONS[name])}, not {value!r}", scan.at + len(name) + 1)
            if name in given:
                scan.fail(f"{name}= is given twice; leave one of them out")
            given[name] = value
            scan.take()
        return given

    # Refusals

    def _no_rule(self, word: str) -> Never:
        scan = self.scan
        start = scan.at
        kinds = "every, after, in, at or rrule, or it is a cron expression of five or six fields"
        if not word:
            whole = not scan.text.strip()
            scan.fail("is empty; write e.g. every 5m" if whole else "here a rule is missing, beside the |")
        if re.fullmatch(r"\d+(\.\d+)?[a-zµ]+", word):
            scan.fail(f"a length of time alone is no rule; did you mean 'every {word}' or 'after {word}'?")
        if re.match(r"\d\d?:\d\d", word):
            scan.fail(f"a time of day alone is no rule; did you mean 'every day at {word}'?")
        if re.match(r"\d{4}-\d", word):
            scan.fail(f"a date alone is no rule; did you mean 'at {scan.rest()}'?", start)
        if word.startswith(("tz=", "cron_tz=")):
            scan.fail("a zone comes at the end: 30 2 * * * Europe/Berlin", start)
        if word.upper().startswith(("FREQ=", "RRULE:", "DTSTART")):
            scan.fail("did you mean 'rrule FREQ=... from 2027-01-01T09:00 Europe/Berlin'?")
        scan.fail(f"a rule begins with {kinds}{self._hint(word, _KINDS)}")

    def _unexpected(self, word: str) -> Never:
        if word.lower() in _CLAUSES:
            self.scan.fail(
                f"{word!r} comes too late here, or does not belong to this rule; the zone and options come last"
            )
        if "=" in word:
            self.scan.fail(f"{word!r} does not belong to this rule, which has no wall time")
        self._wrong(word, "here the rule is complete")

    def _wrong(self, word: str, expected: str) -> Never:
        self.scan.fail(f"{expected}, not {word!r}{self._hint(word)}" if word else expected)

    def _hint(self, word: str, *known: Any) -> str:
        """The suggestion for a word that is not known, if there is any."""
        word = word.lower()
        if word in _PHRASES:
            return f"; did you mean {_PHRASES[word]!r}?"
        names = [name for table in known or (_CLAUSES,) for name in table if len(name) > 1]
        return nearest(word, names) if word else ""


def _delta(scan: Scanner, span_us: int, place: int) -> timedelta:
    try:
        return timedelta(microseconds=span_us)
    except OverflowError:
        scan.fail("is longer than the calendar (years 1 to 9999)", place)


def _is_zone(word: str) -> bool:
    try:
        zone_of(word, "zone")
    except RuleError:
        return False
    return True


def _faulty_field(fields: list[tuple[str, int]], start: int) -> int:
    """Where the first field stands that cron refuses also among stars; `start` when only all together are refused."""
    if 5 <= len(fields) <= 6:
        for index, (field, place) in enumerate(fields):
            alone = ["*"] * len(fields)
            alone[index] = field
            try:
                cron(" ".join(alone))
            except RuleError:
                return place
    return start
