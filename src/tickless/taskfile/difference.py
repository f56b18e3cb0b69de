"""What a reload changes."""

from __future__ import annotations

from typing import Literal, NamedTuple

from tickless.taskfile.values import TaskDef, TaskFile

_KEYS = ("work", "when_text", "after_tasks", "on_failure", "description")


class Change(NamedTuple):
    """One task that is otherwise than it was."""

    kind: Literal["added", "changed", "removed"]
    name: str
    details: tuple[str, ...] = ()
    """The keys that differ."""


def difference(old: TaskFile | None, new: TaskFile) -> tuple[Change, ...]:
    """What is otherwise in the new file, in its order; what is gone comes last. Empty: nothing is."""
    before = {} if old is None else {task.name: task for task in old.tasks}
    changes = []
    if old is not None:
        keys = ("timezone", "store", "pools", "limits")
        changes += [Change("changed", key) for key in keys if getattr(old, key) != getattr(new, key)]
    for task in new.tasks:
        there = before.pop(task.name, None)
        if there is None:
            changes.append(Change("added", task.name))
        elif there != task:
            changes.append(Change("changed", task.name, _details(there, task)))
    return (*changes, *(Change("removed", name) for name in before))


def _details(old: TaskDef, new: TaskDef) -> tuple[str, ...]:
    names = {"work": "run", "when_text": "when"}
    keys = [names.get(key, key) for key in _KEYS if getattr(old, key) != getattr(new, key)]
    if old.when != new.when and "when" not in keys:
        keys.append("when")
    options = [key for key in {**old.options, **new.options} if old.options.get(key) != new.options.get(key)]
    return (*keys, *options)
