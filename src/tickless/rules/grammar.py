"""The text of a cron expression: what is accepted, what is refused and with which hint, and the one parsed form.

cronsim parses what passes here, and only ever sees naive wall time. `Crontab` is what it made of the text; fires and
words both come from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Never

from cronsim import CronSim, CronSimError

from tickless.errors import RuleError, shown

LONGEST = 256
"""Characters; longer than any expression that somebody wrote by hand."""

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
NEVER = "never fires: no year has such a day; look at the day, month and weekday fields"
LAST = CronSim.LAST
"""Among the days: the last of the month. As the second part of a weekday: its last in the month."""
LAST_WEEKDAY = CronSim.LAST_WEEKDAY
"""Among the days: the last one from Monday to Friday in the month."""

Weekday = int | tuple[int, int]
"""0 is Sunday, and so is 7. With a second part: which of the month, 1 to 5 or LAST."""


@dataclass(frozen=True, slots=True)
class Crontab:
    """A parsed expression: the values that match, and how the two day fields go together."""

    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[Weekday]
    both_days: bool
    """True: a day must match both day fields, since one of them starts with `*`. False: either is enough."""
    fixed: bool
    """True when neither second, minute nor hour starts with `*`: a time of day rather than a wildcard."""
    search: CronSim
    """Never advanced itself; see `search_from`."""

    def search_from(self, wall: datetime) -> CronSim:
        """An iterator over the matching naive wall times strictly after `wall`, whose microseconds are not looked at.

        It raises StopIteration after 50 years without a match, and OverflowError at the end of the year 9999.
        """
        search = CronSim.__new__(CronSim)  # its __init__ parses anew, which takes twice as long as a search
        for name, value in self.search.__dict__.items():  # not update(): that makes all of its look-ups slower
            setattr(search, name, value)
        search.dt = wall.replace(microsecond=0)
        return search


def normal(expr: object) -> str:
    """The expression with single spaces, in capitals, a macro in small letters: so that equal rules are equal.

    Raises RuleError for what is no text, too long, or not ASCII.
    """
    if type(expr) is not str:
        raise RuleError(f"cron(expr): needs a string such as '30 2 * * *', not {shown(expr)}")
    if len(expr) > LONGEST:
        raise RuleError(f"cron(expr): {len(expr)} characters are more than {LONGEST}; `a | b` joins two rules")
    if not expr.isascii():
        odd = next(char for char in expr if not char.isascii())
        raise RuleError(f"cron({shown(expr)}): {odd!r} is no character of a cron expression")
    words = " ".join(expr.split())
    return words.lower() if words.startswith("@") else words.upper()


@lru_cache(maxsize=16_384)  # as many rules as a large scheduler holds: a step asks all of them at once
def crontab(expr: str) -> Crontab:
    """The parsed form of a normal expression. Raises RuleError, with a hint, for what is refused or never fires."""
    words = _unfolded(expr).split()
    _check_count(expr, words)
    if len(words) == 5:
        words.insert(0, "0")
    for field, text in zip(FIELDS, words, strict=True):
        for term in text.split(","):
            _Term(expr, field, term).check()
    parsed = _parsed(expr, words)
    if not _ever_fires(parsed):
        _refuse(expr, NEVER)
    return parsed


def _parsed(expr: str, words: list[str]) -> Crontab:
    """What cronsim makes of it. A naive start: with a zone it has faults of its own."""
    try:
        search = CronSim(" ".join(words), datetime(2000, 1, 1))  # noqa: DTZ001  # naive is what we want it to be
    except CronSimError as error:  # for what passed the checks above: it sees by itself that there is no such day
        if str(error) == "Bad day-of-month":
            _refuse(expr, NEVER)
        _refuse(expr, f"cronsim refuses it: {error}")
    return Crontab(
        seconds=frozenset(search.seconds),
        minutes=frozenset(search.minutes),
        hours=frozenset(search.hours),
        days=frozenset(search.days),
        months=frozenset(search.months),
        weekdays=frozenset(search.weekdays),
        both_days=search.day_and,
        fixed=not any(word.startswith("*") for word in words[:3]),
        search=search,
    )


def _ever_fires(parsed: Crontab) -> bool:
    """True when some day of 28 years matches: they hold each kind of year, leap or not, from each weekday on.

    Much shorter than a search, which gives up after 50 years; at most some 5 ms.
    """
    day = date(2000, 1, 1)
    while day.year < 2028:
        if day.month not in parsed.months:
            day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        elif parsed.search.match_day(day):
            return True
        else:
            day += timedelta(days=1)
    return False


@dataclass(frozen=True, slots=True)
class Field:
    """One of the six, with what may stand in it."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    """What may be written instead of numbers; the first is `low`."""

    def number(self, text: str) -> int | None:
        """The value of a number or a name, or None for what is neither or out of range."""
        if text in self.names:
            return self.low + self.names.index(text)
        if not text.isdigit():
            return None
        value = int(text)
        return value if self.low <= value <= self.high else None

    def written(self, value: int) -> str:
        """A value as a user would write it, by its name where it has one; past the highest it begins again."""
        if self.names:
            return self.names[(value - self.low) % len(self.names)]
        return str(self.low + (value - self.low) % (self.high - self.low + 1))


DAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
FIELDS = (
    Field("second", 0, 59),
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day", 1, 31),
    Field("month", 1, 12, MONTH_NAMES),
    Field("weekday", 0, 7, DAY_NAMES),
)


def _refuse(expr: str, why: str) -> Never:
    raise RuleError(f"cron({shown(expr)}): {why}")


def _unfolded(expr: str) -> str:
    """The five fields that a macro stands for; anything else as it is."""
    if not expr.startswith("@"):
        return expr
    if expr in MACROS:
        return MACROS[expr]
    if expr == "@reboot":
        _refuse(expr, "a start of the machine is no time; schedule without a rule to run at the start of the program")
    if expr.startswith("@every"):
        _refuse(expr, "an interval is every(minutes=5), or the text 'every 5m'")
    _refuse(expr, f"knows {', '.join(MACROS)}")


def _check_count(expr: str, words: Sequence[str]) -> None:
    """Five fields, or six; else a guess at what the others were meant for."""
    first = words[0] if words else ""
    if first.startswith(("TZ=", "CRON_TZ=")):
        _refuse(expr, "a zone is given beside the expression: cron(expr, tz='Europe/Berlin')")
    if len(words) in (5, 6):
        return
    needs = "needs five fields, minute hour day month weekday, or six with the second first"
    if len(words) == 7 and words[-1][0] in "*0123456789":
        _refuse(expr, f"7 fields: a year cannot be given; {needs}; until= ends a schedule")
    if len(words) > 6:
        _refuse(expr, f"{len(words)} fields: {needs}, and no command behind them")
    _refuse(expr, f"{len(words)} field{'' if len(words) == 1 else 's'}: {needs}")


@dataclass(frozen=True, slots=True)
class _Term:
    """What stands between two commas of a field."""

    expr: str
    field: Field
    text: str

    def check(self) -> None:
        """Raises RuleError unless it is `*`, a value, a range, a step over one of them, or a last or n-th day."""
        if not self.text:
            self.refuse("there is nothing before or after a comma; leave the comma out")
        base, slash, step = self.text.partition("/")
        if not slash and self._special():
            return
        count = self._values(base)
        if slash:
            self._check_step(base, step, count)

    def refuse(self, why: str) -> Never:
        _refuse(self.expr, f"{self.field.name} {shown(self.text)}: {why}")

    def _special(self) -> bool:
        """True for L, LW, 5L, 5#3 in their fields. What other crons know and we do not is refused with a hint."""
        text, name = self.text, self.field.name
        if text == "?":
            self.refuse("means 'whatever' in Quartz; write *")
        if text.startswith("H") and not text[1:2].isalpha():
            self.refuse("H is Jenkins's hash; write a number, and spread tasks with jitter=")
        if "~" in text:
            self.refuse("a random value would be another one at each start; write a number, and spread with jitter=")
        if name == "day":
            if text in ("L", "LW"):
                return True
            if text.startswith("L-"):
                self.refuse("days before the last are not known; L is the last day, LW the last weekday")
            if text.endswith("W"):
                self.refuse("the nearest weekday is not known; LW is the last weekday of the month")
        if name == "weekday":
            return self._nth()
        if "#" in text:
            self.refuse("# belongs into the weekday field: 5#3 is the third Friday")
        if text.endswith("L") and text not in self.field.names:
            self.refuse("L belongs into the day field, the last day, or the weekday field: 5L is the last Friday")
        return False

    def _nth(self) -> bool:
        """5L and 5#3, in the weekday field."""
        text = self.text
        day, sharp, nth = text.partition("#")
        if sharp:
            if self.field.number(day) is None:
                self.refuse("before # stands one weekday: 5#3 is the third Friday")
            if nth not in ("1", "2", "3", "4", "5"):
                self.refuse("a month has a weekday 1 to 5 times; 5L is the last Friday")
            return True
        if not text.endswith("L"):
            return False
        day = text[:-1]
        value = self.field.number(day)
        if value is None:
            self.refuse("before L stands the number of a weekday: 5L is the last Friday; 6 is Saturday")
        if not day.isdigit():
            self.refuse(f"the last of a weekday is written with its number: {value}L")
        return True

    def _values(self, base: str) -> int:
        """Over how many values a `*` or a range goes. A value with a step counts as `*`: 59/15 is 59."""
        low, high = self.field.low, 6 if self.field.name == "weekday" else self.field.high
        if base == "*":
            return high - low + 1
        first, dash, last = base.partition("-")
        start = self._number(first)
        if not dash:
            return high - low + 1
        end = self._number(last)
        if end < start:
            self._refuse_backwards(start, end)
        return end - start + 1

    def _number(self, text: str) -> int:
        value = self.field.number(text)
        if value is None:
            self._refuse_value(text)
        return value

    def _refuse_value(self, text: str) -> Never:
        low, high, names = self.field.low, self.field.high, self.field.names
        if text.isdigit():
            self.refuse(f"{shown(text)} is not within {low} to {high}")
        if names and text[:3] in names and text.isalpha():
            self.refuse(f"names have three letters: {text[:3]}")
        also = f", or {names[0]} to {names[-1]}" if names else ""
        self.refuse(f"{shown(text)} is no {self.field.name}; write {low} to {high}{also}, *, 1-5, */2, or a list 1,3,5")

    def _refuse_backwards(self, start: int, end: int) -> Never:
        """FRI-MON: other crons wrap around, or never fire. The list is what was meant."""
        field = self.field
        size = len(field.names) or field.high - field.low + 1
        values = range(start, end + size + 1)
        if len(values) > 12:
            parts = f"{start}-{field.high},{field.low}-{end}"
        else:
            parts = ",".join(field.written(value) for value in values)
        self.refuse(f"a range may not go backwards; write {parts}")

    def _check_step(self, base: str, step: str, count: int) -> None:
        if not step.isdigit():
            self.refuse(f"the step {shown(step)} is no number; write e.g. */5")
        size = int(step)
        if size == 0:
            self.refuse("a step of 0 goes nowhere; write 1 or more, or leave it out")
        if size > 1 and size >= count:
            first = self.field.low if base == "*" else base.partition("-")[0]
            self.refuse(
                f"the step is longer than the range, which has {count} values, so that only the first is left; "
                f"write {first} alone, or take every() for a longer interval"
            )
