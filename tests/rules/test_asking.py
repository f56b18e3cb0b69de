"""`checked_next`, `first_fire`, `span`: asking a rule that may be somebody else's code."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.custom import OneShot, Says, Spans, Squares
from tests.strategies import NOW, YEAR_US, rules
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, MIN_INSTANT, SECOND_US, Instant, datetime_of
from tickless.rules import Rule, after, at, checked_next, every, first_fire, is_ours, span

TEN_YEARS_US = 10 * YEAR_US


class Counted:
    """A good rule of each `step_us` that counts how often it is asked."""

    recurring = True
    wall = False

    def __init__(self, step_us: int) -> None:
        self.step_us = step_us
        self.asked = 0

    def bound(self, now: Instant) -> Counted:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.asked += 1
        return Instant((after // self.step_us + 1) * self.step_us)


class Unprintable(Squares):
    def __repr__(self) -> str:
        raise RuntimeError("no name")

    def next_after(self, after: Instant) -> Instant | None:
        raise OverflowError("too far")


def boom(*asked: int) -> Any:
    raise OverflowError("date value out of range")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (boom, "raised OverflowError('date value out of range')"),
        (lambda t: t, "strictly after"),
        (lambda t: t - 1, "strictly after"),
        (lambda t: -(10**5_000), "strictly after"),
        (lambda t: True, "gave True; a fire is a plain int, or None"),
        (lambda t: float(t + 1), "a fire is a plain int, or None"),
        (lambda t: str(t + 1), "a fire is a plain int, or None"),
        (lambda t: datetime_of(Instant(t + 1)), "a fire is a plain int, or None"),
        (lambda t: MAX_INSTANT + 1, "past the year 9999; give None there"),
        (lambda t: 10**5_000, "gave <int>, past the year 9999"),
    ],
)
def test_a_rule_that_raises_or_lies_is_named(answer: Any, words: str) -> None:
    """In the heap such an answer would stop all tasks, or fire one of them without end."""
    rule = Says(answer)
    for ask in (lambda: checked_next(rule, NOW), lambda: first_fire(rule, NOW), lambda: span(rule, NOW, MAX_INSTANT)):
        with pytest.raises(RuleError, match=re.escape(words)) as caught:
            ask()
        assert repr(rule) in str(caught.value)
        assert str(NOW) in str(caught.value)


def test_the_cause_of_a_raising_rule_is_kept() -> None:
    """Its author needs the line in their own code."""
    with pytest.raises(RuleError) as caught:
        checked_next(Says(boom), NOW)
    assert isinstance(caught.value.__cause__, OverflowError)


def test_a_rule_that_cannot_be_printed_still_gets_a_message() -> None:
    """The second failure may not hide the first."""
    with pytest.raises(RuleError, match=r"<Unprintable>.* raised OverflowError"):
        checked_next(Unprintable(), NOW)


def test_a_rule_that_stops_the_program_is_not_held_back() -> None:
    """KeyboardInterrupt belongs to the user, wherever it comes up."""

    def interrupt(asked: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checked_next(Says(interrupt), NOW)


def test_a_rule_that_overflows_on_its_third_fire_has_two() -> None:
    """BUG-006: trouble later in life is that task's own, and comes as a RuleError."""
    rule = Says(lambda t: t + 1 if t < NOW + 2 else boom())
    assert checked_next(rule, NOW) == NOW + 1
    assert checked_next(rule, Instant(NOW + 1)) == NOW + 2
    with pytest.raises(RuleError):
        checked_next(rule, Instant(NOW + 2))


def test_the_first_fire_of_a_one_shot_may_lie_in_the_past() -> None:
    """It runs now, under the name of the instant it was planned for."""
    assert first_fire(at(datetime_of(Instant(NOW - 5))), NOW) == NOW - 5
    assert first_fire(at(datetime_of(MIN_INSTANT)), NOW) == MIN_INSTANT
    assert first_fire(after(0).bound(NOW), NOW) == NOW
    assert first_fire(OneShot(Instant(NOW - 5)), NOW) == NOW - 5
    assert first_fire(OneShot(Instant(NOW + 5)), NOW) == NOW + 5


def test_the_first_fire_of_a_recurring_rule_lies_ahead() -> None:
    """The past of a grid is not owed to somebody who schedules now; a rule that has ended has no fire."""
    assert first_fire(every(seconds=1).bound(NOW), NOW) == NOW + SECOND_US
    assert first_fire(Squares(last=10), NOW) is None


def test_an_unbound_rule_is_a_rule_error_and_not_a_rule_that_never_fires() -> None:
    """A step forgotten in between would end the task in silence."""
    for ask in (first_fire, checked_next, lambda rule, now: span(rule, now, MAX_INSTANT)):
        for rule in (after(1), every(seconds=1)):
            with pytest.raises(RuleError, match="is not bound"):
                ask(rule, NOW)


@given(rules())
def test_our_own_rules_are_ours_and_others_are_not(rule: Rule) -> None:
    """Foreign code is never asked under a lock."""
    assert is_ours(rule)
    assert is_ours(after(1).bound(NOW))
    assert not is_ours(Squares())
    assert not is_ours(None)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 1_000))
def test_span_of_a_rule_without_arithmetic_is_exact_to_a_thousand(low: int, width: int, unit_us: int) -> None:
    """First and last always; the count until it would cost too much to know."""
    rule, until = Squares(unit_us), low + width
    fires = [root * root * unit_us for root in range(1_001 + 1) if low < root * root * unit_us <= until]
    found = span(rule, Instant(low), Instant(until))
    assert found == ((min(len(fires), 1_000), fires[0], fires[-1]) if fires else None)


@pytest.mark.parametrize("fires", [1, 2, 999, 1_000, 1_001, 5_000])
@pytest.mark.parametrize("beside", [0, 1, SECOND_US - 1])
def test_the_newest_fire_is_exact_on_both_sides_of_the_limit(fires: int, beside: int) -> None:
    """Off by one here runs a task for the fire before the newest."""
    until = Instant(fires * SECOND_US + beside)
    assert span(Counted(SECOND_US), Instant(0), until) == (min(fires, 1_000), SECOND_US, fires * SECOND_US)


@pytest.mark.parametrize(
    ("lone", "until"), [(lone, until) for until in range(1_001, 1_006) for lone in range(1_001, until + 1)]
)
def test_the_newest_fire_is_found_where_the_search_steps_on_it(lone: int, until: int) -> None:
    """A thousand fires and then a lone one, wherever the last steps of the bisection fall."""
    rule = Says(lambda asked: asked + 1 if asked < 1_000 else lone if asked < lone else None)
    assert span(rule, Instant(0), Instant(until)) == (1_000, 1, lone)


def test_a_long_gap_costs_few_questions() -> None:
    """Ten years of a rule of each millisecond: 315 billion fires, and some thousand questions."""
    rule = Counted(1_000)
    until = Instant(NOW + TEN_YEARS_US)
    found = span(rule, NOW, until)
    assert found == (1_000, NOW + 1_000, until // 1_000 * 1_000)
    assert rule.asked <= 1_000 + 60


def test_a_rule_that_contradicts_itself_cannot_hold_the_search() -> None:
    """The answer is then worth as much as the rule; that there is one is what counts."""
    rule = Counted(1_000)

    def wild(asked: int) -> int | None:
        rule.asked += 1
        return asked + 1 if rule.asked < 1_005 or asked % 3 else None

    assert span(Says(wild), Instant(0), MAX_INSTANT) is not None
    assert rule.asked < 1_100


def test_a_span_of_its_own_is_believed_where_it_can_be_true() -> None:
    """A rule that can count by arithmetic gives exact counts beyond the thousand."""
    rule = Spans(answer=lambda low, high: (10**9, low + 1, high))
    assert span(rule, NOW, Instant(NOW + 10**9)) == (10**9, NOW + 1, NOW + 10**9)
    assert span(Spans(), NOW, MAX_INSTANT) is None


@pytest.mark.parametrize(
    "answer",
    [
        boom,
        lambda low, high: 5,
        lambda low, high: (1, low + 1),
        lambda low, high: (0, low + 1, high),
        lambda low, high: (True, low + 1, high),
        lambda low, high: (2, low, high),
        lambda low, high: (2, low + 1, high + 1),
        lambda low, high: (2, high, low + 1),
        lambda low, high: (2, float(low + 1), high),
        lambda low, high: (None, None, None),
    ],
)
def test_a_span_of_its_own_that_cannot_be_true_is_named(answer: Any) -> None:
    """The newest fire of it would be placed in the timeline."""
    with pytest.raises(RuleError, match=r"Spans\(.*\.span\(1, 1000\) (gave|raised)"):
        span(Spans(answer=answer), Instant(1), Instant(1_000))


def test_span_counts_what_lies_in_the_gap_for_our_own_rules() -> None:
    """One call for whoever decides what was missed."""
    assert span(at(datetime_of(NOW)), Instant(NOW - 1), NOW) == (1, NOW, NOW)
    assert span(at(datetime_of(NOW)), NOW, MAX_INSTANT) is None
    assert span(after(1).bound(NOW), NOW, MAX_INSTANT) == (1, NOW + SECOND_US, NOW + SECOND_US)
    assert span(every(timedelta(days=1)).bound(NOW), NOW, NOW) is None
