"""The door to a SQLite file: addresses, opening, transactions, what others did, and errors that name the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import quiet
from tickless.errors import ScheduleError, StoreDown, StoreError
from tickless.stores.sql import header, mounts, sqlite
from tickless.stores.sql.address import parse
from tickless.stores.sql.failures import told
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import migrations

NEWEST = len(migrations())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    """With a table of the test's own beside ours."""
    opened = Database(path, busy_s=0.02)
    opened.execute("CREATE TABLE words (word TEXT UNIQUE)")
    yield opened
    opened.close()


def words(database: Database) -> list[str]:
    return [word for (word,) in database.execute("SELECT word FROM words ORDER BY rowid").fetchall()]


def add(database: Database, *words: str) -> None:
    database.begin()
    database.executemany("INSERT INTO words VALUES (?)", [(word,) for word in words])
    database.commit()


# Addresses


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///tasks.db", "tasks.db"),
        ("sqlite:///data/my tasks.db", "data/my tasks.db"),
        ("sqlite:////var/lib/tasks.db", "/var/lib/tasks.db"),
        ("SQLite:///tasks.db", "tasks.db"),
        ("sqlite:///50%25.db", "50%25.db"),
        ("sqlite:///../x", "../x"),
    ],
)
def test_the_path_is_what_stands_behind_three_slashes(url: str, path: str) -> None:
    """As in the addresses that SQLAlchemy takes, since those are what people know."""
    assert parse(url) == Path(path)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:///:memory:", "names no file; without store= tasks are kept in memory"),
        ("sqlite://:memory:", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://tasks.db", "tasks.db stands where a host would"),
        ("sqlite://host/tasks.db", "host stands where a host would"),
        ("sqlite:///tasks.db?mode=ro", "takes no options"),
        ("sqlite:///a\0b", "NUL"),
        ("sqlite:///folder/", "names a folder"),
        ("sqlite+aiosqlite:///tasks.db", "there is no store for sqlite\\+aiosqlite://"),
        ("postgresql://host/db", "there is no store for postgresql://"),
        ("tasks.db", "is no address of a store"),
        ("sqlite:tasks.db", "is no address of a store"),
        ("", "is no address of a store"),
        (None, "is no address of a store"),
        (Path("tasks.db"), "is no address of a store"),
    ],
)
def test_an_address_that_names_no_file_is_refused_with_a_way_out(url: object, why: str) -> None:
    """`sqlite:///:memory:` would be a store that forgets; `sqlite://x` is the commonest slip."""
    with pytest.raises(ScheduleError, match=f"^store=.*{why}"):
        parse(url)


# Opening


def test_a_new_file_is_ours_of_the_newest_version_and_kept_as_wal(path: Path) -> None:
    """What another program, and the next version, look at first."""
    Database(path).close()
    plain = sqlite3.connect(path)
    found = [plain.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    assert found == [header.APPLICATION_ID, NEWEST]
    assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    plain.close()


@pytest.mark.parametrize(("durability", "synchronous"), [("process", 1), ("power", 2)])
def test_durability_is_how_a_commit_is_synced(path: Path, durability: sqlite.Durability, synchronous: int) -> None:
    """1 is NORMAL: at a checkpoint. 2 is FULL: at each commit."""
    database = Database(path, durability=durability)
    assert database.execute("PRAGMA synchronous").fetchone() == (synchronous,)
    database.close()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"durability": "full"}, "durability='full': needs one of process, power"),
        ({"durability": None}, "durability=None"),
        ({"busy_s": -1}, "busy_s=-1: needs seconds"),
        ({"busy_s": float("nan")}, "busy_s=nan"),
        ({"busy_s": True}, "busy_s=True"),
        ({"busy_s": "5"}, "busy_s='5'"),
        ({"busy_s": 1e9}, "busy_s=1000000000.0"),
    ],
)
def test_an_argument_that_cannot_be_is_refused(path: Path, arguments: dict[str, Any], why: str) -> None:
    """And no file is made."""
    with pytest.raises(ScheduleError, match=why):
        Database(path, **arguments)
    assert not path.exists()


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    """A typing error in a path would else be a second, empty store."""
    with pytest.raises(StoreError, match=r"the folder .*/tasks is not there; create it first"):
        Database(tmp_path / "tasks" / "tasks.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """Nor is a device."""
    with pytest.raises(StoreError, match="is a folder or a device"):
        Database(os.devnull)
    with pytest.raises(StoreError, match="is a folder"):
        Database(tmp_path)


def test_an_empty_file_is_a_new_store(path: Path) -> None:
    """A process that was killed between making the file and filling it leaves one behind; so does `mktemp`."""
    path.touch()
    Database(path).close()
    assert path.stat().st_size > 0


@pytest.mark.parametrize("name", ["a b.db", "50%25.db", "a?b#c.db", "ünï.db", "file:x.db", "x.db?mode=memory"])
def test_any_name_is_the_name_of_the_file(tmp_path: Path, name: str) -> None:
    """The address that SQLite is given is a URI, in which some characters mean something."""
    Database(tmp_path / name).close()
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_link_and_the_file_are_one_path(path: Path, tmp_path: Path) -> None:
    """What lies beside the file, locks among it, is found by its name: two names would be two stores in one."""
    link = tmp_path / "link.db"
    link.symlink_to(path)
    database = Database(link)
    assert database.path == path.resolve()
    database.close()


def test_an_sqlite_before_strict_tables_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes the library that the machine has, whatever its age."""
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 36, 0))
    with pytest.raises(StoreError, match=r"needs SQLite 3.37 or later, and this Python has"):
        Database(path)
    assert not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="the locks are those of POSIX")
def test_where_wal_does_not_work_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By SQLite's own way to lock with files, which shares no memory: it answers, and stays with its journal."""
    plain = sqlite.connected
    monkeypatch.setattr(sqlite, "connected", lambda file, mode, busy_s: plain(file, f"{mode}&vfs=unix-dotfile", busy_s))
    with pytest.raises(StoreError, match=r"tasks.db: cannot be kept as WAL.*it stays 'delete'.*use a local disk"):
        Database(path)


def test_rows_are_read_before_a_loop_over_them_begins(database: Database) -> None:
    """A loop that writes to the table that it reads would else meet its own rows, or not, as SQLite likes."""
    add(database, "a", "b")
    for (word,) in database.execute("SELECT word FROM words"):
        database.execute("INSERT INTO words VALUES (?)", (f"{word}{word}",))
    assert words(database) == ["a", "b", "aa", "bb"]


def test_a_network_file_system_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There WAL's shared memory is not shared, and two machines write over each other."""
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / {tmp_path.resolve()} rw - nfs4 host:/x rw\n", "utf-8")
    monkeypatch.setattr(mounts, "MOUNTS", table)
    with pytest.raises(StoreError, match=r"network file system \(nfs4\).*which WAL needs; use a local disk"):
        Database(path)
    assert not path.exists()


MOUNTED = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/a rw
30 22 0:25 / /mnt/na\040me rw shared:2 master:3 - nfs4 host:/x rw
31 30 8:2 / /mnt/na\040me/local rw - xfs /dev/b rw
32 22 0:26 / /home2 rw - ext4 /dev/c rw
33 22 0:27 / /twice rw - nfs host:/y rw
34 22 0:28 / /twice rw - tmpfs none rw
damaged line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib", "ext4"),
        ("/mnt/na me", "nfs4"),
        ("/mnt/na me/a/b", "nfs4"),
        ("/mnt/na me2", "ext4"),
        ("/mnt/na me/local/x", "xfs"),
        ("/home2/x", "ext4"),
        ("/twice/x", "tmpfs"),
    ],
)
def test_the_file_system_is_that_of_the_longest_mount_point(folder: str, kind: str) -> None:
    """Not of one that merely begins alike; and of two on one point, of the one that is seen."""
    assert mounts.file_system_of(folder, MOUNTED) == kind


def test_where_no_mounts_are_listed_nothing_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux, and in some jails."""
    monkeypatch.setattr(mounts, "MOUNTS", path.parent / "no such file")
    Database(path).close()
    assert path.exists()


# Transactions


def test_what_is_committed_is_there_and_what_is_rolled_back_is_not(database: Database, path: Path) -> None:
    """For another connection, and after the file was closed."""
    add(database, "a", "b")
    database.begin()
    database.execute("INSERT INTO words VALUES ('c')")
    database.rollback()
    database.rollback()
    assert words(database) == ["a", "b"]
    database.begin()
    database.execute("INSERT INTO words VALUES ('d')")
    database.close()
    again = Database(path)
    assert words(again) == ["a", "b"]
    again.close()


def test_a_commit_that_fails_is_undone(database: Database) -> None:
    """A transaction left open would keep everybody else out."""
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("CREATE TABLE notes (word TEXT REFERENCES words (word) DEFERRABLE INITIALLY DEFERRED)")
    database.begin()
    database.execute("INSERT INTO notes VALUES ('nowhere')")
    with pytest.raises(StoreError, match="FOREIGN KEY constraint failed"):
        database.commit()
    assert database.execute("SELECT * FROM notes").fetchall() == []
    add(database, "a")
    assert words(database) == ["a"]


@pytest.mark.parametrize(
    "statement",
    [
        lambda database: database.execute("SELECT nothing"),
        lambda database: database.execute("INSERT INTO words VALUES ('a')"),
        lambda database: database.execute("SELECT ?", (1, 2)),
        lambda database: database.execute("SELECT 1; SELECT 2"),
        lambda database: database.executemany("INSERT INTO words VALUES (?)", [("b",), ("a",)]),
        lambda database: database.execute("SELECT abs(-1 << 63) FROM words").fetchall(),
    ],
)
def test_every_error_of_sqlite_leaves_as_ours_and_names_the_file(
    database: Database, statement: Callable[[Database], object]
) -> None:
    """`except StoreError` around a transaction is enough, and its message says which file."""
    add(database, "a")
    database.begin()
    with pytest.raises(StoreError, match=r"tasks.db: .*\w") as caught:
        statement(database)
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert type(caught.value) is StoreError
    database.rollback()
    assert words(database) == ["a"]


@pytest.mark.parametrize(
    "fetch",
    [list, lambda rows: rows.fetchall(), lambda rows: rows.fetchmany(9), lambda rows: [next(rows), next(rows)]],
)
def test_an_error_at_a_later_row_leaves_as_ours_too(database: Database, fetch: Callable[[Any], object]) -> None:
    """The first row is read by `execute`; a damaged page is met at whichever row lies on it."""
    add(database, "a", "b")
    rows = database.execute("SELECT CASE word WHEN 'a' THEN 1 ELSE abs(-1 << 63) END FROM words")
    with pytest.raises(StoreError, match=r"tasks.db: .*integer overflow"):
        fetch(rows)
    rows = database.execute("SELECT CASE word WHEN 'a' THEN 1 ELSE abs(-1 << 63) END FROM words")
    with pytest.raises(StoreError, match=r"tasks.db: .*integer overflow"):
        assert rows.fetchone() == (1,)
        rows.fetchone()


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (sqlite3.SQLITE_BUSY, StoreDown, "has kept it locked for 5 s"),
        (sqlite3.SQLITE_BUSY_RECOVERY, StoreDown, "has kept it locked"),
        (sqlite3.SQLITE_LOCKED, StoreDown, "has it locked"),
        (sqlite3.SQLITE_FULL, StoreDown, "no room"),
        (sqlite3.SQLITE_IOERR, StoreDown, "its disk or file system fails"),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreDown, "its disk or file system fails"),
        (sqlite3.SQLITE_CANTOPEN, StoreDown, "cannot be opened"),
        (sqlite3.SQLITE_PROTOCOL, StoreDown, "others keep it busy"),
        (sqlite3.SQLITE_INTERRUPT, StoreDown, "interrupted"),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreDown, "was moved"),
        (sqlite3.SQLITE_READONLY, StoreError, "may not be written"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreError, "may not be written"),
        (sqlite3.SQLITE_CORRUPT, StoreError, r'sqlite3 x.db ".recover"'),
        (sqlite3.SQLITE_CORRUPT_INDEX, StoreError, r'sqlite3 x.db ".recover"'),
        (sqlite3.SQLITE_NOTADB, StoreError, "is no SQLite database"),
        (sqlite3.SQLITE_ERROR, StoreError, "SQLite cannot do it"),
        (sqlite3.SQLITE_CONSTRAINT_UNIQUE, StoreError, "SQLite cannot do it"),
        (None, StoreError, "SQLite cannot do it"),
    ],
)
def test_a_code_decides_whether_trying_again_may_help(code: int | None, kind: type[StoreError], text: str) -> None:
    """StoreDown is tried again, later and later; what is damaged or forbidden is told at once."""
    error = sqlite3.OperationalError("its own words")
    if code is not None:
        error.sqlite_errorcode, error.sqlite_errorname = code, "SQLITE_X"
    found = told(error, "x.db", 5.0)
    assert type(found) is kind
    assert str(found).startswith("x.db: ")
    assert text in str(found)
    assert str(found).endswith(": its own words)")


# Others


def test_a_commit_of_another_connection_is_a_change_and_ones_own_is_none(database: Database, path: Path) -> None:
    """What was remembered of the file may be used as long as there is no change."""
    assert not database.changed()
    add(database, "a")
    assert not database.changed()
    other = Database(path)
    assert not database.changed()
    add(other, "b")
    add(other, "c")
    assert database.changed()
    assert not database.changed()
    database.begin()
    assert not database.changed()
    database.rollback()
    other.begin()
    other.execute("INSERT INTO words VALUES ('d')")
    assert not database.changed()
    other.commit()
    other.close()
    database.begin()
    assert database.changed()
    database.rollback()


def test_a_schema_that_became_newer_while_the_file_was_open_is_told(database: Database, path: Path) -> None:
    """During an upgrade the old program still runs; what it would write is of another age."""
    newer = sqlite3.connect(path)
    newer.execute(f"PRAGMA user_version = {NEWEST + 1}")
    newer.close()
    for _ in range(2):
        with pytest.raises(
            StoreError, match=f"schema is version {NEWEST + 1}, and this tickless knows version {NEWEST};"
        ):
            database.changed()


def test_who_waits_too_long_for_a_lock_is_told_and_may_try_again(database: Database, path: Path) -> None:
    """A shell with an open transaction is enough."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreDown, match=r"tasks.db: another program has kept it locked for 0.02 s"):
        database.begin()
    assert words(database) == []
    other.close()
    add(database, "a")
    assert words(database) == ["a"]


# The file


def test_the_file_that_was_opened_is_still_there(database: Database) -> None:
    """Asked for every transaction: it says nothing as long as all is well."""
    add(database, "a")
    database.check_file()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute("VACUUM")
    database.check_file()


def test_a_file_that_was_removed_is_told_and_not_made_anew(database: Database, path: Path) -> None:
    """Else the store would go on with a file without a name, or with an empty one, and nobody would hear of it."""
    add(database, "a")
    path.unlink()
    with pytest.raises(StoreDown, match=r"tasks.db: was removed while it was open"):
        database.check_file()
    with pytest.raises(StoreDown, match=r"tasks.db: is not there any more"):
        database.reopen()
    with pytest.raises(StoreDown, match=r"tasks.db: is not open"):
        database.execute("SELECT 1")
    assert not path.exists()


def test_a_file_that_was_replaced_is_told_and_reopened(database: Database, path: Path, tmp_path: Path) -> None:
    """A backup was put in its place: its tasks are what holds from now on."""
    add(database, "a")
    backup = Database(tmp_path / "backup.db")
    backup.execute("CREATE TABLE words (word TEXT UNIQUE)")
    add(backup, "b")
    backup.close()
    for kept in tmp_path.glob("tasks.db*"):
        kept.rename(tmp_path / f"old-{kept.name}")
    os.replace(tmp_path / "backup.db", path)
    with pytest.raises(StoreDown, match=r"tasks.db: was replaced while it was open"):
        database.check_file()
    database.reopen()
    database.check_file()
    assert words(database) == ["b"]


def test_a_file_that_was_emptied_is_told(database: Database, path: Path) -> None:
    """`> tasks.db` keeps the file, and takes all that is in it."""
    os.truncate(path, 0)
    with pytest.raises(StoreError, match=r"tasks.db: was emptied while it was open"):
        database.check_file()


def test_what_is_closed_says_so_and_can_be_reopened(database: Database) -> None:
    """Closing twice is nothing."""
    add(database, "a")
    database.close()
    database.close()
    for verb in (database.begin, database.commit, database.rollback, database.changed):
        with pytest.raises(StoreDown, match=r"tasks.db: is not open; reopen it first"):
            verb()
    database.reopen()
    assert words(database) == ["a"]


# Forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_neither_uses_nor_closes_the_connection_of_its_parent(tmp_path: Path) -> None:
    """Its last breath would else undo, in shared memory, what the parent is just writing: the file is damaged."""
    lines = quiet(f"""
        from tickless.stores.sql.sqlite import Database
        database = Database({str(tmp_path / "tasks.db")!r})
        database.execute("CREATE TABLE words (word TEXT)")
        database.execute("PRAGMA cache_size = 5")             # so that what is not committed is already in the file
        database.begin()
        database.executemany("INSERT INTO words VALUES (?)", [(f"{{n}}" * 500,) for n in range(2000)])
        pid = os.fork()
        if pid == 0:
            for verb in (database.begin, database.commit, database.changed, lambda: database.execute("SELECT 1")):
                try:
                    verb()
                except ForkedScheduler as error:
                    assert "make a new scheduler in the child" in str(error), error
                else:
                    os._exit(3)
            database.close()
            del database
            sys.exit(0)                                       # with all that an interpreter does at its end
        assert os.waitpid(pid, 0)[1] == 0
        database.commit()
        other = Database({str(tmp_path / "tasks.db")!r})
        print(other.execute("SELECT count(*) FROM words").fetchone()[0])
        print(other.execute("PRAGMA integrity_check").fetchone()[0])
        database.close()
        other.close()
        again = Database({str(tmp_path / "tasks.db")!r})
        print(again.execute("SELECT count(*) FROM words").fetchone()[0])
        again.close()
    """)
    assert lines == ["2000", "ok", "2000"]
