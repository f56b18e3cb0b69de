"""Every call is legal from inside a task and from a listener, on every kind of pool."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.cases.kit import PATIENCE_S, inline, starts
from tickless import Cancelled, Event, EventKind, Reason, Scheduler, State, Task, after, every
from tickless.testing import FakeClock, InlinePool, ManualPool

POOLS = ["inline", "manual", "threads"]
on_each_pool = pytest.mark.parametrize("kind", POOLS)


@contextmanager
def bench(kind: str, body: Callable[[Scheduler], object]) -> Iterator[tuple[Scheduler, Task[object], Task[str]]]:
    """A recurring task "self" whose runs call `body`, and a sibling "sibling" of the same instant; after some fires.

    "self" has priority and there is one slot, so the sibling is ready while the first run goes on.
    """
    clock, manual = FakeClock(), ManualPool()
    if kind == "threads":
        scheduler = Scheduler(slots=1, observers=[])
    else:
        scheduler = Scheduler(InlinePool() if kind == "inline" else manual, clock=clock, observers=[])
    ran = threading.Event()

    def work() -> object:
        try:
            return body(scheduler)
        finally:
            ran.set()

    task = scheduler.schedule(work, every(seconds=0.01), id="self", priority=1)
    sibling = scheduler.schedule(lambda: "ran", after(0.01), id="sibling")
    with scheduler:
        if kind == "threads":
            assert ran.wait(PATIENCE_S)
            assert sibling.wait(PATIENCE_S)
        else:
            clock.advance(0.01)
            manual.run_all()
        yield scheduler, task, sibling


def started(task: Task[object]) -> list[State]:
    """How the runs ended that began. A real clock may have been ahead of the interval: that is a skip."""
    return [run.state for run in task.runs() if run.started_us is not None]


@on_each_pool
def test_BUG_028_task_that_cancels_itself_finishes_its_run_and_has_no_more(kind: str) -> None:
    """In life: the clean-up after the run does not find the task, and the scheduler is down."""
    answers: list[Cancelled] = []
    with bench(kind, lambda scheduler: answers.append(scheduler.cancel("self"))) as (_, task, _):
        assert task.wait(PATIENCE_S)
        assert answers == [Cancelled.ASKED]
        assert (task.state, task.reason) == ("cancelled", Reason.CANCELLED)
        assert started(task) == ["succeeded"]


@on_each_pool
def test_BUG_028_task_that_puts_another_in_its_own_place_is_followed_by_it(kind: str) -> None:
    """In life: "no such id" after the run, or the new one is deleted together with the old."""
    followed = threading.Event()
    with bench(kind, lambda scheduler: scheduler.schedule(followed.set, after(0), id="self", exists="update")) as (
        scheduler,
        task,
        _,
    ):
        assert task.wait(PATIENCE_S)
        new = scheduler.get("self")
        assert new.last_run is not None
        assert not new.recurring
        if kind == "manual":
            assert scheduler.wait(PATIENCE_S)
        assert followed.wait(PATIENCE_S)
        assert started(task) == ["succeeded"]


@on_each_pool
def test_BUG_028_task_that_a_task_schedules_for_now_runs(kind: str) -> None:
    """In life: it is noticed when the dispatcher wakes up for something else."""
    added: list[Task[str]] = []

    def body(scheduler: Scheduler) -> None:
        scheduler.cancel("self")
        added.append(scheduler.schedule(lambda: "ran", after(0)))

    with bench(kind, body):
        assert [task.result(PATIENCE_S) for task in added] == ["ran"]


@on_each_pool
def test_BUG_028_sibling_of_the_same_instant_that_is_cancelled_does_not_run(kind: str) -> None:
    """In life: it was in the list of this pass already, and runs although cancel said that it never will."""
    answers: list[Cancelled] = []

    def body(scheduler: Scheduler) -> None:
        answers.append(scheduler.cancel("sibling"))
        scheduler.cancel("self")

    with bench(kind, body) as (_, _, sibling):
        assert answers == [Cancelled.CANCELLED]
        assert sibling.state == "cancelled"
        assert sibling.runs()[0].started_us is None


@on_each_pool
def test_BUG_028_BUG_035_task_that_closes_its_scheduler_returns_and_all_ends(kind: str) -> None:
    """In life: the pool joins its own thread, and the scheduler is half dead with each later fire "already running"."""
    left: list[object] = []
    with bench(kind, lambda scheduler: left.append(scheduler.close())) as (scheduler, task, sibling):
        assert task.wait(PATIENCE_S)
        assert left == [[]], "it waits for the others only"
        assert started(task) == ["succeeded"]
        assert (sibling.state, sibling.reason) == ("cancelled", Reason.CLOSED)
        assert scheduler.phase == "closed"
        assert scheduler.close() == []
        assert all(info.state.terminal for info in scheduler.tasks())


def test_BUG_035_two_tasks_that_close_at_once_do_not_wait_for_one_another() -> None:
    """In life: each waits for the other, and the process does not end."""
    gate = threading.Barrier(2)
    with Scheduler(slots=2, observers=[]) as scheduler:

        def close() -> object:
            gate.wait()
            return scheduler.close(timeout=PATIENCE_S)

        tasks = [scheduler.schedule(close) for _ in range(2)]
        assert [task.wait(PATIENCE_S) for task in tasks] == [True, True]
        assert [task.state for task in tasks] == ["succeeded"] * 2


class Doing:
    """An observer that does something at the first event of a kind."""

    def __init__(self, kind: EventKind, do: Callable[[], object]) -> None:
        self.kinds = frozenset({kind})
        self.do: Callable[[], object] | None = do

    def observe(self, events: Sequence[Event]) -> None:
        do, self.do = self.do, None
        if do is not None:
            do()


@pytest.mark.parametrize("kind", [EventKind.SUCCEEDED, EventKind.STARTED, EventKind.READY])
@pytest.mark.parametrize("threads", [False, True])
def test_BUG_028_listener_may_call_everything(kind: EventKind, threads: bool) -> None:
    """In life: listeners are called under the lock, and the first that asks for the list of tasks hangs."""
    done = threading.Event()
    added: list[Task[int]] = []

    def do() -> None:
        scheduler.cancel("other")
        scheduler.tasks()
        scheduler.runs("self")
        added.append(scheduler.schedule(int, after(0)))
        done.set()

    observer = Doing(kind, do)
    clock = FakeClock()
    if threads:
        scheduler = Scheduler(slots=1, observers=[observer])
    else:
        scheduler = Scheduler(InlinePool(), clock=clock, observers=[observer])
    other = scheduler.schedule(int, after(3600), id="other")
    with scheduler:
        scheduler.schedule(int, id="self")
        clock.advance(1)
        assert done.wait(PATIENCE_S)
        assert added[0].wait(PATIENCE_S)
        assert other.state == "cancelled"


@pytest.mark.parametrize("threads", [False, True])
def test_BUG_035_listener_that_closes_the_scheduler_returns(threads: bool) -> None:
    """In life: the scheduler waits for its observer thread, which waits for the scheduler."""
    done = threading.Event()

    def close() -> None:
        scheduler.close()
        done.set()

    observer = Doing(EventKind.SUCCEEDED, close)
    clock = FakeClock()
    if threads:
        scheduler = Scheduler(slots=1, observers=[observer])
    else:
        scheduler = Scheduler(InlinePool(), clock=clock, observers=[observer])
    with scheduler:
        later = scheduler.schedule(int, after(3600))
        scheduler.schedule(int)
        assert done.wait(PATIENCE_S)
        assert scheduler.phase == "closed"
        assert later.reason is Reason.CLOSED


def test_BUG_028_what_a_listener_schedules_for_soon_is_not_slept_over() -> None:
    """In life: the next wake-up is looked up, then the listeners are told, and what they add waits for that wake-up."""
    added: list[Task[int]] = []
    observer = Doing(EventKind.SUCCEEDED, lambda: added.append(scheduler.schedule(int, after(1))))
    clock = FakeClock()
    with Scheduler(InlinePool(), clock=clock, observers=[observer]) as scheduler:
        scheduler.schedule(int, after(5))
        scheduler.schedule(int, after(60))
        clock.advance(100)
        assert starts(added[0].runs()) == [6]


def test_BUG_028_ten_thousand_tasks_that_each_schedule_the_next_inline_are_no_recursion() -> None:
    """In life: a long chain on an inline pool is a stack overflow."""
    with inline() as (scheduler, _):
        left = [10_000]

        def link() -> None:
            left[0] -= 1
            if left[0]:
                scheduler.schedule(link)

        scheduler.schedule(link)
        assert left == [0]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no interval timer that signals")
def test_BUG_035_stop_that_a_signal_handler_asks_for_never_hangs_on_a_lock() -> None:
    """In life: the signal comes while the main thread holds the lock inside schedule(), and the process hangs."""
    stops: list[int] = []
    box: list[Scheduler] = []

    def handle(number: int, frame: object) -> None:
        for scheduler in box:
            scheduler.request_stop()
            stops.append(number)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for _ in range(50):
            with Scheduler(slots=1, observers=[]) as scheduler:
                stops, box = [], [scheduler]
                while len(stops) < 3:
                    scheduler.schedule(int, after(60))
                    scheduler.schedule(int)
                assert scheduler.run() is False, "the stop was asked for before"
                assert scheduler.phase == "closed"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no interval timer that signals")
def test_BUG_035_run_ends_at_a_stop_that_a_handler_asks_for_while_it_waits() -> None:
    """In life: the request is noticed when the next task is due, in a week."""
    scheduler = Scheduler(slots=1, observers=[])
    task = scheduler.schedule(int, after(7 * 86_400))
    before = signal.signal(signal.SIGALRM, lambda number, frame: scheduler.request_stop())
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        assert scheduler.run() is False
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (task.state, task.reason) == ("cancelled", Reason.CLOSED)
