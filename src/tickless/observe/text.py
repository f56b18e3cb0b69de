"""Text that is safe to put on one line of a log or a terminal, whatever the user's strings hold. Pure."""

from __future__ import annotations

import re
import traceback

from tickless.instants import SECOND_US

_CUT = "..."
_NUMBERS = re.compile(r'0x[0-9a-fA-F]+|(?<!", line )(?<!\d)\d+')  # but not the line numbers of a traceback


def printable(text: str, most: int = 200) -> str:
    """`text` on one line of at most `most` characters: line ends, escapes and overrides are shown, not obeyed.

    What `str.isprintable` refuses is written as in a Python literal (`\\n`, `\\x1b`, `\\u202e`, lone surrogates).
    """
    if len(text) > most:
        text = text[: most - len(_CUT)] + _CUT
    if text.isprintable():
        return text
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return shown if len(shown) <= most else shown[: most - len(_CUT)] + _CUT


def printable_lines(text: str, most: int = 20_000) -> str:
    """`text` with its line ends kept and each line printable; the middle of more than `most` characters is left out."""
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return "\n".join(printable(line.expandtabs(4), most) for line in text.rstrip().split("\n"))


def shape_of(text: str) -> str:
    """`text` with its numbers made equal: two errors of one shape are one error that came twice."""
    return _NUMBERS.sub("0", text)


def error_line(error: BaseException) -> str:
    """`Type: message` on one line; a message that cannot be made is said to be so. Never raises."""
    try:
        message = str.__str__(str(error))  # exactly a str: a subclass may bring foreign code along
    except BaseException as second:  # noqa: BLE001  # a foreign __str__ raises; the first error must still be told
        message = f"<no message: str() raised {type_name(second)}>"
    return printable(f"{type_name(error)}: {message}" if message else type_name(error))


def traceback_of(error: BaseException) -> str:
    """The traceback as text, printable; never raises."""
    try:
        return printable_lines("".join(traceback.format_exception(error)))
    except BaseException as second:  # noqa: BLE001  # an exception type whose own attributes raise
        return f"<no traceback: {type_name(second)}>"


def type_name(thing: object) -> str:
    """The name of its type, from the type itself: a metaclass may answer for `__name__` with foreign code."""
    name: str = _NAME_OF_TYPE.__get__(type(thing))
    return name


_NAME_OF_TYPE = type.__dict__["__name__"]


def span_text(span_us: int) -> str:
    """A length of time for the eye: 0.4 ms, 123 ms, 1.234 s, 2 min 03 s, 1 h 02 min."""
    if span_us < 10_000:
        return f"{span_us / 1000:.1f} ms"
    if span_us < SECOND_US:
        return f"{span_us // 1000} ms"
    seconds = span_us // SECOND_US
    if seconds < 60:
        return f"{span_us / SECOND_US:.3f} s" if seconds < 10 else f"{span_us / SECOND_US:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds // 60 % 60:02d} min"
