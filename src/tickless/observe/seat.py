"""The door where observers are looked over, once, so that nothing of them has to be asked again."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tickless.errors import ScheduleError, shown
from tickless.observe.throttle import Throttle
from tickless.records import EventKind

if TYPE_CHECKING:
    from tickless.observe import Observer


class Seat:
    """An observer, what it wants, and what is to be told of its failures."""

    __slots__ = ("failures", "kinds", "observer")

    def __init__(self, observer: Observer, kinds: frozenset[EventKind]) -> None:
        self.observer = observer
        self.kinds = kinds
        self.failures = Throttle()


def seats_of(observers: Iterable[Observer]) -> list[Seat]:
    if hasattr(observers, "observe") or not isinstance(observers, Iterable):
        raise ScheduleError(
            f"observers: needs a list of observers, not {shown(observers)}; for one write observers=[it]"
        )
    return [_seat_of(observer) for observer in observers]


def _seat_of(observer: Any) -> Seat:
    """Look an observer over at the door. Raises ScheduleError; what its own `kinds` raises passes."""
    if isinstance(observer, type):
        raise ScheduleError(f"observers: {observer.__name__} is a class; give an instance: {observer.__name__}()")
    observe, kinds = getattr(observer, "observe", None), getattr(observer, "kinds", None)
    if not callable(observe) or kinds is None:
        raise ScheduleError(
            f"observers: {shown(observer)} is no observer: it needs `kinds`, a frozenset of EventKind, and "
            "`observe(events)`; see tickless.testing.ObserverSuite"
        )
    for function in (observe, getattr(observe, "__call__", None)):  # noqa: B004  # an object with an async __call__
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            raise ScheduleError(
                f"observers: observe of {shown(observer)} is a coroutine or generator function: a call does nothing; "
                "make it a plain method that hands the events to your loop, e.g. by loop.call_soon_threadsafe"
            )
    return Seat(observer, _kinds_of(observer, kinds))


def _kinds_of(observer: object, kinds: object) -> frozenset[EventKind]:
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise ScheduleError(f"observers: kinds of {shown(observer)} needs a set of EventKind, not {shown(kinds)}")
    try:
        return frozenset(EventKind(kind) for kind in kinds)
    except ValueError as error:
        known = ", ".join(EventKind)
        raise ScheduleError(f"observers: kinds of {shown(observer)}: {error}; there are {known}") from None
