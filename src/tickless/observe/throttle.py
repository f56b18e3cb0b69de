"""Which repeats of one thing are worth a line. Pure: time comes with the events, no clock is read."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from tickless.instants import SECOND_US
from tickless.records import Event

MINUTE_US = 60 * SECOND_US
FIRST_SILENCE_US = MINUTE_US
LONGEST_SILENCE_US = 60 * MINUTE_US
QUIET_US = 10 * MINUTE_US


class Line(NamedTuple):
    """One line to write: the event, and how many like it came since the last line and have none of their own."""

    event: Event
    unlogged: int
    fresh: bool
    """True: the first, or the first after ten quiet minutes: write it in full."""


class _Repeat:
    """What is known of one key. `held` counts the events since the last line, `latest` included."""

    __slots__ = ("held", "latest", "loud_us", "seen_us", "silence_us")

    def __init__(self, event: Event) -> None:
        self.seen_us: int = event.at_us
        self.silence_us = FIRST_SILENCE_US
        self.loud_us: int = event.at_us + FIRST_SILENCE_US
        self.held = 0
        self.latest = event

    def line(self, at_us: int) -> Line:
        """The held ones as one line, after which the silence is twice as long."""
        unlogged, self.held = self.held - self.latest.count, 0
        self.silence_us = min(2 * self.silence_us, LONGEST_SILENCE_US)
        self.loud_us = at_us + self.silence_us
        return Line(self.latest, unlogged, fresh=False)


class Throttle:
    """The first of a key at once; then one line after 1, 2, 4, ... at most 60 minutes, with the count of the others.

    A key of which nothing was heard for ten minutes is new again. Over all lines, `count + unlogged` adds up to the
    events given: nothing is lost. At most `most_keys` are remembered; a forgotten one gives its line first.
    """

    def __init__(self, most_keys: int = 1000) -> None:
        self._most_keys = most_keys
        self._repeats: dict[Hashable, _Repeat] = {}  # the longest unheard of first
        self._next_us: int | None = None  # no held line is due before this

    def add(self, key: Hashable, event: Event) -> list[Line]:
        """The lines to write now that `event` happened: often none, sometimes one, more when others are due too."""
        lines: list[Line] = []
        repeat = self._repeats.pop(key, None)
        if repeat is None or abs(event.at_us - repeat.seen_us) >= QUIET_US:
            held = 0 if repeat is None else repeat.held
            self._repeats[key] = _Repeat(event)
            lines.append(Line(event, held, fresh=True))
        else:
            self._repeats[key] = repeat
            repeat.seen_us = max(repeat.seen_us, event.at_us)
            repeat.held += event.count
            repeat.latest = event
            if event.at_us >= repeat.loud_us:
                lines.append(repeat.line(event.at_us))
            elif self._next_us is None or repeat.loud_us < self._next_us:
                self._next_us = repeat.loud_us
        lines += self._due(event.at_us)
        if len(self._repeats) > self._most_keys:
            oldest = self._repeats.pop(next(iter(self._repeats)))
            if oldest.held:
                lines.append(oldest.line(event.at_us))
        return lines

    def _due(self, at_us: int) -> list[Line]:
        """The held lines whose silence is over: any event brings them along, since no clock is read."""
        if self._next_us is None or at_us < self._next_us:
            return []
        lines = [r.line(at_us) for r in self._repeats.values() if r.held and at_us >= r.loud_us]
        self._next_us = min((r.loud_us for r in self._repeats.values() if r.held), default=None)
        return lines

    def flush(self) -> list[Line]:
        """One line for each key that holds something; then all is forgotten."""
        lines = [repeat.line(repeat.seen_us) for repeat in self._repeats.values() if repeat.held]
        self._repeats.clear()
        self._next_us = None
        return lines
