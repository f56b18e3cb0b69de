"""Bugs of rounds, planted: each is caught by the machine of flows or by the random DAGs, as those of `test_planted`."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.core.test_rounds import test_what_is_tried_again_is_as_it_was as as_it_was
from tests.planted.mutants import Mutant
from tests.planted.test_planted import QUICKLY, Property
from tests.properties.test_flow_machine import FlowMachine
from tests.simulation.dags import OfAFlow, drawn, play
from tickless import plan, policies
from tickless.core import rounds


def any_flow(examples: int = 2_000) -> None:
    """The machine with the models of a fire and of a round: tests/properties."""
    run_state_machine_as_test(FlowMachine, settings=settings(QUICKLY, max_examples=examples))


def any_dag() -> None:
    """Random DAGs, as rounds: tests/simulation."""
    for seed in range(60):
        play(drawn(seed), OfAFlow)


FIRST = "globals().setdefault('_first', {}).setdefault(output._task, made[output._task])"
PLANTED: list[tuple[Mutant, Property]] = [
    (
        Mutant(
            "counters shared between rounds",
            rounds,
            "    one._waiting -= 1",
            "    next(iter(special_of(special_of(one).chief).rounds))._waiting -= 1",
        ),
        any_flow,
    ),
    (
        Mutant("output of the wrong round", plan, "output.of(made[output._task], param)", f"output.of({FIRST}, param)"),
        any_flow,
    ),
    (Mutant("a condition decided too early", policies, "if waiting:", "if waiting > 1:"), any_dag),
    (Mutant("a copied task runs again", plan, "if before is not None and", "if False and"), any_dag),
    (Mutant("a round ends before its last task", rounds, "if not one._waiting:", "if one._waiting <= 1:"), any_dag),
    (Mutant("a round ends twice over", rounds, "one._waiting = len(living)", "one._waiting = len(tasks)"), any_dag),
    (
        Mutant("a cancelled round lets a child go", rounds, "in reversed(machine.registry", "in (machine.registry"),
        any_flow,
    ),
    (Mutant("nobody stops what runs", rounds, "cancel(machine, task, now, reason)", "pass"), any_flow),
    (Mutant("a round's timeout never comes", rounds, "if timeout_us is not None and", "if False and"), any_flow),
    (
        Mutant(
            "what is tried again is of today's definition",
            rounds,
            "one._work, special.round.params, special.round.plan = tried.plan, tried.params, tried.plan",
            "special.round.params = tried.params",
        ),
        as_it_was,
    ),
    (
        Mutant(
            "what is tried again forgets its params",
            rounds,
            "= tried.plan, tried.params,",
            "= tried.plan, plan.params,",
        ),
        any_flow,
    ),
    (Mutant("params are forgotten", rounds, "{**params, **said.params}", "dict(params)"), any_flow),
    (Mutant("a failed task is no failure of its round", rounds, "if seen & FAILED:", "if False:"), any_dag),
]


@pytest.mark.parametrize(("mutant", "caught_by"), PLANTED, ids=[str(mutant) for mutant, _ in PLANTED])
def test_a_planted_bug_of_a_round_is_caught(mutant: Mutant, caught_by: Property) -> None:
    """Each would pass a test with one flow, one round and three tasks."""
    with mutant.planted(), pytest.raises(AssertionError):
        caught_by()


def test_without_a_bug_of_a_round_the_same_properties_pass() -> None:
    """Else a property that always fails would seem to catch everything. More of them are played elsewhere."""
    any_flow(100)
    any_dag()
