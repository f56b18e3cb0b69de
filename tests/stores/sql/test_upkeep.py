"""Upkeep of a file: looked at, upgraded, pruned, taken out; whole or damaged, with others at work or nobody."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.stores.sql.house import House, fail, note
from tests.stores.sql.others import Other
from tests.stores.sql.test_schemas import made_by_dump
from tickless import ScheduleError, Scheduler, StoreDown, StoreError, cron, every, upkeep
from tickless.stores.sql.checking import check
from tickless.stores.sql.header import APPLICATION_ID
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import migrations
from tickless.testing import ManualPool
from tickless.upkeep import export, prune, status, upgrade

NEWEST = len(migrations())
HOUR_S = 3_600
DAY_S = 24 * HOUR_S
WORKER = """
    from tickless import Scheduler, every
    def work(): pass
    scheduler = Scheduler(store=sys.argv[1], works={"work": work}, observers=[])
    scheduler.schedule(work, every(seconds=0.05), id="beat")
    scheduler.start()
    say("begun")
    while True:
        word = hear()
        if word == "end": break
        runs = scheduler.runs("beat")
        say(sum(run.state == "failed" or run.lateness.total_seconds() > 1 for run in runs if run.lateness))
    scheduler.close()
    say("left")
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def full(house: House) -> House:
    """A store with some of everything, which nobody has open."""
    with house.start() as program:
        fill(program)
        house.clock.advance(5 * HOUR_S)
    return house


def fill(program: Scheduler) -> None:
    program.schedule(note, every(hours=1), id="beat", args=(1, "a"), kwargs={}, tags=["t"])
    program.schedule(fail, cron("0 */2 * * *"), id="broken", pause_after_failures=2)
    program.schedule(note, id="once")
    program.schedule(note, every(hours=1), id="gone", max_runs=2)
    with program.flow("etl", every(hours=2)) as flow:
        first = flow.task(note, args=(1,))
        flow.task(note, args=(first.output,), name="second")


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def rows(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql).fetchall()


# What is refused, and stays as it is


CALLS: dict[str, Any] = {
    "status": status,
    "upgrade": upgrade,
    "prune": lambda url: prune(url, keep_for=0),
    "export": lambda url: list(export(url)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "no such store; look at the path"),
        (b"", "is empty, and no store yet"),
        (b"no database, but long enough to be looked at " * 100, "is no SQLite database"),
    ],
)
def test_what_is_no_store_is_refused_and_left_alone(call: Any, content: bytes | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)
    before = digests(tmp_path)
    with pytest.raises(StoreError, match=f"x\\.db: {why}"):
        call(f"sqlite:///{path}")
    assert digests(tmp_path) == before


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_database_of_others_is_refused_and_left_alone(call: Any, tmp_path: Path) -> None:
    rows(tmp_path / "x.db", "CREATE TABLE theirs (x)")
    before = digests(tmp_path)
    with pytest.raises(StoreError, match="that tickless did not make, and is left as it is"):
        call(f"sqlite:///{tmp_path}/x.db")
    assert digests(tmp_path) == before


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_newer_file_is_refused_and_left_alone(call: Any, full: House, tmp_path: Path) -> None:
    rows(full.path, f"PRAGMA user_version = {NEWEST + 1}")
    before = digests(tmp_path)
    with pytest.raises(StoreError, match=f"schema is version {NEWEST + 1}, and this tickless knows version {NEWEST}"):
        call(full.url)
    assert digests(tmp_path) == before


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_address_that_is_none_is_refused(call: Any) -> None:
    with pytest.raises(ScheduleError, match="is no address of a store"):
        call("tasks.db")


def test_a_damaged_file_is_told_by_each(full: House) -> None:
    """Half of the pages are noise: the tables are met at some of them."""
    size = full.path.stat().st_size
    with full.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    for call in (status, lambda url: list(export(url)), lambda url: prune(url, keep_for=0)):
        with pytest.raises(StoreError, match=r"is damaged|cannot do it"):
            call(full.url)


# status


def test_status_tells_what_is_there_and_changes_nothing(full: House, tmp_path: Path) -> None:
    before = digests(tmp_path)
    told = status(full.url, integrity=True)
    assert digests(tmp_path) == before
    json.dumps(told)
    assert (told["path"], told["version"], told["newest_version"]) == (str(full.path), NEWEST, NEWEST)
    assert (told["bytes"], told["wal_bytes"]) == (full.path.stat().st_size, 0)
    assert told["pages"] * told["page_bytes"] == told["bytes"]
    assert (told["journal_mode"], told["faults"], told["owners"], told["unusable"]) == ("wal", [], [], [])
    assert (told["recurring"], told["rounds"]) == (3, 2)
    with closing(full.make()) as scheduler:
        infos = scheduler.tasks()
    assert told["tasks"] == {
        state: sum(info.state == state for info in infos) for state in sorted({str(info.state) for info in infos})
    }
    assert told["runs"] == rows(full.path, "SELECT count(*) FROM runs")[0][0]


def test_status_reads_an_older_file_as_it_is(tmp_path: Path) -> None:
    made_by_dump(1, tmp_path / "old.db").close()
    before = digests(tmp_path)
    told = status(f"sqlite:///{tmp_path}/old.db")
    assert (told["version"], told["newest_version"], told["rounds"], told["tasks"]) == (1, NEWEST, 0, {})
    assert digests(tmp_path) == before


def test_status_tells_what_cannot_be_used_and_why(full: House) -> None:
    rows(full.path, "UPDATE tasks SET trouble = 'it was renamed' WHERE id = 'beat'")
    assert status(full.url)["unusable"] == [{"id": "beat", "reason": "it was renamed"}]


def test_status_tells_who_lives_and_who_has_died(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with Other(WORKER, url) as program:
        assert program.says() == "begun"
        (owner,) = status(url)["owners"]
        assert (owner["pid"], owner["alive"], owner["runs_tasks"]) == (program.pid, True, True)
        program.kill()
        wal = (tmp_path / "tasks.db-wal").read_bytes()
        (owner,) = status(url)["owners"]
        assert (owner["pid"], owner["alive"]) == (program.pid, False)
        assert (tmp_path / "tasks.db-wal").read_bytes() == wal, "what a dead process has left was written into the file"


# upgrade


def test_an_older_file_is_copied_whole_and_then_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    made_by_dump(1, path).close()
    rows(path, "INSERT INTO pauses VALUES ('all', 'a reason', NULL)")
    path.chmod(0o640)
    told = upgrade(f"sqlite:///{path}")
    backup = tmp_path / f"old.db.before-{NEWEST}"
    assert told == {"path": str(path), "from": 1, "to": NEWEST, "backup": str(backup)}
    for file, version in ((path, NEWEST), (backup, 1)):
        assert rows(file, "PRAGMA user_version") == [(version,)]
        assert rows(file, "PRAGMA application_id") == [(APPLICATION_ID,)]
        assert rows(file, "SELECT * FROM pauses") == [("all", "a reason", None)]
    assert backup.stat().st_mode & 0o777 == 0o640
    assert upgrade(f"sqlite:///{path}") == {"path": str(path), "from": NEWEST, "to": NEWEST, "backup": None}
    assert not list(tmp_path.glob("*.part"))


def test_a_backup_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    made_by_dump(1, tmp_path / "old.db").close()
    (tmp_path / f"old.db.before-{NEWEST}").write_text("precious", "utf-8")
    before = digests(tmp_path)
    with pytest.raises(StoreError, match="is there already, from an upgrade that was tried before; move it away"):
        upgrade(f"sqlite:///{tmp_path}/old.db")
    assert digests(tmp_path) == before


def test_nothing_is_upgraded_or_vacuumed_under_a_program_that_runs(tmp_path: Path) -> None:
    """The older program could not use the file any more."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    with Other(WORKER, url) as program:
        assert program.says() == "begun"
        with pytest.raises(StoreError, match=rf"a process has it open \({program.pid} on .*\); stop it"):
            prune(url, keep_for=0, vacuum=True)
        assert program.answers("end") == "left"
    made_by_dump(1, tmp_path / "old.db").close()
    rows(tmp_path / "old.db", f"INSERT INTO owners VALUES (1, 'x', 'host', {os.getpid()}, 1)")
    with Other("owners = Owners(sys.argv[1]); owners.hold(1); say('holds'); hear()", tmp_path / "old.db") as program:
        assert program.says() == "holds"
        with pytest.raises(StoreError, match=r"a process has it open .* and then upgrade it"):
            upgrade(f"sqlite:///{tmp_path}/old.db")
    assert rows(tmp_path / "old.db", "PRAGMA user_version") == [(1,)]


@pytest.mark.parametrize("call", ["status", "upgrade"])
def test_a_folder_that_may_not_be_written_may_be_looked_at(call: str) -> None:
    """A user who may only read asks how things are."""
    folder = Path(tempfile.mkdtemp(prefix="tickless-read-only-"))
    try:
        made_by_dump(1, folder / "old.db").close()
        (folder / "old.db").chmod(0o444)
        folder.chmod(0o555)
        source = """
            from tickless.upkeep import status, upgrade
            import tickless.stores.sql.sqlite
            if not os.getuid(): os.setuid(65534)
            try:
                say((status if sys.argv[2] == "status" else upgrade)(sys.argv[1])["version"])
            except StoreError as error:
                say(type(error).__name__, error)
        """
        with Other(source, f"sqlite:///{folder}/old.db", call) as other:
            said = other.says()
        assert said == "1" if call == "status" else ("StoreError" in said and "cannot be written" in said), said
        assert [path.name for path in folder.iterdir()] == ["old.db"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


# prune


def test_prune_needs_to_know_what_to_keep(full: House) -> None:
    with pytest.raises(ScheduleError, match="says nothing of what to keep"):
        prune(full.url)
    with pytest.raises(ScheduleError, match="keep_runs=-1"):
        prune(full.url, keep_runs=-1)
    with pytest.raises(ScheduleError, match=r"keep_for=-1: .*not negative"):
        prune(full.url, keep_for=-1)


@pytest.mark.parametrize(
    ("keeps", "gone"),
    [
        ({"keep_for": 0}, {"tasks": 2, "rounds": 2, "runs": 9}),  # two go with their task
        ({"keep_runs": 1}, {"tasks": 0, "rounds": 0, "runs": 7}),
        ({"keep_runs": 0}, {"tasks": 0, "rounds": 0, "runs": 11}),
        ({"keep_finished": 1}, {"tasks": 1, "rounds": 0, "runs": 0}),
        ({"keep_finished": 0}, {"tasks": 2, "rounds": 0, "runs": 0}),
        ({"keep_for": 10_000 * DAY_S}, {"tasks": 0, "rounds": 0, "runs": 0}),
    ],
)
def test_prune_forgets_what_is_over_and_nothing_that_lives(full: House, keeps: Any, gone: Any) -> None:
    live = rows(full.path, "SELECT * FROM tasks WHERE ended IS NULL ORDER BY seq")
    assert live
    counted = prune(full.url, dry_run=True, **keeps)
    told = prune(full.url, **keeps)
    assert {kind: told[kind] for kind in gone} == gone
    assert counted["tasks"] == gone["tasks"]
    assert counted["runs"] >= gone["runs"]  # some of them go with a task
    assert rows(full.path, "SELECT * FROM tasks WHERE ended IS NULL ORDER BY seq") == live
    again = prune(full.url, **keeps)
    assert {kind: again[kind] for kind in gone} == dict.fromkeys(gone, 0)
    with full.start() as program:
        full.clock.advance(2 * HOUR_S)
        check(program._store)  # type: ignore[arg-type]  # it is the durable one
        assert len(program.rounds("etl")) in (1, 3)


def test_a_dry_run_changes_no_byte(full: House, tmp_path: Path) -> None:
    before = digests(tmp_path)
    told = prune(full.url, keep_for=0, dry_run=True)
    assert (told["dry_run"], told["tasks"], told["bytes_before"]) == (True, 2, told["bytes_after"])
    assert digests(tmp_path) == before


def test_prune_tells_how_far_it_is_and_vacuum_makes_the_file_smaller(house: House) -> None:
    with house.start() as program:
        for number in range(1_500):
            program.schedule(note, id=f"task-{number}", args=("x" * 500,))
        program.schedule(note, every(seconds=1), id="beat")
        house.clock.advance(90)
    told: list[tuple[int, int]] = []
    counts = prune(house.url, keep_finished=10, progress=lambda done, total: told.append((done, total)), vacuum=True)
    assert counts["bytes_after"] < counts["bytes_before"]
    assert told[-1] == (counts["tasks"], counts["tasks"])
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) == -(-counts["tasks"] // 200)
    assert status(house.url, integrity=True)["faults"] == []


def test_a_program_beside_it_is_not_held_up(tmp_path: Path) -> None:
    """It runs each 50 ms; a transaction of seconds would make it late, or have it give up."""
    url = f"sqlite:///{tmp_path}/tasks.db"
    with Other(WORKER, url) as program:
        assert program.says() == "begun"
        with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection, connection:
            connection.executemany(
                "INSERT INTO runs (task, due, at, state, started, finished) VALUES (1, ?, ?, 'succeeded', ?, ?)",
                [(number,) * 4 for number in range(20_000)],
            )
        prune(url, keep_for=HOUR_S)
        assert rows(tmp_path / "tasks.db", "SELECT count(*) FROM runs WHERE finished < 20000") == [(0,)]
        assert program.answers("late") == "0"
        assert program.answers("end") == "left"


def test_a_round_that_is_just_tried_again_keeps_the_one_that_it_copies(house: House) -> None:
    pool = ManualPool()
    with house.start(pool=pool) as program:
        with program.flow("etl", every(hours=1)) as flow:
            flow.task(fail)
        house.clock.advance(HOUR_S)
        pool.run_all()
        flow.rounds()[0].retry_failed()
        assert prune(house.url, keep_for=0)["rounds"] == 0
        pool.run_all()
        assert [str(one.state) for one in flow.rounds()] == ["failed", "failed"]
        assert prune(house.url, keep_for=0)["rounds"] == 2


def test_a_file_that_somebody_keeps_locked_is_told_as_one(full: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "Database", lambda file, as_it_is: Database(file, busy_s=0, as_it_is=as_it_is))
    with closing(sqlite3.connect(full.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreDown, match="kept it locked"):
            prune(full.url, keep_for=0)


# export


def of_kind(kind: str, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in documents if one["kind"] == kind]


def test_export_gives_everything_in_its_order(full: House, tmp_path: Path) -> None:
    before = digests(tmp_path)
    documents = list(export(full.url))
    assert digests(tmp_path) == before
    json.dumps(documents)
    assert {one["v"] for one in documents} == {1}
    assert documents[0] == {"v": 1, "kind": "store", "path": str(full.path), "schema": NEWEST}
    tasks = {one["id"]: one for one in of_kind("stored_task", documents)}
    beat, broken = tasks["beat"], tasks["broken"]
    assert (beat["args"], beat["when"], beat["next_fire"]) == ([1, "a"], "every 1h", "2024-01-01T06:00:00Z")
    assert (beat["policy"], beat["state"], beat["recurring"], beat["run"]) == ({"tags": ["t"]}, "pending", True, None)
    assert broken["when"] == "0 */2 * * * UTC"
    assert (tasks["once"]["state"], tasks["once"]["when"], tasks["once"]["run"]["error"]) == ("succeeded", None, None)
    assert (tasks["gone"]["state"], tasks["gone"]["reason"]) == ("succeeded", "max_runs")
    assert [one["due"] for one in of_kind("stored_run", documents) if one["task"] == "beat"] == [
        f"2024-01-01T0{hour}:00:00Z" for hour in range(1, 6)
    ]
    rounds = of_kind("stored_round", documents)
    assert [(one["flow"], one["due"], one["state"]) for one in rounds] == [
        ("etl", f"2024-01-01T0{hour}:00:00Z", "succeeded") for hour in (2, 4)
    ]
    of_round = [one for one in documents if one.get("round") == rounds[0]["id"]]
    assert [(one["name"], one["parents"]) for one in of_round] == [("note", []), ("second", [of_round[0]["id"]])]


def test_export_agrees_with_what_the_program_shows(full: House) -> None:
    documents = list(export(full.url))
    with closing(full.make()) as scheduler:
        infos = {info.id: info for info in scheduler.tasks()}
        assert infos.keys() == {one["id"] for one in of_kind("stored_task", documents)}
        for one in of_kind("stored_task", documents):
            info = infos[one["id"]]
            assert (one["state"], one["reason"]) == (info.state, info.reason if info.state != "pending" else None)
            fire = None if info.next_fire is None else info.next_fire.isoformat().replace("+00:00", "Z")
            assert one["next_fire"] == fire
        for id in ("beat", "broken", "etl"):
            assert len([one for one in of_kind("stored_run", documents) if one["task"] == id]) == len(
                scheduler.runs(id)
            )


def test_export_is_of_one_instant_though_a_program_goes_on(full: House) -> None:
    """Page by page, while tasks end and are forgotten between two of them."""
    documents = export(full.url)
    first = [next(documents) for _ in range(2)]
    with full.start() as program:
        full.clock.advance(3 * HOUR_S)
        program.cancel("beat")
        program.schedule(note, id="new")
        full.clock.advance(1)
    rest = list(documents)
    tasks = {one["id"]: one for one in of_kind("stored_task", [*first, *rest])}
    assert "new" not in tasks
    assert tasks["beat"]["state"] == "pending"
    assert len([one for one in of_kind("stored_run", rest) if one["task"] == "beat"]) == 5


def test_export_shows_what_is_damaged_as_text_and_goes_on(full: House) -> None:
    rows(
        full.path, "UPDATE tasks SET args = '{', rule = 'x', policy = '[', more = 'y', trouble = 'no' WHERE id = 'beat'"
    )
    tasks = {one["id"]: one for one in of_kind("stored_task", list(export(full.url)))}
    assert (tasks["beat"]["args"], tasks["beat"]["rule"], tasks["beat"]["when"]) == ("{", "x", None)
    assert (tasks["beat"]["policy"], tasks["beat"]["unusable"]) == ("[", "no")
    assert "etl" in tasks


def test_export_of_much_needs_little_memory(house: House) -> None:
    """A file may be larger than the memory of the machine."""
    with house.start() as program:
        program.schedule(note, every(hours=1), id="beat")
    with closing(sqlite3.connect(house.path)) as connection, connection:
        connection.executemany(
            "INSERT INTO runs (task, due, at, state, started, finished) VALUES (1, ?, ?, 'succeeded', ?, ?)",
            [(number,) * 4 for number in range(20_000)],
        )
    tracemalloc.start()
    try:
        assert sum(1 for _ in export(house.url)) == 20_002
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_an_export_that_is_left_early_lets_go_of_the_file(full: House, tmp_path: Path) -> None:
    documents = export(full.url)
    next(documents)
    documents.close()  # type: ignore[attr-defined]  # a generator
    assert [path.name for path in tmp_path.glob("tasks.db-wal")] == []
