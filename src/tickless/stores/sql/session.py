"""The unit of work: rows that are loaded into the machine by need, and written back where they changed.

The machine is that of the memory store. What it does to records it does here, too, between BEGIN and COMMIT; then the
records are dropped. So no policy is written twice. Only what this process runs stays loaded, and is read again once
another process has committed anything.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappush
from typing import Any

from tickless.core.machine import AWAKE, Machine
from tickless.core.permits import LimitState
from tickless.core.ready import PoolState, ReadyQueue
from tickless.core.record import QUEUED, SEQ_BITS, RunRecord, TaskRecord, number_of
from tickless.core.registry import Registry
from tickless.core.special import is_round, round_of, rounds_of
from tickless.errors import PayloadError
from tickless.instants import Instant
from tickless.policies import Limit
from tickless.states import State
from tickless.stores.sql import forgetting, plain, shared, writing
from tickless.stores.sql.alive import Alive
from tickless.stores.sql.calls import Ends
from tickless.stores.sql.kin import Kin
from tickless.stores.sql.rows import AT, COLUMNS, HAS_CHILDREN, STATES, WAITS, Loaded, Row, Rows, run_of_row
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import load as load_statements

ASK = load_statements("queries.sql")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM tasks "
POOL, OWNER, TOKEN = AT["pool"], AT["owner"], AT["token"]
DUE = "WHERE at <= ? AND trouble IS NULL AND at IS NOT NULL ORDER BY at, seq LIMIT ?"
FEW = 64
"""How many runs that wait for a limit are loaded beyond those that may let one go."""


class LoadedTasks(Registry):
    """The registry of what is loaded: it lists nothing, so it forgets nothing and makes no twins."""

    __slots__ = ("session",)

    session: Session

    def put_aside(self, task: TaskRecord) -> None:
        if (task._more is not None and task._more.round is not None) or is_round(task):
            self.finished.append(task)  # its row stays

    def trim_rounds(self, flow: TaskRecord, keep: int) -> None:
        session = self.session
        session.flush()  # some have ended just now
        if session.db.execute(ASK.ended_rounds, (flow._seq,)).fetchone()[0] > keep:
            again = self.tried_again(flow)
            seqs = [seq for (seq,) in session.db.execute(ASK.rounds_over, (flow._seq,)).fetchall()]
            session.load_many(seqs)
            ones = [session.loaded[seq].task for seq in seqs if seq in session.loaded]
            over = [one._seq for one in ones if is_round(one) and round_of(one).id not in again]
            session.drop_rounds(over[: max(0, len(over) - keep)])

    def live_round(self, number: int) -> TaskRecord | None:
        loaded = None if number in self.live else self.session.load(number)
        return self.live.get(number) if loaded is None or loaded.ended is None else None

    def tasks_of(self, one: TaskRecord) -> list[TaskRecord]:
        mine: list[TaskRecord] = round_of(one).tasks
        if not mine:  # else it has just got them
            seqs = [seq for (seq,) in self.session.db.execute(ASK.tasks_of_round, (one._seq,)).fetchall()]
            self.session.load_many(seqs)
            mine = [loaded.task for seq in seqs if (loaded := self.session.loaded.get(seq)) is not None]
        return mine

    def find_round(self, flow: TaskRecord, id: str) -> TaskRecord | None:
        fresh = [one for one in rounds_of(flow) if round_of(one).id == id]
        return fresh[0] if fresh else next((one for one, of in self.session.rounds_of(flow) if of == id), None)

    def put_aside_last(self, chief: TaskRecord, one: TaskRecord) -> None:
        """Its row says so."""

    def first_aside(self, chief: TaskRecord) -> TaskRecord | None:
        found = self._asides_of(chief, 1)
        return found[0] if found else None

    def live_asides(self, chief: TaskRecord) -> list[TaskRecord]:
        return self._asides_of(chief, -1)

    def _asides_of(self, chief: TaskRecord, limit: int) -> list[TaskRecord]:
        session = self.session
        session.flush()  # some have come or ended just now
        first = "WHERE chief = ? AND ended IS NULL AND kin & 32 AND trouble IS NULL ORDER BY seq LIMIT ?"
        found, bad = session.select(first, (chief._seq, limit)), session.bad
        while not found and bad < session.bad:  # the first could not be used
            bad, found = session.bad, session.select(first, (chief._seq, limit))
        return [one.task for one in found]

    def aside_ids(self, chief: TaskRecord, ids: Sequence[str]) -> list[str]:
        rounds = self.session.db.execute(ASK.round_ids, (chief._seq,)).fetchall()
        return [*self.taken(ids), *(id for (id,) in rounds)]

    def past(self, chief: TaskRecord) -> list[tuple[Instant | None, State | None]]:
        self.session.flush()
        rows = self.session.db.execute(ASK.past, (chief._seq, chief._seq, chief._seq)).fetchall()
        return [(due, None if state is None else STATES[state]) for due, state in rows]

    def taken(self, ids: Sequence[str]) -> list[str]:
        return [id for (id,) in self.session.db.execute(ASK.ids_taken, (json.dumps(list(ids)),)).fetchall()]

    def trim(self) -> None:
        """The rows are pruned elsewhere."""

    def twin(self, task: TaskRecord) -> TaskRecord:
        return task


class Session:
    """One per store. Everything here is called under the store's lock, and all but `__init__` inside a transaction."""

    def __init__(self, db: Database, rows: Rows, machine: Machine, limits: Sequence[Limit]) -> None:
        self.db = db
        self.rows = rows
        self.machine = machine
        registry = machine.registry = LoadedTasks(1 << 60)
        registry.session = self
        rows.ask = db.execute
        rows.value_of = lambda task: self.loaded[task._seq].value if task._seq in self.loaded else None
        machine.wake_at = AWAKE  # the store itself tells when to wake: it knows all rows
        self.alive = Alive()
        self.loaded: dict[int, Loaded] = {}
        self.fresh: dict[int, tuple[TaskRecord, plain.New]] = {}
        """The plain tasks that this transaction has written for the first time, and as what."""
        self.kept: dict[int, Loaded] = {}
        """Of what runs here: as it was when this process last committed. Good while nobody else has."""
        self.own_runs: dict[int, RunRecord] = {}
        """The runs that go on here, by their task."""
        self.is_own: Callable[[int, int | None, int], bool]
        """Whether a row with that number, owner and token is of a run of this process."""
        self.zombies: dict[int, RunRecord] = {}
        self.new_links: dict[int, list[TaskRecord]] = {}
        """Parent -> children that are linked to it since the last write."""
        self.asks_others = False
        """Whether a run of another process is asked to stop."""
        self.awaited = False
        """Whether another process may wait for one of them."""
        self.ended: list[TaskRecord] = []
        """What this transaction has ended."""
        self.lanes: set[str] = set()
        """The queues that something came into or went out of."""
        self.filled: set[str] = set()
        """Those that something came into."""
        self.bad = 0
        """How many rows were set aside in this transaction."""
        self.unread: dict[str, str] | None = {} if getattr(rows.works, "stands_in", False) else None
        """Of who only looks in, and may set nothing aside: the rows that cannot be read here, and why."""
        self.limits_read: set[str] = set()
        self.written = 0
        """How many tasks and runs have ended since something was last forgotten."""
        self.grown: set[int] = set()
        """The tasks that have more runs than before."""
        self.shared = shared.Shared(self)
        for name in machine.pools:
            self._name_pool(name)
        for limit in limits:
            self.rows.lanes[machine.limits[limit.name].queue] = f"limit:{limit.name}"

    def _name_pool(self, name: str) -> ReadyQueue:
        """The queue of that pool, of which this process may have none: then its rows are passed through."""
        pool = self.machine.pools.get(name)
        if pool is None:
            pool = self.machine.pools[name] = PoolState()
        self.rows.lanes[pool.queue] = f"pool:{name}"
        return pool.queue

    # In

    def begin(self) -> bool:
        """What others have committed counts from here on. Whether they have committed anything."""
        if self.db.changed() or self.shared.stale:
            self.kept.clear()
            self.shared.stale = True  # until all of it was read: that may fail in the middle
            self.shared.read()
            self.shared.stale = False
            return True
        return False

    def load(self, seq: int) -> Loaded | None:
        """The record of that task, live or ended, in the machine; None: there is no such row, or it is of no use."""
        loaded = self.loaded.get(seq)
        if loaded is not None:
            return loaded
        kept = self.kept.pop(seq, None)
        if kept is not None and kept.row is not None:
            return self._enter(kept)
        row = self.db.execute(SELECT + "WHERE seq = ?", (seq,)).fetchone()
        return None if row is None else self.take_in(row)

    def load_many(self, seqs: Iterable[int]) -> None:
        """Load all of these with one question."""
        wanted = [seq for seq in seqs if seq not in self.loaded]
        for seq in [seq for seq in wanted if seq in self.kept]:
            self.load(seq)
            wanted.remove(seq)
        if wanted:
            self.select("WHERE seq IN (SELECT value FROM json_each(?))", (json.dumps(wanted),))

    def select(self, where: str, args: Sequence[Any] = ()) -> list[Loaded]:
        """Load the rows that this finds, in its order. What was changed and not written does not count."""
        found = self.db.execute(SELECT + where, args).fetchall()
        return [one for row in found if (one := self.take_in(row)) is not None]

    def select_due(self, now: Instant, limit: int) -> int:
        """Load the tasks whose time has come, the earliest first, at most so many. Gives how many were found."""
        found = self.db.execute(plain.SELECT + DUE, (now, limit)).fetchall()
        others, bad = [], self.bad
        here = (self.loaded, self.fresh, self.kept, self.own_runs, self.zombies)
        for seq, name, work, at, token, is_plain in found:
            if not is_plain or any(seq in those for those in here) or self.alive.get(seq) is not None:
                others.append(seq)
                continue
            task = self.rows.plain(seq, name, work)
            loaded = self.loaded[seq] = Loaded(task)
            loaded.row, loaded.is_plain, loaded.token = plain.waiting_row(seq, name, work, at, token), True, token
            self.alive.put(task)
            self.machine.registry.live[seq] = task
            task._entry = self.machine.timeline.push(at, seq)
        self.load_many(others)
        return len(found) - (self.bad - bad)

    def take_in(self, row: Row) -> Loaded | None:
        """Have the machine know the record of this row. None for one that cannot be used: that is written to it."""
        seq = row[0]
        there = self.loaded.get(seq)
        if there is not None:
            return there
        if seq in self.fresh:
            return self.adopt(self.fresh[seq][0])
        self.kept.pop(seq, None)  # this row is newer
        if row[AT["trouble"]] is not None:
            return None
        task = self.alive.get(seq)
        is_new = task is None
        if task is None:
            task = self.rows.blank(seq)
        zombie = self.zombies.get(seq)
        own = self.own_runs.get(seq) or (zombie if row[AT["state"]] == "failed" else None)
        if own is not None and own is not zombie and not self.is_own(seq, row[OWNER], row[TOKEN]):
            own = None  # its lease was lost: what its record says is of no row any more
        try:
            loaded = self.rows.decode(row, task, own, zombie)
        except PayloadError as problem:
            if self.unread is not None:
                self.unread[f"#{seq}" if row[AT["id"]] is None else row[AT["id"]]] = str(problem)
            else:
                self.set_aside(seq, str(problem))
            return None
        if is_new:
            self.alive.put(task)
        return self._enter(loaded)

    def set_aside(self, seq: int, why: str) -> None:
        """The row cannot be used. It stays as it is, shows why, and is tried again at a start, or when asked to."""
        self.db.execute(ASK.set_aside, (why, seq))
        self.bad += 1

    def _enter(self, loaded: Loaded) -> Loaded:
        """Put the record where the machine expects it to be."""
        machine, task = self.machine, loaded.task
        seq, more = task._seq, task._more
        self.loaded[seq] = loaded
        if (loaded.row or ())[POOL] not in machine.pools:
            self._name_pool((loaded.row or ())[POOL])
        if loaded.ended is None:
            machine.registry.live[seq] = task
        if task._id is not None and (loaded.row or ())[AT["listed"]] == 1:
            machine.registry.named[task._id] = task
        if loaded.kin & HAS_CHILDREN and loaded.ended is None:
            task._children = Kin(self, task)  # type: ignore[assignment]  # it is asked as a list is
        if loaded.kin & WAITS:
            machine.waiting.add(task)
        if task._entry is not None:
            heappush(machine.timeline.heap, task._entry)
            machine.timeline.live += 1
        special = None if more is None else more.special
        if task._run is QUEUED:
            lane = (loaded.row or ())[AT["lane"]]
            queue = self.queue_of(lane)
            if special is not None:
                special.queue = None if queue is machine.ready else queue
            queue.push(task)
        if special is not None and loaded.ended is None:
            if special.policy.limit is not None:
                self.read_limit(special.policy.limit)
            if special.crew is not None:
                crew = self.select("WHERE chief = ? AND ended IS NULL AND NOT kin & 32 ORDER BY seq", (seq,))
                special.crew = [one.task for one in crew]
        if loaded.chief is not None and special is not None:
            chief = self.load(loaded.chief)
            special.chief = None if chief is None else chief.task
        return loaded

    def queue_of(self, lane: str) -> ReadyQueue:
        kind, _, name = lane.partition(":")
        if kind == "limit":
            return self.limit(name).queue
        pool = self.machine.pools.get(name)
        return self._name_pool(name) if pool is None else pool.queue

    def limit(self, name: str) -> LimitState:
        """That limit, of which this process may have been told nothing: then it is as it was stored."""
        state = self.machine.limits.get(name)
        return self.shared.limit_from_row(name) if state is None else state

    def read_limit(self, name: str) -> None:
        """Who waits for this limit: the head of its queue, as many as may be let go here."""
        if name in self.limits_read:
            return
        self.limits_read.add(name)
        self.limit(name)
        self.select(
            "WHERE lane = ? AND trouble IS NULL ORDER BY priority DESC, turn LIMIT ?",
            (f"limit:{name}", FEW + len(self.own_runs)),
        )

    def see_lower(self, lane: str, priority: int) -> None:
        """Load of each lower priority in the queue the first, since its turn may have come."""
        while (row := self.db.execute(ASK.lower_priority, (lane, priority)).fetchone()) is not None:
            priority = row[0]
            self.select("WHERE lane = ? AND trouble IS NULL AND priority = ? ORDER BY turn LIMIT 1", (lane, priority))

    def ends_of(self, task: TaskRecord) -> Ends:
        """How its parents ended, and their results."""
        ends = {}
        for key in task._parents:
            parent = self.load(number_of(key))
            if parent is not None and parent.row is not None:
                state = parent.row[AT["state"]]
                ends[parent.task._seq] = None if state is None else STATES[state], parent.value
        if task._more is not None and task._more.round is not None:  # its outputs are named by the places of parents
            numbers = list(map(number_of, task._parents))
            ends |= {-1 - place: ends[number] for place, number in enumerate(numbers) if number in ends}
        return ends

    def children_of(self, parent: int) -> list[Loaded]:
        """The children of a task, in the order of linking, those that were linked just now included."""
        seqs = [seq for (seq,) in self.db.execute(ASK.linked, (parent,)).fetchall()]
        self.load_many(seqs)
        found = [loaded for seq in seqs if (loaded := self.load(seq)) is not None]
        found += [self.adopt(child) for child in self.new_links.get(parent, ())]
        return found

    def rounds_of(self, flow: TaskRecord) -> list[tuple[TaskRecord, str]]:
        """The rounds of a flow that have rows, the oldest first, and their ids."""
        seqs = [seq for (seq,) in self.db.execute(ASK.rounds, (flow._seq,)).fetchall()]
        self.load_many(seqs)
        found = [self.loaded[seq].task for seq in seqs if seq in self.loaded]
        return [(one, round_of(one).id) for one in found if is_round(one)]

    def drop_rounds(self, seqs: Sequence[int]) -> None:
        """Forget these rounds, and their tasks."""
        forgetting.drop_rounds(self.db, seqs)

    def put_in_order(self, queue: ReadyQueue) -> None:
        """Have those that were loaded at several times stand in their order."""
        loaded = self.loaded
        for priority, lane in queue._lanes.items():
            queue._lanes[priority] = deque(
                sorted(lane, key=lambda task: loaded[task._seq].turn or 0 if task._seq in loaded else 0)
            )
        queue._order = tuple(queue._lanes[priority] for priority in sorted(queue._lanes, reverse=True))

    # Out

    flush = writing.flush
    adopt = writing.adopt

    def forget(self, *, undone: bool = False, shown: bool = False) -> None:
        """Drop what was loaded. `undone`: nothing was written, so what the records say is not so. `shown`: they were
        filled for a snapshot with what no row holds.
        """
        machine = self.machine
        for seq, one in self.loaded.items():
            if not undone and not shown and seq in self.own_runs and one.ended is None:
                self.kept[seq] = one
        if undone:
            self.kept.clear()
        self.loaded.clear()
        self.fresh.clear()
        self.rows.calls.clear()
        self.rows.marks.clear()
        machine.registry.live.clear()
        machine.registry.named.clear()
        machine.registry.finished.clear()
        machine.waiting.clear()
        machine.to_stop.clear()
        for queue in self.rows.lanes:
            if queue._lanes:
                queue.claims.clear()
                queue._lanes.clear()
                queue._order = ()
        timeline = machine.timeline
        if not timeline.alarms:
            timeline.heap.clear()
            timeline.flood.clear()
        elif len(timeline) > len(timeline.alarms):
            timeline.rebuild({})
        timeline.live = len(timeline.alarms)
        self.limits_read.clear()
        self.new_links.clear()
        self.ended = []
        self.awaited = self.asks_others = False
        self.lanes = set()
        self.filled = set()
        self.bad = 0
        machine.trash.clear()

    def see_head(self) -> None:
        """Have the machine know whether anything is due before what comes in now: its place, not its record."""
        head = self.head()
        if head is not None:
            heappush(self.machine.timeline.heap, head << SEQ_BITS)

    # Questions about all rows

    def head(self) -> int | None:
        """The earliest place in time of any task."""
        found = self.db.execute(ASK.head).fetchone()
        return None if found is None else found[0]

    def runs_of(self, seq: int, limit: int) -> list[RunRecord]:
        """The newest runs that are kept, the oldest first."""
        task = self.loaded[seq].task
        found = self.db.execute(ASK.newest_runs, (seq, limit)).fetchall()
        return [run_of_row(task, row) for row in reversed(found)]
