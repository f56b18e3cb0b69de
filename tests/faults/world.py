"""A scheduler in a test's hand: tasks run inline on a clock that the test moves, and every event is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tests.observe.observers import Keeper
from tickless import Event, EventKind, Pool, Rule, Scheduler
from tickless.instants import SECOND_US, Instant, instant_of
from tickless.testing import FakeClock, InlinePool

PATIENCE_S = 30.0
"""Far beyond anything that passes: only a hang gets here."""


class World:
    """`scheduler` is started, unless `start=False`. Seconds are counted from where the clock began."""

    def __init__(self, pool: Executor | Pool | None = None, *, start: bool = True, **options: Any) -> None:
        self.clock = FakeClock()
        self.start_us = self.clock.now()
        self.keeper = Keeper()
        self.pool = InlinePool() if pool is None and "pools" not in options else pool
        self.scheduler = Scheduler(self.pool, clock=self.clock, observers=[self.keeper], **options)
        self.story: list[Any] = []
        if start:
            self.scheduler.start()

    def note(self, word: Any) -> Callable[[], None]:
        """A work that adds `word` to the story."""
        return lambda: self.story.append(word)

    def timed(self, word: Any) -> Callable[[], None]:
        """A work that adds (word, seconds since the start)."""
        return lambda: self.story.append((word, self.elapsed_s))

    @property
    def elapsed_s(self) -> float:
        return (self.clock.now() - self.start_us) / SECOND_US

    def second(self, when: datetime | None) -> float | None:
        """An aware datetime as seconds since the start."""
        return None if when is None else (instant_of(when, "when") - self.start_us) / SECOND_US

    @property
    def events(self) -> list[Event]:
        return [event for batch in self.keeper.batches for event in batch]

    def kinds(self, task_id: str | None = None) -> list[EventKind]:
        """The kinds of the events so far, of one task or of all."""
        return [event.kind for event in self.events if task_id is None or event.task_id == task_id]


def fail() -> None:
    raise ValueError("broken")


def heap_length(scheduler: Scheduler) -> int:
    """Entries of the timeline, orphans included: what must stay flat."""
    return len(scheduler._store.machine.timeline)


class Odd:
    """A user's own rule, as wrong as the test wants: `answer` is called for each next fire."""

    recurring = True
    wall = False

    def __init__(self, answer: Callable[[Instant], Any]) -> None:
        self.answer = answer
        self.asked = 0

    def bound(self, now: Instant) -> Rule:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.asked += 1
        answer: Instant | None = self.answer(after)
        return answer


def our_threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("tickless"))


@contextmanager
def running_until_let_go(scheduler: Scheduler, **options: Any) -> Iterator[tuple[Any, threading.Event]]:
    """A task that runs inside the `with`, and ends when its gate is opened, at the latest at the end of it."""
    entered, gate = threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        assert gate.wait(PATIENCE_S)

    task = scheduler.schedule(block, **options)
    try:
        assert entered.wait(PATIENCE_S)
        yield task, gate
    finally:
        gate.set()
