"""The verbs of `Scheduler` that change what is listed: its methods, in a file of their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Unpack, overload

from tickless.changes import Update, change, pause_of
from tickless.changes import reschedule as rescheduled
from tickless.changes import run_now as have_run
from tickless.checks import one_of, text, whole
from tickless.core.record import TaskRecord
from tickless.core.special import Asked
from tickless.errors import RuleError, ScheduleError, UnknownTask, shown
from tickless.flow import Flow, FlowOptions
from tickless.instants import Instant, datetime_of, instant_of
from tickless.options import CATCH_UPS, Changes
from tickless.records import Run
from tickless.round import Round
from tickless.rules import Rule, checked_next, span
from tickless.states import CatchUp

if TYPE_CHECKING:
    from tickless.scheduler import Scheduler, Which


def reschedule(
    self: Scheduler, task: Which | EllipsisType = ..., when: Rule | None = None, *, tag: str | None = None
) -> int:
    """Give a task, all with a tag, or all tasks another rule, which counts from now. Gives how many have it.

    A run that goes on is not touched: the rule counts once it has ended. All else stays: limits, history, pauses.
    Raises RuleError, ScheduleError (it has ended; the rule contradicts a setting), DependencyError (others wait
    for its end, and the rule recurs), UnknownTask. Of several all are checked before the first is changed, and
    those that have ended are left out. Costs O(log n) a task.
    """
    if when is None:
        raise ScheduleError("reschedule: needs a rule, when=...; to have a task run now there is run_now()")
    rule = when
    return _change(self, "reschedule", task, tag, lambda copy, now: rescheduled(copy, rule, self._clock, now))


def update(
    self: Scheduler, task: Which | EllipsisType = ..., *, tag: str | None = None, **changes: Unpack[Changes]
) -> int:
    """Change a task, all with a tag, or all tasks from their next run on. Gives how many are changed.

    `work`, `args`, `kwargs`, `name`, `priority`, `tags` and the options about overlap, misfires, failures, pool
    and limit, as in `schedule`. What is not said stays, and so do the next fire, the history
    and pauses. Raises TypeError for what cannot be changed so, else what `reschedule` raises.
    """
    wanted = Update(self, changes)
    return _change(self, "update", task, tag, lambda copy, now: wanted.make(copy))


def _change(
    self: Scheduler, verb: str, task: Which | EllipsisType, tag: str | None, make: Callable[[TaskRecord, Instant], None]
) -> int:
    scope = _scope(self, verb, task, tag)
    try:
        return change(self._store, verb, scope, make, self._now())
    finally:
        self._look()


def pause(
    self: Scheduler, task: Which | EllipsisType = ..., *, tag: str | None = None, reason: str | None = None,
    until: datetime | None = None,
) -> int:  # fmt: skip
    """Hold a task, all with a tag (and those to come), or all tasks. Gives how many were not held before.

    What runs goes on. Fires of recurring tasks are SKIPPED (paused); all else waits for `resume`, or for `until`
    (aware, to come) on the wall clock. Raises ScheduleError, RuleError, UnknownTask. Costs O(tasks held).
    """
    scope, pause = _scope(self, "pause", task, tag), pause_of(reason, until, self._clock)
    count = self._store.pause(scope, pause, self._now(), self._clock.wall())
    self._look()
    return count


def resume(
    self: Scheduler, task: Which | EllipsisType = ..., *, tag: str | None = None, catch_up: CatchUp = "none"
) -> int:
    """End the pause of that scope: what paused a tag is ended by its tag. Gives how many are held no more.

    `catch_up`: what becomes of the fires that came meanwhile: "none" of them runs, or the "latest", or "all" up to
    the task's `max_catch_up`. What was held goes on in its order. Raises ScheduleError, UnknownTask.
    """
    one_of("catch_up", catch_up, CATCH_UPS)
    scope = _scope(self, "resume", task, tag)
    count = self._store.resume(scope, catch_up, self._now(), self._clock.wall())
    self._look()
    return count


@overload
def run_now(self: Scheduler, task: Which) -> Run: ...
@overload
def run_now(self: Scheduler, *, tag: str | None = None) -> list[Run]: ...


def run_now(self: Scheduler, task: Which | EllipsisType = ..., *, tag: str | None = None) -> Run | list[Run]:
    """Have a task run now, paused or not. Gives its run; for a tag, or for all tasks, a list of them.

    A one-shot gives up the time that it had. A recurring task has a run more, under its `overlap`, and its fires
    stay. Raises ScheduleError when it has ended, DependencyError while it waits for parents, UnknownTask; of
    several those that cannot run now are left out.
    """
    scope = _scope(self, "run_now", task, tag)
    try:
        return have_run(self._store, scope, self._now())
    finally:
        self._look()


MOST_BACKFILL = 10_000
"""So many fires one `backfill` is about."""


def backfill(
    self: Scheduler, task: Which, start: datetime, end: datetime, *, again: bool = False, dry_run: bool = False
) -> list[Run]:
    """Have a task run for each fire of its rule with start <= due < end (aware) that has been. Gives these runs.

    They are beside the plan, and one after another, the oldest first, whatever `overlap` says: the next begins when the
    one before it has ended, all its tries included. Each has its fire for `due`, and no `grace`; the next fire,
    `max_runs` and failures in a row are not touched. One is a task of its own, `dump@2026-11-01T00:00:00Z`, which can
    be looked at and cancelled; of a flow it is a round. Cancel the task, and they are cancelled.

    Left out is what succeeded, as far as its history is kept (with `again` that runs once more), what is about to run,
    and what the plan is still to deal with. `dry_run` changes nothing, and gives the runs that there would be.
    Raises ScheduleError when the task has ended or fires once, and for more than 10,000 fires; RuleError, UnknownTask.
    """
    first, last = instant_of(start, "start"), instant_of(end, "end")
    if last < first:
        raise RuleError(f"backfill: start={shown(start)} is after end={shown(end)}; give the earlier one first")
    record, now = self._record_of(task), self._now()
    copy = self._store.settings(record)
    if copy is None or copy._rule is None:
        dues: list[Instant] = []  # the store says what is wrong
    else:
        reading = self._clock.wall() if copy._wall else now
        planned = reading if copy._due is None else copy._due  # from that one on, missed ones too are the plan's
        dues = _fires(record, copy._rule, first, min(last, reading, planned))
    try:
        return self._store.backfill(record, dues, now, again, dry_run)
    finally:
        self._look()


def _fires(task: TaskRecord, rule: Rule, first: Instant, end: Instant) -> list[Instant]:
    """Those with first <= fire < end. Raises ScheduleError for too many. Foreign code, so without the lock."""
    dues: list[Instant] = []
    due = checked_next(rule, Instant(first - 1))
    while due is not None and due < end:
        dues.append(due)
        if len(dues) > MOST_BACKFILL:
            found = span(rule, Instant(first - 1), Instant(end - 1))
            exactly = found is not None and found[0] > MOST_BACKFILL  # else they were counted to 1,000
            count = f"{found[0]:,}" if found is not None and exactly else f"more than {MOST_BACKFILL:,}"
            raise ScheduleError(
                f"backfill: task {shown(task.id)} has {count} fires from {datetime_of(first):%Y-%m-%d %H:%M} to "
                f"{datetime_of(end):%Y-%m-%d %H:%M} UTC, and at most {MOST_BACKFILL:,} run at a time; ask for a part "
                f"of them, such as up to {datetime_of(due):%Y-%m-%d %H:%M} UTC"
            )
        due = checked_next(rule, due)
    return dues


def flow(self: Scheduler, id: str, when: Rule | None = None, **options: Unpack[FlowOptions]) -> Flow:
    """A program of tasks that recurs as one: define it in a `with` block, or with a function that this decorates.

    Each fire makes a round, whose tasks are fresh; without `when` there is one, now. `params`: names and values for
    `flow.param(name)`. All else is as in `schedule`, and about rounds: `timeout` has nothing more of a round start,
    `pool` and `priority` are those of its tasks that say nothing else. What is about a single call is said of a task.
    Raises ScheduleError (FlowError among them) and RuleError; at the end of the block what `schedule` raises.
    """
    self._check_fork()
    return Flow(self, id, when, options)


def rounds(self: Scheduler, flow: Which, limit: int | None = None) -> list[Round]:
    """The newest rounds of a flow that are kept (`keep_rounds`), at most `limit`, oldest first. Raises UnknownTask."""
    if limit is not None:
        whole("limit", limit)
    found = self._store.rounds(self._record_of(flow))
    found = found if limit is None else found[max(0, len(found) - limit) :]
    self._look()
    return [Round(self, one, id) for one, id in found]


def round_named(self: Scheduler, id: str) -> Round:
    """The round of that id: the flow's, "@", its fire. Raises UnknownTask."""
    of, _, fire = text("id", id).rpartition("@")
    if fire:
        for one in rounds(self, of):
            if one.id == id:
                return one
    raise UnknownTask(f"no round {shown(id)} is kept; flow.rounds() gives those that are (keep_rounds)")


def run_round(self: Scheduler, flow: TaskRecord, asked: Asked) -> Run:
    """A round by hand."""
    try:
        return self._store.run_now(flow, self._now(), asked)
    finally:
        self._look()


def steps_of(self: Scheduler, flow: Which) -> list[tuple[str, tuple[str, ...]]]:
    """What a flow is made of: the names of its tasks, each with those of its parents, in the order of definition."""
    record, durable = self._record_of(flow), self._durable
    plan: Any = record._work
    if durable is None:
        return list(plan.steps)
    found: list[tuple[str, tuple[str, ...]]] = durable.store.transactions.read(lambda: plan.steps)
    return found


def _scope(self: Scheduler, verb: str, task: Which | EllipsisType, tag: str | None) -> TaskRecord | str | None:
    """One task, the tasks of a tag, or all (None) where nothing was said; `d.get("a typo")` must not mean all."""
    self._check_fork()
    if tag is None:
        return None if task is ... else self._record_of(task)
    if task is not ...:
        raise ScheduleError(f"{verb}({shown(task)}, tag={shown(tag)}): is about a task or about a tag, not both")
    return text("tag", tag)
