"""The time cases of kind cron, by id: reports of what cron libraries got wrong, with the right fires."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.cases.facts import time_cases
from tickless.errors import RuleError
from tickless.instants import Instant, instant_of
from tickless.rules import cron

CASES = [case for case in time_cases() if case["kind"] == "cron"]
ERRORS = [case for case in time_cases() if case["kind"] == "cron_error"]


def us(text: str) -> Instant:
    return instant_of(datetime.fromisoformat(text), "case")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_reported_case_fires_as_it_should(case: dict[str, Any]) -> None:
    """Each is a run that somebody lost, or had twice, with some other library."""
    rule = cron(case["rule"]["cron"], tz=case["tz"])
    asked, fires = us(case["start"]), []
    for _ in case["expect"]:
        fire = rule.next_after(asked)
        assert fire is not None
        fires.append(fire)
        asked = fire
    assert fires == [us(text) for text in case["expect"]], case["why"]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case["id"])
def test_a_reported_expression_is_refused(case: dict[str, Any]) -> None:
    """Others guess at what was meant, or never fire."""
    with pytest.raises(RuleError):
        cron(case["rule"]["cron"], tz=case["tz"])


def test_there_are_cases() -> None:
    """A filter that finds nothing passes for ever."""
    assert (len(CASES), len(ERRORS)) == (63, 6)
