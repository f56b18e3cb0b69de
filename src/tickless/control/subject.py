"""What questions are asked about: a scheduler, and what is known beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from tickless.errors import UnknownTask, shown

if TYPE_CHECKING:  # who asks over the socket does not wait for the import of a scheduler
    from tickless.control.broadcast import Broadcast
    from tickless.records import Run, TaskInfo
    from tickless.round import Round
    from tickless.scheduler import Scheduler


class Kept(Protocol):
    """The output of one run of a command: see `tickless.commands`."""

    @property
    def run(self) -> str: ...
    @property
    def due(self) -> datetime | None: ...
    @property
    def attempt(self) -> int: ...
    @property
    def started(self) -> datetime | None: ...
    @property
    def ended(self) -> datetime | None: ...
    @property
    def ending(self) -> str | None: ...
    @property
    def size(self) -> int: ...
    @property
    def text(self) -> str: ...


class Outputs(Protocol):
    """Where outputs of commands are kept."""

    def of(self, task_id: str) -> Sequence[Kept]:
        """Of that task, oldest first."""


@dataclass
class Subject:
    """A scheduler, and what is known beside it."""

    scheduler: Scheduler
    runs_here: bool = False
    """Whether it is started in this process."""
    outputs: Outputs | None = None
    events: Broadcast | None = None
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """What a task file says of a task, by its id."""

    def listed(self) -> list[TaskInfo]:
        return self.scheduler.tasks()

    def task(self, id: str) -> TaskInfo:
        """The task, or of `flow/name` the one of that name in the flow's newest round. Raises UnknownTask."""
        try:
            return self.scheduler.get(id)
        except UnknownTask as error:
            found = self._in_newest_round(id)
            if found is None:
                raise UnknownTask(self._offer(id, error)) from None
            return found

    def _in_newest_round(self, id: str) -> TaskInfo | None:
        flow, slash, name = id.partition("/")
        if not slash or "@" in flow or all(info.id != flow for info in self.listed()):
            return None
        newest = self.newest_round(flow)
        return None if newest is None else self.scheduler.get(newest[name])

    def round(self, id: str) -> Round | None:
        """The round of that id; None where it is no round's."""
        if "@" not in id or "/" in id:
            return None
        try:
            return self.scheduler.round(id)
        except UnknownTask:
            return None

    def newest_round(self, flow: str) -> Round | None:
        rounds = self.scheduler.rounds(flow, 1)
        return rounds[0] if rounds else None

    def runs(self, info: TaskInfo, limit: int | None) -> list[Run]:
        return self.scheduler.runs(info, limit)

    def _offer(self, id: str, error: UnknownTask) -> str:
        from difflib import get_close_matches  # only where something went wrong

        there = [info.id for info in self.listed()]
        near = get_close_matches(id, there, n=1)
        if near:
            return f"no task {shown(id)} is listed (did you mean {shown(near[0])}?)"
        return str(error) if there else f"no task {shown(id)} is listed; there are none at all"
