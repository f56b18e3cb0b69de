"""The live log of `tickless run`: a ConsoleObserver that stays readable when a thousand tasks end in one second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TextIO

from tickless.instants import SECOND_US
from tickless.observe.console import ConsoleObserver
from tickless.records import Event, EventKind
from tickless.states import Reason

LINES_PER_SECOND = 3
_BRIEF = frozenset({EventKind.SUCCEEDED, EventKind.SKIPPED, EventKind.CANCELLED})
_Likeness = tuple[EventKind, str | None, Reason | None]


class LiveLog:
    """Prints what happens and counts how it ended.

    Of one second's ends of one kind, name and reason the first three have a line each; the others share a line, which
    comes before the next line of something else. Failures and troubles have all theirs. Where a task has an id
    besides its name, both are shown.
    """

    kinds = ConsoleObserver.kinds

    def __init__(self, stream: TextIO, *, starts: bool = False) -> None:
        """`starts`: a line for each start, too."""
        self._console = ConsoleObserver(stream, starts=starts)
        self._second = 0
        self._lines: Counter[_Likeness] = Counter()
        self._held: dict[_Likeness, Event] = {}
        """The latest event of each likeness, with the count of all."""
        self.counts: Counter[EventKind] = Counter()
        """How many runs ended each way; a task that was cancelled between two runs counts as one."""

    def observe(self, events: Sequence[Event]) -> None:
        self._console.observe([shown for event in events for shown in self._shown(event)])

    def close(self) -> None:
        self._console.observe(list(self._release()))

    def _shown(self, event: Event) -> Iterator[Event]:
        self.counts[event.kind] += event.count
        if event.kind is EventKind.STARTED:  # the console notes it, and prints the end
            yield event
            return
        if event.at_us // SECOND_US != self._second:
            self._second = event.at_us // SECOND_US
            self._lines.clear()
            yield from self._release()
        if event.kind in _BRIEF:
            alike = (event.kind, event.name, event.reason)
            self._lines[alike] += 1
            if self._lines[alike] > LINES_PER_SECOND:
                self._hold(alike, event)
                return
        yield from self._release()
        yield _with_id(event)

    def _hold(self, alike: _Likeness, event: Event) -> None:
        before = self._held.pop(alike, None)
        self._held[alike] = event if before is None else event._replace(count=before.count + event.count)

    def _release(self) -> Iterator[Event]:
        """The lines that stand for many: no id and no due, since they have no lateness and no duration of their own."""
        for event in self._held.values():
            if event.count == 1:
                yield _with_id(event)
            else:
                name = f"{event.name or event.task_id} ({event.count} more)"
                yield event._replace(name=name, count=1, task_id=None, due_us=None)
        self._held.clear()


def _with_id(event: Event) -> Event:
    """The event under its name and id: of six hundred tasks of one name, which was it?"""
    if event.name and event.task_id and event.name != event.task_id and not event.task_id.startswith("#"):
        return event._replace(name=f"{event.name} ({event.task_id})")
    return event
