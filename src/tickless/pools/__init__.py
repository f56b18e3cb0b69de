"""What we ask of an Executor, and the two hands that feed one: drain (threads), one submit per run (all others)."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from typing import Protocol, final

from tickless.errors import PoolError, shown

__all__ = ["Hand", "Pool", "checked_slots", "is_gone", "pool_of"]


MOST_SLOTS = 1_000_000
"""More runs at a time than any executor bears."""


@final
class Pool:
    """An executor, and how many runs it is given at a time.

    A `ThreadPoolExecutor` knows its slots (its workers) and is *drained*: at most `slots` submits are in flight, and
    each takes ready runs until none is left. Any other executor gets one submit per run, so its work and arguments
    must be what it can carry (for processes: picklable), and a run is RUNNING from the submit on.

    Raises PoolError for what is not an executor, or when `slots` is missing or not a whole number of at least 1.
    tickless never closes an executor that it did not make.
    """

    __slots__ = ("drained", "executor", "slots")

    def __init__(self, executor: Executor, slots: int | None = None) -> None:
        if not callable(getattr(executor, "submit", None)):
            raise PoolError(f"pool {shown(executor)}: needs a concurrent.futures.Executor; it has no submit")
        own = getattr(executor, "tickless_slots", None)
        if own is None and isinstance(executor, ThreadPoolExecutor):
            own = getattr(executor, "_max_workers", None)  # it has no public name; if it goes, `slots` must be given
        if slots is None:
            slots = own
        if slots is None:
            raise PoolError(
                f"pool {type(executor).__name__}: how many runs may it have at a time? Wrap it: Pool(executor, slots=8)"
            )
        self.executor = executor
        self.slots = checked_slots(slots)
        self.drained = own is not None

    def __repr__(self) -> str:
        return f"Pool({type(self.executor).__name__}, slots={self.slots})"


def checked_slots(slots: int) -> int:
    """The number itself. Raises PoolError for what is no number of runs at a time."""
    if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
        raise PoolError(f"slots={shown(slots)}: needs a whole number from 1 to {MOST_SLOTS:,}")
    return slots


def pool_of(given: Executor | Pool, slots: int | None) -> Pool:
    """The pool as the scheduler was given it. Raises PoolError."""
    if not isinstance(given, Pool):
        return Pool(given, slots)
    return given if slots is None else Pool(given.executor, slots)


def is_gone(error: BaseException) -> bool:
    """Whether what `submit` raised says that the executor never takes anything again: it broke, or was shut down.

    By the words, since the standard executors raise a plain RuntimeError after a shutdown, and one for a thread that
    cannot be started, too, which can the next time.
    """
    return isinstance(error, BrokenExecutor) or (isinstance(error, RuntimeError) and "shutdown" in str(error))


class Hand(Protocol):
    """Feeds one pool. Called by any thread, never under a lock."""

    @property
    def free(self) -> object:
        """Truthy while another submit may be made."""

    def start(self, spare: int = 0) -> None:
        """Have the pool take what is ready, but for `spare` runs that the caller takes itself."""
