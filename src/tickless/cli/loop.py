"""The main thread of `tickless run`: sleeps until a signal comes, a file changes, or every task has ended."""

from __future__ import annotations

import selectors
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from tickless.cli.watch import Watch
from tickless.instants import Instant
from tickless.lifetime import SignalBell, beside, stop_signals
from tickless.scheduler import Scheduler
from tickless.waits import deadline_of, left_s

QUIET_S = 0.2
"""So long after the last change a file is read: an editor changes it more than once."""


@dataclass
class Reloading:
    """What is read again on SIGHUP, and when its file changes."""

    watch: Watch
    reload: Callable[[], None]


def sleep_until_end(
    scheduler: Scheduler,
    end: Callable[[int | None], None],
    reloading: Reloading | None = None,
    at_last: Callable[[], None] | None = None,
    deadline: Instant | None = None,
) -> int | None:
    """Start it, and sleep until every task has ended, or a signal comes, whose number is returned, or the deadline.
    Then `end` it.

    A second signal ends the process, `at_last` first, while it sleeps and while it is ended. Costs no wake-up while
    nothing happens.
    """
    bell, ended = SignalBell(), threading.Event()

    def wait_for_all() -> None:
        scheduler.wait()
        ended.set()
        bell.ring()

    with stop_signals(bell.ring, bell, at_last) as came, _hang_ups(reloading) as hung_up:
        scheduler.start()
        threading.Thread(target=wait_for_all, name="tickless-wait", daemon=True).start()
        with _Sleep(bell, reloading, deadline) as sleep:
            while not came and not ended.is_set() and left_s(deadline) != 0:
                if sleep.until_change() or hung_up:
                    hung_up.clear()
                    if reloading is not None and not came:
                        reloading.reload()
        beside(bell, lambda: end(came[0] if came else None))
    if ended.is_set():  # else that thread may ring yet
        bell.close()
    return came[0] if came else None


class _Sleep:
    """The wait for the bell and for a change of the file."""

    def __init__(self, bell: SignalBell, reloading: Reloading | None, deadline: Instant | None) -> None:
        self._bell = bell
        self._deadline = deadline
        self._watch = None if reloading is None else reloading.watch
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> _Sleep:
        self._selector.register(self._bell.ear, selectors.EVENT_READ, self._bell)
        number = None if self._watch is None else self._watch.fileno()
        if number is not None:
            self._selector.register(number, selectors.EVENT_READ, self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def until_change(self) -> bool:
        """Sleep until the bell rings or the deadline comes (False), or the file has changed and has been left alone for
        a moment (True).

        What else is written in its folder, a log of its own tasks, puts nothing off.
        """
        changed, quiet = False, None
        while True:
            ready = self._selector.select(left_s(self._deadline if quiet is None else quiet))
            for key, _ in ready:
                if key.data is self._bell:
                    self._bell.wait()
                    return changed
                if self._watch is not None and self._watch.has_changed():
                    changed, quiet = True, deadline_of(QUIET_S)
            if left_s(self._deadline if quiet is None else quiet) == 0:
                return changed


@contextmanager
def _hang_ups(reloading: Reloading | None) -> Iterator[list[int]]:
    """While inside, SIGHUP is noted in the list, where there is something to be read again."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    if reloading is None or not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        yield came
        return
    before = signal.signal(signal.SIGHUP, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGHUP, before)
