"""Questions to users' own rules. Their code is foreign, so they are asked outside the lock, between two holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tickless.core.record import TaskRecord
from tickless.instants import Instant
from tickless.policies import Plan

Question = Callable[[], Plan]
Then = Callable[[TaskRecord, Plan, Instant], None]


class Asked(NamedTuple):
    """A question, and what to do with the answer."""

    task: TaskRecord
    question: Question
    then: Then
    at: Instant


class Questions:
    """A task has one question at most, and while it has one, that is its place (P1)."""

    __slots__ = ("_current", "queue")

    def __init__(self) -> None:
        self.queue: deque[Asked] = deque()
        """What nobody has begun to ask. Any thread may take from it."""
        self._current: dict[TaskRecord, Question] = {}

    def __contains__(self, task: TaskRecord) -> bool:
        return task in self._current

    def __iter__(self) -> Iterator[TaskRecord]:
        return iter(list(self._current))

    def __len__(self) -> int:
        return len(self._current)

    def put(self, task: TaskRecord, question: Question, then: Then, at: Instant) -> None:
        """From now on this is the task's question; an answer to an earlier one counts for nothing."""
        self._current[task] = question
        self.queue.append(Asked(task, question, then, at))

    def drop(self, task: TaskRecord) -> None:
        """No answer counts any more."""
        self._current.pop(task, None)

    def settle(self, asked: Asked) -> bool:
        """True, once, when the answer to this very question counts."""
        if self._current.get(asked.task) is not asked.question:
            return False
        del self._current[asked.task]
        return True
