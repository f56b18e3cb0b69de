"""What becomes of a fire that comes while the task is busy."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.policies.test_misfire import Missed, missed, record
from tickless.policies import Fate, Plan, Policy, after_wait, failures_after, on_busy, takes_more
from tickless.rules import every
from tickless.states import Overlap, Reason, State
from tickless.testing.drafts import NOON_US, later

START, WAIT, REPLACE, SKIP = Fate.START, Fate.WAIT, Fate.REPLACE, Fate.SKIP

TABLE: list[tuple[Overlap, int | None, int, bool, Fate, bool]] = [
    # overlap, max_running, busy, waiting -> what becomes of it; whether another is worth an entry
    ("skip", None, 0, False, START, True),
    ("skip", None, 1, False, SKIP, False),
    ("skip", None, 2, False, SKIP, False),  # a run_now beside it
    ("queue", None, 0, False, START, True),
    ("queue", None, 1, False, WAIT, True),
    ("queue", None, 1, True, SKIP, False),
    ("queue", None, 2, False, WAIT, True),
    ("allow", None, 0, False, START, True),
    ("allow", None, 1_000, False, START, True),
    ("allow", 1, 0, False, START, True),
    ("allow", 1, 1, False, SKIP, False),
    ("allow", 3, 2, False, START, True),
    ("allow", 3, 3, False, SKIP, False),
    ("allow", 3, 4, False, SKIP, False),  # max_running was lowered
    ("replace", None, 0, False, START, True),
    ("replace", None, 1, False, REPLACE, True),
    ("replace", None, 1, True, REPLACE, False),
]


@pytest.mark.parametrize(("overlap", "most", "busy", "waiting", "fate", "more"), TABLE)
def test_the_whole_table_of_overlap(
    overlap: Overlap, most: int | None, busy: int, waiting: bool, fate: Fate, more: bool
) -> None:
    """Two at once where one was promised is how a backup gets corrupted."""
    policy = Policy(overlap=overlap, max_running=most)
    assert on_busy(policy, busy, waiting) is fate
    assert takes_more(policy, busy, waiting) is more


@pytest.mark.parametrize(("overlap", "most", "busy", "waiting", "fate", "more"), TABLE)
def test_a_fire_that_is_awaited_is_one_that_is_not_skipped(
    overlap: Overlap, most: int | None, busy: int, waiting: bool, fate: Fate, more: bool
) -> None:
    """An entry for a fire that is skipped wakes the dispatcher for nothing; a missing one loses a run."""
    if fate is not REPLACE:
        assert more is (fate is not SKIP)


@given(missed())
def test_the_queued_fire_runs_and_those_after_it_were_skipped(case: Missed) -> None:
    """One at the very instant of the finish is no overlap."""
    lost = [fire for fire in case.came[1:] if fire < case.now]
    plan = after_wait(Policy(overlap="queue"), case.rule, case.due, case.now)
    assert plan == Plan(case.due, record(Reason.OVERLAP, lost))


@given(missed())
def test_the_newest_replaces_those_that_waited(case: Missed) -> None:
    """One at the very instant of the finish is the newest."""
    plan = after_wait(Policy(overlap="replace"), case.rule, case.due, case.now)
    assert plan == Plan(case.came[-1], record(Reason.REPLACED, case.came[:-1]))


@pytest.mark.parametrize("overlap", ["queue", "replace"])
def test_a_waiter_whose_clock_was_set_back_runs_all_the_same(overlap: Overlap) -> None:
    """The run ended before the instant that its waiter was due."""
    rule = every(seconds=10).bound(NOON_US)
    for finished in (later(20), later(15), later(3)):
        assert after_wait(Policy(overlap=overlap), rule, later(20), finished) == Plan(later(20))


# Failures in a row


@pytest.mark.parametrize(
    ("most", "failures", "state", "then"),
    [
        (None, 0, State.FAILED, (1, False)),
        (None, 10**6, State.FAILED, (10**6 + 1, False)),
        (3, 0, State.FAILED, (1, False)),
        (3, 1, State.FAILED, (2, False)),
        (3, 2, State.FAILED, (0, True)),
        (3, 7, State.FAILED, (0, True)),  # the number was lowered
        (1, 0, State.FAILED, (0, True)),
        (3, 2, State.SUCCEEDED, (0, False)),
        (3, 2, State.CANCELLED, (2, False)),
        (3, 2, State.SKIPPED, (2, False)),
    ],
)
def test_a_task_pauses_itself_after_so_many_failures_in_a_row(
    most: int | None, failures: int, state: State, then: tuple[int, bool]
) -> None:
    """A skip between two failures is no success."""
    assert failures_after(Policy(pause_after_failures=most), failures, state) == then
    if most is None:
        assert failures_after(None, failures, state) == then
