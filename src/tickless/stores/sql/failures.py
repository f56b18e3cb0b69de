"""What SQLite's errors mean to us: whether trying again may help, and a message with the file and the way out."""

from __future__ import annotations

import sqlite3

from tickless.errors import StoreDown, StoreError

REMEDY = 'Stop all that use it; then `sqlite3 {file} ".recover"`, restore a backup, or move it aside'
_DOWN: dict[int, str] = {
    sqlite3.SQLITE_BUSY: "another program has kept it locked for {busy_s:g} s; look who has it open: a shell, a copy",
    sqlite3.SQLITE_LOCKED: "another statement has it locked; try again",
    sqlite3.SQLITE_FULL: "there is no room on its disk, or it has reached its largest size; make room",
    sqlite3.SQLITE_IOERR: "its disk or file system fails; look at the system's log, at quotas, at limits of size",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; look at the folder, at its mode, and at how many files may be open",
    sqlite3.SQLITE_PROTOCOL: "others keep it busy; try again",
    sqlite3.SQLITE_INTERRUPT: "the statement was interrupted; try again",
    sqlite3.SQLITE_READONLY_DBMOVED: "was moved while it was open; reopen it",
}
_NEVER: dict[int, str] = {
    sqlite3.SQLITE_READONLY: "may not be written by this user; change its mode, that of its folder, or the mount",
    sqlite3.SQLITE_PERM: "may not be opened by this user; change its mode, or that of its folder",
    sqlite3.SQLITE_AUTH: "SQLite refuses it",
    sqlite3.SQLITE_CORRUPT: f"is damaged. {REMEDY}",
    sqlite3.SQLITE_NOTADB: f"is no SQLite database, or its beginning is damaged. If it was a store: {REMEDY}",
    sqlite3.SQLITE_NOLFS: "has become larger than its file system allows; move it to another disk",
}


def is_busy(error: StoreError) -> bool:
    return getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def told(error: sqlite3.Error, file: str, busy_s: float) -> StoreError:
    """The error as one of ours: the file, what it means, the way out, and SQLite's own words."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and "UTF-8" in str(error):
        code = sqlite3.SQLITE_CORRUPT  # told by Python: SQLite itself does not look
    words = f"{getattr(error, 'sqlite_errorname', type(error).__name__)}: {error}"
    if code is not None:
        for kind, known in ((StoreDown, _DOWN), (StoreError, _NEVER)):
            text = known.get(code) or known.get(code & 0xFF)
            if text is not None:
                return kind(f"{file}: {text.format(file=file, busy_s=busy_s)} ({words})")
    return StoreError(f"{file}: SQLite cannot do it ({words})")


def foreign(file: str, application: int) -> str:
    whose = f"of another application (its id is {application:#x})" if application else "that tickless did not make"
    return f"{file}: is a database {whose}, and is left as it is; name another file"


def newer(file: str, version: int, ours: int) -> str:
    return f"{file}: its schema is version {version}, and this tickless knows version {ours}; use the newer tickless"


def older(file: str, version: int, ours: int) -> str:
    return (
        f"{file}: its schema is version {version}, and this tickless reads version {ours}; it is left as it is, since "
        "programs of the older tickless could not use it any more: upgrade it when they have stopped"
    )


def damaged(file: str, how: str) -> str:
    return f"{file}: {how}. {REMEDY.format(file=file)}"
