"""`start=` and `until=` of `schedule`: a recurring rule confined to a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from tickless.instants import Instant, datetime_of
from tickless.rules.every import Every
from tickless.rules.zones import MissingTime

if TYPE_CHECKING:
    from tickless.rules.asking import Rule


@final
@dataclass(frozen=True, slots=True, repr=False)
class Window:
    """The fires of `rule` from `first` to `last`, both of them included, on the rule's own clock; None: no such end.

    A rule that counts from when it is scheduled counts from `first` instead. Not what users write: they say `start=`
    and `until=`, which belong to the schedule and not to the rule.
    """

    rule: Rule
    first: Instant | None
    last: Instant | None
    recurring = True

    @property
    def wall(self) -> bool:
        """That of the rule."""
        return self.rule.wall

    def bound(self, now: Instant) -> Window:
        """The same with its rule bound; itself, where that changes nothing."""
        return self.of(self.rule.bound(self._begin(now)))

    def _begin(self, now: Instant) -> Instant:
        if self.first is None:
            return now
        if type(self.rule) is not Every:
            return self.first
        if self.rule.sliding and now >= self.first:
            return now  # from there on it counts from the finish of each run
        return Instant(self.first - self.rule.interval_us)  # so that `first` is its first fire

    def next_after(self, after: Instant) -> Instant | None:
        """The first fire strictly after `after`, or None when there is none up to `last`."""
        try:
            fire = self.rule.next_after(self.clipped(after))
        except MissingTime as missing:  # gap="raise": its turn would come after the end
            if self.last is not None and missing.end > self.last:
                return None
            raise
        return fire if fire is None or self.last is None or fire <= self.last else None

    def clipped(self, after: Instant) -> Instant:
        """The later of `after` and the instant just before `first`."""
        return after if self.first is None else max(after, Instant(self.first - 1))

    def of(self, rule: Rule) -> Window:
        """The same of the rule in another state, bound or not."""
        return self if rule is self.rule else Window(rule, self.first, self.last)

    def __repr__(self) -> str:
        ends = (("start", self.first), ("until", self.last))
        return repr(self.rule) + "".join(f", {name}={datetime_of(at)!r}" for name, at in ends if at is not None)

    def __str__(self) -> str:
        ends = (("from", self.first), ("until", self.last))
        said = "".join(f", {word} {datetime_of(at):%Y-%m-%d %H:%M:%S} UTC" for word, at in ends if at is not None)
        return f"{self.rule}{said}"
