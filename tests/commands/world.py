"""A scheduler whose tasks are commands, and ways to wait for what real processes do."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tickless import Pool, Run, Scheduler, State, Task
from tickless.commands.children import Children
from tickless.commands.command import Command
from tickless.commands.kept import KeptOutput, Outputs
from tickless.commands.lines import Lines
from tickless.instants import SECOND_US

PATIENCE_S = 60.0
"""Far beyond anything that passes: only a hang gets here."""
FOREVER = "sleep 1000"


class Shell:
    """`scheduler` is started; its only pool is `children`."""

    def __init__(self, children: Children, outputs: Outputs, scheduler: Scheduler) -> None:
        self.children = children
        self.outputs = outputs
        self.scheduler = scheduler

    def start(self, run: str | tuple[str, ...], id: str | None = None, **said: Any) -> Task[Any]:
        """The task of a command, which begins now. What is said is the command's, or the task's."""
        of_command = {key: said.pop(key) for key in list(said) if key in Command.__dataclass_fields__}
        return self.scheduler.schedule(Command(run, **of_command), id=id, **said)

    def ended(self, run: str | tuple[str, ...], **said: Any) -> Run:
        return end_of(self.start(run, **said))

    def printed(self, run: str | tuple[str, ...], **said: Any) -> str:
        """What a command printed that succeeded."""
        task = self.start(run, **said)
        last = end_of(task)
        assert last.state is State.SUCCEEDED, last.error
        return self.output(task).text

    def output(self, task: Task[Any]) -> KeptOutput:
        return self.outputs.of(task.id)[-1]


def end_of(task: Task[Any]) -> Run:
    assert task.wait(PATIENCE_S), f"{task.id} goes on"
    return task.runs()[-1]


@contextmanager
def shell(slots: int = 10, lines: Lines | None = None, folder: Path | None = None, **options: Any) -> Iterator[Shell]:
    """All that it has begun is killed in the end, at the latest."""
    outputs = Outputs(folder)
    children = Children(slots, outputs=outputs, lines=lines)
    options = {"observers": [], "keep_finished": 10_000, **options}
    try:
        with Scheduler(Pool(children, slots=slots), **options) as scheduler:
            try:
                yield Shell(children, outputs, scheduler)
            finally:
                scheduler.close(timeout=0, cancel=True)
                children.kill_all()
    finally:
        children.kill_all()
        children.shutdown()
        if lines is not None:
            lines.close()


class Fifo:
    """Where a child says that it is so far: `echo word > {path}`."""

    def __init__(self, folder: Path, name: str = "fifo") -> None:
        self.path = folder / name
        os.mkfifo(self.path)
        self._number = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)  # so that no writer waits, and no end comes
        self._rest = b""

    def word(self) -> str:
        """The next line."""
        while b"\n" not in self._rest:
            assert select.select([self._number], [], [], PATIENCE_S)[0], "the child says nothing"
            self._rest += os.read(self._number, 4096)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        os.close(self._number)


@contextmanager
def fifo(folder: Path, name: str = "fifo") -> Iterator[Fifo]:
    made = Fifo(folder, name)
    try:
        yield made
    finally:
        made.close()


def is_gone(pid: int) -> bool:
    """Whether the process ends while one waits: any process, not only a child."""
    try:
        number = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([number], [], [], PATIENCE_S)[0])
    finally:
        os.close(number)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, 9)


def our_children() -> list[int]:
    """Processes whose parent is this one, zombies included."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                stat = Path(f"/proc/{name}/stat").read_text("ascii", "replace")
                if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(name))
    return found


SOON_US = SECOND_US // 20
"""A `kill_after` that a test waits for."""
