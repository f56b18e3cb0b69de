"""What a cluster in one process is made of: connections that can fail, bells that ring when told, and processes.

A process here is a `SqlStore` with a connection of its own to the one file, and the runs that its workers have. It has
no thread: who rings it is heard at its next step, as a thread that sleeps would hear it a moment later.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tickless.core.record import RunRecord
from tickless.core.special import attempt_of, policy_of
from tickless.errors import StoreDown
from tickless.instants import SECOND_US
from tickless.policies import Limit
from tickless.states import DEFAULT_POOL
from tickless.stores.registered import Works
from tickless.stores.sql import failpoints
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.store import SqlStore
from tickless.testing.drafts import Bell
from tickless.testing.keepsakes import Keepsakes

LEASE_US = 10 * SECOND_US
POOLS = {DEFAULT_POOL: 3, "cpu": 1}
LIMITS = (Limit("db", running=1), Limit("api", starts=2, per=5))
TABLES = ("tasks", "links", "tags", "runs", "pauses", "alarms", "limits", "owners", "sqlite_sequence")


class Killed(BaseException):
    """The process dies here: nothing of its own runs any more."""


class Wire(Database):
    """A connection whose n-th statement from now on fails, or is the process's last."""

    countdown = 0
    fails_commit = False
    error: Callable[[], BaseException]
    is_kept = True
    """Whether it is used again: to open a file costs more than a whole program."""

    def arm(self, statements: int, error: Callable[[], BaseException]) -> None:
        self.countdown, self.error = statements, error

    def arm_commit(self) -> None:
        """The next commit fails."""
        self.fails_commit = True

    def _reach(self) -> None:
        if self.countdown:
            self.countdown -= 1
            if not self.countdown:
                raise self.error()

    def execute(self, sql: str, args: Sequence[Any] = ()) -> sqlite3.Cursor:
        if sql != "ROLLBACK":
            self._reach()
        return super().execute(sql, args)

    def executemany(self, sql: str, many: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        self._reach()
        return super().executemany(sql, many)

    def begin(self) -> None:
        self._reach()
        super().begin()

    def commit(self) -> None:
        try:
            self._reach()
            if self.fails_commit:
                self.fails_commit = False
                raise down()
        except BaseException:
            self.rollback()
            raise
        super().commit()

    def close(self) -> None:
        if not self.is_kept:
            super().close()


class Bells:
    """Who listens. Stands for the sockets beside the file: `doorbell.Doorbell` has tests of its own."""

    def __init__(self) -> None:
        self.lines: dict[int, Line] = {}


class Line:
    """One process's bell, and its ways to the others': what `Doorbell` is. A ring is kept until it is heard."""

    def __init__(self, bells: Bells) -> None:
        self._bells = bells
        self._connected: set[int] = set()
        self._number: int | None = None
        self.heard: Callable[[], None] | None = None
        self.rung = False

    def listen(self, number: int, ring: Callable[[], None]) -> None:
        self._number, self.heard = number, ring
        self._bells.lines[number] = self

    def connect(self, number: int) -> bool:
        if number not in self._bells.lines:
            return False
        self._connected.add(number)
        return True

    def ring(self, numbers: Iterable[int]) -> list[int]:
        wanted = list(numbers)
        for number in wanted:
            if self.connect(number):
                self._bells.lines[number].rung = True
        return [number for number in wanted if number not in self._bells.lines]

    def disconnect(self, number: int) -> None:
        if number in self._connected:
            self._connected.discard(number)
            if number in self._bells.lines:
                self._bells.lines[number].rung = True

    def remove(self, number: int) -> None:
        """Of one that is dead: there is no socket here to be removed."""
        self.disconnect(number)

    def close(self) -> None:
        for number in list(self._connected):
            self.disconnect(number)
        if self._number is not None:
            self._bells.lines.pop(self._number, None)
            for line in self._bells.lines.values():
                if self._number in line._connected:  # whoever has connected to it sees that end, too
                    line._connected.discard(self._number)
                    line.rung = True


@dataclass(slots=True)
class Start:
    """A body was called. `ended`: how its code returned; None: it goes on, or died with its process."""

    process: int
    seq: int
    id: str
    due: int | None
    attempt: int
    at: int
    at_most_once: bool
    run: RunRecord
    ended: str | None = None

    def __str__(self) -> str:
        once = " at most once" if self.at_most_once else ""
        return f"{self.id}@{self.due} attempt {self.attempt} at {self.at} in process {self.process}{once}: {self.ended}"


class Process:
    """One of the cluster, from its start to its death."""

    def __init__(self, wire: Wire, bells: Bells, works: Keepsakes, most_group: int) -> None:
        self.wire = wire
        wire.countdown = 0
        self.store = SqlStore(
            wire,
            works=cast("Works", works),
            pools=POOLS,
            limits=LIMITS,
            most_group=most_group,
            lease_us=LEASE_US,
            keep_runs=1000,
        )
        company = self.store.transactions.company
        company._bell.close()
        self.line = Line(bells)
        company._bell = self.line  # type: ignore[assignment]  # it has the same verbs
        self.store.open()
        assert company.number is not None
        self.number: int = company.number
        self.starts: list[Start] = []
        """The runs whose code goes on here."""
        self.waiters: dict[int, Bell] = {}
        self.frozen = self.closing = self.gone = False
        self.wants_turn = True
        """Whether its dispatcher was rung, or begins, and has not turned since."""
        self.store.transactions.ring = self._ring

    def _ring(self) -> None:
        self.wants_turn = True

    def hear(self) -> None:
        """What the doorbell's thread does, had it slept until now."""
        if self.line.rung and self.line.heard is not None:
            self.line.rung = False
            self.line.heard()

    def looks_for_the_dead(self) -> bool:
        """Whether its next `due` does."""
        claims, transactions = self.store.claims, self.store.transactions
        is_due = getattr(claims, "recovers", False) or getattr(getattr(claims, "rescue", None), "is_due", False)
        return is_due or (transactions.rung and bool(transactions.company.others))

    def going(self) -> list[RunRecord]:
        """The runs whose code goes on, or has returned and nobody has written that, or whose turn has not come."""
        claims = self.store.claims
        said = [one[0] for one in claims.finished]
        return [*(start.run for start in self.starts), *said, *(run for pool in POOLS for run in claims.local(pool))]

    def has_room(self, pool: str) -> bool:
        return sum(policy_of(start.run.task).pool == pool for start in self.starts) < POOLS[pool]

    def begin(self, run: RunRecord, now: int) -> Start:
        task = run.task
        start = Start(self.number, task._seq, task.id, run.due, attempt_of(run), now, policy_of(task).at_most_once, run)
        self.starts.append(start)
        return start

    def is_lost(self, start: Start, row: dict[str, Any] | None) -> bool:
        """Whether the file says that another has the run, or nobody: told by the row alone, and by the token it had."""
        token = self.store.claims._tokens.get(start.seq)
        mine = row is not None and (row["owner"], row["token"]) == (self.number, token)
        return not mine or self.store.session.own_runs.get(start.seq) is not start.run

    def die(self) -> None:
        """Its lock and its connections go, as the kernel has it. Its store is never used again."""
        failpoints.armed = None
        self.wire.countdown = 0
        self.wire.rollback()
        self.store.transactions.company.close()
        self.gone = True
        self.starts.clear()
        self.waiters.clear()


class Fleet:
    """One file, and what looks at it. For many programs one after another: each begins with empty tables."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tasks.db"
        self._free: list[Wire] = []
        self._made: list[Wire] = []
        self._give_back(self._connect())
        self.eye = sqlite3.connect(self._path, isolation_level=None)
        self.eye.row_factory = sqlite3.Row

    def _connect(self) -> Wire:
        wire = Wire(self._path)
        wire.execute("PRAGMA synchronous = OFF")  # no power is cut here
        self._made.append(wire)
        return wire

    def wire(self) -> Wire:
        return self._free.pop() if self._free else self._connect()

    def _give_back(self, wire: Wire) -> None:
        wire.countdown = 0
        self._free.append(wire)

    def empty(self) -> None:
        """Nothing was ever here."""
        self.eye.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            self.eye.execute(f"DELETE FROM {table}")
        self.eye.execute("UPDATE facts SET seq = 0, turn = 0, live = 0, offset = 0, boot = NULL, base = NULL")
        self.eye.execute("COMMIT")
        self._free = sorted(self._made, key=self._made.index, reverse=True)

    def close(self) -> None:
        self.eye.close()
        for wire in self._made:
            wire.is_kept = False
            wire.close()


class Down(StoreDown):
    """The failure that the program asked for."""


def down() -> Down:
    return Down("the disk was full, for one statement")
