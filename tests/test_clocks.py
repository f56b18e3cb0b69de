"""The machine's clock, and the thread that watches for steps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tickless import clocks
from tickless.bell import Bell
from tickless.clocks import LONGEST_SLEEP_S, UNWATCHED_SLEEP_S, SystemClock, boot_id, elapsed_us
from tickless.instants import MAX_INSTANT, SECOND_US, Clock, Instant
from tickless.testing.clock_suite import ClockSuite

PATIENCE_S = 10.0
HOUR_US = 3_600 * SECOND_US

linux = pytest.mark.skipif(sys.platform != "linux", reason="the step watcher is for Linux")


class TestSystemClock(ClockSuite):
    def make_clock(self) -> Clock:
        return SystemClock()

    def pass_time(self, clock: Clock, us: int) -> None:
        until = Instant(clock.now() + us)
        while clock.now() < until:
            clock.wait(Bell(), until)


class RecordingBell:
    """A bell that notes for how long it was asked to sleep, and returns at once."""

    def __init__(self) -> None:
        self.timeouts: list[float | None] = []
        self.rung = threading.Event()

    def wait(self, timeout: float | None) -> bool:
        self.timeouts.append(timeout)
        return False

    def ring(self) -> None:
        self.rung.set()


def test_now_starts_at_the_wall_clock() -> None:
    """Lists, logs and `next_fire` show now() to people."""
    before = time.time_ns() // 1000
    now = SystemClock().now()
    after = time.time_ns() // 1000
    assert before - 1_000 <= now <= after + 1_000


def test_wall_is_the_system_s_wall_clock() -> None:
    before = time.time_ns() // 1000
    wall = SystemClock().wall()
    assert before <= wall <= time.time_ns() // 1000


@pytest.mark.parametrize("base_us", [0, 1_767_268_800 * SECOND_US, -HOUR_US])
def test_a_clock_with_a_base_is_that_and_what_has_elapsed(base_us: int) -> None:
    """The base is what the store keeps: a lease of one process is read by another. Zero is a base, too."""
    clock = SystemClock(base_us=base_us)
    before = elapsed_us()
    now = clock.now()
    assert before <= now - base_us <= elapsed_us()


def in_another_process(expression: str) -> str:
    program = f"from tickless.clocks import *; print({expression})"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_clocks_with_one_base_agree_in_all_processes() -> None:
    """To the microsecond: what one process wrote must not lie in the future of the next."""
    clock = SystemClock(base_us=5)
    before = clock.now()
    theirs = int(in_another_process("SystemClock(base_us=5).now()"))
    assert before <= theirs <= clock.now()


def test_all_processes_of_a_boot_agree_on_its_name() -> None:
    """Otherwise each of them would set a base of its own, and take the others' leases for those of another life."""
    assert boot_id()
    assert in_another_process("boot_id()") == boot_id()


@linux
def test_on_linux_the_name_of_the_boot_is_the_kernel_s() -> None:
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize("error", [FileNotFoundError(2, "no /proc"), PermissionError(13, "refused")])
def test_a_boot_without_a_name_is_called_by_its_time(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """Windows, or a sandbox without /proc. To 10 s, since the wall clock is slewed while the other one is not."""

    def refuse() -> str:
        raise error

    monkeypatch.setattr(clocks, "_boot_name", refuse)
    name, booted_s = boot_id(), time.time() - elapsed_us() / SECOND_US
    assert name.startswith("booted-at-")
    assert int(name.removeprefix("booted-at-")) % 10 == 0
    assert abs(int(name.removeprefix("booted-at-")) - booted_s) < 6


def test_an_empty_name_is_none() -> None:
    """All boots would be one, and their clocks do not go on from one another."""
    with pytest.raises(OSError, match="no name"):
        clocks._named(b"\n")


@linux
def test_now_goes_with_the_clock_that_counts_suspend() -> None:
    """With CLOCK_MONOTONIC, `after(hours=1)` on a laptop that sleeps for eight comes nine hours later."""
    assert sys.platform == "linux"
    low = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    elapsed = clocks._elapsed_ns()
    assert low <= elapsed <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def test_what_is_due_is_not_slept_for() -> None:
    """Nor does it use up a ring, or hand a negative timeout to somebody's bell."""
    clock, bell = SystemClock(), RecordingBell()
    clock.wait(bell, clock.now())
    clock.wait(bell, Instant(clock.now() - HOUR_US))
    assert bell.timeouts == []


def test_without_a_watcher_no_sleep_is_longer_than_30_s() -> None:
    """Where no one tells of a step or a resume, somebody has to look."""
    clock, bell = SystemClock(), RecordingBell()
    clock.wait(bell, Instant(clock.now() + HOUR_US))
    assert bell.timeouts == [UNWATCHED_SLEEP_S]


def test_without_an_end_the_sleep_has_none_and_no_one_looks() -> None:
    """With nothing in the timeline there is nothing that a step could move."""
    clock, bell = SystemClock(), RecordingBell()
    clock.wait(bell, None)
    assert bell.timeouts == [None]


@linux
def test_with_a_watcher_the_sleep_is_as_long_as_asked() -> None:
    """P7: with nothing due, no wake-up, however long."""
    clock, bell = SystemClock(), RecordingBell()
    with clock.watch(bell):
        clock.wait(bell, Instant(clock.now() + HOUR_US))
    assert bell.timeouts[0] == pytest.approx(3_600, abs=5)


@linux
def test_a_sleep_beyond_what_the_system_can_do_is_a_slice_of_it() -> None:
    """The year 9999 is farther than `threading.TIMEOUT_MAX`, which would raise in the dispatcher."""
    clock, bell = SystemClock(), RecordingBell()
    with clock.watch(bell):
        clock.wait(bell, MAX_INSTANT)
    assert bell.timeouts == [LONGEST_SLEEP_S]
    assert LONGEST_SLEEP_S < threading.TIMEOUT_MAX


def test_after_the_watch_the_sleep_is_short_again() -> None:
    clock, bell = SystemClock(), RecordingBell()
    with clock.watch(bell):
        pass
    clock.wait(bell, Instant(clock.now() + HOUR_US))
    assert bell.timeouts == [UNWATCHED_SLEEP_S]


def test_watching_one_bell_does_not_lengthen_the_sleep_of_another() -> None:
    """Two schedulers on one clock, of which one has no watcher."""
    clock, watched, other = SystemClock(), RecordingBell(), RecordingBell()
    with clock.watch(watched):
        clock.wait(other, Instant(clock.now() + HOUR_US))
    assert other.timeouts == [UNWATCHED_SLEEP_S]


# The step watcher. The loop runs on real file descriptors: an eventfd in place of the timer becomes readable like it.


def watcher_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("tickless-clock")]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def watching_an_eventfd(bell: Bell) -> Iterator[tuple[int, threading.Event]]:
    """A watcher on an eventfd. Gives the eventfd, and the event that says that the watcher has gone blind."""
    assert sys.platform == "linux"
    fd, blind = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC), threading.Event()
    with clocks.watching(fd, bell.ring, blind.set):
        yield fd, blind


@linux
def test_each_step_rings() -> None:
    """The first step is noticed and the second one not: the timer has to be made ready again."""
    assert sys.platform == "linux"
    bell = Bell()
    with watching_an_eventfd(bell) as (fd, _):
        for _ in range(3):
            os.eventfd_write(fd, 1)
            assert bell.wait(PATIENCE_S)
        assert not bell.wait(0)


@linux
def test_the_watcher_s_thread_and_descriptors_end_with_the_context() -> None:
    """A thread and two descriptors for each scheduler ever made: a server that makes one per request would die."""
    clock, before = SystemClock(), open_descriptors()
    for _ in range(20):
        with clock.watch(Bell()):
            assert [thread.daemon for thread in watcher_threads()] == [True]
        assert not watcher_threads()
    assert open_descriptors() == before


@linux
def test_the_context_ends_when_its_body_raises() -> None:
    """A dispatcher that dies must not leave its watcher."""
    with pytest.raises(KeyError), SystemClock().watch(Bell()):
        raise KeyError
    assert not watcher_threads()


@linux
def test_a_timer_that_fails_ends_the_watcher_and_does_not_spin() -> None:
    """At the end of a pipe a poll returns at once, for ever: one core would be gone, and nobody would know why."""
    bell, blind = Bell(), threading.Event()
    reader, writer = os.pipe()
    assert sys.platform == "linux"
    with clocks.watching(reader, bell.ring, blind.set):
        os.close(writer)
        assert blind.wait(PATIENCE_S)


@linux
def test_a_clock_that_has_gone_blind_rings_once_and_sleeps_30_s_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleeper that counts on a dead watcher would not notice a resume for hours."""
    reader, writer = os.pipe()
    os.close(writer)
    monkeypatch.setattr(clocks, "_new_timer", lambda: reader)
    clock, bell = SystemClock(), RecordingBell()
    with clock.watch(bell):
        assert bell.rung.wait(PATIENCE_S)
        clock.wait(bell, Instant(clock.now() + HOUR_US))
    assert bell.timeouts == [UNWATCHED_SLEEP_S]


@linux
def test_where_the_system_has_no_such_timer_the_clock_works_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that refuses timerfd must not stop the scheduler from starting."""

    def refuse() -> int:
        raise PermissionError(1, "refused")

    monkeypatch.setattr(clocks, "_new_timer", refuse)
    clock, bell = SystemClock(), RecordingBell()
    with clock.watch(bell):
        assert not watcher_threads()
        clock.wait(bell, Instant(clock.now() + HOUR_US))
    assert bell.timeouts == [UNWATCHED_SLEEP_S]


@linux
def test_where_no_thread_can_be_started_the_clock_works_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container at its limit of threads."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    clock, bell, before = SystemClock(), RecordingBell(), open_descriptors()
    with clock.watch(bell):
        clock.wait(bell, Instant(clock.now() + HOUR_US))
    assert bell.timeouts == [UNWATCHED_SLEEP_S]
    assert open_descriptors() == before


@linux
def test_the_timer_is_set_to_be_cancelled_when_the_clock_is_set() -> None:
    """What the kernel says about it: CLOCK_REALTIME is 0, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET is 03."""
    with SystemClock().watch(Bell()):
        infos = [path.read_text() for path in Path("/proc/self/fdinfo").iterdir() if path.exists()]
    timers = [info for info in infos if "clockid:" in info]
    assert any("clockid: 0\n" in info and "settime flags: 03\n" in info for info in timers), timers


@linux
def test_an_idle_watcher_never_wakes() -> None:
    """One wake-up a second is what keeps a laptop warm."""
    with SystemClock().watch(Bell()):
        status = Path(f"/proc/self/task/{watcher_threads()[0].native_id}/status")
        # A few tries, since the thread may still be on its way to its first sleep. One that wakes has no idle 100 ms.
        for _ in range(20):
            before = switches(status)
            Bell().wait(0.1)
            if switches(status) == before:
                return
    pytest.fail("the watcher wakes although nothing happens")


def switches(status: Path) -> int:
    [line] = [line for line in status.read_text().splitlines() if line.startswith("voluntary_ctxt_switches")]
    return int(line.split()[1])


@linux
def test_a_signal_does_not_end_the_watcher() -> None:
    """EINTR: a program with a SIGCHLD handler would lose its watcher at the first child that ends."""
    assert sys.platform == "linux"
    handled = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    try:
        bell = Bell()
        with watching_an_eventfd(bell) as (fd, blind):
            ident = watcher_threads()[0].ident
            assert ident is not None
            signal.pthread_kill(ident, signal.SIGUSR1)
            # Python runs handlers on the main thread, when it runs: so it does not sleep on the event here.
            for _ in range(1_000):
                if handled.wait(0.01):
                    break
            assert handled.is_set()
            os.eventfd_write(fd, 1)
            assert bell.wait(PATIENCE_S)
            assert not blind.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


@linux
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_that_leaves_the_context_does_not_end_the_parent_s_watcher() -> None:
    """The child has no such thread: it may neither hang in joining it, nor stop the parent's by the shared eventfd."""
    assert sys.platform == "linux"
    bell, fd = Bell(), os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    context = clocks.watching(fd, bell.ring, bell.ring)
    context.__enter__()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            context.__exit__(None, None, None)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert not bell.wait(0)
    os.eventfd_write(fd, 1)
    assert bell.wait(PATIENCE_S)
    context.__exit__(None, None, None)


@linux
def test_a_program_that_exits_while_watching_ends_quietly() -> None:
    """The thread is a daemon, and whatever the interpreter collects last must not wait for it."""
    program = """
from tickless.bell import Bell
from tickless.clocks import SystemClock
context = SystemClock().watch(Bell())
context.__enter__()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@linux
@pytest.mark.skipif("TICKLESS_TEST_SETS_CLOCK" not in os.environ, reason="sets the machine's clock; ask for it")
def test_setting_the_wall_clock_rings() -> None:
    """The whole way, with a real step: TICKLESS_TEST_SETS_CLOCK=1, as root. It moves the clock by about 1 us.

    Not by default, since the kernel takes any set clock as not synchronised until NTP says so again.
    """
    assert sys.platform == "linux"
    bell = Bell()
    with SystemClock().watch(bell):
        for _ in range(3):
            time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME))
            assert bell.wait(PATIENCE_S)
