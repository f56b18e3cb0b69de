"""Signals and pipes: how `tickless run` ends when it is told to. Each test waits for a line, never for a time."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, PATIENCE_S, running, wait_for, written
from tests.pressing import press_until_it_ends

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM that a process can catch")

BLOCKING = """
import sys
from tickless import Scheduler, after
scheduler = Scheduler()
def block():
    print("started", flush=True)
    sys.stdin.readline()
    print("finished", flush=True)
scheduler.schedule(block, id="block")
scheduler.schedule(print, args=("too late",), after_tasks=["block"], id="child")
scheduler.schedule(print, after(3600), args=("far too late",), id="later")
"""
WAITING_FOR_A_STOP = """
from tickless import Scheduler, Stopped, current_run
scheduler = Scheduler()
def until_stopped():
    print("started", flush=True)
    current_run().stop_requested.wait(600)
    raise Stopped
scheduler.schedule(until_stopped, id="polite")
"""
IDLE = """
from tickless import Scheduler, after
scheduler = Scheduler()
scheduler.schedule(print, args=("started",))
scheduler.schedule(print, after(3600))
"""
BOTH = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])


@BOTH
def test_signal_lets_what_runs_finish_and_starts_nothing_more(tmp_path: Path, number: int, code: int) -> None:
    """In life: a deployment cuts a payment in half, or the old process goes on with new work."""
    with running(written(tmp_path, BLOCKING)) as command:
        wait_for("started", command.stdout)
        command.send_signal(number)
        wait_for("stopping", command.stderr)
        out, err = command.communicate("go\n", timeout=PATIENCE_S)
    assert command.returncode == code
    assert out == "finished\n"
    assert "Traceback" not in err
    assert "1 succeeded, 0 failed, 0 skipped, 2 cancelled" in err.splitlines()[-1]


@BOTH
def test_signal_ends_an_idle_scheduler_at_once(tmp_path: Path, number: int, code: int) -> None:
    """In life: the service manager waits its ninety seconds, and kills."""
    with running(written(tmp_path, IDLE)) as command:
        wait_for("started", command.stdout)
        command.send_signal(number)
        _, err = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == code
    assert "Traceback" not in err


@BOTH
def test_second_signal_ends_it_while_a_task_blocks_for_ever(tmp_path: Path, number: int, code: int) -> None:
    """In life: a task hangs, and only kill -9 helps."""
    with running(written(tmp_path, BLOCKING)) as command:
        wait_for("started", command.stdout)
        command.send_signal(number)
        wait_for("stopping", command.stderr)
        press_until_it_ends(command, number)
        assert command.stderr is not None
        rest = command.stderr.read()
    # It dies of the signal itself, which a shell shows as 128 + its number and a service manager as what it is.
    assert 128 - command.returncode == code
    assert "Traceback" not in rest


def test_task_that_looks_at_its_stop_flag_ends_early(tmp_path: Path) -> None:
    """In life: an endless task that was written to stop politely is never asked."""
    with running(written(tmp_path, WAITING_FOR_A_STOP)) as command:
        wait_for("started", command.stdout)
        command.send_signal(signal.SIGTERM)
        _, err = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 143
    assert "0 succeeded, 0 failed, 0 skipped, 1 cancelled" in err.splitlines()[-1]


@pytest.mark.parametrize("merge", ["", "2>&1"], ids=["stdout closed", "stdout and stderr closed"])
def test_BUG_086_reader_that_goes_away_leaves_no_traceback_and_fails_no_task(tmp_path: Path, merge: str) -> None:
    """In life: `tickless run … | head -1` fills the screen, or the tasks after the first fail for want of a reader."""
    source = "from tickless import Scheduler\nscheduler = Scheduler()\n"
    source += "def report(number):\n    print('line', number, 'x' * 1000)\n"
    source += "for number in range(500):\n    scheduler.schedule(report, args=(number,))\n"
    proof = tmp_path / "proof"
    source += "from pathlib import Path\n"
    source += f"scheduler.schedule(Path({str(proof)!r}).touch, priority=-1, id='last')\n"
    command = " ".join([*COMMAND, "run", str(written(tmp_path, source)), merge])
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert proof.exists(), "the tasks went on"
