"""APScheduler 3.11: BackgroundScheduler, MemoryJobStore and its thread pool executor, given help.

Misfires are allowed without bound, and but for `insert` and `now` it is paused while tasks are added: running, it would
wake for each new earliest one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from statistics import median
from time import monotonic, perf_counter
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from workload import WORKERS, LastCall, Punctuality, Tally, delays_s, noop, rate, watch_recurring, weighed


def _paused() -> Any:
    scheduler = BackgroundScheduler(
        jobstores={"default": MemoryJobStore()},
        executors={"default": ThreadPoolExecutor(WORKERS)},
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    return scheduler


def _dates(delays: list[float]) -> list[Any]:
    start = datetime.now(UTC)
    return [DateTrigger(start + timedelta(seconds=delay)) for delay in delays]


def dispatch(count: int) -> dict[str, float]:
    last, scheduler = LastCall(count), _paused()
    trigger = DateTrigger(datetime.now(UTC))
    for _ in range(count):
        scheduler.add_job(last.work, trigger)
    begun = perf_counter()
    scheduler.resume()
    last.wait()
    took = perf_counter() - begun
    scheduler.shutdown()
    return rate(count, took)


def now(count: int) -> dict[str, float]:
    """`add_job` without a trigger means now."""
    last, scheduler = LastCall(count), _paused()
    scheduler.resume()
    begun = perf_counter()
    for _ in range(count):
        scheduler.add_job(last.work)
    last.wait()
    took = perf_counter() - begun
    scheduler.shutdown()
    return rate(count, took)


def insert(count: int, builds: int = 1) -> dict[str, float]:
    """As its manual shows, on a scheduler that runs: `add_job(work, "date", run_date=...)`, the dates made before."""
    start, took = datetime.now(UTC), []
    dates = [start + timedelta(seconds=delay) for delay in delays_s(count)]
    for _ in range(builds):
        scheduler = _paused()
        scheduler.resume()
        begun = perf_counter()
        for date in dates:
            scheduler.add_job(noop, "date", run_date=date)
        took.append(perf_counter() - begun)
        assert len(scheduler.get_jobs()) == count
        scheduler.shutdown()
    return rate(count, median(took))


def insert_helped(count: int, builds: int = 1) -> dict[str, float]:
    """Its quickest way: paused, so that it does not wake for each new earliest one, and the triggers made before."""
    triggers, took = _dates(delays_s(count)), []
    for _ in range(builds):
        scheduler = _paused()
        begun = perf_counter()
        for trigger in triggers:
            scheduler.add_job(noop, trigger)
        took.append(perf_counter() - begun)
        assert len(scheduler.get_jobs()) == count
        scheduler.shutdown()
    return rate(count, median(took))


def memory(count: int, exact: bool) -> dict[str, float]:
    """In the order of their dates, which is the quickest to insert and weighs the same."""
    scheduler, figures, start = _paused(), dict[str, float](), datetime.now(UTC)
    with weighed(figures, count, exact):
        for number in range(count):
            scheduler.add_job(noop, DateTrigger(start + timedelta(seconds=3_600 + number)))
    assert len(scheduler.get_jobs()) == count
    scheduler.shutdown()
    return figures


def cancel(count: int) -> dict[str, float]:
    scheduler = _paused()
    tasks = [scheduler.add_job(noop, trigger) for trigger in _dates(delays_s(count))]
    begun = perf_counter()
    for task in tasks:
        task.remove()
    took = perf_counter() - begun
    assert not scheduler.get_jobs()
    scheduler.shutdown()
    return rate(count, took)


def lateness(count: int, span_s: float) -> dict[str, float]:
    fires, scheduler = Punctuality(count, span_s), _paused()
    for index in range(count):
        due = datetime.now(UTC) + timedelta(seconds=fires.plan(index) - monotonic())
        scheduler.add_job(fires.work, DateTrigger(due), args=(index,))
    scheduler.resume()
    while scheduler.get_jobs():
        _rest()
    scheduler.shutdown(wait=True)
    return fires.figures()


def _rest() -> None:
    """Look seldom: looking takes the scheduler's lock."""
    LastCall(1).done.wait(0.5)


def recurring(tasks: int, interval_s: float, span_s: float) -> dict[str, float]:
    tally, scheduler = Tally(), _paused()
    start, begun = datetime.now(UTC), monotonic()

    def work() -> None:  # It asks a work for its module, which one in C does not have.
        tally.work()

    for _ in range(tasks):
        scheduler.add_job(work, IntervalTrigger(seconds=interval_s, start_date=start, timezone=UTC))
    scheduler.resume()
    figures = watch_recurring(tally, begun, tasks, interval_s, span_s)
    scheduler.shutdown()
    return figures
