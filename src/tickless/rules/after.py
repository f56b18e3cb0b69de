"""`after(delay)`: one fire, so much elapsed time after it was scheduled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import final

from tickless.errors import RuleError, shown
from tickless.instants import MAX_INSTANT, SECOND_US, Instant, datetime_of, span_us
from tickless.rules.combine import not_on, on_days, union, union_reversed
from tickless.rules.every import span_words


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class After:
    """One fire, `delay` (seconds or a timedelta) of elapsed time after it is bound; setting the clock moves nothing.

    `after(0)` runs now. Raises RuleError for a negative delay, NaN, infinities, and what is longer than the calendar.
    """

    delay_us: int
    recurring = False
    wall = False

    def __init__(self, delay: float | timedelta) -> None:
        delay_us = span_us(delay, "after(delay)")
        if delay_us < 0:
            raise RuleError(f"after({shown(delay)}): a delay cannot be negative; after(0) runs now")
        object.__setattr__(self, "delay_us", delay_us)

    def bound(self, now: Instant) -> Due:
        """The one instant `now` + delay. Raises RuleError when that lies past the year 9999."""
        due = now + self.delay_us
        if due > MAX_INSTANT:
            raise RuleError(f"{self!r}: counted from now it is due past the year 9999; choose a shorter delay")
        return Due(Instant(due))

    def next_after(self, after: Instant) -> Instant | None:
        """Raises RuleError: a delay has no instant before it is bound."""
        raise RuleError(f"{self!r} is not bound to a start, so it has no fires yet; ask {self!r}.bound(now)")

    # They raise RuleError, which says what to write instead: a rule of elapsed time combines with none.
    __or__ = union
    __ror__ = union_reversed
    on_days = on_days
    not_on = not_on

    def __repr__(self) -> str:
        seconds = self.delay_us / SECOND_US
        exact = round(seconds * SECOND_US) == self.delay_us
        return f"after({seconds if exact else timedelta(microseconds=self.delay_us)!r})"

    def __str__(self) -> str:
        return f"once, {span_words(self.delay_us)} after it is scheduled"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Due:
    """What `after` becomes when it is bound: one fire at an instant of `Clock.now()`."""

    due: Instant
    recurring = False
    wall = False

    def bound(self, now: Instant) -> Due:
        """Itself."""
        return self

    def next_after(self, after: Instant) -> Instant | None:
        """The instant while `after` is before it, then None."""
        return self.due if after < self.due else None

    def span(self, after: Instant, until: Instant) -> tuple[int, Instant, Instant] | None:
        """(1, due, due) when it lies in (after, until], else None."""
        return (1, self.due, self.due) if after < self.due <= until else None

    # They raise RuleError, which says what to write instead: a rule of elapsed time combines with none.
    __or__ = union
    __ror__ = union_reversed
    on_days = on_days
    not_on = not_on

    def __repr__(self) -> str:
        return f"after(0).bound({self.due})"

    def __str__(self) -> str:
        return f"once at {datetime_of(self.due):%Y-%m-%d %H:%M:%S} UTC, by elapsed time"


after = After
