"""The door to a SQLite file: opens it or says why not, keeps one connection, and turns SQLite's errors into ours.

Nothing here knows what the tables hold. Every process has its own connection; they meet in the file, by WAL.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, Never, cast

from tickless.errors import ForkedScheduler, ScheduleError, StoreDown, StoreError, TicklessError, shown
from tickless.stores.sql.failures import damaged, is_busy, newer, told
from tickless.stores.sql.header import APPLICATION_ID, check_library, check_place, check_store, look
from tickless.stores.sql.statements import Migration, migrations

Durability = Literal["process", "power"]
"""What a commit outlives: the death of the process, or also that of the machine."""
DURABILITIES: tuple[Durability, ...] = ("process", "power")

LONGEST_BUSY_S = 86_400
WAL_PAGES = 1000
"""Of 4 KB, and then a checkpoint. Longer ones save a tenth of an insert, and cost more where each commit is synced."""
LONGEST_WAL = 64 << 20
"""In bytes: what a WAL that grew longer, for a reader's sake, is cut to."""
CHECKED_BYTES = 2 << 20
"""A file up to this size is read through when it is opened, in 2 ms a megabyte."""
_BOUNDED_TRIES = 100


class _NoConnection:
    """Stands in for the connection where there is none: whatever is asked of it raises."""

    def __init__(self, kind: type[TicklessError], message: str) -> None:
        self._refusal = kind, message

    def __getattr__(self, name: str) -> Never:
        kind, message = self._refusal
        raise kind(message)


def _none(kind: type[TicklessError], message: str) -> _Connection:
    return cast(_Connection, _NoConnection(kind, message))


class _Connection(sqlite3.Connection):
    """Knows its file, for the messages of its cursors."""

    file: str
    busy_s: float


class RowCursor(sqlite3.Cursor):
    """A cursor whose rows fail as ours: a damaged page may be met at any of them."""

    connection: _Connection

    def fetchone(self) -> Any:
        try:
            return super().fetchone()
        except sqlite3.Error as error:
            raise self._told(error) from error

    def fetchall(self) -> list[Any]:
        try:
            return super().fetchall()
        except sqlite3.Error as error:
            raise self._told(error) from error

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        try:
            return super().fetchmany(size)
        except sqlite3.Error as error:
            raise self._told(error) from error

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # none of `Self` is needed
        """All rows, read at once: whoever writes within the loop does not change what it goes over."""
        return iter(self.fetchall())

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except sqlite3.Error as error:
            raise self._told(error) from error

    def _told(self, error: sqlite3.Error) -> StoreError:
        return told(error, self.connection.file, self.connection.busy_s)


class Database:
    """One connection to one file, for one process. Its caller's lock guards it; never two threads at once.

    `durability` "process": a commit outlives the process, and the last ones may be lost with the machine; "power": it
    outlives the machine, at the price of a sync each. `busy_s`: how long to wait for another process's transaction.
    The file is created, and brought to the newest schema; `as_it_is`: it must be there, and have that schema.
    Raises StoreError, or StoreDown where trying again may help.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        durability: Durability = "process",
        busy_s: float = 5.0,
        *,
        as_it_is: bool = False,
    ) -> None:
        if durability not in DURABILITIES:
            raise ScheduleError(f"durability={shown(durability)}: needs one of {', '.join(DURABILITIES)}")
        if type(busy_s) not in (int, float) or not 0 <= busy_s <= LONGEST_BUSY_S:
            raise ScheduleError(f"busy_s={shown(busy_s)}: needs seconds, from 0 to {LONGEST_BUSY_S}")
        self.path = Path(os.path.realpath(path))  # one name for all, since others lie beside it
        self.durability = durability
        self.busy_s = busy_s
        self._file = os.fspath(self.path)
        self._data_version = self._version = self._device = self._inode = 0
        self.at_rest = False
        """True while a fork goes on, and the caller sees to it that no statement does."""
        self._closed()
        _open_here.add(self)  # before it opens: another thread may fork meanwhile
        self._as_it_is = as_it_is
        if as_it_is:
            check_store(self._file, busy_s)
        self._open(may_create=not as_it_is)

    # Statements

    def execute(self, sql: str, args: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement; the cursor's rows come as they are fetched, and fail as ours, too."""
        try:
            return self._connection.cursor(RowCursor).execute(sql, args)
        except sqlite3.Error as error:
            raise told(error, self._file, self.busy_s) from error

    def executemany(self, sql: str, many: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        """Run one statement for each of many arguments."""
        try:
            return self._connection.executemany(sql, many)
        except sqlite3.Error as error:
            raise told(error, self._file, self.busy_s) from error

    def begin(self) -> None:
        """From here on nobody else writes. Raises StoreDown when somebody else does for longer than `busy_s`."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise told(error, self._file, self.busy_s) from error

    def commit(self) -> None:
        """All or nothing: where it raises, the transaction is undone."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self.rollback()
            raise told(error, self._file, self.busy_s) from error

    def rollback(self) -> None:
        """Nothing has been. SQLite itself ends a transaction after some errors, so there may be none any more."""
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def changed(self) -> bool:
        """Whether another connection has committed since this was last asked, or since the file was opened."""
        try:
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise told(error, self._file, self.busy_s) from error
        if version == self._data_version:
            return False
        self._check_version()
        self._data_version = version  # not before: what is refused is refused whenever it is asked
        return True

    # The file

    def check_file(self) -> None:
        """The path still is the file that was opened. Raises StoreDown when it is not; `reopen` then takes what is."""
        try:
            stat = os.stat(self._file)
        except OSError as error:
            raise StoreDown(f"{self._file}: was removed while it was open ({error.strerror}); put it back") from None
        if stat.st_ino != self._inode or stat.st_dev != self._device:
            raise StoreDown(f"{self._file}: was replaced while it was open; what is there now is another file")
        if not stat.st_size:
            raise StoreError(f"{self._file}: was emptied while it was open; stop all that use it, and restore a backup")

    def reopen(self) -> None:
        """Open what the path is now. It must be there: to begin anew with an empty file is for a new start."""
        self.close()
        self._open(may_create=False)

    def close(self) -> None:
        """Let go of the file. What was not committed is undone. Closing twice is nothing."""
        connection = self._connection
        self._closed()
        if isinstance(connection, sqlite3.Connection):
            connection.close()

    def _closed(self) -> None:
        self._connection = _none(StoreDown, f"{self._file}: is not open; reopen it first")

    # Opening

    def _open(self, may_create: bool) -> None:
        check_library(self._file)
        check_place(self._file, may_create)
        _check_fork(self._file)
        look(self._file, self.busy_s)
        mode = "rwc" if may_create else "rw"
        try:
            self._connection = connected(self._file, mode, self.busy_s)
            self._prepare()
            if self._as_it_is:
                self._version = check_store(self._file, self.busy_s)
            else:
                self._migrate()
            self._check_tables()
            self._check_pages()
            stat = os.stat(self._file)
            self._device, self._inode = stat.st_dev, stat.st_ino
            self._data_version = self._number("PRAGMA data_version")
        except sqlite3.Error as error:
            self.close()
            raise told(error, self._file, self.busy_s) from error
        except BaseException:
            self.close()
            raise

    def _number(self, sql: str) -> int:
        return int(self.execute(sql).fetchone()[0])

    def _prepare(self) -> None:
        power = self.durability == "power"
        self.execute(f"PRAGMA synchronous = {'FULL' if power else 'NORMAL'}")
        if power:  # else a sync on macOS leaves it in the disk's own memory
            self.execute("PRAGMA fullfsync = 1")
        self._use_wal()
        self.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
        self.execute(f"PRAGMA journal_size_limit = {LONGEST_WAL}")
        self.execute("PRAGMA mmap_size = 0")  # a file that is cut short would be a SIGBUS
        self.execute("PRAGMA temp_store = MEMORY")
        self.execute("PRAGMA foreign_keys = OFF")

    def _use_wal(self) -> None:
        """Two that switch a new file at once may both be refused, without a wait: who then gets through looks again."""
        for _ in range(_BOUNDED_TRIES):
            try:
                mode = self.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except StoreDown as error:
                if not is_busy(error):
                    raise
                self.begin()  # waits until the other is through
                self.rollback()
        else:
            raise StoreDown(f"{self._file}: others keep it busy, and it cannot be switched to WAL; try again")
        if mode != "wal":
            raise StoreError(
                f"{self._file}: cannot be kept as WAL, which several processes need (it stays {mode!r}); "
                "use a local disk whose file system shares memory between processes"
            )

    def _migrate(self) -> None:
        """One transaction a step, together with its version. Of two processes one makes it, and the other sees it."""
        steps = migrations()
        while self._number("PRAGMA user_version") < len(steps):
            self.begin()
            try:
                version = self._number("PRAGMA user_version")
                if version < len(steps):
                    self._step(steps[version])
                self.commit()
            except BaseException:
                self.rollback()
                raise
        self._version = len(steps)
        self._check_version()

    def _step(self, step: Migration) -> None:
        for statement in step.statements:
            self.execute(statement)
        self.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.execute(f"PRAGMA user_version = {step.number}")

    def _check_version(self) -> None:
        version = self._number("PRAGMA user_version")
        if version != self._version:
            raise StoreError(newer(self._file, version, self._version))

    def _check_tables(self) -> None:
        missing = sorted(_expected() - _things(self._connection))
        if missing:
            are = "are" if missing[1:] else "is"
            how = (
                f"{', '.join(missing[:3])} of the schema {are} not there; it was changed by another program, or damaged"
            )
            raise StoreError(damaged(self._file, how))

    def _check_pages(self) -> None:
        """What is damaged in a large file is told by the statement that meets it."""
        if self._number("PRAGMA page_count") * self._number("PRAGMA page_size") <= CHECKED_BYTES:
            found = self.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise StoreError(damaged(self._file, f"is damaged ({found})"))


def connected(file: str, mode: str, busy_s: float) -> _Connection:
    connection = sqlite3.connect(
        f"{Path(file).as_uri()}?mode={mode}",
        uri=True,
        timeout=busy_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=_Connection,
    )
    connection.file, connection.busy_s = file, busy_s
    return connection


def _check_fork(file: str) -> None:
    """Raises ForkedScheduler for a file whose locks this process has a wrong idea of."""
    if _spoiled and os.path.exists(file):
        stat = os.stat(file)
        if (stat.st_dev, stat.st_ino) in _spoiled:
            raise ForkedScheduler(
                f"{file}: a transaction of the parent went on when this process was forked, and SQLite cannot open the "
                "file here any more; fork when none does, or start a process of its own (spawn)"
            )


def _things(connection: sqlite3.Connection) -> frozenset[str]:
    """Each table with each of its columns, each index: as words."""
    rows = connection.execute(
        "SELECT type || ' ' || name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' UNION ALL "
        "SELECT 'column ' || m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c "
        "WHERE m.type = 'table'"
    )
    return frozenset(str(word) for (word,) in rows)


@cache
def _expected() -> frozenset[str]:
    """What the newest schema has, found out by making one in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for step in migrations():
            for statement in step.statements:
                connection.execute(statement)
        return _things(connection)
    finally:
        connection.close()


# Forks

_open_here: weakref.WeakSet[Database] = weakref.WeakSet()


_spoiled: set[tuple[int, int]] = set()
"""Device and inode of the files that nothing in this process may open."""


def _after_fork_in_child() -> None:
    """The child closes the connections of its parent, which it has not used: the parent's are not touched by that.

    SQLite keeps in memory which locks its process has on a file, and the copy of that is wrong in the child: what it
    opened would go without locks, and lose what it writes. A connection that was in the middle of something cannot be
    closed, since that would undo, in memory that is shared, what the parent is just writing. It gets a reference that
    nobody gives back, and its file is not opened again here.
    """
    for database in list(_open_here):
        connection = database._connection
        message = f"{database._file}: was opened before a fork; make a new scheduler in the child"
        database._connection = _none(ForkedScheduler, message)
        if not isinstance(connection, sqlite3.Connection):
            continue
        if database.at_rest:
            connection.close()
        else:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
            _spoiled.add((database._device, database._inode))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
