"""Outputs of commands in files of a folder: for each task a folder, and in it for each run and attempt a file.

The first line is what is known of the run, as JSON; the rest is what it printed. Files are named by when the run began
and not by its due: a round that is tried again has the due of the first.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

VERSION = 1
LONGEST_NAME = 200
"""Of a folder, in bytes: most file systems take 255."""


class Header(NamedTuple):
    """What is known of a run."""

    run: str
    due: datetime | None
    attempt: int
    started: datetime | None
    ended: datetime | None
    """None while it runs; and of one whose scheduler died."""
    ending: str | None
    code: int | None
    size: int


def place_of(folder: Path, task: str) -> Path:
    """Where the task's files are. A long id is cut, and told from others by its hash."""
    name = quote(task, safe="", errors="surrogatepass").replace(".", "%2E")
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(task.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[: LONGEST_NAME - 17]}-{digest}"
    return folder / name


def write(folder: Path, task: str, header: Header, data: bytes, keep_runs: int) -> None:
    """Write the file anew; of those that are there the newest `keep_runs` stay. Only the owner may read it.

    Raises OSError.
    """
    place = place_of(folder, task)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = place / _name(header)
    part = place / f".{path.name}.{os.getpid()}.part"
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(number, "wb") as file:
            file.write(_first_line(header) + data)
        os.replace(part, path)  # who reads it finds all of it
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise
    for name in _names(place)[:-keep_runs]:
        with suppress(FileNotFoundError):  # another process prunes as well
            os.unlink(place / name)


def read(folder: Path, task: str) -> list[tuple[Header, bytes]]:
    """Those of the task, oldest first; one that is damaged is left out."""
    place = place_of(folder, task)
    found = []
    for name in _names(place):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            line, _, data = (place / name).read_bytes().partition(b"\n")
            found.append((_header(line), data))
    return found


def _names(place: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(place) if name.endswith(".log"))
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return []


def _name(header: Header) -> str:
    began = header.started or header.due
    stamp = "0" if began is None else f"{began.astimezone(UTC):%Y%m%dT%H%M%S.%f}"
    return f"{stamp}-{header.attempt}.log"


def _first_line(header: Header) -> bytes:
    document = {
        "v": VERSION,
        "run": header.run,
        "due": _iso(header.due),
        "attempt": header.attempt,
        "started": _iso(header.started),
        "ended": _iso(header.ended),
        "ending": header.ending,
        "code": header.code,
        "bytes": header.size,
    }
    return json.dumps(document).encode() + b"\n"


def _header(line: bytes) -> Header:
    head = json.loads(line)
    if head["v"] != VERSION:
        raise ValueError("written by another version")
    return Header(
        head["run"], _when(head["due"]), head["attempt"], _when(head["started"]), _when(head["ended"]),
        head["ending"], head["code"], head["bytes"],
    )  # fmt: skip


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()


def _when(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
