"""huey's SqliteHuey and its consumer in threads, at its defaults, but for periodic tasks, which are off.

For "power" as it opens its file: WAL, synchronous=FULL. For "process" it is given help: NORMAL. Its own `fsync=False`
would be OFF, which is less than the others promise. It records a run only when a work returns something and `results`
is on; here it is spared that. It polls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import perf_counter, process_time
from typing import Any

import durable_work
from durable_tools import SYNCHRONOUS, Statements, beside, fresh, ring_times, two_of, wake_figures
from durable_work import WORKERS, late, woken, work
from huey import SqliteHuey
from workload import FAR_S, delays_s, rate


def _on(path: str, durability: str = "power") -> Any:
    logging.getLogger("huey").setLevel(logging.ERROR)
    huey = SqliteHuey(filename=path, results=False)
    huey.storage.conn.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")  # all its threads share this one
    return huey


def _task(huey: Any, function: Callable[..., None]) -> Any:
    return huey.task()(function)


@contextmanager
def _consuming(huey: Any, workers: int = WORKERS) -> Iterator[None]:
    consumer = huey.create_consumer(workers=workers, periodic=False)
    consumer.start()
    try:
        yield
    finally:
        consumer.stop(graceful=True)


def schedule(folder: str, count: int, durability: str) -> dict[str, float]:
    """Its `schedule` puts a task into the queue, from where a worker will put it into the schedule."""
    delays = delays_s(count)
    with fresh(folder) as path:
        huey = _on(path, durability)
        task = _task(huey, work)
        begun = perf_counter()
        for delay in delays:
            task.schedule(delay=delay)
        took = perf_counter() - begun
        assert huey.pending_count() == count
    return rate(count, took)


def drain(folder: str, count: int, durability: str, workers: int = WORKERS) -> dict[str, float]:
    """All are in the queue; from the consumer's start until the last has run."""
    durable_work.expect(count)
    with fresh(folder) as path:
        huey = _on(path, durability)
        task = _task(huey, work)
        for _ in range(count):
            task()
        begun, cpu = perf_counter(), process_time()
        with _consuming(huey, workers):
            durable_work.await_runs()
            took, cpu = perf_counter() - begun, process_time() - cpu
        assert huey.pending_count() == 0
    durable_work.check_runs()
    return {**rate(count, took), "cpu_us_per_task": cpu * 1e6 / count}


def lateness(folder: str, count: int, span_s: float) -> dict[str, float]:
    """It looks for what is due once a second."""
    fires = durable_work.plan_fires(count, span_s)
    with fresh(folder) as path:
        huey = _on(path)
        task = _task(huey, late)
        with _consuming(huey):
            cpu = process_time()
            for index in range(count):
                fires.plan(index)
                task.schedule(args=(index,), delay=fires.delays_s[index])
            durable_work.await_runs()
            cpu = process_time() - cpu
    durable_work.check_runs()
    return {**fires.figures(), "cpu_us_per_task": cpu * 1e6 / count}


def wake(folder: str, count: int) -> dict[str, float]:
    durable_work.expect(count)
    with fresh(folder) as path:
        huey = _on(path)
        _task(huey, woken)
        with _consuming(huey):
            beside("durable_huey.ring_often", path=path, count=count)
            durable_work.await_runs(30)
    durable_work.check_runs()
    return wake_figures()


def ring_often(path: str, count: int) -> dict[str, float]:
    task = _task(_on(path), woken)
    for sent_ns in ring_times(count):
        task(sent_ns)
    return {}


def fill(path: str, pending: int) -> dict[str, float]:
    """Into the schedule itself, where a worker would put it."""
    huey = _on(path)
    task, now = _task(huey, work), datetime.now(UTC).replace(tzinfo=None)  # It compares naive times, in UTC.
    for number in range(pending):
        far = task.s()
        far.eta = now + timedelta(seconds=FAR_S + number)
        huey.add_schedule(far)
    assert huey.scheduled_count() == pending
    return {}


def idle(folder: str, pending: int, span_s: float) -> dict[str, float]:
    with fresh(folder) as path:
        beside("durable_huey.fill", path=path, pending=pending)
        return two_of("durable_huey.idle_body", path=path, span_s=span_s)


def idle_body(path: str, span_s: float) -> dict[str, float]:
    statements = Statements()
    huey = _on(path)
    _task(huey, work)
    with _consuming(huey):
        return statements.watch(span_s)
