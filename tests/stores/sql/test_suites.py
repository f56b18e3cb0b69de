"""The contract of a store, and of policies, kept by SQLite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tickless.policies import Limit
from tickless.stores import Store
from tickless.stores.registered import Works
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.store import SqlStore
from tickless.testing.keepsakes import Keepsakes
from tickless.testing.policy_suite import PolicySuite
from tickless.testing.store_suite import StoreSuite


class Stores:
    """Makes stores in a folder, and has them leave it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[SqlStore] = []

    def make(self, **given: Any) -> SqlStore:
        store = SqlStore(Database(self._folder / "tasks.db"), works=cast("Works", Keepsakes()), most_group=1, **given)
        self._made.append(store)
        return store

    def leave(self) -> None:
        for store in self._made:
            store.leave()


class InFolder:
    @pytest.fixture(autouse=True)
    def _stores(self, tmp_path: Path) -> Iterator[None]:
        self.stores = Stores(tmp_path)
        yield
        self.stores.leave()


class TestStore(InFolder, StoreSuite):
    survives_close = True

    def make_store(self) -> Store:
        return self.stores.make(keep_finished=3, keep_runs=5)


class TestPolicies(InFolder, PolicySuite):
    def make_store(self, pools: Sequence[str], limits: Sequence[Limit]) -> Store:
        return self.stores.make(pools=dict.fromkeys(pools, 1), limits=limits)
