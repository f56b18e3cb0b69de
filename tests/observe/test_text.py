"""Text for one line: nothing in a user's string may end it, colour it, or turn it round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickless.observe.text import error_line, printable, printable_lines, shape_of, span_text, traceback_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é☃", "plain é☃"),
        ("a\nb", r"a\nb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\u202eabc", r"\u202eabc"),
        ("\udc80", r"\udc80"),
        ("x" * 201, "x" * 197 + "..."),
        ("", ""),
    ],
)
def test_what_cannot_be_printed_is_shown_as_in_a_literal(text: str, shown: str) -> None:
    """A task named by a visitor's input could else forge a line of the log, or clear the screen."""
    assert printable(text) == shown


@given(st.text(st.characters()), st.integers(10, 50))
def test_any_text_becomes_one_short_printable_line(text: str, most: int) -> None:
    """Whatever comes."""
    shown = printable(text, most)
    assert shown.isprintable()
    assert len(shown) <= most


def test_a_traceback_keeps_its_lines_and_its_tabs_and_loses_its_escapes() -> None:
    """Source lines may be indented with tabs; a message may hold anything."""
    assert printable_lines("a\n\tb\x1b[0m\r\n\n") == "a\n    b\\x1b[0m"
    assert len(printable_lines("line\n" * 100_000)) < 21_000


def test_errors_of_one_shape_are_one_error() -> None:
    """Ports, addresses and counts change with each attempt; where it was raised does not."""
    assert shape_of("cannot reach 10.0.0.7:5432 at 0x7f3a") == shape_of("cannot reach 10.0.0.12:80 at 0x11")
    assert shape_of("timeout") != shape_of("refused")
    assert shape_of('File "x.py", line 12, in f') != shape_of('File "x.py", line 13, in f')


def test_an_error_is_one_line() -> None:
    """Also one without a message, and one of many lines."""
    assert error_line(ValueError()) == "ValueError"
    assert error_line(ValueError("a\nb")) == r"ValueError: a\nb"


def test_a_traceback_is_text_whatever_the_exception_does() -> None:
    """A traceback that raises would hide the error that it is of."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    assert "Mute" in traceback_of(Mute())


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0, "0.0 ms"),
        (340, "0.3 ms"),
        (12_345, "12 ms"),
        (999_999, "999 ms"),
        (1_234_567, "1.235 s"),
        (12_345_678, "12.3 s"),
        (59_900_000, "59.9 s"),
        (123_000_000, "2 min 03 s"),
        (3_720_000_000, "1 h 02 min"),
    ],
)
def test_spans_are_shown_with_a_sensible_unit(us: int, shown: str) -> None:
    """Microseconds of a run of an hour are noise."""
    assert span_text(us) == shown
