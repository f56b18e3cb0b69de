"""What a command prints: a JSON document, or a page of lines and tables, plain or for the eye."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from typing import Any

from tickless.cli.settings import Settings, settings, wants_rich
from tickless.clocks import SystemClock
from tickless.control.documents import VERSION, Document
from tickless.instants import SECOND_US, Instant, datetime_of
from tickless.observe.text import printable, span_text

NARROWEST = 80
NARROWEST_COLUMN = 12
COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "skipped": "yellow",
    "cancelled": "bright_black",
    "running": "cyan",
    "ready": "cyan",
    "paused": "magenta",
}
_GAP = "  "


class Page:
    """Standard output for one answer. Times are in one zone, which the header names."""

    def __init__(self, said: Settings | None = None) -> None:
        self.said = settings() if said is None else said
        self.zone: tzinfo | None = self.said.zone()
        self.rich = wants_rich(self.said, sys.stdout.isatty())

    def document(self, kind: str, answer: Document) -> None:
        """The answer for programs."""
        head = {"v": VERSION, "kind": kind}
        print(json.dumps({**head, **{key: value for key, value in answer.items() if key not in head}}, indent=2))

    def header(self, answer: Document) -> None:
        """Where the answer is from, and which zone the times are in; not with -q."""
        source = answer.get("source")
        if source is not None and self.said.tz is None and source.get("tz"):
            self.said.tz = source["tz"]  # a task file says in which zone it thinks
            self.zone = self.said.zone()
        if self.said.quiet or source is None:
            return
        where = printable(str(source["where"]), 200)
        said = {
            "socket": f"running scheduler of {where}" + (f" (pid {source['pid']})" if source.get("pid") else ""),
            "app": f"app {where}, which does not run",
            "file": f"task file {where}, which does not run",
            "store": f"store {where}",
        }[source["kind"]]
        self.line(f"{said}; times in {self.zone_name()}", "dim")
        if source.get("reload_error"):  # but `health` finds none: a restart for it ends what goes on
            error = printable(source["reload_error"].split("\n")[0], 200)
            self.line(f"the file was not taken when it changed, and what was there before goes on: {error}", "yellow")
        self.line()

    def zone_name(self) -> str:
        now = datetime_of(Instant(SystemClock().wall())).astimezone(self.zone)
        name, offset = now.tzname() or "", now.isoformat(timespec="seconds")[19:]
        if name == "UTC":
            return name
        if self.said.tz is None:
            return f"UTC{offset}" if name.startswith(("+", "-")) or not name else f"{name} (UTC{offset})"
        return f"{self.said.tz} (UTC{offset})"

    def line(self, text: str = "", style: str = "") -> None:
        if self.rich and style:
            self._console().print(text, style=style, highlight=False, markup=False, soft_wrap=True)
        else:
            print(text)

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]], grows: str = "") -> None:
        """Columns under their heads. `grows`: the head of the column that gets what room there is, and is cut."""
        cells = [[printable(cell, 500) for cell in row] for row in rows]
        if self.rich:
            self._rich_table(heads, cells, grows)
            return
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        for row in [heads, *cells]:
            print(_GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())

    def _rich_table(self, heads: Sequence[str], rows: list[list[str]], grows: str) -> None:
        from rich.table import Table
        from rich.text import Text

        console = self._console()
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for head, width in zip(heads, fitting(heads, rows, grows, console.width), strict=True):
            table.add_column(head, no_wrap=True, overflow="ellipsis", width=width)
        for row in rows:
            table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
        console.print(table)

    def _console(self) -> Any:
        import shutil  # here only, as what follows: a page without colours begins sooner

        from rich.console import Console

        width = shutil.get_terminal_size((NARROWEST, 24)).columns
        no_color = self.said.no_color or bool(os.environ.get("NO_COLOR"))
        return Console(width=max(width, NARROWEST), no_color=no_color, highlight=False)

    # Words for values

    def when(self, text: str | None) -> str:
        """An instant of a document, to the second, in the zone: `2026-12-01 03:30:00`."""
        if text is None:
            return "-"
        when = datetime.fromisoformat(text).astimezone(self.zone)
        return f"{when:%Y-%m-%d %H:%M:%S}"

    def took(self, seconds: float | None) -> str:
        return "-" if seconds is None else span_text(round(seconds * SECOND_US))


def fitting(heads: Sequence[str], rows: Sequence[Sequence[str]], grows: str, room: int) -> list[int]:
    """How wide each column may be so that all fit: what `grows` is cut first, then the first column."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    over = sum(widths) + len(_GAP) * len(widths) - room
    for place in (heads.index(grows) if grows else 0, 0):
        cut = max(0, min(over, widths[place] - NARROWEST_COLUMN))
        widths[place] -= cut
        over -= cut
    return widths


def state_of(task: Document) -> str:
    """One word for a list."""
    if task["paused"]:
        return "paused"
    return "retrying" if task["retry_at"] is not None and task["state"] == "pending" else str(task["state"])
