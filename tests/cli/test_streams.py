"""Standard streams as they are in life: closed, full, in an encoding with few signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, PATIENCE_S
from tests.cli.stage import Stage, checked

FILE = """
store = "sqlite:///tasks.db"
[tasks.once]
run = "echo 'ä ö'; exit 3"
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A file that has run, and its store: the tests look at it."""
    it = Stage(tmp_path_factory.mktemp("stage"))
    it.write("tasks.toml", FILE)
    it.call("run", "tasks.toml")
    return it


def shell(stage: Stage, line: str) -> subprocess.CompletedProcess[str]:
    """The command with the redirections of a shell."""
    return subprocess.run(
        ["/bin/sh", "-c", f'"$@" {line}', "sh", *COMMAND],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
        cwd=stage.folder,
        env=stage.environment,
    )


@pytest.mark.parametrize(
    ("words", "code", "closed"),
    [
        ("ls", 0, ">&-"),
        ("ls --json", 0, "<&- >&- 2>&-"),
        ("logs once", 0, "<&-"),
        ("cancel nobody", 3, "<&-"),
        ("cancel nobody", 3, "2>&-"),
        ("show nobody --json", 3, ">&-"),
        ("run tasks.toml", 1, "<&- >&-"),
    ],
)
def test_what_is_closed_is_no_fault(stage: Stage, words: str, code: int, closed: str) -> None:
    """In life: a service manager starts it with nothing open, and it dies with a traceback that nobody sees."""
    done = shell(stage, f"{words} {closed}")
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    if "2>" not in closed and code == 3 and "--json" in words:
        checked(done.stderr)
    if "2>" in closed and code == 3:
        assert done.stdout == "", "an error is not the answer"


def test_the_store_does_not_get_the_number_of_standard_output(stage: Stage) -> None:
    """In life: what a task prints is written into the database."""
    stage.write("look.toml", 'store = "sqlite:///look.db"\n[tasks.p]\npython = "look:at"\n')
    stage.write("look.py", "import os\n\n\ndef at():\n    assert os.path.samefile('/dev/fd/1', os.devnull)\n")
    assert shell(stage, "run look.toml <&- >&-").returncode == 0


@pytest.mark.parametrize(
    "variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_signs_that_the_encoding_has_not_are_escaped(stage: Stage, variables: dict[str, str]) -> None:
    """In life: cron has LC_ALL=C, and the log of last night cannot be shown for one umlaut."""
    other = Stage(stage.folder)
    other.environment |= variables
    assert other.done("logs", "once").endswith("\\xe4 \\xf6\n")
    assert other.call("run", "tasks.toml").returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full")
@pytest.mark.parametrize("words", ["ls --json", "logs once"])
def test_a_full_disk_is_told(stage: Stage, words: str) -> None:
    done = shell(stage, f"{words} > /dev/full")
    assert done.returncode == 1
    assert "cannot write: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
