"""The durable store: the verbs of `tickless.stores.Store`, each a part of a transaction.

What a verb does to tasks is what the memory store does: the same functions of the core, on the records of the rows that
it is about. What is here says which rows those are.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tickless.core import by_hand, cancel, pauses, steps, update
from tickless.core.machine import FOREVER, Machine, Post
from tickless.core.record import NOT_SET, QUEUED, RunRecord, TaskRecord, Waiter, own_run
from tickless.core.snapshots import run_of
from tickless.core.special import Asked
from tickless.errors import PayloadError, StoreError, TaskRejected, refuse_closed
from tickless.instants import Instant
from tickless.policies import Limit, Pause
from tickless.records import EventKind, LimitInfo, Outcome, Run, TaskInfo
from tickless.rules import Rule
from tickless.states import DEFAULT_POOL, Cancelled, CatchUp, Exists, Reason, State
from tickless.stores import beside
from tickless.stores.registered import Works
from tickless.stores.sql import failpoints, looking, rounds
from tickless.stores.sql.claims import SLEPT, Claims
from tickless.stores.sql.door import Door, Taken
from tickless.stores.sql.plans import params_form
from tickless.stores.sql.pruning import Pruner
from tickless.stores.sql.rows import AWAITED, Rows
from tickless.stores.sql.session import ASK, Session
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.transactions import Transactions
from tickless.stores.stopping import StopEvent, stop_event

MOST_GROUP = 256
LEASE_US = 30_000_000
"""How long a process may be silent before its runs are another's."""


class SqlStore:
    """See `tickless.stores.Store` for the verbs. `pools`: how many runs each may have at a time."""

    def __init__(
        self,
        db: Database,
        *,
        works: Works,
        record: type[TaskRecord] = TaskRecord,
        owner: object = None,
        keep_finished: int = 1000,
        keep_runs: int = 100,
        keep_rounds: int = 20,
        pools: Mapping[str, int] | None = None,
        limits: Iterable[Limit] = (),
        most_group: int = MOST_GROUP,
        lease_us: int = LEASE_US,
        results: bool = False,
        keep_for_us: int | None = None,
    ) -> None:
        pools, limits = {DEFAULT_POOL: 1} if pools is None else pools, list(limits)
        self.db = db
        self.keep_finished = keep_finished
        self.keep_runs = keep_runs
        self.lease_us = lease_us
        self.is_closed = False
        self.machine = machine = Machine(keep_finished, keep_runs, pools, limits, keep_rounds)
        self.signs = machine.signs
        self.session = Session(db, Rows(works, record, owner, keep_runs), machine, limits)
        self._door = door = Door(self.session, works, keep_finished)
        self.claims = Claims(self.session, pools, most_group, lease_us, door.kept_form, results)
        self._pruner = Pruner(self.session, keep_finished, keep_runs, keep_for_us)
        self.transactions = Transactions(self.session, self.claims)
        self._ask, self._read = self.transactions.ask, self.transactions.read
        weakref.finalize(self, db.close)
        self._ask(self.session.shared.read)

    def base_of(self, boot: str, elapsed_us: int, wall: Instant) -> int:
        """What `Clock.now()` counts from in this boot, in all processes: now() is that plus the elapsed time."""
        base: int = self._ask(lambda: self.session.shared.base_of(boot, elapsed_us, wall))
        return base

    def listen(self, post: Post, wants: frozenset[EventKind]) -> None:
        with self.transactions.lock:
            self.transactions.post = post
            self.machine.listen(self.transactions.note_event, wants)

    def open(self) -> None:
        def body() -> None:
            self.machine.is_open = True
            company = self.transactions.company
            company.join()
            company.read()
            self.transactions.rung = True
            self.db.execute(ASK.try_again)

        self._ask(body)
        failpoints.reach("join.after")

    # Into the store

    def add(self, task: TaskRecord, now: Instant) -> None:
        outputs = self._pack(task)

        def body() -> None:
            self._prepare([task], outputs, now)
            self.machine.registry.admit(task)
            self.machine.enter(task, now)

        self._ask(body, only_adds=True)

    def add_many(self, tasks: Sequence[TaskRecord], now: Instant) -> None:
        outputs = refuse_closed() if self.is_closed else self._door.pack_many(tasks)

        def body() -> None:
            self._prepare(tasks, outputs, now)
            self.machine.registry.admit_many(tasks)
            self.machine.enter_many(tasks, now)

        self._ask(body, only_adds=True)

    def add_or(self, exists: Exists, task: TaskRecord, now: Instant) -> TaskRecord:
        outputs = self._pack(task)

        def body() -> TaskRecord:
            self._prepare([task], outputs, now)
            if task._parents and task._id in self.machine.registry.named:
                self._door.load_ancestors(task)
            return update.enter_or(self.machine, exists, task, now)

        entered: TaskRecord = self._ask(body)
        return entered

    def _pack(self, task: TaskRecord) -> list[Taken]:
        return refuse_closed() if self.is_closed else self._door.pack_many((task,))

    def _prepare(self, tasks: Sequence[TaskRecord], outputs: Sequence[Taken], now: Instant) -> None:
        if self.is_closed:
            refuse_closed()
        self._door.prepare(tasks, outputs, now)

    # Time passes

    def due(self, now: Instant, wall: Instant, limit: int = steps.DUE_BATCH) -> bool:
        if self.claims.flush_at is not None and self.claims.flush_at <= now:
            self.transactions.flush()
        stuck_at = self.claims.stuck_at
        if (stuck_at is not None and stuck_at <= now) or self.transactions.looks_unasked(now):
            self.transactions.rung = True
        at_ease = not self.transactions.rung and not self.claims.rescue.is_due and self.transactions.next > now
        if at_ease and abs(wall - now - self.machine.offset) <= steps.STEP_US:
            if not self._pruner.is_due():
                return False
            self._ask(lambda: self._pruner.prune(wall))
            return True  # there may be more, and something may have come due
        if not self.transactions.rung and now < self.claims.served_until:
            return False
        full: bool = self._ask(lambda: self._due(now, wall, limit))
        return full or self._pruner.is_due()

    def _due(self, now: Instant, wall: Instant, limit: int) -> bool:
        machine, session, transactions = self.machine, self.session, self.transactions
        if now > machine.seen:
            machine.seen = now
        if transactions.rung:
            transactions.rung = False
            session.lanes.update(session.rows.lanes.values())
            for (seq,) in self.db.execute(ASK.to_stop, (transactions.company.number,)).fetchall():
                session.load(seq)  # which sets the flag
        if transactions.company.others or self.claims.rescue.is_due:
            self.claims.rescue.recover(now)
        offset = wall - now
        if abs(offset - machine.offset) > steps.STEP_US:
            session.select("WHERE wall = 1 AND ended IS NULL AND trouble IS NULL")
            steps.on_step(machine, offset, wall)
            session.flush()
        session.shared.load_alarms(now, self.claims.is_mine)
        if self.is_closed:
            return machine.surface(now, wall, limit)  # what runs may time out yet, and nothing else starts
        claims = self.claims
        stuck_at = claims.stuck_at
        if stuck_at is not None and stuck_at <= now:
            claims.give_back_all()
        elif claims.has_room(DEFAULT_POOL) and not claims.ready.get(f"pool:{DEFAULT_POOL}"):
            claims.take(DEFAULT_POOL, now)
            if claims.more:
                return False  # whoever has begun these takes the next ones
        if not claims.can_wait(now):
            session.select_due(now, limit)
        return machine.surface(now, wall, limit)

    def next_wake(self) -> Instant | None:
        with self.transactions.lock:
            flush_at = self.claims.flush_at
            at = self.transactions.next
            at = max(at, self.claims.served_until)
            stuck_at = self.claims.stuck_at
            first = (at, FOREVER if flush_at is None else flush_at, FOREVER if stuck_at is None else stuck_at)
            at = self.transactions.wake_at = min(first)
            return None if at >= FOREVER else Instant(at)

    def ready_runs(self, pool: str = DEFAULT_POOL) -> int:
        return self.claims.may_have(pool)

    # A run's life

    def take(self, now: Instant, pool: str = DEFAULT_POOL) -> RunRecord | None:
        claims, local = self.claims, self.claims.local(pool)
        while True:
            if self.is_closed:
                self._flush()
                return None
            try:
                run = local.popleft()
            except IndexError:
                if not claims.may_have(pool):
                    self._flush()
                    return None
                try:
                    if not self._ask(lambda: claims.take(pool, now)) and not local:
                        return None
                except StoreError:
                    self.transactions.fail()
                    return None
                continue
            failpoints.reach("start.before")
            hindrance = claims.hindrance(run, now)
            if hindrance is None:
                self._begin(run, now)
                return run
            if hindrance is SLEPT or isinstance(hindrance, PayloadError):
                why = None if hindrance is SLEPT else str(hindrance)
                if not self.transactions.is_done(partial(claims.put_back, run, why)):
                    local.appendleft(run)
                    return None
            else:
                self.finish(run, hindrance, now)

    def _begin(self, run: RunRecord, now: Instant) -> None:
        """It starts now, and not when it was taken."""
        self.claims.begun_at = now
        if run.started is None or run.started < now:
            run.started = now
            if run.extra is not None and run.extra.time_out is not None:
                with self.transactions.lock:
                    self.claims.time_from(run, now)

    def _flush(self) -> None:
        """Have written what workers have said. Where that cannot be now, it is said again."""
        try:
            self.transactions.flush()
        except StoreError:
            self.transactions.fail()

    def finish(self, run: RunRecord, outcome: Outcome, now: Instant) -> bool:
        if self.claims.finish(run, outcome, now) or self.is_closed:
            self._flush()
        if self.is_closed:  # who closes waits for code that runs, and not for a file that does not answer
            self.transactions.wake_for(run)
        return True

    def reject(self, error: str, now: Instant, pool: str = DEFAULT_POOL) -> bool:
        def body() -> bool:
            session, lane = self.session, f"pool:{pool}"
            session.flush()
            session.select("WHERE lane = ? AND trouble IS NULL ORDER BY priority DESC, turn LIMIT 1", (lane,))
            task = self.machine.pools[pool].queue.take()
            if task is None:
                return False
            run = task._run = own_run(task, QUEUED)
            run.finished = now
            self.machine.settle(run, Outcome(State.FAILED, TaskRejected(error), Reason.REJECTED, error))
            return True

        done: bool = self._ask(body)
        return done

    def pool_down(self, run: RunRecord | None, pool: str = DEFAULT_POOL) -> bool:
        self.claims.shut(pool, run)
        self.transactions.is_done(self.claims.give_back_all)  # else once the store answers: see `stuck_at`
        return True

    def renew(self, now: Instant) -> None:
        """This process lives, and its runs are its own for another lease."""
        failpoints.reach("renew.before")
        self._ask(lambda: self.claims.renew(now))
        failpoints.reach("renew.after")

    def zombies(self) -> int:
        return sum(pool.zombies for pool in self.machine.pools.values())

    def lease_lost(self, run: RunRecord) -> bool:
        return self.claims.is_lost(run)

    # From outside

    def cancel(self, task: TaskRecord, now: Instant) -> Cancelled:
        def body() -> Cancelled:
            loaded = self.session.load(task._seq)
            if loaded is None:
                return Cancelled.TOO_LATE
            self.transactions.see_due(now)
            return cancel.cancel(self.machine, loaded.task, now, Reason.CANCELLED)

        answer: Cancelled = self._ask(body)
        return answer

    def stop_flag(self, run: RunRecord) -> StopEvent:
        with self.transactions.lock:
            return stop_event(run)

    def stop_running(self) -> None:
        self._ask(self.claims.ask_all_to_stop)

    def close(self, now: Instant) -> None:
        self.is_closed = self.claims.is_closed = True
        self.machine.is_open = False
        self.transactions.is_done(_nothing)  # which gives back what was taken and has not begun
        self.claims.ready.clear()

    def leave(self) -> None:
        """Nothing runs here any more. The file is opened again for handles that are asked afterwards."""
        with suppress(StoreError):  # the others find it out by the lock
            self._ask(self.transactions.company.leave)
        self.transactions.company.close()
        self.transactions.rest()

    def await_end(self, task: TaskRecord, waiter: Waiter) -> bool:
        if self.is_closed:  # who closes waits for what runs here, and whether or not the file answers
            with self.transactions.lock:
                if task not in self.claims.going_on():
                    return False
                self.transactions.waiters.setdefault(task._seq, []).append(waiter)
                return True

        def body() -> bool:
            loaded = self.session.load(task._seq)
            if loaded is None or loaded.ended is not None:
                return False
            self.transactions.company.join()
            loaded.kin |= AWAITED
            self.transactions.waiters.setdefault(task._seq, []).append(waiter)
            return True

        return bool(self._ask(body))

    def await_idle(self, waiter: Waiter) -> bool:
        def body() -> bool:
            if not (self.session.own_runs if self.is_closed else self.session.shared.live):
                return False
            self.transactions.company.join()
            self.transactions.idle.append(waiter)
            return True

        return bool(self._ask(body))

    def forget_waiter(self, waiter: Waiter, task: TaskRecord | None) -> None:
        with self.transactions.lock:
            waiters = self.transactions.idle if task is None else self.transactions.waiters.get(task._seq, [])
            if waiter in waiters:
                waiters.remove(waiter)

    # Snapshots

    def find(self, id: str) -> TaskRecord:
        found: TaskRecord = self._read(lambda: looking.find(self.session, id, self.keep_finished))
        return found

    def get(self, task: TaskRecord) -> TaskInfo:
        info: TaskInfo = self._read(lambda: looking.info(self.session, task))
        return info

    def result_of(self, task: TaskRecord) -> Any:
        kept = self._read(lambda: looking.kept_result(self.session, task))
        if kept is None:
            return NOT_SET
        return looking.value_of(self.session.rows.works, kept) if isinstance(kept, str) else kept

    def tasks(self) -> list[TaskInfo]:
        infos: list[TaskInfo] = self._read(lambda: looking.infos(self.session, self.keep_finished))
        return infos

    def runs(self, task: TaskRecord, limit: int | None = None) -> list[Run]:
        runs: list[Run] = self._read(lambda: looking.runs(self.session, task, limit, self.keep_runs))
        return runs

    def live(self) -> list[TaskRecord]:
        """Before it is closed every task that has not ended, and then those that run here."""
        if self.is_closed:
            with self.transactions.lock:
                return self.claims.going_on()
        found: list[TaskRecord] = self._read(lambda: looking.live(self.session))
        return found

    def running(self) -> list[Run]:
        """Those that run here."""
        with self.transactions.lock:
            return [run_of(task, task._run) for task in self.claims.going_on() if task._run is not None]

    def unusable(self) -> dict[str, str]:
        """The tasks whose rows cannot be used, by their ids, and why. They are tried again at each start."""
        found: dict[str, str] = self._read(lambda: looking.unusable(self.session))
        return found

    def try_again(self) -> int:
        """Have the rows that could not be used tried again. Gives how many there are."""

        def body() -> int:
            self.transactions.rung = True
            return self.db.execute(ASK.try_again).rowcount

        return int(self._ask(body))

    def pools(self) -> dict[str, tuple[int, int, int]]:
        counts: dict[str, tuple[int, int, int]] = self._read(lambda: looking.pools(self.session))
        return counts

    def limits(self) -> list[LimitInfo]:
        infos: list[LimitInfo] = self._read(lambda: looking.limits(self.session))
        return infos

    # Policies

    def pause(self, scope: pauses.Scope, pause: Pause, now: Instant, wall: Instant) -> int:
        def body() -> int:
            self.session.shared.load_scope(scope)
            return pauses.pause(self.machine, scope, pause, now, wall)

        return int(self._ask(body))

    def resume(self, scope: pauses.Scope, catch_up: CatchUp, now: Instant, wall: Instant) -> int:
        def body() -> int:
            self.session.shared.load_scope(scope)
            self.transactions.see_due(now)
            return pauses.resume(self.machine, scope, catch_up, now, wall)

        return int(self._ask(body))

    def settings(self, task: TaskRecord) -> TaskRecord | None:
        def body() -> TaskRecord | None:
            loaded = self.session.load(task._seq)
            copy = None if loaded is None or loaded.ended is not None else update.settings(task)
            if copy is not None:
                copy._args = None  # those that it has stay, unless others are given
            return copy

        copy: TaskRecord | None = self._read(body)
        return copy

    def change(self, changes: Sequence[tuple[TaskRecord, TaskRecord]], now: Instant, *, leave_out: bool = False) -> int:
        for _, new in changes:
            self._pack(new)

        def body() -> int:
            self.session.load_many([task._seq for task, _ in changes])
            self.transactions.see_due(now)
            for task, new in changes:
                update.check_children(self.machine, task, new)
            return sum(update.changed(self.machine, task, new, now, leave_out=leave_out) for task, new in changes)

        return int(self._ask(body))

    def run_now(self, task: TaskRecord, now: Instant, asked: Asked | None = None) -> Run:
        said = None if asked is None else asked._replace(params=params_form(asked.params, self._door.kept_form))

        def body() -> Run:
            self.session.load(task._seq)
            return run_of(task, by_hand.run_now(self.machine, task, now, said))

        run: Run = self._ask(body)
        return run

    backfill = beside.in_file
    round_info = rounds.round_info
    round_tasks = rounds.round_tasks
    busy_with = rounds.busy_with
    rounds = rounds.rounds

    def missed(self, task: TaskRecord) -> tuple[Rule, Instant] | None:
        def body() -> tuple[Rule, Instant] | None:
            return None if self.session.load(task._seq) is None else by_hand.missed(task)

        found: tuple[Rule, Instant] | None = self._read(body)
        return found

    def tagged(self, tag: str | None) -> list[TaskRecord]:
        def body() -> list[TaskRecord]:
            self.session.shared.load_scope(tag)
            return pauses.tagged([one.task for one in self.session.loaded.values() if one.ended is None], tag)

        found: list[TaskRecord] = self._read(body)
        return sorted(found, key=lambda task: task._seq)


def _nothing() -> None:
    """Asked for the sake of what is done besides."""
