"""Two processes on one file, for scenarios of a few steps each."""

from __future__ import annotations

from typing import Any

from tests.simulation.fleet import LEASE_US, Bells, Fleet, Process
from tickless.core.record import More, RunRecord, TaskRecord
from tickless.core.special import Special
from tickless.instants import SECOND_US
from tickless.policies import Policy
from tickless.records import SUCCESS, Outcome
from tickless.rules import Rule
from tickless.states import DEFAULT_POOL
from tickless.stores.sql import rescue
from tickless.testing.drafts import NOON_US, draft, later
from tickless.testing.keepsakes import Keepsakes

LEASE = LEASE_US / SECOND_US


class Lab:
    """Processes on one file, which begins empty."""

    def __init__(self, fleet: Fleet) -> None:
        fleet.empty()
        self._crashed, rescue.has_crashed = rescue.has_crashed, lambda task: False  # nor do they go one at a time
        self.fleet = fleet
        self.bells, self.works = Bells(), Keepsakes()
        self.processes: list[Process] = []

    def process(self) -> Process:
        made = Process(self.fleet.wire(), self.bells, self.works, most_group=1)
        made.store.claims.rescue.patience_us = 0  # who is silent is not watched for a while first
        made.store.claims.stuck_us = 1 << 60  # and what was taken ahead stays
        self.processes.append(made)
        return made

    def two(self) -> tuple[Process, Process]:
        """Two that know each other."""
        a, b = self.process(), self.process()
        self.turn(a, 0)
        self.turn(b, 0)
        return a, b

    def add(self, process: Process, id: str, when: Rule | None = None, parents: Any = (), **given: Any) -> TaskRecord:
        run_if, priority = given.pop("run_if", "all_succeeded"), given.pop("priority", 0)
        task = draft(when, NOON_US, NOON_US, id, parents=parents, run_if=run_if, priority=priority)
        if given:
            task._more = task._more or More()
            task._more.special = Special(Policy(**given))
        process.store.add(task, NOON_US)
        return task

    def turn(self, process: Process, seconds: float) -> None:
        process.hear()
        process.store.signs.earlier = False
        while process.store.due(later(seconds), later(seconds)):
            pass

    def take(self, process: Process, seconds: float, pool: str = DEFAULT_POOL) -> RunRecord:
        run = process.store.take(later(seconds), pool)
        assert run is not None, f"process {process.number} found nothing to take"
        return run

    def finish(self, process: Process, run: RunRecord, seconds: float, outcome: Outcome = SUCCESS) -> None:
        process.store.finish(run, outcome, later(seconds))
        process.store.transactions.flush()

    def row(self, id: str) -> dict[str, Any]:
        return dict(self.fleet.eye.execute("SELECT * FROM tasks WHERE id = ?", (id,)).fetchone())

    def says(self, id: str, **wanted: Any) -> None:
        row = self.row(id)
        found = {key: row[key] for key in wanted}
        assert found == wanted, f"{id}: {found}, and should be {wanted}"

    def set_aside(self, id: str) -> None:
        """Another version of tickless could not read it."""
        self.fleet.eye.execute("UPDATE tasks SET trouble = 'planted' WHERE id = ?", (id,))

    def group(self, process: Process, seconds: float, *ids: str, **given: Any) -> RunRecord:
        """Take the first of these; the others are taken with it, and have not begun."""
        for id in ids:
            self.add(process, id, **given)
        claims = process.store.claims
        claims._group[DEFAULT_POOL], claims._taken_at[DEFAULT_POOL] = 4, later(seconds)
        claims._most_group = len(ids)
        run = self.take(process, seconds)
        claims._most_group = 1
        assert len(claims.local(DEFAULT_POOL)) == len(ids) - 1
        return run

    def end(self) -> None:
        rescue.has_crashed = self._crashed
        for process in self.processes:
            if not process.gone:
                process.die()
