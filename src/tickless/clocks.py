"""The machine's clock, and the helper thread that notices when it is set or the machine wakes from suspend."""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from tickless.instants import SECOND_US, Instant, Waitable

LONGEST_SLEEP_S = threading.TIMEOUT_MAX / 2
"""No sleep is longer: `threading.TIMEOUT_MAX` (292 years, on Windows 49 days) is an error to pass."""
UNWATCHED_SLEEP_S = 30.0
"""The longest sleep where nothing tells of a step or a resume: so late can either be noticed."""

# A partial, since it is quicker than loading the number of the clock at each call.
_elapsed_ns: Callable[[], int]
if sys.platform == "linux":
    _elapsed_ns = partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
elif sys.platform != "win32":
    # On macOS this counts suspend, and `time.monotonic_ns` does not.
    _elapsed_ns = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)
else:
    _elapsed_ns = time.monotonic_ns


def elapsed_us() -> int:
    """Microseconds since the boot, or since another instant that all processes of one boot share. Never goes back."""
    return _elapsed_ns() // 1000


def boot_id() -> str:
    """A text that all processes of one boot of this machine agree on, and that another boot does not have.

    Where the system gives none, it is the wall time of the boot, to 10 s: there a clock that was set looks like a boot.
    """
    try:
        return _boot_name()
    except (OSError, ImportError, AttributeError, UnicodeDecodeError):
        booted_us = time.time_ns() // 1000 - elapsed_us()
        return f"booted-at-{round(booted_us / (10 * SECOND_US)) * 10}"


if sys.platform == "darwin":

    def _boot_name() -> str:
        import ctypes  # asked for once in a process: not worth the time of every import of tickless

        name, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.sysctlbyname(b"kern.bootsessionuuid", name, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            raise OSError(ctypes.get_errno(), "kern.bootsessionuuid")
        return _named(name.value)

else:

    def _boot_name() -> str:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return _named(file.read(100))


def _named(text: bytes) -> str:
    name = text.decode("ascii").strip()
    if not name:
        raise OSError(errno.ENODATA, "this boot has no name")
    return name


class SystemClock:
    """The wall clock at the time it was made, plus the time elapsed since. See `instants.Clock`.

    Elapsed time counts suspend on Linux (CLOCK_BOOTTIME) and macOS. Any number of schedulers may share one.
    With `base_us`, `now()` is that plus `elapsed_us()`: clocks of one base agree in all processes of a boot.
    """

    __slots__ = ("_base_us", "_watched")

    def __init__(self, base_us: int | None = None) -> None:
        self._base_us = time.time_ns() // 1000 - elapsed_us() if base_us is None else base_us
        self._watched: set[Waitable] = set()

    def now(self) -> Instant:
        """Costs about 110 ns, half of it the system's."""
        return self._base_us + _elapsed_ns() // 1000  # type: ignore[return-value]  # Instant() would cost 30 ns

    def wall(self) -> Instant:
        """The wall clock, to the microsecond."""
        return Instant(time.time_ns() // 1000)

    def wait(self, bell: Waitable, until: Instant | None) -> None:
        """Sleep once, at most until `until` in `now()`; not at all when it is past. The caller looks at the clock.

        Returns early at a ring, and after 30 s when the bell is not watched (see `watch`): both are for the caller
        to look around. Does not spin at the end: `now()` rounds down and the system's timeouts round up, so a sleep
        of `until - now()` ends at `until` or later.
        """
        if until is None:
            bell.wait(None)
            return
        left_us = until - self.now()
        if left_us > 0:
            longest_s = LONGEST_SLEEP_S if bell in self._watched else UNWATCHED_SLEEP_S
            bell.wait(min(left_us / SECOND_US, longest_s))

    @contextmanager
    def watch(self, bell: Waitable) -> Iterator[None]:
        """While inside, ring when the wall clock is set and at a resume, and let `wait` sleep longer than 30 s.

        Linux only; elsewhere, and where the system refuses, this does nothing and the 30 s stay.
        """

        def blind() -> None:
            self._watched.discard(bell)
            bell.ring()  # A sleeper that counts on the watcher sleeps anew, for 30 s at most.

        self._watched.add(bell)
        try:
            with watching_steps(bell.ring, blind):
                yield
        finally:
            self._watched.discard(bell)


# The step watcher. A timer on CLOCK_REALTIME that is set to an absolute time with TFD_TIMER_CANCEL_ON_SET becomes
# readable, and the read fails with ECANCELED, whenever the offset between CLOCK_REALTIME and CLOCK_MONOTONIC jumps:
#   - at clock_settime, settimeofday, a step by adjtimex, and a leap second (fs/timerfd.c, timerfd_clock_was_set);
#     not while NTP slews, which changes the rate and not the offset;
#   - at a resume, since the wall goes on while CLOCK_MONOTONIC stands still. Linux 5.15 and later call
#     timerfd_resume from timekeeping_resume; before, hrtimers_resume and clock_was_set led there. Where only
#     the RTC driver knows how long the machine slept, it sets the clock a little later, which is the first case.
#     So no second timer on CLOCK_BOOTTIME is needed.
# A virtual machine that is paused from outside does not know it: there the ring comes when its clock is set right.
# The read arms the timer for the next step.

_NEVER_S = 2**33
"""The year 2242. The kernel counts nanoseconds in 63 bits, which end in 2262."""
_TIMER_FLAGS = 1 | 2  # TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET


if sys.platform != "linux":

    @contextmanager
    def watching_steps(ring: Callable[[], None], blind: Callable[[], None]) -> Iterator[None]:
        """No watcher here: `blind` is called at once."""
        blind()
        yield

else:

    @contextmanager
    def watching_steps(ring: Callable[[], None], blind: Callable[[], None]) -> Iterator[None]:
        """While inside, call `ring` at each step and resume, from a thread of its own; `blind` where that fails."""
        try:
            timer = _new_timer()
        except (OSError, AttributeError):
            blind()  # Refused by a sandbox, no descriptors left, or a Python built without it.
            yield
        else:
            with watching(timer, ring, blind):
                yield

    if sys.version_info >= (3, 13):

        def _new_timer() -> int:
            fd = os.timerfd_create(time.CLOCK_REALTIME, flags=os.TFD_CLOEXEC | os.TFD_NONBLOCK)
            try:
                os.timerfd_settime_ns(fd, flags=_TIMER_FLAGS, initial=_NEVER_S * 1_000_000_000)
            except OSError:
                os.close(fd)
                raise
            return fd

    else:
        # Now, and not in the dispatcher's thread: a fork while that thread imports would leave the import's lock to the
        # child for ever, and hang the scheduler that is made there. See test_BUG_040.
        try:
            import ctypes
        except ImportError:
            ctypes = None  # type: ignore[assignment]  # a Python built without it: an AttributeError, see above

        def _new_timer() -> int:
            if ctypes.sizeof(ctypes.c_long) != 8:
                raise OSError(errno.ENOSYS, "on 32-bit systems the width of a timespec cannot be known from here")
            libc = ctypes.CDLL(None, use_errno=True)
            fd: int = libc.timerfd_create(time.CLOCK_REALTIME, os.O_CLOEXEC | os.O_NONBLOCK)
            if fd < 0:
                raise OSError(ctypes.get_errno(), "timerfd_create")
            # struct itimerspec: the interval, then the time; each in seconds and nanoseconds.
            never = (ctypes.c_long * 4)(0, 0, _NEVER_S, 0)
            if libc.timerfd_settime(fd, _TIMER_FLAGS, never, None) < 0:
                os.close(fd)
                raise OSError(ctypes.get_errno(), "timerfd_settime")
            return fd

    @contextmanager
    def watching(timer: int, ring: Callable[[], None], blind: Callable[[], None]) -> Iterator[None]:
        """Run `ring_on_steps` in a daemon thread while inside. Owns `timer`, and closes it.

        `blind` is called when the watcher cannot start, or ends by itself.
        """
        owner = os.getpid()

        def watch() -> None:
            if not ring_on_steps(timer, stop, ring):
                blind()

        def end() -> None:
            # A forked child has no such thread, and its eventfd is the parent's too: a write would end the parent's
            # watcher. At interpreter exit the thread may be frozen: joining it would hang.
            if os.getpid() == owner and not sys.is_finalizing():
                os.eventfd_write(stop, 1)
                thread.join()

        with ExitStack() as at_end:
            at_end.callback(os.close, timer)
            try:
                stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                at_end.callback(os.close, stop)
                thread = threading.Thread(target=watch, name="tickless-clock", daemon=True)
                thread.start()
            except (OSError, RuntimeError):
                blind()  # No descriptors or no threads left: the scheduler works without.
            else:
                at_end.callback(end)
            yield

    def ring_on_steps(timer: int, stop: int, ring: Callable[[], None]) -> bool:
        """Ring each time that `timer` becomes readable. True: ended by `stop`. False: `timer` is of no use any more.

        Sleeps in one system call for as long as nothing happens; signals do not end it (PEP 475).
        """
        poller = select.poll()
        poller.register(timer, select.POLLIN)
        poller.register(stop, select.POLLIN)
        while True:
            ready = dict(poller.poll())
            if stop in ready:
                return True
            if not _read_step(timer):
                return False
            ring()

    def _read_step(timer: int) -> bool:
        """Make `timer` wait for the next step. False when it cannot."""
        try:
            return bool(os.read(timer, 8))
        except BlockingIOError:
            return True  # A forked child has read it first: it was a step all the same.
        except OSError as error:
            return error.errno == errno.ECANCELED
