"""What all contenders are given: the same works, delays and graphs, and the checks that each of them really ran."""

from __future__ import annotations

import gc
import os
import random
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count as counting
from threading import Event

WORKERS = 4
"""Threads in every pool."""
SEED = 20_260_101
FAR_S = 3_600.0
"""Nothing that is only inserted, cancelled or weighed becomes due while it is measured."""


def noop() -> None:
    """For what is never run."""


class CountedNoop:
    """A no-op that returns None, as most tasks do, and is counted in C: a deque of 10,007 turns by one at each call.

    So the count is exact but for multiples of 10,007. Turning is one atomic step of the interpreter.
    """

    _AROUND = 10_007

    def __init__(self) -> None:
        self._wheel = deque(range(self._AROUND))
        self.work: Callable[[], None] = self._wheel.rotate

    def check(self, expected: int) -> None:
        """A wrong result is worse than a slow one. Call it when nothing can run any more."""
        calls = -self._wheel[0] % self._AROUND
        if calls != expected % self._AROUND:
            raise AssertionError(f"{expected:,} runs expected, that is {expected % self._AROUND:,}, {calls:,} counted")


class Tally:
    """A no-op that returns None and is counted in C, one byte a call, and can be asked how often while it goes on."""

    def __init__(self) -> None:
        self._calls = bytearray()
        self.work: Callable[[], None] = partial(self._calls.append, 0)

    def read(self) -> int:
        return len(self._calls)


class LastCall:
    """A counting work that says when its last call was made, for contenders that cannot be waited for."""

    def __init__(self, expected: int) -> None:
        self.done = Event()
        self._next = counting(1).__next__
        self._expected = expected

    def work(self) -> None:
        if self._next() == self._expected:
            self.done.set()

    def wait(self) -> None:
        if not self.done.wait(600):
            raise AssertionError(f"fewer than {self._expected:,} runs within ten minutes")


def delays_s(count: int) -> list[float]:
    """Far and random, the same on every run: an insert meets every depth of the heap."""
    draw = random.Random(SEED).random
    return [FAR_S + FAR_S * draw() for _ in range(count)]


def rate(count: int, took_s: float) -> dict[str, float]:
    return {"per_s": count / took_s}


# --- lateness -------------------------------------------------------------------------------------------------------


class Punctuality:
    """Fires spread at random over `span_s`, and how late each of them started."""

    def __init__(self, count: int, span_s: float) -> None:
        draw = random.Random(SEED).random
        self.delays_s = [0.5 + span_s * draw() for _ in range(count)]
        self.due_s = [0.0] * count
        self._started_s = [0.0] * count

    def plan(self, index: int) -> float:
        """The instant of `time.monotonic()` at which this fire is due. Ask just before scheduling it."""
        self.due_s[index] = due = time.monotonic() + self.delays_s[index]
        return due

    def work(self, index: int) -> None:
        self._started_s[index] = time.monotonic()

    def figures(self) -> dict[str, float]:
        """p50 and p99 of started - due in microseconds; refuses fires that are missing or early."""
        late_us = sorted((start - due) * 1e6 for start, due in zip(self._started_s, self.due_s, strict=True))
        if late_us[0] < -1:
            raise AssertionError(f"a fire is missing, or started {-late_us[0]:.0f} us before it was due")
        return {"p50_us": late_us[len(late_us) // 2], "p99_us": late_us[len(late_us) * 99 // 100]}


# --- recurring ------------------------------------------------------------------------------------------------------


def watch_recurring(tally: Tally, begun_s: float, tasks: int, interval_s: float, span_s: float) -> dict[str, float]:
    """Fires and CPU time in a window that opens and shuts shortly before a fire of those begun at `begun_s`.

    Shortly: a tenth of the interval, so that the fires before have the time they need. The share is of the fires that
    are due in the window.
    """
    opens_s = begun_s + 10.9 * interval_s
    _sleep_until(opens_s)
    fires, cpu_s = tally.read(), time.process_time()
    _sleep_until(opens_s + span_s)
    fires, cpu_s = tally.read() - fires, time.process_time() - cpu_s
    return {"share": fires * interval_s / (tasks * span_s), "cpu_s": cpu_s, "cpu_us_per_fire": cpu_s * 1e6 / fires}


def _sleep_until(instant_s: float) -> None:
    time.sleep(max(0.0, instant_s - time.monotonic()))


# --- graphs ---------------------------------------------------------------------------------------------------------

Graph = list[Sequence[int]]
"""For each node the numbers of its parents, all of them smaller."""


def graph(shape: str, nodes: int) -> Graph:
    """`chain`: each after the one before. `fan`: one, all the others after it, the last after those.
    `random`: up to three parents each, from anywhere before."""
    if shape == "chain":
        return [()] + [(node - 1,) for node in range(1, nodes)]
    if shape == "fan":
        return [(), *([(0,)] * (nodes - 2)), range(1, nodes - 1)]
    if shape == "random":
        draw = random.Random(SEED)
        return [draw.sample(range(node), min(node, draw.randint(0, 3))) for node in range(nodes)]
    raise ValueError(f"shape {shape!r}: one of chain, fan, random")


def check_order(parents: Graph, ran: list[int]) -> None:
    """Each node ran once, after all its parents."""
    place = {node: index for index, node in enumerate(ran)}
    if len(ran) != len(parents) or len(place) != len(parents):
        raise AssertionError(f"{len(parents):,} nodes, {len(ran):,} runs of {len(place):,} of them")
    for node, of_node in enumerate(parents):
        for parent in of_node:
            if place[parent] > place[node]:
                raise AssertionError(f"node {node} ran before its parent {parent}")


# --- memory ---------------------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    """This process's memory that is in RAM (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def weighed(figures: dict[str, float], count: int, exact: bool) -> Iterator[None]:
    """Puts the bytes for each of `count` things made inside into `figures`.

    Exact: what Python asked for (tracemalloc, slow). Otherwise what the process grew by.
    """
    if exact:
        tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0] if exact else resident_bytes()
    yield
    gc.collect()
    after = tracemalloc.get_traced_memory()[0] if exact else resident_bytes()
    tracemalloc.stop()
    figures["bytes"] = (after - before) / count
