"""What a task of the properties may be asked to do, in words that both the store and the oracle understand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tickless.instants import SECOND_US, Instant, datetime_of
from tickless.rules import Rule, after, at, every

Kind = Literal["now", "after", "at", "every", "sliding", "anchored", "own"]
S = SECOND_US


class Box:
    """What a test can change under a rule: a user's own rule is code, and code breaks."""

    def __init__(self) -> None:
        self.breaks: Literal["", "raises", "lies"] = ""
        self.probe: Callable[[], object] = lambda: None
        """Called whenever the rule is asked."""


@dataclass(frozen=True)
class OwnRule:
    """A user's own rule: fires at each multiple of `step_us` up to `last`, until it is broken."""

    step_us: int
    last: int
    box: Box = field(compare=False, repr=False)
    recurring = True
    wall = False

    def bound(self, now: Instant) -> OwnRule:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.box.probe()
        if self.box.breaks == "raises":
            raise ValueError("a rule's own fault")
        if self.box.breaks == "lies":
            return after
        fire = (after // self.step_us + 1) * self.step_us
        return Instant(fire) if fire <= self.last else None


@dataclass(frozen=True)
class When:
    """`us` is the delay, the interval, or for "at" and "own" an instant: of the fire, and of the last one."""

    kind: Kind = "now"
    us: int = 0
    step_us: int = S
    """Of "own" alone: the interval."""
    box: Box = field(default_factory=Box, compare=False, repr=False)

    @property
    def recurring(self) -> bool:
        return self.kind in ("every", "sliding", "anchored", "own")

    @property
    def wall(self) -> bool:
        return self.kind in ("at", "anchored")

    def rule(self) -> Rule | None:
        """The rule as a user would write it."""
        if self.kind == "now":
            return None
        if self.kind == "at":
            return at(datetime_of(Instant(self.us)))
        if self.kind == "own":
            return OwnRule(self.step_us, self.us, self.box)
        seconds = self.us / S
        if self.kind == "after":
            return after(seconds)
        if self.kind == "anchored":
            return every(seconds=seconds, anchor="epoch")
        return every(seconds=seconds, sliding=self.kind == "sliding")


@dataclass
class Fires:
    """The oracle's own arithmetic of a schedule that was bound at `start`: a grid, and nothing of the library's."""

    when: When
    start: int

    @property
    def _step(self) -> int:
        return self.when.step_us if self.when.kind == "own" else self.when.us

    def next_after(self, t: int) -> int | None:
        """The first fire strictly after `t`."""
        if self.when.kind == "sliding":
            return self.start + self._step if t < self.start + self._step else None
        grid = self.start if self.when.kind == "every" else 0
        fire = max(grid + self._step if self.when.kind == "every" else 0, grid + (t - grid) // self._step * self._step)
        while fire <= t:
            fire += self._step
        return None if self.when.kind == "own" and fire > self.when.us else fire

    def between(self, low: int, high: int) -> tuple[int, int, int] | None:
        """(count, first, last) of the fires in (low, high]. A user's own rule is counted to 1,000, which means more."""
        first = self.next_after(low)
        if first is None or first > high:
            return None
        if self.when.kind == "own":
            high = min(high, self.when.us)
        last = first if self.when.kind == "sliding" else first + (high - first) // self._step * self._step
        count = (last - first) // self._step + 1
        return min(count, 1_000) if self.when.kind == "own" else count, first, last
