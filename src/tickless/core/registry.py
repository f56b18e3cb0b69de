"""Who is who: live tasks, names, and the finished ones that stay listed for a while. Called under the store's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from tickless.core import graph
from tickless.core.record import TaskRecord, ended
from tickless.errors import DependencyError, DuplicateId, UnknownTask

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

    def admit(self, tasks: Sequence[TaskRecord]) -> None:
        """Check a batch before anything changes, and turn the ids of parents into parents.

        Raises DuplicateId, or DependencyError for a parent that is unknown, the task itself, recurring, or in a cycle.
        """
        if len(tasks) == 1 and tasks[0].id is None and tasks[0].more is None:
            return
        self.trim()
        batch: dict[str, TaskRecord] = {}
        for task in tasks:
            if task.id is None:
                continue
            if task.id in batch or task.id in self.named:
                raise DuplicateId(
                    f"id {task.id!r}: a task of that id is listed already; choose another id, "
                    'or say exists="keep" or exists="update"'
                )
            batch[task.id] = task
        for task in tasks:
            self.check_parents(task, batch)
        if batch:
            graph.check_acyclic(tasks)

    def check_parents(self, task: TaskRecord, batch: Mapping[str, TaskRecord] = NOBODY) -> None:
        """Turn the ids of the task's parents into parents, each once. Raises DependencyError."""
        more = task.more
        if more is not None and more.parents:
            more.parents = tuple(dict.fromkeys(self._parent(task, parent, batch) for parent in more.parents))

    def _parent(self, task: TaskRecord, parent: TaskRecord | str, batch: Mapping[str, TaskRecord]) -> TaskRecord:
        who = task.id or task.label
        if isinstance(parent, str):
            if parent == task.id:
                raise DependencyError(f"after_tasks of {who!r}: a task cannot wait for itself; take it out")
            found = batch.get(parent)
            try:
                parent = found if found is not None else self.find(parent)
            except UnknownTask as error:
                raise DependencyError(f"after_tasks of {who!r}: {error}") from None
        more = parent.more
        if (parent.rule is not None or (more is not None and more.recurring)) and not ended(parent):
            raise DependencyError(
                f"after_tasks of {who!r}: {parent.public_id!r} is recurring, and which of its runs would count is "
                "not said; repeat the whole chain as a Flow, or schedule the child from inside the recurring task"
            )
        return parent

    def enter(self, task: TaskRecord) -> None:
        self.live[task.seq] = task
        if task.id is not None:
            self.named[task.id] = task

    def retire(self, task: TaskRecord) -> None:
        """From live to finished."""
        if self.live.pop(task.seq, None) is not None:
            self.finished.append(task)

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

    def find(self, id: str) -> TaskRecord:
        """The task of that id, live or listed. O(1), but for finished tasks without a given id: O(keep_finished)."""
        task = self.named.get(id)
        if task is not None:
            return task
        if id[:1] == "#" and id[1:].isdecimal():
            seq = int(id[1:])
            task = self.live.get(seq)
            if task is not None and task.id is None:
                return task
            for task in self.finished:
                if task.seq == seq and task.id is None:
                    return task
        raise UnknownTask(
            f"no task has the id {id!r}; it never had one, or it ended and was forgotten (keep_finished={self.keep})"
        )

    def listing(self) -> list[TaskRecord]:
        """All tasks that are listed, in the order of scheduling."""
        self.trim()
        return sorted([*self.finished, *self.live.values()], key=lambda task: task.seq)
