"""The bell: what the dispatcher sleeps on. A ring is never lost, and ringing never blocks.

A bell is a binary semaphore: it is rung or it is not. Many rings before one wait are one ring.
"""

from __future__ import annotations

from threading import Lock


class Bell:
    """Ring from anywhere; one thread at a time waits.

    Threads: `ring` may be called by any thread, by a signal handler (also one that interrupts `wait`), and by a
    finalizer. It takes no lock, so it cannot deadlock. Two threads that wait share the rings between them.
    Whoever rings changes first what the waiter will look at, and then rings.
    """

    __slots__ = ("_gate",)

    # The gate is a lock that is held: the ringer lets it go, the waiter takes it. Each gate lets one ring through
    # and is then thrown away. Using one lock for ever would be 90 ns cheaper, and can go deaf without a GIL: up to
    # CPython 3.13 `release` wakes the waiter first and clears its own `locked` field after; a waiter that takes the
    # lock in between leaves it held but marked as free, and each later release is refused.

    def __init__(self) -> None:
        self._gate: Lock = _shut_gate()

    def ring(self) -> None:
        """End the wait that goes on, or else the next one. Never blocks, never raises."""
        gate = self._gate
        if gate.locked():
            try:
                gate.release()
            except RuntimeError:
                pass  # Another ring came between the look and the release: two rings are one.

    def wait(self, timeout: float | None) -> bool:
        """Sleep until a ring: True; or for `timeout` seconds: False. A ring made before counts, and is used up.

        None sleeps until the ring; zero or less only looks. OverflowError beyond `threading.TIMEOUT_MAX`: the
        clock cuts longer sleeps into slices.
        """
        gate = self._gate
        if timeout is None:
            rung = gate.acquire()
        elif timeout > 0:
            rung = gate.acquire(True, timeout)
        else:
            rung = gate.acquire(False)
        if rung:
            # A ring that still reaches the old gate is not lost: this wait returns, and the waiter looks after that.
            self._gate = _shut_gate()
        return rung


def _shut_gate() -> Lock:
    gate = Lock()
    gate.acquire()
    return gate
