"""What is shown of what commands print."""

from __future__ import annotations

import io
import json
import re
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands.world import PATIENCE_S
from tickless.commands.lines import BYTES_PER_SECOND, LONGEST, PER_SECOND, Lines, Source, Splitter
from tickless.instants import SECOND_US, Instant

RUN = Source("dump", "dump@2026-12-01T12:00:00Z", 2)
AT = Instant(1_796_126_400_123_456)


def shown(*lines: bytes, as_json: bool = False) -> str:
    stream = io.StringIO()
    them = Lines(stream, as_json=as_json)
    them.show(AT, RUN, lines)
    them.close()
    return stream.getvalue()


def test_a_line_has_its_time_and_its_run() -> None:
    assert re.fullmatch(r"\d\d:\d\d:00\.123  dump@2026-12-01T12:00:00Z \| hello\n", shown(b"hello"))


def test_as_json_it_is_a_document_of_one_line() -> None:
    assert json.loads(shown("caf\u00e9".encode(), as_json=True)) == {
        "v": 1,
        "kind": "output",
        "at": "2026-12-01T12:00:00.123456Z",
        "task": "dump",
        "run": "dump@2026-12-01T12:00:00Z",
        "attempt": 2,
        "line": "caf\u00e9",
    }


@pytest.mark.parametrize(
    ("line", "text"),
    [(b"a\x1b[31mb", "a\\x1b[31mb"), (b"\xff", "\ufffd"), (b"a\tb", "a   b"), ("\u202e".encode(), "\\u202e")],
)
def test_what_a_terminal_would_obey_is_escaped(line: bytes, text: str) -> None:
    assert shown(line).endswith(f"| {text}\n")


def test_a_whole_piece_of_binary_is_shown_whole() -> None:
    """Escaped it is four times as long."""
    assert shown(b"\0" * LONGEST).count("\\x00") == LONGEST


def test_a_terminal_without_unicode_shows_escapes() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    lines = Lines(stream)
    lines.show(AT, RUN, ["\u20ac".encode()])
    lines.close()
    stream.seek(0)
    assert stream.read().endswith("| \\u20ac\n")


def test_a_reader_that_goes_away_ends_the_lines_and_nothing_else() -> None:
    """`tickless run tasks.toml | head -1`."""
    gone = threading.Event()

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            gone.set()
            raise BrokenPipeError

    lines = Lines(Broken())
    lines.show(AT, RUN, [b"x"])
    assert gone.wait(PATIENCE_S)
    for _ in range(3):
        lines.show(AT, RUN, [b"x"] * 10_000)
    lines.close()
    assert len(lines._waiting) <= 10_000


def test_closing_lines_that_were_never_used_is_nothing() -> None:
    Lines(io.StringIO()).close()


def split(*chunks: bytes, at: Instant = AT) -> list[bytes]:
    splitter = Splitter()
    return [line for chunk in chunks for line in splitter.feed(chunk, at)] + splitter.end()


def test_lines_are_put_together_from_pieces() -> None:
    assert split(b"on", b"e\ntw", b"o\r\n", b"\n", b"no end") == [b"one", b"two", b"", b"no end"]


def test_a_long_line_is_shown_in_pieces() -> None:
    line = b"x" * (2 * LONGEST + 5)
    assert [len(piece) for piece in split(line + b"\ny\n")] == [LONGEST, LONGEST, 5, 1]
    assert [len(piece) for piece in split(line)] == [LONGEST, LONGEST, 5]


def test_beyond_so_many_in_a_second_only_the_number_is_shown() -> None:
    splitter = Splitter()
    first = splitter.feed(b"x\n" * (PER_SECOND + 500) + b"half", AT)
    assert len(first) == PER_SECOND
    assert splitter.feed(b" of it\nmore\n", AT) == []
    after = splitter.feed(b"next\n", Instant(AT + SECOND_US))
    assert after == [b"... 502 lines not shown", b"next"]
    assert splitter.end() == []


def test_the_rest_of_a_line_that_was_not_shown_is_not_shown_either() -> None:
    """Half a line reads like another."""
    splitter = Splitter()
    splitter.feed(b"x\n" * PER_SECOND + b"ERROR: not ", AT)
    assert splitter.feed(b"really\nnext\n", Instant(AT + SECOND_US)) == [b"next"]
    assert splitter.end() == [b"... 1 line not shown"]


@given(st.lists(st.binary(max_size=40)), st.booleans())
def test_however_it_is_cut_the_lines_are_those_of_the_whole(chunks: list[bytes], odd: bool) -> None:
    """Within the budget: the pieces in which a pipe gives it say nothing."""
    chunks = [chunk.replace(b"\r", b"") + (b"\n" if odd else b"") for chunk in chunks]
    whole = b"".join(chunks)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert split(*chunks) == expected


@given(st.lists(st.sampled_from([b"\n", b"x", b"x\n" * 400, b"y" * 9_000, b"z" * 70_000 + b"\n"]), max_size=60))
def test_every_line_end_is_shown_or_counted(chunks: list[bytes]) -> None:
    """What is neither has been lost, and what is both was told wrong."""
    splitter, lines = Splitter(), list[bytes]()
    for number, chunk in enumerate(chunks):
        lines += splitter.feed(chunk, Instant(AT + number * SECOND_US // 10))
    lines += splitter.end()
    told = sum(int(line.split()[1].replace(b",", b"")) for line in lines if line.startswith(b"... "))
    whole = b"".join(chunks)
    count = whole.count(b"\n") + (not whole.endswith(b"\n") and bool(whole))
    pieces = [line for line in lines if not line.startswith(b"... ")]
    assert told <= count
    assert len([piece for piece in pieces if len(piece) < LONGEST]) + told >= count - len(whole) // LONGEST
    assert all(len(piece) <= LONGEST for piece in pieces)


def test_bytes_are_counted_too() -> None:
    """A thousand lines of 8 KiB are eight megabytes a second of formatting."""
    pieces = split(*[b"x" * 65_536] * (3 * BYTES_PER_SECOND // 65_536))
    assert sum(map(len, pieces)) <= BYTES_PER_SECOND + 65_536
