"""Files of stores for tests, and programs that open them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tickless.stores.sql.header import APPLICATION_ID
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import migrations

NEWEST = len(migrations())
IMPORTS = """from pathlib import Path
        from tickless.errors import StoreDown, StoreError
        from tickless.stores.sql.sqlite import Database"""
"""Indented as the programs in the tests are, into which they are put."""


def filled(path: Path, rows: int = 500) -> Path:
    """A store with some pages of rows, closed."""
    database = Database(path)
    database.execute("CREATE TABLE words (word TEXT)")
    database.begin()
    database.executemany("INSERT INTO words VALUES (?)", [(f"{n}" * 50,) for n in range(rows)])
    database.commit()
    database.close()
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def complete(path: Path) -> None:
    """The file is of the newest version, whole, and ours; else this raises."""
    database = Database(path)
    facts = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")]
    assert facts == [NEWEST, APPLICATION_ID]
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
