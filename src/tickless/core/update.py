"""`exists="keep"` and `exists="update"`: what becomes of a listed task when another of its id comes. Under the lock."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from tickless import policies
from tickless.core import crew, graph, history, permits
from tickless.core.by_hand import missed
from tickless.core.cancel import cancel
from tickless.core.pauses import follow_tags, pause_of
from tickless.core.record import QUEUED, More, TaskRecord, due_of, ended, is_retrying, more_of
from tickless.core.special import (
    NO_POLICY,
    Hold,
    Special,
    is_chief,
    is_flow,
    policy_of,
    queue_of,
    special_in,
    special_of,
)
from tickless.errors import DependencyError, RuleError, ScheduleError, shown
from tickless.instants import Instant
from tickless.policies import Skipped
from tickless.rules import is_ours, span
from tickless.states import Exists, Reason

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def enter_or(machine: Machine, exists: Exists, new: TaskRecord, now: Instant) -> TaskRecord:
    """Enter `new`, or keep or update the task that has its id. Gives the one that is there now.

    An update leaves an unchanged rule its next fire and its history. A task that is running once, that waits for
    parents, or that has ended is not changed: it makes room, and lives on, or ends (replaced), under its own handle.
    Raises DependencyError where tasks would wait for a recurring one, or for themselves.
    """
    machine.registry.trim()
    there = None if new._id is None else machine.registry.named.get(new._id)
    if there is not None and exists == "keep":
        return there
    if there is not None and _stays(machine, there, new):
        check_children(machine, there, new)
        _update(machine, there, new, now)
        return there
    if there is not None:
        if new._parents:
            machine.registry.check_parents(new)
            graph.check_replacement(there, new, machine.registry.live)
        del machine.registry.named[there._id or ""]
    machine.registry.admit(new)
    machine.enter(new, now)
    if there is not None:  # after the new one is in, so that there is no moment of idleness
        machine.discard(there)
        cancel(machine, there, now, Reason.REPLACED, ask=False)
    return new


def check_children(machine: Machine, there: TaskRecord, new: TaskRecord) -> None:
    """Raises DependencyError where tasks would wait for a recurring one."""
    if new._rule is not None and any(child in machine.waiting for child in there._children or ()):
        raise DependencyError(
            f"id {shown(there.id)}: tasks wait for its end, and an update to a recurring task would have them wait "
            "for ever; cancel it first, or schedule the recurring task under another id"
        )


def _busy(task: TaskRecord) -> bool:
    return task._run is not None and bool(task._run.state.after)


def _has_crew(task: TaskRecord) -> bool:
    """Whether occurrences of it with records of their own go on."""
    special = special_in(task)
    return special is not None and bool(special.crew)


def _stays(machine: Machine, there: TaskRecord, new: TaskRecord) -> bool:
    """Whether the task can become what `new` says without a new life.

    A worker may end a plain task this very moment. So it is asked first whether it is busy, and then whether it has
    ended: a task that is not busy becomes so under the lock only.
    """
    if there in machine.waiting or new._parents or is_flow(there) is not is_flow(new) or _is_of_round(there):
        return False
    if _busy(there) or _has_crew(there):
        return there._rule is not None and new._rule is not None
    return not ended(there)


def _is_of_round(task: TaskRecord) -> bool:
    return task._more is not None and task._more.round is not None


def _note_lost(machine: Machine, there: TaskRecord, new: TaskRecord, now: Instant) -> None:
    """Another rule comes: the fires of the old one that have come and did not run are told now.

    They were skipped because it was busy or paused; or they were to run yet, late, and are replaced. A rule of the
    user's own is not asked here: its code is foreign, and this is under the lock.
    """
    special, rule = special_in(there), there._rule
    pending = None if there._more is None else there._more.update
    if pending is not None:
        rule = pending._rule
    if rule is None or not is_ours(rule) or new._rule is rule:
        return
    if new._rule is not None and policies.same_rule(rule, new._rule):
        return
    found, reason = missed(there), Reason.OVERLAP
    after = None if found is None else found[1]
    if special is not None and special.until is not None:
        run = there._run
        going = run is not None and run is not QUEUED and not is_chief(there)
        after, reason = run.due if run is not None and going else there._due, Reason.REPLACED
    elif special is not None and special.hold is Hold.FIRE:
        reason = Reason.PAUSED
    elif found is None and policy_of(there).jitter_us and there._entry is not None and not is_retrying(there):
        due = due_of(there)
        after, reason = None if due is None else Instant(due - 1), Reason.REPLACED
    if after is None:
        return
    with suppress(RuleError):  # it cannot tell them: a wall time that does not exist, with gap="raise"
        lost = span(rule, after, Instant(machine.reading(there, now) - 1))  # from now on the new one counts
        if lost is not None:
            history.note_skipped(machine, there, Skipped(reason, *lost), now)


def _update(machine: Machine, there: TaskRecord, new: TaskRecord, now: Instant) -> None:
    _note_lost(machine, there, new, now)
    if _busy(there):
        more = more_of(there)
        machine.trash.append(more.update)
        more.update = new  # not under the run: a worker may be reading the work and its arguments
        return
    _become_now(machine, there, new, now)


def _become_now(machine: Machine, there: TaskRecord, new: TaskRecord, now: Instant) -> None:
    pause = pause_of(machine, there)
    if there._more is not None and there._more.update is not None:  # it waits for a zombie, and this came later
        machine.trash.append(there._more.update)
        there._more.update = None
    first = become(machine, there, new)
    special = special_in(there)
    if first is not None:
        if special is not None and special.hold is None and is_chief(there) and not crew.takes_more(there):
            special.hold = Hold.BUSY
        machine.place(there, first, now)
    follow_tags(machine, there, pause, now)
    if special is not None and special.hold is Hold.BUSY:
        crew.look(machine, there, now)  # it may take more than before


def _take_work(there: TaskRecord, new: TaskRecord) -> None:
    there._work, there._args, there._kwargs = new._work, new._args, new._kwargs
    there._name, there._priority = new._name, new._priority


def _take_limits(there: TaskRecord, new: TaskRecord) -> bool:
    """Policy and limits count from here. True when the jitter changed, and so the place."""
    if there._more is None and new._more is None:
        return False
    more_of(there).runs_left = None if new._more is None else new._more.runs_left
    jitter_us, policy = policy_of(there).jitter_us, policy_of(new)
    if special_in(there) is not None or policy != NO_POLICY:
        special_of(there).set_policy(policy)
    return policy.jitter_us != jitter_us


def become(machine: Machine, there: TaskRecord, new: TaskRecord) -> Instant | None:
    """Update a task that no run holds. Gives the new first fire when the rule, and so its place, changed; else None."""
    machine.discard(there)
    _take_work(there, new)
    special = special_in(there)
    is_held = special is not None and special.hold is Hold.FIRE
    due = due_of(there) if there._entry is not None or is_held else None
    is_spread_anew = _take_limits(there, new)
    if there._rule is not None and new._rule is not None and policies.same_rule(there._rule, new._rule):
        there._rule = policies.ending_as(there._rule, new._rule)
        if due is None or is_held or not is_spread_anew:
            return None
        machine.unplace(there)
        return due
    if special is not None and special.waiter is not None and there._wall is not new._wall:
        at = Instant(special.waiter + (machine.offset if new._wall else -machine.offset))
        special.waiter = at if new._wall else min(at, machine.seen)  # it has come, though the wall was set back
    there._rule, there._wall = new._rule, new._wall
    if there._more is not None:
        there._more.recurring, there._more.when = False, None  # what it was to become once; now `rule` tells
    machine.questions.drop(there)
    machine.unplace(there)
    if special is not None:
        special.until = None  # what the old rule missed is not caught up with
        if is_held:
            special.hold = None
    if new._rule is None:
        there._run = None  # its runs are history: it has one more to come, and has not ended with the last one
    return new._due


def settings(task: TaskRecord) -> TaskRecord | None:
    """The task as its next run will find it, as a draft to be changed; None once it has ended."""
    if ended(task):
        return None
    more = task._more
    now = more.update if more is not None and more.update is not None else task
    copy = type(task)(
        now._work, now._args, now._kwargs, now._id, now._name, now._priority, now._rule, due_of(now), now._wall, None,
        now._parents, now._owner,
    )  # fmt: skip
    if now._more is not None:
        mine = copy._more = More()
        mine.run_if, mine.runs_left, mine.outputs = now._more.run_if, now._more.runs_left, now._more.outputs
        mine.when, mine.recurring = now._more.when, now._more.recurring
        mine.special = Special(policy_of(now))
        mine.special.rounds = deque() if is_flow(task) else None
    return copy


def changed(machine: Machine, task: TaskRecord, new: TaskRecord, now: Instant, *, leave_out: bool) -> bool:
    """Change the task. Raises ScheduleError as `change` does, or with `leave_out` gives False."""
    try:
        change(machine, task, new, now)
    except ScheduleError:
        if leave_out:
            return False
        raise
    return True


def change(machine: Machine, task: TaskRecord, new: TaskRecord, now: Instant) -> None:
    """Have the task become `new`: at once, or when the run that goes on has ended.

    `check_children` has been asked. Raises ScheduleError for a task that has ended or runs for the only time.
    """
    is_busy = _busy(task)  # asked first: see `_stays`
    if task._seq not in machine.registry.live or ended(task):
        raise ScheduleError(f"task {task.id}: it has ended, and what has ended does not change; schedule it anew")
    if new._rule is None and _has_crew(task):
        raise ScheduleError(
            f"task {task.id}: runs of it go on, each for itself; have it fire once when they have ended"
        )
    if new._rule is not None and _is_of_round(task):
        raise ScheduleError(f"task {task.id}: it is a task of a round, which would have no end; have the flow recur")
    machine.discard(task)
    left = _runs_left(task, is_busy)
    if new._more is not None or left is not None:
        more_of(new).runs_left = left
    _note_lost(machine, task, new, now)
    if task in machine.waiting:
        _change_waiting(task, new)
    elif task in machine.questions and task._rule is None and new._due is None:  # its parents have just let go
        _change_waiting(task, new)
        if task._more is not None and task._more.when is not None:
            machine.bind(task, task._more.when, now)
    elif not is_busy:
        _become_now(machine, task, new, now)
    elif task._rule is not None:
        more, pause = more_of(task), pause_of(machine, task)
        machine.trash.append(more.update)
        more.update = new
        tags = policy_of(new).tags
        if tags != policy_of(task).tags:  # they are the task's and not its run's
            special_of(task).set_policy(policy_of(task)._replace(tags=tags))
            follow_tags(machine, task, pause, now)
    elif not _change_unrun(machine, task, new, now):
        raise ScheduleError(f"task {task.id}: it runs, for the only time; there is nothing left to change")


def _runs_left(task: TaskRecord, is_busy: bool) -> int | None:
    """How many runs it has as of now, not as of when the change was made: the one that goes on is not among them."""
    more = task._more
    if more is None:
        return None
    if more.update is not None:
        return None if more.update._more is None else more.update._more.runs_left
    return None if more.runs_left is None else more.runs_left - is_busy


def _change_unrun(machine: Machine, task: TaskRecord, new: TaskRecord, now: Instant) -> bool:
    """A one-shot that is ready, held, or waits for its next attempt. False when it runs.

    Raises ScheduleError for another time of what has been tried already.
    """
    is_moved = new._rule is not None or new._due != task._due
    special = special_in(task)
    if is_moved and special is not None and special.attempts:
        raise ScheduleError(
            f"task {task.id}: it has been tried already, for the only time, and waits for its retry; "
            "cancel it and schedule it anew, or have it tried now: run_now()"
        )
    was_ready = not is_retrying(task)
    if was_ready:
        queue = queue_of(task, machine.ready)
        if not queue.claim(task):
            return False
        queue.sweep()
    if special is not None and (is_moved or special.policy.limit != policy_of(new).limit):
        permits.give_back(machine, special, now, started=False)
    if is_moved:
        task._run = None
        if special is not None:
            special.hold = special.queue = None
            special.by_hand = False  # it has a time again, and may be too late for it
        _become_now(machine, task, new, now)
        return True
    pause = pause_of(machine, task)
    _take_work(task, new)
    _take_limits(task, new)
    if was_ready:
        assert task._due is not None
        machine.make_ready(task, task._due, now)
    follow_tags(machine, task, pause, now)
    return True


def is_spent(new: TaskRecord) -> bool:
    """Whether what a task is to become has no run left: it was counted while the last one went on."""
    return new._rule is not None and new._more is not None and new._more.runs_left == 0


def _change_waiting(task: TaskRecord, new: TaskRecord) -> None:
    """A task that waits for parents: all but whom it waits for."""
    _take_work(task, new)
    task._wall = new._wall
    _take_limits(task, new)
    if new._more is not None:
        more = more_of(task)
        more.when, more.recurring, more.outputs = new._more.when, new._more.recurring, new._more.outputs
