"""Sets of days that rules are confined to or kept from: weekdays, dates, or any object with `date in cal`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Protocol, final, runtime_checkable

from tickless.errors import RuleError, shown

DAY = timedelta(days=1)
DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SHORT_NAMES = tuple(name[:3].lower() for name in DAY_NAMES)
_NUMBERS = {name.lower(): number for number, name in enumerate(DAY_NAMES)} | {
    name: number for number, name in enumerate(SHORT_NAMES)
}


@runtime_checkable
class Days(Protocol):
    """What `on_days` and `not_on` take: a set of dates, `weekdays(...)`, `holidays.country_holidays("DE")`, yours."""

    def __contains__(self, day: date, /) -> bool:
        """Whether the day belongs to it."""


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Weekdays:
    """Days of the week, by name: `weekdays("mon-fri")`, `weekdays("sat,sun")`, `weekdays("tuesday")`.

    Holds for every date of the calendar. Raises RuleError for a name that is none, and for a range that runs
    backwards.
    """

    numbers: tuple[int, ...]
    """0 is Monday, as in `date.weekday()`; ascending, each once, at least one."""

    def __init__(self, names: str | Iterable[str]) -> None:
        object.__setattr__(self, "numbers", weekday_numbers(names, f"weekdays({shown(names)})"))

    def __contains__(self, day: date) -> bool:
        return day.weekday() in self.numbers

    def __repr__(self) -> str:
        return f"weekdays({self.text()!r})"

    def __str__(self) -> str:
        return listed([DAY_NAMES[number] for number in self.numbers])

    def text(self) -> str:
        """As it is written: runs of three and more as a range."""
        parts: list[str] = []
        for run in _runs(self.numbers):
            names = [SHORT_NAMES[number] for number in run]
            parts += [f"{names[0]}-{names[-1]}"] if len(names) > 2 else names
        return ",".join(parts)


weekdays = Weekdays


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Dates:
    """A fixed set of dates. What `on_days({date(2026, 12, 25)})` keeps, since a set of its user's could change."""

    days: tuple[date, ...]
    """Ascending, each once."""

    def __init__(self, days: Iterable[object]) -> None:
        plain: set[date] = set()
        for day in days:
            if not isinstance(day, date) or isinstance(day, datetime):
                raise RuleError(f"a set of days: holds {shown(day)}, which is no date; give datetime.date objects")
            plain.add(date(day.year, day.month, day.day))  # an heir of date may bring code of its own
        object.__setattr__(self, "days", tuple(sorted(plain)))

    def __contains__(self, day: date) -> bool:
        at = bisect_left(self.days, day)
        return at < len(self.days) and self.days[at] == day

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self.days))}}}" if self.days else "set()"

    def __str__(self) -> str:
        if len(self.days) > 4:
            return f"{len(self.days)} dates from {self.days[0]} to {self.days[-1]}"
        return listed([str(day) for day in self.days]) if self.days else "no date"


def days_of(cal: object, what: str) -> Days:
    """The days that `cal` stands for: plain collections of dates are copied, all else is kept as it is.

    `what` names the argument in errors. Raises RuleError for what has no `in`, and for text.
    """
    if isinstance(cal, Weekdays | Dates):
        return cal
    if type(cal) in (set, frozenset, list, tuple, dict):
        return Dates(cal)  # type: ignore[arg-type]  # one of the types above; what is in it is looked at there
    if isinstance(cal, str | bytes):
        raise RuleError(f"{what}: needs days, not the text {shown(cal)}; e.g. weekdays('mon-fri') or {{date(...)}}")
    if isinstance(cal, type) or not hasattr(type(cal), "__contains__"):
        raise RuleError(f"{what}: needs an object with `date in cal`, e.g. a set of dates, not {shown(cal)}")
    return cal  # type: ignore[return-value]  # it has __contains__; what that takes shows when it is asked


def is_plain(cal: Days) -> bool:
    """True for the sets of days of this module; others are foreign code."""
    return type(cal) is Weekdays or type(cal) is Dates


def first_in(cal: Days, day: date, most: int) -> date | None:
    """The first date from `day` on that is in `cal`, looking at no more than `most` days; None without one."""
    if type(cal) is Dates:
        at = bisect_left(cal.days, day)
        return cal.days[at] if at < len(cal.days) else None
    return _first(cal, day, most, inside=True)


def first_out(cal: Days, day: date, most: int) -> date | None:
    """The first date from `day` on that is not in `cal`, looking at no more than `most` days; None without one."""
    if type(cal) is Weekdays and len(cal.numbers) == 7:
        return None
    return _first(cal, day, most, inside=False)


def _first(cal: Days, day: date, most: int, *, inside: bool) -> date | None:
    for _ in range(most):
        if (day in cal) is inside:
            return day
        if day == date.max:
            return None
        day += DAY
    return None


def weekday_numbers(names: object, what: str) -> tuple[int, ...]:
    """The numbers of the weekdays that a text such as "mon-wed,sat", or a collection of such texts, names.

    0 is Monday. `what` is the argument as errors show it. Raises RuleError for anything else, and for none at all.
    """
    if isinstance(names, str):
        parts = names.split(",")
    elif isinstance(names, Iterable):
        parts = list(names)
    else:
        raise RuleError(f"{what}: needs names of weekdays, e.g. 'mon-fri'")
    numbers: set[int] = set()
    for part in parts:
        if not isinstance(part, str):
            raise RuleError(f"{what}: {shown(part)} is no name of a weekday; e.g. 'mon-fri'")
        first, dash, last = part.partition("-")
        low = _number(first, what)
        high = _number(last, what) if dash else low
        if high < low:
            straight = ",".join(SHORT_NAMES[number % 7] for number in range(low, high + 8))
            raise RuleError(f"{what}: {part.strip()} runs backwards; write {straight}")
        numbers.update(range(low, high + 1))
    if not numbers:
        raise RuleError(f"{what}: names no weekday; e.g. 'mon-fri'")
    return tuple(sorted(numbers))


def _number(name: str, what: str) -> int:
    number = _NUMBERS.get(name.strip().lower())
    if number is None:
        raise RuleError(f"{what}: {shown(name.strip())} is no weekday; they are {', '.join(SHORT_NAMES)}")
    return number


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers that follow one another, together."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def listed(words: list[str], last: str = "and") -> str:
    """ "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
