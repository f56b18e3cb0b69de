"""The store: every task, and the few verbs by which it changes. No verb runs user code, sleeps, or reads a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tickless.core.record import Signs
from tickless.instants import Instant
from tickless.records import EventKind, Outcome, Run, TaskInfo
from tickless.states import Cancelled, Exists


class Store(Protocol):
    """The one port that matters. `task` and `run` are the store's own records: opaque keys to everybody else.

    Verbs may be called from any thread. After any verb its caller looks at `signs`: when it stirred, are drainers worth
    starting, must the dispatcher be woken? A verb may also have settled what other threads handed over, so the answer
    is a fact of the store and not of the verb. `tickless.testing.StoreSuite` is the contract as tests.

    Clear a sign, then act on it: who sets it again after that has placed or pushed before, and will look too.
    """

    signs: Signs

    def ready_runs(self) -> int:
        """How many runs are ready and not taken."""

    def listen(self, post: Callable[..., None], wants: frozenset[EventKind]) -> None:
        """Post events of these kinds from now on: `Journal.post`, which may be called under a lock."""

    def open(self) -> None:
        """From now on what is due at once becomes ready at once, without a turn of the dispatcher."""

    def add(self, task: Any, now: Instant) -> None:
        """Enter a new task. O(log n).

        Raises DuplicateId, DependencyError (unknown, own or recurring parent) or SchedulerClosed, and then nothing has
        changed.
        """

    def add_many(self, tasks: Sequence[Any], now: Instant) -> None:
        """Enter a batch, all or nothing, whose members may be one another's parents; a cycle is a DependencyError."""

    def add_or(self, exists: Exists, task: Any, now: Instant) -> Any:
        """Enter a task unless its id is listed: then "keep" or "update" that one. Gives the one that is there now."""

    def due(self, now: Instant, wall: Instant, limit: int = ...) -> bool:
        """Make ready what is due, in order. True when the batch was full, so that more may be due."""

    def next_wake(self) -> Instant | None:
        """The instant of the earliest entry, None without one. From here on `signs.earlier` tells of any before it."""

    def take(self, now: Instant) -> Any | None:
        """The next ready run, now RUNNING and the caller's; None when there is none. No lock, no wait."""

    def finish(self, run: Any, outcome: Outcome, now: Instant) -> bool:
        """The run has ended: re-arm or end its task, release or doom the children.

        False when nothing but this task has changed, so that there is nothing to look at afterwards.
        """

    def reject(self, error: str, now: Instant) -> bool:
        """No pool would take the next ready run: it is FAILED (rejected). False when none is ready."""

    def cancel(self, task: Any, now: Instant) -> Cancelled:
        """Take the task's future away; what already runs is asked to stop. One compare-and-set decides."""

    def stop_flag(self, run: Any) -> Any:
        """The run's stop flag, a `threading.Event`; set already if the stop was asked for before."""

    def stop_running(self) -> None:
        """Ask every run that runs to stop."""

    def close(self, now: Instant) -> None:
        """No new tasks, no new fires: what waits is CANCELLED (closed), what runs may end. Twice is once."""

    def await_end(self, task: Any, waiter: Any) -> bool:
        """Have `waiter.ring()` called when the task ends. False when it has ended: then it may not be."""

    def await_idle(self, waiter: Any) -> bool:
        """Have `waiter.ring()` called when no task lives. False when none does: then it may not be."""

    def forget_waiter(self, waiter: Any, task: Any | None) -> None:
        """The waiter gave up (`task` None: on idleness)."""

    def find(self, id: str) -> Any:
        """The task of that id. Raises UnknownTask."""

    def get(self, task: Any) -> TaskInfo:
        """The task as it is now."""

    def tasks(self) -> list[TaskInfo]:
        """All live tasks and the finished ones that are still listed, in the order of scheduling."""

    def runs(self, task: Any, limit: int | None = None) -> list[Run]:
        """The task's newest runs that are kept, oldest first."""

    def live(self) -> list[Any]:
        """Every task that has not ended, as keys."""

    def running(self) -> list[Run]:
        """Every run that runs."""
