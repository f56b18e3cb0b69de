"""A scheduler with flows, taken through time and runs step by step: what tests of rounds share."""

from __future__ import annotations

from typing import Any

from tests.cases.kit import Ear
from tickless import Flow, Scheduler, every
from tickless.core import invariants
from tickless.testing import FakeClock, ManualPool

MINUTE = 60
told: list[Any] = []


def note(*what: Any) -> Any:
    told.append(what[0] if len(what) == 1 else what)
    return what[0] if what else None


def fail(*what: Any) -> None:
    note(*what)
    raise ValueError("broken")


class Place:
    """A scheduler, its clock and its pool; the promises are looked at after each step."""

    def __init__(self, **given: Any) -> None:
        self.clock, self.pool, self.ear = FakeClock(), given.pop("pool", None) or ManualPool(), Ear()
        self.scheduler = Scheduler(self.pool, clock=self.clock, observers=[self.ear], **given)
        told.clear()

    def chain(self, *works: Any, when: Any = None, **options: Any) -> Flow:
        """A flow of these, one after another; each is told its place."""
        with self.scheduler.flow("f", every(seconds=MINUTE) if when is None else when, **options) as flow:
            before: list[Any] = []
            for place, work in enumerate(works):
                before = [flow.task(work, args=(place,), name=str(place), after_tasks=before)]
        self.scheduler.start()
        return flow

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.check()

    def step(self, runs: int = 1) -> None:
        """A worker that takes so many runs, and leaves."""
        store, worker = self.scheduler._store, self.scheduler._workers[0]
        for _ in range(runs):
            run = store.take(self.clock.now())
            assert run is not None
            store.finish(run, worker.outcome(run), self.clock.now())
            self.scheduler.tasks()  # which has it written
            self.check()

    def check(self) -> None:
        invariants.check(self.scheduler._store)


def states(flow: Flow) -> list[str]:
    return [str(one.state) for one in flow.rounds()]
