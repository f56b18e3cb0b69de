"""The SQL of the stores, from the files beside this one: queries by name, and the numbered steps of the schema.

A file of queries is a list of

    -- name: due_rows
    -- What it gives, in a line or two; which index it uses.
    SELECT ... ;

The description is for the reader, and asked for; what is prepared has no comments in front, so that the text which the
database caches is short.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from tickless.errors import StoreError

_PACKAGE = "tickless.stores.sql"
_NAME_LINE = re.compile(r"^-- name:(.*)$", re.MULTILINE)
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")
_STEP = re.compile(r"(\d{4})_([a-z0-9_]+)\.(\w+)\.sql")


class Statements(Mapping[str, str]):
    """Queries by name, as attributes or as items; they cannot be changed. An unknown attribute is an AttributeError."""

    _source: str

    def __init__(self, source: str, by_name: Mapping[str, str]) -> None:
        vars(self).update(by_name, _source=source)  # attributes of the instance: these are read for every transaction

    def __getattr__(self, name: str) -> str:
        raise AttributeError(f"{vars(self).get('_source', 'queries')}: no query is named {name}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self._source}: {name} cannot be set, since queries are what the file says")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self._source}: {name} cannot be deleted, since queries are what the file says")

    def __getitem__(self, name: str) -> str:
        if name == "_source":
            raise KeyError(name)
        return str(vars(self)[name])

    def __iter__(self) -> Iterator[str]:
        return (name for name in vars(self) if name != "_source")

    def __len__(self) -> int:
        return len(vars(self)) - 1


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: `number` is the version that it leads to, `statements` are run in one transaction."""

    number: int
    name: str
    statements: tuple[str, ...]


@cache
def load(file_name: str) -> Statements:
    """The queries of a file of this package. Read once. Raises StoreError for a file that breaks the format."""
    source = files(_PACKAGE) / file_name
    if not source.is_file():
        raise StoreError(f"{file_name}: no such file in {_PACKAGE}; the installation is incomplete")
    return Statements(file_name, queries_of(file_name, source.read_text("utf-8")))


def queries_of(file_name: str, text: str) -> dict[str, str]:
    """Name -> SQL, without comments in front and semicolon. Raises StoreError, which names the query and its fault."""
    head, *parts = _NAME_LINE.split(text)
    if _without_comments(head):
        raise StoreError(f"{file_name}: what stands before the first `-- name:` may be a comment only")
    found: dict[str, str] = {}
    for name, body in zip((part.strip() for part in parts[::2]), parts[1::2], strict=True):
        where = f"{file_name}, query {name!r}"
        if not _IDENTIFIER.fullmatch(name):
            raise StoreError(f"{where}: a name is lower case letters, digits and _")
        if hasattr(Statements, name):
            raise StoreError(f"{where}: a mapping has a method of that name; take another")
        if name in found:
            raise StoreError(f"{where}: there are two of that name")
        found[name] = _query_of(where, body)
    if not found:
        raise StoreError(f"{file_name}: has no query: each begins with a line `-- name: ...`")
    return found


def _query_of(where: str, body: str) -> str:
    lines = body.strip().splitlines()
    told = 0
    while told < len(lines) and lines[told].startswith("--"):
        told += 1
    if not any(line.strip("- ") for line in lines[:told]):
        raise StoreError(f"{where}: has no description: what it gives, and which index it uses, as a comment below it")
    statements = split("\n".join(lines[told:]), where)
    if len(statements) != 1:
        raise StoreError(f"{where}: needs one statement that ends with a semicolon, and has {len(statements)}")
    return statements[0]


@cache
def migrations(dialect: str = "sqlite") -> tuple[Migration, ...]:
    """Every step of the schema, from 1 without a gap. Raises StoreError for files that are not numbered so."""
    return migrations_of(files(_PACKAGE) / "migrations", dialect)


def migrations_of(folder: Traversable, dialect: str) -> tuple[Migration, ...]:
    """The steps in a folder: files `0001_words.<dialect>.sql`. See `migrations`."""
    steps = []
    for entry in folder.iterdir() if folder.is_dir() else ():
        if not entry.name.endswith(".sql"):
            continue
        named = _STEP.fullmatch(entry.name)
        if named is None:
            raise StoreError(f"{entry.name}: a migration is named like 0001_tasks.sqlite.sql")
        if named[3] == dialect:
            statements = split(entry.read_text("utf-8"), entry.name)
            if not statements:
                raise StoreError(f"{entry.name}: has no statement")
            steps.append(Migration(int(named[1]), named[2], tuple(statements)))
    steps.sort(key=lambda step: step.number)
    numbers = [step.number for step in steps]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise StoreError(f"migrations for {dialect}: need the numbers 1, 2, ... once each, and are {numbers}")
    return tuple(steps)


def split(script: str, where: str) -> list[str]:
    """The statements of a script, without the comments in front of each, and without their semicolons.

    Where one ends, SQLite's own tokenizer says: a semicolon in a string, a comment or the body of a trigger ends none.
    """
    found, rest, end = [], script, script.find(";")
    while end >= 0:
        if sqlite3.complete_statement(rest[: end + 1]):
            statement = _without_comments(rest[:end])
            if statement:
                found.append(statement)
            rest = rest[end + 1 :]
            end = rest.find(";")
        else:
            end = rest.find(";", end + 1)
    if _without_comments(rest):
        raise StoreError(f"{where}: the last statement does not end with a semicolon")
    return found


def _without_comments(text: str) -> str:
    """The text from its first line on that is neither empty nor a comment."""
    lines = text.strip().splitlines()
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("--")):
        del lines[0]
    return "\n".join(lines).strip()
