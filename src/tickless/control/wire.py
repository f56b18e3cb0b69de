"""What goes over the socket: one JSON document a line, in UTF-8."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

from tickless.control.documents import VERSION, Document
from tickless.control.refusals import Code, Refusal

LONGEST_QUESTION = 1 << 20
"""In bytes. Answers may be longer: they come from us."""


def send(to: socket.socket, document: Document) -> None:
    """One line. Raises OSError."""
    to.sendall(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n")


def lines(of: socket.socket, most: int | None = None) -> Iterator[bytes]:
    """Line by line until the other end is closed. Raises ValueError for one that is longer than `most`."""
    rest = b""
    while chunk := of.recv(65_536):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if most is not None and len(rest) > most:
            raise ValueError(f"a question is at most {most} bytes long")


def question(name: str, given: dict[str, Any]) -> Document:
    return {"v": VERSION, "ask": name, "with": given}


def refused(refusal: Refusal) -> Document:
    return {"v": VERSION, "error": {"code": int(refusal.code), "word": refusal.word, "message": str(refusal)}}


def refusal_in(document: Document) -> Refusal | None:
    """The refusal that an answer is; None for any other."""
    error = document.get("error")
    if not isinstance(error, dict):
        return None
    return Refusal(Code(error["code"]), str(error["word"]), str(error["message"]))


def read(line: bytes) -> Document:
    """The document of a line. Raises ValueError."""
    try:
        document = json.loads(line.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("is no document")
    return document
