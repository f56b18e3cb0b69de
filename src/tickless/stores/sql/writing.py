"""Rows on their way into the table `tasks`: the statements, and what of each row is bound to them.

None is never bound: `sqlite3` looks for an adapter of its type every time, which for the many columns that are NULL in
most rows costs more than all else of the statement. So NULL stands in the text, or is what the column is without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import compress
from operator import is_not

from tickless.stores.sql.rows import COLUMNS, Row

_NONES = (None,) * len(COLUMNS)
Statement = tuple[str, list[Row]]
"""SQL, and what is bound to it for each row."""


def inserts(rows: Iterable[Row]) -> Iterator[Statement]:
    """What puts new rows into the table."""
    by_shape: dict[tuple[bool, ...], list[Row]] = {}
    for row in rows:
        shape = tuple(map(is_not, row, _NONES))
        by_shape.setdefault(shape, []).append(tuple(compress(row, shape)))
    for shape, many in by_shape.items():
        yield _insert(shape), many


@lru_cache(maxsize=256)
def _insert(shape: tuple[bool, ...]) -> str:
    said = tuple(compress(COLUMNS, shape))
    return f"INSERT INTO tasks ({', '.join(said)}) VALUES ({', '.join('?' * len(said))})"


def updates(changed: Mapping[tuple[int, ...], Iterable[Row]]) -> Iterator[Statement]:
    """What writes these places of these rows."""
    for places, rows in changed.items():
        by_shape: dict[tuple[bool, ...], list[Row]] = {}
        for row in rows:
            values = [row[place] for place in places]
            shape = tuple(map(is_not, values, _NONES))
            by_shape.setdefault(shape, []).append((*compress(values, shape), row[0]))
        for shape, many in by_shape.items():
            yield _update(places, shape), many


@lru_cache(maxsize=256)
def _update(places: tuple[int, ...], shape: tuple[bool, ...]) -> str:
    said = [f"{COLUMNS[place]} = {'?' if there else 'NULL'}" for place, there in zip(places, shape, strict=True)]
    return f"UPDATE tasks SET {', '.join(said)} WHERE seq = ?"
