"""A look into a file: of any version that is known, without making, changing or upgrading anything."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tickless.errors import StoreError
from tickless.stores.sql.failures import told
from tickless.stores.sql.header import size, version_of
from tickless.stores.sql.owners import SUFFIX, Owners
from tickless.stores.sql.sqlite import RowCursor as Cursor
from tickless.stores.sql.sqlite import connected
from tickless.stores.sql.statements import load as load_statements

ASK = load_statements("upkeep.sql")
STORE = load_statements("queries.sql")
BUSY_S = 5.0
FLOWS_SINCE = 2
"""The version of the schema that has rounds."""


class Glance:
    """A connection on which nothing is written."""

    def __init__(self, file: str, version: int, connection: Any) -> None:
        self.file = file
        self.version = version
        self._connection = connection

    def ask(self, sql: str, args: Sequence[Any] = ()) -> sqlite3.Cursor:
        """The rows that a question gives. Raises StoreError, also where they are fetched."""
        try:
            cursor: sqlite3.Cursor = self._connection.cursor(Cursor).execute(sql, args)
        except sqlite3.Error as error:
            raise told(error, self.file, BUSY_S) from error
        return cursor

    def number(self, sql: str) -> int:
        return int(self.ask(sql).fetchone()[0])

    def copy_to(self, path: str) -> None:
        """A whole copy, by SQLite's own way of it. Raises StoreError."""
        try:
            copy = sqlite3.connect(path)
            try:
                self._connection.backup(copy)
            finally:
                copy.close()
        except sqlite3.Error as error:
            raise told(error, path, BUSY_S) from error


@contextmanager
def glance(file: str) -> Iterator[Glance]:
    """Look into the file, at one snapshot of it. `file`: its real path.

    Where nobody has it open, and its folder may be written, it is opened as a program opens it, so that one that starts
    meanwhile is seen; else read only, which leaves a WAL that a dead process has left as it is.
    Raises StoreError: there is none, it is not ours, it is newer, it is damaged.
    """
    version = version_of(file, BUSY_S)
    if os.path.exists(f"{file}-wal"):
        mode = "ro"
    elif os.access(file, os.W_OK) and os.access(os.path.dirname(file), os.W_OK | os.X_OK):
        mode = "rw"
    else:
        mode = "ro&immutable=1"
    try:
        connection = connected(file, mode, BUSY_S)
    except sqlite3.Error as error:
        raise told(error, file, BUSY_S) from error
    try:
        one = Glance(file, version, connection)
        one.ask("PRAGMA query_only = 1")
        one.ask("PRAGMA mmap_size = 0")
        one.ask("BEGIN")
        yield one
    finally:
        connection.close()


def facts_of(one: Glance) -> dict[str, Any]:
    """What the file is, apart from what is in it."""
    number = one.number
    return {
        "path": one.file,
        "bytes": size(one.file),
        "wal_bytes": size(f"{one.file}-wal"),
        "version": one.version,
        "sqlite": sqlite3.sqlite_version,
        "journal_mode": str(one.ask("PRAGMA journal_mode").fetchone()[0]),
        "page_bytes": number("PRAGMA page_size"),
        "pages": number("PRAGMA page_count"),
        "free_pages": number("PRAGMA freelist_count"),
    }


def counts_of(one: Glance) -> dict[str, Any]:
    """What is in it. O(all tasks)."""
    return {
        "tasks": {str(state): count for state, count in one.ask(ASK.states).fetchall()},
        "recurring": one.number(ASK.count_recurring),
        "runs": one.number(ASK.count_runs),
        "rounds": one.number(ASK.count_rounds) if one.version >= FLOWS_SINCE else 0,
        "unusable": [
            {"id": f"#{seq}" if id is None else id, "reason": why} for seq, id, why in one.ask(STORE.unusable)
        ],
    }


def owners_of(one: Glance) -> list[dict[str, Any]]:
    """The processes that have joined; `alive` is None where that cannot be told by this user, or on this system."""
    rows = one.ask(ASK.owners).fetchall()
    owners: Owners | None = None
    if rows and os.path.exists(f"{one.file}{SUFFIX}"):
        try:
            owners = Owners(one.file)
        except StoreError:
            return [_owner(row, alive=None) for row in rows]
    try:
        return [_owner(row, alive=owners is not None and _lives(owners, row[0])) for row in rows]
    finally:
        if owners is not None:
            owners.close()


def _lives(owners: Owners, number: int) -> bool | None:
    try:
        return owners.lives(number)
    except StoreError:
        return None


def _owner(row: tuple[Any, ...], *, alive: bool | None) -> dict[str, Any]:
    number, host, pid, listens = row
    return {"number": number, "host": host, "pid": pid, "runs_tasks": bool(listens), "alive": alive}


def faults_of(one: Glance) -> list[str]:
    """What is wrong with the file as a database, at most 100 faults. Reads it all, in some 2 ms a megabyte."""
    found = [str(line) for (line,) in one.ask("PRAGMA quick_check(100)").fetchall()]
    return [] if found == ["ok"] else found
