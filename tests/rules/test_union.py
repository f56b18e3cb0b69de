"""`a | b`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.custom import OneShot
from tests.rules.wall_rules import calendars, crons, rrules
from tests.rules.zoned import fires, moments, us, walls
from tickless.errors import RuleError
from tickless.instants import Instant, datetime_of
from tickless.rules import Rule, Union, after, at, cron, every, weekdays

WEEKEND = weekdays("sat,sun")


@given(
    parts=st.lists(st.one_of(calendars(), crons(), rrules()), min_size=2, max_size=4),
    start=moments(),
)
def test_a_union_fires_when_any_of_its_rules_does_and_once_where_several_do(parts: list[Rule], start: Instant) -> None:
    """By the definition: the fires of all, sorted, each once."""
    bound = [part.bound(start) for part in parts]
    union = Union(*bound)
    expected = sorted({fire for part in bound for fire in fires(part, start, 8)})[:8]
    assert fires(union, start, len(expected)) == expected


def test_unions_of_unions_are_flat() -> None:
    """However they are put in brackets."""
    a, b, c = cron("0 1 * * *"), cron("0 2 * * *"), cron("0 3 * * *")
    assert (a | b) | c == a | (b | c) == Union(a, b, c)
    assert (a | b | c).rules == (a, b, c)


def test_a_union_binds_its_rules() -> None:
    """A calendar interval counts from the day on which it was scheduled, also in a union."""
    rule = every(days=2, at="09:00") | cron("0 12 * * *")
    bound = rule.bound(us(2026, 7, 1, 7))
    assert walls(bound, us(2026, 7, 1, 7), 4) == [
        "Wed 07-01 09:00",
        "Wed 07-01 12:00",
        "Thu 07-02 12:00",
        "Fri 07-03 09:00",
    ]
    assert bound.bound(us(2026, 8, 1)) is bound


def test_two_instants_are_a_recurring_rule() -> None:
    """It fires twice, so its task may not end with the first run."""
    rule = at(datetime_of(us(2026, 7, 1))) | at(datetime_of(us(2026, 7, 2)))
    assert rule.recurring
    assert fires(rule, us(2026, 6, 1), 9) == [us(2026, 7, 1), us(2026, 7, 2)]


def test_a_rule_of_somebody_else_joins_from_both_sides() -> None:
    """It has no `|` of its own, and need not have."""
    foreign = OneShot(us(2026, 7, 1))
    assert (cron("0 9 * * *") | foreign).rules == (cron("0 9 * * *"), foreign)
    assert (foreign | cron("0 9 * * *")).rules == (foreign, cron("0 9 * * *"))


ELAPSED = [after(5), after(5).bound(us(2026, 1, 1)), every(seconds=5), every(hours=1, sliding=True)]


@pytest.mark.parametrize("rule", ELAPSED, ids=repr)
@pytest.mark.parametrize(
    "combine",
    [
        lambda rule: rule | cron("0 9 * * *"),
        lambda rule: cron("0 9 * * *") | rule,
        lambda rule: rule | rule,
        lambda rule: rule.on_days(WEEKEND),
        lambda rule: rule.not_on(WEEKEND),
    ],
)
def test_rules_of_elapsed_time_do_not_combine(rule: Rule, combine: Callable[[Any], object]) -> None:
    """One rule, one clock; and the message offers the wall clock."""
    with pytest.raises(RuleError, match=rf'^{re.escape(repr(rule))}: counts elapsed time, .*anchor="epoch"'):
        combine(rule)


def test_what_is_no_rule_does_not_join() -> None:
    """As for other values of Python."""
    with pytest.raises(TypeError):
        cron("0 9 * * *") | 5  # type: ignore[arg-type]
    with pytest.raises(RuleError, match=r"needs rules, .* not 5"):
        Union(cron("0 9 * * *"), 5)  # type: ignore[arg-type]
    with pytest.raises(RuleError, match="at least one rule"):
        Union()
    assert repr(Union(cron("0 9 * * *"))) == "Union(cron('0 9 * * *'))"
