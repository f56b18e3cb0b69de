"""Any order of verbs on tasks with any policy, on a file, by a process that forgets, or that ends and begins anew.

The machines are those of `tests/properties`: one task beside a model of it, and a crowd that must keep the promises.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from tests.properties.test_policy_machine import POOLS, CrowdMachine, PolicyMachine
from tests.stores.sql.files import File, Memory, make_forgetful, runs_nothing, store_of
from tickless import Limit, Scheduler
from tickless.stores.sql.checking import check
from tickless.testing import ManualPool


def fewer() -> settings:
    """Half of the examples that the memory store gets: each step is some transactions here."""
    return settings(max_examples=max(5, settings().max_examples // 2))


class OnFile:
    """What both machines do with a file. `memory`: what is remembered from one verb to the next."""

    memory: Memory = "forgets"
    scheduler: Scheduler
    clock: Any

    def open(self, **given: Any) -> Scheduler:
        if not hasattr(self, "file"):
            self.file = File()
        scheduler = self.file.scheduler(clock=self.clock, observers=[], **given)
        make_forgetful(store_of(scheduler))
        return scheduler

    def may_end(self) -> bool:
        return hasattr(self, "file") and runs_nothing(store_of(self.scheduler))

    def remove(self) -> None:
        if hasattr(self, "file"):
            self.file.remove()


class ForgetfulPolicyMachine(OnFile, PolicyMachine):
    def make_scheduler(self) -> Scheduler:
        limits = [Limit("one", running=1)]
        return self.open(pool=ManualPool(slots=50), limits=limits, keep_runs=10_000)

    @precondition(lambda self: self.may_end())
    @rule()
    def the_process_ends_and_another_begins(self) -> None:
        self.scheduler.close(timeout=0)
        self.scheduler = self.make_scheduler()
        self.scheduler.start()

    def check_promises(self) -> None:
        check(store_of(self.scheduler))

    def teardown(self) -> None:
        super().teardown()
        self.remove()


class ForgetfulCrowdMachine(OnFile, CrowdMachine):
    def make_scheduler(self) -> Scheduler:
        limits = [Limit("one", running=1), Limit("rate", starts=2, per=3)]
        return self.open(pools={name: ManualPool(slots=50) for name in POOLS}, limits=limits)

    @precondition(lambda self: self.may_end())
    @rule()
    def the_process_ends_and_another_begins(self) -> None:
        self.scheduler.close(timeout=0)
        self.scheduler = self.make_scheduler()
        self.scheduler.start()
        store = store_of(self.scheduler)
        self.tasks = [store.find(task.id) for task in self.tasks]  # type: ignore[misc]  # they are handles

    @invariant()
    def promises_hold(self) -> None:
        if hasattr(self, "file") and hasattr(self, "held"):
            check(store_of(self.scheduler))
            self.what_is_shown_is_so()

    def teardown(self) -> None:
        for taken in getattr(self, "held", []):
            self.give_back(taken)
        if hasattr(self, "held"):
            self.scheduler.close(timeout=0)
        self.remove()


@pytest.mark.parametrize("machine", [ForgetfulPolicyMachine, ForgetfulCrowdMachine])
def test_a_process_that_forgets_does_what_one_that_remembers_does(machine: Any) -> None:
    """In life: a process was killed and started again, and its tasks do not go on where they were."""
    run_state_machine_as_test(machine, settings=fewer())
