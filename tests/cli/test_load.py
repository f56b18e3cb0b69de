"""Which file and which name a target means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickless.cli.load import split


@pytest.mark.parametrize(
    ("target", "path", "name"),
    [
        ("tasks.py:night", "tasks.py", "night"),
        ("tasks.py", "tasks.py", "scheduler"),
        ("folder/tasks.py:make", "folder/tasks.py", "make"),
        ("C:/folder/tasks.py", "C:/folder/tasks.py", "scheduler"),
        ("C:/folder/tasks.py:night", "C:/folder/tasks.py", "night"),
        ("12:30/tasks.py", "12:30/tasks.py", "scheduler"),
        ("tasks.py:", "tasks.py:", "scheduler"),
    ],
)
def test_last_colon_parts_the_name_from_the_file(target: str, path: str, name: str) -> None:
    """In life: a drive letter passes for the file, and the rest for the name."""
    assert split(target) == (Path(path), name)
