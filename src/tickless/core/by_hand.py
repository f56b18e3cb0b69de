"""`run_now`: a run beside the plan. Under the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless.core import crew, history, rounds
from tickless.core.record import QUEUED, RunRecord, TaskRecord, due_of, ended, is_retrying, own_run
from tickless.core.special import Asked, Hold, Special, is_chief, special_in, special_of
from tickless.errors import DependencyError, ScheduleError
from tickless.instants import Instant
from tickless.policies import Fate, Skipped
from tickless.rules import Rule
from tickless.states import Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def run_now(machine: Machine, task: TaskRecord, now: Instant, asked: Asked | None = None) -> RunRecord:
    """Have the task run now, paused or not. Gives that run: ready, waiting or skipped, as its policy says.

    A one-shot gives up its own time. `asked`: what is said of the round, where it is a flow. Raises ScheduleError when
    it has ended, DependencyError while it waits for others.
    """
    run, special = task._run, special_in(task)
    is_busy = run is not None and bool(run.state.after)  # asked first: a worker may end it this very moment
    if task._seq not in machine.registry.live or ended(task):
        raise ScheduleError(f"task {task.id}: it has ended, and what has ended does not run again; schedule it anew")
    if task in machine.waiting:
        raise DependencyError(f"task {task.id}: it waits for {task._waiting} parents; cancel them, or schedule it anew")
    if special is not None and special.hold is Hold.TURN:
        raise ScheduleError(f"task {task.id}: it has its turn when those before it have ended; cancel them")
    at = machine.reading(task, now)
    if is_chief(task):
        return _have_fire(machine, task, at, now, asked)
    if is_retrying(task) and (special is None or special.hold is not Hold.ZOMBIE):
        _make_ready(machine, task, task._due or at, now)
    elif run is not None and is_busy:
        if task._rule is None:
            return own_run(task, run)
        return _skip(machine, task, at, now)
    elif special is not None and special.hold is Hold.ZOMBIE:
        return _skip(machine, task, at, now)
    else:
        if task._rule is not None and special is not None and special.hold is Hold.FIRE:
            special.planned = task._due  # its fires are skipped from here on still, when the pause is over
        machine.questions.drop(task)
        _make_ready(machine, task, at, now)
    return QUEUED


def _have_fire(machine: Machine, task: TaskRecord, at: Instant, now: Instant, asked: Asked | None) -> RunRecord:
    if task._rule is None:
        raise ScheduleError(f"task {task.id}: it was cancelled, and ends when its last run does; schedule it anew")
    for name in () if asked is None else asked.params:
        rounds.check_param(task.id, name, task._work.params)  # type: ignore[union-attr]  # the work of a flow is a Plan
    fate = crew.fire(machine, task, at, now, by_hand=True, asked=asked)
    if fate is Fate.WAIT:
        return RunRecord(task, at, State.PENDING)
    newest = (special_of(task).crew or ())[-1:] if fate is Fate.START else ()
    return own_run(newest[0], newest[0]._run or QUEUED) if newest else history.begun(machine, task)[-1]


def _make_ready(machine: Machine, task: TaskRecord, due: Instant, now: Instant) -> None:
    special = special_of(task)
    if task._entry is not None:
        planned = task._due = due_of(task)
        if task._rule is not None and not is_retrying(task) and planned is not None and planned <= due:
            special.since = Instant(planned - 1)  # that fire had come and was put off: it is not lost
        machine.unplace(task)
    special.hold = special.retry_at = None
    special.by_hand = True
    machine.make_ready(task, due, now)


def _skip(machine: Machine, task: TaskRecord, at: Instant, now: Instant) -> RunRecord:
    history.note_skipped(machine, task, Skipped(Reason.OVERLAP, 1, at, at), now)
    return history.begun(machine, task)[-1]


def _is_last(task: TaskRecord, special: Special | None) -> bool:
    """Whether the run that goes on, or waits for one that does, is the last that `max_runs` allows."""
    left = None if task._more is None else task._more.runs_left
    if left is None or (special is not None and special.hold is Hold.FIRE):
        return False
    if is_chief(task):
        return left - (special is not None and special.waiter is not None) < 1
    return left <= 1 and task._run is not None and bool(task._run.state.after)


def missed(task: TaskRecord) -> tuple[Rule, Instant] | None:
    """The rule of a task that is busy or paused, and the instant after which its fires are skipped; else None."""
    rule, run, special = task._rule, task._run, special_in(task)
    if rule is None or _is_last(task, special):
        return None
    due: Instant | None = None
    new = None if task._more is None else task._more.update
    if new is not None and new._rule is not None and new._due is not None:
        return new._rule, Instant(new._due - 1)  # the rule that counts since it was said
    if special is not None and special.hold in (Hold.FIRE, Hold.ZOMBIE, Hold.BUSY) and task._due is not None:
        due = Instant(task._due - 1) if special.hold is Hold.FIRE else task._due
    elif run is not None and run.state.after:
        due = task._due if run is QUEUED else run.due
        if special is not None:
            due = due if special.since is None else special.since
            due = due if special.planned is None else Instant(special.planned - 1)
    if due is not None and special is not None and special.until is not None:
        if is_chief(task):
            return None  # missed ones run one after another, and what comes meanwhile is not decided yet
        due = max(due, special.until)
    return None if due is None else (rule, due)
