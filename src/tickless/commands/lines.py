"""What commands print, line by line, as it comes: each with the run that it is of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from queue import Full, Queue
from threading import Thread
from typing import NamedTuple, TextIO

from tickless.instants import Instant, datetime_of
from tickless.observe.text import printable

MOST_WAITING = 10_000
"""Lines that wait for a slow terminal; of those that come then only the number is told."""
PER_SECOND = 1_000
"""Lines of one run that are shown in a second; a child that prints gigabytes must not hold up the others."""
LONGEST = 8_192
"""In bytes: a longer line is shown in pieces."""


class Source(NamedTuple):
    """The run that a line is of."""

    task: str
    run: str
    attempt: int


class Lines:
    """Writes lines to the stream in a thread of its own, so that nobody waits for the stream."""

    def __init__(self, stream: TextIO, *, as_json: bool = False) -> None:
        self._stream = stream
        self._as_json = as_json
        self._waiting: Queue[tuple[Instant, Source, str] | None] = Queue(MOST_WAITING)
        self._lost = 0
        self._thread: Thread | None = None
        self._closed = False

    def show(self, at: Instant, source: Source, lines: Sequence[bytes]) -> None:
        """Called by one thread at a time. Never waits for the stream."""
        if self._closed:
            return
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="tickless-lines", daemon=True)
            self._thread.start()
        for line in lines:
            self._put(at, source, printable(line.decode("utf-8", "replace").expandtabs(4), LONGEST))

    def note(self, at: Instant, source: Source, text: str) -> None:
        """A line of ours about the run."""
        self.show(at, source, [text.encode()])

    def _put(self, at: Instant, source: Source, text: str) -> None:
        try:
            if self._lost and not self._waiting.full():
                self._waiting.put_nowait((at, source, f"... {self._lost:,} lines not shown"))
                self._lost = 0
            self._waiting.put_nowait((at, source, text))
        except Full:
            self._lost += 1

    def close(self) -> None:
        """Everything is written when this returns, unless the stream takes nothing for a second."""
        self._closed = True
        if self._thread is None:
            return
        try:
            self._waiting.put(None, timeout=1)
        except Full:
            return
        self._thread.join(1)

    def _serve(self) -> None:
        while (one := self._waiting.get()) is not None:
            try:
                self._stream.write(self._line(*one))
                if self._waiting.empty():
                    self._stream.flush()
            except (OSError, ValueError):  # it is closed, or broken: nobody reads
                self._closed = True
                return

    def _line(self, at: Instant, source: Source, text: str) -> str:
        when = datetime_of(at)
        if self._as_json:
            document = {
                "v": 1,
                "kind": "output",
                "at": when.replace(tzinfo=None).isoformat() + "Z",
                "task": source.task,
                "run": source.run,
                "attempt": source.attempt,
                "line": text,
            }
            return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
        local = when.astimezone()
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        line = f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}  {source.run} | {text}\n"
        return line.encode(encoding, "backslashreplace").decode(encoding)


class Splitter:
    """Cuts what one run prints into lines, up to so many in a second; of more only the number."""

    def __init__(self) -> None:
        self._rest = b""
        self._second = 0
        self._shown = 0
        self._hidden = 0

    def feed(self, data: bytes, at: Instant) -> list[bytes]:
        """The lines that are whole now."""
        lines: list[bytes] = []
        if at // 1_000_000 != self._second:
            self._second, self._shown = at // 1_000_000, 0
            lines += self._told()
        if self._shown >= PER_SECOND:
            self._hide(data)
            return lines
        *whole, self._rest = (self._rest + data).split(b"\n")
        room = PER_SECOND - self._shown
        self._hidden += len(whole[room:])
        whole = whole[:room]
        self._shown += len(whole)
        while len(self._rest) > LONGEST:
            whole.append(self._rest[:LONGEST])
            self._rest = self._rest[LONGEST:]
        return [*lines, *(piece.rstrip(b"\r") for line in whole for piece in _pieces(line))]

    def end(self) -> list[bytes]:
        """The last line, where it had no end."""
        lines = self._told()
        if self._rest:
            lines.append(self._rest)
            self._rest = b""
        return lines

    def _hide(self, data: bytes) -> None:
        count = data.count(b"\n")
        if count:
            self._hidden += count
            self._rest = data[data.rindex(b"\n") + 1 :][:LONGEST]
        else:
            self._rest = (self._rest + data)[:LONGEST]

    def _told(self) -> list[bytes]:
        hidden, self._hidden = self._hidden, 0
        return [f"... {hidden:,} lines not shown".encode()] if hidden else []


def _pieces(line: bytes) -> list[bytes]:
    if len(line) <= LONGEST:
        return [line]
    return [line[at : at + LONGEST] for at in range(0, len(line), LONGEST)]
