"""The verbs that change a task, from inside of it, of others, and of listeners: none hangs, each does what it says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases.kit import PATIENCE_S
from tests.cases.test_reentrancy import Doing, bench, on_each_pool, started
from tickless import EventKind, Reason, ScheduleError, Scheduler, Task, after, every
from tickless.core.invariants import check
from tickless.testing import FakeClock, InlinePool

Said = list[Any]


def noting(said: Said, act: Callable[[Scheduler], Any]) -> Callable[[Scheduler], None]:
    """A body that notes what `act` gives or raises, once."""

    def body(scheduler: Scheduler) -> None:
        if said:
            return
        said.append("began")
        try:
            said[0] = act(scheduler)
        except ScheduleError as error:
            said[0] = error

    return body


@on_each_pool
def test_BUG_028_task_that_pauses_itself_finishes_its_run_and_has_none_until_it_is_resumed(kind: str) -> None:
    """In life: the end of the run gives it its next fire, and with that it is paused no more."""
    said: Said = []
    with bench(kind, noting(said, lambda scheduler: scheduler.pause("self", reason="enough"))) as (scheduler, task, _):
        while task.state != "pending":
            scheduler.schedule(int).wait(PATIENCE_S)
        assert said == [1]
        assert started(task) == ["succeeded"]
        info = task.info
        assert (info.paused, info.pause_reason, info.reason, info.next_fire) == (True, "enough", Reason.PAUSED, None)
        assert task.resume()
        assert not task.info.paused


@on_each_pool
def test_BUG_028_task_that_pauses_all_holds_what_comes_and_its_sibling_that_is_ready(kind: str) -> None:
    """In life: the pass goes on over the list that it took before."""
    said: Said = []

    def act(scheduler: Scheduler) -> object:
        count = scheduler.pause()
        states = [(info.id, info.state.value, info.reason) for info in scheduler.tasks()]
        scheduler.resume()
        return count, states

    with bench(kind, noting(said, act)) as (_, _, sibling):
        assert said == [(2, [("self", "running", None), ("sibling", "pending", Reason.PAUSED)])]
        assert sibling.result(PATIENCE_S) == "ran"


VERBS: dict[str, tuple[Callable[[Scheduler], Any], Callable[[Any], bool]]] = {
    "pause and resume": (lambda s: (s.pause("self"), s.resume("self")), lambda said: said == (1, 1)),
    "pause twice": (lambda s: (s.pause("self"), s.pause("self"), s.resume("self")), lambda said: said == (1, 0, 1)),
    "resume": (lambda s: s.resume("self"), lambda said: said == 0),
    "reschedule": (lambda s: s.reschedule("self", every(seconds=0.02)), lambda said: said == 1),
    "reschedule twice": (
        lambda s: [s.reschedule("self", every(seconds=second)) for second in (5, 0.02)],
        lambda said: said == [1, 1],
    ),
    "update": (lambda s: s.update("self", priority=2, args=()), lambda said: said == 1),
    "update twice": (lambda s: (s.update("self", name="a"), s.update("self", name="b")), lambda said: said == (1, 1)),
    "run_now": (lambda s: s.run_now("self"), lambda said: (said.state, said.reason) == ("skipped", Reason.OVERLAP)),
    "run_now of the sibling": (lambda s: s.run_now("sibling"), lambda said: said.state == "ready"),
    "reschedule the sibling": (lambda s: s.reschedule("sibling", after(0)), lambda said: said == 1),
    "update the sibling": (lambda s: s.update("sibling", priority=-1), lambda said: said == 1),
    "pause the sibling": (lambda s: (s.pause("sibling"), s.resume("sibling")), lambda said: said == (1, 1)),
    "all of it": (
        lambda s: (s.pause(), s.update(name="x"), s.reschedule("self", every(seconds=0.01)), s.run_now(), s.resume()),
        lambda said: said[:3] == (2, 2, 1) and len(said[3]) == 2 and said[4] == 2,
    ),
    "ask": (lambda s: (s.pools(), s.limits(), s.get("self").paused), lambda said: said[0]["default"].running == 1),
}


@pytest.mark.parametrize("verb", VERBS)
@on_each_pool
def test_BUG_028_verbs_are_legal_from_inside_a_task(kind: str, verb: str) -> None:
    """In life: a lock is held around the user's function, and the first task that edits itself hangs all of them."""
    act, is_right = VERBS[verb]
    said: Said = []
    with bench(kind, noting(said, act)) as (scheduler, task, _):
        while said == ["began"]:
            scheduler.schedule(int).wait(PATIENCE_S)
        assert is_right(said[0]), said
        while task.state == "running":
            scheduler.schedule(int).wait(PATIENCE_S)
        assert started(task)[0] == "succeeded"
        if kind != "threads":
            check(scheduler._store)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if "sibling" not in verb and verb not in ("run_now", "ask")])
@pytest.mark.parametrize("kind", [EventKind.SUCCEEDED, EventKind.STARTED, EventKind.READY, EventKind.PAUSED])
@pytest.mark.parametrize("threads", [False, True], ids=["inline", "threads"])
def test_BUG_028_verbs_are_legal_from_inside_a_listener(threads: bool, kind: EventKind, verb: str) -> None:
    """In life: listeners are called under the lock; or the task that a listener resumed is noticed a minute later."""
    act, _ = VERBS[verb]
    done, ran = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def do() -> None:
        try:
            act(scheduler)
        except BaseException as error:  # noqa: BLE001 - kept for the test to look at
            errors.append(error)
        done.set()

    clock = FakeClock()
    observer = Doing(kind, do)
    if threads:
        scheduler = Scheduler(slots=1, observers=[observer])
    else:
        scheduler = Scheduler(InlinePool(), clock=clock, observers=[observer])
    with scheduler:
        task: Task[Any] = scheduler.schedule(lambda: ran.set(), every(seconds=0.01), id="self")
        if kind is EventKind.PAUSED:
            scheduler.pause("self")
            scheduler.resume("self")
        clock.advance(0.05)
        assert done.wait(PATIENCE_S)
        assert errors == []
        ran.clear()
        clock.advance(0.05)
        assert ran.wait(PATIENCE_S), "it goes on"
        task.cancel()


def test_BUG_028_task_that_resumes_another_has_it_noticed_at_once() -> None:
    """In life: it is noticed when the dispatcher wakes up for something else. With threads."""
    with Scheduler(slots=2, observers=[]) as scheduler:
        other = scheduler.schedule(lambda: "ran", after(0.001), id="other")
        assert scheduler.pause("other") in (0, 1)
        held = scheduler.schedule(lambda: "held", id="held", tags=["t"])
        scheduler.pause(tag="t")
        scheduler.schedule(lambda: (scheduler.resume("other"), scheduler.resume(tag="t")))
        assert other.result(PATIENCE_S) == "ran"
        assert held.result(PATIENCE_S) == "held"
