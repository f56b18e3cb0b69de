"""What a cron expression means, in plain English, from the same parsed form that fires come from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise

from tickless.rules.grammar import LAST, LAST_WEEKDAY, Crontab, Weekday

MONTHS = tuple("January February March April May June July August September October November December".split())
WEEKDAYS = tuple("Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split())
_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}
CLOCK_TIMES = 6
"""So many times of day are named one by one."""


def cron_words(table: Crontab) -> str:
    """The times, the days, the months: "at 09:00, Monday to Friday, in June"."""
    times = _times(table)
    days, months = _days(table), _months(table.months)
    if not days and times.startswith("at ") and " of " not in times:
        times = f"every day {times}"
    if not _weekdays_matter(table) and len(table.months) == 1 and min(table.days) > 0 and days:
        days, months = f"on {listed(table.days)} {_month(min(table.months))}", ""
    return ", ".join(part for part in (times, days, months) if part)


def listed(values: Iterable[int], name: Callable[[int], str] = str) -> str:
    """Numbers as a list: `1, 2 and 5`, runs of three and more as `1 to 5`, long even steps as `0, 2, 4 ... 22`."""
    order = sorted(values)
    steps = {late - early for early, late in pairwise(order)}
    if len(order) > 4 and len(steps) == 1 and steps != {1}:
        return f"{', '.join(map(name, order[:3]))} ... {name(order[-1])}"
    parts: list[str] = []
    for run in _runs(order):
        parts += [f"{name(run[0])} to {name(run[-1])}"] if len(run) > 2 else map(name, run)
    return joined(parts)


def joined(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _runs(order: Iterable[int]) -> list[list[int]]:
    """The numbers in runs without gaps."""
    runs: list[list[int]] = []
    for value in order:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def _times(table: Crontab) -> str:
    seconds, minutes, hours = sorted(table.seconds), sorted(table.minutes), sorted(table.hours)
    if len(seconds) > 1:
        return _many_seconds(seconds, minutes, hours)
    if len(hours) < 24 and len(minutes) * len(hours) <= CLOCK_TIMES:
        return f"at {joined([_clock(hour, minute, seconds[0]) for hour in hours for minute in minutes])}"
    second = f", at second {seconds[0]}" if seconds[0] else ""
    return (_one_minute(minutes[0], hours) if len(minutes) == 1 else _many_minutes(minutes, hours)) + second


def _one_minute(minute: int, hours: list[int]) -> str:
    """One minute of many hours."""
    step = _even_step(hours, 24)
    if step is not None:
        every = "every hour" if step == 1 else f"every {step} hours"
        return f"{every} at minute {minute}" if minute else every
    if len(_runs(hours)) == 1:
        return f"every hour from {_clock(hours[0], minute)} to {_clock(hours[-1], minute)}"
    return f"at minute {minute} of the hours {listed(hours)}"


def _many_minutes(minutes: list[int], hours: list[int]) -> str:
    step = _even_step(minutes, 60)
    if step is None:
        return f"at minutes {listed(minutes)} of {_hours(hours)}"
    every = "every minute" if step == 1 else f"every {step} minutes"
    if len(hours) == 24:
        return every
    if len(_runs(hours)) == 1:
        return f"{every} from {_clock(hours[0], minutes[0])} to {_clock(hours[-1], minutes[-1])}"
    return f"{every} in {_hours(hours)}"


def _many_seconds(seconds: list[int], minutes: list[int], hours: list[int]) -> str:
    step = _even_step(seconds, 60)
    text = "every second" if step == 1 else f"every {step} seconds" if step else f"at seconds {listed(seconds)}"
    within = "in" if step else "of"
    if len(minutes) < 60:
        which = "minute" if len(minutes) == 1 else "minutes"
        return f"{text} {within} {which} {listed(minutes)} of {_hours(hours)}"
    if len(hours) == 24:
        return text if step else f"{text} of every minute"
    if step and len(_runs(hours)) == 1:
        return f"{text} from {_clock(hours[0], 0)} to {hours[-1]:02}:59:{seconds[-1]:02}"
    return f"{text} {within} {'' if step else 'every minute of '}{_hours(hours)}"


def _hours(hours: list[int]) -> str:
    if len(hours) == 24:
        return "every hour"
    return f"the hour{'s' if len(hours) > 1 else ''} {listed(hours)}"


def _even_step(order: list[int], size: int) -> int | None:
    """The step of what is spread evenly over the whole field from 0 on, else None."""
    step = size // len(order)
    return step if order == list(range(0, size, step)) and size % step == 0 else None


def _clock(hour: int, minute: int, second: int = 0) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"


def _weekdays_matter(table: Crontab) -> bool:
    return not set(range(7)) <= {day % 7 for day in table.weekdays if isinstance(day, int)}


def _days(table: Crontab) -> str:
    """Which days, and how the two fields go together; empty for every day."""
    by_day, by_weekday = not set(range(1, 32)) <= table.days, _weekdays_matter(table)
    if not table.both_days and not (by_day and by_weekday):
        return ""  # one of them lets every day through, and one is enough
    if not by_weekday:
        return _month_days(table.days) if by_day else ""
    weekdays = _week_days(table.weekdays)
    if not by_day:
        return weekdays
    if table.both_days:
        return f"{_month_days(table.days)}, but only {weekdays if weekdays.startswith('on ') else 'from ' + weekdays}"
    either = weekdays if weekdays.startswith("on ") else f"on any day from {weekdays}"
    return f"{_month_days(table.days)} or {either} (one of the two is enough)"


def _month_days(days: Collection[int]) -> str:
    numbers = [day for day in days if day > 0]
    parts = [f"day{'s' if len(numbers) > 1 else ''} {listed(numbers)}"] if numbers else []
    parts += ["the last day"] if LAST in days else []
    parts += ["the last weekday (Monday to Friday)"] if LAST_WEEKDAY in days else []
    return f"on {joined(parts)} of the month"


def _week_days(weekdays: Collection[Weekday]) -> str:
    plain = {(day - 1) % 7 for day in weekdays if isinstance(day, int)}  # Monday is 0, so that weekends hold together
    nth = sorted({(day[1] == LAST, day[1], day[0] % 7) for day in weekdays if isinstance(day, tuple)})  # last: LAST
    names = listed(plain, lambda day: WEEKDAYS[(day + 1) % 7]) if plain else ""
    if not nth:
        return names if " to " in names and "," not in names and " and " not in names else f"on {names}"
    parts = [f"the {_NTH[which]} {WEEKDAYS[day]}" for _, which, day in nth]
    return f"on {joined([*([f'every {names}'] if names else []), *parts])} of the month"


def _months(months: Collection[int]) -> str:
    if len(months) == 12:
        return ""
    names = listed(months, _month)
    return f"from {names}" if len(_runs(sorted(months))) == 1 and len(months) > 2 else f"in {names}"


def _month(number: int) -> str:
    return MONTHS[number - 1]
