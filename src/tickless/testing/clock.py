"""A clock that stands still until the test moves it, and calls the scheduler while it moves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant, Waitable, datetime_of, instant_of, span_us

START = datetime(2024, 1, 1, tzinfo=UTC)
"""Where a FakeClock starts: a Monday, midnight."""

Turn = Callable[[], Instant | None]


class FakeClock:
    """Time in a test's hand. See `instants.DrivenClock`.

        clock = FakeClock()
        scheduler = Scheduler(InlinePool(), clock=clock)
        ...
        clock.advance(60)       # all that is due in this minute has run, in order, when this returns

    `start` is an aware datetime or an Instant. Spans are seconds or a timedelta.

    A task that runs inline may move the clock too: that is how long its body takes. What becomes due meanwhile is
    called when the body returns, late, as in life. Moving from two threads: the second waits for the first.
    Reading, and waiting, is safe from any thread at any time.
    """

    def __init__(self, start: datetime | Instant = START) -> None:
        self._now = self._wall = _start_of(start)
        self._drivers: dict[object, Turn] = {}
        self._watchers: dict[object, Waitable] = {}
        self._sleepers: dict[object, tuple[Instant, Waitable]] = {}
        # Guards the pairs (moved time, sleepers): a sleeper that enters during a move is seen by it, or sees it.
        self._lock = threading.Lock()
        self._mover = threading.RLock()
        self._moving = False

    def __repr__(self) -> str:
        return f"FakeClock({datetime_of(self._now).isoformat()})"

    # Reading and waiting

    def now(self) -> Instant:
        return self._now

    def wall(self) -> Instant:
        return self._wall

    def wait(self, bell: Waitable, until: Instant | None) -> None:
        """Block this thread until a ring, or until another thread has moved the clock to `until` or past it."""
        if until is None:
            bell.wait(None)
            return
        ticket = object()
        with self._lock:
            if self._now >= until:
                return
            self._sleepers[ticket] = (until, bell)
        try:
            bell.wait(None)
        finally:
            with self._lock:
                self._sleepers.pop(ticket, None)

    @contextmanager
    def watch(self, bell: Waitable) -> Iterator[None]:
        """While inside, `step_wall` and `suspend` ring the bell."""
        ticket = object()
        self._watchers[ticket] = bell
        try:
            yield
        finally:
            del self._watchers[ticket]

    def drive(self, turn: Turn) -> Callable[[], None]:
        """Call `turn` at each due instant from now on. It does what is due and returns when it wants the next call.

        Gives the function that ends it, which may be called twice, and from inside a turn.
        """
        ticket = object()
        self._drivers[ticket] = turn

        def undrive() -> None:
            self._drivers.pop(ticket, None)

        return undrive

    # Moving

    def advance(self, span: float | timedelta) -> None:
        """Let time go by, stopping at each due instant until nothing more is due there.

        Zero calls what is due now. Whatever a turn raises comes out of here, and the clock stays at that instant.
        """
        us = _forward_us(span, "advance")
        with self._one_mover() as outermost:
            if outermost:
                self._go_to(_checked(self._now + us, "advance", span))
            else:
                self._shift(us, us, "advance", span)

    def step_wall(self, span: float | timedelta) -> None:
        """Set the wall clock, forward or (negative) back; `now()` stays. Then call what is due."""
        us = span_us(span, "step_wall")
        with self._one_mover() as outermost:
            self._shift(0, us, "step_wall", span)
            self._ring_watchers()
            if outermost:
                self._go_to(self._now)

    def suspend(self, span: float | timedelta) -> None:
        """Let the machine sleep: both clocks move in one go, with no stop in between. Then call what is due."""
        us = _forward_us(span, "suspend")
        with self._one_mover() as outermost:
            self._shift(us, us, "suspend", span)
            self._ring_watchers()
            if outermost:
                self._go_to(self._now)

    @contextmanager
    def _one_mover(self) -> Iterator[bool]:
        """One thread moves at a time. False when it does so already: from inside a turn of its own."""
        with self._mover:
            outermost = not self._moving
            self._moving = True
            try:
                yield outermost
            finally:
                if outermost:
                    self._moving = False

    def _go_to(self, target: Instant) -> None:
        while True:
            before = (self._now, self._wall)
            due = self._serve()
            if (self._now, self._wall) != before:
                continue  # A body moved the clock: the answers are stale.
            if due is not None and due <= self._now:
                continue  # More to do at this instant.
            if self._now >= target:
                return
            step = (target if due is None else min(due, target)) - self._now
            self._shift(step, step, "advance", step)

    def _serve(self) -> Instant | None:
        """Call every driver, and give the earliest instant that one asks for.

        With several, until no answer changes: one may give work to another that has answered before.
        """
        answers = self._ask()
        while len(answers) > 1 and (again := self._ask()) != answers:
            answers = again
        return min((answer for answer in answers if answer is not None), default=None)

    def _ask(self) -> list[Instant | None]:
        return [turn() for ticket, turn in tuple(self._drivers.items()) if ticket in self._drivers]

    def _shift(self, now_us: int, wall_us: int, what: str, span: object) -> None:
        now = _checked(self._now + now_us, what, span)
        wall = _checked(self._wall + wall_us, what, span)
        with self._lock:
            self._now, self._wall = now, wall
            awake = [bell for until, bell in self._sleepers.values() if until <= now]
        for bell in awake:
            bell.ring()

    def _ring_watchers(self) -> None:
        for bell in tuple(self._watchers.values()):
            bell.ring()


def _start_of(start: object) -> Instant:
    if type(start) is int:
        return _checked(start, "FakeClock", start)
    return instant_of(cast(datetime, start), "FakeClock")  # It refuses what is no datetime.


def _forward_us(span: float | timedelta, what: str) -> int:
    us = span_us(span, what)
    if us < 0:
        raise RuleError(f"{what}({span!r}): time does not go back; to set the wall clock back use step_wall({span!r})")
    return us


def _checked(instant: int, what: str, span: object) -> Instant:
    if not MIN_INSTANT <= instant <= MAX_INSTANT:
        raise RuleError(f"{what}({span!r}): leads out of the calendar (years 1 to 9999); move less far")
    return Instant(instant)
