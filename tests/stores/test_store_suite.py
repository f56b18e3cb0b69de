"""The plain contract of each verb, for each body of the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from tickless.policies import Limit
from tickless.stores import Store
from tickless.stores.memory import MemoryStore
from tickless.testing.policy_suite import PolicySuite
from tickless.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    def make_store(self) -> Store:
        return MemoryStore()


class TestMemoryStoreWithoutTheGil(StoreSuite):
    """There every take and finish goes under the lock."""

    def make_store(self) -> Store:
        return MemoryStore(always_hold=True)


class TestMemoryStoreWithPolicies(PolicySuite):
    def make_store(self, pools: Sequence[str], limits: Sequence[Limit]) -> Store:
        return MemoryStore(pools=pools, limits=limits)


class TestMemoryStoreWithPoliciesWithoutTheGil(PolicySuite):
    def make_store(self, pools: Sequence[str], limits: Sequence[Limit]) -> Store:
        return MemoryStore(pools=pools, limits=limits, always_hold=True)
