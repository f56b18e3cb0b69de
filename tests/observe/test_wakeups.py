"""Post against sleep: the observer thread is woken by each event, and by nothing else."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from tests.observe.observers import (
    PATIENCE_S,
    START_US,
    Caller,
    Keeper,
    journal_of,
    voluntary_switches,
)
from tickless.instants import Instant
from tickless.observe import Journal
from tickless.records import Event, EventKind


class Echo:
    """A journal whose every event is awaited."""

    def __init__(self) -> None:
        self._seen = threading.Semaphore(0)
        self.count = 0
        self.journal = journal_of(Caller(self._note))
        self.journal.start()
        self.thread = threading.current_thread()

    def _note(self, events: Sequence[Event]) -> None:
        self.thread = threading.current_thread()
        self.count += len(events)
        self._seen.release(len(events))

    def awaits_one(self) -> bool:
        return self._seen.acquire(timeout=PATIENCE_S)

    def post_and_await(self, count: int) -> None:
        for n in range(count):
            self.journal.post(EventKind.READY, Instant(START_US + n))
            assert self.awaits_one(), f"event {n} did not arrive"


@pytest.mark.parametrize("limit", [50, 1_000_000])
def test_four_threads_that_post_while_the_thread_falls_asleep_lose_nothing(limit: int) -> None:
    """A lost wake-up would show as an event that waits for the next one: here, as a hang. Counts must add up."""
    keeper = Keeper()
    seen = threading.Semaphore(0)
    caller = Caller(lambda events: seen.release(sum(event.count for event in events)))
    journal = journal_of(keeper, caller, limit=limit)
    journal.start()
    start = threading.Barrier(4)

    def post_some() -> None:
        start.wait()
        for n in range(2_000):
            journal.post(EventKind.SUCCEEDED, Instant(n))
            if n % 50 == 0:
                assert seen.acquire(timeout=PATIENCE_S)  # lets the thread fall asleep now and then

    threads = [threading.Thread(target=post_some) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    finally:
        sys.setswitchinterval(interval)
    assert journal.close(PATIENCE_S)
    dropped = sum(event.count for event in keeper.of(EventKind.DROPPED))
    assert len(keeper.of(EventKind.SUCCEEDED)) + dropped == 8_000
    assert limit == 50 or dropped == 0


def test_one_event_at_a_time_always_wakes_the_thread() -> None:
    """Each post here comes about when the thread lies down: the moment at which a ring can be lost."""
    echo = Echo()
    echo.post_and_await(2_000)
    assert echo.journal.close(PATIENCE_S)


class PostAtStep:
    """Traces the observer thread, and posts an event in it right before the `step`-th opcode of falling asleep."""

    def __init__(self, step: int) -> None:
        self.echo = Echo()
        self.posted = threading.Event()
        self._left = step

    def trace(self, frame: FrameType, what: str, _: object) -> Any:
        if frame.f_code is not Journal._serve.__code__:
            return None
        frame.f_trace_opcodes = True
        if what == "opcode" and self.echo.count and not self.posted.is_set():
            self._left -= 1
            if self._left < 0:
                self.echo.journal.post(EventKind.READY, START_US)
                self.posted.set()
        return self.trace


def test_an_event_posted_at_any_step_of_falling_asleep_wakes_the_thread() -> None:
    """Stress meets this race once in a million; here the event is posted into each of the gaps, one after another."""
    step, reached = 0, True
    while reached:
        point = PostAtStep(step)
        before = threading.gettrace()
        threading.settrace(point.trace)
        try:
            point.echo.post_and_await(1)
        finally:
            threading.settrace(before)  # None switches it off
        reached = point.posted.wait(0.2)  # the last step comes after the sleep, which nothing ends
        assert not reached or point.echo.awaits_one(), f"posted at step {step} of falling asleep, and not delivered"
        assert point.echo.journal.close(PATIENCE_S)
        step += 1
    assert step > 10, "the thread takes more steps than that before it sleeps"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts the switches that Linux counts")
def test_nothing_posted_wakes_nobody() -> None:
    """An idle scheduler on a laptop must not keep the processor from sleeping."""
    idle, busy = Echo(), Echo()
    idle.post_and_await(1)
    before, settled = -1, 0
    while before != settled:  # until it has lain down
        busy.post_and_await(50)
        before, settled = settled, voluntary_switches(idle.thread)
    busy.post_and_await(2_000)
    assert voluntary_switches(idle.thread) == settled
    assert idle.journal.close(PATIENCE_S)
    assert busy.journal.close(PATIENCE_S)
