"""Any order of the store's verbs on SQLite, beside the oracle: as it is, and as it is for a process that forgets.

The verbs and the oracle are those of the memory store: `tests/properties`. Here they are told to a file. What a store
remembers of it between two verbs may make it quicker, and must change nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.oracle import Shadow
from tests.properties.small_worlds import explore, timed_drafts
from tests.properties.test_store_machine import StoreMachine
from tests.properties.whens import When
from tests.properties.world import AWAKE, World
from tests.stores.sql.files import File, Memory, make_forgetful, runs_nothing
from tickless.records import EventKind
from tickless.states import Exists
from tickless.stores.memory import MemoryStore
from tickless.stores.sql.checking import check
from tickless.stores.sql.store import SqlStore


class SqlWorld(World):
    """A store on a file. After each verb it forgets, or is closed and opened anew where nothing runs."""

    store: SqlStore

    def __init__(self, file: File, memory: Memory, *, is_open: bool = True) -> None:
        self.file = file
        self.memory = memory
        super().__init__(self._make, is_open=is_open)

    def _make(self) -> SqlStore:
        store = self.file.store()
        if self.memory != "keeps":
            make_forgetful(store)
        return store

    def check_promises(self) -> None:
        check(self.store)

    def audit(self) -> None:
        super().audit()
        if self.memory == "dies" and self._audits and runs_nothing(self.store):
            self.reopen()

    def reopen(self) -> None:
        """The process ends, and another begins: of what was before there is the file alone."""
        self.file.leave()
        self.waiters.clear()  # they were threads of that process
        self.store = self._make()
        self.store.listen(self._posted, frozenset({EventKind.SCHEDULED}))
        for shadow in self.oracle.shadows:
            shadow.record = self._record(shadow.record._seq)
            self._of[shadow.record] = shadow
        self.told = AWAKE
        with self.unchecked():
            if self.oracle.is_open:
                self.store.open()
            self.due()
        super().audit()

    def _record(self, seq: int) -> Any:
        loaded = self.store._read(lambda: self.store.session.load(seq))
        assert loaded is not None, f"#{seq} is not in the file"
        return loaded.task

    def add(self, *batch: Shadow, exists: Exists = "error", meanwhile: tuple[Shadow, str] | None = None) -> None:
        """Nobody hands over to whoever has the lock: a run that ends meanwhile ends afterwards."""
        super().add(*batch, exists=exists)
        if meanwhile is not None:
            self.finish(*meanwhile)

    def finish_together(self, ends: list[tuple[Shadow, str]]) -> None:
        with self.unchecked():
            for shadow, how in ends:
                self.finish(shadow, how)
        self.audit()

    def storm(self, count: int, later: int) -> None:
        super().storm(count // 10, later)  # nothing piles up in memory here, and each is a transaction

    def take(self) -> Shadow | None:
        if not self.oracle.is_open:
            self.open()  # nobody takes a run before the start, and on a file nobody can: it would be nobody's
        return super().take()


class SqlMachine(StoreMachine):
    """The verbs of the memory store, without `close`, which keeps tasks, and a user's own rules, which are refused."""

    memory: Memory = "keeps"

    def make_world(self, is_open: bool) -> World:
        self.file = File()
        return SqlWorld(self.file, self.memory, is_open=is_open)

    def counted_from_now(self, when: When) -> When:
        return When("every", when.step_us) if when.kind == "own" else when

    def close(self, sure: bool) -> None:  # no rule any more
        """Not played."""

    def teardown(self) -> None:
        if hasattr(self, "file"):
            self.file.remove()


class ForgetfulMachine(SqlMachine):
    memory = "forgets"


class MortalMachine(SqlMachine):
    memory = "dies"


@pytest.mark.parametrize("machine", [SqlMachine, ForgetfulMachine, MortalMachine])
def test_the_promises_hold_on_a_file_after_any_verbs_in_any_order(machine: type[SqlMachine]) -> None:
    """In life: a task that is lost, or runs twice, because what was remembered of it was not what was stored."""
    few = max(5, settings().max_examples // 5)  # each step is some transactions, and some openings of a file
    run_state_machine_as_test(machine, settings=settings(max_examples=few))


def test_every_promise_holds_on_a_file_in_some_small_worlds() -> None:
    """Schedules with one another, and with a child that has one too: each order of three verbs."""
    files: list[File] = []

    def make_world(make_store: object) -> SqlWorld:
        while files:
            files.pop().remove()
        files.append(File())
        return SqlWorld(files[0], "forgets")

    try:
        steps = sum(explore(drafts, MemoryStore, 3, make_world) for drafts in timed_drafts())
    finally:
        while files:
            files.pop().remove()
    assert steps > 400
