"""`Retry` and `Limit`, as users write them: checked where they are made, since a wrong one shows at night only."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, final

from tickless.errors import RuleError, ScheduleError, Stopped, shown
from tickless.instants import MAX_INSTANT, Instant, span_us

MIN_PER_US = 1_000
MOST = 1_000_000_000
"""More attempts, runs at once or starts than any program sees."""
_NEVER = (SystemExit, KeyboardInterrupt, GeneratorExit, Stopped)

# Not `cls.__mro__`: a metaclass may answer that one with code of its own.
_mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__


@final
@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How often a run that fails is tried, and how long it waits before it is tried again.

    `attempts` counts the first try. The n-th retry waits `delay * factor ** (n - 1)`, and a part of `jitter` on top
    that is drawn from the task and its fire; never more than `max_delay` in all. Times are seconds, or timedeltas.
    `on`: one exception class or a tuple of them; a subclass counts, as for `except`. `give_up_on` wins over it.
    A run that timed out or was rejected has failed, too. SystemExit, KeyboardInterrupt, GeneratorExit and Stopped are
    never retried.

    Two are equal when they mean the same. Raises ScheduleError for a number that cannot be, and for what is no
    exception class.
    """

    attempts: int
    delay: float | timedelta = field(compare=False)
    factor: float
    max_delay: float | timedelta = field(compare=False)
    jitter: float | timedelta = field(compare=False)
    on: tuple[type[BaseException], ...]
    give_up_on: tuple[type[BaseException], ...]
    delay_us: int = field(init=False, repr=False)
    max_delay_us: int = field(init=False, repr=False)
    jitter_us: int = field(init=False, repr=False)

    def __init__(
        self,
        attempts: int,
        delay: float | timedelta = 1.0,
        factor: float = 2.0,
        max_delay: float | timedelta = 3600.0,
        jitter: float | timedelta = 0.0,
        on: type[BaseException] | tuple[type[BaseException], ...] = Exception,
        give_up_on: type[BaseException] | tuple[type[BaseException], ...] = (),
    ) -> None:
        write = object.__setattr__  # the one place that writes the fields of a frozen value
        write(self, "attempts", _whole("Retry(attempts=", attempts, "and counts the first try"))
        for name, given in (("delay", delay), ("max_delay", max_delay), ("jitter", jitter)):
            write(self, name, given)
            write(self, f"{name}_us", _not_negative_us(f"Retry({name}=", given))
        write(self, "factor", _factor(factor))
        write(self, "on", _exceptions("on", on))
        write(self, "give_up_on", _exceptions("give_up_on", give_up_on))


@final
@dataclass(frozen=True, slots=True, init=False)
class Limit:
    """What the tasks that name it share: at most `running` of them at once, and `starts` starts in any `per` seconds.

    The window slides: whichever stretch of that length one looks at holds no more starts. `per` without `starts`
    takes the number of `running`. Given as `Scheduler(limits=[Limit("db", running=2)])`, used as `limit="db"`.

    Two are equal when they mean the same. Raises ScheduleError for a number that cannot be, and for one that
    limits nothing.
    """

    name: str
    running: int | None
    starts: int | None = field(compare=False)
    per: float | timedelta | None = field(compare=False)
    most_starts: int | None = field(init=False, repr=False)
    """How many starts the window holds; None when starts are not limited."""
    per_us: int | None = field(init=False, repr=False)

    def __init__(
        self,
        name: str,
        running: int | None = None,
        starts: int | None = None,
        per: float | timedelta | None = None,
    ) -> None:
        if type(name) is not str or not name:
            raise ScheduleError(f'Limit(name={shown(name)}): needs the name that tasks say, as in limit="db"')
        if running is not None:
            _whole(f"Limit({shown(name)}, running=", running)
        if starts is not None:
            _whole(f"Limit({shown(name)}, starts=", starts)
        if starts is not None and per is None:
            raise ScheduleError(f"Limit({shown(name)}, starts={starts}): in which time? give per= as well, in seconds")
        if running is None and starts is None:
            raise ScheduleError(
                f"Limit({shown(name)}): limits nothing yet; give running=, or starts= with per=, or all three"
            )
        write = object.__setattr__
        write(self, "name", name)
        write(self, "running", running)
        write(self, "starts", starts)
        write(self, "per", per)
        write(self, "most_starts", None if per is None else starts if starts is not None else running)
        write(self, "per_us", None if per is None else _per_us(name, per))


def is_retriable(retry: Retry | None, error: object) -> bool:
    """Whether this failure is one that the user wants tried again; how often it has been tried is not looked at.

    Decided as `except` does, by the classes that the error's type derives from. None of the error's own code runs,
    nor of its class's: this is asked under a lock.
    """
    if retry is None:
        return False
    classes = _mro_of(type(error))
    return (
        _shares_one(classes, retry.on)
        and not _shares_one(classes, retry.give_up_on)
        and not _shares_one(classes, _NEVER)
    )


def in_window(starts: Sequence[Instant], per_us: int, now: Instant) -> int:
    """How many of these starts, the oldest first, still count: those less than `per_us` ago."""
    return len(starts) - bisect_right(starts, now - per_us)


def free_at(starts: Sequence[Instant], reserved: int, limit: Limit, now: Instant) -> Instant | None:
    """When the rate of the limit lets another start: `now`, or when enough of these starts, the oldest first, are past.

    `reserved` have their permit and have not started. None: they alone fill the window, so one must start first.
    """
    if limit.most_starts is None or limit.per_us is None:
        return now
    room = limit.most_starts - reserved
    if room <= 0:
        return None
    if in_window(starts, limit.per_us, now) < room:
        return now
    return min(Instant(starts[-room] + limit.per_us), MAX_INSTANT)


def _shares_one(classes: tuple[type, ...], wanted: tuple[type, ...]) -> bool:
    """Like `in`, but by identity alone: `==` of two classes is their metaclass's code."""
    return any(one is other for other in wanted for one in classes)


def _whole(what: str, value: int, also: str = "") -> int:
    if type(value) is not int or value < 1:
        raise ScheduleError(f"{what}{shown(value)}): needs a whole number, at least 1{', ' + also if also else ''}")
    if value > MOST:
        raise ScheduleError(f"{what}{shown(value)}): needs a whole number, at most {MOST:,}")
    return value


def _time_us(what: str, value: Any) -> int:
    """The time in microseconds. The type is looked at first: `isinstance` would ask a foreign object who it is."""
    kind = type(value)
    if kind is bool or not issubclass(kind, int | float | timedelta):
        raise ScheduleError(f"{what}{shown(value)}): needs seconds, or a timedelta")
    try:
        return span_us(value, f"{what})")
    except RuleError as error:
        raise ScheduleError(str(error)) from None


def _not_negative_us(what: str, value: object) -> int:
    time_us = _time_us(what, value)
    if time_us < 0:
        raise ScheduleError(f"{what}{shown(value)}): nobody waits less than no time; needs seconds, 0 or more")
    return time_us


def _per_us(name: str, per: object) -> int:
    per_us = _time_us(f"Limit({shown(name)}, per=", per)
    if per_us < MIN_PER_US:
        raise ScheduleError(f"Limit({shown(name)}, per={shown(per)}): the time must be at least 1 ms, in seconds")
    return per_us


def _factor(factor: Any) -> float:
    """As a float: powers of an int grow to a million digits."""
    kind = type(factor)
    number = math.nan
    if kind is not bool and issubclass(kind, int | float):
        try:
            number = float(factor)
        except OverflowError:
            number = math.inf
    if not 1 <= number < math.inf:
        raise ScheduleError(
            f"Retry(factor={shown(factor)}): each wait is that many times the one before; needs a number, at least 1"
        )
    return number


def _exceptions(name: str, given: object) -> tuple[type[BaseException], ...]:
    classes: tuple[Any, ...] = given if type(given) is tuple else (given,)
    for one in classes:
        if not issubclass(type(one), type) or not _shares_one(_mro_of(one), (BaseException,)):
            raise ScheduleError(
                f"Retry({name}={shown(given)}): needs an exception class, or a tuple of them, "
                f"e.g. {name}=(OSError, TimeoutError)"
            )
    return classes
