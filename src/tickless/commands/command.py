"""`Command`: what a task runs that is no Python."""

from __future__ import annotations

import signal
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tickless.errors import ScheduleError, TicklessError
from tickless.instants import SECOND_US
from tickless.records import Run

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_KILL_AFTER_US = 5 * SECOND_US


class CommandFailed(TicklessError):
    """A command that could not be started, or ended with a code that is none of its `success_codes`, or by a signal."""


class Place(Protocol):
    """Where works begin: see `children.Children`."""

    def begin(self, command: Command, failed: Run | None) -> Future[None]: ...

    def begin_call(self, call: Callable[[], Any]) -> Future[Any]: ...


here: ContextVar[Place | None] = ContextVar("tickless_children", default=None)
"""The place whose thread calls a work just now."""


def place() -> Place:
    """The place that a work is called in. Raises CommandFailed where there is none."""
    found = here.get()
    if found is None:
        raise CommandFailed("a command runs in a pool of commands only: Pool(Children(slots), slots=slots)")
    return found


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the system. As a work it is called in the thread of its pool, starts a process and gives a future
    of its end.
    """

    run: str | tuple[str, ...]
    """A text goes to the shell, a tuple is executed as it is."""
    shell: str = "/bin/sh"
    env: tuple[tuple[str, str], ...] = ()
    """Added to the environment of tickless."""
    cwd: str | None = None
    stdin: str | None = None
    """Given on standard input; None: there is nothing to read."""
    user: str | None = None
    """Whose it runs as; only root may say another than itself."""
    success_codes: tuple[int, ...] = (0,)
    kill_after_us: int = DEFAULT_KILL_AFTER_US
    """How long after SIGTERM its process group is killed."""

    def __post_init__(self) -> None:
        """Raises ScheduleError where nothing is there to run."""
        if not self.run or (type(self.run) is tuple and not self.run[0]):
            raise ScheduleError(
                f"Command(run={self.run!r}): needs a text for the shell, or a program and its arguments"
            )

    def __call__(self, *failed: Run) -> Future[None]:
        """Start it. `failed`: the run that it is called about, as an `on_failure`."""
        return place().begin(self, failed[0] if failed else None)

    @property
    def arguments(self) -> list[str]:
        """What is executed."""
        return [self.shell, "-c", self.run] if isinstance(self.run, str) else list(self.run)

    def __str__(self) -> str:
        return self.run if isinstance(self.run, str) else " ".join(self.run)


def ending_of(code: int | None, command: Command) -> str | None:
    """What went wrong, of an exit code; None where nothing did. Negative: the number of a signal. None: it is lost."""
    if code is None:
        return "its exit code is lost: this process ignores SIGCHLD, or reaps the children of others; have it not do so"
    if code in command.success_codes:
        return None
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"
