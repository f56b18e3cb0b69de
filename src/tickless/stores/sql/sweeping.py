"""Forgetting on request: in small batches, each a short transaction, between which others have their turn.

What may go is looked for without a lock, page by page, and looked at again in the transaction that takes it away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import NamedTuple

from tickless.instants import SECOND_US
from tickless.stores.sql.forgetting import among, drop_rounds, drop_tasks
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import load as load_statements

ASK = load_statements("upkeep.sql")
STORE = load_statements("queries.sql")
PAGE = 200
LONGEST_REST_S = 0.25
REST = 4
"""For so many times as long as a batch took others have the file: who waits for it looks again only now and then."""
NEVER = -(1 << 62)


class Bounds(NamedTuple):
    """What is kept: the newest, and what is newer than an instant. None: as many as there are."""

    before: int | None
    keep_runs: int | None
    keep_finished: int | None


class Batch(NamedTuple):
    """Some rows that may go together."""

    kind: str
    """tasks, rounds or runs."""
    numbers: list[int]


def batches(db: Database, bounds: Bounds) -> Iterator[Batch]:
    """What may be forgotten, page by page. Writes nothing; each page is looked for from the end of the one before."""
    yield from _tasks(db, bounds)
    if bounds.before is not None:
        yield from _pages(db, "rounds", ASK.round_page, (), (bounds.before,))
        yield from _pages(db, "runs", ASK.old_run_page, (), (bounds.before,))
    if bounds.keep_runs is not None:
        task, since = NEVER, NEVER if bounds.before is None else bounds.before  # the older ones were named above
        while (row := db.execute(ASK.next_with_runs, (task,)).fetchone()) is not None:
            task = row[0]
            yield from _pages(db, "runs", ASK.over_run_page, (task,), (task, bounds.keep_runs, since))


def _tasks(db: Database, bounds: Bounds) -> Iterator[Batch]:
    first_kept, before = 0, NEVER if bounds.before is None else bounds.before
    if bounds.keep_finished == 0:
        first_kept = 1 << 62
    elif bounds.keep_finished is not None:
        row = db.execute(STORE.kept_from, (bounds.keep_finished - 1,)).fetchone()
        first_kept = 0 if row is None else row[0]
    if first_kept == 0 and bounds.before is None:
        return
    place = NEVER
    while page := db.execute(ASK.finished_page, (place, first_kept, before, PAGE)).fetchall():
        place = page[-1][1]
        yield Batch("tasks", [seq for seq, _ in page])


def _pages(db: Database, kind: str, sql: str, first: tuple[int, ...], then: tuple[int, ...]) -> Iterator[Batch]:
    number = NEVER
    while page := db.execute(sql, (*first, number, *then, PAGE)).fetchall():
        number = page[-1][0]
        yield Batch(kind, [no for (no,) in page])


def count(db: Database, bounds: Bounds) -> dict[str, int]:
    """How much would be forgotten."""
    counts = {"tasks": 0, "rounds": 0, "runs": 0}
    for batch in batches(db, bounds):
        counts[batch.kind] += len(batch.numbers)
    return counts


def sweep(
    db: Database, bounds: Bounds, told: Callable[[dict[str, int]], None], elapsed_us: Callable[[], int]
) -> dict[str, int]:
    """Forget it. `told` is called after each batch with what is forgotten so far; `elapsed_us` reads a clock.

    A batch is a transaction of its own; where this ends early, what was forgotten until then is. Raises StoreError.
    """
    counts = {"tasks": 0, "rounds": 0, "runs": 0}
    for batch in batches(db, bounds):
        began = elapsed_us()
        db.begin()
        try:
            counts[batch.kind] += _drop(db, batch)
            db.commit()
        except BaseException:
            db.rollback()
            raise
        told(dict(counts))
        if len(batch.numbers) == PAGE:  # there may be more
            Event().wait(min(LONGEST_REST_S, REST * (elapsed_us() - began) / SECOND_US))
    return counts


def _drop(db: Database, batch: Batch) -> int:
    if batch.kind == "tasks":
        seqs = among(db, ASK.still_finished, batch.numbers)
        drop_tasks(db, seqs)
        return len(seqs)
    if batch.kind == "rounds":
        seqs = among(db, ASK.still_rounds, batch.numbers)
        drop_rounds(db, seqs)
        return len(seqs)
    return db.executemany(ASK.drop_run, [(no,) for no in batch.numbers]).rowcount


def compact(db: Database) -> None:
    """Have the file take no more room than what is in it. Nobody else may write meanwhile."""
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
