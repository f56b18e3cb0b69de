"""Where things stand in a file, and what a name that is not there was likely meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from difflib import get_close_matches
from typing import Any

from tickless.errors import shown
from tickless.taskfile.values import Problem
from tickless.taskfile.write import key

_DEPTH = 4
"""`tasks.dump.retry.delay`: deeper stands nothing that is told of."""


def in_order(top: Mapping[str, Any], problems: Iterable[Problem]) -> list[Problem]:
    """The problems as their places stand in the file; what is missing there stands with the table that it is missed in.

    Those of one place keep their order.
    """
    order = {place: number for number, place in enumerate(_places(top, "", _DEPTH))}
    return sorted(problems, key=lambda problem: _number(problem.place, order))


def _places(table: Mapping[str, Any], lead: str, depth: int) -> Iterator[str]:
    for name, value in table.items():
        place = within(lead, name)
        yield place
        if type(value) is dict and depth > 1:
            yield from _places(value, place, depth - 1)


def within(place: str, name: str) -> str:
    """The place of what has this name there, as a task file has it: `tasks.dump`, `tasks."a b"`."""
    return f"{place}.{key(name)}" if place else key(name)


def _number(place: str, order: Mapping[str, int]) -> int:
    while place and place not in order:
        place = place.rpartition(".")[0]
    return order.get(place, len(order))


def near(name: str, known: Iterable[str]) -> str:
    """` (did you mean "dump"?)`, or nothing where no name is like it."""
    found = get_close_matches(name, list(known), n=1)
    return f' (did you mean "{found[0]}"?)' if found else ""


def seen(value: object) -> str:
    """The value for a message, as a task file has it where that differs from Python."""
    if type(value) is bool:
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date | time) else shown(value)
