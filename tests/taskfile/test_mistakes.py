"""Each possible mistake of a task file has its whole message, which names the place and the way out."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tickless.taskfile.keys import DEFAULTS, LIMIT, RETRY, TASK
from tickless.taskfile.read import TOP, read
from tickless.taskfile.values import FileError

MISTAKES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "mistakes.toml").read_text("utf-8"))["mistake"]
PATH = Path("tasks.toml")


def told_of(text: str) -> list[str]:
    """What is told of the file; empty where nothing is wrong with it."""
    try:
        read(PATH, text)
    except FileError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["file"].replace("\n", "; ")[:80])
def test_a_mistake_is_told_with_its_place(mistake: dict[str, Any]) -> None:
    """The file is changed at noon, the task is due at night: what is not told now is found out by nobody."""
    assert told_of(mistake["file"]) == mistake["told"]


@pytest.mark.parametrize(
    "place",
    [
        *(f"{key}" for key in TOP),
        *(f"tasks.a.{key}" for key in TASK),
        *(f"tasks.a.retry.{key}" for key in RETRY),
        *(f"limits.api.{key}" for key in LIMIT),
        "pools.db.slots",
    ],
)
def test_there_is_a_mistake_of_each_key(place: str) -> None:
    """A key that is added and of which nobody asks what becomes of a wrong value."""
    assert [mistake for mistake in MISTAKES if any(told.startswith(f"{place}: ") for told in mistake["told"])]


@pytest.mark.parametrize("key", DEFAULTS)
def test_what_is_said_of_all_tasks_is_checked_as_what_is_said_of_one(key: str) -> None:
    """Under [defaults] a wrong value would be wrong for every task, and told of none."""
    wrong = "[[[3]]]"
    at_one = told_of(f'[tasks.a]\nrun = "x"\n{key} = {wrong}')
    at_all = told_of(f'[defaults]\n{key} = {wrong}\n[tasks.a]\nrun = "x"')
    assert at_one
    assert at_all == [told.replace("tasks.a.", "defaults.", 1) for told in at_one]


def test_each_problem_is_a_line_that_begins_with_the_path() -> None:
    """As compilers do it, so that an editor can jump there."""
    with pytest.raises(FileError) as caught:
        read(Path("some/tasks.toml"), '[tasks.a]\nrun = 3\n[tasks.b]\nrun = "x"\nwen = "x"')
    assert str(caught.value).split("\n") == [
        "some/tasks.toml: tasks.a.run: needs a text for the shell, or a list of arguments, not 3",
        'some/tasks.toml: tasks.b.wen: no such key (did you mean "when"?)',
    ]


def test_problems_come_in_the_order_of_the_file() -> None:
    """Whoever mends them goes down the file once."""
    text = """
store = 3
[pools.db]
slots = 0
[tasks.a]
run = 3
when = "evry 5m"
after_tasks = ["c"]
[defaults]
overlap = "x"
[tasks.b]
after_tasks = ["b"]
retry = { delay = -1, attempts = 0 }
timezone = "UTC"
[limits.api]
running = 0
"""
    places = [told.partition(": ")[0] for told in told_of(text)]
    assert places == [
        "store",
        "pools.db.slots",
        "tasks.a.run",
        "tasks.a.when",  # it is no rule, and
        "tasks.a.when",  # it has none of its own, since it comes after another
        "tasks.a.after_tasks",
        "tasks.b",
        "tasks.b.after_tasks",
        "tasks.b.retry.delay",
        "tasks.b.timezone",
        "defaults.overlap",
        "limits.api.running",
    ]


def test_what_follows_from_a_mistake_is_not_told() -> None:
    """One typing error and five lines of complaint hide which one it was."""
    text = """
[tasks.a]
run = "x"
when = "evry 5m"
overlap = "queue"
max_runs = 3
[tasks.b]
run = "x"
after_tasks = ["a"]
[tasks.c]
run = "x"
limit = "api"
[limits.api]
running = 0
"""
    assert [told.partition(": ")[0] for told in told_of(text)] == ["tasks.a.when", "limits.api.running"]
