"""What a process does to schedulers: signals, fork, and the end of the interpreter."""

from __future__ import annotations

import concurrent.futures.thread  # imported first, so that our exit hook runs before the one that closes its pools
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

assert concurrent.futures.thread  # the import is the point


class Mortal(Protocol):
    """A scheduler, as seen from here."""

    def _after_fork(self) -> None: ...
    def _at_exit(self) -> None: ...


_alive: weakref.WeakSet[Mortal] = weakref.WeakSet()


def remember(scheduler: Mortal) -> None:
    """Have it told of a fork and of the interpreter's end. It is not kept alive."""
    _alive.add(scheduler)


def _tell_child() -> None:
    for scheduler in list(_alive):
        scheduler._after_fork()


def _tell_exit() -> None:
    for scheduler in list(_alive):
        scheduler._at_exit()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_tell_child)

# At the ordinary atexit the thread pools have been joined already, and the runs that they would still have taken would
# fail for want of a pool. concurrent.futures itself uses this hook; should it go, the ordinary one is the next best.
_register: Callable[[Callable[[], None]], object] | None = getattr(threading, "_register_atexit", None)
if _register is not None:
    _register(_tell_exit)
else:
    import atexit

    atexit.register(_tell_exit)


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[list[int]]:
    """While inside, the first SIGINT or SIGTERM calls `stop`, and a second one of either ends the process at once.

    Gives the list of the signals that came. In a thread other than the main one, where Python takes no handlers, and
    for a signal that the program ignores, nothing changes.
    """
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if came:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        came.append(number)
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handle)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
