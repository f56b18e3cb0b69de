"""Rules that go wrong, as a user's own may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from tickless import Instant
from tickless.instants import MAX_INSTANT, SECOND_US


@dataclass(frozen=True)
class Breaks:
    """Gives `good` fires, each a second after what it was asked about; from then on what `answer` gives, or raises."""

    good: int
    answer: Callable[[Instant], Any]
    recurring = True
    wall = False
    asked: list[Instant] = field(default_factory=list, compare=False)

    def bound(self, now: Instant) -> Breaks:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.asked.append(after)
        if after in list(dict.fromkeys(self.asked))[: self.good]:
            return Instant(after + SECOND_US)
        return cast("Instant | None", self.answer(after))


def raising(error: BaseException) -> Callable[[Instant], Any]:
    def answer(after: Instant) -> Any:
        raise error

    return answer


WRONG: dict[str, Callable[[Instant], Any]] = {
    "overflows": raising(OverflowError("date value out of range")),
    "fails": raising(ValueError("no such month")),
    "exits": raising(SystemExit(3)),
    "is interrupted": raising(KeyboardInterrupt()),
    "gives a fire past the calendar": lambda after: MAX_INSTANT + 1,
    "gives a negative fire": lambda after: Instant(-(2**63)),
    "gives the same fire": lambda after: after,
    "gives infinity": lambda after: float("inf"),
    "gives a text": lambda after: "tomorrow",
}
"""What a rule may do wrong -> an answer that does it."""
