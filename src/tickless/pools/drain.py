"""The hand for thread pools: at most `slots` drainers are submitted, and each takes ready runs until none is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import get_ident
from typing import Any

from tickless.pools import Pool


class DrainHand:
    """`stay` is one drainer's stay in the pool, `ready` how many runs wait; `reject` ends one that no pool takes,
    and says whether there was one.

    `more` has `start` called, on another thread if there is one: see `_after`.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        stay: Callable[[], None],
        ready: Callable[[], int],
        reject: Callable[[BaseException], bool],
        more: Callable[[], None],
    ) -> None:
        self._executor: Executor = pool.executor
        self._slots = pool.slots
        self._stay = stay
        self._ready = ready
        self._reject = reject
        self._more = more
        self.free: deque[None] = deque([None] * pool.slots)
        """One token a slot: to pop one is to hold the right to submit a drainer."""
        self._coming: deque[None] = deque()
        """One token a drainer that was submitted and has not begun: it will take one of the ready runs."""
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
            while self._ready() > spare + len(self._coming):
                try:
                    self.free.pop()
                except IndexError:
                    return
                if not self._submit():
                    return
        finally:
            self._submitting.discard(me)

    def _submit(self) -> bool:
        """Submit a drainer. A refusal costs the next ready run, so that a pool that is closed for good ends them all.

        False when it costs nothing: others are at work, and will take what is ready before they leave.
        """
        self._coming.append(None)
        begun: list[bool] = []
        try:
            future = self._executor.submit(self._drain, begun)
        except BaseException as error:
            self._coming.pop()
            self.free.append(None)
            if not isinstance(error, Exception):
                self._reject(error)
                raise
            return len(self.free) == self._slots and self._reject(error)
        future.add_done_callback(lambda future: None if begun else self._never_began(future))
        return True

    def _drain(self, begun: list[bool]) -> None:
        begun.append(True)
        self._coming.pop()
        try:
            self._stay()
        finally:
            # Give the slot back, then look: a run that became ready before this saw no free slot.
            self.free.append(None)
            self.start()

    def _never_began(self, future: Future[Any]) -> None:
        """The pool was shut down with `cancel_futures`; or it broke, say in its initializer: that costs a run its end.

        A ThreadPoolExecutor tells so while it holds the lock that `submit` takes: to submit from here would hang.
        """
        self._coming.pop()
        self.free.append(None)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._reject(error)
        self._more()
