"""Foreign code under a real scheduler: pool, rule, work and observer each look whether a lock of ours is held (P2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from tests.properties.whens import Box, OwnRule, S
from tests.strategies import NOW
from tickless import Scheduler
from tickless.instants import Instant
from tickless.records import Event, EventKind
from tickless.rules import after, every
from tickless.testing import FakeClock, ManualPool


class _Pool(ManualPool):
    """Asks, whenever it is given something."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        super().__init__(slots=2)
        self._ask = ask

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._ask("submit")
        return super().submit(fn, *args, **kwargs)


class _Observer:
    kinds = frozenset(EventKind)

    def __init__(self, ask: Callable[[str], None]) -> None:
        self._ask = ask

    def observe(self, events: Sequence[Event]) -> None:
        self._ask("observer")


def no_lock_is_held_in_foreign_code() -> None:
    """Raise AssertionError, naming the place, where foreign code is called while the store's lock is held."""
    held: list[str] = []
    asked: set[str] = set()

    def ask(place: str) -> None:
        asked.add(place)
        if scheduler._store.lock.locked():
            held.append(place)

    clock = FakeClock(NOW)
    pool = _Pool(ask)
    scheduler = Scheduler(pool, clock=clock, observers=[_Observer(ask)])
    box = Box()
    box.probe = lambda: ask("rule")
    scheduler.start()
    scheduler.schedule(ask, OwnRule(S, Instant(NOW + 4 * S), box), args=("work",))
    scheduler.schedule(ask, args=("work",))
    parent = scheduler.schedule(ask, after(1), args=("work",))
    scheduler.schedule(ask, after_tasks=[parent], args=("work",))
    beat = scheduler.schedule(ask, every(seconds=1), args=("work",))
    for _ in range(6):
        clock.advance(1)
        pool.run_all()
    beat.cancel()
    scheduler.close()
    assert asked == {"submit", "observer", "rule", "work"}
    assert not held, f"P2: the store's lock is held in {held}"
