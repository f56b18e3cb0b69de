"""The live log: few lines for much that went well, every line for what did not."""

from __future__ import annotations

import io

from tickless.cli.live import LiveLog
from tickless.instants import SECOND_US, Instant
from tickless.records import Event, EventKind
from tickless.states import Reason

MINUTE = 60 * SECOND_US


def ended(kind: EventKind, at_us: int, name: str, id: str = "#1", reason: Reason | None = None) -> Event:
    return Event(kind, Instant(at_us), id, name, Instant(at_us), reason)


def lines(*batches: list[Event], close: bool = True) -> list[str]:
    """What stands in the log, without the line of the time zone and without the times."""
    stream = io.StringIO()
    log = LiveLog(stream)
    for batch in batches:
        log.observe(batch)
    if close:
        log.close()
    return [line.split("  ", 1)[1] for line in stream.getvalue().splitlines()[1:]]


def test_thousand_successes_of_one_second_are_four_lines() -> None:
    """In life: the one line that matters scrolls away among a thousand that do not."""
    many = [ended(EventKind.SUCCEEDED, MINUTE + number, "fetch") for number in range(1000)]
    assert [line.split("  ")[1] for line in lines(many)] == ["fetch"] * 3 + ["fetch (997 more)"]


def test_failures_have_a_line_each_and_their_ids() -> None:
    """In life: six hundred tasks of one name, one failed, and the log does not say which."""
    many = [ended(EventKind.FAILED, MINUTE, "fetch", f"page/{number}") for number in range(50)]
    shown = lines(many)
    assert len(shown) == 50
    assert "fetch (page/49)" in shown[-1]


def test_id_is_shown_only_where_it_says_more_than_the_name() -> None:
    """In life: each line says everything twice."""
    shown = lines([ended(EventKind.SUCCEEDED, MINUTE, "fetch", id) for id in ("#7", "fetch", "page")])
    assert [line.split("  ")[1] for line in shown] == ["fetch", "fetch", "fetch (page)"]


def test_shared_line_comes_before_the_next_line_of_something_else() -> None:
    """In life: the log is out of order, and a report seems to be ready before its parts."""
    parts = [ended(EventKind.SUCCEEDED, MINUTE + number, "part") for number in range(10)]
    shown = lines(parts, [ended(EventKind.SUCCEEDED, MINUTE + 20, "report")], close=False)
    assert [line.split("  ")[1] for line in shown[3:]] == ["part (7 more)", "report"]


def test_next_second_has_lines_of_its_own() -> None:
    """In life: a task of every second falls silent after its third run."""
    beats = [ended(EventKind.SUCCEEDED, MINUTE + number * SECOND_US, "beat") for number in range(10)]
    assert len(lines(beats)) == 10


def test_nothing_is_lost_of_the_counts() -> None:
    """In life: the summary says that 3 succeeded, and it was 1,000."""
    log = LiveLog(io.StringIO())
    log.observe([ended(EventKind.SUCCEEDED, MINUTE, "fetch") for _ in range(1000)])
    log.observe([ended(EventKind.SKIPPED, MINUTE, "beat", reason=Reason.OVERLAP)._replace(count=7)])
    assert log.counts == {EventKind.SUCCEEDED: 1000, EventKind.SKIPPED: 7}
