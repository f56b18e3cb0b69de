"""What a command is given, and what comes of it. Real processes."""

from __future__ import annotations

import errno
import os
import pwd
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands.world import FOREVER, PATIENCE_S, Shell, end_of, fifo, our_children, shell
from tickless import Pool, Reason, Retry, ScheduleError, Scheduler, State
from tickless.commands.children import Children
from tickless.commands.command import Command, CommandFailed, ending_of
from tickless.commands.refused import why_not
from tickless.instants import datetime_of
from tickless.testing.executor_suite import ExecutorSuite


@pytest.fixture
def sh() -> Iterator[Shell]:
    with shell() as made:
        yield made


class TestChildren(ExecutorSuite):
    """It runs any function, in its thread."""

    def make_executor(self) -> Executor:
        return Children(2)


# How it ends


@pytest.mark.parametrize("run", ["exit 0", ("true",), "exit 3"])
def test_a_code_of_success_is_a_success(sh: Shell, run: Any) -> None:
    """grep has found nothing, and rsync has lost a file meanwhile: some codes are no failures."""
    task = sh.start(run, success_codes=(0, 3))
    assert end_of(task).state is State.SUCCEEDED
    assert task.result() is None
    assert sh.output(task).code == (3 if run == "exit 3" else 0)


@pytest.mark.parametrize(
    ("run", "error"),
    [
        ("exit 3", "CommandFailed: exit code 3"),
        ("echo one; echo two >&2; exit 1", "CommandFailed: exit code 1: two"),
        ("printf 'no end'; echo; echo; exit 1", "CommandFailed: exit code 1: no end"),
        ("printf 'a\\033[31mb'; exit 1", "CommandFailed: exit code 1: a\\x1b[31mb"),
        ("kill -9 $$", "CommandFailed: killed by SIGKILL"),
        ("echo last; kill -TERM $$", "CommandFailed: killed by SIGTERM: last"),
        (f"kill -{signal.SIGRTMIN + 1} $$", f"CommandFailed: killed by signal {signal.SIGRTMIN + 1}"),
    ],
)
def test_a_failure_says_how_it_ended_and_the_last_line(sh: Shell, run: str, error: str) -> None:
    """`exit code 1` alone sends everybody to the logs."""
    ended = sh.ended(run)
    assert (ended.state, ended.error) == (State.FAILED, error)


def test_zero_may_be_a_failure(sh: Shell) -> None:
    """success_codes says all that are."""
    assert sh.ended("true", success_codes=(1,)).error == "CommandFailed: exit code 0"


def test_a_failed_command_is_tried_again(sh: Shell) -> None:
    """It is an Exception, and each attempt knows which it is."""
    task = sh.start('test "$TICKLESS_ATTEMPT" = 3', retry=Retry(3, delay=0))
    ended = end_of(task)
    assert (ended.state, ended.attempt) == (State.SUCCEEDED, 3)
    assert [one.attempt for one in sh.outputs.of(task.id)] == [1, 2, 3]


def test_an_unknown_code_is_no_success() -> None:
    """Who reaps our children takes the code along; `subprocess` calls that 0."""
    assert "SIGCHLD" in str(ending_of(None, Command("true")))


def test_a_process_that_ignores_sigchld_fails_its_commands() -> None:
    """In life: started by something that has SIGCHLD ignored, every failing command would have succeeded."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with shell() as sh:
            assert "its exit code is lost" in str(sh.ended("exit 1").error)
    finally:
        signal.signal(signal.SIGCHLD, before)


# What cannot be started


@pytest.mark.parametrize(
    ("run", "said", "error"),
    [
        (("no-such-thing",), {}, "no program no-such-thing is found; give its whole path, or PATH in env"),
        ("true", {"shell": "/no/sh"}, "no program /no/sh is found; give its whole path, or PATH in env"),
        (
            "true",
            {"cwd": "/no/folder"},
            "cwd='/no/folder': no such file or directory; make the folder, or give another",
        ),
        ("true", {"cwd": "/etc/passwd"}, "cwd='/etc/passwd': not a directory; make the folder, or give another"),
        ("true", {"user": "nobody-of-that-name"}, "user nobody-of-that-name: there is no such user on this machine"),
        (("/etc/passwd",), {}, "/etc/passwd may not be executed: permission denied; chmod +x it, or give another"),
        ("a\0b", {}, "embedded null byte"),
        ("true", {"stdin": "\ud800"}, "surrogates not allowed"),
        (("true", "x" * 3_000_000), {}, "too long for the system; put them into a file, or on stdin"),
    ],
)
def test_what_cannot_be_started_is_that_runs_failure(sh: Shell, run: Any, said: dict[str, Any], error: str) -> None:
    """It names the thing and the way out, and the next command runs."""
    ended = sh.ended(run, **said)
    assert ended.state is State.FAILED
    assert str(ended.error).startswith("CommandFailed: cannot be started: ")
    assert error in str(ended.error)
    assert sh.printed("echo fine") == "fine\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("#!/no/interpreter\n", "the interpreter in its first line (#!) is not"),
        ("echo hello\n", "is no program; begin"),
    ],
)
def test_a_script_that_is_no_program_is_told_of_by_its_first_line(
    sh: Shell, tmp_path: Path, text: str, error: str
) -> None:
    """The system says "no such file" of a script that is there."""
    script = tmp_path / "script"
    script.write_text(text)
    script.chmod(0o755)
    assert error in str(sh.ended((str(script),)).error)


def test_the_errors_of_a_busy_machine_have_a_way_out() -> None:
    """None of them says so itself."""
    for number in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM):
        assert "slots" in why_not(Command("true"), OSError(number, os.strerror(number)))
    assert "user mail" in why_not(Command("true", user="mail"), PermissionError(errno.EPERM, "no"))


@pytest.mark.parametrize("run", ["", (), ("",)])
def test_a_command_of_nothing_is_refused_where_it_is_made(run: Any) -> None:
    with pytest.raises(ScheduleError, match=r"Command\(run=.*needs a text"):
        Command(run)


def test_a_command_outside_of_its_pool_says_where_it_runs() -> None:
    """In a pool of threads it would block one, or leave its process behind."""
    with pytest.raises(CommandFailed, match=r"Pool\(Children"):
        Command("true")()


# What it is given


def test_its_environment_tells_of_its_run(sh: Shell) -> None:
    """A script that runs twice must be able to know which time this is."""
    task = sh.start("env", id="dump", env=(("COLOUR", "red"), ("HOME", "/nowhere")))
    due = end_of(task).due_us
    assert due is not None
    when = datetime_of(due).replace(tzinfo=None).isoformat() + "Z"
    lines = set(sh.output(task).text.splitlines())
    assert lines >= {
        "COLOUR=red",
        "HOME=/nowhere",
        f"PATH={os.environ['PATH']}",
        "TICKLESS_TASK=dump",
        f"TICKLESS_RUN=dump@{when}",
        f"TICKLESS_DUE={when}",
        "TICKLESS_ATTEMPT=1",
    }


def test_a_handler_is_told_what_failed(sh: Shell) -> None:
    """The mail that it sends must say of what."""
    with fifo_of_handler() as (path, words):
        handler = Command(f'echo "$TICKLESS_FAILED_TASK $TICKLESS_FAILED_STATE $TICKLESS_FAILED_ERROR" > {path}')
        task = sh.start("echo oh; exit 4", id="dump", on_failure=handler)
        assert words() == "dump failed CommandFailed: exit code 4: oh"
        assert end_of(task).state is State.FAILED


@contextmanager
def fifo_of_handler() -> Iterator[tuple[Path, Any]]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, fifo(Path(folder)) as made:
        yield made.path, made.word


def test_it_runs_in_its_folder(sh: Shell, tmp_path: Path) -> None:
    assert sh.printed(("pwd",), cwd=str(tmp_path)) == f"{tmp_path}\n"


@pytest.mark.parametrize(
    "text", ["", "one\ntwo\n", "x" * 1_000_000, "caf\u00e9\0\udcff"], ids=["", "two", "much", "odd"]
)
def test_it_reads_the_text_that_it_is_given(sh: Shell, text: str) -> None:
    """A megabyte is more than a pipe holds: nobody may wait for the child to read."""
    data = text.encode("utf-8", "surrogateescape")
    task = sh.start(("sh", "-c", "wc -c; exec true"), stdin=text)
    assert end_of(task).state is State.SUCCEEDED
    assert sh.output(task).text.strip() == str(len(data))


def test_a_child_that_does_not_read_its_text_is_no_failure(sh: Shell) -> None:
    """With a pipe that would be a broken one."""
    assert sh.ended("true", stdin="x" * 1_000_000).state is State.SUCCEEDED


def test_without_a_text_there_is_nothing_to_read(sh: Shell) -> None:
    """A command that asks must not wait for an answer from a terminal."""
    assert sh.printed("cat; echo end") == "end\n"
    assert sh.printed("tty; true") == "not a tty\n"


def test_an_argument_is_no_text_for_the_shell(sh: Shell) -> None:
    assert sh.printed(("echo", "$HOME; exit 1", "*")) == "$HOME; exit 1 *\n"


def test_another_shell_is_asked_as_the_first_is(sh: Shell, tmp_path: Path) -> None:
    shell_of_ours = tmp_path / "shell"
    shell_of_ours.write_text('#!/bin/sh\necho "$1|$2"\n')
    shell_of_ours.chmod(0o755)
    assert sh.printed("a b", shell=str(shell_of_ours)) == "-c|a b\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run as somebody else")
def test_root_runs_it_as_another_user_with_that_users_groups(sh: Shell) -> None:
    """root's own groups would go along."""
    assert sh.printed("id -un; id -G; id -u", user="nobody").split()[0] == "nobody"
    assert "0" not in sh.printed("id -G", user="nobody").split()
    assert sh.printed("id -un", user="root") == "root\n"
    home = pwd.getpwnam("nobody").pw_dir
    assert sh.printed("echo $USER $LOGNAME $HOME", user="nobody").split() == ["nobody", "nobody", home]
    assert sh.printed("echo $HOME", user="nobody", env=(("HOME", "/elsewhere"),)) == "/elsewhere\n"


def test_it_has_no_descriptor_of_ours(sh: Shell) -> None:
    """One that leaks keeps a pipe open for ever, or lets a child write into a database."""
    others = [sh.start(FOREVER) for _ in range(5)]
    listed = sh.printed("for n in /proc/self/fd/*; do echo ${n##*/}; done")
    # The shell opens the folder itself, while it lists it.
    assert {int(n) for n in listed.split()} - {0, 1, 2} <= {3, 10}
    for task in others:
        task.cancel()


def test_its_signals_are_as_a_program_expects_them(sh: Shell) -> None:
    """Python ignores SIGPIPE: `yes | head -1` would complain. A blocked SIGTERM stops nobody."""
    status = dict(
        line.split(":\t", 1) for line in sh.printed(("cat", "/proc/self/status")).splitlines() if ":\t" in line
    )
    assert int(status["SigBlk"], 16) == 0
    assert int(status["SigIgn"], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_what_is_blocked_where_the_pool_begins_is_not_blocked_in_its_children() -> None:
    """A program that waits with sigwait blocks signals before it starts its threads, which inherit that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    try:
        with Children(1) as children, Scheduler(Pool(children, slots=1), observers=[]) as scheduler:
            run = Command("test $(grep SigBlk /proc/self/status | cut -f2) = 0000000000000000")
            assert end_of(scheduler.schedule(run)).state is State.SUCCEEDED
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# Many, and the end


def test_a_hundred_run_at_once(tmp_path: Path) -> None:
    """Each waits until all are there: no thread and no turn for each."""
    with shell(100) as sh, fifo(tmp_path) as up:
        go = tmp_path / "go"
        os.mkfifo(go)
        tasks = [
            sh.start(f"echo {n} > {up.path}; read x < {go}; exit $((n % 2))", env=(("n", str(n)),)) for n in range(100)
        ]
        assert sorted(int(up.word()) for _ in tasks) == list(range(100))
        assert [one.name for one in threading.enumerate() if "child" in one.name] == ["tickless-children"]
        with open(go, "w") as file:  # they open it as it is opened: each finds one line
            file.write("go\n" * 100)
            file.flush()
            states = [end_of(task).state for task in tasks]
    assert states == [State.SUCCEEDED, State.FAILED] * 50


def test_no_zombie_and_no_descriptor_is_left() -> None:
    """One of each a run, and after a day no command starts any more."""
    before, numbers = set(our_children()), len(os.listdir("/proc/self/fd"))
    with shell() as sh:
        for run in ("true", "exit 1", "echo x", "kill -9 $$", ("no-such-thing",)):
            sh.ended(run, stdin="text")
        assert set(our_children()) <= before
    assert len(os.listdir("/proc/self/fd")) == numbers


def test_shutdown_waits_for_what_runs_and_what_was_submitted(tmp_path: Path) -> None:
    """As every executor does."""
    with fifo(tmp_path) as up:
        children = Children(2)
        scheduler = Scheduler(Pool(children, slots=2), observers=[])
        scheduler.start()
        tasks = [scheduler.schedule(Command(f"echo x > {up.path}")) for _ in range(2)]
        for _ in tasks:
            up.word()
        children.shutdown()
        assert [end_of(task).state for task in tasks] == [State.SUCCEEDED] * 2
        late = scheduler.schedule(Command("true"))
        assert end_of(late).reason is Reason.REJECTED
        scheduler.close()


def test_a_shutdown_that_cancels_lets_go_of_what_has_not_begun() -> None:
    """What waits behind a work is cancelled, what has begun is not."""
    children = Children(2)
    inside, gate = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        gate.wait(PATIENCE_S)

    first = children.submit(block)
    assert inside.wait(PATIENCE_S)
    others = [children.submit(int) for _ in range(5)]
    children.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert all(one.cancelled() for one in others)
    assert first.result(PATIENCE_S) is None
    children.shutdown()


def test_a_pool_that_was_never_used_is_shut_down_twice() -> None:
    children = Children(1)
    children.shutdown()
    children.shutdown()
    with pytest.raises(RuntimeError, match="shut down"):
        children.submit(int)


@pytest.mark.parametrize("has_waitid", [True, False])
def test_without_pidfds_a_thread_waits_for_the_end(monkeypatch: pytest.MonkeyPatch, has_waitid: bool) -> None:
    """macOS, and a kernel that refuses; before Python 3.13 macOS has no waitid either."""
    monkeypatch.delattr(os, "pidfd_open")
    if not has_waitid:
        monkeypatch.delattr(os, "waitid")
    with shell() as sh:
        assert sh.ended("exit 3").error == "CommandFailed: exit code 3"
        assert sh.printed("echo x") == "x\n"
        task = sh.start(FOREVER)
        task.cancel()
        assert end_of(task).state is State.CANCELLED
