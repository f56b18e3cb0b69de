"""One process that a command has become, from its start to its end. Lives in the thread of its pool."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from tickless.commands.command import Command, CommandFailed
from tickless.commands.refused import why_not

CHUNK = 65_536
LAST_BYTES = 1 << 20
"""What a pipe holds at most: so much is read after the end, though a daemon may go on to print."""


class Child:
    """A process in a group of its own, and its end as a future."""

    def __init__(self, command: Command, environment: Mapping[str, str]) -> None:
        """Raises CommandFailed where it cannot be started; then nothing is left of it."""
        self.command = command
        self.future: Future[None] = Future()
        self.stopped = False
        """Whether it was asked to stop."""
        self.pipe, theirs = _pipe(command)
        try:
            os.set_blocking(self.pipe, False)
            self._process = started(command, environment, theirs)
        except BaseException:
            os.close(self.pipe)
            raise
        finally:
            os.close(theirs)
        self.pid: int | None = self._process.pid
        """None once it is reaped: the number may be another's then."""
        self._status: int | None = None
        """How it ended, where that was learnt before it was asked for."""

    def read(self) -> bytes | None:
        """What it has printed; None: nothing more will come; empty: nothing just now."""
        if self.pipe < 0:
            return None
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return b""
        return data or None

    def close_pipe(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1

    def signal_group(self, number: int) -> None:
        """To all of its group. Nothing where it is reaped, or all have gone."""
        pid = self.pid
        if pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    def reap(self) -> int | None:
        """Its exit code, once it has ended; negative: the signal that killed it; None: it went elsewhere.

        What is left of a group that was stopped is killed first, while the number still is its own.
        """
        if self.stopped:
            self.signal_group(signal.SIGKILL)
        pid, self.pid = self.pid, None
        code: int | None = None
        # Not by `Popen.wait`, for which a code that is lost is 0: a failed command would have succeeded.
        with suppress(ChildProcessError):
            status = os.waitpid(self._process.pid, 0)[1] if pid is not None and self._status is None else self._status
            code = None if status is None else os.waitstatus_to_exitcode(status)
        self._process.returncode = 0 if code is None else code  # it is not to look itself any more
        return code

    def wait_beside(self) -> None:
        """For a thread of its own, where there are no pidfds: sleeps until it has ended, and leaves it to be reaped.

        macOS has no way to leave it before Python 3.13: there its number is free from then on, a moment too early.
        """
        pid = self._process.pid
        with suppress(ChildProcessError):
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            else:
                self._status = os.waitpid(pid, 0)[1]


def _pipe(command: Command) -> tuple[int, int]:
    """Not inherited, but for the copies that are made for the child. Raises CommandFailed."""
    try:
        return os.pipe()
    except OSError as error:
        raise CommandFailed(why_not(command, error)) from None


def started(command: Command, environment: Mapping[str, str], pipe: int) -> subprocess.Popen[bytes]:
    """The process, in a session of its own: a group of its own, and no terminal. Raises CommandFailed."""
    more: dict[str, Any] = {} if command.user is None else _as_user(command.user)
    if more:
        environment = {**environment, **more.pop("environment"), **dict(command.env)}
    # A child inherits which signals its parent's thread has blocked: one that does not see SIGTERM is hard to stop.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    stdin = subprocess.DEVNULL
    try:
        if command.stdin is not None:
            stdin = _stdin(command.stdin)
        if blocked:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return subprocess.Popen(
            command.arguments,
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            cwd=command.cwd,
            env=environment,
            start_new_session=True,
            **more,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise CommandFailed(why_not(command, error)) from None
    finally:
        if blocked:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if stdin >= 0:
            os.close(stdin)


def _stdin(text: str) -> int:
    """A file with the text in it and without a name, so that nobody has to write while the child reads."""
    data = text.encode("utf-8", "surrogateescape")
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("stdin")
    else:
        with tempfile.TemporaryFile() as file:
            number = os.dup(file.fileno())
    try:
        with open(number, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(number, 0, os.SEEK_SET)
    except BaseException:
        os.close(number)
        raise
    return number


def _as_user(name: str) -> dict[str, Any]:
    import pwd  # systems with users only

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise CommandFailed(
            f"cannot be started: user {name}: there is no such user on this machine; make one, or give another"
        ) from None
    if entry.pw_uid == os.geteuid():
        return {}
    if os.geteuid() != 0:
        raise CommandFailed(
            f"cannot be started: user {name}: only root may run commands as somebody else; leave it out, or run as root"
        )
    return {
        "environment": {"HOME": entry.pw_dir, "LOGNAME": name, "USER": name},  # or it would write into root's home
        "user": entry.pw_uid,
        "group": entry.pw_gid,
        "extra_groups": os.getgrouplist(name, entry.pw_gid),
    }
