"""Two thousand random DAGs as rounds, under failures, retries and cancels: each act beside the model, every promise
after it. Some of them are played as plain tasks, too.

A seed that fails: `python -m tests.simulation.dags SEED` plays it again; its failure shows the DAG and the last acts.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.planted.mutants import Mutant
from tests.simulation.dags import LARGEST, RUN_IFS, OfAFlow, Plain, drawn, play
from tickless import policies
from tickless.core import attempts, graph, machine

SEEDS, CHUNK = 2_000 * int(os.environ.get("EXPLORE_TIMES", "1")), 250
"""The bugs below are found within 50."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_dag_ends_as_the_model_says(first: int) -> None:
    """What nobody draws on a whiteboard: a cleanup whose parent is skipped while another one of its parents retries."""
    for seed in range(first, first + CHUNK):
        play(drawn(seed), OfAFlow)


def test_plain_tasks_end_as_those_of_a_round_do() -> None:
    """What the parents' ends say is said once, whoever the parents are."""
    for seed in range(SEEDS, SEEDS + 99):
        play(drawn(seed), Plain)


@pytest.mark.parametrize("seed", range(0, 2_000, 200))
def test_the_same_seed_plays_the_same_acts(seed: int) -> None:
    """P10: else none could be looked at again."""
    assert play(drawn(seed), OfAFlow).story == play(drawn(seed), OfAFlow).story


def test_everything_that_can_happen_to_a_task_of_a_dag_happens() -> None:
    """DAGs in which nothing goes wrong prove little."""
    sizes: set[int] = set()
    happened: Counter[str] = Counter()
    for seed in range(100):
        beside = play(drawn(seed), OfAFlow)
        for model in beside.models:
            sizes.add(len(model.parts))
            happened[f"round {model.state}"] += 1
            for part in model.parts.values():
                happened[f"{part.state} {part.reason or ''}".strip()] += 1
                happened[f"{part.node.run_if} {part.state}"] += bool(part.node.parents)
                happened["retried"] += part.tries > 1
                happened["asked to stop"] += part.stop
    reasons = ("parent_failed", "parent_cancelled", "parent_skipped", "run_if")
    wanted = {f"skipped {reason}" for reason in reasons} | {"succeeded", "succeeded copied", "failed"}
    wanted |= {"cancelled cancelled", "cancelled stopped", "retried", "asked to stop"}
    wanted |= {f"round {state}" for state in ("succeeded", "failed", "cancelled")}
    wanted |= {f"{run_if} {state}" for run_if in RUN_IFS for state in ("succeeded", "failed", "skipped", "cancelled")}
    wanted -= {"all_done skipped"}
    assert {what for what in wanted if happened[what] < 3} == set()
    assert max(sizes) == LARGEST


# That it sees what it looks at

PLANTED = [
    Mutant("decided while one parent has not ended", policies, "if waiting:", "if waiting > 1:"),
    Mutant("any_failed waits for the last", policies, "ANY_FAILED and seen &", "ANY_FAILED and not waiting and seen &"),
    Mutant("a skip is no failure", graph, "kind_of_end(state, reason_of(parent))", "kind_of_end(state, None)"),
    Mutant("the last parent alone decides", machine, "child._seen |= end", "child._seen = end"),
    Mutant("descendants are forgotten at a doom", machine, "todo.append(child)", "self.retire(child)"),
    Mutant("one attempt too many", policies, "attempt >= retry.attempts", "attempt > retry.attempts"),
    Mutant("tried again after a stop", attempts, "or machine.is_closed or is_to_stop(run)", "or machine.is_closed"),
]


@pytest.mark.parametrize("mutant", PLANTED, ids=str)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    """A model that agrees with everything may have nothing to say."""
    with mutant.planted(), pytest.raises(AssertionError):
        for seed in range(200):
            play(drawn(seed), Plain)
