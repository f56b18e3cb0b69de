"""The bare limit: the least that any Python scheduler on a heap and a thread pool must do.

`heappop` and `ThreadPoolExecutor.submit`; no records, no states, no results, no cancel, no errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from heapq import heappop, heappush, heapreplace
from itertools import count as counting
from statistics import median
from threading import Condition, Lock, Thread
from time import monotonic, perf_counter
from typing import Any

from workload import WORKERS, CountedNoop, Punctuality, Tally, delays_s, noop, rate, watch_recurring, weighed

Entry = tuple[float, int, Callable[..., Any]]


def dispatch(count: int) -> dict[str, float]:
    """All due at once: pop and submit until the heap is empty, then until all have run."""
    tally, heap = CountedNoop(), list[Entry]()
    due = monotonic() + 0.001
    for number in range(count):
        heappush(heap, (due, number, tally.work))
    pool = ThreadPoolExecutor(WORKERS)
    begun = perf_counter()
    while heap:
        pool.submit(heappop(heap)[2])
    pool.shutdown(wait=True)
    took = perf_counter() - begun
    tally.check(count)
    return rate(count, took)


def now(count: int) -> dict[str, float]:
    """A loop of submit, until all have run."""
    tally, pool = CountedNoop(), ThreadPoolExecutor(WORKERS)
    begun = perf_counter()
    for _ in range(count):
        pool.submit(tally.work)
    pool.shutdown(wait=True)
    took = perf_counter() - begun
    tally.check(count)
    return rate(count, took)


def insert(count: int, builds: int = 1) -> dict[str, float]:
    """The least thread-safe insert: under a lock, read the clock, number the entry, push."""
    delays, took = delays_s(count), []
    for _ in range(builds):
        heap, lock, counter, clock = list[Entry](), Lock(), counting(), monotonic
        begun = perf_counter()
        for delay in delays:
            with lock:
                heappush(heap, (clock() + delay, next(counter), noop))
        took.append(perf_counter() - begun)
        assert len(heap) == count
    return rate(count, median(took))


def insert_unlocked(count: int, builds: int = 1) -> dict[str, float]:
    """The same without the lock: one thread only."""
    delays, took = delays_s(count), []
    for _ in range(builds):
        heap, counter, clock = list[Entry](), counting(), monotonic
        begun = perf_counter()
        for delay in delays:
            heappush(heap, (clock() + delay, next(counter), noop))
        took.append(perf_counter() - begun)
        assert len(heap) == count
    return rate(count, median(took))


def memory(count: int, exact: bool) -> dict[str, float]:
    """An entry of the heap: a tuple of a float, an int and the work, and its place in the list."""
    heap, figures = list[Entry](), dict[str, float]()
    with weighed(figures, count, exact):
        for number in range(count):
            heappush(heap, (monotonic() + 3_600 + number, number, noop))
    assert len(heap) == count
    return figures


class HeapThread:
    """One thread that sleeps on a condition until the head of its heap is due, and submits it; again every interval."""

    def __init__(self, pool: ThreadPoolExecutor, interval_s: float | None = None) -> None:
        self._pool = pool
        self._interval_s = interval_s
        self._heap: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._numbers = counting()
        self._changed = Condition()
        self._stopped = False
        self._thread = Thread(target=self._loop)

    def add(self, due: float, work: Callable[..., Any], *args: Any) -> None:
        with self._changed:
            heappush(self._heap, (due, next(self._numbers), work, args))
            if self._heap[0][0] == due:
                self._changed.notify()

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Wait until the heap is empty and all has run."""
        self._thread.join()
        self._pool.shutdown(wait=True)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self.finish()

    def _loop(self) -> None:
        heap, changed, interval_s, submit = self._heap, self._changed, self._interval_s, self._pool.submit
        with changed:
            while heap and not self._stopped:
                due, number, work, args = heap[0]
                if (delay := due - monotonic()) > 0:
                    changed.wait(delay)
                    continue
                if interval_s is None:
                    heappop(heap)
                else:
                    heapreplace(heap, (due + interval_s, number, work, args))
                submit(work, *args)


def lateness(count: int, span_s: float) -> dict[str, float]:
    fires, loop = Punctuality(count, span_s), HeapThread(ThreadPoolExecutor(WORKERS))
    for index in range(count):
        loop.add(fires.plan(index), fires.work, index)
    loop.start()
    loop.finish()
    return fires.figures()


def recurring(tasks: int, interval_s: float, span_s: float, staggered: bool = False) -> dict[str, float]:
    tally, loop = Tally(), HeapThread(ThreadPoolExecutor(WORKERS), interval_s)
    begun = time.monotonic()
    for number in range(tasks):
        phase_s = interval_s * number / tasks if staggered else 0.0
        loop.add(begun + interval_s + phase_s, tally.work)
    loop.start()
    figures = watch_recurring(tally, begun, tasks, interval_s, span_s)
    loop.stop()
    return figures
