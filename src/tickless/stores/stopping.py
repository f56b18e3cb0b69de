"""The stop flag of a run, once somebody looks at it: can be waited for, and calls whoever cannot wait."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock

from tickless.core.record import RunRecord


class StopEvent(Event):
    """An event with calls for when it is set."""

    def __init__(self) -> None:
        super().__init__()
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

    def set(self) -> None:
        with self._guard:
            calls, self._calls = self._calls, None
        super().set()
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
