"""The log observer: what an operator reads at night, and how little of it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.observe.observers import START_US, About, event
from tickless.instants import SECOND_US, Instant
from tickless.observe import Journal, Observer
from tickless.observe.log import LogObserver
from tickless.records import EventKind
from tickless.states import Reason
from tickless.testing.clock import FakeClock
from tickless.testing.observer_suite import ObserverSuite

FAILED, SKIPPED, TROUBLE, DROPPED = EventKind.FAILED, EventKind.SKIPPED, EventKind.TROUBLE, EventKind.DROPPED
TRACE = 'Traceback (most recent call last):\n  File "x.py", line 3, in ping\nValueError: bad\n'


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger of its own, at WARNING, that nothing else listens to."""
    logger = logging.Logger("tickless-test", logging.WARNING)
    yield logger
    logger.handlers.clear()


@pytest.fixture
def lines(logger: logging.Logger) -> Lines:
    handler = Lines()
    logger.addHandler(handler)
    return handler


class TestLogObserver(ObserverSuite):
    def make_observer(self) -> Observer:
        return LogObserver(logging.Logger("tickless-test", logging.ERROR))


class TestLogObserverOfEverything(ObserverSuite):
    def make_observer(self) -> Observer:
        logger = logging.Logger("tickless-test", logging.DEBUG)
        logger.addHandler(logging.NullHandler())
        return LogObserver(logger)


def test_a_failure_is_an_error_with_its_traceback(logger: logging.Logger, lines: Lines) -> None:
    """Name first, then key=value: what `grep ping` and a log parser both find."""
    failed = event(FAILED, 1, error="ValueError: bad", traceback=TRACE, due_s=0.5, task_id="#12")
    LogObserver(logger).observe([failed])
    assert lines.records[0].levelno == logging.ERROR
    assert lines.texts == [
        "ping failed id=#12 due=2026-01-01T12:00:00.500000+00:00 error=ValueError: bad\n" + TRACE.rstrip()
    ]


def test_the_levels_and_forms_of_the_other_kinds(logger: logging.Logger, lines: Lines) -> None:
    """A skip is worth a warning; trouble of ours is an error; both without a name of a task if there is none."""
    LogObserver(logger).observe(
        [
            event(SKIPPED, 1, "beat", reason=Reason.OVERLAP, count=3, due_s=0),
            event(TROUBLE, 1, None, error="OSError: disk"),
            event(DROPPED, 1, None, count=17),
        ]
    )
    assert [(record.levelname, record.getMessage()) for record in lines.records] == [
        ("WARNING", "beat skipped due=2026-01-01T12:00:00+00:00 reason=overlap count=3"),
        ("ERROR", "tickless trouble error=OSError: disk"),
        ("WARNING", "tickless dropped count=17"),
    ]


def test_bug_085_a_task_that_fails_each_second_for_an_hour_is_one_traceback_and_summaries(
    logger: logging.Logger, lines: Lines
) -> None:
    """100 GB of one error fill the disk, and then more than one task fails."""
    observer = LogObserver(logger)
    for at_s in range(3_600):
        error = f"ConnectionError: attempt {at_s} refused"
        observer.observe([event(FAILED, at_s, error=error, traceback=TRACE, due_s=at_s)])
    observer.close()
    assert sum("Traceback" in text for text in lines.texts) == 1
    assert len(lines.texts) <= 8
    unlogged = sum(int(text.split("unlogged=")[1].split()[0]) for text in lines.texts if "unlogged=" in text)
    assert len(lines.texts) + unlogged == 3_600
    assert "attempt 3599 refused" in lines.texts[-1], "the newest is the one that is shown"


def test_bug_085_an_outage_of_ten_minutes_is_at_most_five_lines(logger: logging.Logger, lines: Lines) -> None:
    """A store that is down is met at every wake-up."""
    observer = LogObserver(logger)
    for tenth in range(6_000):
        observer.observe(
            [event(TROUBLE, tenth / 10, None, error="OperationalError: the store is down", traceback=TRACE)]
        )
    observer.close()
    assert 2 <= len(lines.texts) <= 5


def test_bug_085_a_thousand_successes_are_no_line_and_no_event(logger: logging.Logger, lines: Lines) -> None:
    """Success costs nothing: the kinds are not even wanted."""
    logger.setLevel(logging.INFO)
    observer = LogObserver(logger)
    journal = Journal([observer], FakeClock(START_US))
    for n in range(1_000):
        for kind in (EventKind.SCHEDULED, EventKind.READY, EventKind.STARTED, EventKind.SUCCEEDED):
            journal.post(kind, Instant(START_US + n * SECOND_US), About())
    journal.close()
    assert lines.texts == []
    assert journal.wants == frozenset()
    stores = {EventKind.STORE_DOWN, EventKind.STORE_UP}
    assert observer.kinds == {FAILED, EventKind.RETRY, SKIPPED, TROUBLE, DROPPED} | stores


def test_ten_thousand_skipped_descendants_of_one_failure_are_a_few_lines(logger: logging.Logger, lines: Lines) -> None:
    """The failure is the news; that nothing after it ran is one fact."""
    observer = LogObserver(logger)
    observer.observe([event(SKIPPED, 0, f"step {n}", reason=Reason.PARENT_FAILED) for n in range(10_000)])
    observer.close()
    assert lines.texts == [
        "step 0 skipped reason=parent_failed",
        "step 9999 skipped reason=parent_failed unlogged=9998",
    ]


def test_overlaps_of_two_tasks_are_two_matters(logger: logging.Logger, lines: Lines) -> None:
    """One noisy task must not hide that another one falls behind."""
    names = [name for _ in range(50) for name in ("a", "b")]
    LogObserver(logger).observe([event(SKIPPED, 0, name, reason=Reason.OVERLAP) for name in names])
    assert lines.texts == ["a skipped reason=overlap", "b skipped reason=overlap"]


def test_tasks_that_fail_alike_have_a_line_each_and_one_traceback(logger: logging.Logger, lines: Lines) -> None:
    """Which tasks failed is a fact each; the same twenty frames 500 times are not."""
    observer = LogObserver(logger)
    observer.observe([event(FAILED, 0, f"zone {n}", error="ValueError: bad", traceback=TRACE) for n in range(500)])
    assert len(lines.texts) == 500
    assert sum("Traceback" in text for text in lines.texts) == 1


def test_two_errors_of_one_task_are_both_shown(logger: logging.Logger, lines: Lines) -> None:
    """The second one may be the cause."""
    LogObserver(logger).observe([event(FAILED, n, error=error) for n, error in enumerate(["A: a", "B: b", "A: a"])])
    assert lines.texts == ["ping failed error=A: a", "ping failed error=B: b"]


def test_a_failure_each_night_has_its_traceback_each_night(logger: logging.Logger, lines: Lines) -> None:
    """What is summarised is a flood, not a habit."""
    observer = LogObserver(logger)
    for day in range(3):
        observer.observe([event(FAILED, day * 86_400, error="ValueError: bad", traceback=TRACE)])
    assert sum("Traceback" in text for text in lines.texts) == 3


def test_a_name_cannot_forge_a_line(logger: logging.Logger, lines: Lines) -> None:
    """Names may come from a visitor's input."""
    LogObserver(logger).observe([event(FAILED, 0, "x\nroot logged in", error="E: \x1b[2J", traceback="T\x1b[2J\nE")])
    assert lines.texts == ["x\\nroot logged in failed error=E: \\x1b[2J\nT\\x1b[2J\nE"]


def test_at_debug_everything_is_a_line(logger: logging.Logger, lines: Lines) -> None:
    """What an expert turns on to see one task's life; decided when the observer is made."""
    logger.setLevel(logging.DEBUG)
    observer = LogObserver(logger)
    assert observer.kinds == frozenset(EventKind)
    observer.observe([event(EventKind.STARTED, 0), event(EventKind.STARTED, 0), event(FAILED, 0)])
    assert [(record.levelname, record.getMessage()) for record in lines.records] == [
        ("DEBUG", "ping started"),
        ("DEBUG", "ping started"),
        ("ERROR", "ping failed"),
    ]


def test_with_logging_unconfigured_a_failure_is_seen_and_no_handler_is_installed() -> None:
    """A first program has no logging.basicConfig; silence would say that all is well."""
    program = (
        "import logging\n"
        "from tickless.observe.log import LogObserver\n"
        "from tickless.records import Event, EventKind\n"
        "LogObserver().observe([Event(EventKind.FAILED, 0, '#1', 'ping', error='ValueError: bad')])\n"
        "assert not logging.getLogger('tickless').handlers and not logging.getLogger().handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "ping failed id=#1 error=ValueError: bad\n"
