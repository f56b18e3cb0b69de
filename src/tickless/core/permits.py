"""Limits: how many runs of many tasks go on at once, and how many start in a while. Under the lock.

A run that becomes ready gets a permit, reserved until it starts, and takes its slot of the pool last. One that gets
none stands in the limit's own queue, where no worker looks, and takes no slot. When a permit frees up, the head of that
queue gets it and goes to its pool, so that nobody who comes later can be quicker.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tickless import values
from tickless.core.ready import ReadyQueue
from tickless.core.special import Special, special_of
from tickless.instants import Instant
from tickless.policies import Limit
from tickless.records import LimitInfo

if TYPE_CHECKING:
    from tickless.core.machine import Machine


class LimitState:
    """A limit, and who holds its permits. It is an alarm, too: armed while the rate lets nobody start."""

    __slots__ = ("_entry", "has_rate", "held", "limit", "machine", "queue", "reserved", "running", "seq", "starts")

    def __init__(self, machine: Machine, limit: Limit) -> None:
        self.limit = limit
        self.running = limit.running
        self.has_rate = limit.most_starts is not None
        self.held = 0
        """Permits that are given out, reserved ones included."""
        self.reserved = 0
        """Permits of runs that are ready, and have not started."""
        self.starts: deque[Instant] = deque(maxlen=limit.most_starts)
        """When the newest runs started, as many as the rate asks about."""
        self.queue = ReadyQueue()
        self.machine = machine
        self.seq = machine.next_seq()
        self._entry: int | None = None

    def ring(self, now: Instant, wall: Instant) -> None:
        hand_on(self.machine, self, now)

    def free_at(self, now: Instant) -> Instant | None:
        """`now` when a permit is to be had, a later instant when the rate has one then; None: when a run has ended."""
        if self.running is not None and self.held >= self.running:
            return None
        if not self.has_rate:
            return now
        return values.free_at(self.starts, self.reserved, self.limit, now)


def queue_for(machine: Machine, special: Special, now: Instant) -> ReadyQueue:
    """Where a task that becomes ready stands: in its pool's queue with a permit, or without one in its limit's."""
    policy = special.policy
    queue = machine.pools[policy.pool].queue
    if policy.limit is not None and not special.permit:
        state = machine.limits[policy.limit]
        at = state.free_at(now)
        if at == now and not state.queue.claims:
            _reserve(state, special)
        else:
            queue = state.queue
            if at is not None and at > now:
                machine.arm(state, at)
    special.queue = None if queue is machine.ready else queue
    return queue


def _reserve(state: LimitState, special: Special) -> None:
    state.held += 1
    state.reserved += 1
    special.permit = True


def start(machine: Machine, limit: str, now: Instant) -> None:
    """A run starts with the permit that was reserved for it."""
    state = machine.limits[limit]
    state.reserved -= 1
    if state.has_rate:
        state.starts.append(now)
        if state.queue.claims:
            _arm(machine, state, now)


def give_back(machine: Machine, special: Special, now: Instant, *, started: bool) -> None:
    """A task's run has ended, or will not start: its permit, if it has one, goes to the next."""
    limit = special.policy.limit
    if not special.permit or limit is None:
        return
    state = machine.limits[limit]
    special.permit = False
    if not started:
        state.reserved -= 1
    release(machine, state, now)


def release(machine: Machine, state: LimitState, now: Instant) -> None:
    """One permit less is held."""
    state.held -= 1
    if state.queue.claims:
        hand_on(machine, state, now)


def hand_on(machine: Machine, state: LimitState, now: Instant) -> None:
    """Reserve what is free for the head of the queue, and make it ready in its pool."""
    waiting = state.queue.claims
    while waiting and state.free_at(now) == now:
        task = state.queue.take()
        if task is None:
            break
        special = special_of(task)
        _reserve(state, special)
        queue = machine.pools[special.policy.pool].queue
        special.queue = None if queue is machine.ready else queue
        queue.push(task)
        machine.signs.stirred = True
    if state.has_rate:
        _arm(machine, state, now)


def _arm(machine: Machine, state: LimitState, now: Instant) -> None:
    """Have the rate looked at again when it frees a permit, for as long as somebody waits for one."""
    at = state.free_at(now) if state.queue else None
    if at is None or at <= now:
        machine.timeline.disarm(state)
        return
    machine.arm(state, at)


def info_of(state: LimitState) -> LimitInfo:
    return LimitInfo(state.limit.name, state.held, len(state.queue))
