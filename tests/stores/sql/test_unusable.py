"""Rows that cannot be used: they say why, nobody deletes them, the rest runs, and they are tried again."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.stores.sql.house import House, note, other, told
from tickless import PayloadError, ScheduleError, State, TicklessError, after, every


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def edit(house: House, sql: str) -> None:
    """What a careless hand does to the file."""
    connection = sqlite3.connect(house.path)
    connection.execute(sql)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("column", "text", "why"),
    [
        ("work", "nowhere:gone", "nowhere"),
        ("work", "tests.stores.sql.house:gone", "gone"),
        ("args", '{"v":1,"a":[', "damaged"),
        ("args", '{"v":99,"a":[],"k":{}}', "newer"),
        ("args", '{"v":1,"a":[{"$":"no such tag"}],"k":{}}', "no such tag"),
    ],
)
def test_a_row_that_cannot_be_called_says_why_and_the_rest_runs(house: House, column: str, text: str, why: str) -> None:
    """A function that was renamed must not stop the night's other work."""
    with house.start() as scheduler:
        scheduler.schedule(note, after(60), id="bad", args=("bad",))
        scheduler.schedule(note, after(60), id="good", args=("good",))
    edit(house, f"UPDATE tasks SET {column} = '{text}' WHERE id = 'bad'")
    with house.start() as scheduler:
        house.clock.advance(120)
        assert told == ["good"]
        assert list(scheduler.unusable()) == ["bad"]
        assert why in scheduler.unusable()["bad"]
    edit(house, "UPDATE tasks SET work = 'tests.stores.sql.house:note', args = NULL WHERE id = 'bad'")
    with house.start() as scheduler:
        house.clock.advance(0)
        assert (scheduler.unusable(), scheduler.get("bad").state, len(told)) == ({}, State.SUCCEEDED, 2)


@pytest.mark.parametrize("sql", ["more = '{'", "policy = '{\"no such\":1}'", "rule = '{\"v\":99}'", "state = 'odd'"])
def test_a_damaged_row_is_set_aside_when_it_is_met_and_tried_again_when_asked(house: House, sql: str) -> None:
    with house.start(works={"note": note}) as scheduler:
        scheduler.schedule(note, every(seconds=60), id="bad", tags=["t"])
        scheduler.schedule(note, every(seconds=60), id="good")
        before = scheduler._store.db.execute("SELECT more, policy, rule, state FROM tasks WHERE id = 'bad'").fetchone()  # type: ignore[attr-defined]
    edit(house, f"UPDATE tasks SET {sql} WHERE id = 'bad'")
    with house.start(works={"note": note}) as scheduler:
        house.clock.advance(60)
        assert len(told) == 1
        assert list(scheduler.unusable()) == ["bad"]
        edit(house, "SELECT 1")
        connection = sqlite3.connect(house.path)
        connection.execute("UPDATE tasks SET more = ?, policy = ?, rule = ?, state = ? WHERE id = 'bad'", before)
        connection.commit()
        connection.close()
        assert scheduler.try_again() == 1
        house.clock.advance(60)
        assert (len(told), scheduler.unusable()) == (4, {})  # the fire that was missed, and one more of each


def test_an_alias_finds_a_function_that_was_renamed(house: House) -> None:
    with house.start(works={"old": note}) as scheduler:
        scheduler.schedule(note, after(60), args=("x",))
    with house.start(works={"new": other}, aliases={"old": "new"}):
        house.clock.advance(60)
    assert told == ["x"]


def test_recurring_tasks_whose_work_is_gone_are_reported_and_not_deleted(house: House) -> None:
    with house.start(works={"gone": note}) as scheduler:
        scheduler.schedule(note, every(hours=1))
    with house.start() as scheduler:
        assert any("gone" in (event.error or "") for event in house.ear.events)
        assert [info.id for info in scheduler.tasks()] == ["gone"]


def test_what_cannot_be_stored_is_refused_by_name_and_nothing_is_written(house: House) -> None:
    with house.start() as scheduler:
        works: list[Any] = [lambda: None, print, type(note), [].append]
        for work in works:
            with pytest.raises(PayloadError):
                scheduler.schedule(work)
        with pytest.raises(PayloadError, match=r"args\[1\]"):
            scheduler.schedule(note, args=(1, object()))
        with pytest.raises(PayloadError, match="x"):
            scheduler.schedule(note, kwargs={"x": {1, object()}})
        with pytest.raises(PayloadError):
            scheduler.schedule(note, after(1), on_failure=lambda run: None)
        assert scheduler.tasks() == []


def test_what_is_said_of_a_store_is_checked(tmp_path: Path) -> None:
    house = House(tmp_path)
    for given in (
        {"store": 5},
        {"store": "mysql://x/y"},
        {"durability": "maybe"},
        {"lease": 0.1},
        {"lease": float("nan")},
        {"keep_for": -1},
        {"store": None, "lease": 5},
    ):
        with pytest.raises(TicklessError):
            house.make(**given)
    with pytest.raises(TypeError, match="leases"):
        house.make(leases=5)
    with pytest.raises(ScheduleError, match="rule of your own"), house.start() as scheduler:
        scheduler.schedule(note, OwnRule())  # type: ignore[arg-type]


class OwnRule:
    recurring = True
    wall = False

    def bound(self, now: int) -> OwnRule:
        return self

    def next_after(self, after: int) -> int:
        return after + 1_000_000
