"""Which of the fires that were missed run: each answer against one that enumerates them all."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.rules.custom import OneShot, Says, Squares
from tickless.errors import RuleError
from tickless.instants import SECOND_US, Instant, datetime_of
from tickless.policies import (
    Plan,
    Policy,
    Skipped,
    after_wait,
    is_too_late,
    next_in_catch_up,
    on_due,
    on_resume,
    skipped_since,
)
from tickless.rules import Rule, Window, after, at, checked_next, cron, every
from tickless.states import CatchUp, Reason
from tickless.testing.drafts import NOON_US, later

S = SECOND_US
DAY_US = 86_400 * S


@dataclass(frozen=True)
class Listed:
    """A user's own rule: these instants and no others. It has no `span`, and notes what it is asked."""

    fires: tuple[int, ...]
    asked: list[int] = field(default_factory=list, compare=False)
    recurring = True
    wall = False

    def bound(self, now: Instant) -> Listed:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.asked.append(after)
        place = bisect_right(self.fires, after)
        return Instant(self.fires[place]) if place < len(self.fires) else None


class Missed(NamedTuple):
    """A fire that surfaces, and when it does."""

    rule: Rule
    fires: list[Instant]
    """All that the rule has from `due` on, up to two past `now`."""
    due: Instant
    now: Instant

    @property
    def came(self) -> list[Instant]:
        return [fire for fire in self.fires if fire <= self.now]

    @property
    def following(self) -> Instant | None:
        return next((fire for fire in self.fires if fire > self.now), None)


def rules() -> SearchStrategy[Rule]:
    """Grids of ours, calendars, combinations, and a user's own."""
    intervals = st.sampled_from([0.001, 0.7, 1, 60, 86_400]) | st.integers(1, 10_000).map(lambda ms: ms / 1_000)
    crons = ["* * * * *", "*/7 9-17 * * *", "0 0 * * 1-5", "30 4 1,15 * *", "0 0 29 2 *"]
    gaps = st.lists(st.integers(1, 3 * S) | st.sampled_from([1, 2, S, 1_000, DAY_US]), min_size=1, max_size=60)
    return st.one_of(
        intervals.map(lambda seconds: every(seconds=seconds).bound(NOON_US)),
        intervals.map(lambda seconds: every(seconds=seconds, anchor="epoch")),
        intervals.map(lambda seconds: Window(every(seconds=seconds).bound(NOON_US), None, later(200_000))),
        st.sampled_from(crons).map(cron),
        st.just(cron("0 * * * *") | cron("59 * * * *")),
        gaps.map(lambda gaps: Listed(tuple(NOON_US + sum(gaps[: k + 1]) for k in range(len(gaps))))),
        st.just(Squares(S)),
    )


@st.composite
def missed(draw: DrawFn) -> Missed:
    """A few dozen fires missed, often with `now` at one of them, or a grace or a second away from it."""
    rule = draw(rules())
    fires: list[Instant] = []
    fire = checked_next(rule, NOON_US)
    while fire is not None and len(fires) < 40:
        fires.append(fire)
        fire = checked_next(rule, fire)
    fires = fires[draw(st.integers(0, min(3, len(fires) - 1))) :]
    from_fire = draw(st.sampled_from(fires))
    apart_us = st.sampled_from([-1, 0, 1, S - 1, S, S + 1, 5 * S]) | st.integers(-S, 100 * S)
    now = Instant(max(fires[0], from_fire + draw(apart_us)))
    while fire is not None and fires[-1] <= now and len(fires) < 900:
        fires.append(fire)
        fire = checked_next(rule, fire)
    return Missed(
        rule, fires, fires[0], min(now, Instant(fires[-1] - 1)) if fire is not None and len(fires) > 1 else now
    )


def record(reason: Reason, fires: list[Instant]) -> tuple[Skipped, ...]:
    return (Skipped(reason, len(fires), fires[0], fires[-1]),) if fires else ()


def judged(case: Missed, policy: Policy, dropped: Reason = Reason.COALESCED) -> Plan:
    """The same by looking at each fire."""
    grace_us = policy.grace_us
    on_time = [fire for fire in case.came if grace_us is None or case.now - fire <= grace_us]
    late = [fire for fire in case.came if fire not in on_time]
    runs = on_time[-policy.max_catch_up :] if policy.catch_up == "all" else on_time[-1:]
    allowed_us = S if grace_us is None else grace_us
    if policy.catch_up == "none":
        runs = [fire for fire in runs if case.now - fire <= allowed_us]
    rest = on_time[: len(on_time) - len(runs)]
    skipped = record(Reason.MISFIRE, late) + record(dropped, rest)
    return Plan(runs[0] if runs else case.following, skipped, until=runs[-1] if len(runs) > 1 else None)


def policies() -> SearchStrategy[Policy]:
    graces = st.none() | st.sampled_from([1_000, S - 1, S, S + 1, 5 * S, DAY_US]) | st.integers(1_000, 100 * S)
    return st.builds(
        lambda grace_us, catch_up, most: Policy(grace_us=grace_us, catch_up=catch_up, max_catch_up=most),
        graces,
        st.sampled_from(["latest", "all", "none"]),
        st.sampled_from([1, 2, 3, 100]),
    )


@given(missed(), policies())
def test_each_policy_chooses_as_one_that_looks_at_each_fire(case: Missed, policy: Policy) -> None:
    """Bisection is quick, and wrong by one fire in a way that nobody sees."""
    assert on_due(case.rule, case.due, case.now, policy) == judged(case, policy)


@given(st.integers(0, 9), policies())
def test_fires_a_microsecond_apart_are_told_apart(lateness_us: int, policy: Policy) -> None:
    """Nothing smaller can be said, so each edge that is off by one shows."""
    fires = [Instant(NOON_US + k) for k in range(12)]
    case = Missed(Listed(tuple(fires)), fires, NOON_US, Instant(NOON_US + lateness_us))
    for grace_us in (None, 0, 1, 4):
        narrow = policy._replace(grace_us=grace_us)
        assert on_due(case.rule, case.due, case.now, narrow) == judged(case, narrow)
    replaced = after_wait(Policy(overlap="replace"), case.rule, case.due, case.now)
    assert replaced == Plan(case.now, record(Reason.REPLACED, case.came[:-1]))


@given(missed())
def test_a_policy_that_says_nothing_about_misses_changes_nothing(case: Missed) -> None:
    """A timeout is no reason to fire otherwise."""
    assert on_due(case.rule, case.due, case.now, Policy(timeout_us=S)) == on_due(case.rule, case.due, case.now)
    assert on_due(case.rule, case.due, case.now) == judged(case, Policy())


@given(missed(), policies())
def test_a_catch_up_tells_each_of_its_fires_once_and_in_order(case: Missed, policy: Policy) -> None:
    """Each starts when the one before has ended: the caller asks for it then."""
    plan = on_due(case.rule, case.due, case.now, policy._replace(catch_up="all", grace_us=None))
    assert plan.due is not None
    told, until = [plan.due], plan.until or plan.due
    while (following := next_in_catch_up(case.rule, told[-1], until)) is not None:
        told.append(following)
    assert told == case.came[-policy.max_catch_up :]


@given(missed(), policies())
def test_no_fire_is_lost_and_none_counted_twice(case: Missed, policy: Policy) -> None:
    """Skipped, run, or still to come: what a user adds up the next morning."""
    plan = on_due(case.rule, case.due, case.now, policy)
    runs = [fire for fire in case.came if plan.due is not None and plan.due <= fire <= (plan.until or plan.due)]
    assert sum(skipped.fires for skipped in plan.skipped) + len(runs) == len(case.came)


# Grace


@pytest.mark.parametrize("rule", [every(seconds=10).bound(NOON_US), Listed((later(10), later(20)))], ids=str)
@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_late_by_exactly_the_grace_runs_and_a_microsecond_later_does_not(rule: Rule, catch_up: CatchUp) -> None:
    """A boundary that lies on neither side is a fire that is judged twice, and once each way."""
    policy = Policy(grace_us=3 * S, catch_up=catch_up)
    assert on_due(rule, later(10), later(13), policy) == Plan(later(10))
    assert not is_too_late(policy, later(10), later(13))
    too_late = Instant(later(13) + 1)
    assert on_due(rule, later(10), too_late, policy) == Plan(later(20), record(Reason.MISFIRE, [later(10)]))
    assert is_too_late(policy, later(10), too_late)


def test_without_a_grace_nothing_is_too_late() -> None:
    """Late is better than never."""
    assert not is_too_late(None, later(0), later(10**6))
    assert not is_too_late(Policy(), later(0), later(10**6))


@pytest.mark.parametrize("rule", [at(datetime_of(later(10))), after(10).bound(NOON_US), OneShot(later(10))], ids=str)
def test_a_one_shot_past_its_grace_has_no_other_fire(rule: Rule) -> None:
    """That is its end, and must not come as an endless search for a next one."""
    policy = Policy(grace_us=S)
    assert on_due(rule, later(10), later(11), policy) == Plan(later(10))
    assert on_due(rule, later(10), later(12), policy) == Plan(None, record(Reason.MISFIRE, [later(10)]))
    past_its_rule = on_due(rule, later(30), later(32), policy)  # a child, let go after its instant: due then
    assert past_its_rule == Plan(None, record(Reason.MISFIRE, [later(30)]))


@pytest.mark.parametrize("within", [False, True])
def test_a_sliding_rule_that_came_too_late_counts_from_here(within: bool) -> None:
    """It has one fire at a time: without a new bound it would have none, and end."""
    sliding: Rule = every(seconds=10, sliding=True)
    rule = (Window(sliding, None, later(500)) if within else sliding).bound(NOON_US)
    plan = on_due(rule, later(10), later(95), Policy(grace_us=S))
    assert plan == Plan(later(105), record(Reason.MISFIRE, [later(10)]), rule=rule.bound(later(95)))
    resumed = on_resume(rule, later(10), later(95), "none", None)
    assert resumed == plan._replace(skipped=record(Reason.PAUSED, [later(10)]))
    assert on_resume(rule, later(10), later(95), "latest", None) == Plan(later(10))


def test_catch_up_none_takes_a_second_for_on_time() -> None:
    """A dispatcher is a little late always."""
    rule = every(seconds=10).bound(NOON_US)
    policy = Policy(catch_up="none")
    assert on_due(rule, later(10), later(11), policy) == Plan(later(10))
    assert on_due(rule, later(10), Instant(later(11) + 1), policy) == Plan(
        later(20), record(Reason.COALESCED, [later(10)])
    )
    assert on_due(rule, later(10), later(30), policy) == Plan(
        later(30), record(Reason.COALESCED, [later(10), later(20)])
    )


# Long gaps


@dataclass(frozen=True)
class Uncounted:
    """`inner` as a user would write it, without a `span`; counts the questions."""

    inner: Rule
    asked: list[int] = field(default_factory=list, compare=False)
    recurring = True
    wall = False

    def bound(self, now: Instant) -> Uncounted:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.asked.append(after)
        return self.inner.next_after(after)


@pytest.mark.parametrize("most", [1, 7, 100, 999, 1_000, 1_001, 5_000])
def test_ten_years_missed_are_caught_up_by_arithmetic(most: int) -> None:
    """300 million fires, of which the newest few run."""
    rule = every(seconds=1).bound(NOON_US)
    missed = 3653 * 86_400
    plan = on_due(rule, later(1), later(missed), Policy(catch_up="all", max_catch_up=most))
    begin = later(missed - most + 1)
    assert plan == Plan(
        begin,
        (Skipped(Reason.COALESCED, missed - most, later(1), Instant(begin - S)),),
        until=later(missed) if most > 1 else None,
    )
    within = on_due(Window(rule, None, later(missed)), later(1), later(2 * missed), Policy(catch_up="all"))
    assert (within.due, within.until) == (later(missed - 99), later(missed))


@pytest.mark.parametrize("most", [1, 7, 100, 999, 1_000])
@pytest.mark.parametrize("seconds", [0.001, 1, 60])
def test_ten_years_missed_are_caught_up_in_a_bounded_number_of_questions(most: int, seconds: float) -> None:
    """Somebody else's rule can only be asked, and answers as slowly as it likes."""
    rule = Uncounted(every(seconds=seconds).bound(NOON_US))
    now = Instant(NOON_US + 3653 * DAY_US)
    plan = on_due(rule, later(seconds), now, Policy(catch_up="all", max_catch_up=most))
    assert plan.due == now - (most - 1) * round(seconds * S)
    assert plan.until == (now if most > 1 else None)
    assert plan.skipped == (Skipped(Reason.COALESCED, 1_001, later(seconds), Instant(plan.due - round(seconds * S))),)
    assert len(rule.asked) < 5 * most + 4_000


@dataclass(frozen=True)
class Counting(Listed):
    """Counts without enumerating, as `span` may."""

    def span(self, after: Instant, until: Instant) -> tuple[int, int, int] | None:
        inside = self.fires[bisect_right(self.fires, after) : bisect_right(self.fires, until)]
        return (len(inside), inside[0], inside[-1]) if inside else None


@pytest.mark.parametrize("most", [1, 999, 1_000, 1_001, 1_234, 2_999, 3_000, 5_000])
def test_a_users_own_rule_that_counts_is_caught_up_beyond_a_thousand(most: int) -> None:
    """Its count is exact, so nothing has to be told apart from "at least"."""
    fires = [Instant(NOON_US + k * k * 1_000) for k in range(1, 3_001)]
    rule = Counting(tuple(fires))
    plan = on_due(rule, fires[0], Instant(fires[-1] + 5), Policy(catch_up="all", max_catch_up=most))
    runs = fires[-most:]
    skipped = record(Reason.COALESCED, fires[: len(fires) - len(runs)])
    assert plan == Plan(runs[0], skipped, until=runs[-1] if most > 1 else None)
    assert rule.asked == []


@pytest.mark.parametrize(
    ("fires", "runs"), [(999, 999), (1_000, 1_000), (1_001, 1_001), (1_002, 1_000), (3_000, 1_000)]
)
def test_what_cannot_be_counted_is_caught_up_to_a_thousand(fires: int, runs: int) -> None:
    """`max_catch_up=5000` on a rule that can only be asked: up to what can be told apart from "at least"."""
    for rule in (Listed(tuple(later(k) for k in range(1, fires + 1))), cron("* * * * * *")):
        plan = on_due(rule, later(1), later(fires), Policy(catch_up="all", max_catch_up=5_000))
        assert (plan.due, plan.until) == (later(fires - runs + 1), later(fires))


@given(
    st.lists(st.tuples(st.integers(1, 1_500), st.sampled_from([1, 2, 1_000, S]), st.integers(1, 10**12)), max_size=4),
    st.sampled_from([1, 2, 99, 100, 999, 1_000]),
)
def test_bursts_of_a_users_own_rule_are_caught_up_to_the_fire(bursts: list[tuple[int, int, int]], most: int) -> None:
    """Thousands within a blink, then none for days: neither the step nor the half may jump over the right one."""
    fires: list[int] = [later(1)]
    for count, apart_us, gap_us in bursts:
        begin = fires[-1] + gap_us
        fires += [begin + k * apart_us for k in range(count)]
    rule = Listed(tuple(fires))
    plan = on_due(rule, Instant(fires[0]), Instant(fires[-1] + 1), Policy(catch_up="all", max_catch_up=most))
    runs = fires[-most:]
    assert (plan.due, plan.until) == (runs[0], runs[-1] if len(runs) > 1 else None)
    assert len(rule.asked) < 70_000


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_a_users_own_rule_that_lies_or_raises_is_named(catch_up: CatchUp) -> None:
    """The task ends with a message; the scheduler does not hang in a search that cannot end."""
    policy = Policy(catch_up=catch_up, grace_us=5 * S)
    for answer in (lambda after: after, lambda after: 1 / 0, lambda after: "soon"):
        with pytest.raises(RuleError, match="next_after"):
            on_due(Says(answer), later(1), later(10), policy)


@given(st.integers(0, 2**32), st.sampled_from([1, 5, 1_000]))
def test_a_rule_that_contradicts_itself_is_left_after_a_bounded_search(seed: int, most: int) -> None:
    """It answers something else each time, though never in the past."""
    asked: list[int] = []

    def answer(after: int) -> int:
        asked.append(after)
        return after + 1 + (seed * 31 + len(asked) * 7_919) % (S // 10)

    plan = on_due(Says(answer), later(1), later(1_000), Policy(catch_up="all", max_catch_up=most))
    assert plan.due is not None
    assert later(1) <= plan.due <= (plan.until or plan.due) <= later(1_000)
    assert len(asked) < 70_000


# Pauses, and tasks that took no fires


@given(missed())
def test_what_came_in_a_pause_is_one_record_and_a_fire_at_its_end_counts(case: Missed) -> None:
    """The end of a pause at the very instant of a fire: that fire is neither lost nor doubled."""
    before = [fire for fire in case.came if fire < case.now]
    plan = Plan(next((fire for fire in case.fires if fire >= case.now), None), record(Reason.PAUSED, before))
    assert on_resume(case.rule, case.due, case.now, "none", Policy(grace_us=1_000, catch_up="all")) == plan


@given(missed(), st.sampled_from(["latest", "all"]), st.none() | policies())
def test_a_resume_that_catches_up_judges_as_if_all_had_been_missed(
    case: Missed, catch_up: CatchUp, policy: Policy | None
) -> None:
    """By the resume's own catch_up; the policy's grace and max_catch_up hold, and what is dropped was paused."""
    plan = on_resume(case.rule, case.due, case.now, catch_up, policy)
    if case.due == case.now:
        assert plan == Plan(case.due)
    assert plan == judged(case, (policy or Policy())._replace(catch_up=catch_up), Reason.PAUSED)


def test_a_resume_before_the_next_fire_changes_nothing() -> None:
    """Paused and resumed within one interval."""
    rule = every(seconds=10).bound(NOON_US)
    catch_ups: tuple[CatchUp, ...] = ("none", "latest", "all")
    for catch_up in catch_ups:
        assert on_resume(rule, later(10), later(10), catch_up, None) == Plan(later(10))
        assert on_resume(rule, later(10), later(3), catch_up, None) == Plan(later(10))


@given(missed())
def test_fires_since_are_counted_without_the_first(case: Missed) -> None:
    """Those that are skipped now, before there is a record of them."""
    assert skipped_since(case.rule, case.due, case.now) == len(case.came) - 1
    assert skipped_since(case.rule, case.now, case.due) == 0


def test_an_exhausted_rule_has_no_next_fire() -> None:
    """The task ends then, with the record of what was lost."""
    rule = replace(Squares(S), last=3)
    lost = [Instant(k * k * S) for k in (1, 2, 3)]
    now = Instant(100 * S)
    assert on_due(rule, lost[0], now, Policy(grace_us=S)) == Plan(None, record(Reason.MISFIRE, lost))
    assert on_due(rule, lost[0], now, Policy(catch_up="none")) == Plan(None, record(Reason.COALESCED, lost))
    assert on_resume(rule, lost[0], now, "none", None) == Plan(None, record(Reason.PAUSED, lost))
    assert next_in_catch_up(rule, lost[2], now) is None
