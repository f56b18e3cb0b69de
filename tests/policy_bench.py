"""A scheduler whose tasks run when the test says so, and tasks in whatever state a verb may find them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from tests.cases.kit import Ear, sound
from tickless import (
    EventKind,
    Limit,
    Retry,
    Scheduler,
    Task,
    after,
    every,
)
from tickless.instants import datetime_of
from tickless.testing import FakeClock, ManualPool

TICK = every(seconds=10)
FAR = datetime(2030, 1, 1, tzinfo=datetime_of(FakeClock().now()).tzinfo)


class Bench:
    """A started scheduler on a pool that runs when it is told to. It is sound after each `go`."""

    def __init__(self, slots: int = 1, **options: Any) -> None:
        self.clock, self.ear = FakeClock(), Ear()
        self.pool = ManualPool(slots)
        if "pools" in options:
            options["pools"] = {"default": self.pool, **options["pools"]}
        self.scheduler = Scheduler(
            None if "pools" in options else self.pool, clock=self.clock, observers=[self.ear], **options
        )
        self.scheduler.start()
        self.order: list[Any] = []

    def go(self, span: float = 0) -> None:
        """Let time go by, second by second where it is long, and run what is ready."""
        for _ in range(int(span)):
            self.clock.advance(1)
            self.pool.run_all()
        self.clock.advance(span - int(span))
        self.pool.run_all()
        sound(self.scheduler)

    def note(self, word: Any, when: Any = None, **options: Any) -> Task[Any]:
        return self.scheduler.schedule(self.order.append, when, args=(word,), **options)

    def kinds(self, task: Task[Any]) -> list[EventKind]:
        return [event.kind for event in self.ear.events if event.task_id == task.id]


def fail() -> None:
    raise ValueError("broken")


# What a task may be doing when a verb comes

Make = Callable[[Bench], Task[Any]]


def pending(bench: Bench) -> Task[Any]:
    return bench.note("x", after(10))


def beating(bench: Bench) -> Task[Any]:
    return bench.note("x", TICK)


def ready(bench: Bench) -> Task[Any]:
    return bench.note("x")


def child(bench: Bench) -> Task[Any]:
    return bench.note("x", after_tasks=[bench.note("parent", after(5))])


def retrying(bench: Bench) -> Task[Any]:
    task = bench.scheduler.schedule(fail, retry=Retry(2, delay=10))
    bench.pool.run_all()
    return task


def ready_again(bench: Bench) -> Task[Any]:
    task = retrying(bench)
    bench.clock.advance(10)
    return task


def beating_ready(bench: Bench) -> Task[Any]:
    task = beating(bench)
    bench.clock.advance(10)
    return task


def beating_retrying(bench: Bench) -> Task[Any]:
    task = bench.scheduler.schedule(fail, TICK, retry=Retry(2, delay=7))
    bench.clock.advance(10)
    bench.pool.run_all()
    return task


def queueing(bench: Bench) -> Task[Any]:
    task = bench.note("x", TICK, overlap="queue")
    bench.clock.advance(25)
    return task


def allowing(bench: Bench) -> Task[Any]:
    task = bench.note("x", TICK, overlap="allow", max_running=3)
    bench.clock.advance(25)
    return task


def limited(bench: Bench) -> Task[Any]:
    bench.note("first", limit="one")
    return bench.note("x", limit="one")


def waiting_for_rate(bench: Bench) -> Task[Any]:
    bench.note("first", limit="rate")
    bench.pool.run_all()
    return bench.note("x", limit="rate")


DOING: dict[str, Make] = {
    make.__name__: make
    for make in (
        *(pending, beating, ready, child, retrying, ready_again, beating_ready, beating_retrying),
        *(queueing, allowing, limited, waiting_for_rate),
    )
}
LIMITS = [Limit("one", running=1), Limit("rate", starts=1, per=30)]


def make(doing: str) -> tuple[Bench, Task[Any]]:
    bench = Bench(limits=LIMITS)
    task = DOING[doing](bench)
    sound(bench.scheduler)
    return bench, task
