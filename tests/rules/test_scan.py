"""Reading from left to right: lengths of time and where an error is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import spans_us
from tickless.errors import RuleError, TextError
from tickless.instants import MAX_SPAN_US
from tickless.rules.scan import Scanner, clock_text, clock_us, nearest


@given(spans_us(0, MAX_SPAN_US))
def test_a_span_is_written_exactly(span_us: int) -> None:
    """A microsecond lost at each save adds up; and 10,000 years are written without a float."""
    parts = Scanner(clock_text(span_us)).spans()
    assert sum(clock_us(number, unit) for number, unit, _ in parts) == span_us
    assert len({unit for _, unit, _ in parts}) == len(parts)


@given(st.integers(0, 10**6), st.integers(0, 10**6 - 1))
def test_a_fraction_is_read_exactly(whole: int, micros: int) -> None:
    """0.1 s is 100,000 us, whatever floats make of it."""
    assert clock_us(f"{whole}.{micros:06}", "s") == whole * 10**6 + micros


def test_a_part_of_a_microsecond_is_refused() -> None:
    """Rounded it would be another interval than the one that was written."""
    with pytest.raises(RuleError, match=r"0\.1us is not a whole number of microseconds"):
        clock_us("0.1", "us")


def test_places_count_from_the_whole_text() -> None:
    """The second rule of a union is scanned alone, and its errors are about the line."""
    scan = Scanner("every 5m |  evry 5m", 10)
    assert scan.peek() == "evry"
    with pytest.raises(TextError) as caught:
        scan.fail("no")
    assert caught.value.position == 13


def test_a_scanner_does_not_look_beyond_its_end() -> None:
    """Else a rule would take a word of the next one."""
    scan = Scanner("every 5m|30 2 * * *", 0, 8)
    assert (scan.take(), scan.take(), scan.peek(), scan.rest()) == ("every", "5m", "", "")
    assert Scanner("1h30m", 0, 2).spans() == [("1", "h", 0)]


def test_a_suggestion_is_near_or_there_is_none() -> None:
    """A wild guess is worse than the list."""
    assert nearest("Mondey", ["monday", "month"]) == "; did you mean 'monday'?"
    assert nearest("xyzzy", ["monday"], "; days are mon to sun") == "; days are mon to sun"
