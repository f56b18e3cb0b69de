"""What commands have printed, kept: the beginning and the end of each run's output, of the newest runs of each task."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from urllib.parse import quote

HEAD, TAIL = 64 << 10, 192 << 10
"""In bytes: so much of the beginning and of the end of an output is kept."""
KEEP_RUNS = 20
MOST_KEPT = 1_000
"""Outputs in memory, of all tasks."""
VERSION = 1


@dataclass
class Output:
    """The output of one run, as far as it is kept."""

    task: str
    """The task's id; of a task of a round `flow/name`, whichever round it is."""
    run: str
    due: datetime | None
    attempt: int
    started: datetime | None = None
    ended: datetime | None = None
    ending: str | None = None
    """How it ended, in words; None while it runs."""
    size: int = 0
    """Bytes printed in all."""
    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    _in_tail: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = HEAD - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail.append(data)
            self._in_tail += len(data)
            while self._in_tail - len(self.tail[0]) >= TAIL:
                self._in_tail -= len(self.tail.popleft())

    @property
    def left_out(self) -> int:
        return self.size - len(self.head) - min(self._in_tail, TAIL)

    @property
    def data(self) -> bytes:
        """What is kept, and between the parts how much is not."""
        end = b"".join(list(self.tail))[-TAIL:]
        if self.left_out <= 0:
            return bytes(self.head) + end
        return bytes(self.head) + f"\n... {self.left_out:,} bytes left out ...\n".encode() + end

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def base_of(task_id: str) -> str:
    """`etl/load` of `etl@2026-12-01T02:30:00Z/load`: what the outputs of all its rounds are kept under."""
    flow, at, rest = task_id.partition("@")
    _, slash, name = rest.partition("/")
    return f"{flow}/{name}" if at and slash else task_id


class Outputs:
    """The newest outputs: in memory, and where there is a folder in files of it, too. Any thread may ask."""

    def __init__(
        self, folder: Path | None = None, keep_runs: int = KEEP_RUNS, tell: Callable[[str], None] | None = None
    ) -> None:
        self._folder = folder
        self._keep_runs = keep_runs
        self._tell = tell
        self._lock = Lock()
        self._by_task: dict[str, deque[Output]] = {}
        self._order: deque[Output] = deque()
        self._is_told = False

    def begin(self, task_id: str, run: str, due: datetime | None, attempt: int) -> Output:
        """A run begins."""
        output = Output(base_of(task_id), run, due, attempt)
        with self._lock:
            self._by_task.setdefault(output.task, deque(maxlen=self._keep_runs)).append(output)
            self._order.append(output)
            if len(self._order) > MOST_KEPT:
                self._forget(self._order.popleft())
        return output

    def _forget(self, output: Output) -> None:
        kept = self._by_task.get(output.task)
        if kept is not None and kept and kept[0] is output:
            kept.popleft()
            if not kept:
                del self._by_task[output.task]

    def end(self, output: Output, ending: str) -> None:
        """A run has ended: it is written where there is a folder. A disk that takes nothing is told of once."""
        output.ending = ending
        if self._folder is None:
            return
        try:
            _write(self._folder, output, self._keep_runs)
        except OSError as error:
            if not self._is_told and self._tell is not None:
                self._tell(f"{self._folder}: the output of commands is not kept: {error.strerror}")
            self._is_told = True
        else:
            self._is_told = False

    def of(self, task_id: str) -> list[Output]:
        """Those of the task, oldest first: of one of a round, of that round; `flow/name`: of all its rounds."""
        base = base_of(task_id)
        with self._lock:
            here = list(self._by_task.get(base, ()))
        known = {(one.run, one.attempt) for one in here}
        there = [] if self._folder is None else _read(self._folder, base)
        found = [*(one for one in there if (one.run, one.attempt) not in known), *here]
        return found if base == task_id else [one for one in found if one.run.startswith(task_id)]


def _place(folder: Path, base: str) -> Path:
    return folder / quote(base, safe="").replace(".", "%2E")


def _write(folder: Path, output: Output, keep_runs: int) -> None:
    place = _place(folder, output.task)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    head = {
        "v": VERSION,
        "run": output.run,
        "due": _iso(output.due),
        "attempt": output.attempt,
        "started": _iso(output.started),
        "ended": _iso(output.ended),
        "ending": output.ending,
        "bytes": output.size,
    }
    began = output.started or output.due
    stamp = "0" if began is None else f"{began.astimezone(UTC):%Y%m%dT%H%M%S.%f}"
    path = place / f"{stamp}-{output.attempt}.log"
    part = place / f".{path.name}.part"
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(number, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + output.data)
        os.replace(part, path)  # who reads it finds all of it
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise
    names = sorted(name for name in os.listdir(place) if name.endswith(".log"))
    for name in names[: max(0, len(names) - keep_runs)]:
        os.unlink(place / name)


def _read(folder: Path, base: str) -> list[Output]:
    """Those in files, oldest first; one that is damaged is left out."""
    place = _place(folder, base)
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".log"))
    except OSError:
        return []
    found = []
    for name in names:
        try:
            line, _, data = (place / name).read_bytes().partition(b"\n")
            head = json.loads(line)
            output = Output(base, head["run"], _when(head["due"]), head["attempt"])
            output.started, output.ended = _when(head["started"]), _when(head["ended"])
            output.ending, output.size, output.head = head["ending"], head["bytes"], bytearray(data)
            output._in_tail = output.size - len(data)  # what was left out is said within
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found.append(output)
    return found


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()


def _when(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
