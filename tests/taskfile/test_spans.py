"""Lengths of time in files are seconds, or texts as rules have them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given

from tests.strategies import spans_us
from tickless.errors import RuleError, TextError
from tickless.rules.scan import clock_text
from tickless.taskfile.spans import span_of


@pytest.mark.parametrize(
    ("said", "span"),
    [
        (90, timedelta(seconds=90)),
        (0.5, timedelta(milliseconds=500)),
        (0, timedelta(0)),
        (-1, timedelta(seconds=-1)),
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        (" 1 h  30 min ", timedelta(minutes=90)),
        ("2 days", timedelta(days=2)),
        ("250ms", timedelta(milliseconds=250)),
    ],
)
def test_a_length_of_time_is_what_it_says(said: object, span: timedelta) -> None:
    """`90` means seconds, as it does in Python."""
    assert span_of(said) == span


@given(spans_us())
def test_what_rules_write_is_read(us: int) -> None:
    """One way to write a length of time, wherever it stands."""
    assert span_of(clock_text(us)) == timedelta(microseconds=us)


@pytest.mark.parametrize("said", [True, None, [], {}, "5", "", "x", "every 5m", "5m sliding", "1 month", "-5s"])
def test_what_is_none_is_refused(said: object) -> None:
    """`true` is 1 to Python."""
    with pytest.raises(RuleError):
        span_of(said)


@pytest.mark.parametrize("said", [float("nan"), float("inf"), 1e300, 10**400, "9999999999999d"])
def test_what_no_calendar_holds_is_refused(said: object) -> None:
    """An OverflowError is no message."""
    with pytest.raises(RuleError):
        span_of(said)


def test_the_position_is_that_in_the_text_as_it_stands() -> None:
    """Where the eye looks for it."""
    with pytest.raises(TextError) as caught:
        span_of("5 parsecs")
    assert str(caught.value) == "'5 parsecs', position 3: 'parsecs' is no unit of time; did you mean 'secs'?"
