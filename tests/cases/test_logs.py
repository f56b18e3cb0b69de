"""What the log says, and how seldom."""

from __future__ import annotations

import logging

import pytest

from tickless import Scheduler, after, every
from tickless.testing import FakeClock, InlinePool


def fail() -> None:
    raise ValueError("no connection to 10.0.0.7 after 30 s")


def test_BUG_085_thousand_successful_fires_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """In life: each tick writes a line, and what matters cannot be found."""
    with caplog.at_level(logging.INFO):
        clock = FakeClock()
        with Scheduler(InlinePool(), clock=clock) as scheduler:
            task = scheduler.schedule(int, every(seconds=1))
            clock.advance(1000)
            assert len(task.runs()) == 100, "and as many are kept as is said"
    assert caplog.records == []


def test_BUG_085_task_that_fails_each_second_writes_one_traceback_and_summaries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In life: 3,600 tracebacks an hour, until the disk is full."""
    clock = FakeClock()
    with Scheduler(InlinePool(), clock=clock) as scheduler:
        scheduler.schedule(fail, every(seconds=1), id="broken")
        clock.advance(3600)
    lines = [record.getMessage() for record in caplog.records]
    assert sum("Traceback" in line for line in lines) == 1
    assert len(lines) <= 10
    untold = sum(int(line.split("unlogged=")[1].split()[0]) for line in lines if "unlogged=" in line)
    assert untold + len(lines) == 3600, "every failure is counted"
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_BUG_085_race_of_a_cancel_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """In life: harmless races are warnings, and people learn not to read them."""
    clock = FakeClock()
    with caplog.at_level(logging.INFO), Scheduler(InlinePool(), clock=clock) as scheduler:
        task = scheduler.schedule(int)
        assert not task.cancel()
        scheduler.schedule(int, after(60)).cancel()
        scheduler.schedule(int, after(60))
    assert caplog.records == []


def test_BUG_085_library_installs_no_handlers() -> None:
    """In life: each line comes twice, or a program without logging is silent about failures."""
    with Scheduler(InlinePool(), clock=FakeClock()) as scheduler:
        scheduler.schedule(int)
    assert logging.getLogger("tickless").handlers == []
    assert logging.getLogger("tickless").propagate
