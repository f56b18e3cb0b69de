"""The task files of tests/data/taskfiles, and what a schema sees of a task file."""

from __future__ import annotations

import tomllib
from datetime import date, time
from pathlib import Path
from typing import Any

from tickless.taskfile.read import read
from tickless.taskfile.values import TaskFile

FOLDER = Path(__file__).resolve().parents[1] / "data" / "taskfiles"
GOOD = sorted(path.name for path in FOLDER.iterdir())


def text_of(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


def file_of(name: str, text: str | None = None) -> TaskFile:
    """The fixture, read; `text`: in place of its own."""
    return read(FOLDER / name, text)


def as_json(text: str) -> Any:
    """What the text holds, as an editor shows it to a schema: dates and times are texts. Raises TOMLDecodeError."""
    return _plain(tomllib.loads(text))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, date | time) else value
