"""The fixtures that every user's test suite has once tickless is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faults.world import our_threads
from tickless import Scheduler, State, after, every
from tickless.testing import FakeClock

USERS_TEST = """
from tickless import after

def test_reminder(tickless_scheduler, tickless_clock):
    seen = []
    tickless_scheduler.schedule(seen.append, after(3600), args=("reminder",))
    tickless_clock.advance(3599)
    assert seen == []
    tickless_clock.advance(1)
    assert seen == ["reminder"]

def test_each_test_has_its_own(tickless_scheduler, tickless_clock):
    assert tickless_scheduler.tasks() == []
"""


def test_the_scheduler_is_started_and_runs_on_the_clock(
    tickless_scheduler: Scheduler, tickless_clock: FakeClock
) -> None:
    """No thread, no waiting: an hour passes at once."""
    seen: list[int] = []
    assert tickless_scheduler.phase == "running"
    tickless_scheduler.schedule(seen.append, after(3600), args=(1,))
    beat = tickless_scheduler.schedule(seen.append, every(hours=1), args=(2,))
    tickless_clock.advance(7200)
    assert seen == [1, 2, 2]
    assert beat.state is State.PENDING
    assert our_threads() == []


def test_the_clock_may_be_used_alone(tickless_clock: FakeClock) -> None:
    before = tickless_clock.now()
    tickless_clock.advance(1)
    assert tickless_clock.now() - before == 1_000_000


def test_a_users_own_suite_has_the_fixtures_without_importing_anything(tmp_path: Path) -> None:
    """By the entry point of the package."""
    (tmp_path / "test_users.py").write_text(USERS_TEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False, cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
