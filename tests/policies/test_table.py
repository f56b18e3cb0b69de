"""The decision table: state x event x policy -> outcome. Its rows are `table.toml`, and `docs/policies.md` shows them.

The rows were written from what the policies are to mean. One that the code does not keep says so (`disagrees`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.policies.drawing import PAGE, is_fresh
from tests.policies.table import EVENTS, ROWS, STATES, TOPICS, WORDS, Row, steps_of_event, steps_of_state
from tests.policies.walker import ENDS, Walk, expected


def params() -> list[Any]:
    return [
        pytest.param(row, id=row.name, marks=[pytest.mark.xfail(reason=row.disagrees)] if row.disagrees else [])
        for row in ROWS
    ]


@pytest.mark.parametrize("row", params())
def test_the_task_does_what_the_table_says(row: Row) -> None:
    """In life: a setting that is read one way by the page and another way by the code."""
    seen = Walk(row).walk(steps_of_state(row), steps_of_event(row))
    wanted = expected(row.outcome)
    if seen["answer"] in ("ScheduleError", "DependencyError", "RuleError"):
        wanted.setdefault("answer", "nothing is refused")
    assert {name: seen[name] for name in wanted} == wanted, row.why


def test_the_table_has_rows_enough_and_none_twice() -> None:
    """A row that is there twice is one that somebody meant to change."""
    assert len(ROWS) >= 150
    keys = Counter(repr((row.task, row.policy, row.parents, row.update, row.state, row.event)) for row in ROWS)
    assert [key for key, times in keys.items() if times > 1] == []
    assert list(TOPICS) == list(dict.fromkeys(row.topic for row in ROWS))


def test_the_words_of_the_table_are_all_used_and_all_explained() -> None:
    """A word without a meaning is a row that nobody can read without the code."""
    assert {row.state for row in ROWS} == set(STATES)
    parts = {part for row in ROWS for part in row.event.split(", ")}
    assert set(EVENTS) <= parts
    steps = [step for row in ROWS for step in (*steps_of_state(row), *steps_of_event(row))]
    used = {step if step in ENDS else step.split(" ")[0] for step in steps}
    assert used == set(WORDS)


def test_the_page_shows_the_table_as_it_is() -> None:
    """A row that was changed, and a page that says otherwise: `python -m tests.policies.drawing` draws it anew."""
    assert is_fresh(), f"{PAGE} is stale"
