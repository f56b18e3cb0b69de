"""The time cases whose rule is an interval of elapsed time, in a scheduler. All: tests/rules/test_*_cases.py."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.cases.facts import time_cases
from tests.cases.kit import inline
from tickless import every
from tickless.testing import FakeClock

ELAPSED = {"seconds", "minutes", "hours"}
CASES = [case for case in time_cases() if case["kind"] == "every" and case["rule"]["every"].keys() <= ELAPSED]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_interval_counts_elapsed_time_over_a_change_of_offset(case: dict[str, Any]) -> None:
    """In life: every two hours is every three in the night in which the clocks are put back."""
    start, expected = datetime.fromisoformat(case["start"]), [datetime.fromisoformat(fire) for fire in case["expect"]]
    anchor = case["rule"]["anchor"]
    rule = every(**case["rule"]["every"], anchor=anchor if anchor == "epoch" else datetime.fromisoformat(anchor))
    with inline(FakeClock(start)) as (scheduler, clock):
        task = scheduler.schedule(int, rule)
        clock.advance(expected[-1] - start)
        assert [run.due for run in task.runs()] == expected


def test_there_are_cases_of_elapsed_time() -> None:
    """A filter that finds nothing passes for ever."""
    assert len(CASES) >= 2
