"""`stop_requested.wait(timeout)`: for how long a run may say that it sleeps."""

from __future__ import annotations

import threading
from datetime import timedelta
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
