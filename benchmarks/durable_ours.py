"""tickless with a durable store, through its public names only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import Any

import durable_work
from durable_tools import Statements, beside, fresh, ring_times, two_of, wake_figures
from durable_work import WORKERS, late, woken, work
from workload import FAR_S, delays_s, rate

from tickless import Call, Scheduler, State, after

FILL_BATCH = 10_000
LAST_LOOK_S = 10.0
"""A third of the lease, as it is by default."""

_make: Callable[..., Any] = Scheduler
"""So that this file is checked with and without a `store=` in the signature."""


def look(folder: str) -> dict[str, float]:
    """Whether there is anything to measure: not while `Scheduler(store=...)` raises TypeError."""
    with TemporaryDirectory(dir=folder) as own, ThreadPoolExecutor(1) as pool:
        try:
            _make(pool, store=_url(str(Path(own).resolve() / "tasks.db")), durability="process").close()
        except TypeError:
            return {"there": 0.0}
    return {"there": 1.0}


def _url(path: str) -> str:
    return f"sqlite:///{path}"  # an absolute path has a slash more: sqlite:////tmp/tasks.db


@contextmanager
def _scheduler(path: str, durability: str = "process", **options: Any) -> Iterator[Any]:
    """On the file, not started. Closed afterwards; the tasks stay."""
    with ThreadPoolExecutor(WORKERS) as pool:
        scheduler = _make(pool, store=_url(path), durability=durability, observers=(), **options)
        try:
            yield scheduler
        finally:
            scheduler.close()


def _states(path: str) -> list[State]:
    """Of all that another scheduler finds in the file."""
    with _scheduler(path) as scheduler:
        return [task.state for task in scheduler.tasks()]


def _check_pending(path: str, count: int) -> None:
    assert _states(path) == [State.PENDING] * count


# --- schedule -------------------------------------------------------------------------------------------------------


def schedule(folder: str, count: int, durability: str, started: bool = True) -> dict[str, float]:
    """A loop of `schedule`, the rules made in it, by default on a running scheduler."""
    delays = delays_s(count)
    with fresh(folder) as path:
        with _scheduler(path, durability) as scheduler:
            if started:
                scheduler.start()
            begun = perf_counter()
            for delay in delays:
                scheduler.schedule(work, after(delay))
            took = perf_counter() - begun
        _check_pending(path, count)
    return rate(count, took)


def schedule_many(folder: str, count: int, durability: str, beforehand: bool = False) -> dict[str, float]:
    """One batch, its calls and rules made as it reads, or in a list before."""
    calls: Iterable[Call] = (Call(work, after(delay)) for delay in delays_s(count))
    if beforehand:
        calls = list(calls)
    with fresh(folder) as path:
        with _scheduler(path, durability) as scheduler:
            begun = perf_counter()
            scheduler.schedule_many(calls)
            took = perf_counter() - begun
        _check_pending(path, count)
    return rate(count, took)


# --- run ------------------------------------------------------------------------------------------------------------


def fill(path: str, pending: int, due: int) -> dict[str, float]:
    """`pending` tasks that are far off, and then `due` ones, by a process that only schedules."""
    with _scheduler(path) as scheduler:
        for begin in range(0, pending, FILL_BATCH):
            numbers = range(begin, min(begin + FILL_BATCH, pending))
            scheduler.schedule_many([Call(work, after(FAR_S + number)) for number in numbers])
        scheduler.schedule_many([Call(work)] * due)
    return {}


def drain(folder: str, count: int, durability: str, forgetful: bool = False) -> dict[str, float]:
    """Another process filled the file; from the start until `wait` returns, when all that ran is recorded.

    Forgetful: `keep_finished` is left as it is by default, so most of what has run is let go within the time measured.
    """
    options: dict[str, Any] = {} if forgetful else {"keep_finished": count}
    durable_work.expect(count)
    with fresh(folder) as path:
        beside("durable_ours.fill", path=path, pending=0, due=count)
        with _scheduler(path, durability, **options) as scheduler:
            begun, cpu = perf_counter(), process_time()
            scheduler.start()
            assert scheduler.wait(600)
            took, cpu = perf_counter() - begun, process_time() - cpu
            _check_recorded(path, count, options)  # while that one is open: nothing is left for its close to write
        durable_work.check_runs()
    return {**rate(count, took), "cpu_us_per_task": cpu * 1e6 / count}


def _check_recorded(path: str, count: int, options: dict[str, Any]) -> None:
    """Another scheduler on the file finds them all SUCCEEDED, those at least that are kept."""
    with _scheduler(path, **options) as scheduler:
        states = [task.state for task in scheduler.tasks()]
    assert set(states) == {State.SUCCEEDED}, f"{len(states):,} tasks: {set(states)}"
    assert len(states) == count or not options, f"{len(states):,} of {count:,} are recorded"


def lateness(folder: str, count: int, span_s: float, pending: int = 0) -> dict[str, float]:
    fires = durable_work.plan_fires(count, span_s)
    with fresh(folder) as path:
        beside("durable_ours.fill", path=path, pending=pending, due=0)
        with _scheduler(path) as scheduler:
            scheduler.start()
            cpu = process_time()
            for index in range(count):
                fires.plan(index)
                scheduler.schedule(late, after(fires.delays_s[index]), args=(index,))
            durable_work.await_runs()
            cpu = process_time() - cpu
    durable_work.check_runs()
    return {**fires.figures(), "cpu_us_per_task": cpu * 1e6 / count}


def wake(folder: str, count: int) -> dict[str, float]:
    """Another process schedules, each time when this one has been idle for a while."""
    durable_work.expect(count)
    with fresh(folder) as path:
        with _scheduler(path) as scheduler:
            scheduler.start()
            beside("durable_ours.ring_often", path=path, count=count)
            durable_work.await_runs(10)
        durable_work.check_runs()
    return wake_figures()


def ring_often(path: str, count: int) -> dict[str, float]:
    """It only schedules; it is not started."""
    with _scheduler(path) as scheduler:
        for sent_ns in ring_times(count):
            scheduler.schedule(woken, args=(sent_ns,))
    return {}


def first_run(folder: str, pending: int, starts: int) -> dict[str, float]:
    """From before the scheduler is made to the first run, the quickest of several starts."""
    took = []
    with fresh(folder) as path:
        beside("durable_ours.fill", path=path, pending=pending, due=0)
        for _ in range(starts):
            with _scheduler(path) as scheduler:
                scheduler.schedule(work)
            durable_work.expect(1)
            begun = perf_counter()
            with _scheduler(path) as scheduler:
                scheduler.start()
                durable_work.await_runs(10)
                took.append((perf_counter() - begun) * 1_000)
            durable_work.check_runs()
    return {"ms": min(took)}


def idle(folder: str, pending: int, span_s: float) -> dict[str, float]:
    with fresh(folder) as path:
        beside("durable_ours.fill", path=path, pending=pending, due=0)
        return two_of("durable_ours.idle_body", path=path, span_s=span_s)


def idle_body(path: str, span_s: float) -> dict[str, float]:
    """It has run something first, so that there are workers, which must sleep as well.

    The thread that renews leases looks once more after the last run, a third of the lease later, and then sleeps until
    there is another: that look comes before the span.
    """
    statements = Statements()
    with _scheduler(path) as scheduler:
        scheduler.start()
        scheduler.schedule(work)  # either process may run it
        sleep(LAST_LOOK_S)
        return statements.watch(span_s)
