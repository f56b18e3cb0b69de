"""What one scheduler leaves and another finds: fires over a restart, runs that were taken, ends that were not written.

In one process: a store does not know whether the other one is in its own. Real processes: `test_store_processes.py`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tickless import Scheduler, State, after, at, cron
from tickless.core.record import RunRecord, TaskRecord
from tickless.durable import Renewer
from tickless.errors import StoreDown
from tickless.instants import SECOND_US, Instant
from tickless.records import SUCCESS, Run
from tickless.stores.registered import Works
from tickless.stores.sql import failpoints
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.store import SqlStore
from tickless.testing import FakeClock, InlinePool
from tickless.testing.drafts import draft, later
from tickless.testing.keepsakes import Keepsakes

SLOT = datetime(2026, 3, 10, 15, tzinfo=UTC)
LEASE_S = 30


class Place:
    """A file, and schedulers on it whose works add to `story`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.path = folder / "tasks.db"
        self._stack = stack
        self.story: list[str] = []
        self.works: dict[str, Callable[..., Any]] = {"tell": self.tell}

    def tell(self, word: str) -> None:
        self.story.append(word)

    def scheduler(self, pool: Executor, **options: Any) -> Scheduler:
        """Started, and closed in the end."""
        made = Scheduler(pool, store=f"sqlite:///{self.path}", works=self.works, **{"observers": [], **options})
        self._stack.callback(made.close)
        return made

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        db = sqlite3.connect(self.path)
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()

    def owned(self) -> int:
        """How many runs are somebody's."""
        return int(self.ask("SELECT count(*) FROM tasks WHERE owner IS NOT NULL")[0][0])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


# Fires over a restart


@pytest.mark.parametrize("when", [cron("0 15 * * *"), at(SLOT)], ids=["recurring", "once"])
def test_BUG_021_a_fire_that_came_while_nobody_was_there_runs_once_under_its_own_name(place: Place, when: Any) -> None:
    """A deploy from 14:59:50 to 15:00:10: slots are lost if only those who are awake look at them."""
    clock = FakeClock(SLOT - timedelta(minutes=1))
    old = place.scheduler(InlinePool(), clock=clock)
    old.schedule(place.tell, when, args=("slot",), id="daily")
    old.start()
    clock.advance(50)
    old.close()
    clock.advance(20)
    assert place.story == []
    new = place.scheduler(InlinePool(), clock=clock)
    new.schedule(place.tell, when, args=("slot",), id="daily", exists="keep")
    new.start()
    clock.advance(60)
    assert place.story == ["slot"]
    (run,) = new.runs("daily")
    assert (run.due, run.lateness) == (SLOT, timedelta(seconds=10))


def test_BUG_021_two_that_overlap_run_the_slot_once(place: Place) -> None:
    """A deploy that starts the new one first."""
    clock = FakeClock(SLOT - timedelta(minutes=1))
    both = [place.scheduler(InlinePool(), clock=clock) for _ in range(2)]
    for one in both:
        one.schedule(place.tell, cron("0 15 * * *"), args=("slot",), id="daily")
        one.start()
    clock.advance(120)
    assert place.story == ["slot"]
    assert [[run.due for run in one.runs("daily")] for one in both] == [[SLOT], [SLOT]]


# Runs that were taken


def test_BUG_036_what_was_taken_and_has_not_begun_is_given_back_by_close_and_runs_once(place: Place) -> None:
    """Fires that were claimed at the shutdown, and then belong to a process that is gone for good."""
    began, gate = threading.Event(), threading.Event()

    def hold() -> None:
        place.story.append("hold")
        began.set()
        gate.wait(30)

    place.works["hold"] = hold
    with ThreadPoolExecutor(1) as pool:
        old = place.scheduler(pool)
        words = [f"{number}" for number in range(80)]
        for number, word in enumerate(words):  # by the fortieth it takes several at once
            old.schedule(place.tell, args=(word,))
            if number == 40:
                old.schedule(hold)
        old.start()
        assert began.wait(30)
        assert place.owned() > 1, "it takes one at a time: this proves nothing"
        (going_on,) = old.close(timeout=0)
        assert going_on.state is State.RUNNING
        assert place.owned() == 1
        assert place.story == [*words[:41], "hold"]
        gate.set()
        assert old.close() == []
        assert place.owned() == 0
        new = place.scheduler(pool)
        new.start()
        assert new.wait(30)
    assert sorted(place.story) == sorted([*words, "hold"])


class Closed(Executor):
    """Takes nothing until it is open."""

    tickless_slots = 1

    def __init__(self) -> None:
        self.refusals = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.refusals += 1
        raise RuntimeError("cannot schedule new futures after shutdown")


def test_BUG_042_a_pool_that_is_closed_for_good_costs_no_work(place: Place) -> None:
    """It is asked once; what is due, and what waits for its time, is there for the next program."""
    clock, pool = FakeClock(), Closed()
    broken = place.scheduler(pool, clock=clock)
    broken.start()
    refused = broken.schedule(place.tell, args=("refused",))
    later_on = broken.schedule(place.tell, after(3600), args=("later",))
    clock.advance(60)
    assert (refused.state, later_on.state, pool.refusals) == (State.READY, State.PENDING, 1)
    broken.close()
    sound = place.scheduler(InlinePool(), clock=clock)
    sound.start()
    clock.advance(3600)
    assert place.story == ["refused", "later"]


def test_the_error_of_a_parent_is_no_result_that_a_child_could_take(place: Place) -> None:
    """The child is SKIPPED, and who schedules it is not told that an exception cannot be stored."""

    def fail() -> None:
        raise OSError("no such luck")

    place.works["fail"] = fail
    one = place.scheduler(InlinePool(), clock=FakeClock())
    one.start()
    parent = one.schedule(fail)
    assert parent.state is State.FAILED
    child = one.schedule(place.tell, args=(parent.output,))
    assert (child.state, child.reason) == (State.SKIPPED, "parent_failed")


class Idle:
    """A store with nothing to renew."""

    lease_us = 60_000_000

    def __init__(self) -> None:
        self.claimed: Callable[[], None] = lambda: None
        self.looked = threading.Event()
        self.claims = self

    def any(self) -> bool:
        self.looked.set()
        return False


def test_who_renews_leases_stops_at_once_though_it_sleeps(place: Place) -> None:
    """Else every `close` of an idle scheduler takes a third of a lease; several workers start the thread once."""
    store = Idle()
    renewer = Renewer(cast("SqlStore", store), FakeClock())
    renewer.start()
    at_once(*[store.claimed] * 8)
    assert store.looked.wait(10)
    stopping = threading.Thread(target=renewer.stop)
    stopping.start()
    stopping.join(10)
    assert not stopping.is_alive()


# Ends that were not written


@pytest.mark.parametrize("times", [1, 5])
def test_BUG_067_an_end_that_could_not_be_written_is_kept_and_written_later(
    place: Place, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection drops exactly while "done" is written: the row stays claimed for months, and nobody sees it."""
    clock, failed = FakeClock(), [0]

    def no_room(point: str) -> None:
        if point == "write.after" and place.story and failed[0] < times:
            failed[0] += 1
            raise StoreDown("no room")

    one = place.scheduler(InlinePool(), clock=clock)
    one.start()
    task = one.schedule(place.tell, after(1), args=("once",), id="x")
    child = one.schedule(place.tell, args=("child",), after_tasks=[task])
    monkeypatch.setattr(failpoints, "armed", no_room)
    clock.advance(100)
    assert failed == [times]
    assert place.story == ["once", "child"]
    assert (task.state, child.state) == (State.SUCCEEDED, State.SUCCEEDED)
    assert place.owned() == 0


# Two stores on one file, on instants that the test says


class Pair:
    """Stores that are open, as those of several processes are. Seconds count from when the last task was taken."""

    def __init__(self, folder: Path, count: int) -> None:
        works = cast("Works", Keepsakes())
        self.stores = [
            SqlStore(Database(folder / "tasks.db"), works=works, lease_us=LEASE_S * 1_000_000) for _ in range(count)
        ]
        self.began_us = later(0)
        for store in self.stores:
            store.open()

    def after(self, seconds: float) -> Instant:
        return Instant(self.began_us + round(seconds * SECOND_US))

    def taken(self) -> tuple[TaskRecord, RunRecord]:
        """A new task, and the run of it, which is the first store's now."""
        first, now = self.stores[0], self.after(1000)
        self.began_us = now
        task = draft(None, now, now)
        first.add(task, now)
        run = first.take(now)
        assert run is not None
        assert run.task is task
        return task, run

    def takes(self, number: int, seconds: float) -> RunRecord | None:
        """What that store has to run after so many seconds."""
        store, now = self.stores[number], self.after(seconds)
        for delay in (0, LEASE_S / 2):  # at first it is only suspected: this process may have slept, too
            store.transactions.rung = True  # by now, in life
            store.due(self.after(seconds + delay), self.after(seconds + delay))
        return store.take(now)

    def told(self, number: int, task: TaskRecord) -> Run:
        """The one run of the task, as that store tells it: each has a record of its own."""
        store = self.stores[number]
        (run,) = store.runs(store.find(task.id))
        return run

    def leave(self) -> None:
        for store in self.stores:
            store.leave()


@pytest.fixture
def pairs(tmp_path: Path) -> Iterator[Callable[[int], Pair]]:
    made: list[Pair] = []

    def make(count: int) -> Pair:
        made.append(Pair(tmp_path, count))
        return made[-1]

    yield make
    for pair in made:
        pair.leave()


def test_BUG_070_a_run_of_ten_leases_is_nobody_elses_while_they_are_renewed(pairs: Callable[[int], Pair]) -> None:
    """A rescue by time alone starts a healthy long run a second time."""
    pair = pairs(2)
    task, run = pair.taken()
    first = pair.stores[0]
    for third in range(1, 30):
        assert pair.takes(1, third * LEASE_S / 3) is None
        first.renew(pair.after(third * LEASE_S / 3))
    assert not first.lease_lost(run)
    first.finish(run, SUCCESS, pair.after(10 * LEASE_S))
    told = pair.told(1, task)
    assert (told.state, told.attempt) == (State.SUCCEEDED, 1)


def test_BUG_071_a_silent_one_loses_its_run_and_nothing_that_it_says_of_it_counts(
    pairs: Callable[[int], Pair],
) -> None:
    """Whoever wakes carries on as the owner, and extends what is another's by now."""
    pair = pairs(2)
    first, second = pair.stores
    task, run = pair.taken()
    assert pair.takes(1, LEASE_S / 2 - 1) is None
    again = pair.takes(1, LEASE_S + 1)
    assert again is not None
    first.renew(pair.after(LEASE_S + 2))
    assert first.lease_lost(run)
    first.finish(run, SUCCESS, pair.after(LEASE_S + 3))
    assert [pair.told(number, task).state for number in (0, 1)] == [State.RUNNING] * 2
    second.finish(again, SUCCESS, pair.after(LEASE_S + 4))
    told = pair.told(0, task)
    assert (told.state, told.attempt, told.finished_us) == (State.SUCCEEDED, 2, pair.after(LEASE_S + 4))
    assert not first.claims.any()


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Each in a thread of its own, as near to one another as threads go. What they give, in order."""
    barrier = threading.Barrier(len(calls))

    def call(one: Callable[[], Any]) -> Any:
        barrier.wait(30)
        return one()

    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(call, one) for one in calls]]


def test_BUG_070_who_looked_before_a_run_was_taken_wakes_when_its_lease_ends(pairs: Callable[[int], Pair]) -> None:
    """It has nothing to do, and would sleep for ever: a process that is frozen does not die, and so does not ring."""
    pair = pairs(2)
    first, second = pair.stores
    rung, now = threading.Event(), pair.after(0)
    second.transactions.ring = rung.set
    second.due(now, now)
    first.add(draft(None, now, now), now)
    assert rung.wait(10)
    rung.clear()
    assert first.take(now) is not None
    assert rung.wait(10)
    second.due(now, now)
    assert second.next_wake() == pair.after(LEASE_S)


def test_BUG_070_of_two_that_come_to_the_rescue_one_does(pairs: Callable[[int], Pair]) -> None:
    """A run that is rescued twice is an attempt more than there was, or a run twice."""
    pair = pairs(3)
    for _ in range(100):
        task, _run = pair.taken()
        found = at_once(lambda: pair.takes(1, LEASE_S + 1), lambda: pair.takes(2, LEASE_S + 1))
        (number, again), *more = [(number, run) for number, run in enumerate(found, 1) if run is not None]
        assert not more
        pair.stores[number].finish(again, SUCCESS, pair.after(LEASE_S + 2))
        told = pair.told(0, task)
        assert (told.state, told.attempt) == (State.SUCCEEDED, 2)


def test_BUG_070_an_end_that_races_with_a_rescue_is_the_end_or_is_nothing(pairs: Callable[[int], Pair]) -> None:
    """A success that a rescue turns into another try; or a rescue of what has succeeded."""
    pair = pairs(2)
    first, second = pair.stores
    seen = set()
    for _ in range(100):
        task, run = pair.taken()
        _, again = at_once(
            lambda run=run: first.finish(run, SUCCESS, pair.after(LEASE_S + 1)),  # type: ignore[misc]  # run is bound
            lambda: pair.takes(1, LEASE_S + 1),
        )
        if again is not None:
            second.finish(again, SUCCESS, pair.after(LEASE_S + 2))
        told = pair.told(1, task)
        attempt = 1 if again is None else 2
        assert (told.state, told.attempt) == (State.SUCCEEDED, attempt)
        assert told.finished_us == pair.after(LEASE_S + attempt)
        seen.add(attempt)
    assert seen  # which of the two comes first is not for a test to say


def test_each_task_that_another_process_schedules_is_heard_of(pairs: Callable[[int], Pair]) -> None:
    """The first was, and had run; the next came later than that one had been, and so nobody was told."""
    pair = pairs(2)
    caller, runner = pair.stores
    rung = threading.Event()
    runner.transactions.ring = rung.set
    runner.due(pair.after(0), pair.after(0))
    for seconds in range(3):
        now = pair.after(seconds)
        caller.machine.is_open = False  # it only schedules
        caller.add(draft(None, now, now), now)
        assert rung.wait(10)
        rung.clear()
        runner.due(now, now)
        run = runner.take(now)
        assert run is not None
        runner.finish(run, SUCCESS, now)
