"""A file, a fake clock, and programs that start on them, one after another or at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cases.kit import Ear
from tickless import Scheduler
from tickless.testing import FakeClock, InlinePool

told: list[Any] = []
"""What the works below were called with, in order. Emptied by each `House`."""


def note(*what: Any) -> Any:
    """Tells that it ran, and gives what it was told."""
    told.append(what[0] if len(what) == 1 else what)
    return what[0] if what else None


def other(*what: Any) -> Any:
    """The same under another name."""
    return note(*what)


def fail(*what: Any) -> None:
    """Tells that it ran, and fails."""
    note(*what)
    raise ValueError("broken")


class House:
    """`start` gives a scheduler on the file. What it is not told of pools and observers is the least there is."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tasks.db"
        self.url = f"sqlite:///{self.path}"
        self.clock = FakeClock()
        self.ear = Ear()
        told.clear()

    def make(self, **given: Any) -> Scheduler:
        """A scheduler that was not started."""
        said: dict[str, Any] = {"pool": InlinePool(), "clock": self.clock, "observers": [self.ear], "store": self.url}
        return Scheduler(**{**said, **given})

    @contextmanager
    def start(self, prepare: Callable[[Scheduler], object] | None = None, **given: Any) -> Iterator[Scheduler]:
        """A program: it schedules, starts, and is stopped at the end of the block."""
        scheduler = self.make(**given)
        if prepare is not None:
            prepare(scheduler)
        with scheduler:
            yield scheduler
