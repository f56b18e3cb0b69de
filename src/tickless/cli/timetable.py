"""`preview FILE`: when the tasks of a task file or a crontab fire next, all in one list."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickless.cli.moments import instant_said
from tickless.cli.page import Page
from tickless.clocks import SystemClock
from tickless.control.documents import moment, moment_of
from tickless.control.refusals import Code, Refusal
from tickless.errors import RuleError
from tickless.instants import SECOND_US, Instant, datetime_of, instant_of
from tickless.rules.preview import Fire, upcoming
from tickless.rules.zones import zone_of
from tickless.taskfile.read import read
from tickless.taskfile.values import FlowDef, TaskDef, TaskFile, part_id

if TYPE_CHECKING:
    from tickless.cli.preview import Wanted

DEFAULT_COUNT, MOST_COUNT = 20, 10_000


def timetable(wanted: Wanted) -> int:
    """The whole of it. Gives the exit code. Raises Refusal, and FileError for a file that cannot be read."""
    if wanted.compare is not None:
        raise Refusal(Code.USAGE, "usage", "--compare: is about two rules, and this is a file")
    file = read(Path(wanted.expr[0]))
    page = Page()
    if page.zone is None:
        page.zone = zone_of(file.timezone, "timezone")
        page.said.tz = file.timezone
    start = Instant(SystemClock().wall() // SECOND_US * SECOND_US)
    if wanted.start is not None:
        start = instant_said("--from", wanted.start, page.zone)
    until = None if wanted.until is None else instant_said("--until", wanted.until, page.zone)
    count = DEFAULT_COUNT if wanted.count is None else wanted.count
    if not 1 <= count <= MOST_COUNT:
        raise Refusal(Code.USAGE, "usage", f"-n {count}: between 1 and {MOST_COUNT} fires can be shown")
    found = list(_merged(file, datetime_of(start), page.zone, until, count))
    if page.said.json:
        page.document("timetable", _document(wanted, file, start, until, found))
    else:
        _show(page, file, found)
    return Code.DONE


def _merged(
    file: TaskFile, start: datetime, zone: tzinfo, until: Instant | None, count: int
) -> Iterator[tuple[str, Fire]]:
    """(task, fire) of all of them in one order, at most `count`."""
    order = {part_id(part): number for number, part in enumerate(file.parts)}
    streams = [_fires(part, start, zone) for part in file.parts if part.when is not None]
    for shown, (name, fire) in enumerate(heapq.merge(*streams, key=lambda one: (one[1].due, order[one[0]]))):
        if shown == count or (until is not None and instant_of(fire.due, "fire") > until):
            return
        yield name, fire


def _fires(part: TaskDef | FlowDef, start: datetime, zone: tzinfo) -> Iterator[tuple[str, Fire]]:
    assert part.when is not None
    first, last = part.options.get("start"), part.options.get("until")
    begin = start if first is None or first <= start else first
    try:
        for fire in upcoming(part.when, begin, tz=zone):
            if last is not None and fire.due > last:
                return
            yield part_id(part), fire
    except RuleError:
        return  # gap="raise" has no fire there; the rule's own preview tells it


def _show(page: Page, file: TaskFile, found: list[tuple[str, Fire]]) -> None:
    if not page.said.quiet:
        page.line(f"{file.path}: {len(file.tasks)} tasks; times in {page.zone_name()}", "dim")
        page.line()
    rows = [[page.when(moment_of(fire.due)), name, "; ".join(fire.notes)] for name, fire in found]
    page.table(("DUE", "TASK", "NOTE"), rows, "NOTE")
    at_start = [part_id(part) for part in file.parts if part.when is None]
    if at_start:
        page.line(f"once, at the start: {', '.join(at_start)}")
    for warning in file.warnings:
        page.line(f"note: {warning}", "yellow")


def _document(
    wanted: Wanted, file: TaskFile, start: Instant, until: Instant | None, found: list[tuple[str, Fire]]
) -> dict[str, Any]:
    return {
        "file": wanted.expr[0],
        "tz": file.timezone,
        "from": moment(start),
        "until": moment(until),
        "fires": [{"due": moment_of(fire.due), "task": name, "notes": list(fire.notes)} for name, fire in found],
        "at_start": [part_id(part) for part in file.parts if part.when is None],
        "warnings": list(file.warnings),
    }
