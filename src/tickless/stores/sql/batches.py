"""Several tasks that are entered or updated in one transaction, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tickless.core import update
from tickless.core.record import TaskRecord
from tickless.errors import TicklessError
from tickless.instants import Instant

if TYPE_CHECKING:
    from tickless.stores.sql.store import SqlStore


class _Undo(Exception):
    """Ends the transaction: what was refused in the middle of a batch is no verb that has changed nothing."""

    def __init__(self, error: TicklessError) -> None:
        super().__init__(error)
        self.error = error


def update_all(store: SqlStore, tasks: Sequence[TaskRecord], now: Instant) -> None:
    """What `add_or("update", task, now)` does, for each of them, none of which has parents.

    Raises what that raises, and then the file is as it was.
    """
    outputs = [store._pack(task) for task in tasks]

    def body() -> None:
        for task, taken in zip(tasks, outputs, strict=True):
            try:
                store._prepare([task], taken, now)
                update.enter_or(store.machine, "update", task, now)
            except TicklessError as error:
                raise _Undo(error) from error

    try:
        store.transactions.ask(body)
    except _Undo as undo:
        raise undo.error from None
