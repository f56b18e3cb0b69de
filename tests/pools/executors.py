"""Executors as users bring them: strange, slow, broken."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

PATIENCE_S = 30.0


class Held(Executor):
    """Holds what is submitted until the test runs it, one by one. Knows no slots: it is for `Pool(held, slots=n)`."""

    def __init__(self) -> None:
        self.held: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.submits = 0
        self._came = threading.Condition()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._came:
            self.submits += 1
            self.held.append((future, lambda: fn(*args, **kwargs)))
            self._came.notify_all()
        return future

    def await_one(self, count: int = 1) -> None:
        """Block until so many are held."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.held) >= count, PATIENCE_S)

    def run_next(self) -> None:
        future, call = self.held.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - as the standard pools do
            future.set_exception(error)
        else:
            future.set_result(result)

    def break_next(self, error: BaseException) -> None:
        """The oldest one ends with an error of the pool, and never ran."""
        self.held.popleft()[0].set_exception(error)

    def drop_next(self) -> None:
        """The oldest one is cancelled, as by `shutdown(cancel_futures=True)`."""
        future = self.held.popleft()[0]
        future.cancel()
        future.set_running_or_notify_cancel()


class Refusing(ThreadPoolExecutor):
    """A thread pool whose submit raises where `refuses(n)` gives an error for the n-th submit, counted from 1."""

    def __init__(self, workers: int, refuses: Callable[[int], BaseException | None]) -> None:
        super().__init__(workers)
        self.refuses = refuses
        self.submits = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submits += 1
        error = self.refuses(self.submits)
        if error is not None:
            raise error
        return super().submit(fn, *args, **kwargs)


class Blocking(ThreadPoolExecutor):
    """A thread pool whose first submit blocks until the test opens the gate, as a full queue does."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.entered, self.gate = threading.Event(), threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.entered.set()
        assert self.gate.wait(PATIENCE_S)
        return super().submit(fn, *args, **kwargs)


class Eager(Executor):
    """Runs everything inside `submit`. Knows no slots."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - as the standard pools do
            future.set_exception(error)
        else:
            future.set_result(result)
        return future


class Threads(Executor):
    """Threads of its own, but no ThreadPoolExecutor, so it is not drained. Knows no slots."""

    def __init__(self, workers: int) -> None:
        self.inner = ThreadPoolExecutor(workers)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self.inner.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.inner.shutdown(wait, cancel_futures=cancel_futures)
