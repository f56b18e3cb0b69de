"""What every door asks of an argument: is it a text, a whole number, one of these, several?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tickless.errors import ScheduleError, shown
from tickless.instants import Clock

T = TypeVar("T")


def plain_text(value: object) -> str | None:
    """The text as a plain `str`; None for what is no text.

    The methods of a subclass are foreign code, and would be called wherever an id is looked up: under the lock. Nor is
    `isinstance` asked, since it believes what an object says of itself.
    """
    if type(value) is str:
        return value
    if not issubclass(type(value), str):
        return None
    return str.__str__(value)


def text(what: str, value: object) -> str:
    """The text as a plain `str`. Raises ScheduleError for what is none, or is empty."""
    plain = plain_text(value)
    if not plain:
        raise ScheduleError(f"{what}={shown(value)}: needs a text of at least one character")
    return plain


def one_of(what: str, value: object, known: Iterable[str]) -> str:
    """The text as a plain `str`. Raises ScheduleError for what is not among the known ones, and names them."""
    plain = plain_text(value)
    if plain is None or plain not in known:
        raise ScheduleError(f"{what}={shown(value)}: needs one of {', '.join(known)}")
    return plain


def whole(what: str, value: object) -> None:
    """Raises ScheduleError for what is no number of things to keep or to list."""
    if type(value) is not int or not 0 <= value <= sys.maxsize:
        raise ScheduleError(f"{what}={shown(value)}: needs a whole number, not negative, and at most {sys.maxsize}")


def counted(what: str, value: object) -> int:
    """The number. Raises ScheduleError for what is no whole number of at least 1."""
    if type(value) is not int or value < 1:  # not by isinstance: True is an int too
        raise ScheduleError(f"{what}={shown(value)}: needs a whole number, at least 1")
    return value


def listed(what: str, several: Iterable[T]) -> list[T]:
    """The things in a list. Raises ScheduleError for a single one."""
    try:
        return list(several)
    except TypeError:
        raise ScheduleError(f"{what}={shown(several)}: needs several, so put it in a list") from None


def iterated(what: str, several: Iterable[T]) -> Iterator[T]:
    """The things one by one, as they come. Raises ScheduleError for a single one."""
    try:
        return iter(several)
    except TypeError:
        raise ScheduleError(f"{what}({shown(several)}): needs several, so put them in a list") from None


def checked_clock(clock: Clock) -> Clock:
    """The clock itself. Raises ScheduleError."""
    if isinstance(clock, type) or not isinstance(clock, Clock):
        raise ScheduleError(f"clock={shown(clock)}: needs a Clock: now(), wall(), wait(bell, until), watch(bell)")
    return clock
