"""What the durable contenders share: files that go afterwards, neighbours in other processes, counts of what idles."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from durable_work import waits_ms
from harness import Measure, begin, end, in_process

SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}
"""What must not lose a commit: the death of the process, or of the machine -> SQLite's word for it."""
RING_EVERY_S = 0.05
SETTLE_S = 2.0
"""Of two processes that begin together one opens its file, and closes it, at most so much later."""


@contextmanager
def fresh(folder: str) -> Iterator[str]:
    """The path of a file that is not there yet, in a folder of its own, which goes afterwards."""
    with TemporaryDirectory(dir=folder) as own:
        yield str(Path(own) / "tasks.db")


def beside(function: str, **params: Any) -> dict[str, float]:
    """What `module.function` gives in another process, and its end is waited for."""
    return in_process(Measure(function, params))


def two_of(function: str, **params: Any) -> dict[str, float]:
    """The function in two processes at a time; the sums of what they give."""
    bodies = [begin(Measure(function, params)) for _ in range(2)]
    first, second = [end(body) for body in bodies]
    return {kind: first[kind] + second[kind] for kind in first}


def ring_times(count: int) -> Iterator[int]:
    """`count` readings of the clock for `woken`, each made when the listener has been idle for a while."""
    for _ in range(count):
        time.sleep(RING_EVERY_S)
        yield time.monotonic_ns()


def wake_figures() -> dict[str, float]:
    """Of all runs of `woken`."""
    waits = sorted(waits_ms())
    return {"p50_ms": median(waits), "p99_ms": waits[len(waits) * 99 // 100]}


class Statements:
    """Counts the statements of every connection that `sqlite3.connect` opens from now on in this process."""

    def __init__(self) -> None:
        self.count = 0
        connect = sqlite3.connect

        def counted(*args: Any, **kwargs: Any) -> Any:
            connection = connect(*args, **kwargs)
            connection.set_trace_callback(self._add)
            return connection

        # Callers say `sqlite3.connect` or, as SQLAlchemy does, `sqlite3.dbapi2.connect`.
        for module in (sqlite3, sqlite3.dbapi2):
            module.connect = counted  # type: ignore[attr-defined,assignment,unused-ignore]

    def _add(self, _statement: str) -> None:
        self.count += 1

    def watch(self, span_s: float) -> dict[str, float]:
        """Sleep; the statements, and the voluntary switches of all threads but this one, that came meanwhile.

        It waits before and after, so that no neighbour's beginning or end falls into the span.
        """
        time.sleep(SETTLE_S)
        if not self.count:
            raise AssertionError("no statement was counted at the opening, so none would be now: how was it opened?")
        statements, switches = self.count, _switches()
        time.sleep(span_s)
        figures = {"statements": float(self.count - statements), "switches": float(_switches() - switches)}
        time.sleep(SETTLE_S)
        return figures


def _switches() -> int:
    own, total = str(threading.get_native_id()), 0
    for thread in Path("/proc/self/task").iterdir():
        if thread.name != own:
            lines = (thread / "status").read_text(encoding="ascii").splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return total


def file_system(folder: Path) -> str:
    """The kind of the file system that the folder is on: ext4, tmpfs (Linux); "unknown" elsewhere."""
    best, kind, place = "", "unknown", str(folder.resolve())
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return kind
    for line in mounts:
        left, _, right = line.partition(" - ")
        point = left.split()[4]
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind
