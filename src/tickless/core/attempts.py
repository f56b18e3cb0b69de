"""What a run with a policy goes through: its start, its timeout, its failed attempts, its late return. Under the lock.

A run that timed out has ended, for everybody to see; its code goes on in its thread, since no thread can be killed. It
is a zombie until that returns, and keeps the task busy for so long, unless the task's `on_timeout` is "release".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickless import policies
from tickless.core import crew, handlers, pauses, permits
from tickless.core.record import RunRecord, TaskRecord, ended, is_retrying, move
from tickless.core.special import Hold, RunExtra, Special, keeps_busy, policy_of, special_in, special_of
from tickless.core.stopping import is_to_stop, set_stop
from tickless.core.timeline import SLACK
from tickless.errors import TaskFailed, TaskTimedOut
from tickless.instants import SECOND_US, Instant
from tickless.policies import Pause
from tickless.records import Attempt, EventKind, Outcome
from tickless.states import Reason, State

KEEP_ATTEMPTS = 100
"""So many failed attempts of one run are told of."""

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def begin(machine: Machine, task: TaskRecord, special: Special, now: Instant) -> RunRecord | None:
    """A worker has the task: its run, RUNNING. None when it is too late to start."""
    policy = special.policy
    run = RunRecord(task, task._due, State.READY)
    if task._wall or policy.jitter_us:
        run.at = task._at
    first_try = not special.attempts and not special.by_hand
    if policy.grace_us is not None and first_try and policies.is_too_late(policy, run.at or now, now):
        _miss(machine, task, special, run, now)
        return None
    if policy.limit is not None:
        permits.start(machine, policy.limit, now)
    special.queue = None
    run.started = now
    timeout_us = policy.timeout_us if special.round is None else None  # that of a round: see `core.rounds`
    if special.attempts or timeout_us is not None:
        extra = run.extra = RunExtra(special.attempts)
        if timeout_us is not None:
            machine.seq = seq = machine.seq + 1
            at = Instant(now + timeout_us)
            extra.watch(run, seq, at, machine.time_out)
            machine.timeline.arm(extra, at)  # `Machine.arm`, written out: this is what a timeout costs
            if at < machine.wake_at:
                machine.wake_for(at)
    move(run, State.RUNNING)
    task._run = run
    return run


def _miss(machine: Machine, task: TaskRecord, special: Special, run: RunRecord, now: Instant) -> None:
    """A fire that is too late when a worker comes to it does not start."""
    permits.give_back(machine, special, now, started=False)
    special.queue = None
    machine.to_stop.discard(task)
    task._run = run
    run.finished = now
    machine.discard(task)
    machine.settle_end(run, Outcome(State.SKIPPED, reason=Reason.MISFIRE))


def begins_again(machine: Machine, run: RunRecord, special: Special, outcome: Outcome, now: Instant) -> bool:
    """An attempt has failed: have the occurrence begin again, where its policy says so. False: it has failed for good.

    It stays busy, and is not terminal for anybody.
    """
    task, policy = run.task, special.policy
    was_cancelled = task._more is not None and task._more.end is not None
    if policy.retry is None or was_cancelled or machine.is_closed or is_to_stop(run):
        return False
    number = special.attempts[-1].number + 1 if special.attempts else 1  # not the run's: a refused one has none
    at = policies.next_attempt(policy.retry, number, outcome.value, task.id, run.due, now)
    if at is None:
        return False
    _plan_attempt(machine, run, special, number, outcome, at, now)
    if keeps_busy(run):
        special.hold, special.zombie = Hold.ZOMBIE, run
    else:
        _wait_for_next(machine, task, now)
    return True


def _plan_attempt(
    machine: Machine, run: RunRecord, special: Special, number: int, outcome: Outcome, at: Instant, now: Instant
) -> None:
    """Attempt `number` has failed, and the next one begins at `at`."""
    task = run.task
    started = now if run.started is None else run.started
    failed = Attempt(number, started, now, outcome.error, outcome.reason)
    special.attempts = (*special.attempts[1 - KEEP_ATTEMPTS :], failed)
    special.retry_at = at
    move(run, State.PENDING, Reason.RETRY)
    pending = RunRecord(task, run.due, State.PENDING)  # another record: a zombie may hold this one for long yet
    pending.reason, pending.error, pending.extra = Reason.RETRY, outcome.error, RunExtra(special.attempts)
    task._run, task._due = pending, run.due
    post = machine.post_other.get(EventKind.RETRY)
    if post is not None:
        post(EventKind.RETRY, now, task, run.due, outcome.reason, outcome.error, outcome.traceback, number)


def crash(machine: Machine, task: TaskRecord, now: Instant) -> None:
    """The process that ran the task has died, or lost its lease: its run begins again, or has failed."""
    run, special = task._run, special_of(task)
    assert run is not None
    policy = special.policy
    if special.permit:
        permits.give_back(machine, special, now, started=True)
    number = special.attempts[-1].number + 1 if special.attempts else 1
    line = "the process that ran it died, or was silent for longer than its lease"
    outcome = Outcome(State.FAILED, TaskFailed(f"task {task.id}: {line}"), Reason.CRASHED, line)
    is_cancelled = task._more is not None and task._more.end is not None
    at = None
    if not is_cancelled and not is_to_stop(run):
        at = policies.after_crash(policy, number, task.id, run.due, now)
    run.finished = now
    if at is None:
        machine.discard(task)
        machine.settle_end(run, outcome)
    else:
        _plan_attempt(machine, run, special, number, outcome, at, now)
        _wait_for_next(machine, task, now)


def bury(machine: Machine, task: TaskRecord, now: Instant) -> None:
    """The process in which zombies of the task went on has died: what waited for them goes on."""
    special = special_of(task)
    if special.zombies:
        special.zombies = 0
        crew.look(machine, task, now)
    elif special.hold is Hold.ZOMBIE and not ended(task):
        _go_on(machine, task, special, now)


def _wait_for_next(machine: Machine, task: TaskRecord, now: Instant) -> None:
    special = special_of(task)
    assert special.retry_at is not None
    if pauses.pause_of(machine, task) is not None:
        special.hold = Hold.RETRY
    elif special.retry_at <= now and machine.is_open:
        begin_again(machine, task, now)
    else:
        machine.place_at(task, Instant(max(special.retry_at, now)))


def begin_again(machine: Machine, task: TaskRecord, now: Instant) -> None:
    """Its next attempt is due."""
    special_of(task).retry_at = None
    assert task._due is not None
    machine.make_ready(task, task._due, now)


def unwatch(machine: Machine, extra: RunExtra) -> None:
    """Its code has returned in time."""
    extra.time_out = extra.run = None
    timeline = machine.timeline
    if extra._entry is not None:  # `disarm`, written out: most timeouts come to this
        extra._entry = None
        del timeline.alarms[extra.seq]
        timeline.live -= 1
        if len(timeline.heap) > 2 * timeline.live + SLACK:
            timeline.prune(machine.registry.live)


def time_out(machine: Machine, run: RunRecord, now: Instant) -> None:
    """The run's time is up: it has failed, and is asked to stop. Its code goes on, and may return whenever it likes."""
    extra = run.extra
    if run.state is not State.RUNNING or extra is None:
        return
    task = run.task
    policy, special = policy_of(task), special_of(task)
    extra.zombie, extra.run, extra.time_out = True, None, None
    extra.pool, extra.keeps = policy.pool, not policy.releases
    machine.pools[policy.pool].zombies += 1
    if special.permit and policy.releases:
        permits.give_back(machine, special, now, started=True)
    elif special.permit:
        special.permit = False
        extra.permit = policy.limit
    text = f"it ran for longer than its timeout of {(policy.timeout_us or 0) / SECOND_US:g} s"
    outcome = Outcome(State.FAILED, TaskTimedOut(f"task {task.id}: {text}"), Reason.TIMED_OUT, f"TaskTimedOut: {text}")
    run.finished = now
    tried_again = begins_again(machine, run, special, outcome, now)
    set_stop(run)
    if not tried_again:
        machine.discard(task)
        machine.settle_end(run, outcome)


def come_back(machine: Machine, run: RunRecord, outcome: Outcome, now: Instant) -> None:
    """A zombie has returned. What it brings is a note; what waited for it goes on."""
    extra = run.extra
    assert extra is not None
    extra.zombie = False
    extra.late = "returned" if outcome.state is State.SUCCEEDED else f"raised {outcome.error}"
    machine.pools[extra.pool].zombies -= 1
    if extra.permit is not None:
        permits.release(machine, machine.limits[extra.permit], now)
    task: TaskRecord | None = getattr(run, "task", None)  # it may have been forgotten
    special = None if task is None else special_in(task)
    if task is None or special is None or not extra.keeps:
        return
    if special.zombies:
        special.zombies -= 1
        crew.look(machine, task, now)
    elif special.hold is Hold.ZOMBIE and not ended(task):
        _go_on(machine, task, special, now)


def _go_on(machine: Machine, task: TaskRecord, special: Special, now: Instant) -> None:
    """No zombie keeps the task busy any more."""
    special.hold = special.zombie = None
    assert task._due is not None
    if is_retrying(task):
        _wait_for_next(machine, task, now)
    elif task._rule is None:  # it was rescheduled to fire once
        machine.place(task, Instant(task._due + 1), now)
    else:
        machine.discard(task)
        machine.rearm(task, task._due, now, task._value)


def finished(machine: Machine, task: TaskRecord, run: RunRecord, special: Special, now: Instant) -> None:
    """A run of a task with a policy has ended for good: its attempts are its own, and failures count."""
    policy = special.policy
    if special.attempts:
        run.extra = run.extra or RunExtra()
        run.extra.attempts = special.attempts
        special.attempts = ()
    special.retry_at = None
    special.by_hand = False
    if policy.on_failure is not None and run.state is State.FAILED:
        handlers.call(machine, task, run, policy, now)
    if special.aside:
        return  # what is tried of the past says nothing of the plan
    subject = task if special.chief is None else special.chief
    about = special_of(subject)
    about.failures, is_too_many = policies.failures_after(policy, about.failures, run.state)
    if is_too_many and about.pause is None and subject._rule is not None:
        about.pause = Pause(f"{policy.pause_after_failures} failures in a row")
        post = machine.post_other.get(EventKind.PAUSED)
        if post is not None:
            post(EventKind.PAUSED, now, subject, None, None, about.pause.reason)
        pauses.hold(machine, [subject], now)  # its next fire may have its place already, and others be ready
