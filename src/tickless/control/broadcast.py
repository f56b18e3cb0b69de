"""Events for who connects while a scheduler runs: the newest are kept, and the others come as they happen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Full, Queue
from threading import Lock

from tickless.observe.console import ConsoleObserver
from tickless.records import Event

KEPT = 1_000
"""How many events are kept for who asks later."""
MOST_WAITING = 10_000
"""How many events wait for a listener that is slow; those that come then are not sent to it."""
Ear = Queue[Event | None]


class Broadcast:
    """An observer that others can listen to. None in an ear: it is over."""

    kinds = ConsoleObserver.kinds  # no more than the live log wants, so that no event is built for this alone

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: deque[Event] = deque(maxlen=KEPT)
        self._ears: list[Ear] = []
        self._closed = False

    def observe(self, events: Sequence[Event]) -> None:
        with self._lock:
            self._kept.extend(events)
            for ear in self._ears:
                try:
                    for event in events:
                        ear.put_nowait(event)
                except Full:
                    continue

    def newest(self, limit: int) -> list[Event]:
        """At most `limit` of those that are kept, oldest first."""
        with self._lock:
            return self._newest(limit)

    def _newest(self, limit: int) -> list[Event]:
        return list(self._kept)[max(0, len(self._kept) - limit) :]

    @contextmanager
    def listening(self, before: int = 0) -> Iterator[Ear]:
        """An ear into which all events come from now on, and None at the end of them.

        `before`: at most so many of those that are kept come first, and none of them twice.
        """
        ear: Ear = Queue(MOST_WAITING + 1)
        with self._lock:
            for event in self._newest(before):
                ear.put_nowait(event)
            if self._closed:
                ear.put_nowait(None)
            self._ears.append(ear)
        try:
            yield ear
        finally:
            with self._lock:
                self._ears.remove(ear)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for ear in self._ears:
                if ear.full():
                    ear.get_nowait()
                ear.put_nowait(None)
