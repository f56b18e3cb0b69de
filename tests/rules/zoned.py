"""What tests of zoned rules share: zones that are odd in some way, instants around their changes, and an oracle."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tickless.instants import SECOND_US, Instant, datetime_of, instant_of
from tickless.rules import Rule, checked_next
from tickless.rules.zones import next_change, zone_of

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # 30 minutes
    "Antarctica/Troll",  # 2 hours
    "Africa/Casablanca",  # negative, in Ramadan
    "Europe/Dublin",  # negative by its law
    "America/Santiago",  # at midnight
    "Asia/Beirut",  # at midnight
    "America/Nuuk",  # over midnight
    "America/St_Johns",  # one minute past midnight, until 2011
    "Pacific/Apia",  # a day left out
    "+05:45",
)
_DAY_US = 86_400 * SECOND_US
_LOW = instant_of(datetime(2000, 1, 1, tzinfo=UTC), "test")
_HIGH = instant_of(datetime(2037, 1, 1, tzinfo=UTC), "test")


@cache
def moments(zones: SearchStrategy[str] | None = None) -> SearchStrategy[Instant]:
    """Instants of 2000 to 2037, most of them within a day and a half of a change of some zone."""

    def near(zone: str, when: int, beside: int) -> Instant:
        change = next_change(zone_of(zone, "test"), Instant(when))
        return Instant((when if change is None else change[0]) + beside)

    minutes = st.integers(-36 * 60, 36 * 60).map(lambda minute: minute * 60 * SECOND_US)
    beside = st.one_of(minutes, minutes, st.integers(-_DAY_US, _DAY_US))
    zones = st.sampled_from(ZONES) if zones is None else zones
    return st.one_of(st.builds(near, zones, st.integers(_LOW, _HIGH), beside), st.integers(_LOW, _HIGH).map(Instant))


def walked(nominal: datetime, zone: str, gap: str, fold: str) -> list[datetime]:
    """The fires of one naive wall time, found with zoneinfo alone by walking over UTC: the oracle.

    For zones and times whose offsets change by less than three hours.
    """
    there = ZoneInfo(zone)
    passes = sorted(
        {
            utc
            for each in (0, 1)
            if (utc := nominal.replace(tzinfo=there, fold=each).astimezone(UTC)).astimezone(there).replace(tzinfo=None)
            == nominal
        }
    )
    if passes:
        return passes if fold == "both" else passes[:1] if fold == "first" else passes[-1:]
    return [_end_of_gap(nominal, there)] if gap == "next" else []


def _end_of_gap(nominal: datetime, there: ZoneInfo) -> datetime:
    around = nominal.replace(tzinfo=UTC) - timedelta(hours=16)
    walls = ((around + timedelta(minutes=minute)) for minute in range(32 * 60))
    return next(utc for utc in _from_whole_minutes(walls) if utc.astimezone(there).replace(tzinfo=None) > nominal)


def _from_whole_minutes(walls: Iterator[datetime]) -> Iterator[datetime]:
    return (wall.replace(second=0, microsecond=0) for wall in walls)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # year, month, day and so on


def us(*parts: int) -> Instant:
    """The instant of a UTC time."""
    return instant_of(utc(*parts), "test")


def fires(rule: Rule, start: Instant, many: int) -> list[Instant]:
    """The first fires after `start`."""
    found: list[Instant] = []
    while len(found) < many and (fire := checked_next(rule, start)) is not None:
        found.append(fire)
        start = fire
    return found


def walls(rule: Rule, start: Instant, many: int, tz: str = "UTC") -> list[str]:
    """The same, as clocks in a zone show them."""
    there = ZoneInfo(tz)
    return [f"{datetime_of(fire).astimezone(there):%a %m-%d %H:%M}" for fire in fires(rule, start, many)]
