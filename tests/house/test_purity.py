"""Floors 0 and 1 read no clock, draw no lots, start no thread and touch no file; and no floor reads time but clocks.py.

Why: what is pure can be asked anything about any instant, in a test, a forecast or a replay, and answers the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.floors import FLOORS, PURE, member
from tests.house.sources import Source, library

PURE_IMPORTS = frozenset(
    {"__future__", "abc", "bisect", "calendar", "collections", "contextlib", "copy", "cronsim", "dataclasses"}
    | {"dateutil"}
    | {"datetime", "difflib", "enum"}
    | {"functools", "hashlib", "heapq", "itertools", "math", "numbers", "operator", "re", "types", "typing"}
    | {"warnings", "weakref", "zoneinfo", "tickless"}
)
"""All that floors 0 and 1 may import. A list of what is allowed, since a list of what is not is never complete."""

PURE_NAMES = frozenset({("concurrent.futures", "CancelledError")})
"""Single names from modules that do more: an exception is a value."""

IMPURE_CALLS = frozenset({"open", "print", "input", "breakpoint", "exec", "eval", "__import__"})
CLOCK_READINGS = frozenset({"now", "utcnow", "today"})
"""`datetime.now`, `date.today`, and also `clock.now`: a pure function is given the instant."""

TIME_IS_READ_IN = frozenset({"tickless.clocks"})
LOTS_ARE_DRAWN_IN = frozenset({"tickless.simulation"})
"""From a seed: `random.Random(seed)`."""


def _taken(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """(module, name or "", line) of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.module or "", alias.name, node.lineno) for alias in node.names)


def impurities(source: Source) -> list[str]:
    """What a module of floor 0 or 1 does and may not."""
    faults = [
        f"{source.module}:{line} imports {module}"
        for module, name, line in _taken(source.tree)
        if module.split(".")[0] not in PURE_IMPORTS and (module, name) not in PURE_NAMES
    ]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_CALLS:
            faults.append(f"{source.module}:{node.lineno} uses {node.id}")
        elif isinstance(node, ast.Attribute) and node.attr in CLOCK_READINGS:
            faults.append(f"{source.module}:{node.lineno} reads a clock: {ast.unparse(node)}")
    return faults


def strays(source: Source) -> list[str]:
    """Readings of time outside of clocks.py, and lots drawn outside of simulation.py: true of every floor."""
    faults = []
    for module, _, line in _taken(source.tree):
        if module == "time" and source.module not in TIME_IS_READ_IN:
            faults.append(f"{source.module}:{line} imports time: ask the Clock")
        if module in {"random", "secrets", "uuid"} and source.module not in LOTS_ARE_DRAWN_IN:
            faults.append(f"{source.module}:{line} imports {module}: use a hash of the occurrence")
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Attribute) or node.attr not in CLOCK_READINGS:
            continue
        if ast.unparse(node.value).split(".")[-1] in {"datetime", "date"}:
            faults.append(f"{source.module}:{node.lineno} reads the wall clock: {ast.unparse(node)}")
    return faults


def is_pure(source: Source) -> bool:
    home = member(source.module)
    return home is not None and FLOORS[home] <= PURE


def test_floors_0_and_1_are_pure() -> None:
    """A rule that reads the clock gives another answer in the forecast than in the night it is about."""
    assert [fault for source in library() if is_pure(source) for fault in impurities(source)] == []


def test_time_is_read_in_one_module_and_lots_are_drawn_in_one() -> None:
    """A second reader of time does not follow FakeClock: the test passes, and life differs."""
    assert [fault for source in library() for fault in strays(source)] == []


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "import random",
        "from secrets import token_hex",
        "from threading import Lock",
        "import socket",
        "import os.path",
        "import io",
        "from concurrent.futures import ThreadPoolExecutor",
        "import concurrent.futures",
        "def f():\n    import logging",
        "open('x')",
        "print('x')",
        "show = print",
        "datetime.now(UTC)",
        "field(default_factory=datetime.utcnow)",
        "date.today()",
        "self.clock.now()",
    ],
)
def test_an_impurity_is_reported(line: str) -> None:
    """Each of the ways in which the world gets into a pure module."""
    assert len(impurities(Source("tickless.rules.at", line))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "from concurrent.futures import CancelledError",
        "import heapq, math",
        "from datetime import datetime",
        "def next_after(now): return now + 1",
        "class Clock(Protocol):\n    def now(self): ...",
    ],
)
def test_values_and_arithmetic_are_no_impurity(line: str) -> None:
    """A rule that forbids too much gets switched off."""
    assert impurities(Source("tickless.rules.at", line)) == []


@pytest.mark.parametrize(
    "line",
    ["import time", "from time import monotonic", "import random", "datetime.datetime.now()", "date.today()"],
)
def test_a_second_reader_of_time_or_drawer_of_lots_is_reported(line: str) -> None:
    """Also on the floors that may do I/O."""
    assert len(strays(Source("tickless.worker", line))) == 1


def test_the_clock_may_be_asked_anywhere_above() -> None:
    """That is what it is for."""
    assert strays(Source("tickless.dispatcher", "now = self.clock.now()")) == []
