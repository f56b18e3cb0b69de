"""The journal: what is posted is delivered once, in order, or counted as dropped, whatever the observers do."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from tests.observe.observers import (
    PATIENCE_S,
    START_US,
    About,
    Caller,
    Gated,
    Keeper,
    journal_of,
    observer_threads,
    post_many,
)
from tickless.instants import Instant
from tickless.observe import Journal
from tickless.records import Event, EventKind
from tickless.states import Reason
from tickless.testing.clock import FakeClock


def fail(*_: object) -> None:
    raise ValueError("bad observer")


# Inline


def test_an_event_arrives_with_all_that_was_posted() -> None:
    """A field that is lost or swapped on the way is a wrong log line."""
    keeper = Keeper()
    journal = journal_of(keeper)
    due = Instant(START_US - 5)
    journal.post(EventKind.SKIPPED, START_US, About("#7", "beat"), due, Reason.OVERLAP, "E: e", "Trace", 3)
    journal.post(EventKind.READY, START_US)
    journal.deliver()
    assert keeper.batches == [
        [
            Event(EventKind.SKIPPED, START_US, "#7", "beat", due, Reason.OVERLAP, "E: e", "Trace", 3),
            Event(EventKind.READY, START_US),
        ]
    ]
    assert all(type(event) is Event for event in keeper.events)


def test_each_observer_gets_its_kinds_in_order() -> None:
    """An observer of failures must not pay for, or trip over, a hundred thousand successes."""
    failures, ends, nothing = Keeper({EventKind.FAILED}), Keeper({EventKind.FAILED, EventKind.SUCCEEDED}), Keeper(())
    journal = journal_of(failures, ends, nothing)
    for n, kind in enumerate([EventKind.SUCCEEDED, EventKind.FAILED, EventKind.SUCCEEDED]):
        journal.post(kind, Instant(n))
    journal.deliver()
    assert [e.at_us for e in failures.events] == [1]
    assert [e.at_us for e in ends.events] == [0, 1, 2]
    assert nothing.batches == []


def test_an_event_that_nobody_wants_is_never_built() -> None:
    """Its subject is not even looked at: an observer of failures costs a run that succeeds nothing."""

    class Untouchable:
        @property
        def _id(self) -> str:
            raise AssertionError("built")

        _seq = _name = _id

    keeper = Keeper({EventKind.FAILED})
    journal = journal_of(keeper)
    subject: Any = Untouchable()
    journal.post(EventKind.SUCCEEDED, START_US, subject)
    journal.deliver()
    assert journal.wants == {EventKind.FAILED}
    assert keeper.batches == []


def test_an_event_posted_by_an_observer_is_delivered_in_the_same_delivery() -> None:
    """An observer that schedules a task causes events; they must not wait for the next turn, nor nest into this one."""
    keeper = Keeper()
    depth = [0]

    def schedule_one(events: object) -> None:
        depth.append(depth[-1] + 1)
        if len(depth) < 4:
            journal.post(EventKind.SCHEDULED, START_US)
            journal.deliver()
            assert len(depth) == depth[-1] + 1, "nested"

    journal = journal_of(keeper, Caller(schedule_one))
    journal.post(EventKind.SCHEDULED, START_US)
    journal.deliver()
    assert [len(batch) for batch in keeper.batches] == [1, 1, 1]


def test_overflow_inline_drops_the_oldest_and_counts_them() -> None:
    """The newest events tell what is going on now; a silent gap would be read as: nothing happened."""
    keeper = Keeper()
    journal = journal_of(keeper, limit=10)
    post_many(journal, 25)
    journal.deliver()
    dropped, *rest = keeper.events
    assert dropped == Event(EventKind.DROPPED, Instant(START_US + 15), count=15)
    assert [event.at_us - START_US for event in rest] == list(range(15, 25))
    post_many(journal, 3)
    journal.deliver()
    assert len(keeper.of(EventKind.DROPPED)) == 1, "told twice"


def test_who_does_not_want_dropped_is_not_told() -> None:
    """`kinds` is a promise."""
    keeper = Keeper({EventKind.SUCCEEDED})
    journal = journal_of(keeper, limit=10)
    post_many(journal, 25)
    journal.deliver()
    assert len(keeper.events) == 10


def test_close_without_a_start_delivers_and_closes_the_observers() -> None:
    """A scheduler that was never started, or is driven by a test's clock, has no thread to do it."""
    keeper = Keeper()
    journal = journal_of(keeper)
    post_many(journal, 2500)
    assert journal.close() is True
    assert len(keeper.events) == 2500
    assert journal.close(0) is True
    journal.post(EventKind.FAILED, START_US)
    journal.start()
    journal.deliver()
    assert (len(keeper.events), keeper.closed) == (2500, 1)
    assert observer_threads() == 0


# The thread


def test_no_thread_is_started_before_the_first_wanted_event() -> None:
    """A scheduler whose tasks all succeed should not cost its process a thread."""
    keeper = Keeper({EventKind.FAILED})
    journal = journal_of(keeper)
    journal.start()
    journal.post(EventKind.SUCCEEDED, START_US)
    assert observer_threads() == 0
    journal.post(EventKind.FAILED, START_US)
    assert observer_threads() == 1
    assert journal.close(PATIENCE_S)
    assert keeper.threads == {"tickless-observer"}
    assert observer_threads() == 0


def test_events_from_before_the_start_are_delivered_after_it() -> None:
    """Tasks are scheduled before the scheduler is started."""
    gated = Gated()
    journal = journal_of(gated)
    journal.post(EventKind.SCHEDULED, START_US)
    journal.start()
    assert gated.entered.wait(PATIENCE_S)
    gated.go.set()
    assert journal.close(PATIENCE_S)
    assert len(gated.events) == 1


def test_post_returns_while_an_observer_blocks_and_overflow_is_exact() -> None:
    """A log on a full disk must not stop the tasks, and the log must say what it lacks."""
    gated = Gated()
    journal = journal_of(gated, limit=100)
    journal.start()
    journal.post(EventKind.READY, START_US)
    assert gated.entered.wait(PATIENCE_S)
    post_many(journal, 1_234)
    assert journal.close(0.001) is False
    gated.go.set()
    assert journal.close(PATIENCE_S) is True
    assert [event.count for event in gated.of(EventKind.DROPPED)] == [1_134]
    assert gated.batches[1][0].kind is EventKind.DROPPED
    assert len(gated.of(EventKind.SUCCEEDED)) == 100
    assert gated.closed == 1


def test_post_under_a_lock_that_an_observer_wants_does_not_wait_for_it() -> None:
    """The store posts while it holds its lock; an observer asks the store for a task's runs."""
    lock = threading.Lock()
    entered = threading.Event()

    def ask(_: object) -> None:
        entered.set()
        with lock:
            pass

    caller = Caller(ask)
    journal = journal_of(caller)
    journal.start()
    with lock:
        journal.post(EventKind.READY, START_US)
        assert entered.wait(PATIENCE_S)
        post_many(journal, 20)
    assert journal.close(PATIENCE_S)
    assert len(caller.events) == 21


def test_close_from_an_observer_does_not_wait_for_itself() -> None:
    """BUG-035: a listener that closes the scheduler after the first failure must not deadlock."""
    answers: list[bool] = []
    keeper = Keeper()
    ended = threading.Event()

    def close_it(_: object) -> None:
        answers.append(journal.close())
        journal.post(EventKind.FAILED, START_US)  # after the close: ignored

    class Last(Keeper):
        def close(self) -> None:
            ended.set()

    journal = journal_of(Caller(close_it), keeper, Last())
    post_many(journal, 1)
    journal.start()
    assert ended.wait(PATIENCE_S)
    assert journal.close(PATIENCE_S) is True
    assert answers == [False]
    assert [event.kind for event in keeper.events] == [EventKind.SUCCEEDED]
    assert keeper.closed == 1


def test_close_from_an_observer_delivers_inline_what_is_left() -> None:
    """The same under a test's clock, where the closer is inside of the delivery."""
    keeper = Keeper()
    journal = journal_of(Caller(lambda _: journal.close()), keeper)
    post_many(journal, 1_500)
    journal.deliver()
    assert len(keeper.events) == 1_500
    assert keeper.closed == 1


def test_many_threads_may_close_at_once() -> None:
    """A signal, the interpreter's exit and a `with` block meet."""
    keeper = Keeper()
    journal = journal_of(keeper)
    journal.start()
    post_many(journal, 100)
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda: answers.append(journal.close(PATIENCE_S))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert answers == [True] * 5
    assert (len(keeper.events), keeper.closed) == (100, 1)


def test_where_no_thread_can_be_had_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container at its limit of threads: posting goes on, a later post tries again, close delivers the rest."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    keeper = Keeper()
    journal = journal_of(keeper)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        journal.start()
        post_many(journal, 3)
    assert keeper.events == []
    post_many(journal, 1)
    assert observer_threads() == 1
    assert journal.close(PATIENCE_S)
    assert len(keeper.events) == 4


# Observers that raise


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_an_observer_that_raises_stops_nobody_and_is_told_to_the_others(error: BaseException) -> None:
    """BUG-003, BUG-045: one broken metrics exporter must not take the log with it, nor the thread."""

    def raise_it(_: object) -> None:
        raise error

    keeper = Keeper()
    journal = journal_of(Caller(raise_it), keeper)
    journal.start()
    post_many(journal, 3)
    assert journal.close(PATIENCE_S)
    (trouble,) = keeper.of(EventKind.TROUBLE)[:1]
    assert trouble.name == "observer Caller"
    assert trouble.error is not None
    assert trouble.error.startswith(type(error).__name__)
    assert trouble.traceback is not None
    assert "raise_it" in trouble.traceback
    assert len(keeper.of(EventKind.SUCCEEDED)) == 3
    assert keeper.closed == 1


def test_repeated_failures_of_an_observer_are_told_now_and_then_with_their_count() -> None:
    """An exporter whose server is down for an hour, at a batch a second, is worth a few lines."""
    clock = FakeClock(START_US)
    keeper = Keeper({EventKind.TROUBLE})
    journal = Journal([Caller(fail, {EventKind.READY}), keeper], clock)
    for _ in range(3_600):
        journal.post(EventKind.READY, clock.now())
        journal.deliver()
        clock.advance(1)
    journal.close()
    assert 3 <= len(keeper.events) <= 8
    assert sum(event.count for event in keeper.events) == 3_600


def test_observers_that_all_raise_do_not_report_one_another_for_ever() -> None:
    """The log observer raises because the disk is full; to tell the others of that must come to an end."""
    observers = [Caller(fail) for _ in range(3)]
    journal = journal_of(*observers)
    post_many(journal, 1)
    journal.deliver()
    assert [len(observer.batches) for observer in observers] == [3, 3, 3]
    journal.close()


def test_an_observer_whose_close_raises_is_told_to_the_others() -> None:
    """A file that cannot be flushed at the end has lost lines."""

    class Broken(Keeper):
        def close(self) -> None:
            raise OSError("disk full")

    keeper = Keeper()
    journal = journal_of(Broken(), keeper)
    assert journal.close() is True
    assert [event.error for event in keeper.events] == ["OSError: disk full"]


def test_an_error_that_cannot_be_printed_is_trouble_all_the_same() -> None:
    """An exception with a broken __str__ must not break the place that contains exceptions."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

    def raise_mute(_: object) -> None:
        raise Mute

    keeper = Keeper({EventKind.TROUBLE})
    journal = journal_of(Caller(raise_mute), keeper)
    post_many(journal, 1)
    journal.deliver()
    assert [event.error for event in keeper.events] == ["Mute: <no message: str() raised SystemExit>"]


# Fork


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # forking with threads is what is tested
def test_in_a_forked_child_the_journal_is_inert() -> None:
    """The child has no observer thread and must neither hang at close nor write the parent's events again."""
    gated = Gated()
    journal = journal_of(gated)
    journal.start()
    journal.post(EventKind.READY, START_US)
    assert gated.entered.wait(PATIENCE_S)  # the thread is inside, and holds the delivery
    post_many(journal, 5)
    child = os.fork()
    if child == 0:
        try:
            journal.post(EventKind.FAILED, START_US)
            journal.deliver()
            inert = journal.close() and not journal.wants and observer_threads() == 0
            os._exit(0 if inert and len(gated.events) == 1 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gated.go.set()
    assert journal.close(PATIENCE_S)
    assert len(gated.events) == 6
