"""What becomes of a store's file in life: cut short, damaged, somebody else's, write-protected, full.

In each case: an error that names the file and the way out, nothing that was committed is lost, and nothing is deleted.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import HEADER, PATIENCE_S, quiet
from tests.faults.store_files import IMPORTS, NEWEST, digest, filled
from tickless.errors import StoreDown, StoreError
from tickless.stores.sql.sqlite import CHECKED_BYTES, Database

RECOVER = 'sqlite3 .*tasks.db ".recover"'


def refused(path: Path) -> str:
    """The message with which it is refused; neither the file nor what lies beside it has changed."""
    before = {entry.name: digest(entry) for entry in path.parent.iterdir()}
    with pytest.raises(StoreError) as caught:
        Database(path)
    assert {entry.name: digest(entry) for entry in path.parent.iterdir()} == before
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "tasks.db"


# Damaged


@pytest.mark.parametrize("part", [0.25, 0.5, 0.9])
def test_BUG_065_a_file_that_was_cut_short_is_refused_as_it_is(path: Path, part: float) -> None:
    """The copy that did not end, the disk that was full."""
    filled(path)
    os.truncate(path, int(path.stat().st_size * part) // 4096 * 4096)
    message = refused(path)
    assert "is damaged" in message
    assert f'sqlite3 {path} ".recover"' in message
    assert "restore a backup" in message


@pytest.mark.parametrize("size", [2, 15, 16, 50, 99, 100, 511])
def test_a_file_of_a_few_bytes_is_refused_as_it_is(path: Path, size: int) -> None:
    """Less than a header, or little more."""
    filled(path)
    os.truncate(path, size)
    refused(path)


def test_a_file_that_was_emptied_beside_its_wal_is_not_taken_for_a_new_one(path: Path) -> None:
    """SQLite would delete the WAL, and with it the last that could be recovered."""
    database = Database(path)
    database.execute("CREATE TABLE words (word TEXT)")
    for kept in path.parent.glob("tasks.db*"):
        shutil.copy(kept, path.parent / f"copy-{kept.name}")
    database.close()
    copy = path.parent / "copy-tasks.db"
    os.truncate(copy, 0)
    message = refused(copy)
    assert "copy-tasks.db-wal is not: it was cut short" in message
    copy.unlink()
    with pytest.raises(StoreError, match="is empty or missing"):
        Database(copy)
    assert not copy.exists()


def positions() -> Iterator[int]:
    """Each byte of the header, and some of the rest of the first page, which has the schema."""
    yield from range(100)
    yield from range(100, 4096, 13)


def error_at_opening(path: Path) -> StoreError | None:
    try:
        Database(path).close()
    except StoreError as error:
        return error
    return None


def test_a_flipped_byte_in_the_first_page_is_an_error_of_ours_or_does_no_harm(path: Path) -> None:
    """Whatever it is: no error of SQLite's or Python's own, and what is refused is left as it is."""
    whole = filled(path, 50).read_bytes()
    outcomes: dict[bool, int] = {True: 0, False: 0}
    for position in positions():
        for flip in (0x01, 0x80, 0xFF):
            damaged = whole[:position] + bytes([whole[position] ^ flip]) + whole[position + 1 :]
            path.write_bytes(damaged)
            error = error_at_opening(path)
            if error is not None:
                assert str(path) in str(error), f"byte {position} ^ {flip:#x}"
                assert path.read_bytes() == damaged, f"byte {position} ^ {flip:#x}: {error}"
            outcomes[error is None] += 1
            for beside in path.parent.glob("tasks.db-*"):
                beside.unlink()
    assert min(outcomes.values()) > 50, outcomes


def overwrite(path: Path) -> None:
    """The last pages but a few, which are those of the test's table, become noise."""
    data = bytearray(path.read_bytes())
    data[-4096 * 3 : -4096 * 3 + 200] = b"\xff" * 200
    path.write_bytes(data)


def test_a_damaged_page_of_a_small_file_is_told_when_it_is_opened(path: Path) -> None:
    """Not in the night in which it is met."""
    overwrite(filled(path))
    message = refused(path)
    assert "is damaged (" in message
    assert f'sqlite3 {path} ".recover"' in message


def test_a_damaged_page_of_a_large_file_is_told_when_it_is_met(path: Path) -> None:
    """To read through gigabytes would keep the start waiting."""
    overwrite(filled(path, 20_000))
    assert path.stat().st_size > CHECKED_BYTES
    with pytest.raises(StoreError, match=rf"tasks.db: is damaged\..*{RECOVER}"):
        read_all(path)
    assert path.exists()


def read_all(path: Path) -> None:
    database = Database(path)
    try:
        database.execute("SELECT word FROM words ORDER BY rowid").fetchall()
    finally:
        database.close()


@pytest.mark.parametrize("content", [b"{}\n", b"SQLite format 2\0" + bytes(4080), b"\0" * 8192, b"x" * 5000])
def test_a_file_that_is_no_database_is_refused_as_it_is(path: Path, content: bytes) -> None:
    """The address of a settings file, say."""
    path.write_bytes(content)
    assert "is no SQLite database" in refused(path)


@pytest.mark.parametrize("statement", ["DROP TABLE {table}", "ALTER TABLE {table} RENAME TO other"])
def test_a_table_that_is_missing_is_told_by_name(path: Path, statement: str) -> None:
    """Somebody tidied up."""
    Database(path).close()
    plain = sqlite3.connect(path)
    (table,) = plain.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
    ).fetchone()
    plain.execute(statement.format(table=table))
    plain.close()
    assert f"table {table}" in refused(path)


def test_an_index_or_a_column_that_is_missing_is_told_by_name(path: Path) -> None:
    """Without its index a query is right, and reads a million rows for each."""
    Database(path).close()
    plain = sqlite3.connect(path)
    (index, table) = plain.execute(
        "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
    ).fetchone()
    plain.execute(f"DROP INDEX {index}")
    (column,) = plain.execute(
        f"SELECT name FROM pragma_table_info('{table}') WHERE NOT pk ORDER BY cid DESC"
    ).fetchone()
    plain.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
    plain.close()
    assert f"column {table}.{column}, index {index} of the schema are not there" in refused(path)


# Somebody else's


def foreign(path: Path, *statements: str) -> None:
    plain = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        plain.execute(statement)
    plain.close()


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (["PRAGMA application_id = 0x1234", "CREATE TABLE tasks (x)"], "another application (its id is 0x1234)"),
        (["PRAGMA application_id = 0x1234"], "another application (its id is 0x1234)"),
        (["CREATE TABLE tasks (x)"], "that tickless did not make"),
        (["PRAGMA user_version = 1"], "that tickless did not make"),
    ],
)
def test_a_database_of_another_application_is_refused_as_it_is(
    path: Path, statements: list[str], why: str, journal: str
) -> None:
    """The address of the web application's own database, with a table named tasks in it."""
    foreign(path, f"PRAGMA journal_mode = {journal}", *statements)
    assert why in refused(path)


def test_BUG_076_a_file_of_a_newer_version_is_refused_as_it_is(path: Path) -> None:
    """After a downgrade. The newer program will want to find it as it was."""
    filled(path)
    foreign(path, f"PRAGMA user_version = {NEWEST + 1}")
    assert f"its schema is version {NEWEST + 1}, and this tickless knows version {NEWEST}" in refused(path)


def test_a_newer_version_that_stands_in_the_wal_only_is_seen(path: Path) -> None:
    """The header of the file is older than what the newer program, which runs, has committed."""
    newer = sqlite3.connect(filled(path), isolation_level=None)
    newer.execute(f"PRAGMA user_version = {NEWEST + 1}")
    before = digest(path)
    with pytest.raises(StoreError, match=f"its schema is version {NEWEST + 1}"):
        Database(path)
    assert digest(path) == before
    newer.close()


def test_another_application_that_stands_in_the_wal_only_is_seen(path: Path) -> None:
    """Its file is an empty one still, and would be taken for a new store."""
    other = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "PRAGMA application_id = 0x1234", "CREATE TABLE tasks (x)"):
        other.execute(statement)
    before = {entry.name: digest(entry) for entry in path.parent.iterdir() if entry.suffix != ".db-shm"}
    with pytest.raises(StoreError, match="another application"):
        Database(path)
    assert {entry.name: digest(entry) for entry in path.parent.iterdir() if entry.suffix != ".db-shm"} == before
    other.close()


def test_a_version_that_was_lost_is_not_a_new_file(path: Path) -> None:
    """Ours by its id, with tables, and of version 0."""
    filled(path)
    foreign(path, "PRAGMA user_version = 0")
    message = refused(path)
    assert "is damaged" in message
    assert f'sqlite3 {path} ".recover"' in message


# Write-protected


def refused_to_nobody(folder: Path, folder_mode: int) -> str:
    """The message of a program that is not root: to root no mode of a file means anything."""
    lines = quiet(f"""
        {IMPORTS}
        folder = Path({str(folder)!r})
        Database(folder / "first.db").close()                 # so that all that is needed is imported
        folder.chmod({folder_mode})
        if not os.geteuid():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        try:
            Database(folder / "tasks.db")
        except StoreError as error:
            print(type(error).__name__, error)
    """)
    return "\n".join(lines)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user may reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


needs_modes = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no modes of files here")


@needs_modes
@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_a_file_that_may_not_be_written_is_told(shared: Path, mode: int) -> None:
    """Made by root in a deployment, used by the service."""
    path = filled(shared / "tasks.db")
    path.chmod(mode)
    assert refused_to_nobody(shared, 0o777) == (
        f"StoreError {path}: this user may not read and write it; change its owner or its mode"
    )


@needs_modes
def test_a_folder_that_may_not_be_written_is_told(shared: Path) -> None:
    """The file alone is not enough: the WAL lies beside it."""
    path = filled(shared / "tasks.db")
    path.chmod(0o666)
    assert refused_to_nobody(shared, 0o555) == (
        f"StoreError {path}: this user may not write in {shared}, where files are kept beside it; change its mode"
    )


# Full


def test_a_full_file_is_told_and_takes_more_once_there_is_room(path: Path) -> None:
    """Of `max_page_count`, which SQLite treats as a full disk. What was committed before is there."""
    database = Database(filled(path))
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages + 2}")
    database.begin()
    with pytest.raises(StoreDown, match=r"tasks.db: there is no room on its disk, or it has reached its largest size"):
        database.executemany("INSERT INTO words VALUES (?)", [("x" * 1000,)] * 50)
    database.rollback()
    assert database.execute("SELECT count(*) FROM words").fetchone() == (500,)
    database.execute(f"PRAGMA max_page_count = {pages + 1000}")
    database.begin()
    database.executemany("INSERT INTO words VALUES (?)", [("x" * 1000,)] * 50)
    database.commit()
    assert database.execute("SELECT count(*) FROM words").fetchone() == (550,)
    database.close()


FULL_DISK = """
folder = Path({folder!r})
filler = folder / "filler"
filler.write_bytes(bytes(200_000))
database = Database(folder / "tasks.db")
database.execute("CREATE TABLE words (word TEXT)")
done = 0
while True:
    database.begin()
    try:
        database.executemany("INSERT INTO words VALUES (?)", [("x" * 500,)] * 8)
        database.commit()
    except StoreDown as error:
        database.rollback()
        print(error)
        break
    done += 8
assert database.execute("SELECT count(*) FROM words").fetchone() == (done,), done
assert done, "there was no room from the beginning"
filler.unlink()
database.begin()
database.executemany("INSERT INTO words VALUES (?)", [("x" * 500,)] * 8)
database.commit()
assert database.execute("SELECT count(*) FROM words").fetchone() == (done + 8,)
assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
database.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a file system of one's own is made as Linux does it")
def test_a_full_disk_is_told_and_the_store_goes_on_once_there_is_room(tmp_path: Path) -> None:
    """A file system of 1 MB, in a name space of the test's own."""
    mount = f"mount -t tmpfs -o size=1m none '{tmp_path}'"
    probe = subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no file system may be mounted here: {probe.stderr.strip()}")
    program = HEADER + textwrap.dedent(f"        {IMPORTS}\n") + FULL_DISK.format(folder=str(tmp_path))
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "tasks.db: there is no room on its disk" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE here")
def test_opening_fails_at_each_size_that_a_file_may_have_until_it_succeeds(tmp_path: Path) -> None:
    """The n-th kilobyte cannot be written, for n = 0, 1, ...: each time it is told, and with room all is well."""
    lines = quiet(f"""
        import resource
        {IMPORTS}
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        failed = 0
        for kilobytes in range(1000):
            path = Path({str(tmp_path)!r}) / f"{{kilobytes}}.db"
            resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1024, hard))
            try:
                Database(path).close()
            except StoreDown as error:
                assert "its disk or file system fails" in str(error), error
                failed += 1
            else:
                break
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            database = Database(path)
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            database.close()
        print(failed)
    """)
    assert int(lines[0]) > 20
