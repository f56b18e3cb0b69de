"""New tasks: each gets its number, and goes where it belongs. Under the lock."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from typing import TYPE_CHECKING

from tickless import policies
from tickless.core import graph
from tickless.core.record import SEQ_BITS, TaskRecord, run_if_of
from tickless.instants import Instant
from tickless.records import EventKind

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def enter(machine: Machine, task: TaskRecord, now: Instant) -> None:
    """Take a new task in: give it its number, and put it where it belongs."""
    seq = machine.seq = machine.seq + 1
    task._seq = seq
    machine.registry.live[seq] = task
    if task._id is not None:
        machine.registry.named[task._id] = task
    if machine.post_scheduled is not None:
        machine.post_scheduled(EventKind.SCHEDULED, now, task, task._due)
    due = task._due
    if due is None or task._wall or task._more is not None or machine.pauses:
        settle_in(machine, task, now)
    elif due > now:
        timeline = machine.timeline  # its `push`, written out: this is the path of a million inserts
        task._due = None
        task._entry = entry = due << SEQ_BITS | seq
        heappush(timeline.heap, entry)
        timeline.live += 1
        if due < machine.wake_at:
            machine.wake_for(due)
    else:
        machine.place(task, due, now)


def enter_unlisted(machine: Machine, task: TaskRecord) -> None:
    """Take in a task that nobody is shown; its maker says where it belongs."""
    task._seq = machine.next_seq()
    machine.registry.live[task._seq] = task


def settle_in(machine: Machine, task: TaskRecord, now: Instant) -> None:
    """Put a new task where it belongs: the wait set, the ready queue or the timeline."""
    if not task._parents:
        machine.place(task, now if task._due is None else task._due, now)
        return
    graph.link(task)
    machine.waiting.add(task)
    if task._waiting and not task._seen:
        return  # nobody has ended yet, so nothing is decided
    verdict = policies.on_parent(run_if_of(task), task._seen, task._waiting)
    if verdict is not policies.WAIT:
        doomed: list[TaskRecord] = []
        machine.decide(task, verdict, now, doomed)
        if doomed:
            machine.end(task, now)


def enter_many(machine: Machine, tasks: Sequence[TaskRecord], now: Instant) -> None:
    """As `enter` for each, but one heapify, and links only once all are there: any may be another's parent."""
    live, named, post, seq = machine.registry.live, machine.registry.named, machine.post_scheduled, machine.seq
    entries: list[int] = []
    others: list[TaskRecord] = []
    for task in tasks:
        seq += 1
        task._seq = seq
        live[seq] = task
        if task._id is not None:
            named[task._id] = task
        if post is not None:
            post(EventKind.SCHEDULED, now, task, task._due)
        due = task._due
        if due is not None and due > now and not task._wall and task._more is None and not machine.pauses:
            task._due = None
            task._entry = entry = due << SEQ_BITS | seq
            entries.append(entry)
        else:
            others.append(task)
    machine.seq = seq
    for task in others:
        settle_in(machine, task, now)
    if entries:
        machine.timeline.extend(entries)
        first = Instant(min(entries) >> SEQ_BITS)
        if first < machine.wake_at:
            machine.wake_for(first)
