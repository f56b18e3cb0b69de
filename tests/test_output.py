"""`task.output`: a parent's result as an argument of its child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.faults.world import World, fail
from tickless import DependencyError, Output, Reason, State, after, every


def test_an_output_is_filled_in_wherever_it_stands() -> None:
    """As an argument, as a keyword, and inside of a list, tuple or dict that is one."""
    world = World()
    one, two = world.scheduler.schedule(lambda: 1, after(1)), world.scheduler.schedule(lambda: 2, after(1))
    task = world.scheduler.schedule(
        lambda *args, **kwargs: (args, kwargs),
        args=(one.output, [one.output, 0, two.output], (two.output, "x"), {"a": one.output, "b": 5}),
        kwargs={"k": two.output, "list": [two.output]},
    )
    world.clock.advance(1)
    assert task.result() == ((1, [1, 0, 2], (2, "x"), {"a": 1, "b": 5}), {"k": 2, "list": [2]})


def test_an_output_makes_its_task_a_parent() -> None:
    world = World()
    one = world.scheduler.schedule(lambda: 1, after(1), id="one")
    two = world.scheduler.schedule(lambda: 2, after(1), id="two")
    task = world.scheduler.schedule(max, args=(one.output,), kwargs={"default": two.output}, after_tasks=["two"])
    assert set(task.parents) == {"one", "two"}
    assert task.state is State.PENDING


def test_the_list_of_the_caller_is_left_as_it_is() -> None:
    """A copy is filled in. The caller may use it again."""
    world = World()
    one = world.scheduler.schedule(lambda: 1)
    given: list[Any] = [one.output]
    assert world.scheduler.schedule(list, args=(given,)).result() == [1]
    assert [type(item) for item in given] == [Output]


def test_the_value_is_the_very_object() -> None:
    world = World()
    value = object()
    one = world.scheduler.schedule(lambda: value)
    assert world.scheduler.schedule(lambda x: x, args=(one.output,)).result() is value


def test_an_output_of_a_parent_that_has_ended_is_filled_in_too() -> None:
    world = World()
    one = world.scheduler.schedule(lambda: 1)
    world.clock.advance(60)
    assert world.scheduler.schedule(lambda x: x, after(1), args=(one.output,)).state is State.PENDING
    world.clock.advance(1)
    assert world.scheduler.tasks()[-1].state is State.SUCCEEDED


def test_an_output_may_be_none_or_a_container() -> None:
    """What is inside of a value is not looked at."""
    world = World()
    values: list[Any] = [None, [], {}, [1], (), "x"]
    for value in values:
        one = world.scheduler.schedule(lambda value=value: value)
        assert world.scheduler.schedule(lambda x: (x,), args=(one.output,)).result() == (value,)


@pytest.mark.parametrize("run_if", ["all_done", "any_succeeded", "any_failed", "none_failed"])
def test_an_output_needs_a_parent_that_succeeds(run_if: str) -> None:
    """With any other `run_if` there may be nothing to pass: said at the call, with the way out."""
    world = World()
    one = world.scheduler.schedule(lambda: 1, after(1))
    with pytest.raises(DependencyError, match=r"run_if=.*or_else\(x\)"):
        world.scheduler.schedule(print, args=(one.output,), run_if=run_if)
    with pytest.raises(DependencyError, match=r"or_else\(x\)"):
        world.scheduler.schedule(print, kwargs={"sep": [one.output]}, run_if=run_if)
    assert len(world.scheduler.tasks()) == 1


@pytest.mark.parametrize("end", ["succeeds", "fails", "is cancelled", "is skipped"])
def test_or_else_gives_the_default_where_the_parent_has_not_succeeded(end: str) -> None:
    world = World()
    broken = world.scheduler.schedule(fail, after(1))
    work = cast(Callable[[], Any], fail if end == "fails" else lambda: 1)
    one = world.scheduler.schedule(work, after(1), after_tasks=[broken] if end == "is skipped" else [])
    child = world.scheduler.schedule(
        lambda *args: args, args=(one.output.or_else(7), [one.output.or_else(None)]), run_if="all_done"
    )
    if end == "is cancelled":
        one.cancel()
    world.clock.advance(5)
    assert child.result() == ((1, [1]) if end == "succeeds" else (7, [None]))


def test_or_else_with_all_succeeded_is_just_the_output() -> None:
    world = World()
    one = world.scheduler.schedule(lambda: 1)
    assert world.scheduler.schedule(lambda x: x, args=(one.output.or_else(7),)).result() == 1
    broken = world.scheduler.schedule(lambda: 1 // 0)
    skipped = world.scheduler.schedule(lambda x: x, args=(broken.output.or_else(7),))
    assert skipped.reason is Reason.PARENT_FAILED


def test_a_child_of_a_parent_that_fails_is_never_called_with_half_its_arguments() -> None:
    world = World()
    one, broken = world.scheduler.schedule(lambda: 1), world.scheduler.schedule(fail, after(1))
    child = world.scheduler.schedule(world.story.append, args=([one.output, broken.output],))
    world.clock.advance(1)
    assert (world.story, child.reason) == ([], Reason.PARENT_FAILED)


def test_one_output_may_go_to_many_children_and_one_child_may_take_it_many_times() -> None:
    world = World()
    one = world.scheduler.schedule(lambda: [1], after(1))
    children = [world.scheduler.schedule(lambda *x: x, args=(one.output, one.output)) for _ in range(100)]
    world.clock.advance(1)
    values = [child.result() for child in children]
    assert values == [([1], [1])] * 100
    assert all(x is y is one.result() for x, y in values)


def test_a_recurring_child_gets_the_output_at_each_run() -> None:
    world = World()
    one = world.scheduler.schedule(lambda: 5, after(1))
    world.scheduler.schedule(world.story.append, every(seconds=1), args=(one.output,))
    del one
    world.clock.advance(4)
    assert world.story == [5, 5, 5]


def test_an_output_shows_what_it_is_of() -> None:
    """It turns up in logs when it is passed where nobody fills it in."""
    world = World()
    assert repr(world.scheduler.schedule(fail, after(1), id="x").output) == "<output of x fail>"


def test_an_output_deeper_inside_is_passed_as_it_is() -> None:
    """One level is looked into, so that to schedule costs O(arguments) and not O(all that hangs on them)."""
    world = World()
    one = world.scheduler.schedule(lambda: 1)
    task = world.scheduler.schedule(lambda x: x, args=([[one.output]],))
    assert type(task.result()[0][0]) is Output
    assert task.parents == ()
