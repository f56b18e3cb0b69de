"""What Python code prints while standard output carries JSON lines: a document a line, as the lines of commands."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TextIO

from tickless.cli.voice import Voice, write_line
from tickless.clocks import SystemClock
from tickless.control.documents import VERSION, moment, run_name
from tickless.errors import TicklessError
from tickless.instants import instant_of
from tickless.worker import current_run

Whose = tuple[str, str, int] | None
"""Task, run and attempt; None: of no run, such as what a file prints when it is imported."""


@contextmanager
def printed_as_json(voice: Voice) -> Iterator[None]:
    """While inside, what is printed to `sys.stdout` becomes documents, where the voice speaks JSON."""
    if not voice.as_json:
        yield
        return
    printed = sys.stdout = Printed(voice.stream)
    try:
        yield
    finally:
        sys.stdout = voice.stream
        printed.end()


class Printed(io.TextIOBase):
    """Stands for standard output. A line that has no end yet is kept, each thread's by itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = Lock()
        self._rest: dict[int, tuple[Whose, str]] = {}

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        whose, thread = _whose(), get_ident()
        with self._lock:
            before, rest = self._rest.pop(thread, (whose, ""))
            *lines, left = (text if before != whose else rest + text).split("\n")
            if left:
                self._rest[thread] = whose, left
        if before != whose:
            self._tell(before, rest)
        for line in lines:
            self._tell(whose, line)
        return len(text)

    def end(self) -> None:
        """Lines that never had an end."""
        with self._lock:
            left = list(self._rest.values())
            self._rest.clear()
        for whose, line in left:
            self._tell(whose, line)

    def _tell(self, whose: Whose, line: str) -> None:
        now = moment(SystemClock().now())
        if whose is None:
            write_line({"v": VERSION, "kind": "note", "at": now, "level": "info", "message": line}, self._stream)
            return
        task, run, attempt = whose
        said = {"v": VERSION, "kind": "output", "at": now, "task": task, "run": run, "attempt": attempt, "line": line}
        write_line(said, self._stream)


def _whose() -> Whose:
    try:
        run = current_run()
    except TicklessError:
        return None
    due_us = None if run.due is None else instant_of(run.due, "due")
    return run.task_id, run_name(run.task_id, due_us), run.attempt
