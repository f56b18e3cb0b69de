"""The live log on a terminal."""

from __future__ import annotations

import io
import sys
from datetime import UTC, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.observe.observers import event
from tickless.observe import Observer
from tickless.observe.console import ConsoleObserver
from tickless.records import EventKind
from tickless.states import Reason
from tickless.testing.observer_suite import ObserverSuite

STARTED, SUCCEEDED, FAILED = EventKind.STARTED, EventKind.SUCCEEDED, EventKind.FAILED


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestConsoleObserver(ObserverSuite):
    def make_observer(self) -> Observer:
        return ConsoleObserver(io.StringIO(), starts=True, colour=True)


class TestConsoleObserverOnAStreamOfFewLetters(ObserverSuite):
    def make_observer(self) -> Observer:
        return ConsoleObserver(io.TextIOWrapper(io.BytesIO(), "ascii"))


def test_a_run_is_one_line_with_its_lateness_and_its_duration() -> None:
    """What is read is: when, how it ended, what, how late, how long."""
    stream = io.StringIO()
    observer = ConsoleObserver(stream, zone=timezone(timedelta(hours=2)))
    observer.observe([event(STARTED, 0.0004, "fetch", due_s=0)])
    assert stream.getvalue() == ""
    observer.observe([event(SUCCEEDED, 0.2504, "fetch", due_s=0)])
    assert stream.getvalue() == (
        "2026-01-01, times in UTC+02:00\n14:00:00.250  succeeded  fetch                     late 0.4 ms  took 250 ms\n"
    )


def test_the_other_ends() -> None:
    """Each with what is known of it, and nothing made up."""
    stream = io.StringIO()
    ConsoleObserver(stream, zone=UTC, starts=True).observe(
        [
            event(STARTED, 1, "a", due_s=0),
            event(FAILED, 2, "a", due_s=0, error="ValueError: bad", traceback="Traceback\nValueError: bad\n"),
            event(EventKind.SKIPPED, 3, "beat", due_s=3, reason=Reason.OVERLAP, count=4),
            event(EventKind.CANCELLED, 4, None, task_id="#7", reason=Reason.CLOSED),
            event(EventKind.DROPPED, 5, None, count=12),
            event(EventKind.TROUBLE, 6, None, error="OSError: disk"),
        ]
    )
    assert stream.getvalue().splitlines()[1:] == [
        "12:00:01.000  started    a                         late 1.000 s",
        "12:00:02.000  failed     a                         late 1.000 s  took 1.000 s  ValueError: bad",
        "    Traceback",
        "    ValueError: bad",
        "12:00:03.000  skipped    beat                      4 fires  overlap",
        "12:00:04.000  cancelled  #7                        closed",
        "12:00:05.000  dropped    tickless                  12 events",
        "12:00:06.000  trouble    tickless                  OSError: disk",
    ]


def test_the_offset_is_told_first_and_when_it_changes() -> None:
    """In the night of the change 02:30 comes twice."""
    stream = io.StringIO()
    observer = ConsoleObserver(stream, zone=ZoneInfo("Europe/Berlin"))
    half_a_year_s = 182 * 86_400
    observer.observe([event(SUCCEEDED, at_s) for at_s in (0, 1, half_a_year_s, half_a_year_s + 1)])
    told = [line for line in stream.getvalue().splitlines() if "UTC" in line]
    assert told == ["2026-01-01, times in UTC+01:00", "2026-07-02, times in UTC+02:00"]


def test_one_traceback_of_many_equal_ones_and_none_if_not_wanted() -> None:
    """A fan-out of 600 zones that fail alike would scroll everything else away."""
    failures = [event(FAILED, 0, f"zone {n}", traceback=f"Traceback: port {n}") for n in range(100)]
    for wanted, shown in ((True, 1), (False, 0)):
        stream = io.StringIO()
        ConsoleObserver(stream, tracebacks=wanted).observe(failures)
        assert stream.getvalue().count("Traceback") == shown


def test_a_name_cannot_drive_the_terminal_and_a_long_one_is_cut() -> None:
    """An escape sequence in a name could clear the screen, or write to the clipboard."""
    stream = io.StringIO()
    ConsoleObserver(stream).observe(
        [event(FAILED, 0, "\x1b]52;c;x\x07\n", error="E: \x1b[2J"), event(FAILED, 0, "x" * 999)]
    )
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert r"\x1b]52;c;x\x07\n" in lines[1]
    assert "x" * 57 + "..." in lines[2]
    assert "x" * 58 not in lines[2]


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        (Terminal, {}, True),
        (Terminal, {"NO_COLOR": "1"}, False),
        (Terminal, {"NO_COLOR": ""}, True),
        (Terminal, {"TERM": "dumb"}, False),
        (io.StringIO, {}, False),
    ],
)
def test_colours_are_for_terminals(
    stream: type[io.StringIO], environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Escapes in a file are litter; NO_COLOR counts when it is not empty (no-color.org)."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = stream()
    ConsoleObserver(out).observe([event(SUCCEEDED)])
    assert ("\x1b[32msucceeded\x1b[0m" in out.getvalue()) is coloured


def test_a_stream_that_is_closed_broken_or_absent_ends_the_log_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tickless run … | head -1`; a closed stdout; pythonw, which has none."""

    class Pipe(io.StringIO):
        tries = 0

        def write(self, text: str, /) -> int:
            self.tries += 1
            raise BrokenPipeError

    closed, pipe = io.StringIO(), Pipe()
    closed.close()
    monkeypatch.setattr(sys, "stdout", None)
    for observer in (ConsoleObserver(closed), ConsoleObserver(pipe), ConsoleObserver()):
        observer.observe([event(SUCCEEDED)])
        observer.observe([event(SUCCEEDED)])
    assert pipe.tries == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_log_only() -> None:
    """The error comes at the flush, not at the write."""
    with pytest.raises(OSError), open("/dev/full", "w", encoding="utf-8") as full:  # closing flushes again
        ConsoleObserver(full).observe([event(SUCCEEDED)])


def test_runs_whose_end_is_never_told_are_forgotten() -> None:
    """Ends may be dropped; a live log must not grow for it."""
    stream = io.StringIO()
    observer = ConsoleObserver(stream)
    observer.observe([event(STARTED, 0, f"run {n}", due_s=0) for n in range(10_001)])
    observer.observe([event(SUCCEEDED, 1, f"run {n}", due_s=0) for n in (0, 1)])
    assert [line.count("took") for line in stream.getvalue().splitlines()[1:]] == [0, 1]
