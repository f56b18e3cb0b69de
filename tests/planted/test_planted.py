"""Every bug that is planted is caught by the very properties that the library passes.

Why: a property test knows only what its promises say, and passes as quietly when they say nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.planted.mutants import Mutant
from tests.properties.foreign import no_lock_is_held_in_foreign_code
from tests.properties.small_worlds import all_small_worlds
from tests.properties.test_store_machine import StoreMachine
from tickless import dispatcher, policies
from tickless.core import graph, machine, ready, timeline, update
from tickless.stores import memory

Property = Callable[[], object]
QUICKLY = settings(
    max_examples=100,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # to be caught is enough; the shortest way to it is for a bug that nobody knows
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def any_verbs() -> None:
    """The state machine of tests/properties."""
    run_state_machine_as_test(StoreMachine, settings=QUICKLY)


LOCKED = "{0}.lock.acquire(); {1}; {0}.lock.release()"
PLANTED: list[tuple[Mutant, Property]] = [
    (Mutant("off by one: a fire at the very finish is missed", policies, "_us - 1", "_us"), all_small_worlds),
    (Mutant("off by one: the fire after the next", policies, "= due + rule.", "= due + 2 * rule."), any_verbs),
    (Mutant("no lost-wakeup guard", machine, "self.signs.earlier = self", "self"), any_verbs),
    (Mutant("nobody is told of a ready run", machine, "self.signs.stirred = True", "_ = True"), any_verbs),
    (Mutant("descendants forgotten at doom", machine, "todo.append(child)", "self.retire(child)"), all_small_worlds),
    (Mutant("counter decremented twice", machine, "child._waiting -= 1", "child._waiting -= 2"), all_small_worlds),
    (
        Mutant("a cancelled parent's child freed", graph, "if state is State.SUCCEEDED", 'if state != "failed"'),
        all_small_worlds,
    ),
    (
        Mutant("a child released twice by two workers", machine, "if child in waiting:", "if True:"),
        all_small_worlds,
    ),
    (
        Mutant("a parent that ended is counted", graph, "child._seen |= end_of(parent)", "child._waiting += 1"),
        any_verbs,
    ),
    (Mutant("an orphan entry fires", machine, "task is None or task._entry != entry", "task is None"), any_verbs),
    (
        Mutant("the skip count is wrong", policies, "Reason.COALESCED, fires,", "Reason.COALESCED, fires + 1,"),
        any_verbs,
    ),
    (Mutant("no look after leaving the lock", memory, "if unsettled or asks", "if asks"), any_verbs),
    (Mutant("orphans pile up", timeline, "self.heap[:] = {", "_ = {"), any_verbs),
    (Mutant("it starts before it is due", memory, "machine.surface(now,", "machine.surface(now + 1,"), any_verbs),
    (Mutant("a cancelled run is taken", ready, "if claims.pop(task, False):", "if claims.pop(task, True):"), any_verbs),
    (Mutant("an update keeps the old place", update, "machine.unplace(there)", "pass"), any_verbs),
    (
        Mutant(
            "a lock is held while submitting",
            dispatcher,
            "self._hand.start(spare)",
            LOCKED.format("self._store", "self._hand.start(spare)"),
        ),
        no_lock_is_held_in_foreign_code,
    ),
    (
        Mutant(
            "a lock is held while a rule is asked",
            memory,
            "plan = asked.question()",
            LOCKED.format("self", "plan = asked.question()"),
        ),
        no_lock_is_held_in_foreign_code,
    ),
]


@pytest.mark.parametrize(("mutant", "caught_by"), PLANTED, ids=[str(mutant) for mutant, _ in PLANTED])
def test_a_planted_bug_is_caught(mutant: Mutant, caught_by: Property) -> None:
    """Each of these has been written somewhere by somebody careful."""
    with mutant.planted(), pytest.raises(AssertionError):
        caught_by()


@pytest.mark.parametrize("passed_by", [any_verbs, all_small_worlds, no_lock_is_held_in_foreign_code])
def test_without_a_bug_the_same_property_passes(passed_by: Property) -> None:
    """Else a property that always fails would seem to catch everything."""
    passed_by()


def test_the_bug_is_gone_afterwards() -> None:
    """A bug that stays would fail the tests that come next, and they would be searched for it."""
    before = policies.after_run
    with PLANTED[0][0].planted():
        assert policies.after_run is not before
    assert policies.after_run is before


def test_a_bug_whose_line_is_gone_is_reported() -> None:
    """A mutant that changes nothing would be a property that is never tested."""
    with (
        pytest.raises(AssertionError, match="plant the bug anew"),
        Mutant("x", policies, "no such line", "").planted(),
    ):
        pass
