"""Names obey the glossary, and tests neither sleep nor fake what is ours.

Why: two words for one thing make a reader look for the difference; one word for two things makes a bug.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.sources import Source, all_python

INSTEAD = {
    "job": "task, or run",
    "trigger": "rule or `when` for a time, `run_if` for parents",
    "timestamp": "an instant: `due_us`, `at_us`",
}
"""Words that name nothing here -> the words that do. docs/glossary.md is the master."""

NOT_IN_TESTS = {
    "unittest.mock": "use FakeClock, ManualPool or the memory store",
    "mock": "use FakeClock, ManualPool or the memory store",
    "freezegun": "use FakeClock",
    "time_machine": "use FakeClock",
}


def defined_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that the file itself gives to something. What it takes from others is theirs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno


def words_in(name: str) -> set[str]:
    """The words of a snake_case or CamelCase name, in lower case, without a plural's s."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {word.lower() for word in words} | {word.lower().removesuffix("s") for word in words}


def word_faults(source: Source) -> list[str]:
    """Names with a word that the glossary does not use, the module's own name included."""
    names = [(source.module, 1), *defined_names(source.tree)]
    return [
        f"{source.module}:{line} {name}: say {INSTEAD[word]}, not {word}"
        for name, line in names
        for word in sorted(words_in(name) & INSTEAD.keys())
    ]


def sleep_faults(source: Source) -> list[str]:
    """Calls of time.sleep, under whatever name, and libraries that patch time or stand in for our classes."""
    clocks = {"time"} | {
        alias.asname or alias.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "time"
    }
    faults = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "sleep" and ast.unparse(node.value) in clocks:
            faults.append(f"{source.module}:{node.lineno} sleeps: advance a FakeClock, or wait for an Event")
        elif isinstance(node, ast.ImportFrom):
            taken = {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
            if "time.sleep" in taken:
                faults.append(f"{source.module}:{node.lineno} sleeps: advance a FakeClock, or wait for an Event")
            faults += [f"{source.module}:{node.lineno} {name}: {NOT_IN_TESTS[name]}" for name in _banned(taken)]
        elif isinstance(node, ast.Import):
            taken = {alias.name for alias in node.names}
            faults += [f"{source.module}:{node.lineno} {name}: {NOT_IN_TESTS[name]}" for name in _banned(taken)]
    return faults


def _banned(taken: set[str]) -> list[str]:
    return sorted(taken & NOT_IN_TESTS.keys())


def test_names_obey_the_glossary() -> None:
    """In the library, in the examples and in the tests, which are the first documentation that is read."""
    assert [fault for source in all_python("src", "examples", "tests") for fault in word_faults(source)] == []


def test_no_test_sleeps() -> None:
    """A test that sleeps is slow when it passes and wrong when the machine is busy."""
    assert [fault for source in all_python("tests") for fault in sleep_faults(source)] == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("def add_job(): ...", "add_job"),
        ("class JobStore: ...", "JobStore"),
        ("class HTTPTrigger: ...", "HTTPTrigger"),
        ("def f(trigger): ...", "trigger"),
        ("def f(*, jobs=()): ...", "jobs"),
        ("self.job_id = 1", "job_id"),
        ("timestamp: int = 0", "timestamp"),
        ("for job in (): ...", "job"),
        ("import heapq as job", "job"),
    ],
)
def test_a_word_of_another_house_is_reported(line: str, name: str) -> None:
    """Wherever a name can be given."""
    faults = word_faults(Source("tickless.m", line))
    assert len(faults) == 1
    assert f" {name}: say " in faults[0]


def test_a_module_named_with_a_word_of_another_house_is_reported() -> None:
    """The name of a file is the first that is read."""
    assert len(word_faults(Source("tickless.job_queue", ""))) == 1


@pytest.mark.parametrize("line", ["when.timestamp()", "other.add_job(f)", "task = run = due = 1", "jobless = 'job'"])
def test_names_of_others_and_words_of_ours_are_free(line: str) -> None:
    """We do not name what is not ours."""
    assert word_faults(Source("tickless.m", line)) == []


@pytest.mark.parametrize(
    "line",
    [
        "time.sleep(1)",
        "import time as t\nt.sleep(0)",
        "from time import sleep",
        "from time import sleep as nap",
        "from unittest.mock import Mock",
        "from unittest import mock",
        "import freezegun",
        "pool.submit(time.sleep, 1)",
    ],
)
def test_a_test_that_sleeps_or_fakes_is_reported(line: str) -> None:
    """Under an alias, too, and as an argument."""
    assert len(sleep_faults(Source("tests.m", line))) == 1


@pytest.mark.parametrize("line", ["import time", "clock.sleep(1)", "gate.wait(5)", "monkeypatch.setenv('TZ', 'UTC')"])
def test_waiting_for_something_is_no_sleep(line: str) -> None:
    """A wait with a bound ends as soon as the thing happens."""
    assert sleep_faults(Source("tests.m", line)) == []
