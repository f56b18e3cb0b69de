"""`stop_requested.wait(timeout)`: for how long a run may say that it sleeps."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S
from tickless import Cancelled, ScheduleError, Scheduler, current_run
from tickless.stores.stopping import StopEvent
from tickless.worker import StopFlag


def str_of(number: float) -> str:
    return f"{number:.3g}" if type(number) is float else "int"


@pytest.mark.parametrize(
    "long", [1e12, 10**5000, float("inf"), threading.TIMEOUT_MAX, threading.TIMEOUT_MAX * 2], ids=str_of
)
def test_a_wait_longer_than_the_system_has_is_a_long_wait(long: float) -> None:
    """In life: "sleep until you are asked to stop" is an OverflowError, and the task fails at once."""
    began = threading.Event()

    def body() -> bool:
        stop = current_run().stop_requested
        began.set()
        return stop.wait(long)

    with Scheduler(slots=1, observers=[]) as scheduler:
        task = scheduler.schedule(body)
        assert began.wait(PATIENCE_S)
        assert task.cancel() is Cancelled.ASKED
        assert task.result(PATIENCE_S) is True


@pytest.mark.parametrize("wrong", ["5", float("nan"), True, timedelta(1), [1]])
def test_a_wait_that_is_no_number_of_seconds_is_refused(wrong: Any) -> None:
    """In life: nan waits for nobody knows how long."""
    with pytest.raises(ScheduleError, match=r"stop_requested\.wait\(.*needs seconds"):
        StopFlag(StopEvent()).wait(wrong)


@pytest.mark.parametrize("timeout", [0, 0.0, -0.5, -(10**5000), float("-inf")], ids=str_of)
def test_a_wait_of_nothing_only_looks(timeout: float) -> None:
    """What is left of a deadline may be less than nothing."""
    event = StopEvent()
    assert StopFlag(event).wait(timeout) is False
    event.set()
    assert StopFlag(event).wait(timeout) is True


# For who cannot wait: `stop_requested.call`


def test_a_call_is_made_once_when_the_stop_is_asked_for() -> None:
    """In the thread that asks, whoever that is."""
    calls: list[str] = []
    handed = threading.Event()

    def body() -> None:
        stop = current_run().stop_requested
        stop.call(lambda: calls.append("one"))
        current_run().stop_requested.call(lambda: calls.append("two"))  # another look is the same flag
        handed.set()
        assert stop.wait(PATIENCE_S)

    with Scheduler(slots=1, observers=[]) as scheduler:
        task = scheduler.schedule(body)
        assert handed.wait(PATIENCE_S)
        assert calls == []
        assert task.cancel() is Cancelled.ASKED
        task.cancel()
        task.wait(PATIENCE_S)
    assert calls == ["one", "two"]


def test_a_call_after_the_stop_was_asked_for_is_made_at_once() -> None:
    """Who registers it late would wait for what has been."""
    inside, gate = threading.Event(), threading.Event()
    calls: list[bool] = []

    def body() -> None:
        inside.set()
        assert gate.wait(PATIENCE_S)
        current_run().stop_requested.call(lambda: calls.append(True))

    with Scheduler(slots=1, observers=[]) as scheduler:
        task = scheduler.schedule(body)
        assert inside.wait(PATIENCE_S)
        task.cancel()
        gate.set()
        assert task.wait(PATIENCE_S)
    assert calls == [True]


@pytest.mark.parametrize("how", ["timeout", "close"])
def test_a_timeout_and_a_close_call_too(how: str) -> None:
    called, inside = threading.Event(), threading.Event()

    def body() -> None:
        current_run().stop_requested.call(called.set)
        inside.set()
        assert called.wait(PATIENCE_S)

    with Scheduler(slots=1, observers=[]) as scheduler:
        task = scheduler.schedule(body, timeout=0.05 if how == "timeout" else None)
        assert inside.wait(PATIENCE_S)
        if how == "close":
            scheduler.close(cancel=True)
        assert called.wait(PATIENCE_S)
        assert task.wait(PATIENCE_S)


def test_a_call_beside_the_stop_is_made_exactly_once() -> None:
    """Set while it is registered: seen by neither is a child that nobody stops, seen by both is two signals."""
    for _ in range(500):
        event, calls, gate = StopEvent(), list[int](), threading.Barrier(2)

        def set_it(gate: threading.Barrier = gate, event: StopEvent = event) -> None:
            gate.wait(PATIENCE_S)
            event.set()

        other = threading.Thread(target=set_it)
        other.start()
        gate.wait(PATIENCE_S)
        for number in range(5):
            StopFlag(event).call(partial(calls.append, number))
        other.join(PATIENCE_S)
        assert sorted(calls) == [0, 1, 2, 3, 4]


def test_a_call_that_registers_another_is_no_deadlock() -> None:
    event, calls = StopEvent(), list[int]()
    event.call(lambda: event.call(lambda: calls.append(1)))
    event.set()
    event.set()
    assert calls == [1]
