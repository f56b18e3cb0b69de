"""Snapshots of a flow's rounds, and what is read off them: the tree, the critical path, what differs from another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tickless.errors import shown
from tickless.instants import SECOND_US, Instant, datetime_of
from tickless.states import Reason, RunIf, State

FEW_PARENTS = 3
"""So many parents are named beside the one under which a task stands."""
WIDEST_NAME = 40
"""Longer names push what follows them to the right, in their own line only."""


@dataclass(frozen=True, slots=True)
class RoundTask:
    """One task of a round as it was when you asked."""

    name: str
    task_id: str
    state: State
    reason: Reason | None
    started_us: Instant | None
    """Of the last attempt; None for one that never started."""
    finished_us: Instant | None
    error: str | None
    attempt: int
    """Which try the last one was."""
    parents: tuple[str, ...]
    """The names of the tasks that it waits for, or waited for."""
    run_if: RunIf

    @property
    def took(self) -> timedelta | None:
        """How long its last attempt ran; None while it goes on, and where it never started."""
        if self.started_us is None or self.finished_us is None:
            return None
        return timedelta(microseconds=self.finished_us - self.started_us)


@dataclass(frozen=True, slots=True)
class RoundChange:
    """One task that two rounds disagree about. None: that round has no such task."""

    name: str
    before: State | None
    now: State | None
    longer: timedelta | None
    """How much longer it took; None where it did not run to its end in both."""


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """A round as it was when you asked."""

    id: str
    flow_id: str
    due_us: Instant | None
    state: State
    reason: Reason | None
    error: str | None
    started_us: Instant | None
    finished_us: Instant | None
    params: Mapping[str, Any]
    retry_of: str | None
    """The id of the round whose failed tasks this one tries again."""
    tasks: tuple[RoundTask, ...]
    """Parents before their children. Empty until the round was opened."""

    @property
    def due(self) -> datetime | None:
        """The fire that it is of, aware UTC."""
        return None if self.due_us is None else datetime_of(self.due_us)

    @property
    def critical_path(self) -> tuple[str, ...]:
        """The names of the tasks that the end had to wait for, first to last: what to make quicker. O(tasks and links).

        From the task that ended last back to the parent that ended last, and so on; of those that ran in this round.
        """
        ran = {
            task.name: task
            for task in self.tasks
            if task.finished_us is not None and task.started_us is not None and task.reason is not Reason.COPIED
        }
        path: list[str] = []
        last = max(reversed(ran.values()), key=_ended_at, default=None)  # of two that ended at once, the later one
        while last is not None:
            path.append(last.name)
            last = max((ran[name] for name in reversed(last.parents) if name in ran), key=_ended_at, default=None)
        return tuple(reversed(path))

    def compare(self, other: RoundInfo) -> tuple[RoundChange, ...]:
        """What is otherwise in this round than in `other`, an earlier one: tasks that ended in another way, and those
        that only one of the two has. In this round's order, then the other's.
        """
        mine, before = {task.name: task for task in self.tasks}, {task.name: task for task in other.tasks}
        changes = []
        for name in [*mine, *(name for name in before if name not in mine)]:
            now, then = mine.get(name), before.get(name)
            if now is not None and then is not None and now.state is then.state:
                continue
            took, took_then = None if now is None else now.took, None if then is None else then.took
            longer = None if took is None or took_then is None else took - took_then
            changes.append(
                RoundChange(name, None if then is None else then.state, None if now is None else now.state, longer)
            )
        return tuple(changes)

    def tree(self) -> str:
        """The round as text: each task under the last of its parents, with its state, when it started, how long it
        took, and its error; then the critical path.
        """
        lines = [self._head()]
        children: dict[str | None, list[RoundTask]] = {}
        for task in self.tasks:
            children.setdefault(task.parents[-1] if task.parents else None, []).append(task)
        named = [(task, f"{lead}{_line(task.name)}") for task, lead in _walk(children)]
        width = min(WIDEST_NAME, max((len(name) for _, name in named), default=0))
        for task, name in named:
            others = task.parents[:-1]
            named_others = ", ".join(map(_line, others)) if len(others) <= FEW_PARENTS else f"{len(others)} others"
            also = f"  after {named_others} too" if others else ""
            lines.append(f"{name:<{width}}  {_told(task)}{also}".rstrip())
        path = self.critical_path
        if len(path) > 1:
            lines.append(f"critical path: {' > '.join(map(_line, path))}")
        return "\n".join(lines)

    def _head(self) -> str:
        words = [self.id, str(self.state)]
        if self.reason is not None:
            words.append(f"({self.reason})")
        if self.started_us is not None and self.finished_us is not None:
            words.append(f"in {_span(self.finished_us - self.started_us)}")
        if self.retry_of is not None:
            words.append(f"retry of {self.retry_of}")
        return " ".join(words) + (f": {self.error}" if self.error else "")

    def __str__(self) -> str:
        return self.tree()


def _line(name: str) -> str:
    """The name, in one line."""
    return name if name.isprintable() else shown(name)


def _ended_at(task: RoundTask) -> tuple[int, int]:
    return task.finished_us or 0, task.started_us or 0


def _walk(children: Mapping[str | None, list[RoundTask]]) -> Iterable[tuple[RoundTask, str]]:
    """Every task with the branches that lead to it; without recursion, since chains are long."""
    stack = [(task, "", task is children[None][-1]) for task in reversed(children.get(None, []))]
    while stack:
        task, lead, is_last = stack.pop()
        yield task, f"{lead}{'└─ ' if is_last else '├─ '}"
        below = children.get(task.name, [])
        inner = lead + ("   " if is_last else "│  ")
        stack += [(child, inner, child is below[-1]) for child in reversed(below)]


def _told(task: RoundTask) -> str:
    words = [f"{task.state:<9}"]
    if task.reason is not None:
        words.append(f"({task.reason})")
    if task.started_us is not None:
        words.append(f"{datetime_of(task.started_us):%H:%M:%S}")
    if task.started_us is not None and task.finished_us is not None:
        words.append(_span(task.finished_us - task.started_us))
    if task.attempt > 1:
        words.append(f"attempt {task.attempt}")
    if task.error:
        words.append(task.error)
    return " ".join(words)


def _span(us: int) -> str:
    """A duration, short: 12 ms, 3.4 s, 2 min 5 s."""
    if us < SECOND_US - 500:  # what is more is rounded to a second
        return f"{us / 1000:.3g} ms"
    if us < 60 * SECOND_US:
        return f"{us / SECOND_US:.3g} s"
    minutes, seconds = divmod(us // SECOND_US, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
