"""docs/task-files.md is what a newcomer copies from: each of its files is read, and each key stands in its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.taskfile.good import as_json
from tests.taskfile.test_mistakes import told_of
from tests.taskfile.test_schema import VALIDATOR
from tickless.taskfile.keys import DEFAULTS, LIMIT, RETRY, TASK
from tickless.taskfile.read import TOP, read
from tickless.taskfile.values import ABOUT_FIRES, FlowDef, TaskFile

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "task-files.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that stands first under the heading."""
    table = PAGE.partition(f"\n{heading}\n")[2].partition("\n#")[0]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table.split("\n") if row[:3] == "| `"
    ]


@pytest.mark.parametrize("text", blocks("toml"))
def test_each_task_file_of_the_page_is_read_without_a_word(text: str) -> None:
    """The first thing that somebody copies is refused."""
    assert told_of(text) == []
    VALIDATOR.validate(as_json(text))


def test_each_key_stands_in_a_table() -> None:
    """A key that no page has is used by nobody."""
    keys = re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    assert sorted(keys) == sorted(["when", *TOP, *TASK, *LIMIT, *RETRY, "slots"])  # `when` begins a table, too


def test_what_the_page_says_that_defaults_have_not_is_so() -> None:
    """All keys but those of the first table, and the two that join."""
    first = [row[0].strip("`") for row in rows("### What a task does")]
    assert set(TASK) - set(DEFAULTS) == {*first, "when", "after_tasks"}


def test_what_the_page_says_of_the_root_is_about_fires() -> None:
    """Each of them, and no other."""
    said = PAGE.partition("is said of the root: ")[2].partition(". All else")[0]
    assert sorted(re.findall(r"`(\w+)`", said)) == sorted({*ABOUT_FIRES} - {"tags"})


@pytest.mark.parametrize("row", rows("## When"), ids=lambda row: row[0])
def test_each_rule_of_the_page_is_one(row: list[str]) -> None:
    """The forms that are shown first are tried first."""
    for when in re.findall(r'`("[^`]+")`', row[0]):
        assert told_of(f'[tasks.a]\nrun = "x"\nwhen = {when}') == []


def test_each_value_of_the_page_is_taken() -> None:
    """Words between quotes are values of their key."""
    for key, value in re.findall(r"^\| `(overlap|catch_up|on_timeout|delivery)` \| (.*?) \|", PAGE, flags=re.MULTILINE):
        for word in re.findall(r'`("\w+")`', value):
            assert told_of(f'[tasks.a]\nrun = "x"\nwhen = "every 5m"\ntimeout = 5\n{key} = {word}') == []


def test_the_messages_of_the_page_are_those_that_come() -> None:
    """Whoever has one looks for it."""
    text = (
        '[tasks.dump]\nrun = "x"\n[tasks.upload]\nrun = "x"\nafter_tasks = ["dmp"]\n'
        '[tasks.report]\nrun = "x"\nwen = "every 5m"'
    )
    shown = [line for line in PAGE.split("\n") if line.startswith("tasks.toml: ")]
    assert shown == [f"tasks.toml: {told}" for told in told_of(text)]


def test_the_flow_of_the_page_is_one() -> None:
    """Four tasks, with the name of the first."""
    flow = next(text for text in blocks("toml") if "compress" in text)
    assert [part.id for part in read(Path("tasks.toml"), flow).parts if isinstance(part, FlowDef)] == ["dump"]


def test_the_crontab_of_the_page_means_what_the_task_file_below_it_means() -> None:
    """They stand there as the same thing."""
    crontab = read(Path("crontab"), blocks("crontab")[0])
    toml = next(text for text in blocks("toml") if "pg-dump" in text)
    assert facts(crontab) == facts(read(Path("tasks.toml"), toml))
    assert [warning.partition(":")[0] for warning in crontab.warnings] == ["MAILTO=ops@example.org"]


def facts(file: TaskFile) -> list[tuple[object, ...]]:
    return [(task.name, getattr(task.work, "run", None), task.when, task.description) for task in file.tasks]
