"""When will the world's clocks change? A report on every time zone of this machine, for the coming year.

    tickless run examples/world_clocks.py:scheduler

    list the zones ──> find changes, one task a zone ──> report ──> stop the heartbeat
                       heartbeat, recurring, shows how far we are

The list of zones is known only when the first task has run, so that task schedules the others.
WORLD_CLOCKS_CSV names the CSV file (default: world_clocks.csv here), WORLD_CLOCKS_FROM the first day (default: now).
"""

import csv
import os
import sys
import zoneinfo
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tickless import Call, Scheduler, Task, every

YEAR_S = 365 * 86_400
STEP_S = 6 * 3_600  # shorter than the time between any two changes of one zone
ROWS = 20  # of the table; the CSV has all
LANDMARKS = (  # the names that stand for their neighbours in the table
    "Europe/London Europe/Berlin Europe/Athens America/New_York America/Chicago America/Denver America/Los_Angeles "
    "America/Anchorage America/Halifax America/Santiago Africa/Cairo Asia/Jerusalem Australia/Sydney Pacific/Auckland"
).split()

scheduler = Scheduler()


class Change(NamedTuple):
    """One zone's offset from UTC, in seconds, changes at one second since 1970, UTC."""

    at: int
    before: int
    after: int
    zone: str


def list_zones() -> None:
    """Schedule the rest: one task a zone, the report over all of them, and a heartbeat that ends with the report."""
    start = first_second()
    zones = sorted(zoneinfo.available_timezones() - {"localtime"})  # no zone of its own: this machine's setting
    if not zones:
        raise LookupError("this machine has no time-zone database; get one with: pip install tzdata")
    print(f"{len(zones)} time zones on this machine\n")

    finders = scheduler.schedule_many(
        Call(find_changes, args=(zone, start, start + YEAR_S), id=f"zone/{zone}", name="find changes") for zone in zones
    )
    # All parents' outputs become the report's arguments: they are passed on, never looked up.
    report = scheduler.schedule(
        write_report, args=(start, *(finder.output for finder in finders)), after_tasks=finders, name="report"
    )
    # Of what is due at once the higher priority runs first: the heartbeat need not queue behind 600 others.
    heartbeat = scheduler.schedule(show_progress, every(seconds=0.2), args=(finders,), priority=1, name="heartbeat")
    # all_done: a report that failed must not leave the heartbeat beating for ever.
    scheduler.schedule(heartbeat.cancel, after_tasks=[report], run_if="all_done", name="stop the heartbeat")


def first_second() -> int:
    day = os.environ.get("WORLD_CLOCKS_FROM")
    return int((datetime.fromisoformat(day).replace(tzinfo=UTC) if day else datetime.now(UTC)).timestamp())


def find_changes(zone: str, start: int, end: int) -> list[Change]:
    """The zone's changes after `start`, up to and including `end`, exact to the second.

    Walks along UTC, where no hour is missing and none comes twice, and bisects each step whose two ends differ.
    It asks for nothing but the offset, so half hours, two hours and "negative" summer time need no case of their own.
    """
    rules = zoneinfo.ZoneInfo(zone)

    def offset(second: int) -> int:
        return int(datetime.fromtimestamp(second, rules).utcoffset() / timedelta(seconds=1))  # type: ignore[operator]

    changes = []
    known, before = start, offset(start)
    while known < end:
        ahead = min(known + STEP_S, end)
        after = offset(ahead)
        if after != before:
            old, new = known, ahead
            while new - old > 1:
                middle = (old + new) // 2
                old, new = (middle, new) if offset(middle) == before else (old, middle)
            changes.append(Change(new, before, after, zone))
        known, before = ahead, after
    return changes


def show_progress(finders: list[Task[list[Change]]]) -> None:
    done = sum(finder.state.terminal for finder in finders)
    bar = "#" * (24 * done // len(finders))
    print(f"[{bar:.<24}] {done} of {len(finders)} zones")


def write_report(start: int, *found: list[Change]) -> None:
    """All changes as a CSV, the soonest as a table. Zones that change together share a line there."""
    changes = sorted(change for of_zone in found for change in of_zone)
    path = Path(os.environ.get("WORLD_CLOCKS_CSV", "world_clocks.csv"))
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["zone", "at_utc", "offset_before", "offset_after"])
        rows.writerows((c.zone, f"{utc(c.at):%Y-%m-%dT%H:%M:%SZ}", hours(c.before), hours(c.after)) for c in changes)

    groups: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)
    for change in changes:
        groups[change[:3]].append(change.zone)
    lines = list(table(groups))
    restless = sum(1 for of_zone in found if of_zone)
    print(f"\nThe world's clocks from {utc(start):%d %B %Y} to {utc(start + YEAR_S):%d %B %Y}")
    print(
        f"Of {len(found)} names, old ones and aliases included, {restless} change their offset; the others keep it.\n"
    )
    print("\n".join(lines[: 2 + ROWS]))
    if len(groups) > ROWS:
        print(f"... and {len(groups) - ROWS} more")
    print(f"\nAll {len(changes)} changes, zone by zone: {path}")


def table(groups: dict[tuple[int, int, int], list[str]]) -> Iterator[str]:
    yield f"{'when (UTC)':<22} {'offset':<16} {'clocks go':<13} where"
    yield f"{'-' * 22} {'-' * 16} {'-' * 13} {'-' * 40}"
    for (at, before, after), zones in groups.items():
        way = "forward" if after > before else "back"
        when = f"{utc(at):%a %d %b %Y %H:%M}"
        shift = f"{hours(before)} -> {hours(after)}"
        yield f"{when:<22} {shift:<16} {way:<7} {length(abs(after - before)):<5} {where(zones)}"


def where(zones: list[str]) -> str:
    """The best-known names first; old names and aliases of the same place are counted, not shown."""
    by_fame = sorted(zones, key=lambda zone: (LANDMARKS.index(zone) if zone in LANDMARKS else 99, "/" not in zone))
    more = len(zones) - 2
    return ", ".join(by_fame[:2]) + (f" and {more} more" if more > 0 else "")


def utc(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def hours(offset: int) -> str:
    """An offset as people write it, `+05:30`; seconds only where there are any."""
    minutes, seconds = divmod(abs(offset), 60)
    sign = "-" if offset < 0 else "+"
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


def length(seconds: int) -> str:
    return f"{seconds // 3600} h" if seconds % 3600 == 0 else f"{seconds // 60} min"


scheduler.schedule(list_zones, name="list the zones")

if __name__ == "__main__":
    sys.exit(0 if scheduler.run() else 1)
