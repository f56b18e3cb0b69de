"""Instants, and the doors where numbers and datetimes become instants. Pure: no clock is read here."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import NewType, Protocol, runtime_checkable

from tickless.errors import RuleError, shown

Instant = NewType("Instant", int)
Instant.__doc__ = "Microseconds since 1970-01-01T00:00Z, as an int."

SECOND_US = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MIN_INSTANT = Instant((datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND)
MAX_INSTANT = Instant((datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND)
MAX_SPAN_US = int(MAX_INSTANT) - int(MIN_INSTANT)


def instant_of(when: datetime, what: str) -> Instant:
    """The instant of an aware datetime. `what` names the argument in errors.

    Raises RuleError for anything else: a naive datetime has no instant until somebody names its zone, and one that
    leaves the years 1 to 9999 on its way to UTC could not be shown again.
    """
    if not isinstance(when, datetime):
        raise RuleError(f"{what}: needs a datetime, not {shown(when)}")
    try:
        if when.utcoffset() is None:
            raise RuleError(
                f"{what}: {shown(when)} is naive; give it a zone, e.g. .replace(tzinfo=ZoneInfo('Europe/Berlin'))"
            )
        micros = (when - _EPOCH) // _MICROSECOND
    except OverflowError:  # some zones compute beyond the calendar in utcoffset
        micros = MAX_INSTANT + 1
    if not MIN_INSTANT <= micros <= MAX_INSTANT:
        raise RuleError(f"{what}: {shown(when)} is not within the years 1 to 9999 in UTC; choose a nearer time")
    return Instant(micros)


def datetime_of(instant: Instant) -> datetime:
    """The instant as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=instant)


def span_us(value: float | timedelta, what: str, unit_us: int = SECOND_US) -> int:
    """A span in whole microseconds from a number (of seconds, unless `unit_us` says else) or a timedelta.

    Zero is allowed, and the sign is not looked at. Raises RuleError for booleans, strings, NaN, infinities, and spans
    longer than the calendar.
    """
    number: float
    if type(value) is float or type(value) is int:
        number = value
    elif isinstance(value, timedelta):
        number, unit_us = value // _MICROSECOND, 1
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise RuleError(f"{what}: needs a number, or a timedelta, not {shown(value)}")
    else:
        number = value
    longest = MAX_SPAN_US // unit_us
    # One comparison finds NaN, the infinities and what is too long, before a product can overflow.
    if not -longest <= number <= longest:
        if isinstance(number, float) and not math.isfinite(number):
            raise RuleError(f"{what}: {shown(value)} is not a length of time")
        raise RuleError(f"{what}: {shown(value)} is longer than the calendar (years 1 to 9999)")
    return round(number * unit_us)


@runtime_checkable
class Waitable(Protocol):
    """What a clock sleeps on: see `tickless.bell.Bell`, the one in use."""

    def wait(self, timeout: float | None) -> bool:
        """Sleep until a ring (True) or for `timeout` seconds (False). A ring made before counts."""

    def ring(self) -> None:
        """End the wait that goes on, or the next one."""


@runtime_checkable
class Clock(Protocol):
    """Where time comes from. `tickless.testing.ClockSuite` is the contract as tests."""

    def now(self) -> Instant:
        """The wall clock at the start plus the time elapsed since: it never jumps, and counts suspend."""

    def wall(self) -> Instant:
        """The wall clock, which may be set."""

    def wait(self, bell: Waitable, until: Instant | None) -> None:
        """Sleep until `until` in `now()`, or a ring; for ever with None. May return early, never silently late."""

    def watch(self, bell: Waitable) -> AbstractContextManager[None]:
        """While inside, ring the bell whenever the wall clock is set or the machine wakes from suspend."""


@runtime_checkable
class DrivenClock(Clock, Protocol):
    """A clock that calls the dispatcher itself, so that no thread is needed: tests and simulation."""

    def drive(self, turn: Callable[[], Instant | None]) -> Callable[[], None]:
        """Call `turn` whenever time moves; it returns when it wants to be called next. Gives the way to stop."""
