"""tickless, through its public names only; the one look inside counts the entries of the timeline."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from statistics import median
from time import monotonic, perf_counter
from typing import Any

from workload import (
    FAR_S,
    SEED,
    WORKERS,
    CountedNoop,
    Punctuality,
    Tally,
    check_order,
    delays_s,
    graph,
    noop,
    rate,
    resident_bytes,
    watch_recurring,
    weighed,
)

from tickless import Call, Cancelled, Event, EventKind, Limit, Retry, Scheduler, State, after, every, simulate

# --- dispatch and schedule -------------------------------------------------------------------------------------------


class Watcher:
    """An observer of everything, which only counts."""

    kinds = frozenset(EventKind)

    def __init__(self) -> None:
        self.delivered = 0
        self.dropped = 0

    def observe(self, events: Sequence[Event]) -> None:
        self.delivered += len(events)
        self.dropped += sum(event.count for event in events if event.kind is EventKind.DROPPED)


POLICIES: dict[str, dict[str, Any]] = {
    "": {},
    "retry": {"retry": Retry(3)},
    "timeout": {"timeout": 60},
    "limit": {"limit": "many"},
    "rate": {"limit": "often"},
}
LIMITS = [Limit("many", running=WORKERS), Limit("often", starts=1_000_000, per=1)]


def dispatch(count: int, observed: bool = False, policy: str = "") -> dict[str, float]:
    """All are due when the scheduler starts; until `wait` says that all have run.

    With the observer also the time until the last event is delivered, and the share of the events that were.
    `policy`: what each task asks for besides; nothing happens for which it would be needed.
    """
    tally, watcher, options = CountedNoop(), Watcher(), POLICIES[policy]
    pool = ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool, observers=[watcher] if observed else (), limits=LIMITS)
    # In the future when scheduled, so that each one goes through the timeline; past when the scheduler starts.
    rule = after(0.001)
    for _ in range(count):
        scheduler.schedule(tally.work, rule, **options)
    time.sleep(0.002)
    begun = perf_counter()
    scheduler.start()
    scheduler.wait()
    took = perf_counter() - begun
    tally.check(count)
    scheduler.close()
    figures = rate(count, took)
    if observed:
        figures |= {"flushed_per_s": count / (perf_counter() - begun), "delivered": _delivered(watcher, count)}
    pool.shutdown()
    return figures


def _delivered(watcher: Watcher, count: int) -> float:
    """The share of the events that came; refuses when some neither came nor were counted as dropped."""
    if watcher.delivered + watcher.dropped < 3 * count:
        raise AssertionError(f"{count:,} runs, but {watcher.delivered:,} events and {watcher.dropped:,} dropped")
    return watcher.delivered / (watcher.delivered + watcher.dropped)


def now(count: int, handles: bool = False) -> dict[str, float]:
    """Schedule without a rule on a scheduler that runs, until all have run. `handles`: the caller keeps them."""
    tally, pool = CountedNoop(), ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool, observers=())
    scheduler.start()
    kept = []
    begun = perf_counter()
    if handles:
        for _ in range(count):
            kept.append(scheduler.schedule(tally.work))
    else:
        for _ in range(count):
            scheduler.schedule(tally.work)
    scheduler.wait()
    took = perf_counter() - begun
    tally.check(count)
    assert all(task.state is State.SUCCEEDED for task in kept)
    scheduler.close()
    pool.shutdown()
    return rate(count, took)


def retried(count: int, again: bool) -> dict[str, float]:
    """Runs that fail: `count` attempts in all, each a task, or two of one task with a retry between."""
    pool = ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool, observers=())
    options: dict[str, Any] = {"retry": Retry(2, delay=0)} if again else {}
    for _ in range(count // 2 if again else count):
        scheduler.schedule(_fail, after(0.001), **options)
    time.sleep(0.002)
    begun = perf_counter()
    scheduler.start()
    scheduler.wait()
    took = perf_counter() - begun
    scheduler.close()
    pool.shutdown()
    return rate(count, took)


def _fail() -> None:
    raise OSError


# --- insert ----------------------------------------------------------------------------------------------------------


def _built(count: int, builds: int, started: bool, build: Callable[[Scheduler], object]) -> dict[str, float]:
    took = []
    for _ in range(builds):
        pool = ThreadPoolExecutor(WORKERS)
        scheduler = Scheduler(pool, observers=())
        if started:
            scheduler.start()
        begun = perf_counter()
        build(scheduler)
        took.append(perf_counter() - begun)
        assert len(scheduler.tasks()) == count
        scheduler.close()
        pool.shutdown()
    return rate(count, median(took))


def insert(count: int, builds: int = 1, started: bool = False) -> dict[str, float]:
    """One `schedule` for each of the rules, which were made before."""
    rules = [after(delay) for delay in delays_s(count)]

    def build(scheduler: Scheduler) -> None:
        for rule in rules:
            scheduler.schedule(noop, rule)

    return _built(count, builds, started, build)


def insert_with_rules(count: int, builds: int = 1) -> dict[str, float]:
    """The same with the making of the rules inside the loop."""
    delays = delays_s(count)

    def build(scheduler: Scheduler) -> None:
        for delay in delays:
            scheduler.schedule(noop, after(delay))

    return _built(count, builds, False, build)


def insert_many(count: int, builds: int = 1, beforehand: bool = False) -> dict[str, float]:
    """One `schedule_many`, with the calls made while it reads them, or in a list beforehand."""
    rules = [after(delay) for delay in delays_s(count)]
    calls = [Call(noop, rule) for rule in rules] if beforehand else []

    def build(scheduler: Scheduler) -> None:
        source: Iterable[Call] = calls if beforehand else (Call(noop, rule) for rule in rules)
        scheduler.schedule_many(source)

    return _built(count, builds, False, build)


# --- memory and cancel -----------------------------------------------------------------------------------------------


def memory(count: int, exact: bool, kind: str) -> dict[str, float]:
    """Bytes for each pending task with its rule and handle. The list that holds the handles is made before.

    `shared`: one rule for all. `own`: a rule each. `id`: an id and a recurring rule each; the id's text counts.
    """
    pool, figures = ThreadPoolExecutor(WORKERS), dict[str, float]()
    scheduler, handles = Scheduler(pool, observers=()), [None] * count
    schedule, shared = scheduler.schedule, after(FAR_S)
    make: dict[str, Callable[[int], Any]] = {
        "shared": lambda number: schedule(noop, shared),
        "own": lambda number: schedule(noop, after(FAR_S + number)),
        "id": lambda number: schedule(noop, every(seconds=FAR_S + number), id=f"task-{number}"),
    }
    made = make[kind]
    with weighed(figures, count, exact):
        for number in range(count):
            handles[number] = made(number)
    assert len(scheduler.tasks()) == count
    scheduler.close()
    pool.shutdown()
    return figures


def cancel(count: int, shuffled: bool = False) -> dict[str, float]:
    """All of them by their handles, in the order of scheduling (as timeouts are), or in any order."""
    pool = ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool, observers=())
    tasks = [scheduler.schedule(noop, after(delay)) for delay in delays_s(count)]
    if shuffled:
        random.Random(SEED).shuffle(tasks)
    scheduler.start()
    begun = perf_counter()
    answers = [task.cancel() for task in tasks]
    took = perf_counter() - begun
    assert answers == [Cancelled.CANCELLED] * count
    assert all(task.state is State.CANCELLED for task in tasks)
    assert scheduler.wait(0)
    scheduler.close()
    pool.shutdown()
    return rate(count, took)


def churn(live: int, rounds: int) -> dict[str, float]:
    """Cancel and reschedule, one after another, with `live` pending all the time.

    The most entries that the timeline held, over 2 x live + 64, and what the process grew by in megabytes.
    """
    pool = ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool, observers=())
    tasks = [scheduler.schedule(noop, after(delay)) for delay in delays_s(live)]
    scheduler.start()
    gc.collect()
    before, entries_max = resident_bytes(), 0
    begun = perf_counter()
    for turn in range(rounds):
        place = turn * 7_919 % live
        tasks[place].cancel()
        tasks[place] = scheduler.schedule(noop, after(FAR_S + turn % 1_000))
        if turn % 100 == 0:
            entries_max = max(entries_max, len(scheduler._store.machine.timeline))
    took = perf_counter() - begun
    gc.collect()
    grown = resident_bytes() - before
    assert sum(task.state is State.PENDING for task in tasks) == live
    scheduler.close()
    pool.shutdown()
    return rate(rounds, took) | {"entries_share": entries_max / (2 * live + 64), "grown_mb": grown / 1e6}


# --- time ------------------------------------------------------------------------------------------------------------


def lateness(count: int, span_s: float) -> dict[str, float]:
    fires, pool = Punctuality(count, span_s), ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool, observers=())
    scheduler.start()
    for index in range(count):
        fires.plan(index)
        scheduler.schedule(fires.work, after(fires.delays_s[index]), args=(index,))
    scheduler.wait()
    scheduler.close()
    pool.shutdown()
    return fires.figures()


def recurring(tasks: int, interval_s: float, span_s: float, staggered: bool = False) -> dict[str, float]:
    """All with one phase, or with phases evenly over the interval (on the wall clock, where a phase can be given)."""
    tally, pool = Tally(), ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool, observers=())
    wall, begun = datetime.now(UTC), monotonic()
    phases = [timedelta(seconds=interval_s * number / tasks) for number in range(tasks)]
    if staggered:
        rules = [every(seconds=interval_s, anchor=wall + phase) for phase in phases]
    else:
        rules = [every(seconds=interval_s)] * tasks
    scheduler.schedule_many(Call(tally.work, rule) for rule in rules)
    scheduler.start()
    figures = watch_recurring(tally, begun, tasks, interval_s, span_s)
    scheduler.close()
    pool.shutdown()
    return figures


def idle(pending: int, span_s: float) -> dict[str, float]:
    """Voluntary switches and CPU time of every thread of the process but the one that measures."""
    pool = ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool)
    for delay in delays_s(pending):
        scheduler.schedule(noop, after(delay))
    scheduler.start()
    scheduler.schedule(noop).result(timeout=10)  # So that there is a worker, which must sleep as well.
    time.sleep(0.5)
    others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    assert any(thread.name.startswith("tickless") for thread in others)
    before = [(_switches(thread), _cpu_ns(thread)) for thread in others]
    time.sleep(span_s)
    now_ = [(_switches(thread), _cpu_ns(thread)) for thread in others]
    assert len(scheduler.tasks()) >= pending
    scheduler.close()
    pool.shutdown()
    changes = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, now_, strict=True)]
    return {"switches": float(sum(c[0] for c in changes)), "cpu_us": sum(c[1] for c in changes) / 1_000}


def _switches(thread: threading.Thread) -> int:
    with open(f"/proc/self/task/{thread.native_id}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))


def _cpu_ns(thread: threading.Thread) -> int:
    assert thread.ident is not None
    return time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident))


# --- dependencies and simulation -------------------------------------------------------------------------------------


def dependencies(shape: str, nodes: int, started: bool = False) -> dict[str, float]:
    """Build the graph, then run it; `started`: it runs while it is built."""
    parents, ran = graph(shape, nodes), list[int]()
    pool = ThreadPoolExecutor(WORKERS)
    scheduler = Scheduler(pool, observers=())
    if started:
        scheduler.start()
    begun = perf_counter()
    tasks: list[Any] = []
    for node, of_node in enumerate(parents):
        tasks.append(scheduler.schedule(ran.append, args=(node,), after_tasks=[tasks[parent] for parent in of_node]))
    scheduler.start()
    scheduler.wait()
    took = perf_counter() - begun
    check_order(parents, ran)
    scheduler.close()
    pool.shutdown()
    return {"us_per_node": took * 1e6 / nodes}


def simulation(count: int) -> dict[str, float]:
    """From the end of the program (as dispatch is timed), and whole, with the scheduling; the trace is kept."""
    tally, begun = CountedNoop(), [0.0]

    def program(scheduler: Scheduler) -> None:
        rule = after(1)
        for _ in range(count):
            scheduler.schedule(tally.work, rule)
        begun.append(perf_counter())

    begun[0] = perf_counter()
    trace = simulate(program, seed=SEED)
    ended = perf_counter()
    tally.check(count)
    assert len(trace.events) >= 3 * count
    return rate(count, ended - begun[1]) | {"whole_per_s": count / (ended - begun[0])}
