"""The store does not answer for a while: at each of its calls in turn, for once and for long; and files that go."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.stores.sql.house import House, fail, note, told
from tickless import EventKind, Reason, Retry, Scheduler, State, StoreDown, StoreError, TaskSkipped, after, every
from tickless.errors import TicklessError

PATIENCE = 200


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


class Faults:
    """Has the n-th call of the scheduler's file fail, and `more` that follow it."""

    def __init__(self, scheduler: Scheduler, n: int, more: int = 0) -> None:
        database: Any = scheduler._store.db  # type: ignore[attr-defined]
        self.calls, self._n, self._more = 0, n, more
        for name in ("execute", "executemany", "begin", "commit"):
            setattr(database, name, self._failing(getattr(database, name)))

    @property
    def met(self) -> bool:
        return self.calls >= self._n

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any) -> Any:
            if args and str(args[0]).startswith(("ROLLBACK", "PRAGMA")):
                return call(*args)
            self.calls += 1
            if self._n <= self.calls <= self._n + self._more:
                raise StoreDown("tasks.db: an injected fault; try again")
            return call(*args)

        return asked


armed: list[Faults] = []


def note_and_break(*what: Any) -> None:
    """The file stops answering while this runs: its end cannot be written."""
    note(*what)
    for faults in armed:
        faults._n = faults.calls + 1
    armed.clear()


def insistently(verb: Callable[[], Any]) -> Any:
    """What a user does whose call was refused: it is said again, and nothing has happened before."""
    for _ in range(PATIENCE):
        try:
            return verb()
        except StoreError:
            continue
    raise AssertionError("the store never answered")


def program(house: House, scheduler: Scheduler, check: Callable[[], None]) -> None:
    """One of each: a one-shot, a child with an output, a retry, a recurring task, a pause, a cancel."""
    clock = house.clock
    parent = insistently(lambda: scheduler.schedule(note, after(1), args=("parent",), id="parent", exists="keep"))
    insistently(lambda: scheduler.schedule(note, args=(parent.output, "child"), id="child", exists="keep"))
    insistently(
        lambda: scheduler.schedule(fail, after(2), args=("fails",), id="fails", retry=Retry(2, delay=1), exists="keep")
    )
    insistently(lambda: scheduler.schedule(note, every(seconds=10), args=("beat",), id="beat", max_runs=3))
    insistently(lambda: scheduler.schedule(note, after(500), id="never", exists="keep"))
    insistently(scheduler.start)
    for _ in range(12):
        clock.advance(5)
        check()
    insistently(lambda: scheduler.cancel("never"))
    for _ in range(PATIENCE):
        clock.advance(30)
        if insistently(lambda: all(info.state.terminal for info in scheduler.tasks())):
            break


@pytest.mark.parametrize("more", [0, 5])
def test_whichever_call_fails_everything_runs_once_and_has_its_record(tmp_path: Path, more: int) -> None:
    """Fail the n-th call for n = 1, 2, ... until a run of the program meets no failure."""
    for n in itertools.count(1, 1 + more):
        folder = tmp_path / str(n)
        folder.mkdir()
        house = House(folder)
        scheduler = house.make()
        faults = Faults(scheduler, n, more)
        program(house, scheduler, lambda: None)
        states = {info.id: info.state for info in insistently(scheduler.tasks)}
        wanted = dict.fromkeys(("parent", "child", "beat"), State.SUCCEEDED)
        assert states == {**wanted, "fails": State.FAILED, "never": State.CANCELLED}, f"the {n}th call failed"
        runs = insistently(partial(scheduler.runs, "beat"))
        assert sum(run.state is State.SUCCEEDED for run in runs) == 3
        assert sorted(map(str, told)) == sorted(
            ["parent", "('parent', 'child')", "fails", "fails", "beat", "beat", "beat"]
        ), f"the {n}th call failed"
        insistently(scheduler.close)
        down = len(house.ear.of(EventKind.STORE_DOWN))
        assert down == len(house.ear.of(EventKind.STORE_UP))
        assert down <= 1
        if not faults.met:
            assert n > 50, "the program has calls to fail"
            return
    raise AssertionError("unreachable")


def test_BUG_002_an_add_that_cannot_be_written_leaves_no_trace_and_others_fire(house: House) -> None:
    with house.start(lambda scheduler: scheduler.schedule(note, every(seconds=10), id="a", args=("a",))) as scheduler:
        Faults(scheduler, 1, 3)
        with pytest.raises(StoreDown):
            scheduler.schedule(note, after(5), id="b", args=("b",))
        house.clock.advance(60)
        assert [info.id for info in scheduler.tasks()] == ["a"]
        assert set(told) == {"a"}


def test_BUG_003_BUG_068_an_outage_is_said_once_backed_off_from_and_caught_up_with(house: House) -> None:
    """One line when it goes and one when it is back; few calls meanwhile; each fire has a record."""
    with house.start(lambda scheduler: scheduler.schedule(note, every(seconds=1), id="a")) as scheduler:
        house.clock.advance(5)
        faults = Faults(scheduler, 1, 10_000)
        house.clock.advance(30)
        assert scheduler.down_since is not None
        assert faults.calls < 60
        faults._more = 0
        house.clock.advance(60)
        assert scheduler.down_since is None
        assert len(house.ear.of(EventKind.STORE_DOWN)) == len(house.ear.of(EventKind.STORE_UP)) == 1
        runs = scheduler.runs("a")
        assert sum(run.count for run in runs) == 95
        assert {run.reason for run in runs if run.state is State.SKIPPED} <= {Reason.COALESCED, Reason.OVERLAP}


def test_an_end_that_cannot_be_written_is_kept_and_written_later(house: House) -> None:
    """BUG-067: the work was done, and must not be done again because nobody could note it."""
    with house.start() as scheduler:
        task = scheduler.schedule(note_and_break, after(1), args=("x",))
        armed.append(Faults(scheduler, 1 << 60, 8))
        house.clock.advance(1)
        assert (told, scheduler.down_since is not None) == (["x"], True)
        house.clock.advance(120)
        assert (task.state, told) == (State.SUCCEEDED, ["x"])


def test_a_close_does_not_wait_for_a_file_that_does_not_answer_and_the_run_is_tried_again(house: House) -> None:
    """At-least-once: its end was never written."""
    scheduler = house.make()
    scheduler.schedule(note_and_break, after(1), args=("x",), id="x")
    scheduler.start()
    armed.append(Faults(scheduler, 1 << 60, 10_000))
    house.clock.advance(1)
    assert (scheduler.close(), told) == ([], ["x"])
    with house.start() as again:
        house.clock.advance(60)
        run = again.runs("x")[-1]
        assert (told, run.attempt, run.state) == (["x", "x"], 2, State.SUCCEEDED)


def test_a_file_that_is_removed_and_put_back_is_gone_on_with(house: House, tmp_path: Path) -> None:
    with house.start(lambda scheduler: scheduler.schedule(note, every(seconds=1), id="a")) as scheduler:
        house.clock.advance(3)
        os.rename(house.path, tmp_path / "elsewhere")
        with pytest.raises(StoreDown, match="removed"):
            scheduler.schedule(note)
        house.clock.advance(10)
        assert len(told) == 3
        os.rename(tmp_path / "elsewhere", house.path)
        house.clock.advance(60)
        assert len(told) > 10
        assert scheduler.down_since is None


def test_a_file_that_is_replaced_by_a_backup_is_gone_on_with_as_it_was(house: House, tmp_path: Path) -> None:
    with house.start(lambda scheduler: scheduler.schedule(note, every(seconds=10), id="a")) as scheduler:
        house.clock.advance(10)
        source, target = sqlite3.connect(house.path), sqlite3.connect(tmp_path / "backup.db")
        source.backup(target)
        source.close()
        target.close()
        scheduler.schedule(note, after(3_600), id="later")
        house.clock.advance(20)
        for name in ("-wal", "-shm"):
            Path(f"{house.path}{name}").unlink(missing_ok=True)
        shutil.copy2(tmp_path / "backup.db", tmp_path / "copy.db")
        os.replace(tmp_path / "copy.db", house.path)
        house.clock.advance(60)
        assert [info.id for info in scheduler.tasks()] == ["a"]
        assert scheduler.down_since is None


def test_a_full_disk_is_an_outage_and_room_ends_it(house: House) -> None:
    with house.start(lambda scheduler: scheduler.schedule(note, every(seconds=1), id="a")) as scheduler:
        database = scheduler._store.db  # type: ignore[attr-defined]
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(TicklessError, match="full"):
            for number in range(10_000):
                scheduler.schedule(note, after(10_000), id=f"t{number}", args=("x" * 1_000,))
        house.clock.advance(20)
        database.execute("PRAGMA max_page_count = 1000000")
        house.clock.advance(60)
        assert scheduler.down_since is None
        assert len(told) > 30


def test_a_reader_with_an_old_snapshot_blocks_nobody(house: House) -> None:
    with house.start() as scheduler:
        scheduler.schedule(note, after(1), args=("x",))
        reader = sqlite3.connect(house.path, isolation_level=None)
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM tasks").fetchall()
        house.clock.advance(5)
        assert told == ["x"]
        assert reader.execute("SELECT count(*) FROM tasks").fetchall() == before
        reader.close()


def test_BUG_085_ten_minutes_without_the_store_are_two_lines(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """And not one for each try."""
    with house.start(lambda scheduler: scheduler.schedule(note, every(seconds=1), id="a"), observers=None) as scheduler:
        house.clock.advance(5)
        faults = Faults(scheduler, 1, 1_000_000)
        house.clock.advance(600)
        faults._more = 0
        house.clock.advance(60)
    assert len([record for record in caplog.records if "store_" in record.message]) == 2


def test_a_store_that_goes_away_amid_a_story_hides_no_error(house: House) -> None:
    """What `result()` has found out already it raises, with as much of the story as there is."""
    texts = set()
    for n in itertools.count(1):
        with house.start() as scheduler:
            parent = scheduler.schedule(fail)
            child = scheduler.schedule(note, after_tasks=[parent])
            faults = Faults(scheduler, n, more=PATIENCE)
            try:
                child.result(0)
            except StoreDown:
                texts.add("down")
            except TaskSkipped as error:
                texts.add("with parents" if "ValueError: broken" in str(error) else "alone")
            met = faults.met
            faults._n = 1 << 40
        if not met:
            break
    assert texts == {"down", "alone", "with parents"}
