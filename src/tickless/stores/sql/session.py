"""The unit of work: rows that are loaded into the machine by need, and written back where they changed.

The machine is that of the memory store. What it does to records it does here, too, between BEGIN and COMMIT; then the
records are dropped. So no policy is written twice. Only what this process runs stays loaded, and is read again once
another process has committed anything.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappush
from itertools import compress
from operator import ne
from typing import Any
from weakref import WeakValueDictionary

from tickless.core.machine import AWAKE, Machine
from tickless.core.permits import LimitState
from tickless.core.ready import PoolState, ReadyQueue
from tickless.core.record import QUEUED, SEQ_BITS, RunRecord, TaskRecord
from tickless.core.registry import Registry
from tickless.core.special import is_unlisted, special_in
from tickless.errors import PayloadError
from tickless.policies import Limit
from tickless.stores.sql import shared
from tickless.stores.sql.calls import StoredCall, pack_handler
from tickless.stores.sql.rows import (
    AT,
    AWAITED,
    COLUMNS,
    HAS_CHILDREN,
    WAITS,
    Loaded,
    Row,
    Rows,
    run_of_row,
    run_row,
)
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import load as load_statements
from tickless.stores.sql.writing import inserts, updates

ASK = load_statements("queries.sql")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM tasks "
PLACES = range(len(COLUMNS))
POOL, POLICY, ENDED, LANE, KIN = AT["pool"], AT["policy"], AT["ended"], AT["lane"], AT["kin"]
OWNER, TOKEN = AT["owner"], AT["token"]
FEW = 64
"""How many runs that wait for a limit are loaded beyond those that may let one go."""


class LoadedTasks(Registry):
    """The registry of what is loaded: it lists nothing, so it forgets nothing and makes no twins."""

    __slots__ = ()

    def trim(self) -> None:
        """The rows are pruned elsewhere."""

    def twin(self, task: TaskRecord) -> TaskRecord:
        return task


class Kin:
    """The children of a task that is loaded: read when somebody asks for them, which is when it ends."""

    __slots__ = ("_items", "_parent", "_session")

    def __init__(self, session: Session, parent: TaskRecord) -> None:
        self._session = session
        self._parent = parent
        self._items: list[Any] | None = None

    def _all(self) -> list[Any]:
        if self._items is None:
            self._items = [loaded.task for loaded in self._session.children_of(self._parent._seq)]
        return self._items

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Those that are here: `core.graph` asks before it looks whether any may go."""
        return 0 if self._items is None else len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __setitem__(self, place: Any, value: Any) -> None:
        self._all()[place] = value

    def append(self, child: Any) -> None:
        if self._items is not None:
            self._items.append(child)
        self._session.new_links.setdefault(self._parent._seq, []).append(child)

    def remove(self, child: Any) -> None:
        if self._items is not None:
            self._items.remove(child)
        self._session.new_links[self._parent._seq].remove(child)


class Session:
    """One per store. Everything here is called under the store's lock, and all but `__init__` inside a transaction."""

    def __init__(self, db: Database, rows: Rows, machine: Machine, limits: Sequence[Limit]) -> None:
        self.db = db
        self.rows = rows
        self.machine = machine
        machine.registry = LoadedTasks(1 << 60)
        machine.wake_at = AWAKE  # the store itself tells when to wake: it knows all rows
        self.alive: WeakValueDictionary[int, TaskRecord] = WeakValueDictionary()
        """One record a task, for as long as anybody holds it."""
        self.loaded: dict[int, Loaded] = {}
        self.kept: dict[int, Loaded] = {}
        """Of what runs here: as it was when this process last committed. Good while nobody else has."""
        self.own_runs: dict[int, RunRecord] = {}
        """The runs that go on here, by their task."""
        self.is_own: Callable[[int, int | None, int], bool]
        """Whether a row with that number, owner and token is of a run of this process."""
        self.zombies: dict[int, RunRecord] = {}
        self.new_links: dict[int, list[TaskRecord]] = {}
        """Parent -> children that are linked to it since the last write."""
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

    def take_in(self, row: Row) -> Loaded | None:
        """Have the machine know the record of this row. None for one that cannot be used: that is written to it."""
        seq = row[0]
        there = self.loaded.get(seq)
        if there is not None:
            return there
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
            self.set_aside(seq, str(problem))
            return None
        if is_new:
            self.alive[seq] = task
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
                special.crew = [one.task for one in self.select("WHERE chief = ? ORDER BY seq", (seq,))]
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

    def children_of(self, parent: int) -> list[Loaded]:
        """The children of a task, in the order of linking, those that were linked just now included."""
        seqs = [seq for (seq,) in self.db.execute(ASK.linked, (parent,)).fetchall()]
        self.load_many(seqs)
        found = [loaded for seq in seqs if (loaded := self.load(seq)) is not None]
        for child in self.new_links.get(parent, ()):
            if child._seq not in self.loaded:
                self._is_new(child)
            found.append(self.loaded[child._seq])
        return found

    def put_in_order(self, queue: ReadyQueue) -> None:
        """Have those that were loaded at several times stand in their order."""
        loaded = self.loaded
        for priority, lane in queue._lanes.items():
            queue._lanes[priority] = deque(
                sorted(lane, key=lambda task: loaded[task._seq].turn or 0 if task._seq in loaded else 0)
            )
        queue._order = tuple(queue._lanes[priority] for priority in sorted(queue._lanes, reverse=True))

    # Out

    def flush(self) -> None:
        """Write what has changed."""
        machine = self.machine
        live, waiting, loaded, named = machine.registry.live, machine.waiting, self.loaded, machine.registry.named
        for task in (*live.values(), *machine.registry.finished):
            if task._seq not in loaded:
                self._is_new(task)
        self._give_turns()
        gone: list[tuple[int]] = []
        fresh: list[Row] = []
        changed: dict[tuple[int, ...], list[Row]] = {}
        for seq, one in loaded.items():
            task = one.task
            if one.ended is None and seq not in live:
                self.ended.append(task)
                self.awaited = self.awaited or bool(one.kin & AWAITED)
                if one.row is not None:
                    self.shared.live -= 1
                if is_unlisted(task):
                    gone.append((seq,))
                    one.ended = -1
                    continue
                one.ended = self.shared.next_turn()
                self.written += 1
            elif one.ended == -1:
                continue
            children = task._children
            if children is not None and one.ended is None and type(children) is list:
                self.new_links.setdefault(seq, []).extend(children)
                task._children = Kin(self, task)  # type: ignore[assignment]
                one.kin |= HAS_CHILDREN
            if task._more is not None and task._more.history:
                self._write_runs(task, task._more.history)
            is_named = task._id is None or named.get(task._id) is task
            row, old = self.rows.encode(one, waits=task in waiting, named=is_named), one.row
            one.kin = row[KIN]
            if old is None:
                if one.ended is None:
                    self.shared.live += 1
                fresh.append(row)
                self._write_tags(seq, (), () if one.ended is not None else _tags(task))
            elif row != old:
                places = tuple(compress(PLACES, map(ne, row, old)))
                changed.setdefault(places, []).append(row)
                if (row[POLICY] or old[POLICY]) and (row[POLICY] != old[POLICY] or row[ENDED] != old[ENDED]):
                    self._write_tags(seq, None, () if one.ended is not None else _tags(task))
                if old[LANE] is not None and row[LANE] != old[LANE]:
                    self.lanes.add(old[LANE])
            else:
                continue
            if row[LANE] is not None and (old is None or row[LANE] != old[LANE]):
                self.lanes.add(row[LANE])
                self.filled.add(row[LANE])
            one.row = row
        self._write(gone, fresh, changed)
        self.shared.write()

    def adopt(self, task: TaskRecord) -> Loaded:
        """What is known of a task of the machine, which may have come in this transaction."""
        if task._seq not in self.loaded:
            self._is_new(task)
        return self.loaded[task._seq]

    def _is_new(self, task: TaskRecord) -> None:
        one = self.loaded[task._seq] = Loaded(task)
        if task._args or (
            task._work is not None and type(task._work) is not StoredCall
        ):  # a handler, whose argument is the run that failed
            pack_handler(self.rows.works, task)
        special = special_in(task)
        if special is not None and special.chief is not None:
            one.chief = special.chief._seq
        self.alive[task._seq] = task

    def _give_turns(self) -> None:
        """Each that has become ready gets its place in its queue, behind all others; or before, if it took a turn."""
        loaded = self.loaded
        for queue in self.rows.lanes:
            if not queue.claims:
                continue
            for lane in queue._lanes.values():
                before = True
                for task in lane:
                    one = loaded.get(task._seq)
                    if one is None:  # it came and went within this transaction
                        continue
                    if one.turn is not None and one.row is not None and one.row[LANE] == self.rows.lanes[queue]:
                        before = False
                    elif task in queue.claims:
                        special = special_in(task)
                        first = before and special is not None and special.takes_turn
                        one.turn = -self.shared.next_turn() if first else self.shared.next_turn()

    def _write(self, gone: list[tuple[int]], fresh: list[Row], changed: dict[tuple[int, ...], list[Row]]) -> None:
        db = self.db
        if gone:
            db.executemany(ASK.drop_task, gone)
        for sql, rows in updates(changed):
            db.executemany(sql, rows)
        for sql, rows in inserts(fresh):  # after the others, who may have given up their ids
            db.executemany(sql, rows)
        if self.new_links:
            links, self.new_links = self.new_links, {}
            db.executemany(ASK.link, [(parent, child._seq) for parent, kin in links.items() for child in kin])

    def _write_runs(self, task: TaskRecord, history: deque[RunRecord]) -> None:
        self.db.executemany(ASK.add_run, [run_row(task._seq, run) for run in history])
        self.grown.add(task._seq)
        self.written += len(history)
        history.clear()

    def _write_tags(self, seq: int, old: Sequence[str] | None, new: Sequence[str]) -> None:
        if old is None:
            self.db.execute(ASK.drop_tags, (seq,))
        if new:
            self.db.executemany(ASK.add_tag, [(tag, seq) for tag in new])

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
        if len(timeline) > len(timeline.alarms):
            timeline.rebuild({})
        timeline.live = len(timeline.alarms)
        self.limits_read.clear()
        self.new_links.clear()
        self.ended = []
        self.awaited = False
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


def _tags(task: TaskRecord) -> tuple[str, ...]:
    special = special_in(task)
    return () if special is None or special.unlisted else special.policy.tags
