"""`Retry`: what it refuses, what it retries, and how long it waits."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickless.errors import ScheduleError, Stopped, TaskRejected
from tickless.instants import MAX_INSTANT, SECOND_US, Instant
from tickless.policies import jitter_of, next_attempt, retry_delay_us
from tickless.testing.drafts import NOON_US, later
from tickless.values import Retry, is_retriable

S = SECOND_US


class Foreign:
    """Says that it is whatever it is asked for, and cannot be shown or compared."""

    __class__ = property(lambda self: 1 / 0)

    def __repr__(self) -> str:
        raise ValueError

    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __bool__ = __repr__  # type: ignore[assignment]


def made(value: Any) -> Any:
    """pytest itself asks parameters who they are: a foreign one is made within the test."""
    return Foreign() if value is Foreign else value


# What is refused


def test_what_was_given_can_be_read_again() -> None:
    """In a log, in a forecast, and in the message of a refusal."""
    retry = Retry(3, delay=timedelta(minutes=1), max_delay=600, jitter=0.5, on=(OSError, ValueError))
    assert repr(retry) == (
        "Retry(attempts=3, delay=datetime.timedelta(seconds=60), factor=2.0, max_delay=600, jitter=0.5, "
        "on=(<class 'OSError'>, <class 'ValueError'>), give_up_on=())"
    )
    assert (retry.delay_us, retry.max_delay_us, retry.jitter_us) == (60 * S, 600 * S, S // 2)


def test_it_is_a_value() -> None:
    """It crosses processes, is a key, and does not change under the store that holds it."""
    retry = Retry(3, delay=60, on=OSError)
    for same in (
        Retry(3, delay=timedelta(minutes=1), on=(OSError,)),
        pickle.loads(pickle.dumps(retry)),
        copy.deepcopy(retry),
    ):
        assert same == retry
        assert hash(same) == hash(retry)
        assert same.delay_us == 60 * S
    assert retry != Retry(3, delay=61, on=OSError)
    assert not hasattr(retry, "__dict__")
    with pytest.raises(FrozenInstanceError):
        retry.attempts = 4  # type: ignore[misc]


@pytest.mark.parametrize("attempts", [0, -1, 1.0, True, "3", None, math.nan, Foreign], ids=lambda v: type(v).__name__)
def test_attempts_are_whole_and_at_least_one(attempts: Any) -> None:
    """`attempts=True` is a slip of the pen, and 0 would mean never to run at all."""
    with pytest.raises(ScheduleError, match=r"^Retry\(attempts=.*\): needs a whole number, at least 1, and counts"):
        Retry(made(attempts))


BAD_TIMES = [-1, -0.5, timedelta(seconds=-1), math.nan, math.inf, -math.inf, True, "1", None, 10**400, Foreign, [1]]


@pytest.mark.parametrize("name", ["delay", "max_delay", "jitter"])
@pytest.mark.parametrize("value", BAD_TIMES, ids=lambda value: type(value).__name__)
def test_times_are_lengths_of_time(name: str, value: Any) -> None:
    """Else the first failure at night finds out."""
    with pytest.raises(ScheduleError, match=rf"^Retry\({name}=.*\): "):
        Retry(3, **{name: made(value)})


@pytest.mark.parametrize("factor", [0.5, 0, -2, math.nan, math.inf, True, "2", None, 10**400, timedelta(2), Foreign])
def test_a_factor_is_a_number_from_one_up(factor: Any) -> None:
    """A wait that shrinks is a storm."""
    with pytest.raises(ScheduleError, match=r"^Retry\(factor=.*\): .* needs a number, at least 1$"):
        Retry(3, factor=made(factor))


NOT_EXCEPTIONS = [int, object, OSError("x"), "OSError", None, [OSError], (OSError, int), ((OSError,),), Foreign, 5]


@pytest.mark.parametrize("name", ["on", "give_up_on"])
@pytest.mark.parametrize("value", NOT_EXCEPTIONS, ids=lambda value: type(value).__name__)
def test_only_exception_classes_can_be_retried(name: str, value: Any) -> None:
    """`except int` is found out when it is too late, this is not."""
    with pytest.raises(
        ScheduleError, match=rf"^Retry\({name}=.*\): needs an exception class, or a tuple of them, e\.g"
    ):
        Retry(3, **{name: made(value)})


def test_messages_say_the_way_out() -> None:
    """In full, once."""
    with pytest.raises(ScheduleError, match=r"^Retry\(delay=-1\): nobody waits less than no time; needs seconds, 0 or"):
        Retry(3, delay=-1)
    with pytest.raises(ScheduleError, match=r"^Retry\(delay='1'\): needs seconds, or a timedelta$"):
        Retry(3, delay="1")  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match=r"^Retry\(jitter=\): nan is not a length of time$"):
        Retry(3, jitter=math.nan)


# What is retried


class Meta(type):
    """A metaclass whose every answer is code of its own."""

    __mro__ = property(lambda cls: 1 / 0)

    def __eq__(cls, other: object) -> bool:
        raise AssertionError("asked under a lock")

    __hash__ = __instancecheck__ = __subclasscheck__ = __eq__  # type: ignore[assignment]


class Odd(ValueError, metaclass=Meta):
    """Claims to be another exception."""

    __class__ = KeyError  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("retry", "error", "answer"),
    [
        (None, OSError(), False),
        (Retry(2), OSError(), True),
        (Retry(2), TaskRejected("full"), True),
        (Retry(2), TimeoutError(), True),
        (Retry(2), BaseException(), False),
        (Retry(2, on=BaseException), BaseException(), True),
        (Retry(2, on=OSError), FileNotFoundError(), True),
        (Retry(2, on=FileNotFoundError), OSError(), False),
        (Retry(2, on=(KeyError, OSError)), FileNotFoundError(), True),
        (Retry(2, on=()), OSError(), False),
        (Retry(2, give_up_on=OSError), FileNotFoundError(), False),
        (Retry(2, on=FileNotFoundError, give_up_on=OSError), FileNotFoundError(), False),
        (Retry(2, on=OSError, give_up_on=FileNotFoundError), OSError(), True),
        (Retry(2, on=BaseException), SystemExit(), False),
        (Retry(2, on=BaseException), KeyboardInterrupt(), False),
        (Retry(2, on=BaseException), GeneratorExit(), False),
        (Retry(2, on=Stopped), Stopped(), False),
        (Retry(2, on=BaseException), type("Mine", (Stopped,), {})(), False),
        (Retry(2, on=ValueError), Odd(), True),
        (Retry(2, on=KeyError), Odd(), False),
        (Retry(2, on=(KeyError, Odd)), Odd(), True),
        (Retry(2, on=Odd), ValueError(), False),
        (Retry(2), None, False),
        (Retry(2), Foreign, False),
    ],
)
def test_matching_is_that_of_except(retry: Retry | None, error: object, answer: bool) -> None:
    """By the type that it really has; none of its own code runs, which may do anything, and under the lock."""
    assert is_retriable(retry, made(error)) is answer


def test_it_is_tried_as_often_as_attempts_say() -> None:
    """The first try counts."""
    retry = Retry(3, delay=1, factor=3)
    asked = [next_attempt(retry, attempt, OSError(), "t", NOON_US, later(5)) for attempt in (1, 2, 3, 4)]
    assert asked == [later(6), later(8), None, None]
    assert next_attempt(Retry(1), 1, OSError(), "t", NOON_US, NOON_US) is None
    assert next_attempt(None, 1, OSError(), "t", NOON_US, NOON_US) is None
    assert next_attempt(retry, 1, Stopped(), "t", NOON_US, NOON_US) is None


# How long it waits

NS = [0, 1, 62, 63, 64, 1023, 1024, 10**6]


@pytest.mark.parametrize("base", [1e-3, 1, 1e6])
@pytest.mark.parametrize("factor", [1, 1.0001, 2, 10**300, 1.7e308])
@pytest.mark.parametrize("cap", [1.0, 3600.0, timedelta(days=3650)])
def test_BUG_051_a_wait_neither_overflows_nor_shrinks_nor_passes_its_cap(
    base: float, factor: float, cap: float | timedelta
) -> None:
    """2 ** 1024 is no float, and 2 ** 63 microseconds no time: the thousandth retry must not end the task."""
    retry = Retry(10**6 + 1, delay=base, factor=factor, max_delay=cap)
    waits = [retry_delay_us(retry, n, "t", NOON_US) for n in NS]
    assert waits == sorted(waits)
    assert {type(wait) for wait in waits} == {int}
    assert min(waits) > 0
    assert max(waits) <= retry.max_delay_us
    starts = [next_attempt(retry, n, OSError(), "t", NOON_US, NOON_US) for n in NS]
    assert starts == [NOON_US + wait for wait in waits]


@pytest.mark.parametrize("factor", [1, 2, 1.7e308])
def test_without_a_delay_it_is_tried_again_at_once_however_often(factor: float) -> None:
    """0 * infinity is no number, and no hour either."""
    retry = Retry(10**6 + 1, delay=0, factor=factor)
    assert [retry_delay_us(retry, n, "t", None) for n in NS] == [0] * len(NS)


def test_the_nth_retry_waits_factor_times_the_one_before_up_to_the_cap() -> None:
    """As the page says: 1, 2, 4, 8, 10, 10 seconds."""
    retry = Retry(9, max_delay=10)
    assert [retry_delay_us(retry, n, "t", NOON_US) / S for n in range(1, 7)] == [1, 2, 4, 8, 10, 10]


TIMES = (
    st.floats(0, 10**9) | st.timedeltas(timedelta(0), timedelta(days=3_000_000)) | st.sampled_from([0, 1e-6, 1, 3600])
)


@given(TIMES, st.floats(1, allow_infinity=False), TIMES, TIMES, st.integers(1, 10**6), st.text(max_size=5))
def test_every_wait_is_within_its_bounds_and_the_same_whenever_it_is_asked(
    delay: float, factor: float, cap: float, jitter: float, n: int, key: str
) -> None:
    """Jitter comes on top, below its width, and never above the cap."""
    retry = Retry(10**6 + 1, delay, factor, cap, jitter)
    wait_us = retry_delay_us(retry, n, key, NOON_US)
    plain_us = retry_delay_us(Retry(10**6 + 1, delay, factor, cap), n, key, NOON_US)
    assert plain_us <= wait_us <= min(retry.max_delay_us, plain_us + max(0, retry.jitter_us - 1))
    assert wait_us == retry_delay_us(copy.copy(retry), n, key, NOON_US)
    at = next_attempt(retry, n, OSError(), key, NOON_US, NOON_US)
    assert at == min(NOON_US + wait_us, MAX_INSTANT)


def test_no_attempt_begins_after_the_calendar_ends() -> None:
    """An instant past the year 9999 cannot be shown."""
    retry = Retry(5, delay=timedelta(days=3_000_000), max_delay=timedelta(days=3_000_000))
    assert next_attempt(retry, 1, OSError(), "t", NOON_US, NOON_US) == MAX_INSTANT
    assert next_attempt(retry, 1, OSError(), "t", None, Instant(MAX_INSTANT)) == MAX_INSTANT


def test_jitter_parts_what_failed_together() -> None:
    """A hundred tasks whose database went away at once must not come back at once, nor twice at the same distance."""
    retry = Retry(9, delay=10, factor=1, jitter=5)
    by_task = {retry_delay_us(retry, 1, f"task-{k}", NOON_US) for k in range(100)}
    by_attempt = {retry_delay_us(retry, n, "task", NOON_US) for n in range(1, 9)}
    by_fire = {retry_delay_us(retry, 1, "task", due) for due in (None, NOON_US, later(1), later(2))}
    assert (len(by_task), len(by_attempt), len(by_fire)) == (100, 8, 4)
    assert min(by_task) >= 10 * S
    assert max(by_task) < 15 * S
    assert max(by_task) - min(by_task) > 4 * S


def test_an_id_that_is_no_text_is_drawn_for_all_the_same() -> None:
    """A file's name with a byte that is no UTF-8 becomes a lone surrogate: that must not raise under the lock."""
    retry = Retry(9, delay=10, jitter=5)
    assert 10 * S <= retry_delay_us(retry, 1, "report-\udc80.csv", NOON_US) < 15 * S
    assert 0 <= jitter_of("report-\udc80.csv", NOON_US, S) < S
