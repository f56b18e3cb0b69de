"""What commands have printed, kept: the beginning and the end of each run's output, of the newest runs of each task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from logging import getLogger
from pathlib import Path
from threading import Condition, Lock, Thread

from tickless.commands.files import Header, read, write
from tickless.instants import Instant, datetime_of

HEAD, TAIL = 64 << 10, 192 << 10
"""In bytes: so much of the beginning and of the end of an output is kept."""
SLACK = 64 << 10
"""The tail may grow by so much before it is cut: to cut it at each small piece would move all of it each time."""
KEEP_RUNS = 20
MOST_BYTES = 64 << 20
"""What ended runs of all tasks may take in memory."""
OVERHEAD = 1_024
"""What an output takes that has nothing in it, roughly."""
_LOG = getLogger("tickless.commands")


@dataclass(eq=False)
class KeptOutput:
    """The output of one run, as far as it is kept. Any thread may ask; one adds."""

    task: str
    """The task's id; of a task of a round `flow/name`, whichever round it is."""
    run: str
    due: datetime | None
    attempt: int
    started: datetime | None = None
    ended: datetime | None = None
    ending: str | None = None
    """How it ended, in words; None while it runs."""
    code: int | None = None
    """Its exit code; negative: the signal that killed it."""
    size: int = 0
    """Bytes printed in all."""
    written: bytes | None = None
    """What is kept, of one that was read from a file."""
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)
    _lock: Lock = field(default_factory=Lock)

    def add(self, data: bytes) -> None:
        with self._lock:
            self.size += len(data)
            room = HEAD - len(self._head)
            if room > 0:
                self._head += data[:room]
                data = data[room:]
            if data:
                self._tail += data
                if len(self._tail) > TAIL + SLACK:
                    del self._tail[:-TAIL]

    @property
    def weight(self) -> int:
        return len(self._head) + len(self._tail) + OVERHEAD

    @property
    def data(self) -> bytes:
        """What is kept, and between the parts how much is not."""
        if self.written is not None:
            return self.written
        with self._lock:
            head, tail = bytes(self._head), bytes(self._tail[-TAIL:])
            left_out = self.size - len(head) - len(tail)
        if left_out <= 0:
            return head + tail
        return head + f"\n... {left_out:,} bytes left out ...\n".encode() + tail

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @property
    def header(self) -> Header:
        return Header(self.run, self.due, self.attempt, self.started, self.ended, self.ending, self.code, self.size)


def base_of(task_id: str) -> str:
    """`etl/load` of `etl@2026-12-01T02:30:00Z/load`: what the outputs of all its rounds are kept under."""
    flow, at, rest = task_id.partition("@")
    _, slash, name = rest.partition("/")
    return f"{flow}/{name}" if at and slash else task_id


class Outputs:
    """The newest `keep_runs` outputs of each task: in memory, and where there is a folder in files of it, too.

    Files are written by a thread that ends when nothing is left to write: a slow disk holds up no command. One that
    takes nothing is told of once, by `tell` (a warning of the log "tickless.commands"), and fails no run.
    """

    def __init__(
        self,
        folder: Path | None = None,
        keep_runs: int = KEEP_RUNS,
        tell: Callable[[str], object] = _LOG.warning,
    ) -> None:
        self._folder = folder
        self._keep_runs = keep_runs
        self._tell = tell
        self._lock = Condition()
        self._by_task: dict[str, deque[KeptOutput]] = {}
        self._ended: dict[KeptOutput, None] = {}
        """Those in memory that have ended, in that order."""
        self._weight = 0
        self._unwritten: dict[KeptOutput, None] = {}
        self._writes = False
        """Whether the thread is there."""
        self._is_told = False

    # The thread of the commands

    def begin(self, task_id: str, run: str, due: datetime | None, attempt: int) -> KeptOutput:
        """A run begins."""
        output = KeptOutput(base_of(task_id), run, due, attempt)
        with self._lock:
            kept = self._by_task.setdefault(output.task, deque())
            kept.append(output)
            if len(kept) > self._keep_runs:
                oldest = next((one for one in kept if one in self._ended), None)  # what runs is looked at
                if oldest is not None:
                    self._forget(oldest)
        return output

    def add(self, output: KeptOutput, data: bytes) -> None:
        """It has printed that. Its beginning is written each time it has doubled: others may look at the folder."""
        before = output.size
        output.add(data)
        if self._folder is not None and before < HEAD and output.size >= 2 * before:
            self._write_soon(output)

    def end(self, output: KeptOutput, ending: str, code: int | None, at: Instant) -> None:
        """A run has ended."""
        output.ended, output.ending, output.code = datetime_of(at), ending, code
        with self._lock:
            self._ended[output] = None
            self._weight += output.weight
            while len(self._by_task[output.task]) > self._keep_runs:
                oldest = next((one for one in self._by_task[output.task] if one in self._ended), None)
                if oldest is None:
                    break
                self._forget(oldest)
            while self._weight > MOST_BYTES and self._ended:
                self._forget(next(iter(self._ended)))
        if self._folder is not None:
            self._write_soon(output)

    def _forget(self, output: KeptOutput) -> None:
        """In memory. Under the lock."""
        del self._ended[output]
        self._weight -= output.weight
        kept = self._by_task[output.task]
        kept.remove(output)
        if not kept:
            del self._by_task[output.task]

    def _write_soon(self, output: KeptOutput) -> None:
        with self._lock:
            self._unwritten[output] = None  # twice is once: what is written is how it is then
            if self._writes:
                return
            self._writes = True
        try:
            Thread(target=self._write_all, name="tickless-outputs").start()
        except RuntimeError:  # the interpreter ends, or there are too many threads
            self._write_all()

    def _write_all(self) -> None:
        while True:
            with self._lock:
                if not self._unwritten:
                    self._writes = False
                    self._lock.notify_all()
                    return
                output = next(iter(self._unwritten))
                del self._unwritten[output]
            self._write(output)

    def _write(self, output: KeptOutput) -> None:
        assert self._folder is not None
        try:
            write(self._folder, output.task, output.header, output.data, self._keep_runs)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the folder's, and others wait for this thread
            is_told, self._is_told = self._is_told, True
            if not is_told:
                why = getattr(error, "strerror", None) or error
                with suppress(Exception):  # foreign code
                    self._tell(f"{self._folder}: no output of commands is kept there: {why}; make room, or chmod it")
        else:
            self._is_told = False

    # Any thread

    def flush(self) -> None:
        """Wait until all that has ended is written."""
        with self._lock:
            self._lock.wait_for(lambda: not self._writes)

    def of(self, task_id: str) -> list[KeptOutput]:
        """Those of the task, oldest first: of one of a round, of that round; `flow/name`: of all its rounds."""
        base = base_of(task_id)
        with self._lock:
            here = list(self._by_task.get(base, ()))
        known = {(one.run, one.attempt, one.started) for one in here}
        there = [] if self._folder is None else [_read_back(base, *one) for one in read(self._folder, base)]
        found = [*(one for one in there if (one.run, one.attempt, one.started) not in known), *here]
        found = found[-max(self._keep_runs, len(here)) :]
        return found if base == task_id else [one for one in found if _is_of(one, task_id)]


def _is_of(output: KeptOutput, task_id: str) -> bool:
    """Whether it is of that task of a round: `etl@...Z/load` has one run, which has its name."""
    return output.run == task_id or output.run.startswith(f"{task_id}@")


def _read_back(base: str, header: Header, data: bytes) -> KeptOutput:
    output = KeptOutput(base, header.run, header.due, header.attempt, header.started, header.ended)
    output.ending, output.code, output.size, output.written = header.ending, header.code, header.size, data
    return output
