"""The upkeep of a store: look at it, bring it to the version of today, prune it, take out all that is in it.

None of it needs the works of its tasks. It may be done while schedulers are at work on the file, but for an upgrade and
a vacuum, which are refused then. Each raises ScheduleError for what is no address, and StoreError, with the file and
the way out, for a file that is not there, not ours, damaged, or of a newer version: that is left as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from tickless.checks import whole
from tickless.clocks import SystemClock
from tickless.errors import RuleError, ScheduleError, StoreError, shown
from tickless.instants import span_us
from tickless.stores.sql.address import parse
from tickless.stores.sql.exporting import Document, documents
from tickless.stores.sql.glance import Glance, counts_of, facts_of, faults_of, glance, owners_of
from tickless.stores.sql.header import check_store, size
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.statements import migrations
from tickless.stores.sql.sweeping import Bounds, compact, count, sweep

Progress = Callable[[int, int], object]
"""Called with how much is done, and how much there is to do."""


def status(url: str, *, integrity: bool = False) -> dict[str, Any]:
    """What there is to know of a store: the file, its version and ours, tasks by state, processes. Changes nothing.

    `integrity`: read it all and tell what is wrong, as `faults`. Costs O(all tasks).
    """
    with glance(_file_of(url)) as one:
        return {
            **facts_of(one),
            "newest_version": len(migrations()),
            # What a commit outlives is said by each program, when it opens the file, and is not in it.
            "durability": "of each program",
            **counts_of(one),
            "owners": owners_of(one),
            "faults": faults_of(one) if integrity else None,
        }


def upgrade(url: str) -> dict[str, Any]:
    """Bring a store to the version of this tickless. Gives what it was (from), is (to), and the path of the backup.

    Before, it is copied whole to `<file>.before-<the new version>`; None where nothing was to be done.
    Raises StoreError also while a process has it open, and when there is such a copy already.
    """
    file, newest = _file_of(url), len(migrations())
    with glance(file) as one:
        version = one.version
        if version == newest:
            return {"path": file, "from": version, "to": newest, "backup": None}
        _check_alone(one, "upgrade it")
        backup = f"{file}.before-{newest}"
        _copy(one, backup)
    Database(file).close()
    return {"path": file, "from": version, "to": newest, "backup": backup}


def prune(
    url: str,
    *,
    keep_for: float | timedelta | None = None,
    keep_runs: int | None = None,
    keep_finished: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    vacuum: bool = False,
) -> dict[str, Any]:
    """Forget what has ended: longer ago than `keep_for`, and beyond the newest runs of each task and the newest tasks.

    In small batches, each a transaction of its own with a rest after it, so that schedulers at work are not held up.
    `dry_run` counts, and changes nothing. `vacuum`: then have the file take no more room than it needs, which is
    refused while a process has it open. Gives how many tasks, rounds and runs went (but for those that go with a task),
    and the size before and after. `progress` is told how many of how many after each batch.
    Raises ScheduleError when nothing is said of what to keep.
    """
    bounds = _bounds(keep_for, keep_runs, keep_finished, vacuum=vacuum)
    file = _file_of(url)
    check_store(file)
    if vacuum:
        with glance(file) as one:
            _check_alone(one, "have it vacuumed")
    database = Database(file, as_it_is=True)
    try:
        before = size(file) + size(f"{file}-wal")
        total = 0 if progress is None and not dry_run else sum((counted := count(database, bounds)).values())
        if dry_run:
            return {"path": file, "dry_run": True, **counted, "bytes_before": before, "bytes_after": before}

        def told(so_far: dict[str, int]) -> None:
            if progress is not None:
                done = sum(so_far.values())
                progress(done, max(total, done))

        counts = sweep(database, bounds, told, SystemClock().now)
        if vacuum:
            compact(database)
    finally:
        database.close()
    after = size(file) + size(f"{file}-wal")
    return {"path": file, "dry_run": False, **counts, "bytes_before": before, "bytes_after": after}


def export(url: str) -> Iterator[Document]:
    """All that is in a store, as documents for JSON: what `kind` says, in the form of version `v`.

    First the "store"; then each "stored_task" with its rule and its next fire, and after it each "stored_run" of it and
    each "stored_round", with the tasks of that. All of one snapshot, which keeps the WAL from being cut while this goes
    on; as much memory as a page of rows is enough. Close the iterator where it is left early.
    """
    file = _file_of(url)
    check_store(file)
    return _export(file)


def _export(file: str) -> Iterator[Document]:
    with glance(file) as one:
        yield from documents(one)


def _file_of(url: str) -> str:
    return os.path.realpath(parse(url))


def _bounds(
    keep_for: float | timedelta | None, keep_runs: int | None, keep_finished: int | None, *, vacuum: bool
) -> Bounds:
    if keep_for is keep_runs is keep_finished is None and not vacuum:
        raise ScheduleError("prune: says nothing of what to keep; give keep_for=, keep_runs= or keep_finished=")
    for name, value in (("keep_runs", keep_runs), ("keep_finished", keep_finished)):
        if value is not None:
            whole(name, value)
    before = None
    if keep_for is not None:
        try:
            us = span_us(keep_for, "keep_for")
        except RuleError as error:
            raise ScheduleError(str(error)) from None
        if us < 0:
            raise ScheduleError(f"keep_for={shown(keep_for)}: needs seconds, or a timedelta, not negative")
        before = SystemClock().wall() - us
    return Bounds(before, keep_runs, keep_finished)


def _check_alone(one: Glance, to_do: str) -> None:
    alive = [owner for owner in owners_of(one) if owner["alive"] is not False]
    if alive:
        pids = ", ".join(f"{owner['pid']} on {owner['host']}" for owner in alive)
        raise StoreError(f"{one.file}: a process has it open ({pids}); stop it, and then {to_do}")


def _copy(one: Glance, backup: str) -> None:
    """A whole copy with the mode of the file; half a one is not left."""
    if os.path.exists(backup):
        raise StoreError(f"{backup}: is there already, from an upgrade that was tried before; move it away first")
    part = f"{backup}.part"
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        one.copy_to(part)
        os.chmod(part, os.stat(one.file).st_mode & 0o777)
        os.replace(part, backup)
    except OSError as error:
        raise StoreError(
            f"{backup}: cannot be written ({error.strerror}); the store is as it was: make room, or change the mode of "
            "its folder"
        ) from error
    finally:
        if os.path.exists(part):
            os.unlink(part)
