"""Every rule of ours, and one of a user's, keeps the contract of `next_after`."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests import strategies
from tests.rules.custom import OneShot, Squares
from tickless.instants import Instant, instant_of
from tickless.rules import Rule
from tickless.testing.rule_suite import RuleSuite

YEAR_9000 = instant_of(datetime(9000, 1, 1, tzinfo=UTC), "test")


class TestAt(RuleSuite):
    def rules(self) -> SearchStrategy[Rule]:
        return strategies.ats()

    def instants(self) -> SearchStrategy[Instant]:
        return strategies.instants()


class TestAfter(RuleSuite):
    def rules(self) -> SearchStrategy[Rule]:
        return strategies.afters()

    def instants(self) -> SearchStrategy[Instant]:
        """A delay that ends past the year 9999 is refused when it is bound: test_after.py."""
        return strategies.instants(high=YEAR_9000)


class TestEveryAligned(RuleSuite):
    def rules(self) -> SearchStrategy[Rule]:
        return strategies.aligned()

    def instants(self) -> SearchStrategy[Instant]:
        return strategies.instants()


class TestEveryAnchored(RuleSuite):
    def rules(self) -> SearchStrategy[Rule]:
        return strategies.anchored()

    def instants(self) -> SearchStrategy[Instant]:
        return strategies.instants()


class TestEverySliding(RuleSuite):
    def rules(self) -> SearchStrategy[Rule]:
        return strategies.sliding()

    def instants(self) -> SearchStrategy[Instant]:
        return strategies.instants()


class TestARuleWithoutArithmetic(RuleSuite):
    def rules(self) -> SearchStrategy[Rule]:
        return st.builds(Squares, st.integers(1, 10**9), st.sampled_from([3, 10**9]))


class TestAOneShotOfSomebodyElse(RuleSuite):
    def rules(self) -> SearchStrategy[Rule]:
        return strategies.instants().map(OneShot)
