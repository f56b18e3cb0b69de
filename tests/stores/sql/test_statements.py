"""Queries and migrations are read from files of the package, and a file that breaks the format is refused by name."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tickless.errors import StoreError
from tickless.stores.sql import statements
from tickless.stores.sql.statements import Statements, migrations, migrations_of, queries_of, split

QUERIES = """-- Of the store; a comment ahead of all is free.

-- name: due_rows
-- What is due; by tasks_in_time.
SELECT seq, ';' AS mark -- this one; too
FROM tasks
WHERE at <= ?;

-- name: forget
-- Takes one away.
DELETE FROM tasks WHERE seq = ?;
"""


def test_a_query_is_its_sql_without_comments_ahead_and_semicolon() -> None:
    """What SQLite caches by its text is short, and the comments within stay where they explain something."""
    found = queries_of("queries.sql", QUERIES)
    assert found == {
        "due_rows": "SELECT seq, ';' AS mark -- this one; too\nFROM tasks\nWHERE at <= ?",
        "forget": "DELETE FROM tasks WHERE seq = ?",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no query"),
        ("SELECT 1;\n" + QUERIES, "before the first"),
        ("-- name: one\nSELECT 1;", "'one': has no description"),
        ("-- name: one\n--\n-- -\nSELECT 1;", "'one': has no description"),
        ("-- name: one\n\nSELECT 1; -- late words\n", "'one': has no description"),
        ("-- name: one\n-- One.\nSELECT 1", "'one': the last statement does not end"),
        ("-- name: one\n-- One.\n", "'one': needs one statement that ends with a semicolon, and has 0"),
        ("-- name: one\n-- One.\nSELECT 1; SELECT 2;", "'one': needs one statement .* and has 2"),
        ("-- name: one\n-- One.\nSELECT ';' FROM x", "'one': the last statement does not end"),
        ("-- name: one two\n-- One.\nSELECT 1;", "'one two': a name is"),
        ("-- name: _source\n-- One.\nSELECT 1;", "'_source': a name is"),
        ("-- name: keys\n-- One.\nSELECT 1;", "'keys': a mapping has a method"),
        ("-- name: one\n-- One.\nSELECT 1;\n-- name: one\n-- Two.\nSELECT 2;", "'one': there are two"),
    ],
)
def test_a_file_that_breaks_the_format_is_refused_by_name(text: str, why: str) -> None:
    """Else a query without an explanation is found by the one who must explain a plan at night."""
    with pytest.raises(StoreError, match=f"^queries.sql.*{why}"):
        queries_of("queries.sql", text)


def test_queries_are_attributes_and_items_and_cannot_be_changed() -> None:
    """A typing error in a name says so, and nobody's query is another's by accident."""
    found = Statements("queries.sql", queries_of("queries.sql", QUERIES))
    assert found.forget == found["forget"] == "DELETE FROM tasks WHERE seq = ?"
    assert list(found) == ["due_rows", "forget"]
    assert len(found) == 2
    assert "_source" not in found
    with pytest.raises(AttributeError, match=r"queries.sql: no query is named forgte"):
        _ = found.forgte
    with pytest.raises(KeyError):
        _ = found["forgte"]
    with pytest.raises(AttributeError, match="forget cannot be set"):
        found.forget = "DELETE FROM tasks"
    with pytest.raises(AttributeError, match="forget cannot be deleted"):
        del found.forget
    assert found.forget == "DELETE FROM tasks WHERE seq = ?"


def test_a_file_of_the_package_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files lie where importlib finds them, so that a wheel and a zip work alike."""
    (tmp_path / "some.sql").write_text(QUERIES, "utf-8")
    monkeypatch.setattr(statements, "files", {"tickless.stores.sql": tmp_path}.__getitem__)
    statements.load.cache_clear()
    try:
        found = statements.load("some.sql")
        assert sorted(found) == ["due_rows", "forget"]
        assert statements.load("some.sql") is found
        with pytest.raises(StoreError, match=r"other.sql: no such file in tickless.stores.sql"):
            statements.load("other.sql")
    finally:
        statements.load.cache_clear()


def test_a_script_is_split_where_sqlite_says_that_a_statement_ends() -> None:
    """A semicolon in a text, in a comment, or in the body of what runs on a change, ends none."""
    script = """
    -- First; of all.
    CREATE TABLE a (x TEXT DEFAULT ';', -- ; here
        y TEXT); CREATE TABLE b (z TEXT);;
    /* between; two */
    CREATE TRIGGER t AFTER INSERT ON a BEGIN
        INSERT INTO b VALUES (new.x);
        DELETE FROM b WHERE z = 'END;';
    END;
    -- The end;
    """
    found = split(script, "x.sql")
    assert [statement.split("(")[0].strip().split("\n")[-1].strip() for statement in found[:2]] == [
        "CREATE TABLE a",
        "CREATE TABLE b",
    ]
    assert len(found) == 3
    connection = sqlite3.connect(":memory:")
    for statement in found:
        connection.execute(statement)
    connection.execute("INSERT INTO a (x) VALUES ('1')")
    assert connection.execute("SELECT z FROM b").fetchall() == [("1",)]
    connection.close()


def folder_of(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / name).write_text("SELECT 1;\nSELECT 2;\n", "utf-8")
    return tmp_path


def test_migrations_are_those_of_the_dialect_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """A folder lists its files in any order, and holds those of the other database, too."""
    folder = folder_of(tmp_path, "0002_b.sqlite.sql", "0001_a.sqlite.sql", "0001_a.postgres.sql", "README.md")
    found = migrations_of(folder, "sqlite")
    assert [(step.number, step.name, step.statements) for step in found] == [
        (1, "a", ("SELECT 1", "SELECT 2")),
        (2, "b", ("SELECT 1", "SELECT 2")),
    ]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([], r"need the numbers 1, 2, ... once each, and are \[\]"),
        (["0002_b.sqlite.sql"], r"and are \[2\]"),
        (["0001_a.sqlite.sql", "0003_c.sqlite.sql"], r"and are \[1, 3\]"),
        (["0001_a.sqlite.sql", "0001_b.sqlite.sql"], r"and are \[1, 1\]"),
        (["0000_a.sqlite.sql", "0001_b.sqlite.sql"], r"and are \[0, 1\]"),
        (["1_a.sqlite.sql"], "1_a.sqlite.sql: a migration is named like"),
        (["0001_a.sql"], "0001_a.sql: a migration is named like"),
    ],
)
def test_migrations_without_a_clear_order_are_refused(tmp_path: Path, names: list[str], why: str) -> None:
    """Two branches that each add a step 5 are merged without a conflict, and half of the files lack one of them."""
    with pytest.raises(StoreError, match=why):
        migrations_of(folder_of(tmp_path, *names), "sqlite")


def test_an_empty_migration_is_refused(tmp_path: Path) -> None:
    """It would count as made, and what was to be in it never would be."""
    (tmp_path / "0001_a.sqlite.sql").write_text("-- To come.\n", "utf-8")
    with pytest.raises(StoreError, match=r"0001_a.sqlite.sql: has no statement"):
        migrations_of(tmp_path, "sqlite")


def test_the_packages_own_migrations_are_in_order() -> None:
    """They are found by the same way by which an installed package finds them."""
    assert [step.number for step in migrations()] == list(range(1, len(migrations()) + 1))
