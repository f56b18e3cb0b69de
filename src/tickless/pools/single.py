"""The hand for every other executor: one submit per run, at most `slots` at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any, Protocol

from tickless.pools import Pool


class Desk(Protocol):
    """What the hand asks of the worker's side: it knows runs, the hand knows futures."""

    def take(self) -> Any | None:
        """The next ready run, now RUNNING; None when there is none."""

    def is_timed(self, run: Any) -> bool:
        """Whether it has a deadline, for which the dispatcher must be woken once it is taken."""

    def call_of(self, run: Any) -> tuple[Any, ...]:
        """What to submit for it: a function and its arguments. Raises what the run failed with before it began."""

    def returned(self, run: Any, value: Any) -> None:
        """It returned."""

    def raised(self, run: Any, error: BaseException) -> None:
        """It raised."""

    def refused(self, run: Any, error: BaseException) -> None:
        """The pool did not take it."""

    def rejected(self, run: Any, error: BaseException) -> None:
        """The pool took it, and dropped it: it may have begun."""


class SingleHand:
    """`more` is called after a slot was given back, and for a run with a deadline: it has `start` called.

    On another thread, if there is one: a callback may come while the executor holds a lock of its own that `submit`
    would wait for.
    """

    def __init__(self, pool: Pool, *, desk: Desk, ready: Callable[[], int], more: Callable[[], None]) -> None:
        self._executor: Executor = pool.executor
        self._desk = desk
        self._ready = ready
        self._more = more
        self.free: deque[None] = deque([None] * pool.slots)
        """One token a slot."""

    def start(self, spare: int = 0) -> None:
        """Submit what is ready while there is room. Nothing is spared: no caller takes a run itself here."""
        while self._ready():
            try:
                self.free.pop()
            except IndexError:
                return
            run = self._desk.take()
            if run is None:
                self.free.append(None)
                continue
            timed = self._desk.is_timed(run)
            self._submit(run)
            if timed:
                self._more()

    def _submit(self, run: Any) -> None:
        try:
            call = self._desk.call_of(run)
        except Exception as error:  # noqa: BLE001 - an output that is not there: the run's failure, not ours
            self.free.append(None)
            self._desk.raised(run, error)
            return
        try:
            future = self._executor.submit(*call)
        except BaseException as error:
            self.free.append(None)
            self._desk.refused(run, error)
            if not isinstance(error, Exception):
                raise
            return
        future.add_done_callback(lambda future: self._done(run, future))

    def _done(self, run: Any, future: Future[Any]) -> None:
        desk, error = self._desk, None
        try:
            # Not by `result()`, which would raise it here: its traceback would begin with frames that are not its own.
            try:
                error = future.exception()
            except BaseException as cancelled:  # noqa: BLE001 - or what a future of another make raises
                error = cancelled
            if error is None:
                desk.returned(run, future.result())
            elif issubclass(type(error), BrokenExecutor) or future.cancelled():
                desk.rejected(run, error)
            else:
                desk.raised(run, error)
        finally:
            del error
            self.free.append(None)
            self._more()
