"""The crontabs of tests/data/crontabs, and what each is expected to mean."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tickless.commands.command import Command
from tickless.taskfile.crontab import read_crontab
from tickless.taskfile.values import TaskDef, TaskFile

FOLDER = Path(__file__).resolve().parents[1] / "data" / "crontabs"
CRONTABS = sorted(path.name for path in FOLDER.iterdir())
EXPECTED: dict[str, list[dict[str, Any]]] = tomllib.loads((Path(__file__).parent / "crontabs.toml").read_text("utf-8"))
ZONES = {"nicknames": "Europe/Berlin"}
"""Of the machine that a crontab without CRON_TZ is read on; elsewhere UTC."""
HOME = "/srv/home"


def text_of(name: str) -> str:
    """The text of a fixture, its line ends as they are."""
    return (FOLDER / name).read_bytes().decode("utf-8")


def crontab(name: str, text: str | None = None) -> TaskFile:
    """The fixture, read; `text`: in place of its own."""
    has_users = name == "debian-system"
    given = text_of(name) if text is None else text
    return read_crontab(FOLDER / name, given, user_column=has_users, timezone=ZONES.get(name, "UTC"))


def command(task: TaskDef) -> Command:
    """What the task runs, which in a crontab is a command."""
    assert isinstance(task.work, Command)
    return task.work


def meanings(file: TaskFile) -> list[tuple[Any, ...]]:
    """All that a task is, but for where it stands."""
    return [
        (task.name, task.work, task.when, task.when_text, task.after_tasks, dict(task.options), task.description)
        for task in file.tasks
    ]
