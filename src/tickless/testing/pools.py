"""Pools for tests: one that runs at once, and one that runs when it is told to. No threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tickless.errors import PoolError


class InlinePool(Executor):
    """Runs everything inside `submit`, in the thread that submits.

    With a `FakeClock` that is the thread of the test: all that is due has run when `advance`, or `schedule`, returns.
    One slot: what a task schedules for now runs after it, and not inside it.
    """

    tickless_slots = 1

    def __init__(self) -> None:
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that is done. Raises RuntimeError after `shutdown`, as the standard pools do."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        _fulfil(future, fn, args, kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True


class ManualPool(Executor):
    """Holds what is submitted until the test says run, one task's run at a time, in the thread of the test.

    `slots`: how many runs it is given at a time. What waits beyond that is READY in the scheduler, and so is what is
    held here: a run is RUNNING only inside `run_next`.
    """

    tickless_stay_runs = 1

    def __init__(self, slots: int = 1) -> None:
        if type(slots) is not int or slots < 1:
            raise PoolError(f"slots={slots!r}: needs a whole number of at least 1")
        self.tickless_slots = slots
        self._held: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """How many submits are held."""
        return len(self._held)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A future that is held. Raises RuntimeError after `shutdown`, as the standard pools do."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._held.append((future, fn, args, kwargs))
        return future

    def run_next(self) -> bool:
        """Run the oldest held submit: one run of a task, if one is ready still. False when nothing is held."""
        while self._held:
            future, fn, args, kwargs = self._held.popleft()
            if future.set_running_or_notify_cancel():
                _fulfil(future, fn, args, kwargs)
                return True
        return False

    def run_all(self, limit: int = 100_000) -> int:
        """Run until nothing is held, what that submits included; gives how many. PoolError after `limit` of them."""
        for count in range(limit):
            if not self.run_next():
                return count
        raise PoolError(f"run_all: {limit} submits and no end; a task schedules itself again and again")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more submits. With `cancel_futures` what is held is cancelled; else it may still be run."""
        self._closed = True
        while cancel_futures and self._held:
            future = self._held.popleft()[0]
            future.cancel()
            future.set_running_or_notify_cancel()


def _fulfil(future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - as the standard pools do: it goes to whoever asks the future
        future.set_exception(error)
    else:
        future.set_result(result)
