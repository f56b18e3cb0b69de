"""APScheduler 3.11 with its SQLAlchemyJobStore on SQLite.

For "power" as its manual shows, and as SQLite opens it: a rollback journal, synchronous=FULL. For "process" it is given
help that is not in its manual: WAL and synchronous=NORMAL. It records no run: a one-shot is deleted at the hand-over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic, perf_counter, process_time
from typing import Any

import durable_work
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from durable_tools import fresh
from durable_work import WORKERS, late, work
from sqlalchemy import create_engine, event
from workload import delays_s, rate


@contextmanager
def _paused(path: str, durability: str) -> Iterator[Any]:
    engine = create_engine(f"sqlite:///{path}")
    if durability == "process":
        event.listen(engine, "connect", _help)
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(engine=engine)},
        executors={"default": ThreadPoolExecutor(WORKERS)},
        job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        timezone=UTC,
    )
    scheduler.start(paused=True)
    try:
        yield scheduler
    finally:
        scheduler.shutdown(wait=True)
        engine.dispose()


def _help(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def schedule(folder: str, count: int, durability: str) -> dict[str, float]:
    """As its manual shows, on a scheduler that runs: `add_job(work, "date", run_date=...)`, the dates made before."""
    with fresh(folder) as path, _paused(path, durability) as scheduler:
        scheduler.resume()
        start = datetime.now(UTC)
        dates = [start + timedelta(seconds=delay) for delay in delays_s(count)]
        begun = perf_counter()
        for date in dates:
            scheduler.add_job(work, "date", run_date=date)
        took = perf_counter() - begun
        assert len(scheduler.get_jobs()) == count
    return rate(count, took)


def schedule_helped(folder: str, count: int, durability: str) -> dict[str, float]:
    """Its quickest way: paused, so that it does not wake for each new earliest one, and the triggers made before."""
    with fresh(folder) as path, _paused(path, durability) as scheduler:
        start = datetime.now(UTC)
        rules = [DateTrigger(start + timedelta(seconds=delay)) for delay in delays_s(count)]
        begun = perf_counter()
        for rule in rules:
            scheduler.add_job(work, rule)
        took = perf_counter() - begun
        assert len(scheduler.get_jobs()) == count
    return rate(count, took)


def drain(folder: str, count: int, durability: str) -> dict[str, float]:
    """From `resume` until the last has run."""
    durable_work.expect(count)
    with fresh(folder) as path, _paused(path, durability) as scheduler:
        rule = DateTrigger(datetime.now(UTC))
        for _ in range(count):
            scheduler.add_job(work, rule)
        begun, cpu = perf_counter(), process_time()
        scheduler.resume()
        durable_work.await_runs()
        took, cpu = perf_counter() - begun, process_time() - cpu
        while scheduler.get_jobs():  # those that have run may not all be deleted yet
            time.sleep(0.1)
    durable_work.check_runs()
    return {**rate(count, took), "cpu_us_per_task": cpu * 1e6 / count}


def lateness(folder: str, count: int, span_s: float, durability: str) -> dict[str, float]:
    fires = durable_work.plan_fires(count, span_s)
    with fresh(folder) as path, _paused(path, durability) as scheduler:
        scheduler.resume()
        cpu = process_time()
        for index in range(count):
            due = datetime.now(UTC) + timedelta(seconds=fires.plan(index) - monotonic())
            scheduler.add_job(late, DateTrigger(due), args=(index,))
        durable_work.await_runs()
        cpu = process_time() - cpu
    durable_work.check_runs()
    return {**fires.figures(), "cpu_us_per_task": cpu * 1e6 / count}
