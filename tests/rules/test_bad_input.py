"""What is no time is refused where it is written, by name, with its value and the way out. Never an OverflowError."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tickless.errors import RuleError, TicklessError, shown
from tickless.rules import after, at, every

NAN, INF = float("nan"), float("inf")
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001  # being naive is what it is for
WEST, EAST = timezone(timedelta(hours=-12)), timezone(timedelta(hours=14))
HUGE_INT = 10**5_000
"""Python refuses to write it out, in a message too."""

NUMBERS: list[tuple[Any, str]] = [
    (NAN, "nan is not a length of time"),
    (INF, "inf is not a length of time"),
    (-INF, "-inf is not a length of time"),
    (True, "needs a number, or a timedelta, not True"),
    (False, "needs a number, or a timedelta, not False"),
    ("5", "needs a number, or a timedelta, not '5'"),
    (b"5", "needs a number, or a timedelta, not b'5'"),
    (5j, "needs a number, or a timedelta, not 5j"),
    (Decimal(5), r"needs a number, or a timedelta, not Decimal('5')"),
    (NAIVE, "needs a number, or a timedelta, not datetime.datetime(2030, 1, 1, 0, 0)"),
    ([5], "needs a number, or a timedelta, not [5]"),
    (1e308, "1e+308 is longer than the calendar"),
    (10**15, "1000000000000000 is longer than the calendar"),
    (HUGE_INT, "<int> is longer than the calendar"),
    (-HUGE_INT, "<int> is longer than the calendar"),
    (timedelta.max, f"{timedelta.max!r} is longer than the calendar"),
    (timedelta.min, f"{timedelta.min!r} is longer than the calendar"),
]
NUMBER_IDS = [shown(value)[:20] for value, _ in NUMBERS]
DATETIMES: list[tuple[Any, str]] = [
    (NAIVE, "datetime.datetime(2030, 1, 1, 0, 0) is naive; give it a zone, e.g. "),
    (NAIVE.replace(year=9999), "is naive; give it a zone"),
    (date(2030, 1, 1), "datetime.date(2030, 1, 1)"),
    (1_893_456_000, "1893456000"),
    ("2030-01-01", "'2030-01-01'"),
    (True, "True"),
    (NAN, "nan"),
    (timedelta(1), "datetime.timedelta(days=1)"),
    (datetime.max.replace(tzinfo=WEST), "is not within the years 1 to 9999 in UTC; choose a nearer time"),
    (datetime.max.replace(tzinfo=ZoneInfo("America/New_York")), "is not within the years 1 to 9999 in UTC"),
    (datetime.min.replace(tzinfo=EAST), "is not within the years 1 to 9999 in UTC"),
    (datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo")), "is not within the years 1 to 9999 in UTC"),
]


def refused(call: Callable[[], object], thing: str, rest: str) -> None:
    with pytest.raises(RuleError, match=f"^{re.escape(thing)}.*{re.escape(rest)}") as caught:
        call()
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TicklessError)


@pytest.mark.parametrize(("value", "rest"), NUMBERS, ids=NUMBER_IDS)
def test_after_refuses_what_is_no_delay(value: Any, rest: str) -> None:
    """A NaN in a heap breaks its order for all others, for ever."""
    refused(lambda: after(value), "after(delay): ", rest)


def test_after_refuses_none() -> None:
    """A setting that was not given is no delay of zero."""
    refused(lambda: after(None), "after(delay): ", "needs a number, or a timedelta, not None")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, -0.001, timedelta(microseconds=-1)])
def test_after_refuses_a_negative_delay(value: Any) -> None:
    """A sign is a mistake in somebody's subtraction, which running at once would hide."""
    refused(lambda: after(value), f"after({value!r}): ", "a delay cannot be negative; after(0) runs now")


@pytest.mark.parametrize("unit", ["seconds", "minutes", "hours"])
@pytest.mark.parametrize(("value", "rest"), NUMBERS, ids=NUMBER_IDS)
def test_every_refuses_what_is_no_number_of_a_unit(unit: str, value: Any, rest: str) -> None:
    """Also hours, whose product with 3.6e9 would overflow first."""
    refused(lambda: every(**{unit: value}), f"every({unit}=): ", rest)


@pytest.mark.parametrize("value", [0, -1, 0.0, -0.5, 1e-9])
def test_every_refuses_what_is_shorter_than_a_millisecond(value: float) -> None:
    """An interval of zero fires at one instant without end."""
    refused(lambda: every(seconds=value), "every(seconds=", "an interval must be at least 1 ms; for tighter loops")


@pytest.mark.parametrize(
    ("call", "thing", "rest"),
    [
        (lambda: every(), "every(): ", "needs an interval, e.g. every(seconds=5)"),
        (lambda: every(None), "every(): ", "needs an interval, e.g. every(seconds=5)"),
        (lambda: every(5), "every(5): ", "e.g. every(seconds=5)"),  # type: ignore[call-overload]
        (lambda: every("5"), "every('5'): ", "e.g. every(seconds=5)"),  # type: ignore[call-overload]
        (lambda: every(True), "every(True): ", "e.g. every(seconds=5)"),  # type: ignore[call-overload]
        (lambda: every(timedelta(0)), "every(seconds=0): ", "at least 1 ms"),
        (lambda: every(timedelta.max), "every(timedelta): ", "longer than the calendar"),
        (lambda: every(timedelta(days=4_000_000)), "every(timedelta): ", "longer than the calendar"),
        (lambda: every(timedelta(seconds=5), seconds=5), "every(datetime.timedelta(seconds=5), ...): ", "not both"),
        (lambda: every(hours=8e7, minutes=1e9), "every(seconds=", "longer than the calendar"),
        (lambda: every(second=1), "every(second=): ", "seconds=, minutes=, hours="),  # type: ignore[call-overload]
        (lambda: every(seconds=5, sliding="no"), "every(sliding='no'): ", "True or False"),  # type: ignore[call-overload]
        (lambda: every(seconds=5, sliding=1), "every(sliding=1): ", "True or False"),  # type: ignore[call-overload]
        (lambda: every(seconds=5, sliding=True, anchor="epoch"), "every(sliding=True, anchor=): ", "leave one"),
        (lambda: every(seconds=5, anchor="Epoch"), "every(anchor='Epoch'): ", 'or "epoch"'),  # type: ignore[call-overload]
    ],
)
def test_every_refuses_what_is_no_interval(call: Callable[[], object], thing: str, rest: str) -> None:
    """Each message says which argument, what it was, and what to write instead."""
    refused(call, thing, rest)


@pytest.mark.parametrize(("value", "rest"), [*DATETIMES, (None, "None")])
def test_at_refuses_what_is_no_instant(value: Any, rest: str) -> None:
    """A naive datetime is the host's zone on one machine and UTC on the next."""
    refused(lambda: at(value), "at(datetime): ", rest)


@pytest.mark.parametrize(("value", "rest"), DATETIMES)
def test_an_anchor_refuses_what_is_no_instant(value: Any, rest: str) -> None:
    """The same door, so the same words."""
    refused(lambda: every(seconds=5, anchor=value), "every(anchor=", rest)


def test_the_last_and_the_first_instant_are_not_refused() -> None:
    """The bound itself belongs to the calendar."""
    assert at(datetime.max.replace(tzinfo=UTC)).due - at(datetime.min.replace(tzinfo=UTC)).due > 0
    assert at(datetime.max.replace(tzinfo=EAST)).due < at(datetime.max.replace(tzinfo=UTC)).due
