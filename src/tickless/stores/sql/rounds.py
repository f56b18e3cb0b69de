"""What a store shows of the rounds of flows. Methods of `store.SqlStore`."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tickless.core.record import TaskRecord
from tickless.core.snapshots import round_info_of
from tickless.round_info import RoundInfo
from tickless.stores.sql.looking import value_of

if TYPE_CHECKING:
    from tickless.stores.sql.store import SqlStore


def rounds(self: SqlStore, flow: TaskRecord) -> list[tuple[TaskRecord, str]]:
    found: list[tuple[TaskRecord, str]] = self.transactions.read(lambda: self.session.rounds_of(flow))
    return found


def round_info(self: SqlStore, one: TaskRecord) -> RoundInfo:
    def body() -> RoundInfo:
        self.session.load(one._seq)  # where it is forgotten, it is shown as it was
        return round_info_of(self.machine, one)

    info: RoundInfo = self.transactions.read(body)
    works = self.session.rows.works
    params = {name: value_of(works, json.dumps(form)) for name, form in info.params.items()}
    return replace(info, params=MappingProxyType(params))


def round_tasks(self: SqlStore, one: TaskRecord) -> list[TaskRecord]:
    def body() -> list[TaskRecord]:
        self.session.load(one._seq)
        return self.machine.registry.tasks_of(one)

    found: list[TaskRecord] = self.transactions.read(body)
    return found


def busy_with(self: SqlStore, task: TaskRecord) -> set[int]:
    numbers: set[int] = self.transactions.read(lambda: self.machine.registry.busy_with(task))
    return numbers
