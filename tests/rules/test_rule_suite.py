"""RuleSuite catches the rules that would do harm: each planted fault fails at least the property named for it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.rules.custom import Squares
from tickless.errors import RuleError
from tickless.instants import Instant
from tickless.rules import Rule
from tickless.testing.rule_suite import RuleSuite

STEP_US = 1_000_000_000


@dataclass(frozen=True)
class Grid:
    """A good grid, to be broken below."""

    step_us: int = STEP_US
    recurring = True
    wall = False

    def bound(self, now: Instant) -> Rule:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        return Instant((after // self.step_us + 1) * self.step_us)


@dataclass(frozen=True)
class NotStrictly(Grid):
    def next_after(self, after: Instant) -> Instant | None:
        return Instant(-(-after // self.step_us) * self.step_us)


@dataclass(frozen=True)
class Remembers(Grid):
    asked: list[Instant] = field(default_factory=list, compare=False)

    def next_after(self, after: Instant) -> Instant | None:
        self.asked.append(after)
        return Instant(max(self.asked) // self.step_us * self.step_us + self.step_us)


@dataclass(frozen=True)
class GoesBack(Grid):
    def next_after(self, after: Instant) -> Instant | None:
        far = after // self.step_us % 2 == 0
        return Instant((after // self.step_us + (5 if far else 1)) * self.step_us)


@dataclass(frozen=True)
class CountsFromTheQuestion(Grid):
    def next_after(self, after: Instant) -> Instant | None:
        return Instant(after + self.step_us)


@dataclass(frozen=True)
class OneShotThatRecurs(Grid):
    recurring = False


class SameOnlyAsItself(Grid):
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass(frozen=True)
class BoundAnewEachTime(Grid):
    start: int = 0

    def bound(self, now: Instant) -> Rule:
        return BoundAnewEachTime(self.step_us, now)


@dataclass(frozen=True)
class KindChangesWhenBound(Grid):
    def bound(self, now: Instant) -> Rule:
        return OneShotThatRecurs()


@dataclass(frozen=True)
class SpanForgetsTheFirst(Grid):
    def span(self, after: Instant, until: Instant) -> tuple[int, Instant, Instant] | None:
        first = Instant((after // self.step_us + 2) * self.step_us)
        if first > until:
            return None
        count = (until - first) // self.step_us + 1
        return count, first, Instant(first + (count - 1) * self.step_us)


def suite_of(rule: Rule) -> RuleSuite:
    class Suite(RuleSuite):
        def rules(self) -> SearchStrategy[Rule]:
            return st.just(rule)

        def instants(self) -> SearchStrategy[Instant]:
            return st.integers(0, 100 * STEP_US).map(Instant)

    return Suite()


PLANTED: list[tuple[Rule, str]] = [
    (NotStrictly(), "test_a_fire_is_an_instant_strictly_after"),
    (Remembers(), "test_the_same_question_has_the_same_answer"),
    (GoesBack(), "test_a_later_question_has_no_earlier_answer"),
    (CountsFromTheQuestion(), "test_no_fire_is_skipped_or_made_up_in_between"),
    (OneShotThatRecurs(), "test_a_one_shot_fires_once"),
    (SameOnlyAsItself(), "test_it_is_a_value"),
    (BoundAnewEachTime(), "test_binding_twice_changes_nothing"),
    (KindChangesWhenBound(), "test_it_is_a_rule"),
    (SpanForgetsTheFirst(), "test_span_agrees_with_asking_one_by_one"),
]
PROPERTIES = [name for name in vars(RuleSuite) if name.startswith("test_")]


@pytest.mark.parametrize(("rule", "name"), PLANTED, ids=[type(rule).__name__ for rule, _ in PLANTED])
def test_a_planted_fault_is_caught(rule: Rule, name: str) -> None:
    """A suite that passes everything is worse than none. To be caught is enough: no smaller example is looked for."""
    prove = given(data=st.data())(getattr(RuleSuite, name).hypothesis.inner_test)
    with pytest.raises((AssertionError, RuleError)):
        settings(phases=[Phase.generate])(prove)(suite_of(rule))


def test_every_property_has_a_planted_fault() -> None:
    """Else nobody knows whether it can fail."""
    assert sorted(PROPERTIES) == sorted(name for _, name in PLANTED)


@pytest.mark.parametrize(("rule", "name"), list(itertools.product([Grid(), Squares()], PROPERTIES)))
def test_a_good_rule_passes(rule: Rule, name: str) -> None:
    """What the planted faults are made from is not itself at fault."""
    getattr(suite_of(rule), name)()
