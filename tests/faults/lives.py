"""Processes for the tests of the durable store, which can be talked to, stopped and killed. See `zygote.py`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from tests.faults.zygote import Talk
from tests.house.sources import ROOT

PATIENCE_S = 60
"""Far beyond anything that passes: only a hang gets here."""


class Life:
    """A process. `say` and `hear` are of its `talk`."""

    def __init__(self, talk: Talk, status: Talk) -> None:
        self._talk, self._status = talk, status
        self.pid: int = status.hear(PATIENCE_S)
        self._code: int | None = None

    def say(self, what: Any) -> None:
        self._talk.say(what)

    def hear(self) -> Any:
        return self._talk.hear(PATIENCE_S)

    def ask(self, what: Any) -> Any:
        self.say(what)
        return self.hear()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL. Once this has returned it is gone."""
        self.signal(signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL

    def wait(self) -> int:
        """How it has ended: its exit code, or the negative number of a signal."""
        if self._code is None:
            self._code = self._status.hear(PATIENCE_S)
        return self._code

    def is_there(self) -> bool:
        """False once it has ended. Waits a moment for that, as there is no other way to wait for a signal's effect."""
        try:
            self._code = self._status.hear(0.05)
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        """Whatever became of it, it is gone afterwards."""
        if self._code is None:
            with suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            self.wait()
        self._talk.close()
        self._status.close()


class Zygote:
    """Makes processes that have `modules` imported. Any thread may ask."""

    def __init__(self, *modules: str) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.faults.zygote", str(there.fileno()), *modules]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[there.fileno()])
        there.close()
        self._asked = here
        self._lock = Lock()

    def begin(self, work: Callable[..., None], **args: Any) -> Life:
        """A process that does `work(talk, **args)` and ends."""
        call = f"{work.__module__}:{work.__qualname__}"
        talk, its_talk = socket.socketpair()
        status, its_status = socket.socketpair()
        with its_talk, its_status, self._lock:
            request = json.dumps({"call": call, "args": args}).encode()
            socket.send_fds(self._asked, [request], [its_talk.fileno(), its_status.fileno()])
        return Life(Talk(talk), Talk(status))

    @contextmanager
    def life(self, work: Callable[..., None], **args: Any) -> Iterator[Life]:
        """The same, which is gone afterwards."""
        life = self.begin(work, **args)
        try:
            yield life
        finally:
            life.close()

    def close(self) -> None:
        self._asked.close()
        self._process.wait(PATIENCE_S)
