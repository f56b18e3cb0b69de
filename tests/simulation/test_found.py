"""What the exploration has found, cut down. Each is a program that broke a promise."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from tests.simulation.explore import first_fault
from tests.simulation.programs import Draft, Program, Verb
from tickless import Limit, Retry, Scheduler, every

RETRY = Retry(4, delay=1.5, factor=1.0)


def program(*drafts: Draft, verbs: tuple[Verb, ...] = (), limits: tuple[Limit, ...] = (), **more: Any) -> Program:
    made = {"seed": 1, "until": 60.0, "slots": 1, "pools": {}, **more}
    return Program(limits=limits, drafts=drafts, verbs=verbs, **made)


def grid(interval: float, span: float = 0.0, fails: float = 0.0, **options: Any) -> Draft:
    return Draft("t", ("every", interval), options, (span,), fails)


def act(name: str, at: float, argument: Any = None, task: str | None = "t", tag: str | None = None) -> Verb:
    return Verb(name, task, tag, at, argument)


PROMISED = {
    "the first that waits for a rate is started": program(
        grid(2, limit="db"), limits=(Limit("db", starts=1, per=2.5),), until=7.0
    ),
    "what waits beside a run is held when failures pause the task": program(
        grid(1, 3, 1.0, overlap="allow", pause_after_failures=1)
    ),
    "the next fire is held when failures pause the task": program(
        grid(5, 3, 1.0, overlap="queue", pause_after_failures=1), until=9.0
    ),
    "a handler runs though everything was paused": program(
        grid(2, 1, 1.0, on_failure=True), verbs=(act("pause", 2.5, None, None),), slots=2
    ),
    "a zombie that was to be tried again keeps its task busy when it is replaced": program(
        grid(2, 8, 1.0, overlap="replace", retry=RETRY, timeout=0.5), slots=3
    ),
    "a task ends after the run that replaced its last": program(
        grid(1, 2.5, overlap="replace", max_runs=6),
        Draft("other", ("every", 2.0), {"priority": 1, "overlap": "allow"}, (8.0,)),
        verbs=(act("run_now", 39),),
        until=75.0,
    ),
    "a task that was held has one place in the queue": program(
        Draft("t", ("epoch", 1.0), {"limit": "db", "tags": ["y"]}),
        limits=(Limit("db", running=1, starts=3, per=6.0),),
        verbs=(act("pause", 23, 5.0, None, "y"),),
    ),
    "the newest of a replaced run is not before its jitter": program(grid(2.5, 3, overlap="replace", jitter=1.25)),
    "the newest at a resume is not before its jitter": program(
        grid(1, 0.5, 1.0, jitter=0.4, pause_after_failures=1), verbs=(act("resume", 38, "latest"),)
    ),
    "a fire that jitter puts off is not lost to run_now": program(grid(7, jitter=3), verbs=(act("run_now", 14.001),)),
    "a cancelled task has no second record of a fire": program(
        grid(1.5, 5.5, overlap="allow", max_running=1, timeout=2), verbs=(act("cancel", 4),), slots=2
    ),
    "nor when its own zombie holds it": program(grid(1.5, 5.5, timeout=2), verbs=(act("cancel", 4),), slots=2),
    "a child that waits keeps its new rule": program(
        Draft("p", ("after", 8.4)),
        grid(2, jitter=0.5, after_tasks=["p"]),
        verbs=(act("reschedule", 1, ("every", 4.5)),),
    ),
    "what is asked for by hand in a pause counts no fire twice": program(
        grid(1.5, 5.5, overlap="queue", timeout=2, pause_after_failures=1),
        verbs=(act("run_now", 12), act("resume", 28, "none")),
    ),
    "a catch-up that begins while a run goes on is not cut short": program(
        grid(1.5, 4, overlap="queue"), verbs=(act("pause", 4), act("resume", 12, "all")), slots=2
    ),
}


@pytest.mark.parametrize("what", PROMISED)
def test_every_promise_holds_where_it_was_broken(what: str) -> None:
    """Each of these was found by its seed, and cut down by `--shrink`."""
    fault, _ = first_fault(PROMISED[what])
    assert fault is None, f"{fault}\n{PROMISED[what]}"


def test_run_now_tells_the_due_of_an_occurrence_of_its_own() -> None:
    """Else nobody finds the run that was asked for."""
    fault, story = first_fault(program(grid(7, overlap="queue"), verbs=(act("run_now", 2),)))
    assert fault is None
    assert story is not None
    (acted,) = story.acts
    assert acted.run is not None
    assert acted.run.due_us == acted.at


def test_a_run_that_is_too_late_when_a_worker_comes_leaves_nothing_asleep() -> None:
    """In life alone: the worker skips it and plans the next fire, and the dispatcher sleeps on, for ever."""
    ran: list[float] = []
    with ThreadPoolExecutor(1) as pool, Scheduler(pool, observers=[]) as scheduler:
        scheduler.schedule(Event().wait, args=(0.35,))
        beat = scheduler.schedule(lambda: ran.append(time.monotonic()), every(seconds=0.1), grace=0.02, max_runs=2)
        assert beat.wait(10)
    assert len(ran) == 2
