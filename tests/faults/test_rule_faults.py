"""A rule of the user's own raises, lies, or calls back: its own task ends, visibly, and the others go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.world import Odd, World
from tickless import EventKind, Reason, RuleError, State, after, every
from tickless.instants import Instant

SECOND_US = 1_000_000


def from_third(world: World, wrong: Any) -> Odd:
    """A rule that fires each second, and is `wrong` from the third question on."""

    def answer(instant: Instant) -> Any:
        if rule.asked >= 3:
            return wrong(instant)
        return Instant(instant + SECOND_US)

    rule = Odd(answer)
    return rule


def boom(instant: Instant) -> Instant:
    raise ZeroDivisionError("in the rule")


WRONG = {
    "raises": boom,
    "the same instant": lambda instant: instant,
    "an earlier one": lambda instant: instant - SECOND_US,
    "a float": lambda instant: float(instant + SECOND_US),
    "a bool": lambda instant: True,
    "a text": lambda instant: "tomorrow",
    "the year 99999": lambda instant: 10**20,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_rule_that_goes_wrong_ends_its_own_task_only(wrong: str) -> None:
    """BUG-003, P9: a lie in the timeline would make it spin."""
    world = World()
    odd = world.scheduler.schedule(world.note("odd"), from_third(world, WRONG[wrong]), id="odd")
    beat = world.scheduler.schedule(world.note("beat"), every(seconds=1))
    world.clock.advance(6)
    assert (odd.state, odd.reason) == (State.FAILED, Reason.RULE)
    assert world.story.count("beat") == 6
    assert beat.state is State.PENDING
    assert "odd" in [event.task_id for event in world.events if event.kind is EventKind.FAILED]
    with pytest.raises(RuleError, match="task odd: its rule could not tell the next fire"):
        odd.result()
    last = odd.last_run
    assert last is not None
    assert last.error is not None


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_a_rule_that_raises_what_is_no_exception_ends_its_own_task_only(error: BaseException) -> None:
    def raises(instant: Instant) -> Instant:
        raise error

    world = World()
    odd = world.scheduler.schedule(world.note("odd"), from_third(world, raises))
    world.scheduler.schedule(world.note("beat"), every(seconds=1))
    world.clock.advance(6)
    assert (odd.state, odd.reason) == (State.FAILED, Reason.RULE)
    assert world.story.count("beat") == 6


def test_a_rule_that_has_no_more_fires_ends_its_task_as_its_last_run_did() -> None:
    world = World()
    odd = world.scheduler.schedule(lambda: 5, from_third(world, lambda instant: None))
    world.clock.advance(6)
    assert (odd.state, odd.reason) == (State.SUCCEEDED, Reason.NO_NEXT_FIRE)
    assert odd.result() == 5


def test_a_rule_may_call_any_method_of_the_scheduler() -> None:
    """It is asked with no lock held: P2."""
    world = World()

    def answer(instant: Instant) -> Instant:
        world.scheduler.tasks()
        world.scheduler.schedule(world.note("made by the rule"))
        return Instant(instant + SECOND_US)

    task = world.scheduler.schedule(world.note("beat"), Odd(answer))
    world.clock.advance(3)
    assert world.story.count("beat") == 3
    assert world.story.count("made by the rule") >= 3
    task.cancel()


def test_a_rule_that_cancels_its_own_task_while_it_is_asked_fires_no_more() -> None:
    """The answer comes too late: it was about a task that is no more."""
    world = World()

    def answer(instant: Instant) -> Instant:
        if rule.asked == 3:
            task.cancel()
        return Instant(instant + SECOND_US)

    rule = Odd(answer)
    task = world.scheduler.schedule(world.note("beat"), rule)
    world.clock.advance(10)
    assert task.state is State.CANCELLED
    assert len(world.story) <= 2
    assert not task.cancel()


def test_a_rule_whose_attributes_raise_is_refused_at_the_call() -> None:
    class Hostile(Odd):
        @property
        def wall(self) -> bool:  # type: ignore[override]
            raise ZeroDivisionError("in wall")

    world = World()
    with pytest.raises((RuleError, ZeroDivisionError)):
        world.scheduler.schedule(world.note("never"), Hostile(lambda instant: Instant(instant + SECOND_US)))
    assert world.scheduler.tasks() == []


def test_a_child_whose_rule_cannot_be_bound_when_its_parents_let_go_fails_with_the_reason() -> None:
    """It was bound once at the call, as a check. What it answers later is another matter."""

    class Moody(Odd):
        bindings = 0

        def bound(self, now: Instant) -> Any:
            self.bindings += 1
            if self.bindings > 1:
                raise KeyError("zone gone")
            return self

    world = World()
    parent = world.scheduler.schedule(world.note("parent"), after(1))
    odd = Moody(lambda instant: Instant(instant + SECOND_US))
    child = world.scheduler.schedule(world.note("never"), odd, after_tasks=[parent], id="child")
    grandchild = world.scheduler.schedule(world.note("told"), after_tasks=[parent])
    world.clock.advance(5)
    assert (child.state, child.reason) == (State.FAILED, Reason.RULE)
    assert grandchild.state is State.SUCCEEDED
    assert world.story == ["parent", "told"]
    with pytest.raises(RuleError, match="zone gone"):
        child.result()
