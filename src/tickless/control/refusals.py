"""How a question fails: the exit code of the command that asked it, and a word for programs."""

from __future__ import annotations

from enum import IntEnum

from tickless.errors import (
    ForkedScheduler,
    RuleError,
    ScheduleError,
    SchedulerClosed,
    StoreError,
    TicklessError,
    UnknownTask,
)


class Code(IntEnum):
    """The exit codes of the command line."""

    DONE = 0
    FAILED = 1
    """The thing itself failed: a run, a task."""
    USAGE = 2
    UNKNOWN = 3
    """No such task, run or round."""
    NOT_LOADED = 4
    """An app or a file cannot be loaded."""
    UNREACHABLE = 5
    """A store or a scheduler cannot be reached."""
    REFUSED = 6
    """It was understood, and cannot be as things are."""
    TIMED_OUT = 7
    FINDINGS = 8
    """It was looked at, and something is not as it should be."""


class Refusal(TicklessError):
    """A question that has no answer. `word` names the kind for programs."""

    def __init__(self, code: Code, word: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.word = word


_KINDS: tuple[tuple[type[BaseException], Code, str], ...] = (
    (UnknownTask, Code.UNKNOWN, "unknown"),
    (StoreError, Code.UNREACHABLE, "store"),
    (SchedulerClosed, Code.UNREACHABLE, "closed"),
    (ForkedScheduler, Code.UNREACHABLE, "closed"),
    (RuleError, Code.USAGE, "time"),
    (ScheduleError, Code.REFUSED, "refused"),
    (TimeoutError, Code.TIMED_OUT, "timed_out"),
    (TicklessError, Code.REFUSED, "refused"),
)


def refusal_of(error: BaseException) -> Refusal:
    """What a command says of an error of ours."""
    if isinstance(error, Refusal):
        return error
    for kind, code, word in _KINDS:
        if isinstance(error, kind):
            return Refusal(code, word, str(error))
    return Refusal(Code.FAILED, "error", f"{type(error).__name__}: {error}")
