"""What mypy and pyright say of a user's code: `right.py` is all right, and in `wrong.py` just what is marked is wrong.

Both are asked, since editors speak with pyright and builds with mypy, and they differ about decorators most of all.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"
Faults = dict[str, list[tuple[int, str]]]
"""The file's name -> (line, message) of each error."""


def said_by(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr  # errors were found, and it did not break down
    return done.stdout


def mypy() -> Faults:
    faults: Faults = {RIGHT.name: [], WRONG.name: []}
    for path, line, message in re.findall(
        r"^(.+?):(\d+): error: (.+)$", said_by("mypy", str(RIGHT), str(WRONG)), flags=re.MULTILINE
    ):
        faults[Path(path).name].append((int(line), message))
    return faults


def pyright() -> Faults:
    faults: Faults = {RIGHT.name: [], WRONG.name: []}
    # Without the files' names: with them it would not read pyproject.toml, which says strict.
    told = said_by("pyright", "--outputjson", "--pythonpath", sys.executable)
    for one in json.loads(told)["generalDiagnostics"]:
        faults[Path(one["file"]).name].append((one["range"]["start"]["line"] + 1, one["message"]))
    return faults


def marks() -> dict[int, list[str]]:
    """Line of `wrong.py` -> words of which the message has some."""
    found = {}
    for number, line in enumerate(WRONG.read_text("utf-8").splitlines(), start=1):
        if match := re.search(r"  # E: (.+)$", line):
            found[number] = match.group(1).split(" | ")
    return found


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_types_tell_right_from_wrong(checker: Callable[[], Faults]) -> None:
    """An argument that nobody checks fails at night, in a pool; one refused without need is cast away by the user."""
    faults, expected = checker(), marks()
    assert faults[RIGHT.name] == []
    assert len(expected) > 25
    found = faults[WRONG.name]
    assert {line for line, _ in found} == set(expected)
    assert [(line, message) for line, message in found if not any(word in message for word in expected[line])] == []
