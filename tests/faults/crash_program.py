"""The program that `test_store_crashes.py` kills: tasks of all kinds, and a ledger of what their bodies did.

The ledger is a file of its own, one line for each start and end of a body, written with one call each: it tells what
happened, whatever the store says.
"""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any

from tests.faults.zygote import Talk
from tickless import Call, Retry, Scheduler, after, current_run, every
from tickless.clocks import elapsed_us
from tickless.stores.sql import failpoints

DELIVERIES = ("at_least_once", "at_most_once")
BEAT_S = 0.01
SLOTS = 3


class Here:
    """What the works need to know of their process."""

    ledger: int = -1
    scheduler: Scheduler
    talk: Talk
    renewed = Event()


def note(what: str, **more: Any) -> None:
    """A line in the ledger: survives the death of this process, once it is written."""
    run = current_run()
    assert run.due is not None
    facts = {"what": what, "task": run.task_id, "attempt": run.attempt, "due": run.due.isoformat(), "pid": os.getpid()}
    os.write(Here.ledger, json.dumps({**facts, "at_us": elapsed_us(), **more}).encode() + b"\n")


def work() -> None:
    note("start")
    note("end")


def give() -> int:
    note("start")
    note("end")
    return 20


def take(given: int) -> int:
    note("start", given=given)
    note("end")
    return given + 1


def fail_first() -> None:
    """Raises in its first attempt."""
    note("start")
    if current_run().attempt == 1:
        note("raise")
        raise OSError("the first attempt fails")
    note("end")


def linger() -> None:
    """Takes longer than the interval in which it is due."""
    note("start")
    Event().wait(BEAT_S * 1.5)
    note("end")


def plan(follower: str, delivery: Any) -> None:
    """Schedules another task."""
    note("start")
    Here.scheduler.schedule(work, id=follower, exists="keep", delivery=delivery)
    note("end")


def stay() -> None:
    """Runs until its lease was renewed twice in this process."""
    note("start")
    Here.renewed.wait(30)
    note("end")


def poison() -> None:
    note("start")
    os._exit(9)


def schedule_all(scheduler: Scheduler, deliveries: list[Any]) -> None:
    """Tasks of all kinds. What is there already stays as it is."""
    known = {info.id for info in scheduler.tasks()}
    calls = []
    for delivery in deliveries:
        name = delivery[3:]  # least_once, most_once
        parent = scheduler.schedule(give, id=f"{name}:parent", exists="keep", delivery=delivery)
        child = f"{name}:child"
        scheduler.schedule(take, args=(parent.output,), id=child, exists="keep", delivery=delivery)
        calls += [
            Call(work, after(BEAT_S), id=f"{name}:one", delivery=delivery),
            Call(work, every(seconds=BEAT_S), max_runs=2, id=f"{name}:beat", delivery=delivery),
            Call(fail_first, retry=Retry(3, delay=BEAT_S), id=f"{name}:retry", delivery=delivery),
            Call(linger, every(seconds=BEAT_S), max_runs=2, overlap="queue", id=f"{name}:queue", delivery=delivery),
            Call(plan, args=(f"{name}:follower", delivery), id=f"{name}:plan", delivery=delivery),
        ]
    scheduler.schedule_many([call for call in calls if call.options["id"] not in known])


def schedule_stays(scheduler: Scheduler, deliveries: list[Any]) -> None:
    for delivery in deliveries:
        scheduler.schedule(stay, id=f"{delivery[3:]}:stay", exists="keep", delivery=delivery)


def schedule_poison(scheduler: Scheduler, deliveries: list[Any]) -> None:
    scheduler.schedule(poison, id="poison", exists="keep")
    scheduler.schedule(poison, id="poison with a retry", exists="keep", retry=Retry(3, delay=0.01))
    scheduler.schedule(work, after(BEAT_S), id="neighbour", exists="keep")


def schedule_flows(scheduler: Scheduler, deliveries: list[Any]) -> None:
    """Two flows of two rounds each, one after the other. What is there already stays as it is."""
    for delivery in deliveries:
        beat = every(seconds=BEAT_S)
        with scheduler.flow(f"{delivery[3:]}:flow", beat, max_runs=2, overlap="queue", exists="keep") as flow:
            first = flow.task(give, name="first", delivery=delivery)
            flow.task(fail_first, name="retry", after_tasks=[first], retry=Retry(3, delay=BEAT_S), delivery=delivery)
            taker = flow.task(take, name="taker", args=(first.output,), delivery=delivery)
            flow.task(work, name="cleanup", after_tasks=["retry", taker], run_if="any_failed", delivery=delivery)
            flow.task(work, name="last", after_tasks=["retry", taker, "cleanup"], run_if="all_done", delivery=delivery)


PROGRAMS = {"flows": schedule_flows, "all": schedule_all, "stays": schedule_stays, "poison": schedule_poison}


def arm(point: str | None, nth: int) -> None:
    """Have this process die at the n-th time that it comes by the point."""
    counts, guard = dict.fromkeys(failpoints.POINTS, 0), Lock()

    def reached(name: str) -> None:
        with guard:
            counts[name] += 1
            if name == point and counts[name] == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "renew.after" and counts[name] == 2:
                Here.renewed.set()

    failpoints.armed = reached


def told(scheduler: Scheduler) -> dict[str, Any]:
    """What the store says in the end."""
    return {
        info.id: {
            "state": info.state,
            "reason": info.reason,
            "runs": [
                {
                    "due": None if run.due is None else run.due.isoformat(),
                    "due_us": run.due_us,
                    "last_due_us": run.last_due_us,
                    "state": run.state,
                    "reason": run.reason,
                    "count": run.count,
                    "attempt": run.attempt,
                    "failed": [[one.number, one.reason] for one in run.attempts],
                }
                for run in scheduler.runs(info)
            ],
        }
        for info in scheduler.tasks()
    }


def life(
    talk: Talk, *, folder: str, program: str, deliveries: list[str], point: str | None = None, nth: int = 0
) -> None:
    """Schedule what is not there yet, run all, say what the store says of it."""
    Here.talk = talk
    Here.ledger = os.open(Path(folder) / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    arm(point, nth)
    began_us = elapsed_us()
    with ThreadPoolExecutor(SLOTS) as pool:
        Here.scheduler = scheduler = Scheduler(pool, store=f"sqlite:///{folder}/tasks.db", lease=1, observers=[])
        PROGRAMS[program](scheduler, deliveries)
        scheduler.start()
        done = scheduler.wait(40)
        say = {"done": done, "began_us": began_us, "tasks": told(scheduler)}
        scheduler.close()
    talk.say(say)
