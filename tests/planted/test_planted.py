"""Every bug that is planted is caught by the very properties that the library passes.

Why: a property test knows only what its promises say, and passes as quietly when they say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.planted.mutants import Mutant
from tests.properties.foreign import no_lock_is_held_in_foreign_code
from tests.properties.small_worlds import all_small_worlds
from tests.properties.test_policy_machine import CrowdMachine, PolicyMachine
from tests.properties.test_store_machine import StoreMachine
from tickless import dispatcher, policies, values
from tickless.core import (
    attempts,
    crew,
    graph,
    machine,
    pauses,
    permits,
    ready,
    timeline,
    update,
)
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


def any_verbs(examples: int = 100) -> None:
    """The state machine of tests/properties."""
    run_state_machine_as_test(StoreMachine, settings=settings(QUICKLY, max_examples=examples))


FIRST = (5, 0, 14)
"""Seeds that find each of the bugs below as the library is now. Where they do not any more, another one will."""


def any_policy(seeds: Iterable[int] = (*FIRST, *range(40))) -> None:
    """The machine with the model of one task, tests/properties: fifty examples of each seed."""
    for number in seeds:
        machine = seed(number)(type("Seeded", (PolicyMachine,), {}))
        run_state_machine_as_test(machine, settings=settings(QUICKLY, max_examples=50))


def any_crowd(examples: int = 300) -> None:
    """The machine of many tasks, with the invariants only."""
    run_state_machine_as_test(CrowdMachine, settings=settings(QUICKLY, max_examples=examples))


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
        Mutant("the skip count is wrong", policies, "Skipped(reason, fires,", "Skipped(reason, fires + 1,"),
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


POLICIES: list[tuple[Mutant, Property]] = [
    (Mutant("queue: a second run starts", policies, "return Fate.SKIP if waiting else", "return"), any_policy),
    (Mutant("queue: two run at once", policies, "Fate.SKIP if waiting else Fate.WAIT", "Fate.START"), any_policy),
    (
        Mutant(
            "queue: what came while one waited is lost",
            policies,
            "Reason.OVERLAP, *lost",
            "Reason.OVERLAP, 1, *lost[1:]",
        ),
        any_policy,
    ),
    (
        Mutant("allow: one more than max_running", policies, "busy < policy.max_running", "busy <= policy.max_running"),
        any_policy,
    ),
    (
        Mutant("replace: nobody is asked to stop", crew, "machine.ask_to_stop(one, now, Reason.REPLACED)", "pass"),
        any_policy,
    ),
    (
        Mutant("replace: what never started runs too", crew, "if is_retrying(one) or (", "if is_retrying(one) and ("),
        any_policy,
    ),
    (
        Mutant("grace off by one at the take", policies, "now > at + policy.grace_us", "now >= at + policy.grace_us"),
        any_policy,
    ),
    (
        Mutant("grace off by one when missed", policies, "due + policy.grace_us < now", "due + policy.grace_us <= now"),
        any_policy,
    ),
    (Mutant("catch-up with one too few", policies, "newest, fires, most)", "newest, fires, most - 1)"), any_policy),
    (Mutant("a catch-up overlaps itself", crew, "return not busy", "return True"), any_policy),
    (
        Mutant("tried again after a stop", attempts, "or machine.is_closed or is_to_stop(run)", "or machine.is_closed"),
        any_policy,
    ),
    (
        Mutant(
            "the timeout counts from the fire",
            attempts,
            "Instant(now + timeout_us)",
            "Instant((run.due or now) + policy.timeout_us)",
        ),
        any_policy,
    ),
    (Mutant("a zombie does not keep busy", machine, "and keeps_busy(run)", "and False"), any_policy),
    (
        Mutant(
            "a zombie lets an occurrence go",
            crew,
            "if zombie is not None and zombie.extra is not None and zombie.extra.zombie:",
            "if False:",
        ),
        any_policy,
    ),
    (
        Mutant("fires of a pause run at the resume", policies, 'if catch_up == "none":', 'if catch_up == "never":'),
        any_policy,
    ),
    (
        Mutant("a pause holds nothing that is ready", pauses, "elif one._run is QUEUED and", "elif False and"),
        any_policy,
    ),
    (Mutant("a pause has no end", pauses, "if pause.until is not None:", "if False:"), any_policy),
    (Mutant("who pauses for failures goes on", attempts, "pauses.hold(machine, [subject], now)", "pass"), any_policy),
    (
        Mutant(
            "a pause is lost at a reschedule", update, "special.until = None", "special.until = special.pause = None"
        ),
        any_policy,
    ),
    (
        Mutant("a run by hand moves the plan", crew, "        _take_no_more(machine, chief, now)", "        pass"),
        any_policy,
    ),
    (Mutant("paused: what is asked for by hand waits", machine, "and not special.by_hand", "and True"), any_policy),
    (
        Mutant(
            "a permit leaks at a cancel",
            machine,
            "permits.give_back(self, task._more.special, now, started=False)",
            "pass",
        ),
        any_policy,
    ),
    (Mutant("a permit is given twice", permits, "self.held >= self.running", "self.held > self.running"), any_policy),
    (Mutant("a permit that frees up is nobody's", permits, "while waiting and", "while False and"), any_policy),
    (
        Mutant(
            "one start too many in the window",
            values,
            "room = limit.most_starts - reserved",
            "room = limit.most_starts + 1 - reserved",
        ),
        any_crowd,
    ),
]
PLANTED += POLICIES


@pytest.mark.parametrize(("mutant", "caught_by"), PLANTED, ids=[str(mutant) for mutant, _ in PLANTED])
def test_a_planted_bug_is_caught(mutant: Mutant, caught_by: Property) -> None:
    """Each of these has been written somewhere by somebody careful."""
    with mutant.planted(), pytest.raises(AssertionError):
        caught_by()


@pytest.mark.parametrize(
    "passed_by",
    [partial(any_verbs, 30), partial(any_policy, FIRST), partial(any_crowd, 50), no_lock_is_held_in_foreign_code],
    ids=["any_verbs", "any_policy", "any_crowd", "no_lock_is_held_in_foreign_code"],
)
def test_without_a_bug_the_same_property_passes(passed_by: Property) -> None:
    """Else a property that always fails would seem to catch everything. More of them are played in tests/properties,
    and the small worlds are the same ones there."""
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
