"""Events for the eye: a live log on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TextIO

from tickless.instants import Instant, datetime_of
from tickless.observe.text import printable, printable_lines, shape_of, span_text
from tickless.observe.throttle import Throttle
from tickless.records import Event, EventKind

_RED, _GREEN, _YELLOW, _DIM = "31", "32", "33", "2"
_COLOURS = {
    EventKind.STARTED: _DIM,
    EventKind.SUCCEEDED: _GREEN,
    EventKind.FAILED: _RED,
    EventKind.RETRY: _YELLOW,
    EventKind.SKIPPED: _YELLOW,
    EventKind.CANCELLED: _DIM,
    EventKind.PAUSED: _DIM,
    EventKind.RESUMED: _DIM,
    EventKind.TROUBLE: _RED,
    EventKind.STORE_DOWN: _RED,
    EventKind.DROPPED: _YELLOW,
}
_ENDS = frozenset({EventKind.SUCCEEDED, EventKind.FAILED, EventKind.RETRY, EventKind.SKIPPED, EventKind.CANCELLED})
"""What ends a run, or an attempt of one."""
_MOST_STARTS = 10_000
_NAME_WIDTH, _LONGEST_NAME = 24, 60


class ConsoleObserver:
    """One line for each end of a run, and for each trouble: local time, state, name, lateness, duration, error.

    12:00:00.250  succeeded  fetch                     late 0.3 ms  took 250 ms

    `stream`: where to write; standard output when not given. When its reader is gone the log ends, nothing else does.
    `starts`: a line for each start, too. `tracebacks`: a failure's traceback under its line, each one once in a while.
    `zone`: of the times shown; the machine's own when not given. Its offset has a line of its own, first and whenever
    it changes. `colour`: only on a terminal, and not if NO_COLOR is set, unless given.
    """

    kinds = frozenset(_COLOURS)

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        starts: bool = False,
        tracebacks: bool = True,
        zone: tzinfo | None = None,
        colour: bool | None = None,
    ) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._shows_starts = starts
        self._shows_tracebacks = tracebacks
        self._zone = zone
        self._colour = _wants_colour(self._stream) if colour is None else colour
        self._offset: timedelta | None = None
        self._started: dict[tuple[str | None, Instant | None], Instant] = {}
        self._traces = Throttle()

    def observe(self, events: Sequence[Event]) -> None:
        self._write("".join(text for event in events for text in self._lines(event)))

    def _lines(self, event: Event) -> list[str]:
        if event.kind is EventKind.STARTED:
            self._note_start(event)
            if not self._shows_starts:
                return []
        when = datetime_of(event.at_us).astimezone(self._zone)
        lines = [self._line(event, when)]
        if when.utcoffset() != self._offset:
            self._offset = when.utcoffset()
            lines.insert(0, f"{when:%Y-%m-%d}, times in UTC{when.isoformat(timespec='seconds')[19:]}\n")
        if event.traceback and self._shows_tracebacks and self._is_new(event, event.traceback):
            lines += [f"    {line}\n" for line in printable_lines(event.traceback).split("\n")]
        return lines

    def _line(self, event: Event, when: datetime) -> str:
        state = f"{event.kind:<9}"
        if self._colour:
            state = f"\x1b[{_COLOURS.get(event.kind, _DIM)}m{state}\x1b[0m"
        name = printable(event.name or event.task_id or "tickless", _LONGEST_NAME)
        notes = "  ".join(self._notes(event))
        clock_time = f"{when:%H:%M:%S}.{when.microsecond // 1000:03d}"
        return f"{clock_time}  {state}  {name:<{_NAME_WIDTH}}  {notes}".rstrip() + "\n"

    def _notes(self, event: Event) -> list[str]:
        notes = []
        started_us = event.at_us if event.kind is EventKind.STARTED else None
        if event.kind in _ENDS:
            started_us = self._started.pop((event.task_id, event.due_us), None)
        if started_us is not None and event.due_us is not None:
            notes.append(f"late {span_text(max(0, started_us - event.due_us))}")
        if started_us is not None and event.kind in _ENDS:
            notes.append(f"took {span_text(max(0, event.at_us - started_us))}")
        if event.kind is EventKind.RETRY:
            notes.append(f"attempt {event.count}, and again")
        elif event.count != 1:
            notes.append(f"{event.count} {'events' if event.kind is EventKind.DROPPED else 'fires'}")
        if event.reason is not None:
            notes.append(str(event.reason))
        if event.error:
            notes.append(printable(event.error, 300))
        return notes

    def _note_start(self, event: Event) -> None:
        """Remember when it began; of runs whose end is never told (dropped events) the oldest are forgotten."""
        self._started[event.task_id, event.due_us] = event.at_us
        if len(self._started) > _MOST_STARTS:
            del self._started[next(iter(self._started))]

    def _is_new(self, event: Event, traceback: str) -> bool:
        return any(line.fresh and line.event is event for line in self._traces.add(hash(shape_of(traceback)), event))

    def _write(self, text: str) -> None:
        """Write and flush. A stream that is closed, broken or absent is not tried again."""
        stream = self._stream
        if not text or stream is None:
            return
        try:
            encoding = getattr(stream, "encoding", None) or "utf-8"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
        except (OSError, ValueError):  # ValueError: write to a closed file
            self._stream = None


def _wants_colour(stream: TextIO | None) -> bool:
    if stream is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # closed, or a stand-in without the method
        return False
