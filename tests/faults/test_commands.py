"""Children that behave badly: they print without end, close what they have, leave daemons, and starve the machine."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands.world import FOREVER, PATIENCE_S, end_of, fifo, is_gone, kill, shell
from tickless import State
from tickless.commands.kept import HEAD, TAIL
from tickless.commands.lines import Lines

PRINTED = 300 << 20


def test_a_child_that_prints_gigabytes_takes_little_memory_and_holds_up_nobody(tmp_path: Path) -> None:
    """300 MB here. The beginning and the end are kept, and the others go on meanwhile."""
    stream = io.StringIO()
    with shell(lines=Lines(stream)) as sh, fifo(tmp_path) as up:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        flood = f"echo begin; echo up > {up.path}; head -c {PRINTED} /dev/zero | tr '\\0' '\\n'; echo end"
        task = sh.start(flood)
        up.word()
        for _ in range(20):
            assert sh.printed("echo fine") == "fine\n"
        assert end_of(task).state is State.SUCCEEDED
        output = sh.output(task)
        assert output.size == PRINTED + len("begin\nend\n")
        assert output.text.startswith("begin\n")
        assert output.text.endswith("\nend\n")
        assert f"\n... {output.size - HEAD - TAIL:,} bytes left out ...\n" in output.text
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown_kib < 64 << 10
    assert "lines not shown" in stream.getvalue()


def test_a_flood_without_line_ends_is_shown_in_pieces_and_within_bounds() -> None:
    """One line of 50 MB."""
    stream = io.StringIO()
    with shell(lines=Lines(stream)) as sh:
        task = sh.start("head -c 50000000 /dev/zero | tr '\\0' x")
        assert end_of(task).state is State.SUCCEEDED
        assert sh.output(task).size == 50_000_000
    assert 8_192 < len(stream.getvalue()) < 30_000_000


def test_binary_output_is_kept_as_it_is_and_shown_escaped() -> None:
    """A terminal that is told to change its title, or worse."""
    stream = io.StringIO()
    with shell(lines=Lines(stream, as_json=True)) as sh:
        task = sh.start(r"printf '\000\377\033]0;owned\007\302\233\n'", id="bin")
        assert end_of(task).state is State.SUCCEEDED
        assert sh.output(task).data == b"\0\xff\x1b]0;owned\x07\xc2\x9b\n"
    document = json.loads(stream.getvalue())
    assert document["line"] == "\\x00\ufffd\\x1b]0;owned\\x07\\x9b"
    assert (document["v"], document["kind"], document["task"], document["attempt"]) == (1, "output", "bin", 1)


def test_a_child_that_closes_what_it_prints_to_and_goes_on_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed pipe is ready for ever: who looks at it again spins."""
    looks: list[object] = []
    with shell() as sh, fifo(tmp_path) as up, fifo(tmp_path, "go") as go:
        task = sh.start(f"echo x; exec >&- 2>&-; echo up > {up.path}; read word < {go.path}; exit 3")
        up.word()
        select = sh.children._selector.select

        def counted(timeout: float | None) -> object:
            looks.append(timeout)
            return select(timeout)

        monkeypatch.setattr(sh.children._selector, "select", counted)
        for _ in range(20):
            assert sh.printed("echo fine") == "fine\n"
        assert len(looks) < 20 * 10
        go.path.write_text("word\n")
        assert end_of(task).error == "CommandFailed: exit code 3: x"


@pytest.mark.parametrize("prints", [False, True], ids=["silent", "printing"])
def test_a_daemon_that_keeps_the_pipe_does_not_hold_the_run(tmp_path: Path, prints: bool) -> None:
    """`service start` returns; what it has started has its standard output still.

    Printing, it ended the loop once: exit and output were seen in one look, and the first of them closed the pipe.
    """
    body = "while :; do echo x; done" if prints else f"exec {FOREVER}"
    with shell(20) as sh, fifo(tmp_path) as up:
        daemon = f"setsid sh -c 'echo $$ > {up.path}; {body}' &"
        tasks = [sh.start(f"({daemon}); exit 0") for _ in range(20)]
        assert [end_of(task).state for task in tasks] == [State.SUCCEEDED] * 20
        pids = [int(up.word()) for _ in tasks]
        for pid in pids:
            if not prints:  # the others have died of the pipe that nobody reads
                os.kill(pid, 0)
                kill(pid)
            assert is_gone(pid)
        assert sh.printed("echo fine") == "fine\n"


def test_what_was_printed_before_the_end_is_all_read() -> None:
    """The exit may be seen before the output."""
    with shell() as sh:
        for _ in range(20):
            assert len(sh.printed("head -c 60000 /dev/zero")) == 60_000


def test_a_slow_terminal_holds_up_no_command() -> None:
    """Ctrl-S, or a full pipe: what cannot be shown is counted."""
    gate, entered = threading.Event(), threading.Event()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            entered.set()
            gate.wait(PATIENCE_S)
            return super().write(text)

    stream = Slow()
    with shell(20, lines=Lines(stream)) as sh:
        tasks = [sh.start("seq 900") for _ in range(20)]
        assert [end_of(task).state for task in tasks] == [State.SUCCEEDED] * 20
        assert entered.wait(PATIENCE_S)
        gate.set()
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 10_002
    (told,) = (line for line in lines if "not shown" in line)
    hidden = int(told.rpartition("... ")[2].split()[0].replace(",", ""))
    assert hidden + len(lines) - 1 == 20 * 900


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """All but a few are taken."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    most = max(map(int, os.listdir("/proc/self/fd"))) + 60
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            pass
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("stdin", [None, "text"])
def test_without_descriptors_it_is_the_runs_failure_or_it_goes_well(stdin: str | None) -> None:
    """At each step of the start there is none left: nothing hangs, nothing leaks, nobody else suffers."""
    with shell() as sh:
        assert sh.printed("echo warm", stdin=stdin) == "warm\n"
        numbers = len(os.listdir("/proc/self/fd"))
        errors = []
        for spare in range(12):
            with few_descriptors(spare):
                ended = sh.ended("exit 4", stdin=stdin)
            assert ended.state is State.FAILED
            errors.append(str(ended.error))
            assert len(os.listdir("/proc/self/fd")) == numbers
            assert sh.printed("echo fine") == "fine\n"
        first, last = errors[0], errors[-1]
        assert first.startswith("CommandFailed: cannot be started: too many files are open; raise `ulimit -n`")
        assert last == "CommandFailed: exit code 4"
        assert set(errors) == {first, last}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user, who has no other processes")
def test_without_processes_it_is_the_runs_failure() -> None:
    """EAGAIN of fork. In a process of its own: the limit counts for a user, and root has none."""
    program = """
import os, resource
from tests.commands.world import shell
with shell() as sh:  # all that is imported on the way is read while it may be read
    assert sh.ended("exit 1").error == "CommandFailed: exit code 1"
    assert "no program" in sh.ended(("no-such-thing",)).error
os.chdir("/"); os.setgroups([]); os.setgid(65534); os.setuid(65534)
with shell() as sh:
    assert sh.printed("echo warm") == "warm\\n"
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, before[1]))
    error = sh.ended("true").error
    resource.setrlimit(resource.RLIMIT_NPROC, before)
    assert sh.printed("echo fine") == "fine\\n"
    print(error)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(root)))},
        cwd=root, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert "there are too many processes; raise `ulimit -u`" in done.stdout, done.stderr


def test_the_death_of_the_shell_by_a_signal_of_ours_is_told(tmp_path: Path) -> None:
    """The kernel kills when memory is short: nobody of us has asked for it."""
    with shell() as sh, fifo(tmp_path) as up:
        task = sh.start(f"echo $$ > {up.path}; exec {FOREVER}")
        os.kill(int(up.word()), signal.SIGKILL)
        assert end_of(task).error == "CommandFailed: killed by SIGKILL"


def test_a_child_that_stops_itself_is_killed_all_the_same(tmp_path: Path) -> None:
    """SIGSTOP: SIGTERM waits until it goes on, SIGKILL does not."""
    with shell() as sh, fifo(tmp_path) as up:
        task = sh.start(f"echo up > {up.path}; kill -STOP $$", kill_after_us=50_000)
        up.word()
        task.cancel()
        assert end_of(task).state is State.CANCELLED


def test_a_defect_with_one_child_ends_neither_the_thread_nor_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in the loop: that run fails, its process is killed, and the rest goes on."""
    with shell() as sh:
        monkeypatch.setattr(sh.children._outputs, "add", _broken)
        ended = sh.ended(f"echo x; {FOREVER}")
        assert (ended.state, ended.error) == (State.FAILED, "RuntimeError: broken")
        monkeypatch.undo()
        assert sh.printed("echo fine") == "fine\n"


def _broken(*_: object) -> None:
    raise RuntimeError("broken")
