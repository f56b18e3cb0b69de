"""Rules as users write them: good ones without arithmetic of their own, and broken ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from tickless.instants import SECOND_US, Instant
from tickless.rules import Rule


@dataclass(frozen=True)
class Squares:
    """Fires at 0, 1, 4, 9, ... `unit_us`: the gaps grow, so nothing can be found by one division. Ends after `last`."""

    unit_us: int = SECOND_US
    last: int = 10**9
    recurring = True
    wall = False

    def bound(self, now: Instant) -> Squares:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        root = 0 if after < 0 else math.isqrt(after // self.unit_us) + 1
        return Instant(root * root * self.unit_us) if root <= self.last else None


@dataclass(frozen=True)
class OneShot:
    """A one-shot of somebody else's."""

    due: Instant
    recurring = False
    wall = True

    def bound(self, now: Instant) -> OneShot:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        return self.due if after < self.due else None


@dataclass(frozen=True)
class Says:
    """Gives whatever `answer` gives: for rules that lie."""

    answer: Callable[[int], Any]
    recurring = True
    wall = False

    def bound(self, now: Instant) -> Rule:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        return cast("Instant | None", self.answer(after))


@dataclass(frozen=True)
class Spans(Squares):
    """Has a `span` of its own, which gives whatever `answer` gives."""

    answer: Callable[[int, int], Any] = lambda after, until: None

    def span(self, after: Instant, until: Instant) -> Any:
        return self.answer(after, until)
