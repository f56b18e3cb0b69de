"""Frozen snapshots: what a caller may hold after the store has moved on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from tickless.instants import Instant, datetime_of
from tickless.states import DEFAULT_POOL, Reason, State

if TYPE_CHECKING:
    from tickless.rules import Rule


@dataclass(slots=True)
class Outcome:
    """How one run ended, as the worker tells the store. Not frozen, since that would triple the cost of making one."""

    state: State
    value: Any = None
    """What the work returned; for a failed run the exception that it raised."""
    reason: Reason | None = None
    error: str | None = None
    """One line, `Type: message`, safe to print whatever the exception does."""
    traceback: str | None = None


SUCCESS = Outcome(State.SUCCEEDED)
"""The commonest outcome, made once: succeeded and returned None."""


class Attempt(NamedTuple):
    """A try that failed and was followed by another, or by the run's end before there was one."""

    number: int
    """1 for the first."""
    started_us: Instant
    finished_us: Instant
    error: str | None = None
    reason: Reason | None = None

    @property
    def started(self) -> datetime:
        return datetime_of(self.started_us)

    @property
    def finished(self) -> datetime:
        return datetime_of(self.finished_us)


@dataclass(frozen=True, slots=True)
class Run:
    """One occurrence of a task. Instants are UTC microseconds; the properties give aware datetimes."""

    task_id: str
    due_us: Instant | None
    """The instant it was planned for; the name of the run. None: decided before it had a time (a doomed child)."""
    state: State
    reason: Reason | None = None
    started_us: Instant | None = None
    finished_us: Instant | None = None
    error: str | None = None
    lateness_us: int | None = None
    """started - due on the clock that drives the rule, never negative; None for a run that never started."""
    count: int = 1
    """How many fires this record stands for: more than 1 only for SKIPPED summaries."""
    last_due_us: Instant | None = None
    """Of a summary: the last fire that it stands for."""
    attempt: int = 1
    """Which try this is, or was: 2 for the first retry."""
    attempts: tuple[Attempt, ...] = ()
    """The failed ones before."""
    late_result: str | None = None
    """What came of a run that had timed out, once it returned at last: a note, since its end does not change."""

    @property
    def due(self) -> datetime | None:
        return None if self.due_us is None else datetime_of(self.due_us)

    @property
    def started(self) -> datetime | None:
        return None if self.started_us is None else datetime_of(self.started_us)

    @property
    def finished(self) -> datetime | None:
        return None if self.finished_us is None else datetime_of(self.finished_us)

    @property
    def last_due(self) -> datetime | None:
        return None if self.last_due_us is None else datetime_of(self.last_due_us)

    @property
    def lateness(self) -> timedelta | None:
        """How late it started, on the clock that drives the rule, never negative; None for one that never started."""
        return None if self.lateness_us is None else timedelta(microseconds=self.lateness_us)


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as it was when you asked."""

    id: str
    name: str
    state: State
    """RUNNING if a run runs, else READY, else PENDING; once it has ended, how."""
    reason: Reason | None
    next_fire_us: Instant | None
    last_run: Run | None
    priority: int
    parents: tuple[str, ...]
    children: tuple[str, ...]
    recurring: bool
    paused: bool = False
    """Whether the task is paused, by itself, by one of its tags, or with all others."""
    pause_reason: str | None = None
    paused_until_us: Instant | None = None
    retry_at_us: Instant | None = None
    """When the next attempt begins, of a run that waits for it."""
    waiting_for: str | None = None
    """The limit in whose queue a ready run stands."""
    tags: tuple[str, ...] = ()
    pool: str = DEFAULT_POOL
    when: Rule | None = None
    """The rule, counted from when it was scheduled; None without one, and once the task has ended."""
    is_flow: bool = False
    """Whether each of its runs is a round, with tasks of its own."""

    @property
    def next_fire(self) -> datetime | None:
        """The planned instant of the next fire, aware UTC; None while it waits for parents, or has no more."""
        return None if self.next_fire_us is None else datetime_of(self.next_fire_us)


@dataclass(frozen=True, slots=True)
class PoolInfo:
    """A pool as it was when you asked."""

    name: str
    slots: int
    """How many runs it may have at a time; 0 where it is not this scheduler's."""
    ready: int
    """Runs that wait for a slot."""
    running: int
    zombies: int
    """Runs that had timed out, and whose code goes on: each keeps a slot until it returns."""
    down: str | None = None
    """The error with which its executor refused for good, since it broke or was shut down; None: it takes runs."""


@dataclass(frozen=True, slots=True)
class LimitInfo:
    """A limit as it was when you asked."""

    name: str
    running: int
    """Permits that are held: by runs that go on, by those that are ready and next, by zombies that keep theirs."""
    waiting: int
    """Runs that stand in its queue."""


class EventKind(StrEnum):
    """What observers can ask for."""

    SCHEDULED = "scheduled"
    READY = "ready"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    RETRY = "retry"
    """An attempt failed, and another comes. `count` is the number of the one that failed."""
    PAUSED = "paused"
    RESUMED = "resumed"
    TROUBLE = "trouble"
    """Something of ours or around us went wrong and was contained: a rule, a store verb, an observer, a pool."""
    STORE_DOWN = "store_down"
    """The store does not answer: said once, until it does again. What workers have to say is kept meanwhile."""
    STORE_UP = "store_up"
    """It does again; what was due meanwhile is late, and dealt with as such."""
    DROPPED = "dropped"
    """Observers were too slow: `count` events were let go."""


class Event(NamedTuple):
    """One thing that happened, at one instant of `Clock.now()`. A tuple, since thousands a second are built."""

    kind: EventKind
    at_us: Instant
    task_id: str | None = None
    name: str | None = None
    due_us: Instant | None = None
    reason: Reason | None = None
    error: str | None = None
    traceback: str | None = None
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, which nobody asks of an event
    """How many fires, or dropped events, or repetitions it stands for."""

    @property
    def at(self) -> datetime:
        return datetime_of(self.at_us)

    @property
    def due(self) -> datetime | None:
        return None if self.due_us is None else datetime_of(self.due_us)
