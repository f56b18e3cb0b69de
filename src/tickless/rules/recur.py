"""The RECUR value of RFC 5545, as read: "FREQ=WEEKLY;BYDAY=MO,WE" as a value, checked part by part, and in words."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, Never, final

from tickless.errors import RuleError, shown
from tickless.rules.days import DAY_NAMES, listed

MOST_CHARACTERS = 1_000
MOST_COUNT = 100_000
"""The last of them is looked for by counting, some microseconds each."""
MOST_YEARS = 50
"""A rule whose next fire is farther away than that is taken for one that never fires."""

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
"""In dateutil's order, whose constants are 0 to 6."""
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)

_DAYS_A_YEAR = 365.2425
_MOST_INTERVAL = {
    "YEARLY": MOST_YEARS,
    "MONTHLY": MOST_YEARS * 12,
    **{
        frequency: int(MOST_YEARS * _DAYS_A_YEAR * per_day)
        for frequency, per_day in (
            ("WEEKLY", 1 / 7),
            ("DAILY", 1),
            ("HOURLY", 24),
            ("MINUTELY", 1_440),
            ("SECONDLY", 86_400),
        )
    },
}
_RANGES = {  # part: lowest, highest, whether it may count from the end
    "BYMONTH": (1, 12, False),
    "BYWEEKNO": (1, 53, True),
    "BYYEARDAY": (1, 366, True),
    "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSECOND": (0, 59, False),
    "BYSETPOS": (1, 366, True),
}
_ORDER = (
    *("FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY"),
    *("BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS", "WKST"),
)
_ELSEWHERE = {
    "DTSTART": "give the start as start=",
    "TZID": "give the zone as tz=",
    "DURATION": "a rule has fires, and no lengths",
    "EXDATE": "leave days out with .not_on({date(...)})",
    "RDATE": "add instants with | at(...)",
    "EXRULE": "RFC 5545 has given it up; leave days out with .not_on(...)",
    "BYEASTER": "it is no part of RFC 5545; give the dates with .on_days({date(...)})",
    "RSCALE": "only the Gregorian calendar is known",
    "SKIP": "invalid dates are left out; every(months=1) clamps them to the month's end",
}
_UNTIL = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_BYDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_INT = re.compile(r"[+-]?\d{1,9}", re.ASCII)


class Until(NamedTuple):
    """The last moment: a naive time, which is UTC or wall time. A date alone is all of that day."""

    moment: datetime
    utc: bool


@final
@dataclass(frozen=True, slots=True)
class Recur:
    """The parts of an RRULE. An empty tuple: not given."""

    freq: str
    interval: int
    count: int | None
    until: Until | None
    wkst: int
    by: dict[str, tuple[int, ...]]
    """BYMONTH to BYSETPOS, but for BYDAY."""
    days: tuple[tuple[int, int], ...]
    """BYDAY: (weekday, which of them); 0 is Monday, and 0 is each of them."""

    def given(self, name: str) -> tuple[int, ...]:
        return self.by.get(name, ())

    def numbered_days(self) -> tuple[tuple[int, int], ...]:
        """BYDAY for dateutil, which fires only where numbered and plain days both match; here one of them is enough.

        So beside numbered days a plain one becomes each of its kind, from the first on.
        """
        if all(which == 0 for _, which in self.days) or all(which for _, which in self.days):
            return self.days
        most = 5 if self.freq == "MONTHLY" or "BYMONTH" in self.by else 53
        numbers = range(1, most + 1)
        return tuple((day, number) for day, which in self.days for number in ([which] if which else numbers))


def normal(text: object) -> str:
    """The text in capitals, its parts in the order of the RFC, without "RRULE:". Raises RuleError for no RRULE."""
    if not isinstance(text, str):
        raise RuleError(f"rrule({shown(text)}): needs a text, e.g. 'FREQ=WEEKLY;BYDAY=MO'")
    if len(text) > MOST_CHARACTERS:
        raise RuleError(f"rrule(): {len(text):,} characters; at most {MOST_CHARACTERS:,} are read")
    whole = text.strip().upper()
    parts: dict[str, str] = {}
    for part in whole.removeprefix("RRULE:").split(";"):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        first = re.split(r"[:;\s]", name, maxsplit=1)[0]
        if first in _ELSEWHERE:
            _fail(text, f"{first} has no place in it; {_ELSEWHERE[first]}")
        if not equals:
            _fail(text, f"{shown(part)} is no part; parts are written NAME=value, with ; between them")
        if name not in _ORDER:
            near = difflib.get_close_matches(name, _ORDER, n=1)
            _fail(text, f"{name} is no part of an RRULE" + (f"; did you mean {near[0]}?" if near else ""))
        if re.search(r"\s", value):
            _fail(text, f"{name}={value} is followed by something else; one RRULE is read, and nothing more")
        if name in parts:
            _fail(text, f"{name} is given twice")
        parts[name] = value
    normal_text = ";".join(f"{name}={parts[name]}" for name in _ORDER if name in parts)
    read(normal_text)
    return normal_text


@lru_cache(maxsize=1_024)
def read(text: str) -> Recur:
    """The parts of a normal text. Raises RuleError for values that cannot be, and for parts that exclude each other."""
    parts = dict(part.split("=", 1) for part in text.split(";"))
    freq = parts.get("FREQ")
    if freq not in FREQUENCIES:
        _fail(text, f"FREQ is {freq}; it is one of {', '.join(FREQUENCIES)}" if freq else "FREQ is missing")
    interval = _number(text, parts, "INTERVAL", 1, _MOST_INTERVAL[freq]) or 1
    count = _number(text, parts, "COUNT", 1, MOST_COUNT)
    if count is not None and "UNTIL" in parts:
        _fail(text, "COUNT and UNTIL exclude each other")
    if (wkst := parts.get("WKST", "MO")) not in DAYS:
        _fail(text, f"WKST is {wkst}; it is one of {', '.join(DAYS)}")
    by = {name: _numbers(text, name, parts[name]) for name in _RANGES if name in parts}
    recur = Recur(freq, interval, count, _until(text, parts), DAYS.index(wkst), by, _days(text, parts.get("BYDAY")))
    _check_together(text, recur)
    return recur


def _number(text: str, parts: dict[str, str], name: str, low: int, high: int) -> int | None:
    value = parts.get(name)
    if value is None:
        return None
    if not _INT.fullmatch(value):
        _fail(text, f"{name}={value} is no number, or too large a one")
    if int(value) < low:
        why = " (with 0 it would stand still)" if name == "INTERVAL" else ""
        _fail(text, f"{name}={value} must be at least {low}{why}")
    if int(value) > high:
        why = "give UNTIL instead" if name == "COUNT" else f"it would fire less than once in {MOST_YEARS} years"
        _fail(text, f"{name}={value} is more than {high:,}; {why}")
    return int(value)


def _numbers(text: str, name: str, value: str) -> tuple[int, ...]:
    low, high, backwards = _RANGES[name]
    numbers = set()
    for piece in value.split(","):
        number = int(piece) if _INT.fullmatch(piece) else None
        if number is None or not (low <= number <= high or (backwards and low <= -number <= high)):
            also = f" or {-high} to {-low}" if backwards else ""
            leap = "; leap seconds do not exist in Unix time" if (name, number) == ("BYSECOND", 60) else ""
            _fail(text, f"{name} holds {piece or 'nothing'}; it takes {low} to {high}{also}{leap}")
        numbers.add(number)
    return tuple(sorted(numbers))


def _days(text: str, value: str | None) -> tuple[tuple[int, int], ...]:
    if value is None:
        return ()
    days = []
    for piece in value.split(","):
        found = _BYDAY.fullmatch(piece)
        which = int(found[1] or 0) if found else 99
        if found is None or abs(which) > 53 or (found[1] and which == 0):
            _fail(text, f"BYDAY holds {piece or 'nothing'}; it takes {', '.join(DAYS)}, with -53 to 53 before them")
        days.append((DAYS.index(found[2]), which))
    return tuple(sorted(set(days)))


def _until(text: str, parts: dict[str, str]) -> Until | None:
    value = parts.get("UNTIL")
    if value is None:
        return None
    found = _UNTIL.fullmatch(value)
    if found is None:
        _fail(text, f"UNTIL={value} is no time; write 20301231, 20301231T235959 or 20301231T235959Z")
    year, month, day, hour, minute, second = (int(piece or 0) for piece in found.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001  # whose zone it is, `utc` says
    except ValueError:
        _fail(text, f"UNTIL={value} is no time of the calendar")
    if found[4] is None:
        moment = moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
    return Until(moment, found[7] == "Z")


def _check_together(text: str, recur: Recur) -> None:
    """What RFC 5545 forbids, and positions beyond all that a period can hold."""
    freq, by = recur.freq, recur.by
    if "BYWEEKNO" in by and freq != "YEARLY":
        _fail(text, "BYWEEKNO is for FREQ=YEARLY alone")
    if "BYYEARDAY" in by and freq in ("DAILY", "WEEKLY", "MONTHLY"):
        _fail(text, f"BYYEARDAY is not for FREQ={freq}")
    if "BYMONTHDAY" in by and freq == "WEEKLY":
        _fail(text, "BYMONTHDAY is not for FREQ=WEEKLY; use FREQ=DAILY or MONTHLY with BYDAY")
    numbered = [which for _, which in recur.days if which]
    if numbered and freq not in ("YEARLY", "MONTHLY"):
        _fail(text, f"BYDAY with a number, such as 1MO, is for FREQ=MONTHLY and YEARLY, not for {freq}")
    if numbered and "BYWEEKNO" in by:
        _fail(text, "BYDAY takes no numbers beside BYWEEKNO")
    all_numbered = len(numbered) == len(recur.days) > 0
    if all_numbered and (freq == "MONTHLY" or "BYMONTH" in by) and min(map(abs, numbered)) > 5:
        _fail(text, "BYDAY counts beyond the fifth in a month, so it never fires")
    if "BYSETPOS" in by:
        if len(by) == 1 and not recur.days:
            _fail(text, "BYSETPOS chooses among what other BY parts give; there is none")
        if min(map(abs, by["BYSETPOS"])) > _set_size(recur):
            _fail(text, f"BYSETPOS is beyond all that a period can hold ({_set_size(recur)}), so it never fires")


def _set_size(recur: Recur) -> int:
    """How many fires one period has at most: what BYSETPOS may choose from."""
    level = FREQUENCIES.index(recur.freq)
    size = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7}.get(recur.freq, 1)
    for name, finer_than in (("BYHOUR", 4), ("BYMINUTE", 5), ("BYSECOND", 6)):
        if level < finer_than:
            size *= len(recur.given(name)) or 1
    return size


def _fail(text: str, why: str) -> Never:
    raise RuleError(f"rrule({shown(text)}): {why}")


def words(recur: Recur, start: datetime) -> str:
    """What it means, in words, but for its zone: "every 2 weeks on Monday at 09:00, 10 times"."""
    unit = {"YEARLY": "year", "MONTHLY": "month", "WEEKLY": "week", "DAILY": "day"}.get(recur.freq)
    unit = unit or {"HOURLY": "hour", "MINUTELY": "minute"}.get(recur.freq, "second")
    parts = [f"every {unit}" if recur.interval == 1 else f"every {recur.interval} {unit}s"]
    if recur.days:
        every = recur.freq in ("YEARLY", "MONTHLY")
        days = [(day, which) for day, which in recur.days if not which or (day, 0) not in recur.days]
        parts.append(f"on {listed([_day_words(day, which, every) for day, which in days])}")
    for name, form in (
        ("BYMONTHDAY", "on the {} of the month"),
        ("BYYEARDAY", "on the {} day of the year"),
        ("BYWEEKNO", "in the {} week of the year"),
    ):
        if name in recur.by:
            parts.append(form.format(listed([_nth(number) for number in recur.by[name]])))
    if "BYMONTH" in recur.by:
        parts.append(f"in {listed([MONTHS[month - 1] for month in recur.by['BYMONTH']])}")
    parts += _default_day_words(recur, start)
    parts.append(_time_words(recur, start))
    text = " ".join(part for part in parts if part)
    if "BYSETPOS" in recur.by:
        text += f", of these the {listed([_nth(number) for number in recur.by['BYSETPOS']])} of each {unit}"
    if recur.wkst and (
        "BYWEEKNO" in recur.by or (recur.freq == "WEEKLY" and (recur.interval > 1 or "BYSETPOS" in recur.by))
    ):
        text += f", weeks begin on {DAY_NAMES[recur.wkst]}"
    if recur.count is not None:
        text += f", {recur.count} times" if recur.count > 1 else ", once"
    if recur.until is not None:
        text += f", until {recur.until.moment:%Y-%m-%d %H:%M:%S}" + (" UTC" if recur.until.utc else "")
    return text


def _day_words(day: int, which: int, every: bool) -> str:
    if which:
        return f"the {_nth(which)} {DAY_NAMES[day]}"
    return f"every {DAY_NAMES[day]}" if every else DAY_NAMES[day]


def _default_day_words(recur: Recur, start: datetime) -> list[str]:
    """The day where no part names it: that of the start."""
    if recur.days or recur.by.keys() & {"BYMONTHDAY", "BYYEARDAY"}:
        return []
    if recur.freq == "WEEKLY" or "BYWEEKNO" in recur.by:
        return [f"on {DAY_NAMES[start.weekday()]}"]
    if recur.freq == "YEARLY" and "BYMONTH" not in recur.by:
        return [f"on {start.day} {MONTHS[start.month - 1]}"]
    return [f"on the {_nth(start.day)}"] if recur.freq in ("YEARLY", "MONTHLY") else []


def _time_words(recur: Recur, start: datetime) -> str:
    level = FREQUENCIES.index(recur.freq)
    hours, minutes, seconds = (recur.given(name) for name in ("BYHOUR", "BYMINUTE", "BYSECOND"))
    if level < 4:  # a time of day, or some of them
        times = [
            f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")
            for hour in hours or (start.hour,)
            for minute in minutes or (start.minute,)
            for second in seconds or (start.second,)
        ]
        return (
            f"at {listed(times)}" if len(times) <= 4 else f"at {len(times)} times of day from {times[0]} to {times[-1]}"
        )
    # What is left open is the start's: said where it is not the full hour or minute.
    minutes = minutes or ((start.minute,) if level == 4 and start.minute else ())
    seconds = seconds or ((start.second,) if level < 6 and start.second else ())
    parts = [f"at second {listed([*map(str, seconds)])}"] if seconds else []
    parts += [f"at minute {listed([*map(str, minutes)])}"] if minutes else []
    parts += [f"in hour {listed([*map(str, hours)])}"] if hours else []
    return " ".join(parts)


def _nth(number: int) -> str:
    """ "3rd", "last", "2nd last"."""
    size = abs(number)
    ending = "th" if 10 < size % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(size % 10, "th")
    if number > 0:
        return f"{size}{ending}"
    return "last" if size == 1 else f"{size}{ending} last"
