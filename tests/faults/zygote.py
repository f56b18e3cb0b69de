"""Forks processes for tests: each starts as a program does that has imported everything, 5 ms after it was asked for.

Run as a program by `lives.py`. It never makes a scheduler, has one thread, and so may fork. Each process that it makes
has a keeper, which waits for it and says how it ended: the test is not its parent.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
from typing import Any

LONGEST_S = 100
"""A process that hangs is killed, and the test sees how it ended."""


class Talk:
    """One end of a conversation in lines of JSON."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._rest = b""

    def say(self, what: Any) -> None:
        self._end.sendall(json.dumps(what).encode() + b"\n")

    def hear(self, patience_s: float | None = None) -> Any:
        """What the other end says next. Raises EOFError when it has gone, TimeoutError after `patience_s`."""
        while b"\n" not in self._rest:
            self._end.settimeout(patience_s)
            more = self._end.recv(1 << 16)
            if not more:
                raise EOFError("the other end has gone")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        self._end.close()


def _live(request: dict[str, Any], fd: int) -> None:
    """The process itself."""
    signal.alarm(LONGEST_S)
    module, _, name = request["call"].partition(":")
    work = getattr(importlib.import_module(module), name)
    work(Talk(socket.socket(fileno=fd)), **request["args"])


def _keep(request: dict[str, Any], talk_fd: int, status_fd: int) -> None:
    """Make the process, say its number, wait for it, say how it ended."""
    pid = os.fork()
    if pid == 0:
        os.close(status_fd)
        code = 1
        try:
            _live(request, talk_fd)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:  # noqa: BLE001 - shown, and told by the exit code
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(talk_fd)
    status = Talk(socket.socket(fileno=status_fd))
    status.say(pid)
    status.say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def main() -> None:
    """Fork for each request that comes, until the test ends."""
    asked = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are nobody's business
    while True:
        line, fds, _, _ = socket.recv_fds(asked, 1 << 16, 2)
        if not line:
            return
        if os.fork() == 0:
            asked.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _keep(json.loads(line), *fds)
            os._exit(0)
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    main()
