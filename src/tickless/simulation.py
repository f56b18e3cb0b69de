"""`simulate`: a scheduler program on a virtual clock. The same store and the same turn, one thread, and no waiting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from heapq import heappop, heappush
from random import Random
from typing import Any

from tickless.core.record import RunRecord, TaskRecord
from tickless.errors import RuleError, ScheduleError, shown
from tickless.instants import MAX_INSTANT, Instant, Waitable, datetime_of, instant_of, span_us
from tickless.policies import Limit
from tickless.pools import checked_slots
from tickless.records import Event, EventKind, Outcome, TaskInfo
from tickless.scheduler import Scheduler
from tickless.states import DEFAULT_POOL, Reason
from tickless.stores import Store
from tickless.worker import Worker

Duration = float | timedelta | Callable[[Random], float]
START = datetime(2024, 1, 1, tzinfo=UTC)


class Trace:
    """What happened: every event, in order, and the tasks. Equal where that is equal.

    Both are built at the first look, so that nobody who wants one of them pays for the other: look before the program's
    own handles are used any further.
    """

    def __init__(self, facts: list[Any], scheduler: Scheduler, ended_us: Instant) -> None:
        self._facts = facts
        self._scheduler = scheduler
        self.ended_us = ended_us
        """The virtual time at which it ended."""

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Every event, in order. Built at the first look: recording them must not slow the simulation."""
        facts = iter(self._facts)
        return tuple(_event(*fact) for fact in zip(*[facts] * _FACTS, strict=True))

    @cached_property
    def tasks(self) -> tuple[TaskInfo, ...]:
        """Every task, in the order of scheduling, as it was at the first look at this."""
        return tuple(self._scheduler.tasks())

    def of(self, kind: EventKind) -> list[Event]:
        """The events of one kind."""
        return [event for event in self.events if event.kind is kind]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self.events == other.events and self.tasks == other.tasks and self.ended_us == other.ended_us

    __hash__ = None  # type: ignore[assignment]  # it holds lists

    def __repr__(self) -> str:
        return f"<Trace of {len(self._facts) // _FACTS} events until {datetime_of(self.ended_us).isoformat()}>"


def simulate(
    program: Callable[[Scheduler], object],
    *,
    seed: int = 0,
    slots: int = 1,
    pools: Mapping[str, int] | None = None,
    limits: Iterable[Limit] = (),
    durations: Mapping[str, Duration] | None = None,
    start: datetime = START,
    until: float | timedelta | None = None,
    limit: int = 1_000_000,
) -> Trace:
    """Run what `program(scheduler)` schedules, on a clock that jumps from one instant to the next.

    Each body is called when its run starts, and takes no time, or what `durations` says for its task's id or name:
    seconds, a timedelta, or a function of a `random.Random` that gives seconds. Up to `slots` runs go on at a time, and
    in each further pool of `pools`, by name, as many as it says; those that end at one instant end in an order drawn
    from `seed`. `limits` are the scheduler's. Ends when every task is terminal, or at `start` +
    `until`. Same program, same arguments: same trace.

    Raises ScheduleError, RuleError or PoolError for an argument that cannot be, and ScheduleError after `limit` runs
    without an end.
    """
    if not callable(program):
        raise ScheduleError(f"simulate({shown(program)}): needs a function of a scheduler, which schedules on it")
    if type(seed) is not int:
        raise ScheduleError(f"simulate(seed={shown(seed)}): needs a whole number, so that the trace comes again")
    if type(limit) is not int or limit < 1:
        raise ScheduleError(f"simulate(limit={shown(limit)}): needs a whole number of runs, at least 1")
    begin = instant_of(start, "simulate(start=)")
    end = _end(begin, until)
    clock = _VirtualClock(begin)
    spans, going = _durations(durations), _Going(clock, Random(seed), limit)
    made: dict[str, Any] = {name: _VirtualPool(going, most, spans) for name, most in _slots(slots, pools).items()}
    scheduler = Scheduler(pools=made, limits=limits, clock=clock, observers=[], keep_finished=sys.maxsize)
    recorder = _Recorder()
    scheduler._tell(recorder)  # type: ignore[arg-type]  # it answers all that is asked of a journal here
    program(scheduler)
    scheduler.start()
    while True:
        wake = clock.turn()
        if going.broken is not None:
            raise going.broken
        instant = min((t for t in (wake, going.next_end()) if t is not None), default=None)
        if instant is None or (end is not None and instant > end):
            break
        clock.move(instant)
        going.end_due()
    if end is not None:
        clock.move(end)
    return Trace(recorder.facts, scheduler, clock.now())


class _Recorder:
    """In the place of a journal: keeps the facts of every event, and delivers nothing.

    In one flat list: a tuple for each event is one more object that the collector of garbage walks over.
    """

    wants = frozenset(EventKind)

    def __init__(self) -> None:
        self.facts: list[Any] = []

    def post(
        self,
        kind: EventKind,
        at: Instant,
        task: TaskRecord | None,
        due: Instant | None = None,
        reason: Reason | None = None,
        error: str | None = None,
        traceback: str | None = None,
        count: int = 1,
    ) -> None:
        who, name = (None, None) if task is None else (task._id or task._seq, task._name)
        self.facts.extend((kind, at, who, name, due, reason, error, traceback, count))

    def deliver(self) -> None:
        pass

    def close(self, timeout: float | None = None) -> bool:
        return True


_FACTS = len(Event._fields)


def _event(kind: EventKind, at: Instant, who: str | int | None, *rest: Any) -> Event:
    return Event(kind, at, f"#{who}" if isinstance(who, int) else who, *rest)


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


class _Going:
    """The runs that go on, of all pools: each ends when its duration has passed."""

    def __init__(self, clock: _VirtualClock, rng: Random, limit: int) -> None:
        self.clock = clock
        self.rng = rng
        self.heap: list[tuple[Instant, float, int, _VirtualPool, RunRecord, Outcome]] = []
        self.left = limit
        self._limit = limit
        self.broken: Exception | None = None
        """A duration that is none, or too many runs."""

    def next_end(self) -> Instant | None:
        return self.heap[0][0] if self.heap else None

    def end_due(self) -> None:
        """End what has come to its end by now."""
        while self.heap and self.heap[0][0] <= self.clock.now():
            self.end_one()

    def end_one(self) -> None:
        _, _, _, pool, run, outcome = heappop(self.heap)
        pool.busy -= 1
        pool.store.finish(run, outcome, self.clock.now())

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ScheduleError(f"simulate: {self._limit} runs and no end; say until=, or a larger limit=")


class _VirtualPool:
    """Makes its own hand: a run starts when it is taken, and ends when its duration has passed."""

    def __init__(self, going: _Going, slots: int, durations: Mapping[str, Callable[[Random], int]]) -> None:
        self.tickless_slots = slots
        self._all = going
        self._durations = durations
        self.busy = 0
        """How many of its runs go on."""
        self._starting = False
        self.store: Store
        self._worker: Worker

    def submit(self) -> None:
        """Never called: this pool has a hand of its own."""

    def tickless_hand(self, store: Store, worker: Worker) -> _VirtualPool:
        self.store, self._worker = store, worker
        return self

    @property
    def free(self) -> bool:
        return self.busy < self.tickless_slots

    def start(self, spare: int = 0) -> None:
        """Start what is ready while a slot is free; what takes no time ends at once if it has the pool to itself."""
        if self._starting:
            return
        self._starting = True
        try:
            with self._worker.context() as (set_run, _):
                self._start_all(self.store, self._all.clock.now(), set_run)
        except Exception as error:
            self._all.broken = error  # the turn contains it, as it does in life, and `simulate` raises it
            raise
        finally:
            self._starting = False

    def _start_all(self, store: Store, now: Instant, set_run: Callable[[RunRecord], object]) -> None:
        going, slots, worker = self._all, self.tickless_slots, self._worker
        heap, take, outcome_of = going.heap, worker.take_at, worker.outcome
        while True:
            run = take(now) if self.busy < slots else None
            if run is None:
                if not heap or heap[0][0] > now:
                    return
                going.end_one()
                continue
            going.count()
            set_run(run)
            if worker.is_timed(run):
                worker.time(run)
            outcome = outcome_of(run)
            span = self._span(run) if self._durations else 0
            if span or slots > 1:
                self.busy += 1
                heappush(heap, (Instant(now + span), going.rng.random(), going.left, self, run, outcome))
            else:
                store.finish(run, outcome, now)

    def _span(self, run: RunRecord) -> int:
        task = run.task
        draw = self._durations.get(task.id) or self._durations.get(task.name)
        return 0 if draw is None else draw(self._all.rng)


def _slots(slots: int, pools: Any) -> dict[str, int]:
    """How many runs go on at a time, by the name of the pool."""
    if pools is None:
        return {DEFAULT_POOL: checked_slots(slots)}
    if not isinstance(pools, Mapping) or DEFAULT_POOL in pools:
        raise ScheduleError(
            f'simulate(pools={shown(pools)}): needs a dict of names and slots, e.g. {{"cpu": 2}}; "default" has slots='
        )
    return {DEFAULT_POOL: checked_slots(slots), **{name: checked_slots(most) for name, most in pools.items()}}


def _end(begin: Instant, until: float | timedelta | None) -> Instant | None:
    if until is None:
        return None
    span = span_us(until, "simulate(until=)")
    if span < 0:
        raise ScheduleError(f"simulate(until={shown(until)}): ends before it starts; until= is how long it goes on")
    if begin + span > MAX_INSTANT:
        raise RuleError(f"simulate(until={shown(until)}): leads past the year 9999; choose a shorter span")
    return Instant(begin + span)


def _durations(given: Any) -> dict[str, Callable[[Random], int]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or any(type(who) is not str for who in given):
        raise ScheduleError(f'simulate(durations={shown(given)}): needs a dict of ids or names, e.g. {{"load": 2.5}}')
    return {who: _draw(shown(who), duration) for who, duration in given.items()}


def _draw(who: str, duration: Duration) -> Callable[[Random], int]:
    def checked(span: Any) -> int:
        us = span_us(span, f"simulate(durations={{{who}: ...}})")
        if us < 0:
            raise ScheduleError(f"simulate(durations={{{who}: {shown(span)}}}): a run cannot take less than no time")
        return us

    if callable(duration):
        return lambda rng: checked(duration(rng))
    us = checked(duration)
    return lambda rng: us
