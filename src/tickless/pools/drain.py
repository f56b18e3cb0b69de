"""The hand for thread pools: at most `slots` drainers are submitted, and each takes ready runs until none is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import get_ident
from typing import Any

from tickless.pools import Pool


class DrainHand:
    """`stay` is one drainer's stay in the pool, `ready` how many runs wait; `reject` ends one that no pool takes."""

    def __init__(
        self, pool: Pool, *, stay: Callable[[], None], ready: Callable[[], int], reject: Callable[[BaseException], bool]
    ) -> None:
        self._executor: Executor = pool.executor
        self._slots = pool.slots
        self._stay = stay
        self._ready = ready
        self._reject = reject
        self.free: deque[None] = deque([None] * pool.slots)
        """One token a slot: to pop one is to hold the right to submit a drainer."""
        self._submitting: set[int] = set()

    def start(self, spare: int = 0) -> None:
        """Submit as many drainers as there are runs for, and slots.

        An inline pool runs the drainer inside `submit`; when that leaves and looks again, this loop is still there and
        looks for it, so that a long queue is no deep recursion.
        """
        me = get_ident()
        if me in self._submitting:
            return
        self._submitting.add(me)
        try:
            started = 0
            while self._ready() > spare + started:
                try:
                    self.free.pop()
                except IndexError:
                    return
                future = self._submit()
                if future is None:
                    return
                if not future.done():
                    started += 1
        finally:
            self._submitting.discard(me)

    def _submit(self) -> Future[Any] | None:
        """The drainer's future. A refusal costs the next ready run, and the one after that is tried.

        None when the refusal costs nothing: other drainers are at work, and will take what is ready before they leave.
        """
        while True:
            try:
                future = self._executor.submit(self._drain)
            except BaseException as error:
                self.free.append(None)
                if not isinstance(error, Exception):
                    self._reject(error)
                    raise
                if len(self.free) < self._slots or not self._reject(error):
                    return None
                try:
                    self.free.pop()
                except IndexError:
                    return None
            else:
                future.add_done_callback(self._after)
                return future

    def _drain(self) -> None:
        try:
            self._stay()
        finally:
            # Give the slot back, then look: a run that became ready before this saw no free slot.
            self.free.append(None)
            self.start()

    def _after(self, future: Future[Any]) -> None:
        """A drainer that never came: its future was cancelled, as a pool does that is shut down with cancel_futures."""
        if future.cancelled():
            self.free.append(None)
            self.start()
