"""Dependencies: counting unfinished parents, never sorting. Called under the store's lock only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickless.core.record import TaskRecord, ended, key_of, number_of, reason_of, state_of
from tickless.errors import DependencyError, shown
from tickless.policies import SUCCEEDED, kind_of_end
from tickless.states import State

SLACK = 64


def link(child: TaskRecord) -> None:
    """Count the child's unfinished parents and have them know it; parents that have ended count at once.

    A worker ends a plain parent without the lock: it stores the end, then looks for children. So a child is put where
    that look finds it first, and the parent is looked at again: one of the two sees the other. See tests/races. A
    parent that is not even ready is no worker's yet.
    """
    keys = []
    for parent in child._parents:
        keys.append(parent._seq if parent._id is None else key_of(parent))
        if parent._run is None or not ended(parent):
            children = parent._children
            if children is None:
                children = parent._children = [child]
            else:
                _join(children, child)
            if parent._run is None or not ended(parent):
                child._waiting += 1
                continue
            children.remove(child)
        child._seen |= end_of(parent)
    child._parents = tuple(keys)


def _join(children: list[TaskRecord], child: TaskRecord) -> None:
    """One more child. Those that were cancelled meanwhile go whenever the list has doubled, so that it stays flat."""
    count = len(children)
    if count >= SLACK and not count & (count - 1):
        # Who waits has no run: to ask that first is most of what a fan of ten thousand costs here.
        gone = {other for other in children if other._run is not None and ended(other)}
        for other in gone:
            other._waiting -= 1  # it is counted down now, since it will not be when the parent ends
        if gone:
            children[:] = [other for other in children if other not in gone]
    children.append(child)


def end_of(parent: TaskRecord) -> int:
    """How an ended parent counts for its children."""
    run = parent._run
    if parent._more is None and run is not None and run.state is State.SUCCEEDED:
        return SUCCEEDED  # the commonest
    state = state_of(parent)
    return SUCCEEDED if state is State.SUCCEEDED else kind_of_end(state, reason_of(parent))


def check_acyclic(tasks: Sequence[TaskRecord]) -> None:
    """Refuse a batch whose members depend on one another in a circle. O(members + links); without recursion.

    Only a batch can hold a cycle: every other parent was there before its child.
    """
    members = {task for task in tasks if task._parents}
    done: set[TaskRecord] = set()
    for start in tasks:
        path: dict[TaskRecord, None] = {}
        stack: list[tuple[TaskRecord, bool]] = [(start, False)]
        while stack:
            task, left = stack.pop()
            if left:
                path.pop(task)
                done.add(task)
                continue
            if task in path:
                raise DependencyError(_circle(list(path), task))
            if task in done or task not in members:
                continue
            path[task] = None
            stack.append((task, True))
            stack.extend((parent, False) for parent in task._parents if parent not in done)


def check_replacement(old: TaskRecord, new: TaskRecord, live: Mapping[int, TaskRecord]) -> None:
    """Refuse a task that would take the place of one that its own parents wait for. O(ancestors); no recursion.

    One that runs may: its children wait for the run that goes on, and that ends whatever comes after it.
    """
    if ended(old) or old._run is not None:
        return
    came_from: dict[TaskRecord, TaskRecord] = dict.fromkeys(new._parents, new)
    todo = list(came_from)
    for task in todo:
        if task is old:
            path = [task]
            while path[-1] is not new:
                path.append(came_from[path[-1]])
            raise DependencyError(_circle(path[:0:-1], new))
        for key in () if ended(task) else task._parents:
            parent = live.get(number_of(key))
            if parent is not None and parent not in came_from:
                came_from[parent] = task
                todo.append(parent)


def _circle(path: list[TaskRecord], again: TaskRecord) -> str:
    names = [_short(task._id or task._name) for task in path[path.index(again) :]]
    few = names if len(names) <= 8 else [*names[:4], f"... {len(names) - 7} more ...", *names[-3:]]
    return (
        f"after_tasks: {' -> '.join([*few, names[0]])} is a cycle, so none of them could ever start; "
        "take one of these dependencies out"
    )


def _short(name: str) -> str:
    return name if len(name) <= 60 and name.isprintable() else shown(name)
