"""How commands are asked to stop, and are killed."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import weakref
from pathlib import Path

import pytest

from tests.commands.world import FOREVER, PATIENCE_S, SOON_US, end_of, fifo, is_gone, shell
from tickless import Cancelled, Reason, State
from tickless.commands.child import Child
from tickless.instants import SECOND_US

LONG_US = 1_000 * SECOND_US
TIDY = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
with open(sys.argv[1], "w") as file:
    file.write("up\\n")
signal.sigwait({signal.SIGTERM})
print("tidy")
"""
"""Not in the shell: what it has forked and has not executed yet inherits the trap, and may lose the signal."""


def test_a_cancelled_command_is_told_by_sigterm_and_may_tidy_up(tmp_path: Path) -> None:
    """SIGKILL at once leaves half a file."""
    with shell() as sh, fifo(tmp_path) as up:
        task = sh.start((sys.executable, "-c", TIDY, str(up.path)), kill_after_us=LONG_US)
        up.word()
        assert task.cancel() is Cancelled.ASKED
        ended = end_of(task)
        assert (ended.state, ended.reason) == (State.CANCELLED, Reason.STOPPED)
        output = sh.output(task)
        assert (output.text, output.ending, output.code) == ("tidy\n", "stopped", 0)


def test_one_that_ignores_sigterm_is_killed_when_its_time_is_up(tmp_path: Path) -> None:
    """A deaf child must not hold a slot for ever."""
    with shell() as sh, fifo(tmp_path) as up:
        task = sh.start(f"trap '' TERM; echo up > {up.path}; while :; do sleep 1000; done", kill_after_us=SOON_US)
        up.word()
        task.cancel()
        ended = end_of(task)
        assert ended.state is State.CANCELLED
        assert sh.output(task).code == -signal.SIGKILL
        assert "killed by SIGKILL" in str(ended.error)


def test_a_timeout_fails_the_run_and_takes_its_whole_group_along(tmp_path: Path) -> None:
    """The other half of a pipeline runs on, and the next night there are two."""
    with shell() as sh, fifo(tmp_path) as up:
        run = f"sh -c 'echo $$ > {up.path}; exec sleep 1000' | sh -c 'echo $$ > {up.path}; exec sleep 1000'"
        task = sh.start(run, timeout=0.2, kill_after_us=LONG_US)
        pids = [int(up.word()) for _ in range(2)]
        ended = end_of(task)
        assert (ended.state, ended.reason) == (State.FAILED, Reason.TIMED_OUT)
        assert all(is_gone(pid) for pid in pids)


def test_what_is_left_of_the_group_is_killed_when_its_leader_has_stopped(tmp_path: Path) -> None:
    """A deaf member without the pipe has nothing to hold the run by."""
    with shell() as sh, fifo(tmp_path) as up:
        member = f'trap "" TERM; echo $$ > {up.path}; while :; do sleep 1000; done'
        task = sh.start(f"sh -c '{member}' >/dev/null 2>&1 & echo up > {up.path}; wait", kill_after_us=LONG_US)
        words = {up.word(), up.word()}
        pid = int((words - {"up"}).pop())
        task.cancel()
        assert end_of(task).state is State.CANCELLED
        assert is_gone(pid)


def test_a_member_that_holds_the_pipe_has_its_time_and_then_is_killed(tmp_path: Path) -> None:
    """The leader dies at once; what tidies up behind it may, as long as it prints, until kill_after."""
    with shell() as sh, fifo(tmp_path) as up:
        member = f'trap "" TERM; echo $$ > {up.path}; while :; do sleep 1000; done'
        task = sh.start(f"sh -c '{member}' & echo up > {up.path}; wait", kill_after_us=SOON_US)
        words = {up.word(), up.word()}
        pid = int((words - {"up"}).pop())
        task.cancel()
        assert end_of(task).state is State.CANCELLED
        assert is_gone(pid)


def test_a_daemon_in_a_session_of_its_own_outlives_the_stop(tmp_path: Path) -> None:
    """It left the group, and so is nobody's; it does not hold the run for longer than kill_after either."""
    with shell() as sh, fifo(tmp_path) as up:
        run = f"setsid sh -c 'echo $$ > {up.path}; exec sleep 1000' & wait"
        task = sh.start(run, kill_after_us=SOON_US)
        pid = int(up.word())
        task.cancel()
        assert end_of(task).state is State.CANCELLED
        os.kill(pid, 0)  # is there
        os.kill(pid, signal.SIGKILL)
        assert is_gone(pid)


def test_a_run_that_is_stopped_before_it_begins_starts_nothing(tmp_path: Path) -> None:
    """Cancelled while a thousand others are being started."""
    inside, gate = threading.Event(), threading.Event()
    mark = tmp_path / "mark"

    def block() -> None:
        inside.set()
        gate.wait(PATIENCE_S)

    with shell() as sh:
        holding = sh.children.submit(block)  # the thread of the pool is busy
        assert inside.wait(PATIENCE_S)
        task = sh.start(f"touch {mark}")
        assert sh.children._asked  # what is due at once is submitted by who schedules it
        assert task.cancel() is Cancelled.ASKED
        gate.set()
        holding.result(PATIENCE_S)
        ended = end_of(task)
        assert (ended.state, ended.error) == (State.CANCELLED, "Stopped: stopped before it began")
    assert not mark.exists()


@pytest.mark.parametrize("round_", range(3))
def test_a_stop_at_any_moment_of_the_start_ends_the_run(round_: int) -> None:
    """Between fork and exec, and before somebody listens."""
    with shell(50) as sh:
        tasks = [sh.start(FOREVER) for _ in range(50)]
        for task in tasks:
            task.cancel()
        assert all(end_of(task).state is State.CANCELLED for task in tasks)


def test_close_with_cancel_stops_every_command(tmp_path: Path) -> None:
    with shell() as sh, fifo(tmp_path) as up:
        tasks = [sh.start(f"echo up > {up.path}; exec {FOREVER}") for _ in range(3)]
        for _ in tasks:
            up.word()
        assert sh.scheduler.close(timeout=PATIENCE_S, cancel=True) == []
        assert [end_of(task).state for task in tasks] == [State.CANCELLED] * 3


def test_kill_all_kills_every_group(tmp_path: Path) -> None:
    """The second Ctrl-C. Nobody is asked."""
    with shell() as sh, fifo(tmp_path) as up:
        tasks = [sh.start(f"trap '' TERM INT; echo up > {up.path}; while :; do sleep 1000; done") for _ in range(3)]
        for _ in tasks:
            up.word()
        sh.children.kill_all()
        assert {end_of(task).error for task in tasks} == {"CommandFailed: killed by SIGKILL"}


def test_kill_all_can_be_called_by_a_signal_handler_that_holds_the_lock(tmp_path: Path) -> None:
    """It comes between any two lines of the main thread, also inside of submit."""
    with shell() as sh, fifo(tmp_path) as up:
        task = sh.start(f"echo up > {up.path}; exec {FOREVER}")
        up.word()
        with sh.children._lock:
            sh.children.kill_all()
        assert end_of(task).error == "CommandFailed: killed by SIGKILL"


def test_a_long_kill_after_is_no_error(tmp_path: Path) -> None:
    """A selector's timeout is an int of milliseconds: the thread would die of a month."""
    with shell() as sh, fifo(tmp_path) as up:
        task = sh.start(f"trap '' TERM; echo up > {up.path}; exec {FOREVER}", kill_after_us=10**16)
        up.word()
        task.cancel()
        assert sh.printed("echo fine") == "fine\n"
        sh.children.kill_all()
        assert end_of(task).state is State.CANCELLED


def test_a_kept_run_does_not_keep_its_child() -> None:
    """The run has its flag for as long as it is listed, and the flag what is to be called."""
    with shell() as sh:
        before = {id(one) for one in gc.get_objects() if isinstance(one, Child)}
        task = sh.start("true")
        assert end_of(task).state is State.SUCCEEDED
        sh.children.submit(int).result(PATIENCE_S)  # the thread has left what ended the task
        gc.collect()
        left = [weakref.ref(one) for one in gc.get_objects() if isinstance(one, Child) and id(one) not in before]
        assert [one() for one in left] == []
