"""What the cases share: instants as seconds, an observer of everything, pools and clocks with a vice."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tickless import Event, EventKind, Instant, Reason, Run, Scheduler, State, Task
from tickless.core.invariants import check
from tickless.instants import SECOND_US, Waitable
from tickless.testing import FakeClock, InlinePool

PATIENCE_S = 30.0
"""How long a test waits for a thread. Far beyond anything that passes: only a hang gets here."""
START_US = FakeClock().now()


def seconds(instant: Instant | None) -> float | None:
    """The instant as seconds since the start of a FakeClock."""
    return None if instant is None else (instant - START_US) / SECOND_US


def starts(runs: Sequence[Run]) -> list[float | None]:
    """When the runs that were started did so."""
    return [seconds(run.started_us) for run in runs if run.started_us is not None]


def dues(runs: Sequence[Run]) -> list[float | None]:
    """What the runs that were started are called."""
    return [seconds(run.due_us) for run in runs if run.started_us is not None]


def fires_skipped(task: Task[Any], reason: Reason) -> int:
    """How many fires did not run for that reason. Each record says of how many it tells."""
    return sum(run.count for run in task.runs() if run.reason is reason)


def ready(scheduler: Scheduler) -> int:
    """How many tasks are ready and have no worker."""
    return sum(info.state is State.READY for info in scheduler.tasks())


def entries(scheduler: Scheduler) -> int:
    """How many entries the heap holds, orphans included. The one look behind the door: no user can count them."""
    return len(scheduler._store.machine.timeline)


def sound(scheduler: Scheduler) -> None:
    """Every promise holds. At a quiet point only."""
    check(scheduler._store)


class Ear:
    """Hears every event."""

    kinds = frozenset(EventKind)

    def __init__(self) -> None:
        self.events: list[Event] = []

    def observe(self, events: Sequence[Event]) -> None:
        self.events += events

    def of(self, kind: EventKind) -> list[Event]:
        return [event for event in self.events if event.kind is kind]


@contextmanager
def inline(clock: FakeClock | None = None, ear: Ear | None = None) -> Iterator[tuple[Scheduler, FakeClock]]:
    """A started scheduler whose tasks run in the thread of the test, and its clock."""
    clock = clock or FakeClock()
    with Scheduler(InlinePool(), clock=clock, observers=[ear] if ear else []) as scheduler:
        yield scheduler, clock


class ParkingClock:
    """A FakeClock that does not drive: the dispatcher has its thread, and `parks` tells what it goes to sleep for.

    `gap` is called once, in the dispatcher's thread, between its last look and its sleep.
    """

    def __init__(self) -> None:
        self.hand = FakeClock()
        self.parks: queue.SimpleQueue[Instant | None] = queue.SimpleQueue()
        self.gap: Callable[[], object] | None = None

    def now(self) -> Instant:
        return self.hand.now()

    def wall(self) -> Instant:
        return self.hand.wall()

    def watch(self, bell: Waitable) -> AbstractContextManager[None]:
        return self.hand.watch(bell)

    def wait(self, bell: Waitable, until: Instant | None) -> None:
        gap, self.gap = self.gap, None
        if gap is not None:
            gap()
        self.parks.put(until)
        self.hand.wait(bell, until)

    def parked_until(self, second: float | None) -> None:
        """Return once the dispatcher has gone to sleep until then. Raises queue.Empty when it never does."""
        while seconds(self.parks.get(timeout=PATIENCE_S)) != second:
            pass


class VicePool(Executor):
    """Runs inline, but first asks `vice`, which may raise, pass time, or give the future to hand out instead."""

    def __init__(self, vice: Callable[[int], Future[Any] | None]) -> None:
        self._vice = vice
        self.submits = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submits += 1
        future = self._vice(self.submits)
        return InlinePool().submit(fn, *args, **kwargs) if future is None else future
