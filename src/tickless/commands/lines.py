"""What commands print, line by line, as it comes: each with the run that it is of."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from threading import Condition, Thread
from typing import NamedTuple, TextIO

from tickless.instants import SECOND_US, Instant, datetime_of
from tickless.observe.text import printable

MOST_WAITING = 10_000
"""Lines that wait for a slow terminal; of those that come then only the number is told."""
MOST_BYTES_WAITING = 8 << 20
PER_SECOND = 1_000
"""Lines of one run that are shown in a second; a child that prints gigabytes must not hold up the others."""
BYTES_PER_SECOND = 1 << 20
LONGEST = 8_192
"""In bytes: a longer line is shown in pieces."""
LAST_WAIT_S = 1.0
"""How long the end waits for a stream that takes nothing."""


class Source(NamedTuple):
    """The run that a line is of."""

    task: str
    run: str
    attempt: int


class _Waiting(NamedTuple):
    at: Instant
    source: Source
    line: bytes


class Lines:
    """Writes lines to the stream in a thread of its own, so that nobody waits for the stream."""

    def __init__(self, stream: TextIO, *, as_json: bool = False) -> None:
        self._stream = stream
        self._as_json = as_json
        self._lock = Condition()
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._lost = 0
        self._last: tuple[Instant, Source] | None = None
        """Of the newest line that was lost."""
        self._thread: Thread | None = None
        self._closed = False

    def show(self, at: Instant, source: Source, lines: Sequence[bytes]) -> None:
        """Never waits for the stream, and formats nothing: that is for the thread."""
        if not lines:
            return
        with self._lock:
            if self._closed:
                return
            if self._thread is None:
                self._thread = Thread(target=self._serve, name="tickless-lines", daemon=True)
                self._thread.start()
            for line in lines:
                if len(self._waiting) >= MOST_WAITING or self._bytes >= MOST_BYTES_WAITING:
                    self._lost += 1
                    self._last = at, source
                else:
                    if self._lost:
                        self._tell_lost()
                    self._waiting.append(_Waiting(at, source, line))
                    self._bytes += len(line)
            self._lock.notify()

    def _tell_lost(self) -> None:
        """Under the lock."""
        assert self._last is not None
        told = _Waiting(*self._last, _not_shown(self._lost))
        self._waiting.append(told)
        self._bytes += len(told.line)
        self._lost = 0

    def note(self, at: Instant, source: Source, text: str) -> None:
        """A line of ours about the run."""
        self.show(at, source, [text.encode("utf-8", "replace")])

    def close(self) -> None:
        """Everything is written when this returns, unless the stream takes nothing for a second."""
        with self._lock:
            self._closed = True
            self._lock.notify()
        if self._thread is not None:
            self._thread.join(LAST_WAIT_S)

    def _serve(self) -> None:
        while (one := self._next()) is not None:
            try:
                self._stream.write(self._line(*one))
                if not self._waiting:
                    self._stream.flush()
            except (OSError, ValueError):  # it is closed, or broken: nobody reads
                with self._lock:
                    self._closed = True
                    self._waiting.clear()
                return

    def _next(self) -> _Waiting | None:
        with self._lock:
            while not self._waiting:
                if self._lost:
                    self._tell_lost()
                elif self._closed:
                    return None
                else:
                    self._lock.wait()
            one = self._waiting.popleft()
            self._bytes -= len(one.line)
            return one

    def _line(self, at: Instant, source: Source, line: bytes) -> str:
        text = printable(line.decode("utf-8", "replace").expandtabs(4), 12 * LONGEST)
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
        shown = f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}  {printable(source.run)} | {text}\n"
        return shown.encode(encoding, "backslashreplace").decode(encoding)


class Splitter:
    """Cuts what one run prints into lines, up to so many in a second; of more only the number."""

    def __init__(self) -> None:
        self._rest = b""
        """Of a line whose end has not come."""
        self._second = 0
        self._lines_left = PER_SECOND
        self._bytes_left = BYTES_PER_SECOND
        self._hidden = 0
        self._skips = False
        """Whether the line that goes on is one that is not shown."""

    def feed(self, data: bytes, at: Instant) -> list[bytes]:
        """The lines that are whole now."""
        lines: list[bytes] = []
        if at // SECOND_US != self._second:
            self._second, self._lines_left, self._bytes_left = at // SECOND_US, PER_SECOND, BYTES_PER_SECOND
            lines += self._told()
        start = 0
        if self._skips:
            start = self._skip_line(data)
        while start < len(data):
            if self._lines_left <= 0 or self._bytes_left <= 0:
                self._hide(data[start:])
                break
            end = data.find(b"\n", start)
            piece = data[start:] if end < 0 else data[start:end]
            start = len(data) if end < 0 else end + 1
            self._add(lines, piece, is_whole=end >= 0)
        return lines

    def _add(self, lines: list[bytes], piece: bytes, is_whole: bool) -> None:
        """A piece of a line: shown when it is whole, or longer than what is shown at once."""
        line = self._rest + piece
        at = 0
        while len(line) - at > LONGEST:
            self._show(lines, line[at : at + LONGEST])
            at += LONGEST
        self._rest = line[at:]
        if is_whole:
            self._show(lines, self._rest.removesuffix(b"\r"))
            self._rest = b""

    def _show(self, lines: list[bytes], line: bytes) -> None:
        lines.append(line)
        self._lines_left -= 1
        self._bytes_left -= len(line)

    def _skip_line(self, data: bytes) -> int:
        """Where the line after the one that is not shown begins."""
        end = data.find(b"\n")
        if end < 0:
            return len(data)
        self._hidden += 1
        self._skips = False
        return end + 1

    def _hide(self, data: bytes) -> None:
        """Nothing more is shown in this second: count, and cut nothing."""
        self._hidden += data.count(b"\n")
        self._skips = not data.endswith(b"\n")
        self._rest = b""

    def end(self) -> list[bytes]:
        """The last line, where it had no end."""
        if self._skips:
            self._hidden, self._skips = self._hidden + 1, False
        lines = self._told()
        if self._rest:
            lines.append(self._rest.removesuffix(b"\r"))
            self._rest = b""
        return lines

    def _told(self) -> list[bytes]:
        hidden, self._hidden = self._hidden, 0
        return [_not_shown(hidden)] if hidden else []


def _not_shown(count: int) -> bytes:
    return f"... {count:,} {'line' if count == 1 else 'lines'} not shown".encode()
