"""The store in memory: the pure machine behind one lock.

A worker never waits for that lock: it takes by an atomic pop, ends a plain task by plain stores, and hands all else to
whoever holds the lock. Two orders carry the proof, and tests/races tries to break them:

- store, then look: a worker ends a plain task and then looks whether somebody linked a child or a waiter meanwhile;
  who links looks at the end again afterwards. One of the two sees the other.
- whoever leaves the lock looks for what was handed over while it was held: `_hold_of` goes around every hold.

Without the GIL a load may overtake a store, so there every finish goes under the lock (`always_hold`).
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

from tickless.core import attempts, by_hand, cancel, pauses, steps, update
from tickless.core.machine import AWAKE, FOREVER, Machine, Post
from tickless.core.permits import info_of
from tickless.core.questions import answered
from tickless.core.record import (
    QUEUED,
    IllegalMove,
    RunRecord,
    TaskRecord,
    Waiter,
    ended,
    holdings,
    more_of,
    own_run,
    state_of,
)
from tickless.core.snapshots import round_info_of, run_of, runs_of, task_of
from tickless.core.special import Asked, Special, is_open_round, policy_of, queue_of, round_of, rounds_of
from tickless.core.stopping import ask_to_stop
from tickless.errors import RuleError, TaskRejected, refuse_closed, shown
from tickless.instants import Instant
from tickless.policies import Limit, Pause, Plan
from tickless.records import EventKind, LimitInfo, Outcome, Run, TaskInfo
from tickless.round_info import RoundInfo
from tickless.rules import Rule
from tickless.states import DEFAULT_POOL, Cancelled, CatchUp, Exists, Reason, State
from tickless.stores import beside
from tickless.stores.stopping import StopEvent, stop_event

_NO_WAIT = (False,)
"""`for mine in map(lock.acquire, _NO_WAIT)` tries once, and no Ctrl-C comes between the lock and `mine`: no call of
Python's own is between them. After `if lock.acquire(False):` one could, before any `try`."""


def _hold_of(store: MemoryStore) -> AbstractContextManager[object]:
    """What goes around every hold of the lock: nobody leaves without the look. A prototype that did hung on it.

    Used as `with self._hold, self.lock`. The lock's own way in and out are calls of C that no Ctrl-C can come between.
    """
    unsettled, asks, trash = store.unsettled, store.machine.questions.queue, store.machine.trash

    class Hold:
        __slots__ = ()
        __enter__ = staticmethod(store.lock.locked)  # nothing to do on the way in: the quickest call of C there is

        @staticmethod
        def __exit__(kind: object, error: object, tb: object) -> None:
            if unsettled or asks or trash:
                store.settle()

    return Hold()


class MemoryStore:
    """See `tickless.stores.Store` for the verbs. Times are arguments: the store reads no clock."""

    def __init__(
        self,
        *,
        keep_finished: int = 1000,
        keep_runs: int = 100,
        pools: Iterable[str] = (DEFAULT_POOL,),
        limits: Iterable[Limit] = (),
        always_hold: bool | None = None,
        keep_rounds: int = 20,
    ) -> None:
        self.lock = Lock()
        self.machine = Machine(keep_finished, keep_runs, pools, limits, keep_rounds)
        self.signs = self.machine.signs
        self.unsettled: deque[tuple[RunRecord, Outcome | None]] = deque()
        self.is_closed = False
        self._hold = _hold_of(self)
        self._always_hold = _no_gil() if always_hold is None else always_hold

    def listen(self, post: Post, wants: frozenset[EventKind]) -> None:
        with self._hold, self.lock:
            self.machine.listen(post, wants)

    # Into the store

    def open(self) -> None:
        with self._hold, self.lock:
            self.machine.is_open = True

    def add(self, task: TaskRecord, now: Instant) -> None:
        machine, parents = self.machine, task._parents  # the last holder of a parent, until the lock is free
        try:  # what `with self._hold, self.lock` does, with a call less: this is the path of a million inserts
            with self.lock:
                if self.is_closed:
                    refuse_closed()
                if task._id is not None or task._parents:
                    machine.registry.admit(task)
                machine.enter(task, now)
        finally:
            if self.unsettled or machine.questions.queue or machine.trash:
                self.settle()
            del parents

    def add_many(self, tasks: Sequence[TaskRecord], now: Instant) -> None:
        parents: list[object] = []  # the last holders of some, until the lock is free
        with self._hold, self.lock:
            if self.is_closed:
                refuse_closed()
            self.machine.registry.admit_many(tasks)
            parents += [task._parents for task in tasks if task._parents]
            self.machine.enter_many(tasks, now)

    def add_or(self, exists: Exists, task: TaskRecord, now: Instant) -> TaskRecord:
        parents = task._parents  # the last holder of some, until the lock is free
        with self._hold, self.lock:
            if self.is_closed:
                refuse_closed()
            entered = update.enter_or(self.machine, exists, task, now)
        del parents
        return entered

    # Time passes

    def due(self, now: Instant, wall: Instant, limit: int = steps.DUE_BATCH) -> bool:
        machine = self.machine
        with self._hold, self.lock:
            if now > machine.seen:
                machine.seen = now
            machine.wake_at = AWAKE
            offset = wall - now
            if abs(offset - machine.offset) > steps.STEP_US:
                steps.on_step(machine, offset, wall)
            return machine.surface(now, wall, limit)

    def next_wake(self) -> Instant | None:
        machine = self.machine
        with self._hold, self.lock:
            head = machine.timeline.head(machine.registry.live)
            machine.wake_at = FOREVER if head is None else head
            return head

    def ready_runs(self, pool: str | None = None) -> int:
        return len(self.machine.ready.claims if pool is None else self.machine.pools[pool].queue.claims)

    # A run's life

    def take(self, now: Instant, pool: str | None = None) -> RunRecord | None:
        machine = self.machine
        queue = machine.ready if pool is None else machine.pools[pool].queue
        while True:
            task = queue.take()
            if task is None:
                return None
            if task._run is not QUEUED:
                raise IllegalMove(f"{task.id} was taken, and is {state_of(task)}")
            # The caller's reading may be older than the one that made the task ready; nothing starts before it is due.
            started = now if now > machine.seen else machine.seen
            run: RunRecord | None
            special = None if task._more is None else task._more.special
            if special is not None and (special.asks_at_start or special.attempts or special.by_hand):
                run = self._begin(task, special, started)
                if run is None:
                    continue
            else:
                run = RunRecord(task, task._due, State.RUNNING)  # the move from READY: there was no record before
                run.started = started
                if task._wall:
                    run.at = task._at
                task._run = run
            if machine.to_stop or self._always_hold:  # the look after the store: somebody asked it to stop meanwhile
                self._tell_stop(task)
            if machine.post_started is not None:
                machine.post_started(EventKind.STARTED, started, task, run.due)
            return run

    def _begin(self, task: TaskRecord, special: Special, now: Instant) -> RunRecord | None:
        """The run of a task with a policy; None when that says that it does not start."""
        with self._hold, self.lock:
            return attempts.begin(self.machine, task, special, now)

    def _tell_stop(self, task: TaskRecord) -> None:
        machine = self.machine
        with self._hold, self.lock:
            if task in machine.to_stop:
                machine.to_stop.remove(task)
                ask_to_stop(machine, task)

    def finish(self, run: RunRecord, outcome: Outcome, now: Instant) -> bool:
        if run.extra is not None:  # it may have timed out, and then its task may be forgotten
            run.extra.returned = now
            task: Any = getattr(run, "task", None)
            held = () if task is None else holdings(task)
        else:
            task = run.task
            run.finished = now
            if task._rule is None and task._more is None and task._children is None and not self._always_hold:
                return self._finish_plain(run, task, outcome)
            # None of it goes before the lock is free.
            held = (task._work, task._args, task._kwargs, task._rule) if task._more is None else holdings(task)
        machine, mine = self.machine, False
        try:
            for mine in map(self.lock.acquire, _NO_WAIT):
                if mine:
                    if self.unsettled:
                        self._settle_handed()
                    if run.extra is None and (task._more is None or task._more.special is None):
                        machine.settle_end(run, outcome)
                    else:
                        machine.settle(run, outcome)
        finally:
            if mine:
                self.lock.release()
        del held
        if not mine:
            self.unsettled.append((run, outcome))
        if self.unsettled or machine.questions.queue or machine.trash:
            self.settle()
        return True

    def _finish_plain(self, run: RunRecord, task: TaskRecord, outcome: Outcome) -> bool:
        """End a task that nobody waits for, without the lock."""
        machine = self.machine
        machine.conclude(run, task, outcome)
        shared = task._value is not None and (task._id is not None or task._waiting)  # a twin takes its place elsewhere
        if task._more is not None or task._children is not None or shared:
            # The look after the store: somebody linked meanwhile. Before `retire`, since then it may be forgotten.
            self.unsettled.append((run, None))
            self.settle()
            return True
        registry = machine.registry
        task._work = task._args = task._kwargs = None  # `Machine.retire`, written out: every plain run comes this way
        if task._seq in registry.live:
            registry.finished.append(task if task._value is None else registry.twin(task))
            registry.live.pop(task._seq, None)
        if not registry.live and machine.idle_waiters:
            with self._hold, self.lock:  # else a waiter that came later, for a task that came later, would be woken too
                if not registry.live:
                    machine.wake_idle()
            return True
        if len(registry.finished) > registry.trim_above:
            self.settle()
            return True
        return False

    def _settle_handed(self) -> None:
        while self.unsettled:
            run, outcome = self.unsettled.popleft()
            task = getattr(run, "task", None)
            if task is not None:  # else it is a zombie's, and was forgotten
                self.machine.discard(task)
            self.machine.trash.append(outcome)
            self.machine.settle(run, outcome)

    def reject(self, error: str, now: Instant, pool: str | None = None) -> bool:
        with self._hold, self.lock:
            task = (self.machine.ready if pool is None else self.machine.pools[pool].queue).take()
            if task is None:
                return False
            run = task._run = own_run(task, QUEUED)
            run.finished = now
            self.unsettled.append((run, Outcome(State.FAILED, TaskRejected(error), Reason.REJECTED, error)))
            return True

    def pool_down(self, run: RunRecord | None, pool: str = DEFAULT_POOL) -> bool:
        return False

    def settle(self) -> None:
        """Settle what was handed over, if the lock is free; if not, its holder does, since it looks on its way out."""
        unsettled, machine = self.unsettled, self.machine
        while unsettled or machine.registry.overfull or machine.questions.queue or machine.trash:
            self._empty_trash()
            if unsettled or machine.registry.overfull:
                mine = False
                try:
                    for mine in map(self.lock.acquire, _NO_WAIT):
                        if mine:
                            self._settle_handed()
                            machine.registry.trim()
                finally:
                    if mine:
                        self.lock.release()
                if not mine and not machine.questions.queue:
                    return
            if machine.questions.queue:
                self._ask_one()

    def _empty_trash(self) -> None:
        """Drop what ended tasks held, with no lock held: what goes with its last holder may call us back."""
        trash = self.machine.trash
        while trash:
            try:
                trash.popleft()
            except IndexError:  # another thread took it
                return

    def _ask_one(self) -> None:
        """Put one question to a user's own rule, with no lock held."""
        machine = self.machine
        try:
            asked = machine.questions.queue.popleft()
        except IndexError:  # another thread took it
            return
        plan: Plan | BaseException
        try:
            plan = asked.question()
        except RuleError as error:
            plan = error
        except BaseException as error:  # noqa: BLE001 - foreign code: whatever it raises ends its own task only
            plan = RuleError(f"it raised {shown(error)}")  # as text, since its own text is foreign code too
        with self.lock:  # without `_hold`: its look on leaving is the loop in `settle`
            answered(machine, asked, plan)

    # From outside

    def cancel(self, task: TaskRecord, now: Instant) -> Cancelled:
        machine, held = self.machine, None
        try:  # what `with self._hold, self.lock` does, with a call less: this is the path of timeouts
            with self.lock:
                plain = task._more is None and task._rule is None
                held = (task._work, task._args, task._kwargs) if plain else holdings(task)  # until the lock is free
                return cancel.cancel(machine, task, now, Reason.CANCELLED)
        finally:
            if self.unsettled or machine.questions.queue or machine.trash:
                self.settle()
            del held

    def stop_flag(self, run: RunRecord) -> StopEvent:
        with self._hold, self.lock:
            return stop_event(run)

    def zombies(self) -> int:
        return sum(pool.zombies for pool in self.machine.pools.values())

    def lease_lost(self, run: RunRecord) -> bool:
        return False

    def stop_running(self) -> None:
        with self._hold, self.lock:
            for task in list(self.machine.registry.live.values()):
                if self._is_taken(task):
                    ask_to_stop(self.machine, task)

    def close(self, now: Instant) -> None:
        machine = self.machine
        with self._hold, self.lock:
            self.is_closed = machine.is_closed = True
            machine.is_open = False
            machine.waiting.clear()  # so that no end of a parent decides anything any more
            for task in list(machine.registry.live.values()):
                machine.discard(task)
                cancel.cancel(machine, task, now, Reason.CLOSED, ask=False)

    def await_end(self, task: TaskRecord, waiter: Waiter) -> bool:
        with self._hold, self.lock:
            if ended(task):
                return False
            more = more_of(task)
            if more.waiters is None:
                more.waiters = []
            more.waiters.append(waiter)
            if not ended(task):  # the look after the link: see the head of this file
                return True
            more.waiters.remove(waiter)
            return False

    def await_idle(self, waiter: Waiter) -> bool:
        with self._hold, self.lock:
            self.machine.idle_waiters.append(waiter)
            if self.machine.registry.live:
                return True
            self.machine.wake_idle()
            return False

    def forget_waiter(self, waiter: Waiter, task: TaskRecord | None) -> None:
        with self._hold, self.lock:
            waiters = self.machine.idle_waiters if task is None else more_of(task).waiters
            if waiters and waiter in waiters:
                waiters.remove(waiter)

    # Snapshots

    def find(self, id: str) -> TaskRecord:
        with self._hold, self.lock:
            return self.machine.registry.find(id)

    def get(self, task: TaskRecord) -> TaskInfo:
        with self._hold, self.lock:
            return task_of(self.machine, task)

    def result_of(self, task: TaskRecord) -> Any:
        return task._value

    def tasks(self) -> list[TaskInfo]:
        with self._hold, self.lock:
            return [task_of(self.machine, task) for task in self.machine.registry.listing()]

    def runs(self, task: TaskRecord, limit: int | None = None) -> list[Run]:
        with self._hold, self.lock:
            return runs_of(task, limit)

    def live(self) -> list[TaskRecord]:
        with self._hold, self.lock:
            return list(self.machine.registry.live.values())

    def running(self) -> list[Run]:
        with self._hold, self.lock:
            taken = [task for task in list(self.machine.registry.live.values()) if self._is_taken(task)]
            return [run_of(task, task._run) for task in taken if task._run is not None]

    def _is_taken(self, task: TaskRecord) -> bool:
        """Whether a worker has the task: it runs, or its worker is about to make its run."""
        run = None if is_open_round(task) else task._run
        return run is not None and (
            run.state is State.RUNNING or (run is QUEUED and task not in queue_of(task, self.machine.ready).claims)
        )

    # Policies

    def pause(self, scope: pauses.Scope, pause: Pause, now: Instant, wall: Instant) -> int:
        with self._hold, self.lock:
            return pauses.pause(self.machine, scope, pause, now, wall)

    def resume(self, scope: pauses.Scope, catch_up: CatchUp, now: Instant, wall: Instant) -> int:
        with self._hold, self.lock:
            return pauses.resume(self.machine, scope, catch_up, now, wall)

    def settings(self, task: TaskRecord) -> TaskRecord | None:
        with self._hold, self.lock:
            return update.settings(task)

    def change(self, changes: Sequence[tuple[TaskRecord, TaskRecord]], now: Instant, *, leave_out: bool = False) -> int:
        with self._hold, self.lock:
            for task, new in changes:
                update.check_children(self.machine, task, new)
            return sum(update.changed(self.machine, task, new, now, leave_out=leave_out) for task, new in changes)

    def run_now(self, task: TaskRecord, now: Instant, asked: Asked | None = None) -> Run:
        with self._hold, self.lock:
            return run_of(task, by_hand.run_now(self.machine, task, now, asked))

    backfill = beside.in_memory

    def rounds(self, flow: TaskRecord) -> list[tuple[TaskRecord, str]]:
        with self._hold, self.lock:
            return [(one, round_of(one).id) for one in rounds_of(flow)]

    def round_info(self, one: TaskRecord) -> RoundInfo:
        with self._hold, self.lock:
            return round_info_of(self.machine, one)

    def round_tasks(self, one: TaskRecord) -> list[TaskRecord]:
        with self._hold, self.lock:
            return list(self.machine.registry.tasks_of(one))

    def busy_with(self, task: TaskRecord) -> set[int]:
        with self._hold, self.lock:
            return self.machine.registry.busy_with(task)

    def missed(self, task: TaskRecord) -> tuple[Rule, Instant] | None:
        with self._hold, self.lock:
            return by_hand.missed(task)

    def tagged(self, tag: str | None) -> list[TaskRecord]:
        with self._hold, self.lock:
            return pauses.tagged(self.machine.registry.live.values(), tag)

    def pools(self) -> dict[str, tuple[int, int, int]]:
        with self._hold, self.lock:
            running = Counter(
                policy_of(task).pool for task in list(self.machine.registry.live.values()) if self._is_taken(task)
            )
            return {name: (len(pool.queue), running[name], pool.zombies) for name, pool in self.machine.pools.items()}

    def limits(self) -> list[LimitInfo]:
        with self._hold, self.lock:
            return [info_of(limit) for limit in self.machine.limits.values()]


def _no_gil() -> bool:
    enabled = getattr(sys, "_is_gil_enabled", None)
    return enabled is not None and not enabled()
