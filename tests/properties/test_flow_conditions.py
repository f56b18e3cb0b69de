"""What a flow is refused for: no condition that can hold, whatever its tasks do. Beside the model of a round."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from tests.properties.flow_model import Node, Round
from tests.simulation.dags import RUN_IFS, defined
from tickless import DependencyError, Scheduler, every
from tickless.testing import FakeClock, ManualPool

ENDS = ("succeeds", "fails", "cancel")


def those_that_may_run(nodes: list[Node]) -> set[str]:
    """By trying: each task ends in each way."""
    found: set[str] = set()
    for ends in product(ENDS, repeat=len(nodes)):
        ran = set(_play(nodes, dict(zip([node.name for node in nodes], ends, strict=True))))
        found |= ran
    return found


def _play(nodes: list[Node], ends: dict[str, str]) -> Iterator[str]:
    a_round = Round(nodes)
    while ready := a_round.at("ready"):
        name = ready[0]
        yield name
        if ends[name] == "cancel":
            a_round.cancel(name)
        else:
            a_round.start(name)
            a_round.end(name, 0, ends[name])


def drawn(seed: int) -> list[Node]:
    rng = Random(f"conditions {seed}")
    nodes: list[Node] = []
    for name in "abcde"[: rng.randint(3, 5)]:
        parents = rng.sample([node.name for node in nodes], min(len(nodes), rng.randint(0, 2)))
        run_if = rng.choice([*RUN_IFS, "any_failed", "any_failed"]) if parents else RUN_IFS[0]
        nodes.append(Node(name, tuple(parents), run_if))
    return nodes


def refused(nodes: list[Node]) -> str | None:
    scheduler = Scheduler(ManualPool(), clock=FakeClock(), observers=[])
    try:
        defined(scheduler, "f", every(hours=1), nodes, str)
    except DependencyError as error:
        return str(error)
    return None


def test_no_flow_is_refused_whose_tasks_may_all_run() -> None:
    """A refusal names a task that never runs, whatever happens. In life: a cleanup that somebody needs is refused."""
    count = 0
    for seed in range(2_000):
        nodes = drawn(seed)
        if error := refused(nodes):
            never = {node.name for node in nodes} - those_that_may_run(nodes)
            assert any(f"{name!r} can never run" in error for name in never), f"seed {seed}: {error}, but {nodes}"
            count += 1
    assert count > 40


@pytest.mark.parametrize(
    "nodes",
    [
        [Node("a"), Node("b", ("a",)), Node("c", ("a",), "any_failed"), Node("d", ("b", "c"))],
        [Node("a"), Node("b", ("a",), "any_failed"), Node("c", ("a", "b"))],
    ],
    ids=["two ways of one parent", "a cleanup of what must succeed"],
)
def test_what_needs_a_success_and_a_failure_of_one_task_is_refused(nodes: list[Node]) -> None:
    """The ones that are written: a join below a task and its own cleanup."""
    assert "can never run" in (refused(nodes) or "")
