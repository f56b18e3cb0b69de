"""Peers of the standard library: `sched`, `asyncio`, and `graphlib` with an executor. Each at its best."""

from __future__ import annotations

import asyncio
import sched
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from graphlib import TopologicalSorter
from queue import Empty, SimpleQueue
from statistics import median
from time import monotonic, perf_counter

from workload import (
    WORKERS,
    CountedNoop,
    Punctuality,
    Tally,
    check_order,
    delays_s,
    graph,
    noop,
    rate,
    watch_recurring,
    weighed,
)

# --- sched: its loop submits to a pool, so that a slow task does not hold up the others; or it runs the tasks itself --


def sched_dispatch(count: int, inline: bool = False) -> dict[str, float]:
    """`inline`: one task after another on the thread of the loop, which is less than the others do."""
    tally, pool, scheduler = CountedNoop(), ThreadPoolExecutor(WORKERS), sched.scheduler(monotonic)
    due = monotonic() + 0.001
    action, args = (tally.work, ()) if inline else (pool.submit, (tally.work,))
    for _ in range(count):
        scheduler.enterabs(due, 0, action, args)
    begun = perf_counter()
    scheduler.run()
    pool.shutdown(wait=True)
    took = perf_counter() - begun
    tally.check(count)
    return rate(count, took)


def sched_insert(count: int, builds: int = 1) -> dict[str, float]:
    delays, took = delays_s(count), []
    for _ in range(builds):
        scheduler = sched.scheduler(monotonic)
        begun = perf_counter()
        for delay in delays:
            scheduler.enter(delay, 0, noop)
        took.append(perf_counter() - begun)
        assert len(scheduler.queue) == count
    return rate(count, median(took))


def sched_memory(count: int, exact: bool) -> dict[str, float]:
    scheduler, figures = sched.scheduler(monotonic), dict[str, float]()
    with weighed(figures, count, exact):
        for number in range(count):
            scheduler.enter(3_600 + number, 0, noop)
    assert not scheduler.empty()
    return figures


def sched_cancel(count: int, cancels: int) -> dict[str, float]:
    """`cancels` out of `count`: each one searches the list and heapifies it."""
    scheduler = sched.scheduler(monotonic)
    events = [scheduler.enter(delay, 0, noop) for delay in delays_s(count)]
    begun = perf_counter()
    for event in events[:cancels]:
        scheduler.cancel(event)
    took = perf_counter() - begun
    assert len(scheduler.queue) == count - cancels
    return rate(cancels, took)


def sched_lateness(count: int, span_s: float) -> dict[str, float]:
    fires, pool, scheduler = Punctuality(count, span_s), ThreadPoolExecutor(WORKERS), sched.scheduler(monotonic)
    for index in range(count):
        scheduler.enterabs(fires.plan(index), 0, pool.submit, (fires.work, index))
    scheduler.run()
    pool.shutdown(wait=True)
    return fires.figures()


# --- asyncio: `call_at` with `pool.submit`, which is quicker than `run_in_executor` ----------------------------------


def asyncio_dispatch(count: int) -> dict[str, float]:
    tally, pool = CountedNoop(), ThreadPoolExecutor(WORKERS)

    async def main() -> float:
        loop, last = asyncio.get_running_loop(), asyncio.Event()
        due = loop.time() + 0.001
        for _ in range(count):
            loop.call_at(due, pool.submit, tally.work)
        loop.call_at(due + 0.000_001, last.set)
        begun = perf_counter()
        await last.wait()
        return begun

    begun = asyncio.run(main())
    pool.shutdown(wait=True)
    took = perf_counter() - begun
    tally.check(count)
    return rate(count, took)


def asyncio_now(count: int) -> dict[str, float]:
    """`run_in_executor` from inside the loop, until all have run."""
    tally, pool = CountedNoop(), ThreadPoolExecutor(WORKERS)

    async def main() -> float:
        loop = asyncio.get_running_loop()
        begun = perf_counter()
        await asyncio.gather(*[loop.run_in_executor(pool, tally.work) for _ in range(count)])
        return perf_counter() - begun

    took = asyncio.run(main())
    pool.shutdown(wait=True)
    tally.check(count)
    return rate(count, took)


def asyncio_insert(count: int, builds: int = 1) -> dict[str, float]:
    delays, took = delays_s(count), []

    async def build() -> float:
        call_later = asyncio.get_running_loop().call_later
        begun = perf_counter()
        for delay in delays:
            call_later(delay, noop)
        return perf_counter() - begun

    for _ in range(builds):
        took.append(asyncio.run(build()))
    return rate(count, median(took))


def asyncio_lateness(count: int, span_s: float) -> dict[str, float]:
    fires, pool = Punctuality(count, span_s), ThreadPoolExecutor(WORKERS)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for index in range(count):
            loop.call_at(fires.plan(index), pool.submit, fires.work, index)
        await asyncio.sleep(max(fires.due_s) - monotonic() + 0.05)

    asyncio.run(main())
    pool.shutdown(wait=True)
    return fires.figures()


def asyncio_recurring(tasks: int, interval_s: float, span_s: float) -> dict[str, float]:
    tally, pool = Tally(), ThreadPoolExecutor(WORKERS)

    async def main() -> dict[str, float]:
        loop, begun = asyncio.get_running_loop(), monotonic()

        def fire(due: float) -> None:
            loop.call_at(due + interval_s, fire, due + interval_s)
            pool.submit(tally.work)

        for _ in range(tasks):
            loop.call_at(begun + interval_s, fire, begun + interval_s)
        return await asyncio.to_thread(watch_recurring, tally, begun, tasks, interval_s, span_s)

    figures = asyncio.run(main())
    pool.shutdown(wait=True)
    return figures


# --- graphlib: finished nodes come back over the quickest queue there is, and are marked in groups --------------------


def graphlib_dependencies(shape: str, nodes: int) -> dict[str, float]:
    """Build the sorter, then submit what is ready and mark what has finished until nothing is left."""
    parents, ran = graph(shape, nodes), list[int]()
    pool = ThreadPoolExecutor(WORKERS)
    begun = perf_counter()
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for node, of_node in enumerate(parents):
        sorter.add(node, *of_node)
    _run_sorter(sorter, pool, ran.append)
    took = perf_counter() - begun
    pool.shutdown(wait=True)
    check_order(parents, ran)
    return {"us_per_node": took * 1e6 / nodes}


def _run_sorter(sorter: TopologicalSorter[int], pool: ThreadPoolExecutor, work: Callable[[int], object]) -> None:
    finished: SimpleQueue[int] = SimpleQueue()

    def run(node: int) -> None:
        work(node)
        finished.put(node)

    sorter.prepare()
    while sorter.is_active():
        for node in sorter.get_ready():
            pool.submit(run, node)
        done = [finished.get()]
        try:
            while True:
                done.append(finished.get_nowait())
        except Empty:
            sorter.done(*done)
