"""`at(datetime)`: one fire, at an instant of the wall clock."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import UTC, datetime, timezone
from typing import final

from tickless.errors import shown
from tickless.instants import Instant, datetime_of, instant_of


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class At:
    """One fire at an aware datetime, on the wall clock: when the clock is set, it moves with it.

    A past instant is allowed: it runs now. Two rules of the same instant are equal, whatever zones they were given in.
    A wall time that its zone passes twice is the pass that `fold` says; one that it skips (clocks put forward) follows
    Python's fold rules, and warns. Raises RuleError for a naive datetime, and for years beyond 1 to 9999 in UTC.
    """

    due: Instant
    recurring = False
    wall = True

    def __init__(self, when: datetime) -> None:
        due = instant_of(when, "at(datetime)")
        if type(when.tzinfo) is not timezone and not _exists(when):
            warnings.warn(
                f"at({shown(when)}): this wall time does not exist in its zone, where clocks are put forward over it; "
                f"it will run at {datetime_of(due):%Y-%m-%d %H:%M:%S} UTC",
                stacklevel=2,
            )
        object.__setattr__(self, "due", due)

    def bound(self, now: Instant) -> At:
        """Itself: an instant is fixed as it stands."""
        return self

    def next_after(self, after: Instant) -> Instant | None:
        """The instant while `after` is before it, then None."""
        return self.due if after < self.due else None

    def span(self, after: Instant, until: Instant) -> tuple[int, Instant, Instant] | None:
        """(1, due, due) when it lies in (after, until], else None."""
        return (1, self.due, self.due) if after < self.due <= until else None

    def __repr__(self) -> str:
        return f"at({datetime_of(self.due)!r})"


def _exists(when: datetime) -> bool:
    """False for a wall time that its zone skips: there and back by UTC gives another one. Overlaps come back whole."""
    back = when.astimezone(UTC).astimezone(when.tzinfo)
    return back.replace(tzinfo=None) == when.replace(tzinfo=None)


at = At
