"""Dependencies: counting unfinished parents, never sorting. Called under the store's lock only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tickless.core.record import More, TaskRecord, ended, reason_of, state_of
from tickless.errors import DependencyError
from tickless.policies import Verdict, kind_of_end, on_parent


def link(child: TaskRecord, more: More) -> None:
    """Count the child's unfinished parents and have them know it; parents that have ended count at once.

    A worker ends a plain parent without the lock: it stores the end, then looks for children. So a child is put where
    that look finds it first, and the parent is looked at again: one of the two sees the other. See tests/races.
    """
    for parent in more.parents:
        if not ended(parent):
            links = parent.more
            if links is None:
                links = parent.more = More()
            links.children.append(child)
            if not ended(parent):
                more.waiting += 1
                continue
            links.children.remove(child)
        more.seen |= kind_of_end(state_of(parent), reason_of(parent))


def let_go(parent: TaskRecord, child: TaskRecord) -> Verdict:
    """The parent has ended: count it, and say what its child does if it still waits.

    Counted exactly once a parent, whether or not the child was decided before (P4).
    """
    more = child.more
    assert more is not None
    more.waiting -= 1
    more.seen |= kind_of_end(state_of(parent), reason_of(parent))
    return on_parent(more.run_if, more.seen, more.waiting)


def forget_links(task: TaskRecord) -> None:
    """The task has ended: keep the ids of its kin and not the kin, lest a chain keep all its ancestors."""
    more = task.more
    assert more is not None
    more.parents = tuple(parent if isinstance(parent, str) else parent.public_id for parent in more.parents)
    more.kin = tuple(child.public_id for child in more.children)
    more.children = []


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


def _parents(task: TaskRecord) -> Iterable[TaskRecord]:
    return () if task.more is None else task.more.parents


def _circle(path: list[TaskRecord], again: TaskRecord) -> str:
    names = [task.id or task.label for task in path[path.index(again) :]]
    shown = names if len(names) <= 8 else [*names[:4], f"... {len(names) - 7} more ...", *names[-3:]]
    return (
        f"after_tasks: {' -> '.join([*shown, names[0]])} is a cycle, so none of them could ever start; "
        "take one of these dependencies out"
    )
