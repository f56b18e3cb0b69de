"""Events as lines of the standard library's logging: the observer that is on unless others are given.

No handler is installed, not even a NullHandler: where nobody has configured logging, Python's own last resort prints
warnings and errors to stderr, and a failed task is seen.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence

from tickless.observe.text import printable, printable_lines, shape_of
from tickless.observe.throttle import Line, Throttle
from tickless.records import Event, EventKind
from tickless.states import Reason

LOGGER = logging.getLogger("tickless")

LEVELS = {
    EventKind.FAILED: logging.ERROR,
    EventKind.TROUBLE: logging.ERROR,
    EventKind.STORE_DOWN: logging.ERROR,
    EventKind.STORE_UP: logging.WARNING,
    EventKind.RETRY: logging.WARNING,
    EventKind.SKIPPED: logging.WARNING,
    EventKind.DROPPED: logging.WARNING,
}
"""All other kinds are DEBUG."""

_OF_MANY = frozenset(
    {Reason.PARENT_FAILED, Reason.PARENT_CANCELLED, Reason.PARENT_SKIPPED, Reason.RUN_IF, Reason.CLOSED}
)
"""One cause skips thousands of descendants: these skips are alike whatever their task."""


class LogObserver:
    """Failures with their traceback at ERROR, retries and skips at WARNING, repeats summarised; success costs nothing.
    A skip because no parent ended the way that `run_if` asks for is at INFO.

    One line an event: the name, what happened, then key=value. Of equal failures of one task, and of equal skips, the
    first has its line; the next lines come 1, 2, 4, ... at most 60 minutes apart, and `unlogged=` says how many there
    were between. One traceback is shown once in that way, whoever raised it. The rest is written by `close`.

    The other kinds are wanted only if the logger is enabled for DEBUG when this is made.
    """

    def __init__(self, logger: logging.Logger = LOGGER) -> None:
        self._logger = logger
        self._lines = Throttle()
        self._traces = Throttle()
        self.kinds = frozenset(EventKind) if logger.isEnabledFor(logging.DEBUG) else frozenset(LEVELS)

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind in LEVELS:
                for line in self._lines.add(_likeness(event), event):
                    self._write(line)
            else:
                self._logger.debug("%s", _text(event, 0))

    def close(self) -> None:
        """Write what is held back. It may be used again."""
        for line in self._lines.flush():
            self._write(line)
        self._traces.flush()

    def _write(self, line: Line) -> None:
        event = line.event
        text = _text(event, line.unlogged)
        if event.traceback and line.fresh and self._is_new(event, event.traceback):
            text += f"\n{printable_lines(event.traceback)}"
        # A condition that did not hold is what conditions are for.
        level = logging.INFO if event.reason is Reason.RUN_IF else LEVELS[event.kind]
        self._logger.log(level, "%s", text)

    def _is_new(self, event: Event, traceback: str) -> bool:
        """False for a traceback that was written a while ago: a thousand tasks that fail alike show it once."""
        key = hash(shape_of(traceback))
        return any(line.fresh and line.event is event for line in self._traces.add(key, event))


def _likeness(event: Event) -> Hashable:
    """Events of one likeness are repeats of one another: see the class."""
    if event.kind is EventKind.SKIPPED:
        return event.kind, event.reason, None if event.reason in _OF_MANY else event.task_id
    return event.kind, event.task_id, event.name, shape_of((event.error or "")[:500])


def _text(event: Event, unlogged: int) -> str:
    words = [printable(event.name or event.task_id or "tickless"), str(event.kind)]
    if event.task_id and event.name and event.task_id != event.name:
        words.append(f"id={printable(event.task_id)}")
    due = event.due
    if due is not None:
        words.append(f"due={due.isoformat()}")
    if event.reason is not None:
        words.append(f"reason={event.reason}")
    if event.count != 1:
        words.append(f"count={event.count}")
    if unlogged:
        words.append(f"unlogged={unlogged}")
    if event.error:
        words.append(f"error={printable(event.error, 1000)}")
    return " ".join(words)
