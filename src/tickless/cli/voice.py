"""What `tickless run` itself says, beside the events: lines on standard error, or JSON lines on standard output."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Any, TextIO

from tickless.cli.settings import Settings
from tickless.clocks import SystemClock
from tickless.control.documents import VERSION, event_document, moment
from tickless.observe.console import ConsoleObserver
from tickless.observe.text import printable
from tickless.records import Event, EventKind

_lock = Lock()


class Voice:
    """`say` tells one thing, on one line."""

    def __init__(self, said: Settings) -> None:
        self.as_json = said.json
        self.stream = sys.stdout
        """Standard output, whatever takes its name for what tasks print."""
        self.verbose = said.verbose > 0
        """Whether starts are told, too."""
        self._quiet = said.quiet > 0

    def say(self, line: str, level: str = "info") -> None:
        """Not with -q, unless the level is "error"."""
        if self._quiet and level == "info":
            return
        if self.as_json:
            now = moment(SystemClock().now())
            write_line({"v": VERSION, "kind": "note", "at": now, "level": level, "message": line}, self.stream)
        else:
            print(f"tickless: {printable(line, 2_000)}", file=sys.stderr, flush=True)


def write_line(document: dict[str, Any], stream: TextIO) -> None:
    """One JSON line, whole, whichever thread says it."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    with _lock:
        stream.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
        stream.flush()


class JsonLog:
    """An observer that writes each event as a JSON line."""

    kinds = ConsoleObserver.kinds

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.counts: Counter[EventKind] = Counter()

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            self.counts[event.kind] += event.count
            write_line(event_document(event), self._stream)
