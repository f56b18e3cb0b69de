"""The next fires of a cron expression: tickless, croniter, APScheduler's CronTrigger, bare cronsim.

Each walks the same chain: a fire, then the one after it. Peers keep whatever makes them quick: croniter and cronsim are
iterators that stand where they were, which `next_after`, a pure function, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from time import perf_counter
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

from tickless import cron
from tickless.instants import Instant, datetime_of, instant_of

START = datetime(2026, 1, 1)  # noqa: DTZ001  # wall time in each zone
PASSES = 15
"""The quickest of so many walks over the chain counts: whatever else the machine does only ever makes one slower."""

EXPRESSIONS = {
    "every minute": "* * * * *",
    "every 5 minutes": "*/5 * * * *",
    "weekdays at 9": "0 9 * * 1-5",
    "last Friday": "0 18 * * 5L",
    "daily": "30 2 * * *",
}


def _zone(tz: str) -> tzinfo:
    return UTC if tz == "UTC" else ZoneInfo(tz)


def _days(matches: Callable[[date], bool]) -> Iterator[date]:
    day = START.date()
    while True:
        if matches(day):
            yield day
        day += timedelta(days=1)


def _last(name: str, count: int) -> datetime:
    """The wall time of the last fire of the chain, by counting days: what each contender must arrive at."""
    if name.startswith("every"):
        return START + timedelta(minutes=count * (5 if "5" in name else 1))
    hour, minute, matches = {
        "weekdays at 9": (9, 0, lambda day: day.isoweekday() <= 5),
        "last Friday": (18, 0, lambda day: day.isoweekday() == 5 and (day + timedelta(days=7)).month != day.month),
        "daily": (2, 30, lambda day: True),
    }[name]
    days = _days(matches)
    day = [next(days) for _ in range(count)][-1]
    return datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001  # as START


def _measured(walk: Callable[[], datetime], name: str, count: int) -> dict[str, float]:
    """Fires a second. Raises AssertionError when the walk does not end where it should."""
    took = []
    for _ in range(PASSES):
        before = perf_counter()
        last = walk()
        took.append(perf_counter() - before)
        if last.replace(tzinfo=None) != _last(name, count):
            raise AssertionError(f"{name}: arrived at {last}, not at {_last(name, count)}")
    return {"per_s": count / min(took)}


def ours(name: str, tz: str, count: int) -> dict[str, float]:
    zone, rule = _zone(tz), cron(EXPRESSIONS[name], tz=tz)
    start = instant_of(START.replace(tzinfo=zone), "start")

    def walk() -> datetime:
        fire: Instant | None = start
        for _ in range(count):
            assert fire is not None
            fire = rule.next_after(fire)
        assert fire is not None
        return datetime_of(fire).astimezone(zone)

    return _measured(walk, name, count)


def by_croniter(name: str, tz: str, count: int) -> dict[str, float]:
    expr, start = EXPRESSIONS[name].replace("5L", "L5"), START.replace(tzinfo=_zone(tz))

    def walk() -> datetime:
        search, fire = croniter(expr, start), start
        for _ in range(count):
            fire = search.get_next(datetime)
        return fire

    return _measured(walk, name, count)


def by_apscheduler(name: str, tz: str, count: int) -> dict[str, float]:
    zone = _zone(tz)
    fields: dict[str, dict[str, Any]] = {
        "every minute": {"minute": "*"},
        "every 5 minutes": {"minute": "*/5"},
        "weekdays at 9": {"hour": 9, "minute": 0, "day_of_week": "mon-fri"},
        "last Friday": {"hour": 18, "minute": 0, "day": "last fri"},
        "daily": {"hour": 2, "minute": 30},
    }
    trigger = CronTrigger(**fields[name], timezone=zone)

    def walk() -> datetime:
        fire = START.replace(tzinfo=zone)
        for _ in range(count):
            fire = trigger.get_next_fire_time(fire, fire)
        return fire

    return _measured(walk, name, count)


def by_cronsim(name: str, tz: str, count: int) -> dict[str, float]:
    """As its manual shows it, with aware datetimes: what a user has without us."""
    expr, start = EXPRESSIONS[name], START.replace(tzinfo=_zone(tz))

    def walk() -> datetime:
        search, fire = CronSim(expr, start), start
        for _ in range(count):
            fire = next(search)
        return fire

    return _measured(walk, name, count)
