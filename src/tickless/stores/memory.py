"""The store in memory: the pure machine behind one lock.

A worker never waits for that lock: it takes by an atomic pop, ends a plain task by plain stores, and hands all else to
whoever holds the lock. Two orders carry the proof, and tests/races tries to break them:

- store, then look: a worker ends a plain task and then looks whether somebody linked a child or a waiter meanwhile;
  who links looks at the end again afterwards. One of the two sees the other.
- whoever leaves the lock looks for what was handed over while it was held: `_Hold` is the only way in and out.

Without the GIL a load may overtake a store, so there every take and finish goes under the lock (`always_hold`).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from threading import Event, Lock
from types import TracebackType

from tickless.core.machine import AWAKE, FOREVER, Machine, Post
from tickless.core.record import RunRecord, TaskRecord, Waiter, ended, more_of, move
from tickless.core.timeline import SEQ_MASK
from tickless.errors import SchedulerClosed, TaskRejected
from tickless.instants import Instant
from tickless.policies import Plan
from tickless.records import EventKind, Outcome, Run, TaskInfo
from tickless.states import Cancelled, Exists, Reason, State
from tickless.stores.snapshots import run_of, runs_of, task_of

STEP_US = 250_000
"""An offset between wall and elapsed clock that moved by more than this is a step: wall entries are re-placed."""
DUE_BATCH = 1024
"""How many entries surface under one hold, so that a flood never keeps the lock for long."""


class _Hold:
    """In and out of the store's lock. Nobody leaves without the look: a prototype that returned early hung on it."""

    __slots__ = ("_lock", "_store")

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock = store.lock

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._lock.release()
        store = self._store
        if store.unsettled or store.machine.asks:
            store.settle()


class MemoryStore:
    """See `tickless.stores.Store` for the verbs. Times are arguments: the store reads no clock."""

    def __init__(
        self,
        *,
        post: Post | None = None,
        wants: frozenset[EventKind] = frozenset(),
        keep_finished: int = 1000,
        keep_runs: int = 100,
        always_hold: bool | None = None,
    ) -> None:
        self.lock = Lock()
        self.machine = Machine(post, wants, keep_finished, keep_runs)
        self.unsettled: deque[tuple[RunRecord, Outcome | None]] = deque()
        self.is_closed = False
        self._hold = _Hold(self)
        self._always_hold = _no_gil() if always_hold is None else always_hold
        self._seq = 0

    # Into the store

    def open(self) -> None:
        with self._hold:
            self.machine.is_open = True

    def add(self, tasks: Sequence[TaskRecord], now: Instant, exists: Exists = "error") -> Sequence[TaskRecord]:
        machine = self.machine
        with self._hold:
            if self.is_closed:
                raise SchedulerClosed("the scheduler is closed, and closing is final; make a new Scheduler")
            if exists != "error":
                there = machine.settle_namesake(tasks[0], exists, now)
                if there is not None:
                    return (there,)
            machine.registry.admit(tasks)
            seq = self._seq
            for task in tasks:
                seq += 1
                task.seq = seq
                machine.registry.enter(task)
                if machine.post_scheduled is not None:
                    machine.post_scheduled(EventKind.SCHEDULED, now, task, task.due)
            self._seq = seq
            if len(tasks) == 1:
                machine.settle_in(tasks[0], now)
            else:
                machine.settle_in_many(tasks, now)
        return tasks

    # Time passes

    def due(self, now: Instant, wall: Instant, limit: int = DUE_BATCH) -> bool:
        machine = self.machine
        with self._hold:
            if now > machine.seen:
                machine.seen = now
            machine.wake_at = AWAKE
            offset = wall - now
            if abs(offset - machine.offset) > STEP_US:
                machine.on_step(offset, wall)
            live, timeline = machine.registry.live, machine.timeline
            for _ in range(limit):
                entry = timeline.pop_until(now)
                if entry is None:
                    return False
                task = live.get(entry & SEQ_MASK)
                if task is not None and task.entry == entry:
                    task.entry = None
                    timeline.live -= 1
                    machine.surface(task, now, wall)
            return True

    def next_wake(self) -> Instant | None:
        machine = self.machine
        with self._hold:
            head = machine.timeline.head(machine.lives)
            machine.wake_at = FOREVER if head is None else head
            return head

    def take_ring(self) -> bool:
        machine = self.machine
        if not machine.earlier:
            return False
        # Cleared before the ring: who sets it after this has pushed before, and the rung dispatcher will see the push.
        machine.earlier = False
        return True

    @property
    def ready(self) -> int:
        return len(self.machine.ready.claims)

    # A run's life

    def take(self, now: Instant) -> RunRecord | None:
        machine = self.machine
        if self._always_hold:
            with self.lock:
                run = machine.ready.take()
        else:
            run = machine.ready.take()
        if run is None:
            return None
        move(run, State.RUNNING)
        # The caller's reading may be older than the one that made the run ready; nothing starts before it is due.
        run.started = now if now > machine.seen else machine.seen
        if machine.post_started is not None:
            machine.post_started(EventKind.STARTED, run.started, run.task, run.due)
        return run

    def finish(self, run: RunRecord, outcome: Outcome, now: Instant) -> bool:
        task = run.task
        run.finished = now
        if task.rule is None and task.more is None and not self._always_hold:
            machine = self.machine
            registry = machine.registry
            machine.conclude(run, outcome)
            machine.retire(task)
            if not registry.live:
                machine.wake_idle()
            if task.more is not None:  # the look after the store: somebody linked meanwhile
                self.unsettled.append((run, None))
            elif len(registry.finished) <= registry.trim_above:
                return False
        else:
            self.unsettled.append((run, outcome))
        self.settle()
        return True

    def reject(self, error: str, now: Instant) -> bool:
        with self._hold:
            run = self.machine.ready.take()
            if run is None:
                return False
            run.finished = now
            self.unsettled.append((run, Outcome(State.FAILED, TaskRejected(error), Reason.REJECTED, error)))
            return True

    def settle(self) -> None:
        """Settle what was handed over, if the lock is free; if not, its holder does, since it looks on its way out."""
        while self._settle_all() or self._ask_one():
            pass

    def _settle_all(self) -> bool:
        """False when there was nothing to do, or somebody else is at it."""
        registry = self.machine.registry
        if not (self.unsettled or registry.overfull) or not self.lock.acquire(blocking=False):
            return False
        try:
            while self.unsettled:
                self.machine.settle(*self.unsettled.popleft())
            registry.trim()
        finally:
            self.lock.release()
        return True

    def _ask_one(self) -> bool:
        """Put one question to a user's own rule, with no lock held. False when there is none."""
        machine = self.machine
        try:
            task, question, then, now = machine.asks.popleft()
        except IndexError:
            return False
        plan: Plan | BaseException
        try:
            plan = question()
        except BaseException as error:  # noqa: BLE001 - foreign code: whatever it raises ends its own task only
            plan = error
        self.lock.acquire()  # not by _Hold: its look on leaving is the loop in `settle`
        try:
            machine.answered(task, plan, then, now)
        finally:
            self.lock.release()
        return True

    # From outside

    def cancel(self, task: TaskRecord, now: Instant) -> Cancelled:
        with self._hold:
            return self.machine.cancel(task, now, Reason.CANCELLED)

    def stop_flag(self, run: RunRecord) -> Event:
        with self._hold:
            flag = run.stop
            if not isinstance(flag, Event):
                flag = Event()
                if run.stop is True:
                    flag.set()
                run.stop = flag
            return flag

    def stop_running(self) -> None:
        with self._hold:
            for task in self.machine.registry.live.values():
                if task.run is not None and task.run.state is State.RUNNING:
                    self.machine.ask_to_stop(task.run)

    def close(self, now: Instant) -> None:
        machine = self.machine
        with self._hold:
            self.is_closed = True
            machine.is_open = False
            machine.waiting.clear()  # so that no end of a parent decides anything any more
            for task in list(machine.registry.live.values()):
                machine.cancel(task, now, Reason.CLOSED, ask=False)

    def await_end(self, task: TaskRecord, waiter: Waiter) -> bool:
        with self._hold:
            if ended(task):
                return False
            more_of(task).waiters.append(waiter)
            return not ended(task)  # the look after the link: see the head of this file

    def await_idle(self, waiter: Waiter) -> bool:
        with self._hold:
            self.machine.idle_waiters.append(waiter)
            return bool(self.machine.registry.live)

    def forget_waiter(self, waiter: Waiter, task: TaskRecord | None) -> None:
        with self._hold:
            waiters = self.machine.idle_waiters if task is None else more_of(task).waiters
            if waiter in waiters:
                waiters.remove(waiter)

    # Snapshots

    def find(self, id: str) -> TaskRecord:
        with self._hold:
            return self.machine.registry.find(id)

    def get(self, task: TaskRecord) -> TaskInfo:
        with self._hold:
            return task_of(task)

    def tasks(self) -> list[TaskInfo]:
        with self._hold:
            return [task_of(task) for task in self.machine.registry.listing()]

    def runs(self, task: TaskRecord, limit: int | None = None) -> list[Run]:
        with self._hold:
            return runs_of(task, limit)

    def live(self) -> list[TaskRecord]:
        with self._hold:
            return list(self.machine.registry.live.values())

    def running(self) -> list[Run]:
        with self._hold:
            runs = [task.run for task in self.machine.registry.live.values()]
            return [run_of(run) for run in runs if run is not None and run.state is State.RUNNING]


def _no_gil() -> bool:
    enabled = getattr(sys, "_is_gil_enabled", None)
    return enabled is not None and not enabled()
