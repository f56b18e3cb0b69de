"""What is known of a child while it goes on."""

from __future__ import annotations

from tickless.commands.child import Child
from tickless.commands.kept import KeptOutput
from tickless.commands.lines import Source, Splitter
from tickless.observe.text import printable

_END = 1_000


class Going:
    """A child, the run that it is of, and what it has printed."""

    __slots__ = ("_last", "child", "has_left", "output", "pidfd", "source", "splitter")

    def __init__(self, child: Child, source: Source, output: KeptOutput | None) -> None:
        self.child = child
        self.source = source
        self.output = output
        self.splitter = Splitter()
        self.pidfd: int | None = None
        self.has_left = False
        """Whether the process itself has ended."""
        self._last = b""
        """The end of the output from the last line on that is not empty, as far as it is known."""

    def note_last(self, data: bytes) -> None:
        """It has printed that: remember its last line."""
        end = (self._last + data[-_END:])[-_END:].rstrip(b"\n")
        if end and not end.isspace():
            self._last = end[end.rfind(b"\n") + 1 :] + (b"\n" if data.endswith(b"\n") else b"")

    @property
    def last_line(self) -> str:
        return printable(self._last.decode("utf-8", "replace").strip(), 200)
