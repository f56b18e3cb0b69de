"""On a terminal: tables that fit, questions, Ctrl-C. A pseudo-terminal stands for the person."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, PATIENCE_S
from tests.cli.stage import Stage
from tests.pressing import AGAIN_S

pexpect = pytest.importorskip("pexpect")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a terminal of Unix")
FILE = """
[tasks.a-task-with-quite-a-long-name]
run = "echo begun; while :; do sleep 0.01; done"
[tasks.nightly]
run = "true"
when = "30 2 * * * Europe/Berlin"
[tasks.weekly]
run = "true"
when = "every 2 weeks on mon,tue,wed at 09:00 from 2027-01-01 Europe/Paris"
"""


@contextmanager
def terminal(stage: Stage, *arguments: str, columns: int = 80) -> Iterator[Any]:
    environment = {**stage.environment, "TERM": "xterm-256color"}
    del environment["NO_COLOR"]
    child = pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], *arguments],
        cwd=str(stage.folder),
        env=environment,
        encoding="utf-8",
        timeout=PATIENCE_S,
        dimensions=(24, columns),
    )
    try:
        yield child
    finally:
        child.close(force=True)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    it = Stage(tmp_path)
    it.write("tasks.toml", FILE)
    return it


def said(child: Any) -> str:
    """All that it says to its end."""
    child.expect(pexpect.EOF)
    return str(child.before)


def bare(text: str) -> list[str]:
    """The lines without colours."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "").split("\n")


@pytest.mark.parametrize("columns", [80, 140])
def test_a_table_fits_the_terminal_and_grows_with_it(stage: Stage, columns: int) -> None:
    """In life: each row takes two lines, and nothing can be read."""
    with terminal(stage, "ls", columns=columns) as child:
        lines = bare(said(child))
    rows = [line for line in lines if line.startswith(("TASK", "a-task", "nightly", "weekly"))]
    assert len(rows) == 4
    assert max(len(line.rstrip()) for line in rows) <= columns
    whole = "every 2 weeks on Monday, Tuesday and Wednesday"
    assert any(whole in row for row in rows) == (columns > 80)


def test_colours_are_there_and_can_be_switched_off(stage: Stage) -> None:
    with terminal(stage, "ls") as child:
        assert "\x1b[" in said(child)
    for more in ("--no-color", "--plain"):
        with terminal(stage, "ls", more) as child:
            text = said(child)
            assert not re.search(r"\x1b\[3[0-9]", text), text


def test_ctrl_c_asks_and_a_second_one_ends_it(stage: Stage) -> None:
    """As a person does it: the keys go to the terminal, and to no command that was started there."""
    with terminal(stage, "run", "tasks.toml", "--stop-after", "600") as child:
        child.expect("begun")
        child.sendintr()
        child.expect("SIGINT: stopping")
        child.expect("summary|cancelled in|A second signal")
        while child.isalive():
            child.sendintr()
            child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=AGAIN_S)
        child.close()
    assert child.signalstatus == 2 or child.exitstatus == 130


def test_ctrl_c_ends_commands_that_stop(stage: Stage) -> None:
    stage.write("tasks.toml", '[tasks.a]\nrun = "echo begun; sleep 1000"\n')
    with terminal(stage, "run", "tasks.toml") as child:
        child.expect("begun")
        child.sendintr()
        text = said(child)
        child.close()
    assert "1 cancelled in" in text
    assert child.exitstatus == 130


def test_a_reload_is_seen_on_the_terminal(stage: Stage) -> None:
    path = stage.write("tasks.toml", '[tasks.a]\nrun = "echo one"\nwhen = "every 1h"\n')
    with terminal(stage, "run", "tasks.toml") as child:
        child.expect("1 task; next is a")
        path.write_text('[tasks.a]\nrun = "echo two"\nwhen = "every 1h"\n')
        child.expect("was read again: 1 change")
        child.expect(r"changed +a \(run\)")
        child.sendintr()
        said(child)


def test_cancel_asks_back_and_no_leaves_all_as_it_is(stage: Stage) -> None:
    """In life: one word too many, and the nightly dump is gone."""
    with stage.running("tasks.toml") as process:
        assert process.stderr is not None
        while "next is" not in process.stderr.readline():
            pass
        with terminal(stage, "cancel", "nightly") as child:
            child.expect("Cancel nightly.*y/N")
            child.sendline("n")
            said(child)
            child.close()
            assert child.exitstatus == 6
        assert stage.json("show", "nightly")["task"]["state"] == "pending"
        with terminal(stage, "cancel", "nightly") as child:
            child.expect("y/N")
            child.sendline("y")
            assert "nightly: cancelled" in said(child)
        assert stage.json("show", "nightly")["task"]["state"] == "cancelled"
