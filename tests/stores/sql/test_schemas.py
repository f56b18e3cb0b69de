"""A file of every schema that was ever released is opened, and brought to the newest one.

`python -m tests.stores.sql.test_schemas` writes the dump of a version that has none yet. What was released is never
written anew: files like it are out there.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tickless.stores.sql.header import APPLICATION_ID
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import migrations

SCHEMAS = ROOT / "tests" / "data" / "schemas"
VERSIONS = [step.number for step in migrations()]


def made_by_migrations(version: int) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for step in migrations()[:version]:
        for statement in step.statements:
            connection.execute(statement)
    return connection


def made_by_dump(version: int, path: Path | str = ":memory:") -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript((SCHEMAS / f"{version:04}.sql").read_text("utf-8"))
    return connection


def schema_of(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """(type, name, SQL) of all that the schema has, and let go of the connection."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2").fetchall()
    connection.close()
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_a_released_schema_is_opened_and_becomes_the_newest(version: int, tmp_path: Path) -> None:
    """An upgrade is a new program that meets an old file."""
    made_by_dump(version, tmp_path / "old.db").close()
    database = Database(tmp_path / "old.db")
    assert database.execute("PRAGMA user_version").fetchone() == (VERSIONS[-1],)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
    Database(tmp_path / "new.db").close()
    names = [
        [(kind, name) for kind, name, _ in schema_of(sqlite3.connect(tmp_path / file))] for file in ("old.db", "new.db")
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_migration_that_was_released_is_not_changed(version: int) -> None:
    """Whoever changes it has two kinds of files of one version, and only the newer kind in their tests."""
    assert schema_of(made_by_dump(version)) == schema_of(made_by_migrations(version)), (
        "add a migration instead; or, for a version that no release has, delete its dump and write it anew"
    )


def write_missing() -> None:
    for version in VERSIONS:
        path = SCHEMAS / f"{version:04}.sql"
        if not path.exists():
            connection = made_by_migrations(version)
            pragmas = [f"PRAGMA application_id = {APPLICATION_ID};", f"PRAGMA user_version = {version};"]
            path.write_text("\n".join([*connection.iterdump(), *pragmas]) + "\n", "utf-8")
            connection.close()


if __name__ == "__main__":
    write_missing()
