"""What a task file says, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tickless.commands.command import Command
from tickless.errors import TicklessError
from tickless.rules import Rule
from tickless.values import Limit

ABOUT_FIRES = (
    "overlap", "max_running", "grace", "catch_up", "max_catch_up", "pause_after_failures",
    "start", "until", "max_runs", "jitter",
)  # fmt: skip
"""Options about the fires of a rule: of a flow they are said of the root, and are the flow's."""
OF_FLOW = (*ABOUT_FIRES, "tags")
"""What of the root is the flow's: by its tags the whole is paused."""


@dataclass(frozen=True, slots=True)
class PythonCall:
    """`python = "pkg.mod:func"`: what is imported when the file is done, and not when it is read."""

    target: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskDef:
    """One task."""

    name: str
    work: Command | PythonCall
    when: Rule | None = None
    when_text: str | None = None
    """As it was written."""
    after_tasks: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """The keywords of `Scheduler.schedule` that were said."""
    on_failure: Command | PythonCall | None = None
    description: str | None = None
    place: str = field(default="", compare=False)
    """Where it stands: `tasks.dump`, `line 7`."""


@dataclass(frozen=True, slots=True)
class FlowDef:
    """Tasks that are joined by `after_tasks`: a program that recurs as one. Its id is the name of its first root."""

    id: str
    when: Rule | None
    options: Mapping[str, Any]
    tasks: tuple[TaskDef, ...]
    """Their options without those about fires, which are the flow's."""


Part = TaskDef | FlowDef


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file or a crontab, read."""

    path: Path
    kind: Literal["toml", "crontab"]
    timezone: str = "UTC"
    store: str | None = None
    pools: Mapping[str, int] = field(default_factory=dict)
    """Name -> slots."""
    limits: tuple[Limit, ...] = ()
    tasks: tuple[TaskDef, ...] = ()
    """All of them, in the order of the file."""
    parts: tuple[Part, ...] = ()
    """What is scheduled: tasks that stand alone, and flows."""
    warnings: tuple[str, ...] = ()


class Problem(NamedTuple):
    """One thing that is wrong with a file."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class FileError(TicklessError):
    """A file that cannot be done: all that is wrong with it, in its order."""

    def __init__(self, path: Path, problems: tuple[Problem, ...]) -> None:
        super().__init__(path, problems)
        self.path = path
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(f"{self.path}: {problem}" for problem in self.problems)


def part_id(part: Part) -> str:
    """The id under which it is scheduled."""
    return part.id if isinstance(part, FlowDef) else part.name
