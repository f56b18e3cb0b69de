"""Streams that outlive their reader: `tickless run … | head -1` ends quietly, and the tasks go on."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _LastingFile(io.FileIO):
    """Writes to a file descriptor; when its reader has gone, to nowhere from then on.

    A task's own `print` must not fail because somebody stopped reading the log.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # child processes, too, and the flush at exit
            os.close(nowhere)
            return len(memoryview(data))


def make_lasting() -> None:
    """Put stdout and stderr on lasting files. Terminals stay, and what is no file (a notebook, a test's capture)."""
    sys.stdout = _lasting(sys.stdout)
    sys.stderr = _lasting(sys.stderr)


def _lasting(stream: TextIO) -> TextIO:
    try:
        number = stream.fileno()
        if stream.isatty():
            return stream
        stream.flush()
    except (AttributeError, OSError, ValueError):  # None under pythonw; io.UnsupportedOperation is both others
        return stream
    raw = _LastingFile(number, "w", closefd=False)
    # Line by line, also into a pipe: a log that comes in blocks of 8 KB is not live.
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True)


def give_up_output() -> None:
    """What could not be written would be tried again at exit, with a traceback."""
    try:
        number = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):  # no file: a caller's own
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
