"""Several processes at one file of a store, and one that dies: a migration is made once, and whole, or not at all."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import PATIENCE_S, quiet
from tests.faults.store_files import IMPORTS, NEWEST, complete, filled
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import migrations


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "tasks.db"


# Migrations


class Late(Database):
    """Between its look at the version and its transaction another process does all the work."""

    def begin(self) -> None:
        if not self.overtaken:
            Late.overtaken = True
            Database(self.path).close()
        super().begin()

    overtaken = False


def test_who_comes_late_to_a_migration_sees_that_it_was_made(path: Path) -> None:
    """Both saw the old version; the second would make it again, and fail or do harm."""
    Late.overtaken = False
    Late(path).close()
    assert Late.overtaken
    complete(path)


class Refused(Database):
    """While it switches to WAL for the first time, another process holds the file."""

    refusals = 0

    def execute(self, sql: str, args: Sequence[Any] = ()) -> sqlite3.Cursor:
        if "journal_mode" not in sql or Refused.refusals:
            return super().execute(sql, args)
        Refused.refusals += 1
        other = sqlite3.connect(self.path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        try:
            return super().execute(sql, args)
        finally:
            other.close()


def test_who_is_refused_in_the_switch_to_wal_tries_again(path: Path) -> None:
    """SQLite does not wait there, where two that wait would wait for one another."""
    Refused.refusals = 0
    Refused(path, busy_s=0).close()
    assert Refused.refusals == 1
    complete(path)


@pytest.mark.parametrize("round_of", range(3))
def test_BUG_076_processes_that_make_a_file_at_once_make_it_once(path: Path, round_of: int) -> None:
    """A server starts its four workers together, on the first day."""
    source = textwrap.dedent(f"""
        import sys
        {IMPORTS}
        print("ready", flush=True)
        sys.stdin.readline()
        Database({str(path)!r}).close()
    """)
    workers = [
        subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=PATIENCE_S)
    assert [worker.returncode for worker in workers] == [0] * 4, f"round {round_of}"
    complete(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_BUG_076_a_kill_at_any_statement_of_the_opening_leaves_a_file_that_opens(tmp_path: Path) -> None:
    """A migration and its version are one transaction; and before it, a new file is still new."""
    lines = quiet(f"""
        import signal
        {IMPORTS}
        class Dying(Database):
            left = 0
            def execute(self, sql, args=()):
                if not self.left:
                    os.kill(os.getpid(), signal.SIGKILL)
                self.left -= 1
                return super().execute(sql, args)
        for n in range(1000):
            path = Path({str(tmp_path)!r}) / f"{{n}}.db"
            pid = os.fork()
            if pid == 0:
                Dying.left = n
                Dying(path)
                os._exit(0)
            status = os.waitpid(pid, 0)[1]
            database = Database(path)
            assert database.execute("PRAGMA user_version").fetchone() == ({NEWEST},)
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            database.close()
            if not status:
                break
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        print(n)
    """)
    statements = sum(len(step.statements) for step in migrations())
    assert int(lines[0]) > statements + 10


# Others at the same file


def test_who_reads_an_old_snapshot_does_not_keep_others_from_writing(path: Path) -> None:
    """A backup, a report: it reads on as of its beginning; checkpoints wait, commits do not."""
    database = Database(filled(path), busy_s=0)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM words").fetchone() == (500,)
    for _ in range(5):
        database.begin()
        database.executemany("INSERT INTO words VALUES (?)", [("x" * 4000,)] * 300)
        database.commit()
    other = Database(path, busy_s=0)
    assert other.execute("SELECT count(*) FROM words").fetchone() == (2000,)
    other.close()
    assert reader.execute("SELECT count(*) FROM words").fetchone() == (500,)
    reader.close()
    database.close()
    complete(path)


def test_a_second_connection_of_one_process_keeps_the_locks_of_the_first(path: Path) -> None:
    """POSIX drops all locks of a process on a file when it closes any descriptor of it: looking must not open one.

    Another process would then take itself for the last one, and delete the WAL that the first is writing to.
    """
    first = Database(filled(path))
    first.execute("INSERT INTO words VALUES ('mine')")
    wal = path.with_name("tasks.db-wal")
    before = wal.stat().st_ino
    Database(path).close()
    assert quiet(f"""
        {IMPORTS}
        Database({str(path)!r}).close()
        print("closed")
    """) == ["closed"]
    assert wal.exists()
    assert wal.stat().st_ino == before
    first.close()
    assert not wal.exists()
    complete(path)
