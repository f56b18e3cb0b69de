"""What the durable contenders run: functions of a module, since a store keeps names, and every process finds them here.

All contenders run the same functions, so what counting costs is the same for each.
"""

from __future__ import annotations

from threading import Event
from time import monotonic_ns

from workload import Punctuality

WORKERS = 10
"""Threads in every pool."""

_calls = bytearray()
_expected = 0
_done = Event()
_fires = Punctuality(0, 0.0)
_waited_ns: list[int] = []


def expect(count: int) -> None:
    """Forget what ran, and have `await_runs` wait for so many runs. Nothing may run meanwhile."""
    global _expected
    _calls.clear()
    _done.clear()
    _expected = count


def await_runs(timeout_s: float = 600.0) -> None:
    """Until the expected runs have begun. Raises AssertionError when they do not come."""
    if not _done.wait(timeout_s):
        raise AssertionError(f"{_expected:,} runs expected, {len(_calls):,} within {timeout_s:g} s")


def check_runs() -> None:
    """A wrong result is worse than a slow one: none ran twice. Call it when nothing can run any more."""
    if len(_calls) != _expected:
        raise AssertionError(f"{_expected:,} runs expected, {len(_calls):,} counted")


def plan_fires(count: int, span_s: float) -> Punctuality:
    """Have `late` note its start in what is given, and expect so many runs."""
    global _fires
    _fires = Punctuality(count, span_s)
    expect(count)
    return _fires


def waits_ms() -> list[float]:
    """How long each `woken` had waited for its start, in the order of the starts."""
    return [waited_ns / 1e6 for waited_ns in _waited_ns]


def work() -> None:
    """Is counted, and says when it is the last."""
    _calls.append(0)
    if len(_calls) >= _expected:
        _done.set()


def late(index: int) -> None:
    """Notes when it started."""
    _fires.work(index)
    work()


def woken(sent_ns: int) -> None:
    """Notes how long ago another process asked for it, on the clock that all processes share (Linux)."""
    _waited_ns.append(monotonic_ns() - sent_ns)
    work()
