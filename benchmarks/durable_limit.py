"""The yardstick: the least that any durable scheduler on SQLite and a thread pool must do.

One connection, one loop: claim up to 100 due tasks in a transaction, hand them to a pool of ten threads, record one
history row for each run, and do so in the transaction that claims the next. No ids, no handles, no states but three, no
leases, no errors, no cancel; it trusts that nobody else runs tasks of the file.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sqlite3
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Thread
from time import perf_counter, process_time

import durable_work
from durable_tools import SYNCHRONOUS, Statements, beside, fresh, ring_times, two_of, wake_figures
from durable_work import WORKERS
from workload import FAR_S, delays_s, rate

CLAIM_MAX = 100
SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    seq INTEGER PRIMARY KEY, work TEXT NOT NULL, args TEXT, due_us INTEGER NOT NULL, state INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS due ON tasks (due_us, seq) WHERE state = 0;
CREATE TABLE IF NOT EXISTS runs (
    task INTEGER NOT NULL, due_us INTEGER NOT NULL, started_us INTEGER NOT NULL, ended_us INTEGER NOT NULL
) STRICT;
"""
ADD = "INSERT INTO tasks (work, args, due_us) VALUES (?, ?, ?)"
CLAIM = """
UPDATE tasks SET state = 1
WHERE seq IN (SELECT seq FROM tasks WHERE state = 0 AND due_us <= ? ORDER BY due_us, seq LIMIT ?)
RETURNING seq, work, args, due_us
"""
NEXT = "SELECT due_us FROM tasks WHERE state = 0 ORDER BY due_us, seq LIMIT 1"
RECORD = "INSERT INTO runs (task, due_us, started_us, ended_us) VALUES (?, ?, ?, ?)"
FINISH = "UPDATE tasks SET state = 2 WHERE seq = ?"
WORKS = {name: getattr(durable_work, name) for name in ("work", "late", "woken")}

Row = tuple[int, str, str | None, int]


def now_us() -> int:
    """The clock that all processes of a boot share (Linux), and on which nobody's fires can come too early."""
    return time.monotonic_ns() // 1_000


def connected(path: str, durability: str) -> sqlite3.Connection:
    """A connection with the tables there."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    connection.executescript(SCHEMA)
    return connection


def add_many(connection: sqlite3.Connection, calls: Iterable[tuple[str, str | None, int]]) -> None:
    """All in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(ADD, calls)
    connection.execute("COMMIT")


class Loop:
    """Claims, hands over, records; sleeps in `select` until the next is due, the pool is empty or somebody rings."""

    def __init__(self, connection: sqlite3.Connection, drainers: bool = False) -> None:
        self._connection = connection
        self._hand_over = self._to_drainers if drainers else self._to_pool
        self._pool = ThreadPoolExecutor(WORKERS)
        self._ready: deque[Row] = deque()
        self._finished: deque[tuple[int, int, int, int]] = deque()
        self._running = 0
        self._stopped = False
        self._address = bell_of(os.getpid())
        self._bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._bell.setblocking(False)
        self._bell.bind(self._address)
        self._thread = Thread(target=self.run)

    def start(self) -> None:
        self._thread.start()

    def ring(self) -> None:
        try:
            self._bell.sendto(b"!", self._address)
        except BlockingIOError:
            pass  # It has been rung often enough.

    def stop(self) -> None:
        """End the loop, and all that it made."""
        self._stopped = True
        self.ring()
        self._thread.join()
        self.close()

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self._bell.close()

    def run(self, count: int = -1) -> None:
        """Until `stop`, or until `count` runs are recorded."""
        recorded = 0
        while recorded != count and not self._stopped:
            finished, rows, next_us = self._turn()
            recorded += finished
            if rows:
                self._hand_over(rows)
            if recorded != count:
                self._sleep(next_us)

    def _turn(self) -> tuple[int, list[Row], int | None]:
        """One transaction: record what has finished, claim what is due, look at what is due next."""
        execute, finished = self._connection.execute, self._finished
        done = [finished.popleft() for _ in range(len(finished))]
        self._running -= len(done)
        execute("BEGIN IMMEDIATE")
        if done:
            self._connection.executemany(RECORD, done)
            self._connection.executemany(FINISH, [(run[0],) for run in done])
        room = CLAIM_MAX - self._running
        rows: list[Row] = execute(CLAIM, (now_us(), room)).fetchall() if room else []
        head = execute(NEXT).fetchone() if len(rows) < room else None
        execute("COMMIT")
        self._running += len(rows)
        return len(done), rows, head and head[0]

    def _to_pool(self, rows: list[Row]) -> None:
        """A submit for each."""
        submit, run = self._pool.submit, self._run
        for row in rows:
            submit(run, *row)

    def _to_drainers(self, rows: list[Row]) -> None:
        """A submit for each thread, and each takes rows until there are none."""
        self._ready.extend(rows)
        for _ in range(min(WORKERS, len(rows))):
            self._pool.submit(self._drain)

    def _drain(self) -> None:
        ready = self._ready
        while True:
            try:
                row = ready.popleft()
            except IndexError:
                break
            self._run(*row)

    def _run(self, seq: int, work: str, args: str | None, due_us: int) -> None:
        started_us, finished = now_us(), self._finished
        if args is None:
            WORKS[work]()
        else:
            WORKS[work](*json.loads(args))
        finished.append((seq, due_us, started_us, now_us()))
        if len(finished) == self._running:
            self.ring()

    def _sleep(self, next_us: int | None) -> None:
        delay_s = None if next_us is None else max(0.0, (next_us - now_us()) / 1e6)
        if select.select([self._bell], [], [], delay_s)[0]:
            try:
                while True:
                    self._bell.recv(16)
            except BlockingIOError:
                pass


def bell_of(pid: int) -> str:
    """An abstract address (Linux): no file to clean up, no limit of its path."""
    return f"\0durable-limit-{pid}"


def ring(pid: int) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.sendto(b"!", bell_of(pid))


# --- schedule -------------------------------------------------------------------------------------------------------


def schedule(folder: str, count: int, durability: str) -> dict[str, float]:
    """One INSERT a transaction."""
    delays = delays_s(count)
    with fresh(folder) as path, closing(connected(path, durability)) as connection:
        execute, clock = connection.execute, time.monotonic_ns
        begun = perf_counter()
        for delay in delays:
            execute("BEGIN IMMEDIATE")
            execute(ADD, ("work", None, clock() // 1_000 + int(delay * 1e6)))
            execute("COMMIT")
        took = perf_counter() - begun
        _check_tasks(connection, 0, count)
    return rate(count, took)


def schedule_many(folder: str, count: int, durability: str) -> dict[str, float]:
    """One `executemany`, its rows made as it reads."""
    delays = delays_s(count)
    with fresh(folder) as path, closing(connected(path, durability)) as connection:
        begun = perf_counter()
        now = now_us()
        add_many(connection, (("work", None, now + int(delay * 1e6)) for delay in delays))
        took = perf_counter() - begun
        _check_tasks(connection, 0, count)
    return rate(count, took)


def _check_tasks(connection: sqlite3.Connection, state: int, expected: int) -> None:
    (count,) = connection.execute("SELECT count(*) FROM tasks WHERE state = ?", (state,)).fetchone()
    if count != expected:
        raise AssertionError(f"{expected:,} tasks in state {state} expected, {count:,} are in the file")


# --- run ------------------------------------------------------------------------------------------------------------


def drain(folder: str, count: int, durability: str, drainers: bool = False) -> dict[str, float]:
    """All due: from the first claim until the last run is recorded."""
    durable_work.expect(count)
    with fresh(folder) as path, closing(connected(path, durability)) as connection:
        add_many(connection, [("work", None, now_us())] * count)
        loop = Loop(connection, drainers)
        begun, cpu = perf_counter(), process_time()
        loop.run(count)
        took, cpu = perf_counter() - begun, process_time() - cpu
        loop.close()
        durable_work.check_runs()
        _check_tasks(connection, 2, count)
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (count,)
    return {**rate(count, took), "cpu_us_per_task": cpu * 1e6 / count}


def fill(path: str, pending: int, due: int) -> dict[str, float]:
    """`pending` tasks that are far off, and then `due` ones, by a process that only schedules."""
    with closing(connected(path, "process")) as connection:
        now = now_us()
        add_many(connection, (("work", None, now + int((FAR_S + number) * 1e6)) for number in range(pending)))
        add_many(connection, [("work", None, now)] * due)
    return {}


def lateness(folder: str, count: int, span_s: float, pending: int = 0) -> dict[str, float]:
    fires = durable_work.plan_fires(count, span_s)
    with fresh(folder) as path:
        beside("durable_limit.fill", path=path, pending=pending, due=0)
        with closing(connected(path, "process")) as connection:
            loop = Loop(connection)
            cpu = process_time()
            for index in range(count):
                due_us = int(fires.plan(index) * 1e6) + 1
                add_many(connection, [("late", json.dumps([index]), due_us)])
            loop.run(count)
            cpu = process_time() - cpu
            loop.close()
    durable_work.check_runs()
    return {**fires.figures(), "cpu_us_per_task": cpu * 1e6 / count}


def wake(folder: str, count: int) -> dict[str, float]:
    """Another process inserts, commits and rings; each when this one has been idle for a while."""
    durable_work.expect(count)
    with fresh(folder) as path, closing(connected(path, "process")) as connection:
        loop = Loop(connection)
        loop.start()
        beside("durable_limit.ring_often", path=path, count=count, listener=os.getpid())
        durable_work.await_runs(10)
        loop.stop()
    durable_work.check_runs()
    return wake_figures()


def ring_often(path: str, count: int, listener: int) -> dict[str, float]:
    with closing(connected(path, "process")) as connection:
        for sent_ns in ring_times(count):
            add_many(connection, [("woken", json.dumps([sent_ns]), now_us())])
            ring(listener)
    return {}


def first_run(folder: str, pending: int, starts: int) -> dict[str, float]:
    """From before the file is opened to the first run, the quickest of several starts."""
    took = []
    with fresh(folder) as path:
        beside("durable_limit.fill", path=path, pending=pending, due=0)
        for _ in range(starts):
            with closing(connected(path, "process")) as connection:
                add_many(connection, [("work", None, now_us())])
            durable_work.expect(1)
            begun = perf_counter()
            connection = connected(path, "process")
            loop = Loop(connection)
            loop.start()
            durable_work.await_runs(10)
            took.append((perf_counter() - begun) * 1_000)
            loop.stop()
            connection.close()
            durable_work.check_runs()
    return {"ms": min(took)}


def idle(folder: str, pending: int, span_s: float) -> dict[str, float]:
    with fresh(folder) as path:
        beside("durable_limit.fill", path=path, pending=pending, due=0)
        return two_of("durable_limit.idle_body", path=path, span_s=span_s)


def idle_body(path: str, span_s: float) -> dict[str, float]:
    statements = Statements()
    with closing(connected(path, "process")) as connection:
        loop = Loop(connection)
        loop.start()
        figures = statements.watch(span_s)
        loop.stop()
    return figures
