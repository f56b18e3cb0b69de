"""Pausing and resuming: a task, all of a tag, or all. Under the lock.

Paused is a flag of its own and says nothing about the next fire. What has a place in time or in a queue is held
instead, and that is its place (P1); what runs goes on, and what it would do next is held when it has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tickless import policies
from tickless.core import permits
from tickless.core.questions import consult
from tickless.core.record import QUEUED, SEQ_BITS, RunRecord, TaskRecord, due_of, is_retrying
from tickless.core.special import Hold, RunExtra, is_unlisted, policy_of, queue_of, special_in, special_of
from tickless.instants import Instant
from tickless.policies import Pause, Plan
from tickless.records import EventKind
from tickless.rules import Rule
from tickless.states import CatchUp, Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine

Scope = TaskRecord | str | None
"""A task, a tag, or all."""


def pause_of(machine: Machine, task: TaskRecord) -> Pause | None:
    """The pause that holds the task: its own, else that of all, else that of one of its tags. None: it is not paused.

    An occurrence is paused with its task; what `on_failure` calls never is.
    """
    special, scopes = special_in(task), machine.pauses
    if special is not None:
        if special.unlisted:
            return None if special.chief is None else pause_of(machine, special.chief)
        if special.pause is not None:
            return special.pause
    if not scopes:
        return None
    if None in scopes:
        return scopes[None]
    tags = () if special is None else special.policy.tags
    return next((scopes[tag] for tag in tags if tag in scopes), None)


def pause(machine: Machine, scope: Scope, pause: Pause, now: Instant, wall: Instant) -> int:
    """Hold what is of that scope, from now on. Gives how many tasks are paused by this that were not before."""
    tasks = _of(machine, scope)
    if isinstance(scope, TaskRecord) and not tasks:
        return 0  # it has ended
    fresh = [task for task in tasks if pause_of(machine, task) is None]
    if isinstance(scope, TaskRecord):
        special_of(scope).pause = pause
    else:
        machine.pauses[scope] = pause
    _arm(machine, scope, pause, now, wall)
    hold(machine, tasks, now)
    for task in fresh:
        _post(machine, EventKind.PAUSED, task, now, pause.reason)
    return len(fresh)


def hold(machine: Machine, tasks: Iterable[TaskRecord], now: Instant) -> None:
    """Take paused tasks, and their occurrences, out of the timeline and the queues."""
    for task in tasks:
        special = special_in(task)
        for one in (task, *(() if special is None else special.crew or ())):
            if one._entry is not None:
                special_of(one).hold = Hold.RETRY if is_retrying(one) else Hold.FIRE
                one._due = due_of(one)
                machine.unplace(one)
            elif one._run is QUEUED and queue_of(one, machine.ready).claim(one):
                hold_ready(machine, one, now)
    for queue in (
        *(pool.queue for pool in machine.pools.values()),
        *(limit.queue for limit in machine.limits.values()),
    ):
        queue.sweep()


def hold_ready(machine: Machine, task: TaskRecord, now: Instant) -> None:
    """A task that is, or would be, ready is held: it is pending, and is ready again when it is let go."""
    special = special_of(task)
    permits.give_back(machine, special, now, started=False)
    special.queue = None
    special.hold = Hold.READY
    run = task._run = RunRecord(task, task._due, State.PENDING)
    run.reason = Reason.PAUSED
    if special.attempts:
        run.extra = RunExtra(special.attempts)


def resume(machine: Machine, scope: Scope, catch_up: CatchUp, now: Instant, wall: Instant, late_us: int = 0) -> int:
    """End that pause, and no other. Gives how many tasks are paused no more.

    `late_us`: how long ago it should have ended, had anybody looked; the fires since then were missed, not paused.
    """
    if isinstance(scope, TaskRecord):
        special = special_in(scope)
        paused = _of(machine, scope) if special is not None and special.pause is not None else []
    else:
        paused = [task for task in _of(machine, scope) if pause_of(machine, task) is not None]
    forget_end(machine, scope)
    if not isinstance(scope, TaskRecord):
        machine.pauses.pop(scope, None)
    elif paused:
        special_of(scope).pause = None
    freed = [task for task in paused if pause_of(machine, task) is None]
    for task in sorted(freed, key=lambda task: (_began_at(machine, task, now), task._seq)):
        _post(machine, EventKind.RESUMED, task, now, None)
        _let_go(machine, task, catch_up, now, wall, late_us)
    return len(freed)


def _began_at(machine: Machine, task: TaskRecord, now: Instant) -> Instant:
    """When what is held was due: it goes on in that order."""
    special = special_in(task)
    if special is not None and special.hold is Hold.RETRY and special.retry_at is not None:
        return special.retry_at
    return now if task._due is None else machine.instant_of(task, task._due)


def follow_tags(machine: Machine, task: TaskRecord, before: Pause | None, now: Instant) -> None:
    """The task's tags may be others than those that it was paused by (`before`) or not."""
    after = pause_of(machine, task)
    if before is None and after is not None:
        hold(machine, [task], now)
        _post(machine, EventKind.PAUSED, task, now, after.reason)
    elif before is not None and after is None:
        _post(machine, EventKind.RESUMED, task, now, None)
        _let_go(machine, task, "none", now, Instant(now + machine.offset), 0)


def _let_go(machine: Machine, task: TaskRecord, catch_up: CatchUp, now: Instant, wall: Instant, late_us: int) -> None:
    """What was held goes on: the occurrences first, since they were there before the next fire."""
    special = special_in(task)
    if special is None:
        return
    for one in list(special.crew or ()):
        _let_go(machine, one, catch_up, now, wall, late_us)
    held = special.hold
    if held is None or held in (Hold.ZOMBIE, Hold.BUSY, Hold.TURN):
        return
    special.hold = None
    due = task._due
    if held is Hold.READY:
        assert due is not None
        task._run = None
        machine.make_ready(task, due, now)
    elif held is Hold.RETRY:
        assert special.retry_at is not None
        machine.place_at(task, Instant(max(special.retry_at, now)))
    elif task._rule is None:
        assert due is not None
        _begin(machine, task, due, now)
    else:
        assert due is not None
        reading = Instant((wall if task._wall else now) - late_us)
        _plan(machine, task, task._rule, due, catch_up, reading, now, is_late=late_us > 0)


def _begin(machine: Machine, task: TaskRecord, due: Instant, now: Instant) -> None:
    """A one-shot that was held before its time: ready if that has come, before what is due later."""
    at = machine.instant_of(task, due)
    if at > now or not machine.is_open:
        machine.place(task, due, now)
    elif policies.is_too_late(policy_of(task), at, now):
        task._due = due
        machine.discard(task)
        machine.end_unrun(task, State.SKIPPED, Reason.MISFIRE, now)
    else:
        machine.make_ready(task, due, now)


def _plan(
    machine: Machine, task: TaskRecord, rule: Rule, due: Instant, catch_up: CatchUp, reading: Instant, now: Instant,
    *, is_late: bool,
) -> None:  # fmt: skip
    """A recurring task was paused before its fire `due`: what of it runs now, and what comes next."""
    policy = policy_of(task)

    def go_on(task: TaskRecord, plan: Plan, now: Instant) -> None:
        if plan.due is None or plan.due > reading or is_late or machine.instant_of(task, plan.due) > now:
            if plan.until is not None:
                special_of(task).until = plan.until
            machine.on_planned(task, plan, now)  # none has come, or its own jitter puts it off
        else:
            task._due = plan.due
            machine.on_fire(task, plan, now)

    consult(machine, task, rule, lambda: policies.on_resume(rule, due, reading, catch_up, policy), go_on, now)


def _of(machine: Machine, scope: Scope) -> list[TaskRecord]:
    if isinstance(scope, TaskRecord):
        return [scope] if scope._seq in machine.registry.live else []
    return tagged(machine.registry.live.values(), scope)


def tagged(tasks: Iterable[TaskRecord], tag: str | None) -> list[TaskRecord]:
    """Those of the tasks that are shown, and bear the tag (None: all)."""
    return [task for task in list(tasks) if not is_unlisted(task) and (tag is None or tag in policy_of(task).tags)]


class PauseEnd:
    """An alarm: it ends the pause of a scope, on the wall clock."""

    __slots__ = ("_entry", "machine", "scope", "seq", "until")

    def __init__(self, machine: Machine, scope: Scope, until: Instant) -> None:
        self.machine = machine
        self.scope = scope
        self.until = until
        self.seq = machine.next_seq()
        self._entry: int | None = None

    def place(self, now: Instant, wall: Instant) -> None:
        self.machine.arm(self, Instant(now + self.until - wall))

    def is_due(self, now: Instant) -> bool:
        """Whether it rings at `now`, or should have."""
        return self._entry is not None and self._entry >> SEQ_BITS <= now

    def ring(self, now: Instant, wall: Instant) -> None:
        if wall < self.until:  # slewing made it early
            self.place(now, wall)
        else:
            resume(self.machine, self.scope, "none", now, wall, wall - self.until)


def forget_end(machine: Machine, scope: Scope) -> None:
    """The pause of that scope does not end by itself any more."""
    end = machine.pause_ends.pop(scope, None)
    if end is not None:
        machine.timeline.disarm(end)
        machine.timeline.prune(machine.registry.live)


def _arm(machine: Machine, scope: Scope, pause: Pause, now: Instant, wall: Instant) -> None:
    """Have it end by itself at `until`, and at no other instant that was said before."""
    forget_end(machine, scope)
    if pause.until is not None:
        end = machine.pause_ends[scope] = PauseEnd(machine, scope, pause.until)
        end.place(now, wall)


def _post(machine: Machine, kind: EventKind, task: TaskRecord, now: Instant, reason: str | None) -> None:
    post = machine.post_other.get(kind)
    if post is not None:
        post(kind, now, task, None, None, reason)
