"""The other end of the socket: asks a running scheduler, and gives its answer."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tickless.control import wire
from tickless.control.documents import Document
from tickless.control.refusals import Code, Refusal

PATIENCE_S = 30.0
"""How long an answer may take, where it is not one that waits."""


def ask(path: Path, question: str, given: dict[str, Any], timeout_s: float | None = PATIENCE_S) -> Document:
    """The answer. `timeout_s`: how long it may take; None for as long as it takes.

    Raises Refusal: the scheduler's own, or that it cannot be reached, or takes too long.
    """
    with closing(connected(path)) as connection:
        connection.settimeout(timeout_s)
        for answer in _documents(path, connection, question, given):
            return answer
    raise _gone(path)


def follow(path: Path, limit: int) -> Iterator[Document]:
    """First what is said of the scheduler, then its newest events, at most `limit`, then each as it happens."""
    with closing(connected(path)) as connection:
        yield from _documents(path, connection, "follow", {"limit": limit})


def connected(path: Path) -> socket.socket:
    """A connection to who listens there. Raises Refusal."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(os.fspath(path))
    except OSError as error:
        connection.close()
        why = {
            "FileNotFoundError": "there is no such socket",
            "ConnectionRefusedError": "whose it was has ended",
            "PermissionError": "it is another user's",
        }.get(type(error).__name__, str(error))
        raise Refusal(Code.UNREACHABLE, "unreachable", f"{path}: no scheduler can be reached there: {why}") from None
    return connection


def is_answered(path: Path) -> bool:
    """Whether somebody listens there."""
    try:
        connected(path).close()
    except Refusal:
        return False
    return True


def _documents(path: Path, connection: socket.socket, question: str, given: dict[str, Any]) -> Iterator[Document]:
    try:
        with suppress(BrokenPipeError):  # it has turned us away before we spoke, and said why
            wire.send(connection, wire.question(question, given))
        for line in wire.lines(connection):
            document = wire.read(line)
            refusal = wire.refusal_in(document)
            if refusal is not None:
                raise refusal
            yield document
    except TimeoutError:
        raise Refusal(
            Code.TIMED_OUT, "timed_out", f"{path}: the scheduler has not answered within {connection.gettimeout():g} s"
        ) from None
    except OSError:
        raise _gone(path) from None
    except ValueError as error:
        raise Refusal(Code.UNREACHABLE, "unreachable", f"{path}: who answers is no scheduler: {error}") from None


def _gone(path: Path) -> Refusal:
    return Refusal(Code.UNREACHABLE, "unreachable", f"{path}: the scheduler ended before it had answered")
