"""Reading a rule's text from left to right: words, lengths of time, dates, and errors that say where."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone
from difflib import get_close_matches
from typing import Never

from tickless.errors import RuleError, TextError
from tickless.instants import SECOND_US

CLOCK_UNITS_US = {"us": 1, "ms": 1_000, "s": SECOND_US, "m": 60 * SECOND_US, "h": 3_600 * SECOND_US}
_SPELLINGS = {
    "us": "us µs μs microsecond microseconds",
    "ms": "ms millisecond milliseconds",
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "days": "d day days",
    "weeks": "w week weeks",
    "months": "month months",
    "years": "y year years",
}
UNITS = {word: unit for unit, words in _SPELLINGS.items() for word in words.split()}
"""How a unit may be written -> a key of CLOCK_UNITS_US, or a calendar unit as `every` names it."""

_WORD = re.compile(r"\S+")
_NUMBER = re.compile(r"(\d+)(?:\.(\d+))?", re.ASCII)
_UNIT = re.compile(r"\s*([^\W\d_]+)")
_DATE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?!\d)", re.ASCII)
_TIME = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(?![\d:.])", re.ASCII)
_OFFSET = re.compile(r"Z|z|([+-])(\d\d):?(\d\d)(?::?(\d\d))?", re.ASCII)


class Scanner:
    """A place in `text` between `at` and `end`, and verbs that read from there. Places count from 0."""

    def __init__(self, text: str, at: int = 0, end: int | None = None) -> None:
        self.text = text
        self.end = len(text) if end is None else end
        self.at = at
        self._skip()

    def fail(self, why: str, at: int | None = None) -> Never:
        """Raise TextError that names the text, the position (counted from 1) and why."""
        raise TextError(why, self.text, (self.at if at is None else at) + 1)

    def peek(self) -> str:
        """The next word, as it is written; empty at the end."""
        word = _WORD.match(self.text, self.at, self.end)
        return word.group() if word else ""

    def take(self) -> str:
        """The next word, behind which the place then is."""
        word = self.peek()
        self._move(self.at + len(word))
        return word

    def takes(self, *keywords: str) -> bool:
        """True, and the place moved on, when the next word is one of the keywords, in whatever case."""
        if self.peek().lower() not in keywords:
            return False
        self.take()
        return True

    def rest(self) -> str:
        """All that is left."""
        rest = self.text[self.at : self.end].rstrip()
        self._move(self.end)
        return rest

    def spans(self) -> list[tuple[str, str, int]]:
        """Numbers with units, as many as follow one another, `1h30m` or `1 hour 30 minutes`: (number, unit, place)."""
        found = []
        while number := _NUMBER.match(self.text, self.at, self.end):
            start = self.at
            unit = _UNIT.match(self.text, number.end(), self.end)
            if not unit:
                self.fail(f"{number.group()} of what? write a unit, e.g. {number.group()}s, {number.group()}m", start)
            name = UNITS.get(unit.group(1)) or UNITS.get(unit.group(1).lower())
            if name is None:
                otherwise = "; units are us, ms, s, m, h, d, w, months, years"
                month = unit.group(1).lower() in ("mo", "mos")  # which is nearer to m, a minute
                hint = nearest("month" if month else unit.group(1), UNITS, otherwise)
                self.fail(f"{unit.group(1)!r} is no unit of time{hint}", unit.start(1))
            found.append((number.group(), name, start))
            self._move(unit.end())
        return found

    def day(self, why: str) -> date:
        """A calendar date, `2027-01-31`. Where there is none, `why` says what the date is for."""
        found = _DATE.match(self.text, self.at, self.end)
        if not found:
            self.fail(f"{why}, not {self.peek()!r}" if self.peek() else why)
        try:
            day = date(*(int(part) for part in found.groups()))
        except ValueError as error:
            self.fail(f"{found.group()} is no date: {error}")
        self.at = found.end()  # what follows may be a T
        return day

    def time_of_day(self, why: str) -> time:
        """A time of day, `09:00`, `9:00:30.5`. Where there is none, `why` says what to write."""
        found = _TIME.match(self.text, self.at, self.end)
        if not found:
            self.fail(f"{why}, not {self.peek()!r}" if self.peek() else why)
        hour, minute, second, fraction = found.groups()
        try:
            moment = time(int(hour), int(minute), int(second or 0), int((fraction or "").ljust(6, "0")))
        except ValueError as error:
            self.fail(f"{found.group()} is no time of day: {error}")
        self.at = found.end()  # what follows may be an offset
        return moment

    def moment(self, why: str) -> datetime | date:
        """`2027-01-01T09:00`, aware where an offset or Z follows at once; a plain date where no time follows."""
        day = self.day(why)
        rest = self.text[self.at : self.end]
        if not (re.match(r"[Tt]|\s+\d\d?:", rest)):
            self.word_ends("a date")
            return day
        self.at += 1
        self._skip()
        moment = datetime.combine(day, self.time_of_day("here comes a time of day, e.g. 09:00"))
        offset = _OFFSET.match(self.text, self.at, self.end)
        if offset:
            self.at = offset.end()
            moment = moment.replace(tzinfo=self._offset(offset))
        self.word_ends("a date with a time")
        return moment

    def whole_time(self, why: str) -> time:
        """A time of day with nothing stuck to it."""
        moment = self.time_of_day(why)
        self.word_ends("a time of day")
        return moment

    def _offset(self, found: re.Match[str]) -> timezone:
        sign, *parts = found.groups()
        if sign is None:
            return UTC
        hours, minutes, seconds = (int(part or 0) for part in parts)
        size = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if size >= timedelta(days=1) or max(minutes, seconds) > 59:
            self.fail(f"{found.group()} is no offset from UTC; it lies between -23:59 and +23:59", found.start())
        return timezone(-size if sign == "-" else size)

    def word_ends(self, what: str) -> None:
        """Raises TextError when something is stuck to what was read last, else goes on to the next word."""
        stuck = self.peek()
        if stuck and not self.text[self.at - 1].isspace():
            self.fail(f"{stuck!r} is no part of {what}; if it is the next word, write a space before it")
        self._skip()

    def _move(self, at: int) -> None:
        self.at = at
        self._skip()

    def _skip(self) -> None:
        while self.at < self.end and self.text[self.at].isspace():
            self.at += 1


def clock_us(number: str, unit: str) -> int:
    """`number` (as written, "1.5") of a clock unit in microseconds. Raises RuleError for a part of a microsecond."""
    whole, _, fraction = number.partition(".")
    unit_us = CLOCK_UNITS_US[unit]
    micros, left = divmod(int(whole + fraction) * unit_us, int(10 ** len(fraction)))
    if left:
        raise RuleError(f"{number}{unit} is not a whole number of microseconds, the finest there is")
    return micros


def clock_text(span_us: int) -> str:
    """A span in clock units, the largest first, none twice: 90 minutes are `1h30m`, nothing is `0s`."""
    parts = []
    for unit, unit_us in reversed(CLOCK_UNITS_US.items()):
        count, span_us = divmod(span_us, unit_us)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def nearest(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean 'every'?` when one of the known words is near, else `otherwise`."""
    near = get_close_matches(word.lower(), list(known), n=1, cutoff=0.65)
    return f"; did you mean {near[0]!r}?" if near else otherwise
