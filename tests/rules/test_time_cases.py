"""The time cases of every kind but cron (test_cron_cases.py), each by its id. `start` is exclusive."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from tests.cases.facts import time_cases
from tickless.instants import datetime_of, instant_of
from tickless.rules import Rule, Union, cron, every, rrule
from tickless.rules.zones import zone_of

LEFT_OUT = {"t135": "an intersection: `&` is left out on purpose; on_days covers what is asked for in life"}
CASES = [case for case in time_cases() if case["kind"] not in ("cron", "cron_error") and case["id"] not in LEFT_OUT]


def rule_of(written: dict[str, Any], tz: str) -> Rule:
    """The rule as a user writes it."""
    if "any" in written:
        return Union(*(rule_of(part, tz) for part in written["any"]))
    if "cron" in written:
        rule = cron(written["cron"], tz=tz)
        days = {date.fromisoformat(day) for day in written.get("except_dates", [])}
        return rule.not_on(days) if days else rule
    if "rrule" in written:
        return rrule(written["rrule"], start=datetime.fromisoformat(written["dtstart"]), tz=tz)
    anchor = written["anchor"]
    given: dict[str, Any] = {"anchor": anchor if anchor == "epoch" else datetime.fromisoformat(anchor)}
    if written["every"].keys() & {"days", "weeks", "months", "years"}:
        given |= {"tz": tz, "gap": written.get("gap")}
    interval: Rule = every(**written["every"], **given)
    return interval


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: dict[str, Any]) -> None:
    """In life each of them was a report: `source` and `why` tell it."""
    rule = rule_of(case["rule"], case["tz"])
    after = instant_of(datetime.fromisoformat(case["start"]), "start")
    for text in case["expect"]:
        expected = datetime.fromisoformat(text)
        fire = rule.next_after(after)
        assert fire is not None
        assert datetime_of(fire) == expected
        assert datetime_of(fire).astimezone(zone_of(case["tz"], "case")).utcoffset() == expected.utcoffset()
        after = fire


def test_every_case_is_run_or_left_out_with_a_reason() -> None:
    """A filter that finds nothing passes for ever."""
    kinds = {case["kind"] for case in CASES}
    assert kinds == {"every", "rrule", "union", "except"}
    assert len(CASES) == 26
    assert {case["id"] for case in time_cases() if case["kind"] == "intersection"} == LEFT_OUT.keys()
