"""zones.py: names of zones, and the way between instants and wall times, beside what `astimezone` says."""

from __future__ import annotations

import pickle
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, cast
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from whenever import PlainDateTime, RepeatedTime, SkippedTime

from tests.strategies import instants
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, MIN_INSTANT, SECOND_US, Instant, datetime_of, instant_of
from tickless.rules.zones import (
    HOUR_US,
    Fold,
    Gap,
    gap_at,
    instants_at,
    is_twice,
    naive_of,
    next_change,
    wall_of,
    zone_name,
    zone_of,
)

BERLIN = zone_of("Europe/Berlin", "tz")
LORD_HOWE = zone_of("Australia/Lord_Howe", "tz")
APIA = zone_of("Pacific/Apia", "tz")
START, STOP = instant_of(datetime(1995, 1, 1, tzinfo=UTC), ""), instant_of(datetime(2040, 1, 1, tzinfo=UTC), "")
KEYS = sorted(available_timezones() - {"localtime", "Factory"})


def utc(*parts: int) -> Instant:
    return instant_of(datetime(*parts, tzinfo=UTC), "test")  # type: ignore[misc, arg-type]  # year, month, ...


def naive(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001  # year, month, ...: a wall time


class Pytz(tzinfo):
    """As pytz makes them: a tzinfo that knows its key by another name."""

    zone = "Europe/Berlin"

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, when: datetime | None) -> str:
        return "CET"

    def __repr__(self) -> str:
        return "<DstTzInfo 'Europe/Berlin' LMT+0:53:00 STD>"


def test_a_key_a_zone_and_utc_in_any_form_are_one_object() -> None:
    """Else rules of one zone are unequal, and a task loses its next fire at an update that changes nothing."""
    assert zone_of("Europe/Berlin", "tz") is zone_of(ZoneInfo("Europe/Berlin"), "tz")
    assert zone_of(ZoneInfo.no_cache("Europe/Berlin"), "tz") is BERLIN
    for form in ("UTC", "Z", UTC, ZoneInfo("UTC"), timezone(timedelta(0)), timezone(timedelta(0), "GMT"), "+00:00"):
        assert zone_of(form, "tz") is UTC
    assert zone_of(timezone(timedelta(hours=2), "CEST"), "tz") == zone_of("+02:00", "tz")


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "+05:30", "-00:30"])
def test_a_name_reads_back(name: str) -> None:
    """JSON and pickles hold the name alone."""
    assert zone_name(zone_of(name, "tz")) == name


@given(st.integers(-86_399_999_999, 86_399_999_999))
def test_a_fixed_offset_reads_back(offset_us: int) -> None:
    """To the microsecond, which datetime allows."""
    zone = timezone(timedelta(microseconds=offset_us))
    assert zone_of(zone_name(zone), "tz") == zone


REFUSED: list[tuple[Any, str]] = [
    (None, "needs a zone, e.g. 'Europe/Berlin'; the host's own is never taken silently"),
    (5, "not 5; give 'Europe/Berlin' or a zoneinfo.ZoneInfo"),
    (b"UTC", "not b'UTC'"),
    (Pytz(), "not <DstTzInfo 'Europe/Berlin' LMT+0:53:00 STD>; give ZoneInfo('Europe/Berlin')"),
    ("Europe/Berlni", "'Europe/Berlni' is no zone of the database; did you mean 'Europe/Berlin'"),
    ("berlin", "did you mean 'Europe/Berlin'?"),
    ("new york", "did you mean 'America/New_York'?"),
    ("Europe", "'Europe' is no zone of the database"),
    ("", "'' is no zone of the database; give a key such as 'Europe/Berlin', or 'UTC'"),
    ("../etc/passwd", "is no zone of the database"),
    ("/usr/share/zoneinfo/UTC", "is no zone of the database"),
    ("UTC\0", "is no zone of the database"),
    ("x" * 5_000, "is no zone of the database"),
    ("localtime", "'localtime' would be another zone on another machine; name it"),
    ("right/Europe/Berlin", "is a private part of the zone database; give 'Europe/Berlin'"),
    ("+24:00", "'+24:00' is no offset; it is written +HH:MM, and is less than a day"),
    ("+05:60", "'+05:60' is no offset"),
]


@pytest.mark.parametrize(("tz", "words"), REFUSED, ids=[repr(tz)[:20] for tz, _ in REFUSED])
def test_what_is_no_zone_is_refused_with_the_way_out(tz: Any, words: str) -> None:
    """A typing error in a zone must not wait until somebody wonders at the hour."""
    with pytest.raises(RuleError, match=re.escape(words)) as caught:
        zone_of(tz, "cron(tz=)")
    assert str(caught.value).startswith("cron(tz=): ")
    assert len(str(caught.value)) < 400


def test_a_zone_without_a_key_is_refused() -> None:
    """It could not be stored, nor be found again after a restart."""
    for directory in ("/usr/share/zoneinfo", "/usr/lib/zoneinfo"):
        try:
            with open(f"{directory}/Europe/Berlin", "rb") as file:
                zone = ZoneInfo.from_file(file)
        except OSError:
            continue
        with pytest.raises(RuleError, match=r"has no key, so it could not be stored; give ZoneInfo\('Europe/Berlin'\)"):
            zone_of(zone, "tz")
        return
    pytest.skip("this machine has no zone files")


def beside_changes(data: DataObject) -> tuple[tzinfo, Instant]:
    """A zone, and an instant near one of its changes of clocks, or anywhere."""
    zone = zone_of(data.draw(st.sampled_from(KEYS), label="zone"), "tz")
    instant = data.draw(instants(START, STOP), label="instant")
    change = next_change(zone, instant)
    if change is not None:
        steps = st.sampled_from([-7_200, -3_600, -1_800, -1, 0, 1, 1_800, 3_599, 3_600, 7_200])
        instant = Instant(change[0] + data.draw(steps, label="seconds beside") * SECOND_US)
    return zone, Instant(instant + data.draw(st.sampled_from([0, -1, 1]), label="beside"))


@given(st.data())
def test_a_wall_time_is_what_astimezone_says(data: DataObject) -> None:
    """Also beside changes, and with the fold of the second pass."""
    zone, instant = beside_changes(data)
    wall, right = wall_of(instant, zone), datetime_of(instant).astimezone(zone)
    assert (wall, wall.fold) == (right.replace(tzinfo=None), right.fold)


@given(st.data())
def test_an_instant_is_found_again_by_its_wall_time(data: DataObject) -> None:
    """In both passes, each once."""
    zone, instant = beside_changes(data)
    wall = wall_of(instant, zone)
    both = instants_at(wall, zone, "raise", "both")
    assert instant in both
    assert both == tuple(sorted(set(both)))
    assert is_twice(wall, zone) == (len(both) == 2)
    assert instants_at(wall, zone, "raise", "first") == both[:1]
    assert instants_at(wall, zone, "raise", "last") == both[-1:]
    assert gap_at(wall, zone) is None


@given(st.data())
def test_a_wall_time_has_the_instants_that_whenever_says(data: DataObject) -> None:
    """Another library that takes gaps and overlaps for what they are."""
    zone, instant = beside_changes(data)
    beside = data.draw(st.sampled_from([0, -HOUR_US, HOUR_US, -HOUR_US // 2, HOUR_US // 2]), label="wall beside")
    wall = wall_of(instant, zone).replace(fold=0) + timedelta(microseconds=beside)
    plain = PlainDateTime.parse_iso(wall.isoformat())
    if type(zone) is timezone:
        return
    try:
        fires = [plain.assume_tz(zone_name(zone), disambiguation="raise")]
    except SkippedTime:
        fires = []
    except RepeatedTime:
        fires = [
            plain.assume_tz(zone_name(zone), disambiguation="earlier"),
            plain.assume_tz(zone_name(zone), disambiguation="later"),
        ]
    expected = tuple(fire.timestamp(unit="microsecond") for fire in fires)
    assert instants_at(wall, zone, "skip", "both") == expected


def test_a_wall_time_that_is_skipped_is_due_when_the_gap_ends() -> None:
    """02:30 on the last Sunday of March, in most of Europe."""
    wall = naive(2026, 3, 29, 2, 30)
    assert gap_at(wall, BERLIN) == (utc(2026, 3, 29, 1), HOUR_US)
    assert instants_at(wall, BERLIN, "next", "first") == (utc(2026, 3, 29, 1),)
    assert instants_at(wall, BERLIN, "skip", "first") == ()
    with pytest.raises(RuleError, match=r'2026-03-29 02:30:00 does not exist in Europe/Berlin.*gap="next" or "skip"'):
        instants_at(wall, BERLIN, "raise", "first")


@pytest.mark.parametrize(
    ("wall", "missing"),
    [
        (naive(2026, 3, 29, 1, 59, 59), False),
        (naive(2026, 3, 29, 2), True),
        (naive(2026, 3, 29, 2, 59, 59, 999_999), True),
        (naive(2026, 3, 29, 3), False),
    ],
)
def test_a_gap_holds_its_first_instant_and_not_its_end(wall: datetime, missing: bool) -> None:
    """03:00 is a time like any other."""
    assert (gap_at(wall, BERLIN) is not None) == missing
    assert (instants_at(wall, BERLIN, "skip", "both") == ()) == missing


def test_half_an_hour_and_a_whole_day_are_gaps_too() -> None:
    """Lord Howe moves by 30 minutes; Samoa left out a Friday, whose fires are lost and not late."""
    assert gap_at(naive(2026, 10, 4, 2, 10), LORD_HOWE) == (utc(2026, 10, 3, 15, 30), HOUR_US // 2)
    assert instants_at(naive(2026, 10, 4, 2, 10), LORD_HOWE, "next", "first") == (utc(2026, 10, 3, 15, 30),)
    assert gap_at(naive(2011, 12, 30, 12), APIA) == (utc(2011, 12, 30, 10), 24 * HOUR_US)
    assert instants_at(naive(2011, 12, 30, 12), APIA, "next", "first") == ()
    with pytest.raises(RuleError, match="does not exist in Pacific/Apia"):
        instants_at(naive(2011, 12, 30, 12), APIA, "raise", "first")


def test_the_next_change_is_told_with_both_offsets() -> None:
    """Strictly after, so that a walk over changes ends."""
    spring, autumn = utc(2026, 3, 29, 1), utc(2026, 10, 25, 1)
    assert next_change(BERLIN, utc(2026, 1, 1)) == (spring, HOUR_US, 2 * HOUR_US)
    assert next_change(BERLIN, Instant(spring - 1)) == (spring, HOUR_US, 2 * HOUR_US)
    assert next_change(BERLIN, spring) == (autumn, 2 * HOUR_US, HOUR_US)
    assert next_change(UTC, spring) is None
    assert next_change(zone_of("Asia/Tokyo", "tz"), spring) is None
    assert next_change(BERLIN, MAX_INSTANT) is None


@pytest.mark.parametrize(
    "key", ["Africa/Casablanca", "America/Noronha", "Asia/Gaza", "Europe/Dublin", "Antarctica/Troll"]
)
def test_no_change_is_missed_in_forty_five_years(key: str) -> None:
    """Gaza and Noronha have two within a week; to miss them would move every fire in between by an hour."""
    zone, there = zone_of(key, "tz"), ZoneInfo(key)
    for instant in map(Instant, range(START, STOP, 6 * HOUR_US)):
        assert wall_of(instant, zone) == datetime_of(instant).astimezone(there).replace(tzinfo=None)


@given(st.sampled_from(KEYS), st.sampled_from([MIN_INSTANT, MAX_INSTANT]))
def test_the_ends_of_the_calendar_are_no_overflow(key: str, end: Instant) -> None:
    """A wall time past the year 9999 is refused by name; an instant past it is none."""
    zone = zone_of(key, "tz")
    try:
        wall = wall_of(end, zone)
    except RuleError as error:
        assert "beyond the years 1 to 9999" in str(error)  # noqa: PT017  # either is right, by the sign of the offset
    else:
        assert instants_at(wall, zone, "next", "both") == (end,)
    for wall in (naive(1, 1, 1), naive(9999, 12, 31, 23, 59, 59, 999_999)):
        for instant in instants_at(wall, zone, "next", "both"):
            assert MIN_INSTANT <= instant <= MAX_INSTANT


@given(st.integers(-(10**17), 10**17), st.sampled_from(["next", "skip"]), st.sampled_from(["first", "last", "both"]))
def test_utc_has_every_wall_time_once(wall_us: int, gap: str, fold: str) -> None:
    """The commonest zone of all."""
    wall = naive_of(max(min(wall_us, MAX_INSTANT), MIN_INSTANT))
    assert instants_at(wall, UTC, cast("Gap", gap), cast("Fold", fold)) == (instant_of(wall.replace(tzinfo=UTC), ""),)


def test_zones_survive_a_pickle() -> None:
    """Rules go to other processes by the name of their zone."""
    assert pickle.loads(pickle.dumps(BERLIN)) is not None
    assert zone_of(zone_name(pickle.loads(pickle.dumps(BERLIN))), "tz") is BERLIN
