"""A file before it is opened: is there one, is it ours, of which version is it. Looks, and writes nothing."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from tickless.errors import StoreDown, StoreError
from tickless.stores.sql.failures import damaged, foreign, newer, older, told
from tickless.stores.sql.mounts import network_file_system
from tickless.stores.sql.statements import migrations

APPLICATION_ID = 0x74696B6C
"""`tikl` in the header of each file of ours."""
OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""


def check_library(file: str) -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"{file}: needs SQLite {'.'.join(map(str, OLDEST_SQLITE[:2]))} or later, and this Python has "
            f"{sqlite3.sqlite_version}; use a Python that was built with a newer one"
        )


def check_place(file: str, may_create: bool) -> None:
    """What is said better before SQLite is asked. Opens no file: to close it would drop SQLite's own locks on it."""
    folder = os.path.dirname(file)
    if not os.path.isdir(folder):
        raise StoreError(f"{file}: the folder {folder} is not there; create it first")
    if os.path.exists(file) and not os.path.isfile(file):
        raise StoreError(f"{file}: is a folder or a device; name a file")
    kind = network_file_system(folder)
    if kind is not None:
        raise StoreError(
            f"{file}: lies on a network file system ({kind}), where processes share no memory, which WAL needs; "
            "use a local disk"
        )
    if not os.path.exists(file):
        if not may_create:
            raise StoreDown(f"{file}: is not there any more; put it back, or start anew with an empty one")
    elif not os.access(file, os.R_OK | os.W_OK):
        raise StoreError(f"{file}: this user may not read and write it; change its owner or its mode")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(
            f"{file}: this user may not write in {folder}, where files are kept beside it; change its mode"
        )


def look(file: str, busy_s: float) -> None:
    """Is it ours, or new? Looks without writing: what is refused stays as it was."""
    if not size(file):
        if size(f"{file}-wal") and not size(file):
            raise StoreError(damaged(file, f"is empty or missing, and {file}-wal is not: it was cut short or removed"))
        return
    application, version, things = _header(file, busy_s)
    if application != APPLICATION_ID and (application or version or things):
        raise StoreError(foreign(file, application))
    if version > len(migrations()):
        raise StoreError(newer(file, version, len(migrations())))
    if things and version < 1:
        raise StoreError(damaged(file, "is damaged: it has lost the number of its version"))


def check_store(file: str, busy_s: float = 5.0) -> int:
    """The version of a store that is there and can be used as it is. Looks without writing.

    Raises StoreError: there is none, it is not ours, it is of another version; each with the way out.
    """
    version = version_of(file, busy_s)
    if version < len(migrations()):
        raise StoreError(older(file, version, len(migrations())))
    return version


def version_of(file: str, busy_s: float = 5.0) -> int:
    """The version of the schema of a store that is there: 1, or higher. Looks without writing.

    Raises StoreError as `check_store` does, but for an older version.
    """
    check_library(file)
    if not os.path.exists(file) and not size(f"{file}-wal"):
        raise StoreError(f"{file}: no such store; look at the path, or start the program that makes it")
    if os.path.exists(file) and not os.path.isfile(file):
        raise StoreError(f"{file}: is a folder or a device; name a file")
    look(file, busy_s)
    version = _header(file, busy_s)[1] if size(file) else 0
    if not version:
        raise StoreError(f"{file}: is empty, and no store yet; start the program that makes it, or remove the file")
    return version


def _header(file: str, busy_s: float) -> tuple[int, int, int]:
    """(application, version, how many things its schema has).

    Without a WAL the file itself has it all, and is looked at as one that nobody changes: else SQLite would leave files
    beside one that is not ours. Should somebody just then begin to change it, what is seen may make no sense, once.
    """
    failed = StoreError(f"{file}: others keep it busy; try again")
    for _ in range(3):
        has_wal = size(f"{file}-wal") > 0
        try:
            mode = "ro" if has_wal else "ro&immutable=1"
            connection = sqlite3.connect(f"{Path(file).as_uri()}?mode={mode}", uri=True, timeout=busy_s)
            try:
                application, version, things = (
                    int(connection.execute(sql).fetchone()[0])
                    for sql in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
                )
                return application, version, things
            finally:
                connection.close()
        except sqlite3.Error as error:
            failed = told(error, file, busy_s)
            failed.__cause__ = error
            if has_wal:
                break
    raise failed


def size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0
