"""The story of a task that has no result: golden texts, the same in memory and in SQLite; and its notes."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stores.sql.house import House, fail, note
from tickless import (
    CancelledError,
    Limit,
    OutputGone,
    Pool,
    Reason,
    Retry,
    Scheduler,
    State,
    Stopped,
    Task,
    TaskInfo,
    TaskRejected,
    TaskSkipped,
    TaskTimedOut,
    after,
    every,
)
from tickless.explain import MOST_ASKED, MOST_SHOWN, Seen, story
from tickless.testing import FakeClock, InlinePool, ManualPool


class Place:
    """A clock, and schedulers on it that are started: in memory or on a file."""

    def __init__(self, house: House | None) -> None:
        self._house = house
        self.clock = FakeClock() if house is None else house.clock
        self._started: list[Scheduler] = []

    def start(self, pool: Any = None, **given: Any) -> Scheduler:
        pool = InlinePool() if pool is None else pool
        if self._house is not None:
            scheduler = self._house.make(pool=pool, **given)
        else:
            scheduler = Scheduler(pool, clock=self.clock, observers=[], **given)
        scheduler.start()
        self._started.append(scheduler)
        return scheduler

    def close(self) -> None:
        for scheduler in self._started:
            scheduler.close()


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(House(tmp_path) if request.param == "sqlite" else None)
    yield place
    place.close()


def told(task: Task[Any], kind: type[BaseException], timeout: float | None = None) -> str:
    """What `result()` raises, with its notes, as text. Asked twice, since it must be the same each time."""
    texts = []
    for _ in range(2):
        with pytest.raises(kind) as caught:
            task.result(timeout)
        texts.append("\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])]))
    assert texts[0] == texts[1]
    return texts[0]


def test_a_failure_is_the_works_own_error_with_a_note(place: Place) -> None:
    scheduler = place.start()
    task = scheduler.schedule(fail, after(2), id="extract")
    place.clock.advance(5)
    assert told(task, ValueError) == (
        "broken\n"
        "tickless: task extract (fail) failed at 2024-01-01 00:00:02 UTC\n"
        "  due at 00:00:02 UTC, started at 00:00:02 UTC"
    )


def test_the_attempts_of_a_failure_are_told(place: Place) -> None:
    """The first ones and the last, with their errors; those of another day with their day."""
    scheduler = place.start()
    task = scheduler.schedule(fail, id="x", retry=Retry(3, delay=0.25, factor=1, max_delay=86400))
    other = scheduler.schedule(fail, id="y", retry=Retry(9, delay=43_200, factor=1, max_delay=86400))
    place.clock.advance(10 * 86_400)
    assert told(task, ValueError) == (
        "broken\n"
        "tickless: task x (fail) failed at 2024-01-01 00:00:00.500 UTC\n"
        "  due at 00:00:00 UTC\n"
        "  attempt 1 started at 00:00:00 UTC, failed at 00:00:00 UTC: ValueError: broken\n"
        "  attempt 2 started at 00:00:00.250 UTC, failed at 00:00:00.250 UTC: ValueError: broken\n"
        "  attempt 3 started at 00:00:00.500 UTC, failed at 00:00:00.500 UTC: ValueError: broken"
    )
    day = "2024-01-01"
    assert told(other, ValueError) == (
        "broken\n"
        "tickless: task y (fail) failed at 2024-01-05 00:00:00 UTC\n"
        f"  due at {day} 00:00:00 UTC\n"
        f"  attempt 1 started at {day} 00:00:00 UTC, failed at {day} 00:00:00 UTC: ValueError: broken\n"
        f"  attempt 2 started at {day} 12:00:00 UTC, failed at {day} 12:00:00 UTC: ValueError: broken\n"
        "  attempt 3 started at 2024-01-02 00:00:00 UTC, failed at 2024-01-02 00:00:00 UTC: ValueError: broken\n"
        "  ... and 5 more\n"
        "  attempt 9 started at 00:00:00 UTC, failed at 00:00:00 UTC: ValueError: broken"
    )


def test_a_skip_names_the_parent_that_failed_and_its_error(place: Place) -> None:
    scheduler = place.start()
    extract = scheduler.schedule(fail, after(2), id="extract")
    scheduler.schedule(note, after(1), id="fine")
    load = scheduler.schedule(note, id="load", after_tasks=["fine", extract])
    place.clock.advance(5)
    assert told(load, TaskSkipped) == (
        "task load (note) was skipped (parent_failed) at 2024-01-01 00:00:02 UTC: "
        "parent extract FAILED at 00:00:02 UTC: ValueError: broken"
    )


def test_a_skip_is_followed_up_to_the_task_that_failed(place: Place) -> None:
    """Through the generations between; and its attempts are told there, since it is another task's error."""
    scheduler = place.start()
    last = scheduler.schedule(fail, id="t0", retry=Retry(2, delay=1))
    for number in range(1, 4):
        last = scheduler.schedule(note, id=f"t{number}", after_tasks=[last])
    place.clock.advance(5)
    assert told(last, TaskSkipped) == (
        "task t3 (note) was skipped (parent_failed) at 2024-01-01 00:00:01 UTC: "
        "parent t2 SKIPPED (parent_failed) at 00:00:01 UTC\n"
        "task t2 (note) was skipped (parent_failed) at 00:00:01 UTC: "
        "parent t1 SKIPPED (parent_failed) at 00:00:01 UTC\n"
        "task t1 (note) was skipped (parent_failed) at 00:00:01 UTC: "
        "parent t0 FAILED at 00:00:01 UTC: ValueError: broken\n"
        "  t0: due at 00:00:00 UTC\n"
        "  t0: attempt 1 started at 00:00:00 UTC, failed at 00:00:00 UTC: ValueError: broken\n"
        "  t0: attempt 2 started at 00:00:01 UTC, failed at 00:00:01 UTC: ValueError: broken"
    )


def test_a_long_chain_is_told_in_a_few_lines(place: Place) -> None:
    scheduler = place.start()
    last = scheduler.schedule(fail, after(1), id="t0")
    for number in range(1, 18):
        last = scheduler.schedule(note, id=f"t{number}", after_tasks=[last])
    place.clock.advance(5)
    lines = told(last, TaskSkipped).split("\n")
    assert [line.split(" ")[1] for line in lines] == ["t17", "t16", "t15", "and", "t1"]
    assert lines[3] == "... and 13 more"
    assert lines[-1].endswith("parent t0 FAILED at 00:00:01 UTC: ValueError: broken")


def test_of_many_parents_a_few_are_told_those_that_are_the_cause(place: Place) -> None:
    """The one that failed is the cause though others were cancelled before; what came later is none."""
    scheduler = place.start()
    parents = [scheduler.schedule(note, after(9), id=f"p{number}") for number in range(30)]
    broken = [scheduler.schedule(fail, after(number), id=f"f{number}") for number in (2, 1)]
    child = scheduler.schedule(note, id="child", after_tasks=[*parents, *broken])
    other = scheduler.schedule(note, id="other", after_tasks=[*parents], run_if="any_failed")
    place.clock.advance(10)
    assert told(child, TaskSkipped) == (
        "task child (note) was skipped (parent_failed) at 2024-01-01 00:00:01 UTC: "
        "parent f1 FAILED at 00:00:01 UTC: ValueError: broken"
    )
    assert told(other, TaskSkipped) == (
        "task other (note) was skipped (run_if) at 2024-01-01 00:00:09 UTC: parent p0 SUCCEEDED at 00:00:09 UTC; "
        "parent p1 SUCCEEDED at 00:00:09 UTC; parent p2 SUCCEEDED at 00:00:09 UTC; ... and 26 more; "
        "parent p29 SUCCEEDED at 00:00:09 UTC"
    )


def test_a_parent_that_was_cancelled_is_told(place: Place) -> None:
    scheduler = place.start()
    parent = scheduler.schedule(note, after(9), id="p")
    child = scheduler.schedule(note, id="child", after_tasks=[parent])
    place.clock.advance(2)
    parent.cancel()
    assert told(parent, CancelledError) == (
        "task p (note) was cancelled (cancelled) at 2024-01-01 00:00:02 UTC\n  due at 00:00:09 UTC"
    )
    assert told(child, TaskSkipped) == (
        "task child (note) was skipped (parent_cancelled) at 2024-01-01 00:00:02 UTC: "
        "parent p CANCELLED (cancelled) at 00:00:02 UTC"
    )


def test_a_parent_that_was_forgotten_is_said_to_be(place: Place) -> None:
    """And so it is where its id belongs to another task by now: the story is not about that one."""
    scheduler = place.start(keep_finished=1)
    scheduler.schedule(fail, after(1), id="p")
    number = scheduler.schedule(fail, after(2))
    children = [scheduler.schedule(note, id="c", after_tasks=["p"]), scheduler.schedule(note, after_tasks=[number])]
    place.clock.advance(5)
    scheduler.schedule(note)
    scheduler.schedule(note, after(5), id="p")
    assert told(children[0], TaskSkipped) == (
        "task c (note) was skipped (parent_failed) at 2024-01-01 00:00:01 UTC: parent p: forgotten"
    )
    assert told(children[1], TaskSkipped).endswith(f": parent {number.id}: forgotten")


def stop() -> None:
    raise Stopped("asked to")


def test_a_task_that_stopped_and_a_recurring_one_between_two_runs(place: Place) -> None:
    scheduler = place.start()
    beat = scheduler.schedule(note, every(seconds=2), id="beat")
    place.clock.advance(3)
    beat.cancel()
    assert told(beat, CancelledError) == (
        "task beat (note) was cancelled (cancelled) at 2024-01-01 00:00:03 UTC\n  due at 00:00:04 UTC"
    )
    stopped = scheduler.schedule(stop, id="s")
    assert told(stopped, CancelledError) == (
        "task s (stop) was cancelled (stopped) at 2024-01-01 00:00:03 UTC\n"
        "  due at 00:00:03 UTC, started at 00:00:03 UTC"
    )


def test_a_wait_that_was_too_short_tells_what_the_task_waits_for(place: Place) -> None:
    pool = ManualPool()
    scheduler = place.start(pool, limits=[Limit("api", 1)])
    has = "has not ended within 0 s; it is"

    def too_short(task: Task[Any]) -> str:
        return told(task, TimeoutError, 0)

    later = scheduler.schedule(note, after(5), id="later")
    assert too_short(later) == f"task later (note) {has} pending: due at 2024-01-01 00:00:05 UTC"
    child = scheduler.schedule(note, id="child", after_tasks=[later])
    last = scheduler.schedule(note, id="last", after_tasks=[child])
    assert too_short(last) == (
        f"task last (note) {has} pending: parent child PENDING, waits for its parents\n"
        "task child (note) is pending: parent later PENDING, due at 2024-01-01 00:00:05 UTC"
    )
    later.pause(reason="repair")
    assert too_short(later) == f"task later (note) {has} pending: paused: repair"
    ready = scheduler.schedule(note, id="ready", limit="api")
    assert too_short(ready) == (
        f"task ready (note) {has} ready: waits for room in the pool default\n  due at 2024-01-01 00:00:00 UTC"
    )
    queued = scheduler.schedule(note, id="queued", limit="api")
    assert too_short(queued).startswith(f"task queued (note) {has} ready: waits for the limit api\n")
    again = scheduler.schedule(fail, id="again", retry=Retry(3, delay=7))
    pool.run_all()
    assert too_short(again) == (
        f"task again (fail) {has} pending: retry at 2024-01-01 00:00:07 UTC\n"
        "  due at 00:00:00 UTC\n"
        "  attempt 1 started at 00:00:00 UTC, failed at 00:00:00 UTC: ValueError: broken"
    )
    beat = scheduler.schedule(note, every(seconds=1), id="beat")
    place.clock.advance(1)
    pool.run_all()
    assert too_short(beat) == f"task beat (note) {has} pending: due at 2024-01-01 00:00:02 UTC"


hands: dict[str, Any] = {}
"""What works get at that a store finds by their names."""


def look_at_itself() -> None:
    with pytest.raises(TimeoutError) as caught:
        hands["task"].result(0)
    hands["text"] = str(caught.value)


def test_a_wait_for_a_task_that_runs_tells_since_when(place: Place) -> None:
    hands["task"] = place.start().schedule(look_at_itself, after(1), id="self")
    place.clock.advance(1)
    assert hands.pop("text") == (
        "task self (look_at_itself) has not ended within 0 s; it is running: runs since 2024-01-01 00:00:01 UTC\n"
        "  due at 00:00:01 UTC, started at 00:00:01 UTC"
    )
    hands.clear()


def too_long() -> None:
    hands["clock"].advance(9)


def test_a_run_that_timed_out_is_told_with_what_became_of_its_code(place: Place) -> None:
    hands["clock"] = place.clock
    scheduler = place.start()
    task = scheduler.schedule(too_long, after(1), id="slow", timeout=5)
    place.clock.advance(1)
    assert told(task, TaskTimedOut) == (
        "task slow: it ran for longer than its timeout of 5 s\n"
        "tickless: task slow (too_long) failed (timed_out) at 2024-01-01 00:00:10 UTC\n"
        "  due at 00:00:01 UTC, started at 00:00:01 UTC\n"
        "  its code came to an end later: returned"
    )


class Shut(InlinePool):
    def submit(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("cannot schedule new futures after shutdown")


def test_a_task_that_no_pool_took() -> None:
    task = Place(None).start(Pool(Shut(), slots=1)).schedule(note, id="x")
    assert told(task, TaskRejected) == (
        "the pool did not take the run: RuntimeError: cannot schedule new futures after shutdown\n"
        "tickless: task x (note) failed (rejected) at 2024-01-01 00:00:00 UTC\n"
        "  due at 00:00:00 UTC"
    )


def test_a_task_on_a_store_whose_pool_is_down_is_not_said_to_wait_for_room(tmp_path: Path) -> None:
    place = Place(House(tmp_path))
    scheduler = place.start(Pool(Shut(), slots=1))
    task = scheduler.schedule(note, id="x")
    child = scheduler.schedule(note, id="y", after_tasks=[task])
    why = (
        "waits for a scheduler whose pool default works: this one's is down: "
        "RuntimeError: cannot schedule new futures after shutdown"
    )
    assert told(task, TimeoutError, 0).splitlines()[0].endswith(f": {why}")
    assert told(child, TimeoutError, 0).splitlines()[0].endswith(f": parent x READY, {why}")
    place.close()


def test_an_output_that_was_let_go_says_how_its_task_ended() -> None:
    scheduler = Place(None).start()
    scheduler.schedule(fail, id="x")
    late = scheduler.schedule(note, id="x", exists="keep")
    assert told(late, OutputGone) == (
        "the output of task x (fail), which failed, was let go: nobody held a handle of it when it ended; "
        "keep what schedule() returns\n"
        "  due at 2024-01-01 00:00:00 UTC, started at 00:00:00 UTC"
    )


# The note


def raising(error: BaseException) -> Task[Any]:
    """A task that has raised that very error."""

    def body() -> None:
        raise error

    return Place(None).start().schedule(body, id="x")


def raised(task: Task[Any]) -> BaseException:
    with pytest.raises(BaseException) as caught:
        task.result()
    return caught.value


def test_the_users_traceback_stays_as_it_was_however_often_the_result_is_asked() -> None:
    """The callers of `result` came before the work's own frames, once more each time, and were kept."""
    task = raising(ValueError("mine"))
    for _ in range(3):
        names = [frame.name for frame in traceback.extract_tb(raised(task).__traceback__)]
        assert names == ["raised", "result", "body"]


def test_an_error_that_went_through_two_tasks_has_the_frames_and_the_notes_of_both() -> None:
    """A work asks for the result of another task. What it was told there is part of its own story."""
    scheduler = Place(None).start()
    parent = scheduler.schedule(fail, id="parent")

    def ask() -> None:
        parent.result()

    child = scheduler.schedule(ask, id="child")
    for _ in range(2):
        error = raised(child)
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert names == ["raised", "result", "ask", "result", "fail"]
        assert [note.split(" (")[0] for note in error.__notes__] == ["tickless: task parent", "tickless: task child"]


def test_a_note_of_the_works_own_stays_where_it_is() -> None:
    error = ValueError("mine")
    error.add_note("look at the door")
    task = raising(error)
    assert [note[:16] for _ in range(3) for note in raised(task).__notes__] == [
        "look at the door",
        "tickless: task x",
    ] * 3


def test_one_error_that_many_tasks_raise_has_a_few_notes() -> None:
    """A module's constant: it would grow by a note with each task."""
    error, scheduler = ValueError("mine"), Place(None).start()

    def body() -> None:
        raise error

    for number in range(20):
        raised(scheduler.schedule(body, id=f"t{number}"))
    assert [note.split(" ")[2] for note in error.__notes__] == ["t15", "t16", "t17", "t18", "t19"]


class Slotted(Exception):
    __slots__ = ("code",)


class NoNotes(Exception):
    def add_note(self, note: str) -> None:
        raise RuntimeError("no notes")

    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("frozen")


class OddNotes(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # as foreign code may
        raise RuntimeError("odd")


class TextNotes(Exception):
    __notes__ = "no list"  # type: ignore[assignment]  # so it is in life, where somebody confuses them


class HostileNote(str):
    __slots__ = ()

    def startswith(self, *more: object) -> bool:
        raise AssertionError("asked")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = str.__hash__


def with_hostile_note() -> Exception:
    error = ValueError("mine")
    error.add_note(HostileNote("odd"))
    return error


@pytest.mark.parametrize(
    ("error", "notes"),
    [
        (Slotted("mine"), 1),
        (NoNotes("mine"), 1),
        (OddNotes("mine"), None),
        (TextNotes("mine"), None),
        (with_hostile_note(), 2),
        (ExceptionGroup("mine", [ValueError("a"), KeyError("b")]), 1),
        (SystemExit("mine"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_raised_itself_whatever_it_does_with_notes(error: BaseException, notes: int | None) -> None:
    """The error is what must be told; a note that cannot be made is none."""
    task = raising(error)
    for _ in range(2):
        assert raised(task) is error
    if notes is not None:
        assert len(error.__notes__) == notes


def test_names_cannot_break_the_lines_of_a_story() -> None:
    scheduler = Place(None).start()
    parent = scheduler.schedule(fail, after(1), id="a\nb\x1b[31m", name="c\nd")
    with pytest.raises(TimeoutError) as caught:
        scheduler.schedule(note, after_tasks=[parent], id="e\nf").result(0)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_story_looks_at_so_many_tasks_and_no_more() -> None:
    """A graph of any size is told in bounded time: this one has a parent a level, and a fan above."""
    looked: list[object] = []

    def seen(number: int) -> Seen:
        info = TaskInfo(f"#{number}", "x", State.SKIPPED, Reason.PARENT_FAILED, None, None, 0, (), (), False)
        return Seen(info, (number + 1,) if number < 500 else tuple(range(number + 1, number + 10_000)))

    def look(key: Any) -> Seen:
        looked.append(key)
        return seen(key)

    lines = story(seen(0), look).split("\n")
    assert len(looked) <= MOST_ASKED
    assert len(lines) == MOST_SHOWN
