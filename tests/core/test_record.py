"""The one door through which a run changes state, and what is derived from runs."""

from __future__ import annotations

from itertools import product

import pytest

from tickless.core.record import IllegalMove, More, RunRecord, TaskRecord, ended, more_of, move, reason_of, state_of
from tickless.errors import TicklessError
from tickless.rules import every
from tickless.states import MOVES, TERMINAL, Reason, State
from tickless.testing.drafts import NOON_US, draft

LEGAL = {
    State.PENDING: "ready skipped cancelled failed",
    State.READY: "running pending skipped cancelled failed",
    State.RUNNING: "succeeded failed cancelled pending ready",
}
"""The design's table, written once more: a change of one of them must be a change of both."""


def run_in(state: State, task: TaskRecord | None = None) -> RunRecord:
    return RunRecord(task or draft(None, NOON_US, NOON_US), NOON_US, state)


@pytest.mark.parametrize(("before", "after"), list(product(State, State)), ids=lambda state: str(state))
def test_a_move_is_in_the_table_or_refused(before: State, after: State) -> None:
    """All 49: a run that ended must not start again, and one that never ran must not have succeeded."""
    run = run_in(before)
    if after in LEGAL.get(before, "").split():
        move(run, after, Reason.STOPPED)
        assert (run.state, run.reason) == (after, Reason.STOPPED)
    else:
        with pytest.raises(IllegalMove, match=f"{before} -> {after}"):
            move(run, after, Reason.STOPPED)
        assert (run.state, run.reason) == (before, None)


def test_the_table_is_closed_and_has_four_ends() -> None:
    """Every state that can be reached has a line, and an end has no way out."""
    assert set(MOVES) == set(State)
    assert {state for state in State if state.terminal} == TERMINAL
    assert sorted(TERMINAL) == ["cancelled", "failed", "skipped", "succeeded"]
    assert issubclass(IllegalMove, TicklessError)
    assert issubclass(IllegalMove, AssertionError)


@pytest.mark.parametrize("state", list(State))
def test_a_task_that_runs_once_is_where_its_run_is(state: State) -> None:
    """Before it has one, it is pending."""
    task = draft(None, NOON_US, NOON_US)
    assert state_of(task) is State.PENDING
    task._run = run_in(state, task)
    assert state_of(task) is state
    assert ended(task) is (state in TERMINAL)


@pytest.mark.parametrize("state", list(State))
def test_a_recurring_task_is_pending_between_its_runs(state: State) -> None:
    """The end of a run is not the end of the task."""
    task = draft(every(seconds=1), NOON_US, NOON_US)
    task._run = run_in(state, task)
    assert state_of(task) is (state if state in (State.READY, State.RUNNING) else State.PENDING)
    assert not ended(task)


def test_a_recurring_task_that_is_cancelled_in_a_run_ends_with_the_run() -> None:
    """Until then it is RUNNING; afterwards CANCELLED, whatever the run did."""
    task = draft(every(seconds=1), NOON_US, NOON_US)
    task._run = run_in(State.RUNNING, task)
    task._rule = None
    more_of(task).end = (State.CANCELLED, Reason.CANCELLED)
    assert state_of(task) is State.RUNNING
    move(task._run, State.SUCCEEDED)
    assert (state_of(task), reason_of(task)) == (State.CANCELLED, Reason.CANCELLED)


def test_more_is_made_once() -> None:
    """A second one would forget the children of the first."""
    task = draft(None, NOON_US, NOON_US)
    more = more_of(task)
    assert isinstance(more, More)
    assert more_of(task) is more
