"""Every error that tickless raises, in one tree. A message names the thing, the value and the way out."""

from concurrent.futures import CancelledError
from types import CodeType
from typing import Never

OUR_FRAMES: set[CodeType] = set()
"""The functions of ours that call users' code: no traceback of theirs begins with one."""


class TicklessError(Exception):
    """The root: `except TicklessError` catches all that tickless raises of its own."""


class RuleError(TicklessError, ValueError):
    """A rule or a time that cannot be: a naive datetime, a negative delay, an interval of zero."""


class TextError(RuleError):
    """A rule's text that cannot be read. `why` says what is wrong at `position` of `text`, counted from 1."""

    def __init__(self, why: str, text: str = "", position: int = 1) -> None:
        super().__init__(why, text, position)
        self.why = why
        self.text = text
        self.position = position

    def __str__(self) -> str:
        return f"{shown(self.text)}, position {self.position}: {self.why}"


class ScheduleError(TicklessError, ValueError):
    """A submission that cannot be: a work that is not callable, an option that does not exist."""


class DuplicateId(ScheduleError):
    """The id belongs to a task that the scheduler still lists."""


class UnknownTask(TicklessError, LookupError):
    """No task has that id: it never had one, or it ended and was forgotten (`keep_finished`)."""


class DependencyError(ScheduleError):
    """A parent that is unknown, the task itself, recurring, or part of a cycle."""


class FlowError(ScheduleError):
    """A flow's definition that cannot be."""


class SchedulerClosed(TicklessError, RuntimeError):
    """The scheduler is closed, and closing is final."""


def refuse_closed() -> Never:
    """Raise the SchedulerClosed of every verb that a closed scheduler does not take."""
    raise SchedulerClosed("the scheduler is closed, and closing is final; make a new Scheduler")


class NotStarted(TicklessError, RuntimeError):
    """Somebody waits on a scheduler that was never started, so the wait could not end."""


class ForkedScheduler(TicklessError, RuntimeError):
    """A scheduler that was made before a fork was used in the child, where its thread does not exist."""


class PoolError(TicklessError, ValueError):
    """The pool is not one that can be used as given."""


class OutputGone(TicklessError, LookupError):
    """The output of a finished task is not there: it was let go, since nobody held a handle when it ended; or it has no
    part of that name."""


class TaskSkipped(TicklessError):
    """`result()` of a task that was decided not to run. `reason` says why."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message, reason)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class TaskRejected(TicklessError, RuntimeError):
    """`result()` of a task whose run no pool would take: closed, broken, or full."""


class TaskTimedOut(TicklessError, TimeoutError):
    """`result()` of a task whose run went on for longer than its `timeout`. Its code may go on still."""


class TaskFailed(TicklessError):
    """`result()` of a task that failed in another process, or before a restart. Its message is the error, as a line."""


class StoreError(TicklessError, RuntimeError):
    """The store cannot do it: its file, its disk, its schema. The message names the file and the way out."""


class StoreDown(StoreError):
    """The store cannot do it now, and may be asked again: it is locked, full, or not to be reached."""


class PayloadError(ScheduleError):
    """A work, an argument or a result that cannot be stored, or a stored one that cannot be used."""


class Stopped(Exception):
    """Raised by a task's own code to say: I was asked to stop, and I did.

    Not a `TicklessError`: it goes from the user to the scheduler.
    """


def shown(value: object) -> str:
    """The value for a message: its repr, at most 200 characters, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # a repr is foreign code, and that of a 5,000-digit int raises
        return f"<{type(value).__name__}>"
    return text if len(text) <= 200 else f"{text[:197]}..."


__all__ = [
    "CancelledError",
    "DependencyError",
    "DuplicateId",
    "ForkedScheduler",
    "NotStarted",
    "OutputGone",
    "PayloadError",
    "PoolError",
    "RuleError",
    "ScheduleError",
    "SchedulerClosed",
    "Stopped",
    "StoreDown",
    "StoreError",
    "TaskFailed",
    "TaskRejected",
    "TaskTimedOut",
    "TaskSkipped",
    "TextError",
    "TicklessError",
    "UnknownTask",
    "shown",
]
