"""The schema for editors says what the reader does: the same keys, the same values, nothing that it would take."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from jsonschema import Draft202012Validator

import tickless.taskfile
from tests.taskfile.good import GOOD, as_json, text_of
from tests.taskfile.test_any_text import MOMENTS, NUMBERS, TEXTS, VALUES, problems_of, toml
from tests.taskfile.test_mistakes import MISTAKES
from tickless.commands.command import Command
from tickless.options import CATCH_UPS, POLICY_DEFAULTS
from tickless.policies import Retry
from tickless.pools import MOST_SLOTS
from tickless.rules.text import MOST_CHARACTERS
from tickless.states import DEFAULT_POOL, RunIf
from tickless.taskfile.keys import DEFAULTS, LIMIT, RETRY, TASK
from tickless.taskfile.read import TOP
from tickless.values import MOST

SCHEMA: dict[str, Any] = json.loads((Path(tickless.taskfile.__file__).parent / "schema.json").read_text("utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
TASK_SCHEMA: dict[str, Any] = SCHEMA["$defs"]["task"]["properties"]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.toml"))


def test_the_schema_is_one() -> None:
    """An editor says nothing at all to a schema that it cannot read."""
    Draft202012Validator.check_schema(SCHEMA)


def test_its_keys_are_the_reader_s() -> None:
    """They drift apart with the first key that is added to one of them."""
    assert list(SCHEMA["properties"]) == list(TOP)
    assert set(TASK_SCHEMA) == set(TASK)
    assert set(SCHEMA["properties"]["defaults"]["properties"]) == set(DEFAULTS)
    assert set(SCHEMA["$defs"]["limit"]["properties"]) == set(LIMIT)
    assert set(SCHEMA["$defs"]["retries"]["properties"]) == set(RETRY)
    assert set(SCHEMA["$defs"]["pool"]["properties"]) == {"slots"}


def test_its_numbers_and_defaults_are_the_library_s() -> None:
    """An editor that promises another default than the one that counts."""
    assert SCHEMA["$defs"]["pool"]["properties"]["slots"]["maximum"] == MOST_SLOTS
    assert SCHEMA["$defs"]["limit"]["properties"]["running"]["maximum"] == MOST
    assert TASK_SCHEMA["when"]["maxLength"] == MOST_CHARACTERS
    assert TASK_SCHEMA["run_if"]["enum"] == list(RunIf)
    assert TASK_SCHEMA["catch_up"]["enum"] == list(CATCH_UPS)
    assert TASK_SCHEMA["pool"]["default"] == DEFAULT_POOL
    assert TASK_SCHEMA["shell"]["default"] == Command("x").shell
    assert tuple(TASK_SCHEMA["success_codes"]["default"]) == Command("x").success_codes
    assert SCHEMA["$defs"]["retries"]["properties"]["factor"]["default"] == Retry(1).factor
    for key in ("overlap", "catch_up", "on_timeout", "delivery"):
        assert TASK_SCHEMA[key]["default"] == POLICY_DEFAULTS[key]


def test_each_key_is_described() -> None:
    """The description is what an editor shows where one stands."""
    assert [where for where, said in properties_of(SCHEMA, "") if not said.endswith(".")] == []


def properties_of(schema: Any, where: str) -> Iterator[tuple[str, str]]:
    """(place, description) of each property; those of [defaults] are the tasks' own, and a condition describes none."""
    if isinstance(schema, dict):
        for name, one in schema.get("properties", {}).items():
            is_new = isinstance(one, dict) and not one.get("$ref", "").startswith("#/$defs/task/")
            if is_new and "/allOf/" not in where:
                yield f"{where}/{name}", one.get("description", "")
    if isinstance(schema, dict | list):
        for name, one in schema.items() if isinstance(schema, dict) else enumerate(schema):
            yield from properties_of(one, f"{where}/{name}")


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_is_good_to_the_schema(name: str) -> None:
    """Red lines under what is right teach to look past them."""
    VALIDATOR.validate(as_json(text_of(name)))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_good_to_the_schema(path: Path) -> None:
    """It is the first file that somebody opens in their editor."""
    VALIDATOR.validate(as_json(path.read_text("utf-8")))


LIKELY: dict[str, list[object]] = {
    "when": ["every 5m", "@daily", "at 2027-01-01 09:00", "after 5s", "every 5m sliding"],
    "after_tasks": [[], ["a"], ["b"], ["b", "a"]],
    "run": ["x", ["x", ""]],
    "python": ["m:f"],
    "args": [[1]],
    "kwargs": [{"a": []}],
    "description": ["x\n y"],
    "env": [{}, {"A b": ""}],
    "stdin": ["", "\0"],
    "success_codes": [[0, 0], [255]],
    "kill_after": [0, "0s", " 1h  5 min "],
    "timeout": [0.001, 1e9, "1ms", "2 weeks"],
    "grace": ["1.5h", 3600],
    "jitter": [0, "5us"],
    "overlap": ["skip", "queue", "allow", "replace"],
    "max_running": [2],
    "catch_up": ["latest", "all", "none"],
    "max_catch_up": [2],
    "retry": [1, {"attempts": 2, "delay": "0s", "factor": 1}, {"attempts": 10**9, "jitter": 0.5}],
    "run_if": ["all_done", "any_failed"],
    "priority": [-5],
    "on_timeout": ["keep", "release"],
    "pause_after_failures": [1],
    "pool": ["default"],
    "tags": [[], ["x", "y"]],
    "delivery": ["at_most_once"],
    "start": ["2027-01-01", "20270101T0900", "2027-W01-1", "2027-01-01T09:00+02:00"],
    "until": ["2028-01-01"],
    "max_runs": [1],
    "on_failure": ["x", ["x"], {"python": "m:f"}],
}


def likely(keys: Iterable[str]) -> SearchStrategy[dict[str, object]]:
    """Tables of which a good part is read."""
    there = [key for key in keys if key in LIKELY]
    return st.lists(st.sampled_from(there), max_size=4, unique=True).flatmap(
        lambda some: st.fixed_dictionaries({key: st.sampled_from(LIKELY[key]) for key in some})
    )


TASKS = st.tuples(st.sampled_from([{"run": "x"}, {"python": "m:f"}]), likely(TASK)).map(
    lambda two: {**two[0], **two[1]}
)


@given(st.fixed_dictionaries({"defaults": likely(DEFAULTS), "tasks": st.fixed_dictionaries({"a": TASKS, "b": TASKS})}))
def test_whatever_is_read_is_good_to_the_schema(file: dict[str, object]) -> None:
    """A schema that is stricter than the reader is wrong in somebody's editor."""
    expect_as_read(file)


@given(st.sampled_from(list(TASK)), TEXTS | NUMBERS | MOMENTS | st.lists(TEXTS | NUMBERS, max_size=2) | VALUES)
def test_whatever_value_is_read_is_good_to_the_schema(key: str, said: object) -> None:
    """The same for values that nobody thought of."""
    expect_as_read({"tasks": {"a": {"run": "x", "when": "every 5m", "timeout": 5, key: said}}})


def expect_as_read(file: dict[str, object]) -> None:
    text = "\n".join(f"{name} = {toml(said)}" for name, said in file.items())
    if not problems_of(text):
        VALIDATOR.validate(as_json(text))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["file"].replace("\n", "; ")[:80])
def test_a_mistake_that_a_schema_can_see_is_seen(mistake: dict[str, Any]) -> None:
    """While it is typed, and not when the file is started."""
    try:
        said = as_json(mistake["file"])
    except tomllib.TOMLDecodeError:
        return  # which an editor tells by itself
    assert VALIDATOR.is_valid(said) is not mistake.get("seen", True)
