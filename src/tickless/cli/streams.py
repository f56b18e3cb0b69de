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
    """Put stdout and stderr on lasting files. Terminals stay, and what is no file (a notebook, a test's capture).

    What was closed leads to nowhere: the next file that is opened, a store, would get its number otherwise, and what
    a child prints. What an encoding has no sign for is written as an escape.
    """
    _open_what_is_closed()
    sys.stdout = _lasting(sys.stdout)
    sys.stderr = _lasting(sys.stderr)


def _open_what_is_closed() -> None:
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8", closefd=False))


def _lasting(stream: TextIO) -> TextIO:
    try:
        number = stream.fileno()
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not strict, and not surrogateescape: that is for surrogates
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
