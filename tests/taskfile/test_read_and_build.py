"""What the reader lets pass the scheduler takes: what a file shows is not found out at the start, or at a reload."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.taskfile.good import GOOD, file_of
from tests.taskfile.test_any_text import problems_of, toml
from tests.taskfile.test_schema import TASKS, likely
from tickless.commands.command import Command
from tickless.taskfile.build import Work, enter, sketch_of
from tickless.taskfile.keys import DEFAULTS
from tickless.taskfile.read import read
from tickless.taskfile.values import TaskFile

PATH = Path("tasks.toml")


def expect_taken(file: TaskFile) -> None:
    """All of its parts enter a scheduler, in memory and never started."""
    nothing = Command("true")
    works: dict[str, Work] = {}
    for task in file.tasks:
        works |= {task.name: nothing, f"{task.name}.on_failure": nothing}
    program = sketch_of(file)
    try:
        enter(program, works, file.parts)
    finally:
        program.scheduler.close()


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_is_taken(name: str) -> None:
    """Whatever it imports."""
    expect_taken(file_of(name))


@given(st.fixed_dictionaries({"defaults": likely(DEFAULTS), "tasks": st.fixed_dictionaries({"a": TASKS, "b": TASKS})}))
def test_whatever_is_read_is_taken(file: dict[str, object]) -> None:
    """An error at the start names a parameter of Python; that of the reader a place in the file."""
    text = "\n".join(f"{name} = {toml(said)}" for name, said in file.items())
    if not problems_of(text):
        expect_taken(read(PATH, text))
