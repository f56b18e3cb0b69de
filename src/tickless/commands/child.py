"""One process that a command has become, from its start to its end. Lives in the thread of its pool."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, Any

from tickless.commands.command import Command, CommandFailed
from tickless.observe.text import printable

CHUNK = 65_536
LAST_BYTES = 1 << 20
"""What a pipe holds at most: so much is read after the end, though a daemon may go on to print."""


class Child:
    """A process in a group of its own, and its end as a future."""

    def __init__(self, command: Command, environment: Mapping[str, str]) -> None:
        """Raises CommandFailed where it cannot be started."""
        self.command = command
        self.future: Future[None] = Future()
        self.stopped = False
        """Whether it was asked to stop."""
        self.last_line = b""
        self.pipe, theirs = os.pipe()  # not inherited, but for the copies that are made for the child
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

    def read(self) -> bytes | None:
        """What it has printed; None: nothing more will come; empty: nothing just now."""
        if self.pipe < 0:
            return None
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            self.close_pipe()
            return None
        return data

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

    def reap(self) -> int:
        """Its exit code; negative: the signal that killed it. What is left of a group that was stopped is killed first,
        while the number still is its own.
        """
        if self.stopped:
            self.signal_group(signal.SIGKILL)
        self.pid = None
        return self._process.wait()

    def wait_beside(self) -> int:
        """For a thread of its own, where there are no pidfds: sleeps until it has ended, and leaves it to be reaped."""
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        return self._process.pid


def started(command: Command, environment: Mapping[str, str], pipe: int) -> subprocess.Popen[bytes]:
    more: dict[str, Any] = {} if command.user is None else _as_user(command.user)
    with _stdin(command) as stdin:
        try:
            return subprocess.Popen(
                command.arguments,
                stdin=stdin,
                stdout=pipe,
                stderr=pipe,
                cwd=command.cwd,
                env=environment,
                start_new_session=True,  # a group of its own, and no terminal
                **more,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise CommandFailed(_why_not(command, error)) from None


def _stdin(command: Command) -> IO[bytes]:
    """A file to read from: for a text one without a name, so that nobody has to write while it reads."""
    if command.stdin is None:
        return open(os.devnull, "rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(command.stdin.encode("utf-8", "surrogateescape"))
    file.seek(0)
    return file


def _as_user(name: str) -> dict[str, Any]:
    import pwd  # systems with users only

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise CommandFailed(f"user {name}: there is no such user on this machine") from None
    if entry.pw_uid == os.geteuid():
        return {}
    if os.geteuid() != 0:
        raise CommandFailed(f"user {name}: only root may run commands as somebody else")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": os.getgrouplist(name, entry.pw_gid)}


def _why_not(command: Command, error: Exception) -> str:
    """What a person can do about it."""
    program = command.arguments[0]
    if isinstance(error, FileNotFoundError):
        if command.cwd is not None and not os.path.isdir(command.cwd):
            return f"cannot be started: the folder {command.cwd} (cwd) is not there"
        return f"cannot be started: no program {printable(program)} is found; give its whole path, or PATH in env"
    if isinstance(error, PermissionError):
        return f"cannot be started: {printable(program)} may not be executed: {error.strerror}"
    if isinstance(error, OSError):
        return f"cannot be started: {error.strerror}"
    return f"cannot be started: {printable(str(error))}"
