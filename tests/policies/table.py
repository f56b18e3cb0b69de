"""The decision table, `table.toml`, as rows."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("table.toml")
Steps = list[str]


@dataclass(frozen=True)
class Row:
    """One decision: a task with this policy is in this state, that happens, and this comes of it."""

    topic: str
    number: int
    state: str
    event: str
    outcome: dict[str, Any]
    why: str
    task: str = "every 60"
    """The rule of the task; `child ...` for one that waits for parents first."""
    policy: dict[str, Any] = field(default_factory=dict)
    parents: list[dict[str, Any]] = field(default_factory=list)
    """The policy of each parent. The first is due at 60, the second at 120."""
    update: dict[str, Any] = field(default_factory=dict)
    """What the step `update` changes."""
    disagrees: str = ""
    """How the code does not do so yet."""

    @property
    def name(self) -> str:
        return f"{self.topic} {self.number}: {self.state}, {self.event}"

    @property
    def rule(self) -> str:
        return self.task.removeprefix("child").strip()


def _read() -> tuple[dict[str, Steps], dict[str, Steps], dict[str, str], dict[str, str], list[Row]]:
    table = tomllib.loads(PATH.read_text("utf-8"))
    states, events, words, topics = (table.pop(part) for part in ("states", "events", "words", "topics"))
    rows = [Row(topic, number, **row) for topic, some in table.items() for number, row in enumerate(some, 1)]
    return states, events, words, topics, rows


STATES, EVENTS, WORDS, TOPICS, ROWS = _read()


def steps_of_state(row: Row) -> Steps:
    return STATES[row.state]


def steps_of_event(row: Row) -> Steps:
    """The steps of the event: `a, b, c`, of which each is a step or the name of several."""
    return [step for part in row.event.split(", ") for step in EVENTS.get(part, [part])]
