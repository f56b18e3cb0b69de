"""Every rule of the wall clock, alone and combined, keeps the contract of `next_after` in odd zones, around changes."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.rules.custom import OneShot
from tests.rules.wall_rules import calendars, date_sets, filtered, kept, rrules, wall_ats, walls
from tests.rules.zoned import moments
from tickless.instants import Instant
from tickless.rules import Rule
from tickless.testing.rule_suite import RuleSuite


class Around(RuleSuite):
    def instants(self) -> SearchStrategy[Instant]:
        return moments()


class TestCalendar(Around):
    def rules(self) -> SearchStrategy[Rule]:
        return calendars()


class TestRRule(Around):
    def rules(self) -> SearchStrategy[Rule]:
        return rrules()


class TestAtOfAZone(Around):
    def rules(self) -> SearchStrategy[Rule]:
        return wall_ats()


@cache
def unions() -> SearchStrategy[Rule]:
    pairs = st.tuples(walls(), walls()).map(lambda pair: pair[0] | pair[1])  # type: ignore[operator]  # all have it
    foreign = st.builds(lambda rule, due: rule | OneShot(due), walls(), moments())
    return st.one_of(pairs, foreign)


@cache
def combinations() -> SearchStrategy[Rule]:
    once = filtered(walls(), "on", "skip", "next")
    both = st.tuples(once, walls()).map(lambda pair: pair[0] | pair[1])  # type: ignore[operator]  # all have it
    # Two sets of weekdays that exclude each other are found out by 50 years of looking: too long for so many.
    return st.builds(kept, both, date_sets(), st.sampled_from(["on", "skip", "next"]))


class TestUnion(Around):
    def rules(self) -> SearchStrategy[Rule]:
        return unions()


class TestOnDays(Around):
    def rules(self) -> SearchStrategy[Rule]:
        return filtered(walls(), "on")


class TestNotOn(Around):
    def rules(self) -> SearchStrategy[Rule]:
        return filtered(walls(), "skip")


class TestNotOnButTheNextDay(Around):
    def rules(self) -> SearchStrategy[Rule]:
        return filtered(walls(), "next")


class TestCombinationsOfCombinations(Around):
    def rules(self) -> SearchStrategy[Rule]:
        return combinations()
