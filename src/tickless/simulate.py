"""`simulate`: a scheduler program on a virtual clock. The same store and the same turn, one thread, and no waiting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from random import Random
from typing import Any

from tickless.core.record import RunRecord
from tickless.errors import ScheduleError
from tickless.instants import Instant, Waitable, instant_of, span_us
from tickless.records import Event, EventKind, Outcome, TaskInfo
from tickless.scheduler import Scheduler
from tickless.stores import Store
from tickless.worker import Worker

Duration = float | timedelta | Callable[[Random], float]
START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Trace:
    """What happened: every event, in order, and the tasks as they were at the end. Equal for equal seeds."""

    events: tuple[Event, ...]
    tasks: tuple[TaskInfo, ...]
    ended_us: Instant
    """The virtual time at which it ended."""

    def of(self, kind: EventKind) -> list[Event]:
        """The events of one kind."""
        return [event for event in self.events if event.kind is kind]


def simulate(
    program: Callable[[Scheduler], object],
    *,
    seed: int = 0,
    slots: int = 1,
    durations: Mapping[str, Duration] | None = None,
    start: datetime = START,
    until: float | timedelta | None = None,
    limit: int = 1_000_000,
) -> Trace:
    """Run what `program(scheduler)` schedules, on a clock that jumps from one instant to the next.

    Each body is called when its run starts, and takes no time, or what `durations` says for its task's id or name:
    seconds, a timedelta, or a function of a `random.Random` that gives seconds. Up to `slots` runs go on at a time;
    those that end at one instant end in an order drawn from `seed`. Ends when every task is terminal, or at `start` +
    `until`. Same program, same arguments: same trace.

    Raises ScheduleError for durations that are none, and after `limit` runs without an end.
    """
    clock = _VirtualClock(instant_of(start, "simulate(start=)"))
    end = None if until is None else clock.now() + span_us(until, "simulate(until=)")
    events: list[Event] = []
    rng = Random(seed)
    pool = _VirtualPool(clock, slots, _durations(durations or {}), rng, limit)
    scheduler = Scheduler(pool, clock=clock, observers=[_Recorder(events)], keep_finished=sys.maxsize)  # type: ignore[arg-type]  # a pool with a hand of its own
    program(scheduler)
    scheduler.start()
    while True:
        wake = clock.turn()
        instant = min((t for t in (wake, pool.next_end()) if t is not None), default=None)
        if instant is None or (end is not None and instant > end):
            break
        clock.move(instant)
        pool.end_due()
    if end is not None:
        clock.move(Instant(end))
    trace = Trace(tuple(events), tuple(scheduler.tasks()), clock.now())
    scheduler.close()
    return trace


class _Recorder:
    """The observer of everything."""

    kinds = frozenset(EventKind)

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def observe(self, events: Sequence[Event]) -> None:
        self._events.extend(events)


class _VirtualClock:
    """A driven clock that stands still until it is moved."""

    def __init__(self, now: Instant) -> None:
        self._now = now
        self.turn: Callable[[], Instant | None] = lambda: None

    def now(self) -> Instant:
        return self._now

    def wall(self) -> Instant:
        return self._now

    def wait(self, bell: Waitable, until: Instant | None) -> None:
        raise ScheduleError("simulate: nothing waits on a virtual clock")

    @contextmanager
    def watch(self, bell: Waitable) -> Iterator[None]:
        yield

    def drive(self, turn: Callable[[], Instant | None]) -> Callable[[], None]:
        self.turn = turn
        return lambda: None

    def move(self, to: Instant) -> None:
        self._now = to


class _VirtualPool:
    """Makes its own hand: a run starts when it is taken, and ends when its duration has passed."""

    def __init__(
        self,
        clock: _VirtualClock,
        slots: int,
        durations: Mapping[str, Callable[[Random], int]],
        rng: Random,
        limit: int,
    ) -> None:
        self.tickless_slots = slots
        self._clock = clock
        self._durations = durations
        self._rng = rng
        self._left = limit
        self._limit = limit
        self._going: list[tuple[Instant, float, int, RunRecord, Outcome]] = []
        self._starting = False
        self._store: Store
        self._worker: Worker

    def submit(self) -> None:
        """Never called: this pool has a hand of its own."""

    def tickless_hand(self, store: Store, worker: Worker) -> _VirtualPool:
        self._store, self._worker = store, worker
        return self

    @property
    def free(self) -> bool:
        return len(self._going) < self.tickless_slots

    def start(self, spare: int = 0) -> None:
        """Start what is ready while a slot is free; what takes no time ends at once if it has the pool to itself."""
        if self._starting:
            return
        self._starting = True
        store, run_one, going, now = self._store, self._worker.run_one, self._going, self._clock.now()
        alone = self.tickless_slots == 1
        try:
            while len(going) < self.tickless_slots:
                run = store.take(now)
                if run is None:
                    if not going or going[0][0] > now:
                        return
                    self._end_one()
                    continue
                self._count()
                outcome = run_one(run)
                span = self._span(run) if self._durations else 0
                if alone and not span:
                    store.finish(run, outcome, now)
                else:
                    heappush(going, (Instant(now + span), self._rng.random(), self._left, run, outcome))
                    if not self.free and going[0][0] <= now:
                        self._end_one()
        finally:
            self._starting = False

    def next_end(self) -> Instant | None:
        return self._going[0][0] if self._going else None

    def end_due(self) -> None:
        """End what has come to its end by now."""
        while self._going and self._going[0][0] <= self._clock.now():
            self._end_one()

    def _end_one(self) -> None:
        _, _, _, run, outcome = heappop(self._going)
        self._store.finish(run, outcome, self._clock.now())

    def _span(self, run: RunRecord) -> int:
        task = run.task
        draw = self._durations.get(task.public_id) or self._durations.get(task.label)
        return 0 if draw is None else draw(self._rng)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise ScheduleError(f"simulate: {self._limit} runs and no end; say until=, or a larger limit=")


def _durations(given: Mapping[str, Duration]) -> dict[str, Callable[[Random], int]]:
    return {who: _draw(who, duration) for who, duration in given.items()}


def _draw(who: str, duration: Duration) -> Callable[[Random], int]:
    def checked(span: Any) -> int:
        us = span_us(span, f"simulate(durations={{{who!r}: ...}})")
        if us < 0:
            raise ScheduleError(f"simulate(durations={{{who!r}: {span!r}}}): a run cannot take less than no time")
        return us

    if callable(duration):
        return lambda rng: checked(duration(rng))
    us = checked(duration)
    return lambda rng: us
