"""Flows on SQLite, beside the models: any verbs in any order, random DAGs, rounds of a thousand tasks.

As the store is, and as it is for a process that forgets: what it remembers of a file between two verbs may make it
quicker, and must change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from tests.properties.flow_model import Node
from tests.properties.policy_model import Policy
from tests.properties.test_flow_machine import ROUNDS, TASKS, FlowMachine
from tests.simulation.dags import Beside, OfAFlow, drawn, play
from tests.simulation.test_flow_scale import SHAPES, Bodies, begun
from tests.stores.sql.files import File, Memory, a_file, make_forgetful, runs_nothing, store_of
from tickless import Scheduler, State
from tickless.flow import Flow
from tickless.stores.sql.checking import check
from tickless.testing import FakeClock, ManualPool
from tickless.worker import Worker


def without_late_inputs(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """A second attempt of what did not wait for all its parents may see more of them than the first one did: in memory
    it does, on a file it sees what there was. That is another test's business.
    """
    return tuple(replace(node, attempts=1) if node.run_if.startswith("any") else node for node in nodes)


class SqlFlowMachine(FlowMachine):
    """`dies`: where nothing runs its process may end; another one begins, and defines the flow as it was."""

    memory: Memory = "keeps"

    def make_scheduler(self) -> Scheduler:
        if not hasattr(self, "file"):
            self.file = File()
        pools = {name: ManualPool(slots=50) for name in (ROUNDS, TASKS)}
        scheduler = self.file.scheduler(
            pools=pools, clock=self.clock, observers=[], keep_runs=10_000, keep_rounds=10_000
        )
        if self.memory != "keeps":
            make_forgetful(store_of(scheduler))
        return scheduler

    def define(self, policy: Policy, nodes: tuple[Node, ...], exists: Any) -> tuple[tuple[Node, ...], Flow]:
        return super().define(policy, without_late_inputs(nodes), exists)

    @precondition(lambda self: self.memory == "dies" and hasattr(self, "file") and not self.model.end)
    @rule()
    def the_process_ends_and_another_begins(self) -> None:
        if not runs_nothing(store_of(self.scheduler)):
            return
        self.scheduler.close(timeout=0)
        self.scheduler = self.make_scheduler()
        self.scheduler.start()
        self.worker = Worker(self.scheduler._store, self.clock, self.scheduler._look, pool=TASKS)
        self.model.nodes, self.flow = self.define(self.model.policy, self.model.nodes, "update")
        for made, one in zip(self.model.rounds, self.scheduler.rounds("it"), strict=True):
            made.handle = one

    def bind(self) -> None:
        self.scheduler.tasks()  # an end may have been noted only: who reads has it written, and then looks
        super().bind()

    def check_promises(self) -> None:
        check(store_of(self.scheduler))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "file"):
            self.file.remove()


class ForgetfulFlowMachine(SqlFlowMachine):
    memory = "forgets"


class MortalFlowMachine(SqlFlowMachine):
    memory = "dies"


@pytest.mark.parametrize("machine", [SqlFlowMachine, ForgetfulFlowMachine, MortalFlowMachine])
def test_a_flow_on_a_file_does_what_the_design_says_whatever_is_done_to_it(machine: type[SqlFlowMachine]) -> None:
    """In life: a round that never ends, since the row that counts its tasks was written from memory."""
    few = max(5, settings().max_examples // 5)  # each step is some transactions
    run_state_machine_as_test(machine, settings=settings(max_examples=few))


@pytest.fixture
def file() -> Iterator[File]:
    with a_file() as file:
        yield file


SEEDS, CHUNK = 100, 25


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_dag_ends_on_a_file_as_the_model_says(first: int) -> None:
    """Those of `tests/simulation/test_dags.py`, without the largest."""
    for seed in range(first, first + CHUNK):
        dag = drawn(seed)
        if len(dag.nodes) <= 20:
            with a_file() as file:
                scheduler = file.scheduler(ManualPool(1), clock=FakeClock(), observers=[])
                if seed % 2:
                    make_forgetful(store_of(scheduler))
                nodes = without_late_inputs(dag.nodes)
                play(dag, lambda: Beside(nodes, OfAFlow, scheduler, check))  # noqa: B023 - called at once
                scheduler.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_each_task_of_a_round_of_a_thousand_runs_once_and_after_its_parents(shape: str, file: File) -> None:
    """Each end is a transaction, which looks at what it is about and not at all of the round."""
    bodies = Bodies()
    pool = ManualPool(4)
    scheduler = file.scheduler(pool, clock=bodies.clock, observers=[])
    flow, nodes = begun(shape, bodies, scheduler, 1_000)
    pool.run_all()
    check(store_of(scheduler))
    place = {name: number for number, name in enumerate(bodies.ran)}
    assert len(bodies.ran) == len(place) == len(nodes)
    assert all(place[parent] < place[node.name] for node in nodes for parent in node.parents)
    assert [(run.state, run.count) for run in flow.runs()] == [(State.SUCCEEDED, 1)]
    scheduler.close()
