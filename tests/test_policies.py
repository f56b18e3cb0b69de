"""The decisions: parents, due, finish. Each is a function of values, so all of it can be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations, product

import pytest

from tests.rules.custom import OneShot, Squares
from tickless import policies
from tickless.instants import SECOND_US, Instant, datetime_of
from tickless.policies import Plan, Skipped, Verdict, after_run, kind_of_end, on_bind, on_due, on_parent, same_rule
from tickless.rules import after, at, every
from tickless.states import Reason, RunIf, State
from tickless.testing.drafts import NOON_US, later

S = SECOND_US
TEN_YEARS_US = 3653 * 86_400 * S
ENDS: list[tuple[State, Reason | None, str]] = [
    (State.SUCCEEDED, None, "succeeded"),
    (State.FAILED, None, "failed"),
    (State.FAILED, Reason.REJECTED, "failed"),
    (State.FAILED, Reason.RULE, "failed"),
    (State.SKIPPED, Reason.PARENT_FAILED, "failed"),
    (State.CANCELLED, Reason.CANCELLED, "cancelled"),
    (State.CANCELLED, Reason.CLOSED, "cancelled"),
    (State.SKIPPED, Reason.PARENT_CANCELLED, "cancelled"),
    (State.SKIPPED, Reason.PARENT_SKIPPED, "neutral"),
    (State.SKIPPED, Reason.RUN_IF, "neutral"),
    (State.SKIPPED, Reason.NO_NEXT_FIRE, "neutral"),
]
KINDS = {"succeeded": policies.SUCCEEDED, "failed": policies.FAILED}
KINDS |= {"cancelled": policies.CANCELLED, "neutral": policies.NEUTRAL}
WORST = [("failed", Reason.PARENT_FAILED), ("cancelled", Reason.PARENT_CANCELLED), ("neutral", Reason.PARENT_SKIPPED)]


@pytest.mark.parametrize(("state", "reason", "kind"), ENDS, ids=lambda value: str(value))
def test_a_skip_counts_as_what_caused_it(state: State, reason: Reason | None, kind: str) -> None:
    """`run_if="any_failed"` is the alarm: it must ring for the grandchild of what failed."""
    assert kind_of_end(state, reason) == KINDS[kind]


def decided(run_if: RunIf, order: tuple[str, ...]) -> tuple[Verdict, int]:
    """The first verdict other than to wait, as the parents end in this order, and after how many of them."""
    seen = 0
    for count, kind in enumerate(order, 1):
        seen |= KINDS[kind]
        verdict = on_parent(run_if, seen, len(order) - count)
        if verdict != policies.WAIT:
            return verdict, count
    raise AssertionError(f"{run_if}: waits for the dead after {order}")


def worst(kinds: tuple[str, ...]) -> Reason:
    return next(reason for kind, reason in WORST if kind in kinds)


def expected(run_if: RunIf, order: tuple[str, ...]) -> tuple[Verdict, int]:
    """The same from the sentence in the design, and by counting."""
    last = len(order)

    def first(*kinds: str) -> int | None:
        return next((count for count, kind in enumerate(order, 1) if kind in kinds), None)

    if run_if is RunIf.ALL_SUCCEEDED:
        at_fault = first("failed", "cancelled", "neutral")
        return (Verdict(True), last) if at_fault is None else (Verdict(False, worst(order[:at_fault][-1:])), at_fault)
    if run_if is RunIf.ALL_DONE:
        return Verdict(True), last
    if run_if is RunIf.NONE_FAILED:
        at_fault = first("failed")
        return (Verdict(True), last) if at_fault is None else (Verdict(False, Reason.PARENT_FAILED), at_fault)
    if run_if is RunIf.ANY_SUCCEEDED:
        hit = first("succeeded")
        return (Verdict(True), hit) if hit else (Verdict(False, worst(order)), last)
    hit = first("failed")
    return (Verdict(True), hit) if hit else (Verdict(False, Reason.RUN_IF), last)


@pytest.mark.parametrize("run_if", list(RunIf))
@pytest.mark.parametrize("parents", [1, 2, 3])
def test_the_whole_table_of_run_if_in_every_order_of_up_to_three_parents(run_if: RunIf, parents: int) -> None:
    """What is decided, and when: a child that is released too early reads what is not there yet."""
    for order in product(KINDS, repeat=parents):
        assert decided(run_if, order) == expected(run_if, order), order


@pytest.mark.parametrize("run_if", list(RunIf))
def test_whether_a_child_runs_does_not_depend_on_the_order_of_its_parents(run_if: RunIf) -> None:
    """Two workers finish at once, and who comes first is chance."""
    for kinds in product(KINDS, repeat=3):
        assert len({decided(run_if, order)[0].run for order in permutations(kinds)}) == 1


@pytest.mark.parametrize("run_if", list(RunIf))
def test_parents_that_had_all_ended_decide_as_those_that_end_later(run_if: RunIf) -> None:
    """A child that is scheduled a moment too late must not wait for ever, nor be decided otherwise."""
    for kinds in product(KINDS, repeat=3):
        seen = KINDS[kinds[0]] | KINDS[kinds[1]] | KINDS[kinds[2]]
        assert on_parent(run_if, seen, 0).run is decided(run_if, kinds)[0].run


# When it is due


def test_what_is_on_time_runs_and_skips_nothing() -> None:
    """Up to a microsecond before the next fire, late is better than never."""
    rule = every(seconds=10).bound(NOON_US)
    for now in (later(10), later(15), Instant(later(20) - 1)):
        assert on_due(rule, later(10), now) == Plan(later(10))


def test_the_newest_that_was_missed_runs_and_one_record_counts_the_others() -> None:
    """Exactly at a fire, that one is the newest."""
    rule = every(seconds=10).bound(NOON_US)
    assert on_due(rule, later(10), later(20)) == Plan(later(20), (Skipped(Reason.COALESCED, 1, later(10), later(10)),))
    assert on_due(rule, later(10), later(59)) == Plan(later(50), (Skipped(Reason.COALESCED, 4, later(10), later(40)),))


def test_ten_years_missed_are_found_by_arithmetic() -> None:
    """300 million fires, one by one, are a minute in which nothing else fires."""
    rule = every(seconds=1).bound(NOON_US)
    now = Instant(NOON_US + TEN_YEARS_US + 1)
    plan = on_due(rule, later(1), now)
    assert plan.due == NOON_US + TEN_YEARS_US
    assert plan.skipped == (Skipped(Reason.COALESCED, TEN_YEARS_US // S - 1, later(1), Instant(plan.due - S)),)
    over = after_run(rule, later(1), now)
    assert over.due == NOON_US + TEN_YEARS_US + S
    assert [skipped.fires for skipped in over.skipped] == [TEN_YEARS_US // S - 1]


@pytest.mark.parametrize("last", [10, 10**5])
def test_a_rule_without_arithmetic_is_asked_a_bounded_number_of_times(last: int) -> None:
    """Somebody else's rule: at most 1,000 questions to count, and some 60 to find the newest, twice."""
    squares = Squares(S)
    asked: list[int] = []
    rule = _Asked(squares.next_after, asked)
    now = Instant(last * last * S)
    plan = on_due(rule, Instant(S), now)
    assert plan.due == now
    assert [skipped.last for skipped in plan.skipped] == [(last - 1) ** 2 * S]
    assert len(asked) < 2_200


@dataclass(frozen=True)
class _Asked:
    answer: Callable[[Instant], Instant | None]
    asked: list[int]
    recurring = True
    wall = False

    def bound(self, now: Instant) -> _Asked:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.asked.append(after)
        return self.answer(after)


# After a run


@pytest.mark.parametrize("duration_s", [0, 1, 59, 60, 61, 119, 120, 121, 900])
def test_BUG_017_it_runs_again_at_the_first_slot_at_or_after_its_finish(duration_s: int) -> None:
    """A task that takes longer than its interval: neither two at once, nor an error, nor never again."""
    rule = every(seconds=60).bound(NOON_US)
    plan = after_run(rule, later(60), later(60 + duration_s))
    slots = [60 + 60 * k for k in range(1, 40)]
    inside = [slot for slot in slots if 60 < slot < 60 + duration_s]
    assert plan.due == later(next(slot for slot in slots if slot >= 60 + duration_s))
    if not inside:
        assert plan.skipped == ()
    else:
        assert plan.skipped == (Skipped(Reason.OVERLAP, len(inside), later(inside[0]), later(inside[-1])),)


@pytest.mark.parametrize("interval_us", [1_000, S, 7 * S])
@pytest.mark.parametrize("run_us", [0, 1, 999, 1_000, 1_001, S - 1, S, S + 1, 7 * S, 70 * S])
def test_the_quick_answer_is_the_long_one(interval_us: int, run_us: int) -> None:
    """Two ways to one answer are one more than can be kept right without a test."""
    rule = every(seconds=interval_us / S).bound(NOON_US)
    due, finished = Instant(NOON_US + interval_us), Instant(NOON_US + interval_us + run_us)
    quick = policies.next_on_grid(rule, due, finished)
    if quick is not None:
        assert after_run(rule, due, finished) == Plan(quick)
    assert policies.runs_now(rule, due, finished) is (on_due(rule, due, finished) == Plan(due))


def test_a_finish_before_the_due_instant_moves_nothing() -> None:
    """The wall clock was set back under the run: the fire that ran does not come again."""
    rule = every(seconds=60, anchor="epoch")
    assert after_run(rule, later(60), later(30)).due == later(120)


def test_a_sliding_rule_is_bound_anew_and_misses_nothing() -> None:
    """Its next fire counts from the finish."""
    rule = every(seconds=10, sliding=True).bound(NOON_US)
    plan = after_run(rule, later(10), later(95))
    assert (plan.due, plan.skipped) == (later(105), ())
    assert plan.rule == rule.bound(later(95))


def test_a_rule_that_is_exhausted_says_so() -> None:
    """Its task ends then, and must not be placed at None."""
    assert after_run(Squares(S, last=3), Instant(9 * S), Instant(20 * S)).due is None
    over = after_run(Squares(S, last=3), Instant(1 * S), Instant(20 * S))
    assert over == Plan(None, (Skipped(Reason.OVERLAP, 2, Instant(4 * S), Instant(9 * S)),))


# A child's rule


def test_a_childs_rule_counts_from_its_release() -> None:
    """A past instant is due then, and is no misfire."""
    assert on_bind(after(5), NOON_US).due == later(5)
    assert on_bind(every(seconds=5), NOON_US).due == later(5)
    assert on_bind(OneShot(Instant(NOON_US - S)), NOON_US).due == NOON_US
    assert on_bind(Squares(S, last=2), NOON_US).due is None
    assert on_bind(at(datetime_of(Instant(NOON_US - S))), NOON_US).due == NOON_US
    assert on_bind(at(datetime_of(later(5))), NOON_US).due == later(5)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (every(seconds=5).bound(NOON_US), every(seconds=5).bound(later(3)), True),
        (every(seconds=5).bound(NOON_US), every(seconds=6).bound(NOON_US), False),
        (every(seconds=5).bound(NOON_US), every(seconds=5, sliding=True).bound(NOON_US), False),
        (every(seconds=5, anchor="epoch"), every(seconds=5, anchor="epoch"), True),
        (every(seconds=5).bound(NOON_US), every(seconds=5, anchor="epoch"), False),
        (every(seconds=5).bound(NOON_US), Squares(), False),
        (Squares(), Squares(), False),
    ],
)
def test_an_update_changes_the_schedule_or_it_does_not(old: object, new: object, same: bool) -> None:
    """A program that is started each hour must not push its two-hourly task ahead of it for ever."""
    assert same_rule(old, new) is same  # type: ignore[arg-type]  # they are rules
