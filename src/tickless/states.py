"""The seven states of a run, and the one table of its moves. docs/states.md is drawn from this table."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

Exists = Literal["error", "keep", "update"]
"""What to do when a task of that id is listed already."""
Overlap = Literal["skip", "queue", "allow", "replace"]
"""What becomes of a fire that comes while the task is busy."""
CatchUp = Literal["latest", "all", "none"]
"""Which of the fires that were missed run."""
Delivery = Literal["at_least_once", "at_most_once"]
"""What a durable store does with a run whose process died: run it again, or fail it."""
DEFAULT_POOL = "default"
"""The pool of every task that names none."""


class State(StrEnum):
    """Where a run is. A task's state is derived from its runs: see `records.TaskInfo.state`."""

    PENDING = "pending"
    """Waits for its time or for its parents."""
    READY = "ready"
    """Due; waits for room in the pool."""
    RUNNING = "running"
    """A worker has it: user code runs, or is about to."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Decided not to run; the reason says why."""
    CANCELLED = "cancelled"

    after: tuple[State, ...]
    """The states it may move to, from the table below. A tuple: a test on so few is quickest by identity."""

    @property
    def terminal(self) -> bool:
        """True for the four states that have no way out."""
        return not self.after


MOVES: dict[State, tuple[State, ...]] = {
    State.PENDING: (State.READY, State.SKIPPED, State.CANCELLED, State.FAILED),
    State.READY: (State.RUNNING, State.PENDING, State.SKIPPED, State.CANCELLED, State.FAILED),
    State.RUNNING: (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.PENDING, State.READY),
    State.SUCCEEDED: (),
    State.FAILED: (),
    State.SKIPPED: (),
    State.CANCELLED: (),
}
"""State -> the states it may move to."""
for _state, _after in MOVES.items():
    _state.after = _after

TERMINAL = frozenset(state for state, after in MOVES.items() if not after)


class Reason(StrEnum):
    """What the state alone does not tell."""

    PARENT_FAILED = "parent_failed"
    PARENT_CANCELLED = "parent_cancelled"
    PARENT_SKIPPED = "parent_skipped"
    RUN_IF = "run_if"
    """No parent ended the way that `run_if` asks for."""
    OVERLAP = "overlap"
    COALESCED = "coalesced"
    REJECTED = "rejected"
    STOPPED = "stopped"
    """The task's own code raised `Stopped`."""
    REPLACED = "replaced"
    """Another task took the id (`exists="update"`)."""
    CLOSED = "closed"
    CANCELLED = "cancelled"
    """Somebody called cancel."""
    RULE = "rule"
    """The rule raised."""
    NO_NEXT_FIRE = "no_next_fire"
    MAX_RUNS = "max_runs"
    """It has run as often as `max_runs` says."""
    CRASHED = "crashed"
    """The process that ran it died, or was silent for longer than its lease. In durable stores only."""
    TIMED_OUT = "timed_out"
    """It ran for longer than its `timeout`."""
    MISFIRE = "misfire"
    """Its time had passed by more than `grace`."""
    PAUSED = "paused"
    """Of fires: they came while the task was paused. Of what is pending: it is held, and goes on at the resume."""
    COPIED = "copied"
    """It had succeeded in the round whose failed tasks are tried again, and was not run again."""
    RETRY = "retry"
    """Why a run is pending again: an attempt failed, and another comes."""


class Cancelled(StrEnum):
    """What `cancel` answers. Falsy when it came too late."""

    CANCELLED = "cancelled"
    """It will never start (again)."""
    ASKED = "asked"
    """It runs: its stop flag is set."""
    TOO_LATE = "too_late"
    """It had ended."""

    def __bool__(self) -> bool:
        return self is not Cancelled.TOO_LATE


class RunIf(StrEnum):
    """How the parents must have ended for a child to run."""

    ALL_SUCCEEDED = "all_succeeded"
    ALL_DONE = "all_done"
    ANY_SUCCEEDED = "any_succeeded"
    ANY_FAILED = "any_failed"
    NONE_FAILED = "none_failed"
