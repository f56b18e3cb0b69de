"""What every Rule must do, as properties to inherit. Needs the package `hypothesis`.

class TestMyRule(RuleSuite):
    def rules(self) -> SearchStrategy[Rule]:
        return st.builds(MyRule, st.integers(1, 60))
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from tickless.instants import SECOND_US, Instant
from tickless.rules import Rule, checked_next, span

YEAR_US = 31_556_952 * SECOND_US
FEW = 12
"""So many fires are looked at one by one."""

# Hypothesis warns of a property that several classes inherit; this suite is made for that. A deadline, and the check
# that examples are made quickly, would measure the machine. One failure at a time is enough to read.
_inherited = settings(
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)


class RuleSuite(ABC):
    """Inherit, and say how rules are made. Each property binds a drawn rule to a drawn instant and asks it."""

    @abstractmethod
    def rules(self) -> SearchStrategy[Rule]:
        """Rules as a user writes them, bound or not."""

    def instants(self) -> SearchStrategy[Instant]:
        """When they are bound and asked: 1970 to 2100. Override it where your rule means less, or more."""
        return st.integers(0, 130 * YEAR_US).map(Instant)

    def drawn(self, data: DataObject) -> tuple[Rule, Instant]:
        """A bound rule, and an instant to ask it at: anywhere, or at a fire, or one microsecond beside one."""
        rule = data.draw(self.rules(), label="rule").bound(data.draw(self.instants(), label="bound at"))
        asked = data.draw(self.instants(), label="asked near")
        for _ in range(data.draw(st.integers(0, 3), label="fires further")):
            fire = checked_next(rule, asked)
            if fire is None:
                break
            asked = fire
        return rule, Instant(asked + data.draw(st.sampled_from([0, -1, 1]), label="beside"))

    @_inherited
    @given(data=st.data())
    def test_it_is_a_rule(self, data: DataObject) -> None:
        """What is missing would be found when the task is due."""
        rule = data.draw(self.rules(), label="rule")
        bound = rule.bound(data.draw(self.instants(), label="bound at"))
        for each in (rule, bound):
            assert isinstance(each, Rule), f"{each!r} lacks one of recurring, wall, bound, next_after"
            assert type(each.recurring) is bool
            assert type(each.wall) is bool
        assert (bound.recurring, bound.wall) == (rule.recurring, rule.wall), "binding must not change the kind of rule"

    @_inherited
    @given(data=st.data())
    def test_a_fire_is_an_instant_strictly_after(self, data: DataObject) -> None:
        """The same instant again would fire without end."""
        rule, asked = self.drawn(data)
        checked_next(rule, asked)  # raises RuleError, which says what is wrong

    @_inherited
    @given(data=st.data())
    def test_the_same_question_has_the_same_answer(self, data: DataObject) -> None:
        """A rule that remembers what it was asked skips fires when somebody lists the next ones."""
        rule, asked = self.drawn(data)
        twin = pickle.loads(pickle.dumps(rule))
        questions = [Instant(asked + step) for step in data.draw(st.lists(st.integers(-YEAR_US, YEAR_US), max_size=4))]
        answers = [rule.next_after(question) for question in questions]
        assert [rule.next_after(question) for question in reversed(questions)] == answers[::-1]
        assert [twin.next_after(question) for question in questions] == answers
        assert (rule, hash(rule)) == (twin, hash(twin)), "asking must not change the rule"

    @_inherited
    @given(data=st.data())
    def test_a_later_question_has_no_earlier_answer(self, data: DataObject) -> None:
        """Missed fires are found by bisection, which needs order."""
        rule, asked = self.drawn(data)
        later = Instant(asked + data.draw(st.integers(0, YEAR_US), label="later by"))
        early, late = checked_next(rule, asked), checked_next(rule, later)
        if late is not None:
            assert early is not None, f"no fire after {asked}, but {late} after {later}"
            assert early <= late

    @_inherited
    @given(data=st.data())
    def test_no_fire_is_skipped_or_made_up_in_between(self, data: DataObject) -> None:
        """A scheduler that asks a moment later must find the same fire."""
        rule, asked = self.drawn(data)
        fire = checked_next(rule, asked)
        end = asked + YEAR_US if fire is None else fire - 1
        between = Instant(data.draw(st.integers(asked, end), label="in between"))
        assert checked_next(rule, between) == fire
        if fire is not None:
            assert checked_next(rule, Instant(fire - 1)) == fire

    @_inherited
    @given(data=st.data())
    def test_a_one_shot_fires_once(self, data: DataObject) -> None:
        """`recurring` decides what happens at the finish: a second fire of a one-shot would be lost."""
        rule, asked = self.drawn(data)
        fire = checked_next(rule, asked)
        if fire is not None and not rule.recurring:
            assert checked_next(rule, fire) is None

    @_inherited
    @given(data=st.data())
    def test_it_is_a_value(self, data: DataObject) -> None:
        """Rules go to other processes, are keys, and tell an unchanged schedule from a changed one."""
        rule = data.draw(self.rules(), label="rule")
        now = data.draw(self.instants(), label="bound at")
        for each in (rule, rule.bound(now)):
            twin = pickle.loads(pickle.dumps(each))
            assert twin == each
            assert hash(twin) == hash(each)
            assert each != object()
        assert rule.bound(now) == rule.bound(now)

    @_inherited
    @given(data=st.data())
    def test_binding_twice_changes_nothing(self, data: DataObject) -> None:
        """A rule bound again at a restart would lose its grid. Sliding rules are the exception: they start anew."""
        rule, _ = self.drawn(data)
        again = rule.bound(data.draw(self.instants(), label="bound again at"))
        if getattr(rule, "sliding", False) is not True:
            assert again == rule

    @_inherited
    @given(data=st.data())
    def test_span_agrees_with_asking_one_by_one(self, data: DataObject) -> None:
        """The record of what was missed would tell another number, and the newest of them would not run."""
        rule, asked = self.drawn(data)
        enough = data.draw(st.integers(0, FEW), label="fires at most")
        fires: list[Instant] = []
        until, fire = asked, checked_next(rule, asked)
        while fire is not None and len(fires) < enough:
            fires.append(fire)
            until, fire = fire, checked_next(rule, fire)
        until = Instant(data.draw(st.integers(until, until + YEAR_US if fire is None else fire - 1), label="until"))
        assert span(rule, asked, until) == ((len(fires), fires[0], fires[-1]) if fires else None)
