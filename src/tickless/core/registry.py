"""Who is who: live tasks, names, and the finished ones that stay listed for a while. Called under the store's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Never

from tickless.core import graph
from tickless.core.record import More, TaskRecord, ended
from tickless.errors import DependencyError, DuplicateId, UnknownTask, shown

SLACK = 256
"""How many finished tasks may pile up beyond the limit before a worker asks for a trim."""
NOBODY: Mapping[str, TaskRecord] = {}


class Registry:
    """`live` and `finished` may be read, and a plain task retired, without the lock: single atomic steps."""

    __slots__ = ("finished", "keep", "live", "named", "trim_above")

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.trim_above = keep + SLACK
        self.live: dict[int, TaskRecord] = {}
        self.named: dict[str, TaskRecord] = {}
        self.finished: deque[TaskRecord] = deque()

    def admit(self, task: TaskRecord) -> None:
        """Check a task before anything changes, and turn the ids of parents into parents.

        Raises DuplicateId, or DependencyError for a parent that is unknown, the task itself, or recurring.
        """
        self.trim()
        if task.id is not None and task.id in self.named:
            _refuse_duplicate(task.id)
        if task.more is not None and task.more.parents:
            self.check_parents(task, task.more)

    def admit_many(self, tasks: Sequence[TaskRecord]) -> None:
        """As `admit` for each. They may name one another as parents, and not in a circle."""
        self.trim()
        batch: dict[str, TaskRecord] = {}
        for task in tasks:
            if task.id is not None:
                if task.id in batch or task.id in self.named:
                    _refuse_duplicate(task.id)
                batch[task.id] = task
        for task in tasks:
            if task.more is not None and task.more.parents:
                self.check_parents(task, task.more, batch)
        if batch:
            graph.check_acyclic(tasks)

    def check_parents(self, task: TaskRecord, more: More, batch: Mapping[str, TaskRecord] = NOBODY) -> None:
        """Turn the ids of the task's parents into parents, each once. Raises DependencyError."""
        by_id = False
        for parent in more.parents:
            if isinstance(parent, str):
                by_id = True
            elif parent.rule is not None or (parent.more is not None and parent.more.recurring):
                self._refuse_recurring(task, parent)
        if by_id:
            more.parents = tuple(dict.fromkeys(self._parent(task, parent, batch) for parent in more.parents))

    def _parent(self, task: TaskRecord, parent: TaskRecord | str, batch: Mapping[str, TaskRecord]) -> TaskRecord:
        if not isinstance(parent, str):
            return parent
        who = shown(task.id or task.label)
        if parent == task.id:
            raise DependencyError(f"after_tasks of {who}: a task cannot wait for itself; take it out")
        found = batch.get(parent)
        try:
            found = found or self.find(parent)
        except UnknownTask as error:
            raise DependencyError(f"after_tasks of {who}: {error}") from None
        if found.rule is not None or (found.more is not None and found.more.recurring):
            self._refuse_recurring(task, found)
        return found

    def _refuse_recurring(self, task: TaskRecord, parent: TaskRecord) -> None:
        if not ended(parent):
            raise DependencyError(
                f"after_tasks of {shown(task.id or task.label)}: {shown(parent.id or parent.label)} is recurring, and "
                "which of its runs would count is not said; repeat the whole chain as a Flow, or schedule the child "
                "from inside it"
            )

    @property
    def overfull(self) -> bool:
        return len(self.finished) > self.trim_above

    def trim(self) -> None:
        """Forget the oldest finished tasks beyond the limit; their ids are free again."""
        finished, named = self.finished, self.named
        while len(finished) > self.keep:
            task = finished.popleft()
            if task.id is not None and named.get(task.id) is task:
                del named[task.id]
            if task.run is not None:
                del task.run.task  # they must not keep each other alive until some collection of garbage
            if task.more is not None:
                graph.forget_links(task.more)
                for run in task.more.history or ():
                    if run is not task.run:
                        del run.task

    def find(self, id: str) -> TaskRecord:
        """The task of that id, live or listed. O(1), but for finished tasks without a given id: O(keep_finished)."""
        task = self.named.get(id)
        if task is not None:
            return task
        if id[:1] == "#" and len(id) < 20 and id[1:].isdecimal():
            seq = int(id[1:])
            task = self.live.get(seq)
            if task is not None and task.id is None:
                return task
            for task in list(self.finished):  # a copy: workers append to it without the lock
                if task.seq == seq and task.id is None:
                    return task
        raise UnknownTask(
            f"no task has the id {shown(id)}; it never had one, or it ended and was forgotten "
            f"(keep_finished={self.keep})"
        )

    def listing(self) -> list[TaskRecord]:
        """All tasks that are listed, in the order of scheduling."""
        self.trim()
        return sorted([*self.finished, *self.live.values()], key=lambda task: task.seq)


def _refuse_duplicate(id: str) -> Never:
    raise DuplicateId(
        f"id {shown(id)}: a task of that id is listed already; choose another id, "
        'or say exists="keep" or exists="update"'
    )
