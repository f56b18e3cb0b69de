"""What a process does to schedulers: signals, fork, and the end of the interpreter."""

from __future__ import annotations

import concurrent.futures.thread  # imported first, so that our exit hook runs before the one that closes its pools
import os
import signal
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol, TypeVar

from tickless.clocks import SystemClock
from tickless.instants import Instant

assert concurrent.futures.thread  # the import is the point


T = TypeVar("T")

ONE_PRESS_US = 100_000
"""Signals of one number that come within this are one press of Ctrl-C, or one stop, told twice: by the terminal to all
that run in it and once more by the program in between, such as `timeout` or `npm`."""


_REAL = SystemClock()


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


class SignalBell:
    """What the main thread waits on while signals may come: a pair of sockets, of which the interpreter writes to one.

    A thread that waits for a lock can miss a signal that comes just before it sleeps: Python notes it, and calls the
    handler when that thread wakes, which may be never. A byte in a socket is still there when the wait begins.
    """

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._there.setblocking(False)

    @property
    def ear(self) -> socket.socket:
        """Readable once there was a ring: for who waits for more than this."""
        return self._here

    def fileno(self) -> int:
        """What `signal.set_wakeup_fd` writes to."""
        return self._there.fileno()

    def ring(self) -> None:
        """End the wait that goes on, or else the next one. Never blocks."""
        try:
            self._there.send(b"\0")
        except OSError:  # so many rings are there that no more fit; or it is closed
            pass

    def wait(self) -> None:
        """Sleep until a ring or a signal. One that came before counts."""
        self._here.recv(4096)

    def close(self) -> None:
        self._here.close()
        self._there.close()


def beside(bell: SignalBell, call: Callable[[], T]) -> T:
    """What the call gives, made in a thread of its own while this one waits on the bell: it misses no signal.

    For the main thread, and for calls that wait on a lock: see `SignalBell`.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def body() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            future.set_exception(error)
        finally:
            bell.ring()

    thread = threading.Thread(target=body, name="tickless-end", daemon=True)
    thread.start()
    while not future.done():
        bell.wait()
    thread.join()
    return future.result()


@contextmanager
def stop_signals(
    stop: Callable[[], None],
    bell: SignalBell,
    at_last: Callable[[], None] | None = None,
    now: Callable[[], Instant] = _REAL.now,
) -> Iterator[list[int]]:
    """While inside, the first SIGINT or SIGTERM calls `stop`, and a second one of either ends the process at once:
    if of the same number, from 0.1 s after the first.

    `at_last` is called before that end, in the signal handler. Any signal rings the bell, unless the program has a
    wake-up descriptor of its own. Gives the list of the signals that came. In a thread other than the main one, where
    Python takes no handlers, and for a signal that the program ignores, nothing changes.
    """
    came: list[int] = []
    until = 0
    """Until when the first one may arrive again."""

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal until
        if came:
            if number == came[0] and now() < until:
                return
            if at_last is not None:
                at_last()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        came.append(number)
        until = now() + ONE_PRESS_US
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {}
    wakes = signal.set_wakeup_fd(bell.fileno(), warn_on_full_buffer=False)
    if wakes != -1:
        signal.set_wakeup_fd(wakes)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handle)
    try:
        yield came
    finally:
        if wakes == -1:
            signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
