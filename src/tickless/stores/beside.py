"""The verb `backfill` of each store: a method of theirs, in a file of its own. What it does is `core.asides`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tickless.core import asides
from tickless.core.record import QUEUED, TaskRecord
from tickless.core.snapshots import run_of
from tickless.errors import refuse_closed
from tickless.instants import Instant
from tickless.records import Run
from tickless.states import State

if TYPE_CHECKING:
    from tickless.core.machine import Machine


def in_memory(
    self: Any, task: TaskRecord, dues: Sequence[Instant], now: Instant, again: bool, dry_run: bool
) -> list[Run]:
    with self._hold, self.lock:
        if self.is_closed:
            refuse_closed()
        return _backfill(self.machine, task, dues, now, again=again, dry_run=dry_run)


def in_file(
    self: Any, task: TaskRecord, dues: Sequence[Instant], now: Instant, again: bool, dry_run: bool
) -> list[Run]:
    def body() -> list[Run]:
        if self.is_closed:
            refuse_closed()
        self.session.load(task._seq)
        return _backfill(self.machine, task, dues, now, again=again, dry_run=dry_run)

    runs: list[Run] = self._read(body) if dry_run else self._ask(body)
    return runs


def _backfill(
    machine: Machine, task: TaskRecord, dues: Sequence[Instant], now: Instant, *, again: bool, dry_run: bool
) -> list[Run]:
    asides.check_backfill(machine, task)
    wanted = asides.wanted(machine, task, dues, again=again)
    if dry_run:
        return [Run(asides.name_of(task, due), due, State.PENDING) for due in wanted]
    made = asides.backfill(machine, task, wanted, now)
    return [run_of(one, one._run or QUEUED) for one in made]
