"""Cron beside the brute-force walk of brute.py: random expressions, 40 zones, instants around changes of clocks.

ORACLE_TIMES=50 looks at fifty times as many changes, others each time; `make fuzz` does. A failure names its seed, and
ORACLE_SEED=<seed> (ORACLE_SECONDS=<seed> with six fields) runs that one alone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from tests.rules.brute import EPOCH, Window
from tickless.errors import RuleError
from tickless.instants import Instant
from tickless.rules import Cron, cron

ZONES = (
    "Africa/Cairo Africa/Casablanca Africa/El_Aaiun Africa/Johannesburg Africa/Tunis America/Asuncion America/Bogota"
    " America/Caracas America/Chicago America/Godthab America/Havana America/Los_Angeles America/Mexico_City"
    " America/New_York America/Noronha America/Santiago America/Sao_Paulo America/Scoresbysund America/St_Johns"
    " Antarctica/Casey Antarctica/Troll Asia/Amman Asia/Beirut Asia/Dhaka Asia/Gaza Asia/Kathmandu Asia/Kolkata"
    " Asia/Pyongyang Asia/Tehran Asia/Tokyo Australia/Adelaide Australia/Lord_Howe Europe/Berlin Europe/Dublin"
    " Europe/Istanbul Europe/London Europe/Moscow Pacific/Apia Pacific/Chatham Pacific/Norfolk"
).split()
"""Gaps at midnight, of 30 minutes, of two hours and of a day; summer time in winter; zones without any."""
WINDOW = timedelta(hours=15)
CHANGES = 500
"""So many changes are looked at, each with EXPRESSIONS expressions and QUESTIONS questions."""
CHANGES_BY_SECOND = 20
EXPRESSIONS = 6
QUESTIONS = 6
SHARDS = 10
TIMES = int(os.environ.get("ORACLE_TIMES", "1"))
ALONE, ALONE_SECONDS = os.environ.get("ORACLE_SEED"), os.environ.get("ORACLE_SECONDS")


@cache
def changes() -> list[tuple[str, datetime]]:
    """Every change of clocks in the zones from 2000 to 2037, to the hour; some plain days where there is none."""
    found = []
    for zone in ZONES:
        there = ZoneInfo(zone)
        day, plain = datetime(2000, 1, 1, tzinfo=UTC), True
        while day.year < 2038:
            before = day.astimezone(there).utcoffset()
            if (day + timedelta(days=1)).astimezone(there).utcoffset() != before:
                hours = [day + timedelta(hours=number) for number in range(25)]
                change = next(hour for hour in hours if hour.astimezone(there).utcoffset() != before)
                found.append((zone, change))
                plain = False
            day += timedelta(days=1)
        if plain:
            found += [(zone, datetime(year, 3, 1, tzinfo=UTC)) for year in (2000, 2019, 2037)]
    return found


def a_field(rng: random.Random, low: int, high: int, near: list[int], star: float) -> str:
    """A random field, often with a value that matters near the change."""

    def value() -> int:
        return rng.choice(near) if rng.random() < 0.7 else rng.randint(low, high)

    kind = rng.random()
    if kind < star:
        return "*"
    if kind < star + 0.12:
        return f"*/{rng.choice([2, 3, 5, 7, 10, 15]) % (high - low) or 2}"
    if kind < star + 0.2:
        first, last = sorted([value(), value()])
        return (
            f"{first}-{last}"
            if last == first or rng.random() < 0.6
            else f"{first}-{last}/{rng.randint(1, last - first)}"
        )
    if kind < star + 0.25:
        return f"{value()}/{rng.randint(1, (high - low) // 2)}"
    return ",".join(str(value()) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def an_expression(rng: random.Random, window: Window) -> str:
    """Random fields, most of which match on some day of the window."""
    shown = [shown for _, shown in window.moments[:: len(window.moments) // 360 or 1]] + [
        each for leapt in window.missing.values() for each in leapt
    ]
    middle = [each for each in shown if abs(each - shown[len(shown) // 2]) < timedelta(hours=3)] or shown
    day = a_field(rng, 1, 31, [each.day for each in shown], 0.6)
    if rng.random() < 0.1:
        day = rng.choice(["L", "LW", "1,L", "LW,15", "L,13-20"])
    weekday = a_field(rng, 0, 7, [each.isoweekday() for each in shown], 0.6)
    if rng.random() < 0.15:
        number = rng.choice(shown).isoweekday()
        name = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"][number]
        weekday = rng.choice([f"{number}L", f"{number}#{rng.randint(1, 5)}", f"{name},3L", "MON-FRI", f"{name}#5,0L"])
    return " ".join(
        [
            a_field(rng, 0, 59, [each.minute for each in middle], 0.2),
            a_field(rng, 0, 23, [each.hour for each in middle], 0.25),
            day,
            a_field(rng, 1, 12, [each.month for each in shown], 0.75),
            weekday,
        ]
    )


def us(instant: datetime) -> Instant:
    return Instant((instant - EPOCH) // timedelta(microseconds=1))


def fires(rule: Cron, start: datetime, stop: datetime) -> Iterator[datetime]:
    fire = rule.next_after(us(start))
    while fire is not None and fire <= us(stop):
        yield EPOCH + timedelta(microseconds=fire)
        fire = rule.next_after(fire)


def compare(seed: str) -> int:
    """One change of clocks, some expressions. Gives how many questions were asked."""
    rng = random.Random(seed)
    zone, change = rng.choice(changes())
    window = Window(zone, change - WINDOW, change + WINDOW)
    return sum(compare_one(rng, f"ORACLE_SEED={seed}", zone, window, "") for _ in range(EXPRESSIONS))


def compare_seconds(seed: str) -> int:
    """The same with six fields, second by second, in a few hours."""
    rng = random.Random(seed)
    zone, change = rng.choice(changes())
    around = timedelta(minutes=190)  # longer than an overlap: both passes are seen (Casey's has three hours)
    window = Window(zone, change - around, change + around, timedelta(seconds=1))
    second = a_field(rng, 0, 59, [0, 1, 30, 59], 0.2)
    return sum(compare_one(rng, f"ORACLE_SECONDS={seed}", zone, window, f"{second} ") for _ in range(EXPRESSIONS))


def compare_one(rng: random.Random, seed: str, zone: str, window: Window, second: str) -> int:
    """A random expression, all of the window and then some questions; gives how many."""
    expr = second + an_expression(rng, window)
    gap, fold = rng.choice([None, None, "next", "skip"]), rng.choice([None, None, "first", "last", "both"])
    try:
        rule = cron(expr, tz=zone, gap=gap, fold=fold)  # type: ignore[arg-type]  # both are of the right words
    except RuleError as error:
        if "never fires" not in str(error) and "longer than the range" not in str(error):
            raise AssertionError(f"{seed}: {error}") from error
        return 0
    expected = window.fires(expr, gap, fold)
    assert list(fires(rule, window.start, window.stop)) == expected, f"{seed}: {rule!r}"
    counted = (min(len(expected), 1_000), us(expected[0]), us(expected[-1])) if expected else None
    assert rule.span(us(window.start), us(window.stop)) == counted, f"{seed}: {rule!r}.span"
    for _ in range(QUESTIONS):
        instant = rng.choice(window.moments)[0] + rng.choice([0, 1, -1]) * timedelta(microseconds=1)
        answer = rule.next_after(us(instant))
        right = next((us(fire) for fire in expected if fire > instant), None)
        if instant < window.start:
            continue
        if right is None:
            assert answer is None or answer > us(window.stop), f"{seed}: {rule!r}.next_after({us(instant)})"
        else:
            assert answer == right, f"{seed}: {rule!r}.next_after({us(instant)})"
    return QUESTIONS


def seeds(shard: int, count: int) -> list[str]:
    """Always the same ones, or random ones when there are many: each night of `make fuzz` looks elsewhere."""
    salt = "ci" if TIMES == 1 else f"{random.SystemRandom().getrandbits(32):x}"
    return [f"{salt}-{shard}-{number}" for number in range(count * TIMES // SHARDS)]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_cron_fires_as_the_brute_force_walk_does(shard: int) -> None:
    """In life: a backup runs twice, or not at all, in the night in which the clocks are changed."""
    chosen = [ALONE] if ALONE else seeds(shard, CHANGES)
    assert sum(map(compare, chosen)) > len(chosen) * QUESTIONS, "most expressions were refused: it looks at too little"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_cron_with_seconds_fires_as_the_brute_force_walk_does(shard: int) -> None:
    """The same with six fields: a wildcard second makes a wildcard of a fixed time."""
    chosen = [ALONE_SECONDS] if ALONE_SECONDS else seeds(shard, CHANGES_BY_SECOND)
    assert sum(map(compare_seconds, chosen)) > len(chosen) * QUESTIONS


def test_there_are_forty_zones_and_most_changes_are_seen() -> None:
    """A list of changes that is empty passes for ever."""
    assert len(ZONES) == len(set(ZONES)) == 40
    assert len(changes()) > 1_500
