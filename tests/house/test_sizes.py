"""Files of at most 500 lines, functions of at most 70, and nineteen of twenty functions of at most 35.

Why: what frightens a reader is the tail. The median takes care of itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.house.sources import Source, all_python, functions

FILE_LINES = 500
FUNCTION_LINES = 70
P95_LINES = 35


def lengths(source: Source) -> list[tuple[int, str]]:
    """(lines, where) of each function, its docstring included and its decorators not."""
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{source.module}:{node.lineno} {node.name}")
        for node in functions(source.tree)
    ]


def size_faults(source: Source) -> list[str]:
    faults = [f"{where} has {lines} lines" for lines, where in lengths(source) if lines > FUNCTION_LINES]
    file_lines = len(source.text.splitlines())
    if file_lines > FILE_LINES:
        faults.append(f"{source.module} has {file_lines} lines")
    return faults


def long_tail(sources: Iterable[Source]) -> list[str]:
    """The functions above P95_LINES, longest first, if they are more than one in twenty."""
    every = sorted((length for source in sources for length in lengths(source)), reverse=True)
    tail = [f"{where} has {lines} lines" for lines, where in every if lines > P95_LINES]
    return tail if len(tail) * 20 > len(every) else []


def test_no_file_and_no_function_is_too_long_to_be_read_at_once() -> None:
    """The coroutine of 170 lines that can be tested only as a whole."""
    assert [fault for source in all_python() for fault in size_faults(source)] == []


@pytest.mark.parametrize("directory", ["src", "tests"])
def test_nineteen_of_twenty_functions_are_short(directory: str) -> None:
    """One long function is a choice, many are a habit."""
    assert long_tail(all_python(directory)) == []


def function_of(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


def test_a_function_of_71_lines_is_reported_and_one_of_70_is_not() -> None:
    """The bound itself is allowed, and a method counts as a function does."""
    assert size_faults(Source("m", function_of(70))) == []
    assert size_faults(Source("m", function_of(71))) == ["m:1 f has 71 lines"]
    method = "class C:\n" + "".join(f"    {line}\n" for line in function_of(71).splitlines())
    assert size_faults(Source("m", method)) == ["m:2 f has 71 lines"]


def test_a_file_of_501_lines_is_reported_and_one_of_500_is_not() -> None:
    """Comments and blank lines count: they are read, too."""
    assert size_faults(Source("m", "# line\n" * 500)) == []
    assert size_faults(Source("m", "# line\n" * 501)) == ["m has 501 lines"]


def test_two_long_functions_in_twenty_are_reported_and_one_is_not() -> None:
    """One of twenty is the 95th percentile."""
    short, long = function_of(35), function_of(36)
    assert long_tail([Source("m", short * 19 + long)]) == []
    assert len(long_tail([Source("m", short * 18 + long * 2)])) == 2
