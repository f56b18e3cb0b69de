"""Dependencies: counting unfinished parents, never sorting. Called under the store's lock only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tickless.core.record import More, TaskRecord, ended, reason_of, state_of
from tickless.errors import DependencyError, shown
from tickless.policies import SUCCEEDED, kind_of_end
from tickless.states import State

SLACK = 64


def link(child: TaskRecord, more: More) -> None:
    """Count the child's unfinished parents and have them know it; parents that have ended count at once.

    A worker ends a plain parent without the lock: it stores the end, then looks for children. So a child is put where
    that look finds it first, and the parent is looked at again: one of the two sees the other. See tests/races. A
    parent that is not even ready is no worker's yet.
    """
    for parent in more.parents:
        links = parent.more
        if parent.run is None or not ended(parent):
            if links is None:
                links = parent.more = More()
            if links.children is None:
                links.children = []
            _join(links.children, child)
            if parent.run is None or not ended(parent):
                more.waiting += 1
                continue
            links.children.remove(child)
        more.seen |= end_of(parent)


def _join(children: list[TaskRecord], child: TaskRecord) -> None:
    """One more child. Those that were cancelled meanwhile go whenever the list has doubled, so that it stays flat."""
    count = len(children)
    if count >= SLACK and not count & (count - 1):
        for other in children:
            if ended(other) and other.more is not None:
                other.more.waiting -= 1  # it is counted down now, since it will not be when the parent ends
        children[:] = [other for other in children if not ended(other)]
    children.append(child)


def end_of(parent: TaskRecord) -> int:
    """How an ended parent counts for its children."""
    state = state_of(parent)
    return SUCCEEDED if state is State.SUCCEEDED else kind_of_end(state, reason_of(parent))


def forget_links(more: More) -> None:
    """The task is forgotten: keep the ids of its kin and not the kin, lest a chain keep all its ancestors."""
    more.parents = _ids(more.parents)
    if more.children is not None:
        more.kin = _ids(more.children)
        more.children = None


def _ids(kin: Sequence[TaskRecord | str | int]) -> tuple[str | int, ...]:
    return tuple([one.id or one.seq if isinstance(one, TaskRecord) else one for one in kin])


def check_acyclic(tasks: Sequence[TaskRecord]) -> None:
    """Refuse a batch whose members depend on one another in a circle. O(members + links); without recursion.

    Only a batch can hold a cycle: every other parent was there before its child.
    """
    members = {task for task in tasks if task.more is not None and task.more.parents}
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
            stack.extend((parent, False) for parent in _parents(task) if parent not in done)


def check_replacement(old: TaskRecord, new: TaskRecord) -> None:
    """Refuse a task that would take the place of one that its own parents wait for. O(ancestors); no recursion.

    One that runs may: its children wait for the run that goes on, and that ends whatever comes after it.
    """
    if ended(old) or old.run is not None:
        return
    came_from: dict[TaskRecord, TaskRecord] = dict.fromkeys(_parents(new), new)
    todo = list(came_from)
    for task in todo:
        if task is old:
            path = [task]
            while path[-1] is not new:
                path.append(came_from[path[-1]])
            raise DependencyError(_circle(path[:0:-1], new))
        for parent in () if ended(task) else _parents(task):
            if parent not in came_from:
                came_from[parent] = task
                todo.append(parent)


def _parents(task: TaskRecord) -> Iterable[TaskRecord]:
    return () if task.more is None else task.more.parents


def _circle(path: list[TaskRecord], again: TaskRecord) -> str:
    names = [_short(task.id or task.label) for task in path[path.index(again) :]]
    few = names if len(names) <= 8 else [*names[:4], f"... {len(names) - 7} more ...", *names[-3:]]
    return (
        f"after_tasks: {' -> '.join([*few, names[0]])} is a cycle, so none of them could ever start; "
        "take one of these dependencies out"
    )


def _short(name: str) -> str:
    return name if len(name) <= 60 and name.isprintable() else shown(name)
