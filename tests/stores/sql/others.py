"""Other processes that a test talks with, line by line."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from types import TracebackType

PATIENCE_S = 60.0
"""Far beyond anything that passes: only a hang gets here."""

HEADER = """
import os, signal, socket, sys, threading
from tickless.errors import *
from tickless.stores.sql.doorbell import Doorbell
from tickless.stores.sql.owners import Owners

signal.alarm(120)               # what the test forgets ends all the same
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def hear(): return sys.stdin.readline().strip()
def refused(call, *args):
    try:
        call(*args)
    except StoreError as error:
        return type(error).__name__
    return "nothing refused"
"""


class Other:
    """`source` after the usual imports, in a process of its own; `sys.argv[1:]` are `args`. Killed at the end."""

    def __init__(self, source: str, *args: object) -> None:
        command = [sys.executable, "-c", HEADER + textwrap.dedent(source), *map(str, args)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.pid = self._process.pid

    def __enter__(self) -> Other:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()
        for end in (self._process.stdin, self._process.stdout):
            assert end is not None
            end.close()

    def hears(self, line: str) -> None:
        """Say it to the other."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def says(self) -> str:
        """Its next line; the empty text when it has ended."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        assert ready, "the other process says nothing"
        return self._process.stdout.readline().decode().strip()

    def answers(self, line: str) -> str:
        self.hears(line)
        return self.says()

    def kill(self) -> None:
        """SIGKILL: nothing of its own runs any more."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def stop(self) -> None:
        """Freeze it, as a debugger or a suspended container does. Returns when it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
