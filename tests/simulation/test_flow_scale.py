"""Rounds of ten thousand tasks: in each shape all run once, in order, whoever fails; and nothing is left of them.

In life: one task for each file of a directory, and a recursion that nobody had seen in a chain of ten.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.properties.flow_model import Node
from tests.simulation.dags import defined
from tickless import Scheduler, State
from tickless.core.invariants import check
from tickless.flow import Flow
from tickless.testing import FakeClock, ManualPool

MANY = 10_000


def chain(size: int) -> Iterator[Node]:
    for number in range(size):
        yield Node(f"t{number}", (f"t{number - 1}",) if number else ())


def fan(size: int) -> Iterator[Node]:
    """One, then all the others but the last, which waits for them."""
    yield Node("t0")
    for number in range(1, size - 1):
        yield Node(f"t{number}", ("t0",))
    yield Node(f"t{size - 1}", tuple(f"t{number}" for number in range(1, size - 1)))


def grid(size: int) -> Iterator[Node]:
    """Each waits for the one above and the one to the left: a diamond of diamonds."""
    side = int(size**0.5)
    for row in range(side):
        for column in range(side):
            above = [f"t{(row - 1) * side + column}"] if row else []
            left = [f"t{row * side + column - 1}"] if column else []
            yield Node(f"t{row * side + column}", (*above, *left))


SHAPES = {"chain": chain, "fan": fan, "grid": grid}
LONGEST = {"chain": MANY, "fan": 3, "grid": 2 * 100 - 1}
"""How many tasks the longest way through the round has."""


class Bodies:
    """What the tasks do: say that they ran, take a second, and fail where they are told to."""

    def __init__(self, failing: str = "") -> None:
        self.ran: list[str] = []
        self.failing = failing
        self.clock = FakeClock()

    def __call__(self, name: str, *_: str) -> str:
        self.ran.append(name)
        self.clock.advance(1)
        if name == self.failing:
            raise ValueError(name)
        return name


def begun(shape: str, bodies: Bodies, scheduler: Scheduler, size: int = MANY) -> tuple[Flow, list[Node]]:
    nodes = list(SHAPES[shape](size))
    scheduler.start()
    return defined(scheduler, "large", None, nodes, bodies), nodes


def in_memory(shape: str, bodies: Bodies) -> tuple[Scheduler, ManualPool, Flow, list[Node]]:
    pool = ManualPool(4)
    scheduler = Scheduler(pool, clock=bodies.clock, observers=[])
    return scheduler, pool, *begun(shape, bodies, scheduler)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_task_of_a_large_round_runs_once_and_after_its_parents(shape: str) -> None:
    """And its end is seen by whoever waits for the flow."""
    bodies = Bodies()
    scheduler, pool, flow, nodes = in_memory(shape, bodies)
    pool.run_all()
    check(scheduler._store)
    place = {name: number for number, name in enumerate(bodies.ran)}
    assert len(bodies.ran) == len(place) == len(nodes)
    assert all(place[parent] < place[node.name] for node in nodes for parent in node.parents)
    assert [(run.state, run.count) for run in flow.runs()] == [(State.SUCCEEDED, 1)]
    assert flow.wait(0)
    path = flow.rounds()[0].info.critical_path
    assert (len(path), path[0], path[-1]) == (LONGEST[shape], "t0", f"t{len(nodes) - 1}")


@pytest.mark.parametrize("shape", SHAPES)
def test_all_below_the_first_task_of_a_large_round_are_skipped_at_once(shape: str) -> None:
    """By work list: a recursion ends at the thousandth."""
    bodies = Bodies(failing="t0")
    scheduler, pool, flow, nodes = in_memory(shape, bodies)
    pool.run_all()
    check(scheduler._store)
    assert bodies.ran == ["t0"]
    tasks = flow.rounds()[0].info.tasks
    assert {task.reason for task in tasks[1:]} == {"parent_failed"}
    assert [task.name for task in tasks] == [node.name for node in nodes]
    assert flow.state is State.FAILED


@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_round_is_cancelled_in_the_middle_as_one(shape: str) -> None:
    bodies = Bodies()
    scheduler, pool, flow, nodes = in_memory(shape, bodies)
    for _ in range(len(nodes) // 2):
        pool.run_next()
    assert flow.rounds()[0].cancel()
    ran = len(bodies.ran)
    pool.run_all()
    check(scheduler._store)
    assert len(bodies.ran) == ran
    assert flow.state is State.CANCELLED
    states = [task.state for task in flow.rounds()[0].info.tasks]
    assert (states.count(State.SUCCEEDED), states.count(State.CANCELLED)) == (ran, len(nodes) - ran)
