"""Asking rules. A user's own is foreign code, so it is asked outside the lock, between two holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tickless.core.record import TaskRecord
from tickless.errors import RuleError
from tickless.instants import Instant
from tickless.policies import Plan
from tickless.rules import Rule, is_ours
from tickless.states import Reason, State

if TYPE_CHECKING:
    from tickless.core.machine import Machine

Question = Callable[[], Plan]
Then = Callable[[TaskRecord, Plan, Instant], None]


class Asked(NamedTuple):
    """A question, and what to do with the answer."""

    task: TaskRecord
    question: Question
    then: Then
    at: Instant
    otherwise: Plan | None
    """What holds if the rule raises; None: the task ends."""


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

    def put(self, task: TaskRecord, question: Question, then: Then, at: Instant, otherwise: Plan | None) -> None:
        """From now on this is the task's question; an answer to an earlier one counts for nothing."""
        self._current[task] = question
        self.queue.append(Asked(task, question, then, at, otherwise))

    def drop(self, task: TaskRecord) -> None:
        """No answer counts any more."""
        self._current.pop(task, None)

    def settle(self, asked: Asked) -> bool:
        """True, once, when the answer to this very question counts."""
        if self._current.get(asked.task) is not asked.question:
            return False
        del self._current[asked.task]
        return True


def consult(
    machine: Machine,
    task: TaskRecord,
    rule: Rule,
    question: Question,
    then: Then,
    now: Instant,
    otherwise: Plan | None = None,
) -> None:
    """Ask a rule: ours here and now, a user's own once the lock is free, since its code is foreign.

    `otherwise` is the plan if it raises; without one the task ends.
    """
    if not is_ours(rule):
        machine.questions.put(task, question, then, now, otherwise)
        return
    try:
        plan = question()
    except RuleError as error:
        if otherwise is None:
            _broken(machine, task, error, now)
            return
        plan = otherwise
    then(task, plan, now)


def answered(machine: Machine, asked: Asked, plan: Plan | BaseException) -> None:
    """A custom rule has answered, or raised. Too late if the task was cancelled, or has another question now."""
    task = asked.task
    if not machine.questions.settle(asked):
        return
    machine.discard(task)  # should this answer end it
    if isinstance(plan, BaseException) and asked.otherwise is not None:
        plan = asked.otherwise
    if isinstance(plan, BaseException):
        _broken(machine, task, plan, asked.at)
    else:
        asked.then(task, plan, asked.at)


def _broken(machine: Machine, task: TaskRecord, error: BaseException, now: Instant) -> None:
    """The rule raised or lied. Its own task ends, visibly; the others go on."""
    machine.discard(task)
    failure = RuleError(f"task {task.id}: its rule could not tell the next fire: {error}")
    machine.end_unrun(task, State.FAILED, Reason.RULE, now, str(failure), failure)
