"""Who opens a store without the works of its tasks: looks, and says what is to be done, and runs nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.stores.sql.files import store_of
from tests.stores.sql.house import House, fail, note, other, told
from tests.stores.sql.others import Other
from tickless import (
    Cancelled,
    DuplicateId,
    Limit,
    NotStarted,
    PayloadError,
    Reason,
    Retry,
    ScheduleError,
    Scheduler,
    State,
    StoreError,
    UnknownTask,
    after,
    every,
)
from tickless.strangers import open_store
from tickless.testing import InlinePool, ManualPool

HOUR_S = 3_600
PROGRAM = """
    from pathlib import Path
    from tickless import Scheduler, every

    def work(*what):
        say("ran", *what)
        return {"what": list(what)}

    def broken():
        say("broke")
        raise ValueError("no")

    def handler(run): say("handled", run.task_id)

    def make(url):
        works = {"work": work, "broken": broken, "handler": handler}
        return Scheduler(store=url, works=works, observers=[], results=True)
"""


@dataclass
class Size:
    width: int


def gives(*what: Any) -> Any:
    told.append(what)
    return Size(3)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def stranger(house: House) -> Iterator[Scheduler]:
    """Opened after the program has made the file, and while it is open."""
    house.make().close()
    with closing(open_store(house.url, clock=house.clock)) as scheduler:
        yield scheduler


def ring(program: Scheduler) -> None:
    """What another process's ring does, which with a clock that stands still nobody waits for."""
    store_of(program).transactions.heard()
    program._dispatcher.ring()


def rows(house: House, sql: str = "SELECT * FROM tasks ORDER BY seq") -> list[Any]:
    with closing(sqlite3.connect(house.path)) as connection:
        return connection.execute(sql).fetchall()


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """A slip of the pen would else be a new and empty store, and `ls` would say that there are no tasks."""
    with pytest.raises(StoreError, match=r"none\.db: no such store; look at the path"):
        open_store(f"sqlite:///{tmp_path}/none.db")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_store_and_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(StoreError, match="is empty, and no store yet"):
        open_store(f"sqlite:///{path}")
    assert path.stat().st_size == 0


def test_a_store_of_an_older_version_is_not_brought_to_this_one(house: House) -> None:
    """To look at it would take it away from the older program that works on it."""
    house.make().close()
    with closing(sqlite3.connect(house.path)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(StoreError, match=r"its schema is version 1, and this tickless reads version \d+; .*upgrade it"):
        open_store(house.url)
    assert rows(house, "PRAGMA user_version") == [(1,)]


def test_it_cannot_be_started_and_waits_for_nothing(house: House, stranger: Scheduler) -> None:
    house.make().schedule(note, every(hours=1), id="x")
    with pytest.raises(ScheduleError, match=r"opened by open_store.*without the works"):
        stranger.start()
    assert stranger.phase == "new"
    with pytest.raises(NotStarted):
        stranger._wait_for(stranger._record_of("x"), 1)


def test_it_schedules_nothing_of_its_own(stranger: Scheduler) -> None:
    for when in (None, every(hours=1)):
        with pytest.raises(PayloadError, match="without works"):
            stranger.schedule(note, when)
    assert stranger.tasks() == []


def test_all_is_seen_that_the_program_sees(house: House) -> None:
    """But for slots, which are of a process."""
    said: dict[str, Any] = {
        "pool": None,
        "pools": {"default": InlinePool(), "io": ManualPool()},
        "limits": [Limit("db", running=1)],
        "results": True,
    }
    with house.start(**said) as program:
        program.schedule(note, every(hours=1), id="plain", args=(1,), tags=["night"])
        program.schedule(note, id="ready", pool="io", limit="db")
        program.schedule(gives, id="gave")
        program.schedule(fail, id="failed", retry=Retry(2, delay=7), on_failure=other)
        with program.flow("etl", every(hours=2), params={"n": 3}) as flow:
            first = flow.task(note, args=(flow.param("n"),))
            flow.task(other, args=(first.output,))
        house.clock.advance(2 * HOUR_S)
        before = rows(house)
        with closing(open_store(house.url, clock=house.clock)) as stranger:
            assert stranger.tasks() == program.tasks()
            for info in program.tasks():
                assert stranger.get(info.id) == info
                assert stranger.runs(info.id) == program.runs(info.id)
            (seen,), (known,) = stranger.rounds("etl"), program.rounds("etl")
            assert seen.info.tree() == known.info.tree()
            assert seen.params == {"n": 3}
            assert stranger.limits() == program.limits()
            assert stranger.unusable() == {}
            pools = stranger.pools()
            assert (pools["io"].slots, pools["io"].ready, pools["io"].running) == (0, 1, 0)
        assert rows(house) == before


def test_a_result_is_as_json_has_it(house: House) -> None:
    """Its class is not imported, and where it is, it is not made."""
    with house.start(results=True) as program:
        program.schedule(gives, id="gave")
        house.clock.advance(1)
    with closing(open_store(house.url, clock=house.clock)) as stranger:
        record = stranger._record_of("gave")
        assert stranger._store.result_of(record) == {
            "$": "dataclass", "class": "tests.stores.sql.test_strangers:Size", "v": {"width": 3},
        }  # fmt: skip


def test_what_cannot_be_read_here_is_told_and_stays_as_it_is(house: House) -> None:
    """A newer program may have written it, and knows well what it means."""
    with house.start() as program:
        program.schedule(note, every(hours=1), id="newer", pause_after_failures=3)
        program.schedule(note, every(hours=1), id="older")
    with closing(sqlite3.connect(house.path)) as connection, connection:
        connection.execute("""UPDATE tasks SET policy = '{"colour":"red"}' WHERE id = 'newer'""")
    before = rows(house)
    with closing(open_store(house.url, clock=house.clock)) as stranger:
        assert [info.id for info in stranger.tasks()] == ["older"]
        stranger.pause()
        stranger.resume()
        with pytest.raises(UnknownTask, match="colour"):
            stranger.cancel("newer")
        assert list(stranger.unusable()) == ["newer"]
    assert [row[-2] for row in rows(house)] == [row[-2] for row in before] == [None, None]


def test_what_the_program_runs_now_is_not_run_here(house: House) -> None:
    """BUG-086: a trigger from the shell took the run with it when it ended."""
    with house.start() as program:
        program.schedule(note, every(hours=1), id="x")
        program.schedule(note, after(HOUR_S), id="once")
    with closing(open_store(house.url)) as stranger:
        assert stranger.run_now("x").state is State.READY
        assert stranger.run_now("once").state is State.READY
        assert (stranger.pools()["default"].ready, stranger.pools()["default"].running) == (2, 0)
    assert told == []
    assert rows(house, "SELECT count(*) FROM tasks WHERE owner IS NOT NULL OR state = 'running'") == [(0,)]
    assert rows(house, "SELECT count(*) FROM owners") == [(0,)]


def test_nothing_is_forgotten_since_the_stranger_keeps_less(house: House) -> None:
    """How much is kept is for the program to say."""
    with house.start(keep_rounds=100, keep_finished=5_000, keep_runs=500) as program:
        with program.flow("etl", every(hours=1)) as flow:
            flow.task(note)
        program.schedule(note, every(hours=1), id="x")
        house.clock.advance(HOUR_S)
        for _ in range(30):
            house.clock.advance(HOUR_S)
        with closing(open_store(house.url, clock=house.clock)) as stranger:
            stranger.run_now("etl")
            ring(program)
            assert len(stranger.rounds("etl")) == 32
            stranger.run_now("x")
            assert len(stranger.runs("x")) == 32


@pytest.mark.parametrize("scope", ["task", "tag", "all"])
def test_a_pause_by_the_stranger_holds_and_its_resume_lets_go(house: House, stranger: Scheduler, scope: str) -> None:
    with house.start() as program:
        program.schedule(note, every(hours=1), id="x", tags=["t"])
        args: dict[str, Any] = {"task": {"task": "x"}, "tag": {"tag": "t"}, "all": {}}[scope]
        assert stranger.pause(**args, reason="inventory") == 1
        ring(program)
        house.clock.advance(2.5 * HOUR_S)
        assert told == []
        assert stranger.resume(**args) == 1
        ring(program)
        house.clock.advance(HOUR_S)
        assert len(told) == 1


def test_a_failed_round_is_tried_again_by_the_program(house: House, stranger: Scheduler) -> None:
    with house.start() as program:
        with program.flow("etl", every(hours=1)) as flow:
            first = flow.task(note, args=(1,))
            flow.task(fail, after_tasks=[first])
        house.clock.advance(HOUR_S)
        (seen,) = stranger.rounds("etl")
        seen.retry_failed()
        ring(program)
        house.clock.advance(1)
        again = program.rounds("etl")[-1].info
        assert (again.retry_of, again.due_us) == (seen.id, seen.info.due_us)
        assert [str(task.reason) for task in again.tasks] == ["copied", "None"]


def test_a_limit_that_only_a_row_names_lets_it_be_cancelled(house: House, stranger: Scheduler) -> None:
    with house.start(limits=[Limit("db", running=1)], pool=ManualPool()) as program:
        program.schedule(note, id="holds", limit="db")
        program.schedule(note, id="waits", limit="db", on_failure=other)
        assert stranger.get("waits").waiting_for == "db"
        assert stranger.cancel("waits") is Cancelled.CANCELLED
        assert program.get("waits").reason is Reason.CANCELLED


def test_a_program_beside_it_does_what_the_stranger_says(tmp_path: Path) -> None:
    """In another process, by its clock, at once: nobody polls, so a ring that is not sent is a run that never comes."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    source = (
        PROGRAM
        + """
    scheduler = make(sys.argv[1])
    scheduler.schedule(work, every(hours=1), id="x", args=(1,))
    scheduler.schedule(broken, every(hours=1), id="y", on_failure=handler)
    with scheduler.flow("etl", every(hours=1)) as flow:
        first = flow.task(work, args=(flow.due,))
        flow.task(broken, after_tasks=[first])
    scheduler.start()
    say("begun")
    hear()
    scheduler.close()
    say("left")
    """
    )
    with Other(source, url) as program:
        assert program.says() == "begun"
        with closing(open_store(url)) as stranger:
            stranger.run_now("x")
            assert program.says() == "ran 1"
            stranger.run_now("y")
            assert [program.says(), program.says()] == ["broke", "handled y"]
            stranger.run_now("etl")
            assert program.says().startswith("ran 20")
            assert program.says() == "broke"
            assert stranger.cancel("x")
            assert stranger.get("x").state is State.CANCELLED
            assert program.answers("end") == "left"
            (seen,) = stranger.rounds("etl")
            assert seen.state is State.FAILED


def test_what_was_said_while_nobody_ran_is_done_at_the_next_start(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    source = (
        PROGRAM
        + """
    scheduler = make(sys.argv[1])
    scheduler.schedule(work, every(hours=1), id="x", args=(1,))
    if sys.argv[2] == "run": scheduler.start()
    hear()
    scheduler.close()
    say("left")
    """
    )
    with Other(source, url, "plan") as program:
        assert program.answers("end") == "left"
    with closing(open_store(url)) as stranger:
        stranger.run_now("x")
    with Other(source, url, "run") as program:
        assert program.says() == "ran 1"


@pytest.mark.parametrize("name", ["os:system", "builtins:eval", "hostile_module:f", "..:x", "no such thing"])
def test_BUG_077_no_name_in_a_row_is_ever_looked_up(
    house: House, stranger: Scheduler, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write the file would else run code in each shell that lists it."""
    (tmp_path / "hostile_module.py").write_text("open('imported', 'w')\ndef f(): ...\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with house.start() as program:
        program.schedule(note, every(hours=1), id="x", args=("touch imported",), on_failure=other)
    policy = json.dumps({"on_failure": name, "retry": {**_RETRY, "on": [name]}})
    with closing(sqlite3.connect(house.path)) as connection, connection:
        connection.execute("UPDATE tasks SET work = ?, policy = ?", (name, policy))
    assert [info.id for info in stranger.tasks()] == ["x"]
    stranger.run_now("x")
    stranger.pause("x")
    stranger.resume("x")
    assert stranger.cancel("x") is not Cancelled.TOO_LATE
    assert not (tmp_path / "imported").exists()


_RETRY = {"attempts": 3, "factor": 2.0, "delay_us": 1, "max_delay_us": 10, "jitter_us": 0}


def test_an_id_whose_row_is_set_aside_is_not_tried_by_who_could_not_read_it(house: House, stranger: Scheduler) -> None:
    """It would be tried, fail here for want of the works, and be left without its reason."""
    with house.start() as program:
        program.schedule(note, every(hours=1), id="x")
    with closing(sqlite3.connect(house.path)) as connection, connection:
        connection.execute("UPDATE tasks SET trouble = 'its work was renamed'")
    assert stranger.unusable() == {"x": "its work was renamed"}
    with pytest.raises(DuplicateId, match="its work was renamed"):
        stranger._store._door._use_again("x", "its work was renamed")  # type: ignore[attr-defined]  # the durable one
    assert stranger.unusable() == {"x": "its work was renamed"}
