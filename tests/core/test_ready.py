"""The ready queue: its order, and that a run goes to one of those who want it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickless.core.ready import SLACK, ReadyQueue
from tickless.core.record import RunRecord
from tickless.states import State
from tickless.testing.drafts import NOON_US, draft


def ready_run() -> RunRecord:
    return RunRecord(draft(None, NOON_US, NOON_US), NOON_US, State.READY)


def taken(queue: ReadyQueue) -> list[RunRecord]:
    runs = []
    while (run := queue.take()) is not None:
        runs.append(run)
    return runs


@given(st.lists(st.integers(-2, 2), max_size=40))
def test_higher_priority_comes_first_and_then_what_came_first(priorities: list[int]) -> None:
    """The order that was promised, whatever else is going on."""
    queue = ReadyQueue()
    runs = [ready_run() for _ in priorities]
    for run, priority in zip(runs, priorities, strict=True):
        queue.push(run, priority)
    assert len(queue) == len(runs)
    by_priority = sorted(range(len(runs)), key=lambda n: (-priorities[n], n))
    assert taken(queue) == [runs[n] for n in by_priority]
    assert len(queue) == 0


def test_a_run_is_taken_or_claimed_and_never_both() -> None:
    """A cancel that says CANCELLED while a worker starts the run."""
    queue = ReadyQueue()
    first, second = ready_run(), ready_run()
    queue.push(first, 0)
    queue.push(second, 0)
    assert queue.claim(first)
    assert not queue.claim(first)
    assert queue.take() is second
    assert not queue.claim(second)
    assert queue.take() is None


@given(st.lists(st.tuples(st.integers(-1, 1), st.booleans()), max_size=300))
def test_who_is_left_after_many_claims_comes_in_order(draws: list[tuple[int, bool]]) -> None:
    """The lanes are swept now and then: nobody may get lost, or lose his turn."""
    queue = ReadyQueue()
    kept: list[tuple[int, int, RunRecord]] = []
    for number, (priority, stays) in enumerate(draws):
        run = ready_run()
        queue.push(run, priority)
        if stays:
            kept.append((-priority, number, run))
        else:
            assert queue.claim(run)
    assert taken(queue) == [run for _, _, run in sorted(kept, key=lambda entry: entry[:2])]


def test_a_hundred_thousand_claimed_leave_nothing_behind() -> None:
    """All scheduled for now, all cancelled, no worker looks: the lanes must not keep them."""
    queue = ReadyQueue()
    for number in range(10_000):
        run = ready_run()
        queue.push(run, number % 3)
        queue.claim(run)
        assert sum(len(lane) for lane in queue._lanes.values()) <= SLACK + 2
