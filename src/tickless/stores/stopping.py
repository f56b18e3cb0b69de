"""The stop flag of a run, once somebody looks at it: can be waited for, and calls whoever cannot wait."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock

from tickless.core.record import RunRecord


class StopEvent:
    """An event with calls for when it is set."""

    __slots__ = ("_calls", "_event", "_guard")

    def __init__(self) -> None:
        self._event = Event()
        self._guard = Lock()
        self._calls: list[Callable[[], object]] | None = []
        """None once it is set."""

    def call(self, callback: Callable[[], object]) -> None:
        """Have it called once: when this is set, under the lock of the store, or else now."""
        with self._guard:
            if self._calls is not None:
                self._calls.append(callback)
                return
        callback()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until it is set: True; or for `timeout` seconds: False."""
        return self._event.wait(timeout)

    def set(self) -> None:
        with self._guard:
            calls, self._calls = self._calls, None
        self._event.set()
        for call in calls or ():
            call()


def stop_event(run: RunRecord) -> StopEvent:
    """The flag of the run, made where nobody has looked yet. Under the lock of the store."""
    flag = run.stop
    if not isinstance(flag, StopEvent):
        made = StopEvent()
        if flag is True:
            made.set()
        run.stop = flag = made
    return flag
