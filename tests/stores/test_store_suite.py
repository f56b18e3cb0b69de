"""The plain contract of each verb, for each body of the memory store."""

from __future__ import annotations

from tickless.stores import Store
from tickless.stores.memory import MemoryStore
from tickless.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    def make_store(self) -> Store:
        return MemoryStore()


class TestMemoryStoreWithoutTheGil(StoreSuite):
    """There every take and finish goes under the lock."""

    def make_store(self) -> Store:
        return MemoryStore(always_hold=True)
