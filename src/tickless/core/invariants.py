"""The promises as assertions over the machine's own records. Pure: the tests call it after every step.

It may be called at a quiet point only: no verb goes on in any thread. `P1`, `P3`, ... are the promises of
docs/invariants.md; what has no number there is bookkeeping that they rest on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from typing import Any, Protocol

from tickless.core.machine import Machine
from tickless.core.pauses import pause_of
from tickless.core.record import (
    CANCELLED_RUN,
    NOT_SET,
    QUEUED,
    SEQ_MASK,
    RunRecord,
    TaskRecord,
    ended,
    number_of,
    reason_of,
    run_if_of,
    state_of,
)
from tickless.core.special import (
    Hold,
    is_open_round,
    is_unlisted,
    keeps_busy,
    queue_of,
    round_of,
    rounds_of,
    special_in,
)
from tickless.core.timeline import SLACK
from tickless.policies import WAIT, kind_of_end, on_parent
from tickless.states import MOVES, Reason, State


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
    over = {task._seq: task for task in _over(machine)}
    for task in machine.registry.live.values():
        _check_live(machine, task, over)
    for task in machine.registry.finished:
        _check_finished(machine, task)
    for one in _rounds(machine):
        _check_round(machine, one)
    _check_links(machine)
    _check_timeline(machine)
    _check_ready(machine)
    _check_limits(machine)
    _check_registry(machine)


def story(task: TaskRecord) -> str:
    """All that is known of a task, for the message of a broken promise."""
    more = task._more
    lines = [
        f"task {task.id} ({task.name}) number {task._seq}: {state_of(task)}, reason {reason_of(task)}",
        f"due {task._due}, wall {task._wall}, entry {task._entry}, rule {task._rule!r}",
    ]
    if task._parents:
        lines.append(f"waits for {task._waiting} of {_kin(task._parents)} by {run_if_of(task)}, seen {task._seen:04b}")
    if task._children:
        lines.append(f"children {_kin(task._children)}")
    if more is not None:
        lines.append(f"end {more.end}")
        lines += [f"ran: {_run(run)}" for run in more.history or ()]
    if task._run is not None:
        lines.append(f"run: {_run(task._run)}")
    return "\n  ".join(lines)


def _kin(kin: Iterable[TaskRecord | str | int]) -> list[str]:
    return [f"{one.id}={state_of(one)}" if isinstance(one, TaskRecord) else str(one) for one in kin]


def _run(run: RunRecord) -> str:
    return f"due {run.due} {run.state} {run.reason} started {run.started} finished {run.finished}"


def _require(holds: bool, what: str, task: TaskRecord | None = None) -> None:
    if not holds:
        raise AssertionError(what if task is None else f"{what}\n  {story(task)}")


def _places(machine: Machine, task: TaskRecord) -> list[str]:
    """Every place that the task is in. A rule that is being asked counts as timeline, under a name of its own."""
    run, special = task._run, special_in(task)
    where = {
        "timeline": task._entry is not None,
        "wait set": task in machine.waiting,
        "asking": task in machine.questions,
        "ready queue": task in queue_of(task, machine.ready).claims,
        "running": run is not None and run.state is State.RUNNING,
        "held": special is not None and special.hold is not None,
    }
    return [place for place, there in where.items() if there]


_PLACES_OF_A_RUN = {
    State.READY: ("ready queue",),
    State.RUNNING: ("running",),
    State.PENDING: ("timeline", "held"),
}
"""Where a live run of that state is. PENDING: it waits for its next attempt, or is paused."""


def _check_live(machine: Machine, task: TaskRecord, over: Mapping[int, TaskRecord]) -> None:
    _require(not ended(task), "P5: a task that has ended is still live", task)
    places = _places(machine, task)
    _require(len(places) == 1, f"P1: a live task is in exactly one place, and this one in {places or 'none'}", task)
    run = task._run
    right = _PLACES_OF_A_RUN.get(run.state) if run is not None else None
    agrees = places[0] not in ("ready queue", "running") if right is None else places[0] in right
    _require(agrees, f"P3: {places[0]}, but its run says otherwise", task)
    _check_special(machine, task)
    if run is not None and run.state is State.RUNNING:
        _require(run.started is not None, "a run goes on that never started", task)
        early = not task._wall and run.due is not None and run.started is not None and run.started < run.due
        _require(not early, "P6: it started before it was due", task)
    if is_open_round(task):
        _check_history(machine, task)
        return
    _require(task._work is not None and task._args is not None, "a live task has lost its work", task)
    _check_waiting(machine, task, over)
    _check_history(machine, task)


def _check_special(machine: Machine, task: TaskRecord) -> None:
    """Pauses, occurrences, zombies and permits of a live task."""
    special = special_in(task)
    if special is None:
        return
    paused = pause_of(machine, task) is not None
    held = special.hold in (Hold.FIRE, Hold.READY, Hold.RETRY)
    _require(paused or not held, f"it is held ({special.hold}), and not paused", task)
    free = task._entry is not None or (task._run is QUEUED and task in queue_of(task, machine.ready).claims)
    _require(not (paused and free) or special.by_hand, "it is paused, and not held", task)
    _require(special.zombies >= 0, f"{special.zombies} zombies keep it busy", task)
    if special.hold is Hold.BUSY:
        _require(bool(special.crew) or special.zombies > 0, "P1: it is held for its occurrences, and has none", task)
    if special.hold is Hold.TURN:
        of = None if special.chief is None else special_in(special.chief)
        _require(of is not None and of.asides, "P1: it waits for a turn that nobody gives", task)
    for one in special.crew or ():
        own = special_in(one)
        _require(one._seq in machine.registry.live, "an occurrence has ended, and keeps its task busy", one)
        _require(own is not None and own.chief is task, "an occurrence belongs to another task", one)
    policy = special.policy
    _require(
        special.permit
        or policy.limit is None
        or task._run is None
        or task._run.state is not State.RUNNING
        or keeps_busy(task._run),
        "it runs without a permit of its limit",
        task,
    )


def _check_limits(machine: Machine) -> None:
    for state in machine.limits.values():
        name, holders = state.limit.name, 0
        reserved = 0
        for task in machine.registry.live.values():
            special = special_in(task)
            if special is not None and special.permit and special.policy.limit == name:
                holders += 1
                reserved += task._run is QUEUED
        _require(state.held >= holders, f"limit {name}: {holders} hold a permit, and {state.held} are counted")
        _require(state.reserved == reserved, f"limit {name}: {reserved} are reserved, and {state.reserved} counted")
        most = state.limit.running
        _require(most is None or state.held <= most, f"limit {name}: {state.held} permits of {most}")


def _check_waiting(machine: Machine, task: TaskRecord, over: Mapping[int, TaskRecord]) -> None:
    """P4, from the child's side. `over`: number -> each task that has ended and is listed."""
    _require(bool(task._parents) or task not in machine.waiting, "P4: it waits, and has no parents", task)
    numbers = list(map(number_of, task._parents))
    unfinished = [number for number in numbers if number in machine.registry.live]
    _require(task._waiting == len(unfinished), f"P4: counts {task._waiting} of {len(unfinished)} parents", task)
    listed = [over[number] for number in numbers if number in over]
    seen = 0
    for parent in listed:
        seen |= kind_of_end(state_of(parent), reason_of(parent))
    forgotten = len(numbers) - len(unfinished) - len(listed)
    right = task._seen & seen == seen if forgotten else task._seen == seen
    _require(right, f"P4: has seen {task._seen:04b} of {seen:04b}", task)
    if task in machine.waiting:
        _require(on_parent(run_if_of(task), task._seen, len(unfinished)) == WAIT, "P4: it waits for nothing", task)


def _rounds(machine: Machine) -> list[TaskRecord]:
    """Every round that is kept or goes on."""
    kept = [one for flow in machine.registry.flows.values() for one in rounds_of(flow)]
    going_on = [one for one in machine.registry.live.values() if is_open_round(one)]
    return list(dict.fromkeys([*kept, *going_on]))


def _over(machine: Machine) -> list[TaskRecord]:
    """Every task that has ended and is listed, those of rounds included."""
    of_rounds = [task for one in _rounds(machine) for task in machine.registry.tasks_of(one)]
    return [*machine.registry.finished, *(task for task in of_rounds if task._seq not in machine.registry.live)]


def _check_round(machine: Machine, one: TaskRecord) -> None:
    """P4 of a round, which counts its tasks as a child counts its parents, and its own places."""
    tasks, round = machine.registry.tasks_of(one), round_of(one)
    living = [task for task in tasks if task._seq in machine.registry.live]
    goes_on = one._seq in machine.registry.live
    _require(goes_on is not ended(one), "P5: a round has ended, and lives", one)
    if round.opened and goes_on:
        _require(one._waiting == len(living) > 0, f"P4: a round counts {one._waiting} of {len(living)} tasks", one)
        _require(one._run is not None and one._run.state is State.RUNNING, "an open round does not run", one)
    _require(goes_on or not living, f"a round has ended, and {len(living)} of its tasks live", one)
    seen = 0
    for task in tasks:
        _require(task._more is not None and task._more.round == one._seq, "it is a task of another round", task)
        if task._seq not in machine.registry.live:
            seen |= kind_of_end(state_of(task), reason_of(task))
            _check_ended(machine, task)
    copied = any(reason_of(task) is Reason.COPIED for task in tasks)
    _require(
        one._seen == seen or (copied and one._seen | seen == seen), f"P4: has seen {one._seen:04b} of {seen:04b}", one
    )
    end = machine.round_ends.get(one._seq)
    _require(end is None or (goes_on and end._entry is not None), "a round has ended, and its alarm is armed", one)


def _check_finished(machine: Machine, task: TaskRecord) -> None:
    _check_ended(machine, task)
    _require(task._value is None or task._value is NOT_SET, "a task that is listed keeps its value", task)


def _check_ended(machine: Machine, task: TaskRecord) -> None:
    _require(ended(task), "P5: it is listed as finished and is not", task)
    _require(task._seq not in machine.registry.live, "it is live and finished", task)
    _require(not _places(machine, task), f"P1: a terminal task is still in {_places(machine, task)}", task)
    _require(task._rule is None, "P3: a terminal task still has a rule, so it may fire", task)
    _require(task._work is None and task._args is None, "a terminal task keeps its work or its arguments", task)
    kin = [*task._parents, *(task._children or ())]
    _require(not any(isinstance(one, TaskRecord) for one in kin), "a terminal task keeps its kin", task)
    _require(task._more is None or not task._more.waiters, "it has ended, and somebody still waits for that", task)
    _require(task._run is not None and not MOVES[task._run.state], "P5: it has ended, and its run has not", task)
    _check_history(machine, task)


def _check_history(machine: Machine, task: TaskRecord) -> None:
    history = None if task._more is None else task._more.history
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
        children: list[Any] = list(parent._children or ())
        _require(len(set(children)) == len(children), "P4: a child is linked twice", parent)
        counted.update(children)
    for child, parents in counted.items():
        _require(child._waiting == parents, f"P4: {parents} parents will count down {child._waiting}", child)
    for task in machine.waiting:
        _require(task._seq in machine.registry.live, "P1: it waits, and is not live", task)
        _require(counted[task] > 0, "P4: it waits for the dead", task)
    for task in machine.questions:
        _require(task._seq in machine.registry.live, "P1: its rule is asked, and it is not live", task)


def _check_timeline(machine: Machine) -> None:
    timeline = machine.timeline
    entries = [task._entry for task in machine.registry.live.values() if task._entry is not None]
    held = {*timeline.heap, *timeline.flood}
    for task in machine.registry.live.values():
        _require(task._entry is None or task._entry in held, "P1: its entry is not in the timeline", task)
        own = task._entry is None or task._entry & SEQ_MASK == task._seq
        _require(own, "P3: its entry is not its own", task)
    heap = timeline.heap
    ordered = all(heap[(i - 1) // 2] <= heap[i] for i in range(1, len(heap)))
    _require(ordered, "the timeline is not a heap, so something fires late")
    _require(timeline.flood == sorted(timeline.flood, reverse=True), "what is due comes in the wrong order")
    entries += [alarm._entry for alarm in timeline.alarms.values() if alarm._entry is not None]
    _require(all(entry in held for entry in entries), "an alarm is armed, and is not in the timeline")
    _require(timeline.live == len(entries), f"the timeline counts {timeline.live} of {len(entries)} living entries")
    bound = 2 * timeline.live + SLACK
    _require(len(timeline) <= bound, f"the timeline holds {len(timeline)} entries for {timeline.live} that live")


def _check_ready(machine: Machine) -> None:
    queues = [pool.queue for pool in machine.pools.values()] + [limit.queue for limit in machine.limits.values()]
    for queue in queues:
        in_lanes = Counter(task for lane in queue._lanes.values() for task in lane)
        for task in queue.claims:
            _require(task._run is QUEUED, "P1: a task in the ready queue is not ready", task)
            _require(queue_of(task, machine.ready) is queue, "P1: a ready task stands in another queue", task)
            _require(task._seq in machine.registry.live, "P1: a task is ready and not live", task)
            _require(in_lanes[task] == 1, f"P1: a ready task stands in {in_lanes[task]} places of the queue", task)
    for shared, state, reason in ((QUEUED, State.READY, None), (CANCELLED_RUN, State.CANCELLED, Reason.CANCELLED)):
        _require((shared.state, shared.reason) == (state, reason), f"what stands for every {state} run was changed")
        facts = [shared.stop, shared.started, shared.finished, shared.error, shared.due]
        _require(not any(facts), f"what stands for every {state} run was given {facts}")
    _require(not machine.to_stop, "a task was asked to stop, and nobody told its worker")


def _check_registry(machine: Machine) -> None:
    registry = machine.registry
    over = _over(machine)
    listed = {*registry.live.values(), *over}
    _require(len(listed) == len(registry.live) + len(over), "a task is listed twice")
    _require(len(registry.finished) <= registry.trim_above, f"{len(registry.finished)} finished tasks are kept")
    for seq, task in registry.live.items():
        _require(task._seq == seq, f"it is listed under the number {seq}", task)
        found = task._id is None or task._id in registry.named or is_unlisted(task)
        _require(found, "it is live, and its id finds nobody", task)
    for id, task in registry.named.items():
        _require(task._id == id, f"it is found under the id {id!r}", task)
        _require(task in listed, "it was forgotten, and its id is not free", task)
    _require(bool(registry.live) or not machine.idle_waiters, "no task lives, and somebody still waits for that")
