"""`doctor`: what is wrong with this machine, a file or a store, before it is wrong at night."""

from __future__ import annotations

import importlib.util
import platform
import sqlite3
import sys
import zoneinfo
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from tickless import __version__
from tickless.cli.page import Page
from tickless.cli.settings import looks_at, settings
from tickless.cli.sources import file_said, running_of
from tickless.control import paths
from tickless.control.refusals import Code
from tickless.errors import TicklessError
from tickless.stores.sql.header import OLDEST_SQLITE

Level = Literal["ok", "note", "bad"]
EXTRAS = {"rrule": "dateutil", "cli": "rich"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    what: str
    said: str


@click.command(
    epilog="""\b
examples:
  tickless doctor
  tickless doctor tasks.toml
  tickless doctor --store sqlite:///tasks.db --json
"""
)
@click.argument("path", required=False, metavar="[FILE]")
@looks_at("file", "store")
def doctor(path: str | None) -> int:
    """Look at this machine, and at a task file or a store if one is named: exit code 8 when something is wrong."""
    if path is not None:
        settings().file = path
    findings = [*_machine(), *_file(), *_store()]
    bad = [finding for finding in findings if finding.level == "bad"]
    page = Page()
    if page.said.json:
        shown = [{"level": one.level, "what": one.what, "message": one.said} for one in findings]
        page.document("doctor", {"healthy": not bad, "findings": shown})
        return Code.FINDINGS if bad else Code.DONE
    colours = {"ok": "green", "note": "yellow", "bad": "red"}
    for one in findings:
        if one.level != "ok" or not page.said.quiet:
            page.line(f"{one.level:<4}  {one.what:<14}  {one.said}", colours[one.level])
    return Code.FINDINGS if bad else Code.DONE


def _machine() -> Iterator[Finding]:
    yield Finding("ok", "versions", f"tickless {__version__}, Python {platform.python_version()}, {platform.system()}")
    yield from _sqlite()
    yield from _zones()
    yield from _clock()
    yield from _sockets()
    missing = [extra for extra, module in EXTRAS.items() if importlib.util.find_spec(module) is None]
    if missing:
        yield Finding("note", "extras", f"not installed: {', '.join(missing)}; pip install 'tickless[{missing[0]}]'")
    if not sys.platform.startswith("linux"):
        yield Finding("note", "reload", "a changed task file is not noticed here; send SIGHUP")


def _sqlite() -> Iterator[Finding]:
    found = sqlite3.sqlite_version_info
    needed = ".".join(map(str, OLDEST_SQLITE))
    if found < OLDEST_SQLITE:
        yield Finding("bad", "sqlite", f"is {sqlite3.sqlite_version}, and a store needs {needed}")
    else:
        yield Finding("ok", "sqlite", f"{sqlite3.sqlite_version} ({needed} is needed)")


def _zones() -> Iterator[Finding]:
    try:
        count = len(zoneinfo.available_timezones())
        zoneinfo.ZoneInfo("Europe/Berlin")
    except (OSError, zoneinfo.ZoneInfoNotFoundError):
        yield Finding("bad", "time zones", "this machine has no time-zone database; pip install tzdata")
        return
    version = _zone_version()
    yield Finding("ok", "time zones", f"{count} zones" + (f", version {version}" if version else ""))


def _zone_version() -> str | None:
    for folder in zoneinfo.TZPATH:
        for name, cut in (("tzdata.zi", 10), ("+VERSION", 0)):
            try:
                with open(Path(folder) / name, encoding="ascii") as file:
                    line = file.readline().strip()
            except OSError:
                continue
            return line[cut:].strip() if cut else line
    return None


def _clock() -> Iterator[Finding]:
    if sys.platform in ("linux", "darwin"):
        yield Finding("ok", "clock", "elapsed time counts on while the machine is suspended")
    else:
        yield Finding("note", "clock", "elapsed time stands still while the machine is suspended")


def _sockets() -> Iterator[Finding]:
    try:
        folder = paths.made_folder()
    except (TicklessError, OSError) as error:
        yield Finding("bad", "sockets", str(error))
        return
    yield Finding("ok", "sockets", f"{folder}")


def _file() -> Iterator[Finding]:
    name = file_said()
    if name is None:
        return
    from tickless.taskfile.build import check, store_of
    from tickless.taskfile.read import read
    from tickless.taskfile.values import FileError

    try:
        file = read(Path(name))
        with redirect_stdout(sys.stderr):  # what its modules print when they are imported is no finding
            check(file)
    except FileError as error:
        for problem in error.problems:
            yield Finding("bad", name, f"{problem.place}: {problem.message}")
        return
    yield Finding("ok", name, f"{len(file.tasks)} tasks")
    for warning in file.warnings:
        yield Finding("note", name, warning)
    if store_of(file) is None:
        yield Finding("note", name, "has no store: what comes due while it does not run is not made up for")
    if running_of(name) is None:
        yield Finding("note", name, "nobody runs it now")


def _store() -> Iterator[Finding]:
    url = settings().store
    if url is None:
        return
    from tickless.upkeep import status

    try:
        found = status(url, integrity=True)
    except TicklessError as error:
        yield Finding("bad", url, str(error))
        return
    newest = found["newest_version"]
    yield Finding("ok", url, f"{found['path']}: {sum(found['tasks'].values())} tasks")
    if found["version"] != newest:
        yield Finding("note", url, f"is of version {found['version']}, and today's is {newest}: tickless db upgrade")
    for one in found["unusable"]:
        yield Finding("bad", url, f"task {one['id']}: {one['reason']}")
    for line in found["faults"]:
        yield Finding("bad", url, line)
