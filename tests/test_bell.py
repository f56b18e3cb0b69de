"""The bell: no ring is lost, none is counted twice, and ringing is safe where locks are not."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tickless.bell import Bell

PATIENCE_S = 10.0


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads change places every few microseconds, so that a race has many chances."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def started(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_ring_before_the_wait_is_remembered() -> None:
    """A task scheduled between the dispatcher's look and its sleep would wait for the next one."""
    bell = Bell()
    bell.ring()
    assert bell.wait(None)


def test_many_rings_are_one() -> None:
    """A burst of a million submissions would otherwise wake the dispatcher a million times."""
    bell = Bell()
    for _ in range(1_000):
        bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)


def test_each_wait_uses_up_its_ring_and_the_next_ring_works() -> None:
    """A bell that goes deaf, or stays rung, after its first ring."""
    bell = Bell()
    for _ in range(100):
        assert not bell.wait(0)
        bell.ring()
        assert bell.wait(None)


@pytest.mark.parametrize("timeout", [0, 0.0, -0.0, -1, -1.5, float("-inf")])
def test_a_timeout_of_zero_or_less_only_looks(timeout: float) -> None:
    """A lock takes -1 as "for ever": what is overdue would never run."""
    bell = Bell()
    assert not bell.wait(timeout)
    bell.ring()
    assert bell.wait(timeout)


def test_a_wait_without_a_ring_ends_at_its_timeout() -> None:
    """And leaves a bell that still works."""
    bell = Bell()
    assert not bell.wait(0.001)
    bell.ring()
    assert bell.wait(0.001)


def test_a_timeout_beyond_what_the_system_can_do_is_an_error() -> None:
    """Never cut short in silence: the clock makes the slices."""
    with pytest.raises(OverflowError):
        Bell().wait(threading.TIMEOUT_MAX * 2)


def test_a_ring_from_another_thread_ends_a_wait() -> None:
    """Each `schedule` from a user's thread."""
    bell, answer = Bell(), Bell()

    def sleep() -> None:
        bell.wait(None)
        answer.ring()

    started(sleep)
    bell.ring()
    assert answer.wait(PATIENCE_S)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals on this system")
def test_a_ring_from_a_signal_handler_ends_the_wait_that_it_interrupts() -> None:
    """SIGTERM while the main thread sleeps on the bell: with a condition inside, this is a deadlock."""
    bell = Bell()
    before = signal.signal(signal.SIGALRM, lambda *_: bell.ring())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        assert bell.wait(PATIENCE_S)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals on this system")
def test_a_signal_handler_may_ring_in_the_middle_of_a_ring() -> None:
    """The handler runs between any two instructions of `ring` and `wait` on the main thread."""
    bell, handled = Bell(), 0

    def ring(*_: object) -> None:
        nonlocal handled
        handled += 1
        bell.ring()

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        while handled < 200:
            bell.ring()
            assert bell.wait(0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    bell.ring()
    assert bell.wait(None)


def test_a_finalizer_may_ring() -> None:
    """An executor that is collected ends its scheduler's sleep, wherever the collector happens to run."""

    class Dying:
        pass

    bell, thing = Bell(), Dying()
    weakref.finalize(thing, bell.ring)
    del thing
    gc.collect()
    assert bell.wait(0)


@pytest.mark.usefixtures("quick_switches")
def test_no_ring_is_lost_between_a_look_and_a_wait() -> None:
    """Producers change a number and ring; the waiter looks and sleeps. It must see the last number, and not hang."""
    bell, each, producers = Bell(), 3_000, 4
    counts = [0] * producers

    def produce(which: int) -> None:
        for _ in range(each):
            counts[which] += 1
            bell.ring()

    def consume() -> None:
        while sum(counts) < each * producers:
            bell.wait(None)

    consumer = started(consume)
    for which in range(producers):
        started(partial(produce, which))
    consumer.join(PATIENCE_S * 6)
    assert not consumer.is_alive(), f"asleep at {counts}"


@pytest.mark.usefixtures("quick_switches")
def test_two_threads_can_hand_each_other_the_turn() -> None:
    """Each ring is needed here: one that is lost stops both."""
    ping, pong, rounds = Bell(), Bell(), 2_000

    def answer() -> None:
        for _ in range(rounds):
            ping.wait(None)
            pong.ring()

    started(answer)
    for _ in range(rounds):
        ping.ring()
        assert pong.wait(PATIENCE_S)
    assert not pong.wait(0)
