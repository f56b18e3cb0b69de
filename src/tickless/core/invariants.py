"""The promises as assertions over the machine's own records. Pure: the tests call it after every step.

It may be called at a quiet point only: no verb goes on in any thread. `P1`, `P3`, ... are the promises of
docs/invariants.md; what has no number there is bookkeeping that they rest on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from typing import Protocol

from tickless.core.machine import Machine
from tickless.core.record import SEQ_MASK, RunRecord, TaskRecord, ended, reason_of, state_of
from tickless.core.timeline import SLACK
from tickless.policies import WAIT, kind_of_end, on_parent
from tickless.states import MOVES, State


class Holder(Protocol):
    """A store whose body is a machine: it hands over what its lock kept others from settling."""

    machine: Machine

    @property
    def unsettled(self) -> Sized:
        """What was handed over and not settled yet."""


def check(subject: Machine | Holder) -> None:
    """Raise AssertionError, with the story of the task, when a promise is broken. O(all records and links)."""
    if isinstance(subject, Machine):
        machine = subject
    else:
        machine = subject.machine
        _require(not subject.unsettled, f"{len(subject.unsettled)} ends were handed over, and nobody settles them")
    _require(not machine.questions.queue, "a custom rule is to be asked, and nobody asks it")
    for task in machine.registry.live.values():
        _check_live(machine, task)
    for task in machine.registry.finished:
        _check_finished(machine, task)
    _check_links(machine)
    _check_timeline(machine)
    _check_ready(machine)
    _check_registry(machine)


def story(task: TaskRecord) -> str:
    """All that is known of a task, for the message of a broken promise."""
    more = task.more
    lines = [
        f"task {task.public_id} ({task.label}) number {task.seq}: {state_of(task)}, reason {reason_of(task)}",
        f"due {task.due}, wall {task.wall}, entry {task.entry}, rule {task.rule!r}",
    ]
    if more is not None:
        parents = [str(p) if isinstance(p, str | int) else f"{p.public_id}={state_of(p)}" for p in more.parents]
        lines.append(f"waits for {more.waiting} of {parents} by {more.run_if}, has seen {more.seen:04b}")
        lines.append(
            f"children {[child.public_id for child in more.children or ()]}, kin {list(more.kin)}, end {more.end}"
        )
        lines += [f"ran: {_run(run)}" for run in more.history or ()]
    if task.run is not None:
        lines.append(f"run: {_run(task.run)}")
    return "\n  ".join(lines)


def _run(run: RunRecord) -> str:
    return f"due {run.due} {run.state} {run.reason} started {run.started} finished {run.finished} fires {run.fires}"


def _require(holds: bool, what: str, task: TaskRecord | None = None) -> None:
    if not holds:
        raise AssertionError(what if task is None else f"{what}\n  {story(task)}")


def _places(machine: Machine, task: TaskRecord) -> list[str]:
    """Every place that the task is in. A rule that is being asked counts as timeline, under a name of its own."""
    run = task.run
    where = {
        "timeline": task.entry is not None,
        "wait set": task in machine.waiting,
        "asking": task in machine.questions,
        "ready queue": run is not None and run in machine.ready.claims,
        "running": run is not None and run.state is State.RUNNING,
    }
    return [place for place, there in where.items() if there]


def _check_live(machine: Machine, task: TaskRecord) -> None:
    _require(not ended(task), "P5: a task that has ended is still live", task)
    places = _places(machine, task)
    _require(len(places) == 1, f"P1: a live task is in exactly one place, and this one in {places or 'none'}", task)
    run = task.run
    busy = run is not None and bool(MOVES[run.state])
    _require(busy == (places[0] in ("ready queue", "running")), f"P3: {places[0]}, but its run says otherwise", task)
    if run is not None and run.state is State.RUNNING:
        _require(run.started is not None, "a run goes on that never started", task)
        early = not task.wall and run.due is not None and run.started is not None and run.started < run.due
        _require(not early, "P6: it started before it was due", task)
    _require(task.work is not None and task.args is not None, "a live task has lost its work", task)
    _check_waiting(machine, task)
    _check_history(machine, task)


def _check_waiting(machine: Machine, task: TaskRecord) -> None:
    """P4, from the child's side."""
    more = task.more
    if more is None:
        _require(task not in machine.waiting, "P4: it waits, and has no parents", task)
        return
    parents: list[TaskRecord] = list(more.parents)
    unfinished = [parent for parent in parents if not ended(parent)]
    _require(more.waiting == len(unfinished), f"P4: counts {more.waiting} of {len(unfinished)} parents", task)
    seen = 0
    for parent in parents:
        if ended(parent):
            seen |= kind_of_end(state_of(parent), reason_of(parent))
    _require(more.seen == seen, f"P4: has seen {more.seen:04b} of {seen:04b}", task)
    if task in machine.waiting:
        _require(on_parent(more.run_if, seen, len(unfinished)) == WAIT, "P4: it waits for nothing", task)


def _check_finished(machine: Machine, task: TaskRecord) -> None:
    _require(ended(task), "P5: it is listed as finished and is not", task)
    _require(task.seq not in machine.registry.live, "it is live and finished", task)
    _require(not _places(machine, task), f"P1: a terminal task is still in {_places(machine, task)}", task)
    _require(task.rule is None, "P3: a terminal task still has a rule, so it may fire", task)
    _require(task.work is None and task.args is None, "a terminal task keeps its work or its arguments", task)
    _require(task.more is None or not task.more.waiters, "it has ended, and somebody still waits for that", task)
    _require(task.run is not None and not MOVES[task.run.state], "P5: it has ended, and its run has not", task)
    _check_history(machine, task)


def _check_history(machine: Machine, task: TaskRecord) -> None:
    history = None if task.more is None else task.more.history
    if history is None:
        return
    _require(len(history) <= machine.keep_runs, f"{len(history)} runs are kept", task)
    for run in history:
        _require(not MOVES[run.state], "P5: a run in the history goes on", task)
        _require(run.finished is not None, "a run has ended at no time", task)
        turned = run.started is not None and run.finished is not None and run.finished < run.started
        _require(not turned, "a run has ended before it started", task)


def _check_links(machine: Machine) -> None:
    """P4, from the parents' side: who waits is counted by its live parents and by nobody else, each once."""
    counted: Counter[TaskRecord] = Counter()
    for parent in machine.registry.live.values():
        children = () if parent.more is None else parent.more.children or ()
        _require(len(set(children)) == len(children), "P4: a child is linked twice", parent)
        counted.update(children)
    for child, parents in counted.items():
        waiting = 0 if child.more is None else child.more.waiting
        _require(waiting == parents, f"P4: {parents} parents will count down {waiting}", child)
    for task in machine.waiting:
        _require(task.seq in machine.registry.live, "P1: it waits, and is not live", task)
        _require(counted[task] > 0, "P4: it waits for the dead", task)
    for task in machine.questions:
        _require(task.seq in machine.registry.live, "P1: its rule is asked, and it is not live", task)


def _check_timeline(machine: Machine) -> None:
    timeline = machine.timeline
    entries = [task.entry for task in machine.registry.live.values() if task.entry is not None]
    held = set(timeline.heap)
    for task in machine.registry.live.values():
        _require(task.entry is None or task.entry in held, "P1: its entry is not in the timeline", task)
        own = task.entry is None or task.entry & SEQ_MASK == task.seq
        _require(own, "P3: its entry is not its own", task)
    heap = timeline.heap
    ordered = all(heap[(i - 1) // 2] <= heap[i] for i in range(1, len(heap)))
    _require(ordered, "the timeline is not a heap, so something fires late")
    _require(timeline.live == len(entries), f"the timeline counts {timeline.live} of {len(entries)} living entries")
    bound = 2 * timeline.live + SLACK
    _require(len(timeline) <= bound, f"the timeline holds {len(timeline)} entries for {timeline.live} that live")


def _check_ready(machine: Machine) -> None:
    in_lanes = Counter(run for lane in machine.ready._lanes.values() for run in lane)
    for run in machine.ready.claims:
        task = run.task
        _require(run.state is State.READY, f"P1: a run in the ready queue is {run.state}", task)
        _require(task.run is run, "P8: a run in the ready queue is not the one of its task", task)
        _require(task.seq in machine.registry.live, "P1: a run is ready, and its task is not live", task)
        _require(in_lanes[run] == 1, f"P1: a ready run stands in {in_lanes[run]} places of the queue", task)


def _check_registry(machine: Machine) -> None:
    registry = machine.registry
    listed = {*registry.live.values(), *registry.finished}
    _require(len(listed) == len(registry.live) + len(registry.finished), "a task is listed twice")
    _require(len(registry.finished) <= registry.trim_above, f"{len(registry.finished)} finished tasks are kept")
    for seq, task in registry.live.items():
        _require(task.seq == seq, f"it is listed under the number {seq}", task)
        _require(task.id is None or task.id in registry.named, "it is live, and its id finds nobody", task)
    for id, task in registry.named.items():
        _require(task.id == id, f"it is found under the id {id!r}", task)
        _require(task in listed, "it was forgotten, and its id is not free", task)
    _require(bool(registry.live) or not machine.idle_waiters, "no task lives, and somebody still waits for that")
