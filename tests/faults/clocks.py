"""A clock that the test moves, for a dispatcher with a thread of its own: it counts how often that thread wakes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tickless.instants import SECOND_US, Instant, Waitable

START_US = Instant(1_767_268_800 * SECOND_US)
"""2026-01-01T12:00Z."""
PATIENCE_S = 30.0


class CountingClock:
    """Not a driven clock: the scheduler starts its thread, which sleeps in `wait`.

    `waits` is every instant that was waited for, in seconds since the start (None: for ever). A wait that has begun is
    a look around that came before it, so the number of wake-ups is `len(waits) - 1`.
    """

    def __init__(self, *, early: int = 0) -> None:
        self.waits: list[float | None] = []
        self.early = early
        """How many waits end at once, with nothing due: a clock may do so, see `Clock.wait`."""
        self._now = START_US
        self._changed = threading.Condition()
        self._held = False
        self._asleep: tuple[Instant | None, Waitable] | None = None

    def now(self) -> Instant:
        return self._now

    def wall(self) -> Instant:
        return self._now

    def wait(self, bell: Waitable, until: Instant | None) -> None:
        with self._changed:
            self.waits.append(None if until is None else (until - START_US) / SECOND_US)
            self._asleep = until, bell
            self._changed.notify_all()
            if self.early:
                self.early -= 1
                return
            if until is not None and until <= self._now:
                return
        bell.wait(None)
        with self._changed:
            self._asleep = None
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: not self._held, PATIENCE_S)

    @contextmanager
    def watch(self, bell: Waitable) -> Iterator[None]:
        yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, a wait that a ring has ended does not return: see `await_woken`."""
        with self._changed:
            self._held = True
        try:
            yield
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()

    def await_woken(self) -> None:
        """Block until a ring has ended the wait."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._asleep is None, PATIENCE_S)

    def go_to(self, seconds: float) -> None:
        """Let it be so many seconds after the start, and wake a sleeper whose instant has come."""
        with self._changed:
            self._now = Instant(START_US + round(seconds * SECOND_US))
            if self._asleep is not None:
                until, bell = self._asleep
                if until is not None and until <= self._now:
                    bell.ring()

    def await_waits(self, count: int) -> list[float | None]:
        """Block until the dispatcher has gone to sleep `count` times in all; gives what it waited for."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.waits) >= count, PATIENCE_S), self.waits
            return list(self.waits)

    def await_sleep(self, until: float | None) -> int:
        """Block until the dispatcher sleeps for that instant; gives how often it has gone to sleep so far."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.waits[-1:] == [until], PATIENCE_S), self.waits
            return len(self.waits)
