"""Threads that wait for the end of a task, or of all: in real time, whatever clock drives the tasks."""

from __future__ import annotations

from collections.abc import Callable
from threading import TIMEOUT_MAX

from tickless.bell import Bell
from tickless.clocks import SystemClock
from tickless.core.record import TaskRecord
from tickless.errors import NotStarted, ScheduleError, shown
from tickless.instants import SECOND_US, Instant
from tickless.stores import Store

_REAL = SystemClock()
_LONGEST_S = TIMEOUT_MAX / 2


def deadline_of(timeout: float | None) -> Instant | None:
    """When a wait of so many real seconds ends. Raises ScheduleError for what is no length of time."""
    if timeout is None:
        return None
    if type(timeout) not in (int, float) or not timeout >= 0:  # not by isinstance: True is an int too
        raise ScheduleError(
            f"timeout={shown(timeout)}: needs seconds, not negative, or None to wait for as long as it takes"
        )
    return Instant(_REAL.now() + int(min(timeout, _LONGEST_S) * 1e6))


def left_s(deadline: Instant | None) -> float | None:
    """How many real seconds are left until then; None for no deadline."""
    return None if deadline is None else max(0, deadline - _REAL.now()) / SECOND_US


def await_end(
    store: Store, task: TaskRecord | None, deadline: Instant | None, look: Callable[[], None], *, begun: bool = True
) -> bool:
    """Sleep until the task, or with None every task, has ended; False at the deadline. `look` is called before it.

    Raises NotStarted where nothing has begun and nothing would end.
    """
    bell = Bell()
    if not (store.await_idle(bell) if task is None else store.await_end(task, bell)):
        return True
    look()
    if not begun:
        store.forget_waiter(bell, task)
        raise NotStarted("the scheduler was never started, so nothing would end; call start(), or use `with`")
    now = _REAL.now
    while not bell.wait(None if deadline is None else min(max(0, deadline - now()) / SECOND_US, _LONGEST_S)):
        if deadline is not None and now() >= deadline:
            store.forget_waiter(bell, task)
            return False
    return True
