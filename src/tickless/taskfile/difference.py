"""What a reload changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Literal, NamedTuple

from tickless.commands.command import Command
from tickless.taskfile.values import PythonCall, TaskDef, TaskFile

_NAMES = {"kill_after_us": "kill_after", "target": "python", "when_text": "when"}
"""Field -> the key that it is written as."""


class Change(NamedTuple):
    """One task that is otherwise than it was."""

    kind: Literal["added", "changed", "removed"]
    name: str
    details: tuple[str, ...] = ()
    """The keys that differ."""


def difference(old: TaskFile | None, new: TaskFile) -> tuple[Change, ...]:
    """What is otherwise in the new file, in its order; what is gone comes last. Empty: nothing is.

    Only what a task is counts, and not how the file says it: whether of the task, or of all.
    """
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
            changes.append(Change("changed", task.name, tuple(dict.fromkeys(_details(there, task)))))
    return (*changes, *(Change("removed", name) for name in before))


def _details(old: TaskDef, new: TaskDef) -> Iterator[str]:
    yield from _differing(old.work, new.work)
    for key in ("when", "when_text", "after_tasks", "description", "on_failure"):
        if getattr(old, key) != getattr(new, key):
            yield _NAMES.get(key, key)
    for key in {**old.options, **new.options}:
        if old.options.get(key) != new.options.get(key):
            yield key


def _differing(old: Command | PythonCall, new: Command | PythonCall) -> Iterator[str]:
    """The keys of what a task does. Where a command has become a function, or the reverse: those of both."""
    if type(old) is not type(new):
        yield from ("python", "run") if isinstance(old, PythonCall) else ("run", "python")
        return
    for one in fields(old):
        before: Any = getattr(old, one.name)
        if before != getattr(new, one.name):
            yield _NAMES.get(one.name, one.name)
