"""Observers and events for the tests of this directory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tickless.instants import SECOND_US, Instant
from tickless.observe import Journal
from tickless.records import Event, EventKind
from tickless.states import Reason
from tickless.testing.clock import FakeClock

PATIENCE_S = 30.0
ALL = frozenset(EventKind)
START_US = Instant(1_767_268_800 * SECOND_US)
"""2026-01-01T12:00Z."""


@dataclass
class About:
    """What an event is about."""

    _id: str | None = "#1"
    _name: str = "ping"
    _seq: int = 1


class Keeper:
    """Keeps all that it is told, batch by batch."""

    def __init__(self, kinds: Iterable[EventKind] = ALL) -> None:
        self.kinds = frozenset(kinds)
        self.batches: list[list[Event]] = []
        self.threads: set[str] = set()
        self.closed = 0

    def observe(self, events: Sequence[Event]) -> None:
        self.threads.add(threading.current_thread().name)
        self.batches.append(list(events))

    def close(self) -> None:
        self.closed += 1

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.batches for event in batch]

    def of(self, kind: EventKind) -> list[Event]:
        return [event for event in self.events if event.kind is kind]


class Caller(Keeper):
    """Does something with each batch, besides keeping it."""

    def __init__(self, act: Callable[[Sequence[Event]], object], kinds: Iterable[EventKind] = ALL) -> None:
        super().__init__(kinds)
        self._act = act

    def observe(self, events: Sequence[Event]) -> None:
        super().observe(events)
        self._act(events)


class Gated(Keeper):
    """Sits in its first batch until it is let go."""

    def __init__(self, kinds: Iterable[EventKind] = ALL) -> None:
        super().__init__(kinds)
        self.entered = threading.Event()
        self.go = threading.Event()

    def observe(self, events: Sequence[Event]) -> None:
        super().observe(events)
        self.entered.set()
        assert self.go.wait(PATIENCE_S), "nobody opened the gate"


def journal_of(*observers: Keeper, limit: int = 10_000) -> Journal:
    return Journal(observers, FakeClock(START_US), limit=limit)


def post_many(journal: Journal, count: int, kind: EventKind = EventKind.SUCCEEDED) -> None:
    for n in range(count):
        journal.post(kind, Instant(START_US + n), About())


def event(
    kind: EventKind,
    at_s: float = 0,
    name: str | None = "ping",
    *,
    error: str | None = None,
    reason: Reason | None = None,
    traceback: str | None = None,
    count: int = 1,
    due_s: float | None = None,
    task_id: str | None = None,
) -> Event:
    """An event `at_s` seconds after START_US; its id is its name unless given."""
    due_us = None if due_s is None else Instant(START_US + round(due_s * SECOND_US))
    at_us = Instant(START_US + round(at_s * SECOND_US))
    return Event(kind, at_us, task_id or name, name, due_us, reason, error, traceback, count)


def observer_threads() -> int:
    return sum(thread.name == "tickless-observer" for thread in threading.enumerate())


def voluntary_switches(thread: threading.Thread) -> int:
    """How often the thread went to sleep and was woken, as Linux counts."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text("ascii")
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
