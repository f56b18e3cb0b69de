"""The store: every task, and the few verbs by which it changes. No verb runs user code, sleeps, or reads a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tickless.core.record import Signs
from tickless.core.special import Asked
from tickless.instants import Instant
from tickless.policies import Pause
from tickless.records import EventKind, LimitInfo, Outcome, Run, TaskInfo
from tickless.round_info import RoundInfo
from tickless.rules import Rule
from tickless.states import DEFAULT_POOL, Cancelled, CatchUp, Exists


class Store(Protocol):
    """The one port that matters. `task` and `run` are the store's own records: opaque keys to everybody else.

    Verbs may be called from any thread. After any verb its caller looks at `signs`: when it stirred, are drainers worth
    starting, must the dispatcher be woken? A verb may also have settled what other threads handed over, so the answer
    is a fact of the store and not of the verb. `tickless.testing.StoreSuite` is the contract as tests.

    Clear a sign, then act on it: who sets it again after that has placed or pushed before, and will look too.
    """

    signs: Signs

    def ready_runs(self, pool: str = DEFAULT_POOL) -> int:
        """How many runs of that pool are ready and not taken."""

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

    def take(self, now: Instant, pool: str = DEFAULT_POOL) -> Any | None:
        """The next ready run of that pool, now RUNNING and the caller's; None when there is none.

        No lock and no wait, unless the task has a policy. Who takes a run with an alarm looks at `signs` afterwards.
        """

    def finish(self, run: Any, outcome: Outcome, now: Instant) -> bool:
        """The run has ended: re-arm or end its task, release or doom the children.

        False when nothing but this task has changed, so that there is nothing to look at afterwards.
        """

    def reject(self, error: str, now: Instant, pool: str = DEFAULT_POOL) -> bool:
        """No pool would take the next ready run: it is FAILED (rejected), or tried again. False when none is ready."""

    def pool_down(self, run: Any | None, pool: str = DEFAULT_POOL) -> bool:
        """That pool takes nothing any more, and so not `run` either, which was taken for it and has not begun.

        True where its runs can wait for another process, or another start: `ready_runs` and `take` have none for this
        one then. False where nothing lasts: each is to be rejected.
        """

    def cancel(self, task: Any, now: Instant) -> Cancelled:
        """Take the task's future away; what already runs is asked to stop. One compare-and-set decides."""

    def pause(self, scope: Any, pause: Pause, now: Instant, wall: Instant) -> int:
        """Hold what is of that scope: a task, a tag (str), or all (None). Gives how many tasks this made paused."""

    def resume(self, scope: Any, catch_up: CatchUp, now: Instant, wall: Instant) -> int:
        """End the pause of that scope. Gives how many tasks are paused no more."""

    def settings(self, task: Any) -> Any:
        """A copy of the task as its next run will find it, to be changed and given to `change`; None once it ended."""

    def change(self, changes: Sequence[tuple[Any, Any]], now: Instant, *, leave_out: bool = False) -> int:
        """Have each task become its `new` (see `settings`), at once or when the run that goes on has ended.

        Raises DependencyError where tasks would wait for a recurring one, and then none has changed; ScheduleError for
        one that has ended or runs for the only time, unless those are to be left out. Gives how many changed.
        """

    def run_now(self, task: Any, now: Instant, asked: Asked | None = None) -> Run:
        """Have it run now, beside its schedule. Gives that run. Raises ScheduleError, DependencyError.

        `asked`: what is said of the round, where it is a flow.
        """

    def backfill(self, task: Any, dues: Sequence[Instant], now: Instant, again: bool, dry_run: bool) -> list[Run]:
        """Have those of these fires run beside its plan, one after another, that have not (`again`: all). Gives their
        runs; with `dry_run` those that there would be. Raises ScheduleError.
        """

    def rounds(self, flow: Any) -> list[tuple[Any, str]]:
        """The rounds of a flow that are kept, as keys with their ids, oldest first; of any other task none."""

    def round_info(self, one: Any) -> RoundInfo:
        """The round as it is now; as it was, where it is forgotten."""

    def round_tasks(self, one: Any) -> list[Any]:
        """Its tasks, as keys, parents before their children; none before it was opened."""

    def busy_with(self, task: Any) -> set[int]:
        """The numbers of the task, and of those that live as long: what it is an occurrence of, and its round."""

    def missed(self, task: Any) -> tuple[Rule, Instant] | None:
        """The rule of a task that is busy or paused, and the fire after which its fires are skipped; else None."""

    def tagged(self, tag: str | None) -> list[Any]:
        """The live tasks that bear the tag, or all live ones, in the order of scheduling."""

    def pools(self) -> dict[str, tuple[int, int, int]]:
        """Pool -> how many runs are (ready, running, zombies)."""

    def limits(self) -> list[LimitInfo]:
        """Every limit, as it is now."""

    def stop_flag(self, run: Any) -> Any:
        """The run's stop flag, a `threading.Event`; set already if the stop was asked for before."""

    def zombies(self) -> int:
        """How many runs of this process had timed out, and have not returned."""

    def lease_lost(self, run: Any) -> bool:
        """Whether the run is not the caller's any more: its process was silent for longer than its lease."""

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

    def result_of(self, task: Any) -> Any:
        """What a task that has ended returned or raised, as far as it is kept; `NOT_SET` where it is not."""

    def tasks(self) -> list[TaskInfo]:
        """All live tasks and the finished ones that are still listed, in the order of scheduling."""

    def runs(self, task: Any, limit: int | None = None) -> list[Run]:
        """The task's newest runs that are kept, oldest first."""

    def live(self) -> list[Any]:
        """Every task that has not ended, as keys."""

    def running(self) -> list[Run]:
        """Every run that runs."""
