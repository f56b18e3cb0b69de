"""The model of a round against the sentences that it was written from: else code and model may be wrong together."""

from __future__ import annotations

import pytest

from tests.properties.flow_model import Node, Part, Round, verdict

S, F, C, N = "succeeded", "failed", "cancelled", "neutral"
WAIT, RUN = "wait", "run"
P_F, P_C, P_S, NO = "parent_failed", "parent_cancelled", "parent_skipped", "run_if"
# Of two parents the first ends so: what the child is; then, if it is not decided, the second so: what the child is.
ONE_AND_TWO = [
    ("all_succeeded", S, WAIT, {S: RUN, F: P_F, C: P_C, N: P_S}),
    ("all_succeeded", F, P_F, {}),
    ("all_succeeded", C, P_C, {}),
    ("all_succeeded", N, P_S, {}),
    ("all_done", S, WAIT, {S: RUN, F: RUN, C: RUN, N: RUN}),
    ("all_done", F, WAIT, {S: RUN, F: RUN, C: RUN, N: RUN}),
    ("all_done", C, WAIT, {S: RUN, F: RUN, C: RUN, N: RUN}),
    ("all_done", N, WAIT, {S: RUN, F: RUN, C: RUN, N: RUN}),
    ("any_succeeded", S, RUN, {}),
    ("any_succeeded", F, WAIT, {S: RUN, F: P_F, C: P_F, N: P_F}),
    ("any_succeeded", C, WAIT, {S: RUN, F: P_F, C: P_C, N: P_C}),
    ("any_succeeded", N, WAIT, {S: RUN, F: P_F, C: P_C, N: P_S}),
    ("any_failed", S, WAIT, {S: NO, F: RUN, C: NO, N: NO}),
    ("any_failed", F, RUN, {}),
    ("any_failed", C, WAIT, {S: NO, F: RUN, C: NO, N: NO}),
    ("any_failed", N, WAIT, {S: NO, F: RUN, C: NO, N: NO}),
    ("none_failed", S, WAIT, {S: RUN, F: P_F, C: RUN, N: RUN}),
    ("none_failed", F, P_F, {}),
    ("none_failed", C, WAIT, {S: RUN, F: P_F, C: RUN, N: RUN}),
    ("none_failed", N, WAIT, {S: RUN, F: P_F, C: RUN, N: RUN}),
]


@pytest.mark.parametrize(("run_if", "first", "then", "at_the_last"), ONE_AND_TWO)
def test_a_child_is_decided_at_the_first_end_or_at_the_last(
    run_if: str, first: str, then: str, at_the_last: dict[str, str]
) -> None:
    """The table of the five conditions, each for each pair of ends."""
    assert verdict(run_if, [first], 2) == then
    for last, answer in at_the_last.items():
        assert verdict(run_if, [first, last], 2) == answer, (run_if, first, last)


@pytest.mark.parametrize(("reason", "kind"), [(P_F, F), (P_C, C), (P_S, N), (NO, N), ("misfire", N), ("paused", N)])
def test_a_skipped_parent_counts_as_what_caused_it(reason: str, kind: str) -> None:
    assert Part(Node("one"), "skipped", reason).kind == kind


def is_seen(a_round: Round, name: str) -> str | None:
    part = a_round.parts[name]
    return part.reason if part.state == "skipped" else part.state


def run(a_round: Round, name: str, how: str, now: int = 0) -> None:
    a_round.start(name)
    a_round.end(name, now, how)


def test_the_doomed_are_skipped_with_all_below_for_the_same_reason() -> None:
    """A chain: the last of it is told of the first one's failure."""
    a_round = Round([Node("a"), Node("b", ("a",)), Node("c", ("b",)), Node("d", ("c",), "any_failed")])
    run(a_round, "a", "fails")
    assert [is_seen(a_round, name) for name in "bcd"] == [P_F, P_F, "ready"]
    assert a_round.state == "running"
    run(a_round, "d", "succeeds")
    assert a_round.state == "failed"


def test_a_cancelled_parent_is_no_failure() -> None:
    a_round = Round([Node("a"), Node("b", ("a",)), Node("c", ("b",), "any_failed"), Node("d", ("b",), "none_failed")])
    assert a_round.cancel("a") == "cancelled"
    assert [is_seen(a_round, name) for name in "bcd"] == [P_C, NO, "ready"]
    run(a_round, "d", "succeeds")
    assert a_round.state == "cancelled"


def test_a_round_of_skips_and_successes_has_succeeded() -> None:
    a_round = Round([Node("a"), Node("cleanup", ("a",), "any_failed"), Node("below", ("cleanup",))])
    run(a_round, "a", "succeeds")
    assert (is_seen(a_round, "cleanup"), is_seen(a_round, "below"), a_round.state) == (NO, P_S, "succeeded")


def test_a_retry_is_no_end() -> None:
    """Children wait, its time is kept, and no more attempts are made than it has."""
    a_round = Round([Node("a", attempts=2, delay=5), Node("b", ("a",), "any_failed")])
    run(a_round, "a", "fails", 10)
    assert (is_seen(a_round, "a"), is_seen(a_round, "b"), a_round.next_retry()) == ("pending", "pending", 15)
    a_round.time_is(14)
    assert a_round.next_to_run() == []
    a_round.time_is(15)
    run(a_round, "a", "fails", 15)
    assert (is_seen(a_round, "a"), is_seen(a_round, "b")) == (F, "ready")


def test_a_cancelled_round_starts_nothing_and_waits_for_what_runs() -> None:
    """Not even what a failure lets go; and what runs is not tried again."""
    nodes = [Node("a", attempts=3), Node("b"), Node("c", ("a",), "any_failed"), Node("d", ("b",), "all_done")]
    a_round = Round(nodes)
    a_round.start("a")
    assert a_round.cancel_all() == "asked"
    assert a_round.at("cancelled") == ["b", "c", "d"]
    a_round.end("a", 0, "fails")
    assert (a_round.state, a_round.next_to_run(), a_round.cancel_all()) == ("cancelled", [], "too_late")


@pytest.mark.parametrize("how", ["succeeds", "fails", "stops"])
def test_a_round_that_timed_out_has_failed_whatever_its_tasks_did(how: str) -> None:
    a_round = Round([Node("a"), Node("b", ("a",))])
    a_round.start("a")
    a_round.time_out()
    assert a_round.state == "running"
    a_round.end("a", 0, how)
    assert a_round.state == "failed"


def test_a_round_by_retry_failed_copies_what_succeeded_and_runs_the_rest() -> None:
    nodes = [Node("a"), Node("b", ("a",)), Node("c", ("b",)), Node("d", ("a",), "any_failed")]
    a_round = Round(nodes, copied=["a"])
    assert (a_round.parts["a"].reason, a_round.next_to_run(), is_seen(a_round, "d")) == ("copied", ["b"], NO)
    assert Round(nodes, copied="abc").state == "succeeded"


def test_priority_comes_before_readiness_and_equals_are_equal() -> None:
    nodes = [Node("a"), Node("b"), Node("c", ("a",), priority=1), Node("d", ("a",)), Node("e", ("a",))]
    a_round = Round(nodes)
    assert a_round.next_to_run() == ["a", "b"]
    run(a_round, "a", "succeeds")
    assert a_round.next_to_run() == ["c"]
    run(a_round, "c", "succeeds")
    assert a_round.next_to_run() == ["b"]
    run(a_round, "b", "succeeds")
    assert a_round.next_to_run() == ["d", "e"]
