"""An oracle for zone changes: reads the compiled zone files (RFC 9636) itself, never asks zoneinfo for an offset."""

from __future__ import annotations

import importlib.resources
import re
import struct
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

Move = tuple[int, int]
"""(at, the offset from then on), in seconds UTC."""
DAY_S = 86_400


def offset_changes(zone: str, start: int, end: int) -> list[tuple[int, int, int]]:
    """(at, before, after) of each change of the offset in start < at <= end, all in seconds UTC, in order."""
    data = zone_file(zone)
    first, moves, footer = parse(data)
    last = moves[-1][0] if moves else -(2**62)
    years = range(datetime.fromtimestamp(start, UTC).year - 2, datetime.fromtimestamp(end, UTC).year + 2)
    moves = moves + [move for move in footer_moves(footer, years) if move[0] > last]
    changes, offset = [], first
    for at, after in moves:
        if after != offset and start < at <= end:
            changes.append((at, offset, after))
        offset = after
    return changes


def zone_file(zone: str) -> bytes:
    """Where zoneinfo would take it from: the system's folders, else the tzdata package."""
    for folder in zoneinfo.TZPATH:
        if (path := Path(folder, zone)).is_file():
            return path.read_bytes()
    return importlib.resources.files("tzdata.zoneinfo").joinpath(*zone.split("/")).read_bytes()


def parse(data: bytes) -> tuple[int, list[Move], str]:
    """The offset before the first move, the moves (at, offset from then on), and the rule for later years."""
    version, *counts = struct.unpack_from(">4xc15x6l", data)
    if version == b"\0":
        return *block(data, 44, counts, 4)[:2], ""
    second = 44 + block(data, 44, counts, 4)[2]
    _, *counts = struct.unpack_from(">4xc15x6l", data, second)
    first, moves, length = block(data, second + 44, counts, 8)
    return first, moves, data[second + 44 + length :].strip(b"\n").decode("ascii")


def block(data: bytes, at: int, counts: list[int], width: int) -> tuple[int, list[Move], int]:
    """One data block of the file, and its length in bytes. `width` is the size of a transition time."""
    utc_flags, standard_flags, leaps, times, types, letters = counts
    whens = struct.unpack_from(f">{times}{'q' if width == 8 else 'l'}", data, at)
    which = data[at + times * width : at + times * (width + 1)]
    table = at + times * (width + 1)
    offsets = [struct.unpack_from(">l", data, table + 6 * number)[0] for number in range(types)]
    length = times * (width + 1) + types * 6 + letters + leaps * (width + 4) + standard_flags + utc_flags
    return offsets[0], [(when, offsets[index]) for when, index in zip(whens, which, strict=True)], length


def footer_moves(footer: str, years: range) -> list[Move]:
    """The moves that a POSIX TZ rule such as `CET-1CEST,M3.5.0,M10.5.0/3` makes in the years."""
    name = r"(?:<[^>]+>|[A-Za-z]+)"
    match = re.fullmatch(rf"{name}([-+\d:]+)(?:{name}([-+\d:]+)?,([^,]+),([^,]+))?", footer)
    assert match or not footer, f"not a POSIX TZ rule: {footer!r}"
    if match is None or match[3] is None:
        return []  # one offset for ever, which the last move of the file has brought already
    standard = -seconds(match[1])
    summer = -seconds(match[2]) if match[2] else standard + 3_600
    moves = []
    for year in years:
        moves.append((day_time(match[3], year) - standard, summer))
        moves.append((day_time(match[4], year) - summer, standard))
    return sorted(moves)


def day_time(rule: str, year: int) -> int:
    """The local second, counted as if it were UTC, that `M3.5.0/2`, `J60` or `59/26` names in the year."""
    day, _, clock = rule.partition("/")
    if day.startswith("M"):
        month, week, weekday = map(int, day[1:].split("."))
        picked = list(weekdays(year, month, weekday))
        found = picked[-1] if week == 5 else picked[week - 1]
    elif day.startswith("J"):  # 1 to 365, 29 February is never counted
        found = date(2001, 1, 1) + timedelta(days=int(day[1:]) - 1)
        found = found.replace(year=year)
    else:
        found = date(year, 1, 1) + timedelta(days=int(day))
    return (found - date(1970, 1, 1)).days * DAY_S + (seconds(clock) if clock else 7_200)


def weekdays(year: int, month: int, weekday: int) -> Iterator[date]:
    """Every day of the month on that weekday; 0 is Sunday."""
    day = date(year, month, 1)
    while day.month == month:
        if day.isoweekday() % 7 == weekday:
            yield day
        day += timedelta(days=1)


def seconds(clock: str) -> int:
    """`-1`, `+5:30`, `26:00:00` in seconds."""
    sign = -1 if clock.startswith("-") else 1
    parts = [*map(int, clock.lstrip("+-").split(":")), 0, 0]
    return sign * (parts[0] * 3_600 + parts[1] * 60 + parts[2])
