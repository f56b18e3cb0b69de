"""`task.output`: a parent's result, or a part of it, as an argument of its child."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.faults.world import World, fail
from tickless import DependencyError, Output, OutputGone, Reason, ScheduleError, State, after, every
from tickless.output import outputs_in, replaced


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


# Parts


def test_a_part_of_an_output_is_what_the_path_leads_to() -> None:
    """Keys of dicts, indices from either end, and whatever else has `__getitem__`; from several parents."""
    world = World()
    one = world.scheduler.schedule(lambda: {"rows": [{"x": 1}, {"x": 2}], "": "abc"}, after(1))
    two = world.scheduler.schedule(lambda: (7, {5: "five"}), after(1))
    task = world.scheduler.schedule(
        lambda *args, **kwargs: (args, kwargs),
        args=(one.output["rows"][0]["x"], [one.output["rows"][-1], two.output[0]], one.output[""][1]),
        kwargs={"five": two.output[1][5], "both": {"a": one.output["rows"], "b": two.output}},
    )
    world.clock.advance(1)
    rows = [{"x": 1}, {"x": 2}]
    both = {"a": rows, "b": (7, {5: "five"})}
    assert task.result() == ((1, [{"x": 2}, 7], "b"), {"five": "five", "both": both})
    assert len(task.parents) == 2


class Grudging:
    def __getitem__(self, key: object) -> None:
        raise ZeroDivisionError("mine")


MISSING: list[tuple[Any, tuple[Any, ...], str]] = [
    ({"a": 1, "b": 2}, ("rows",), r"no part \['rows'\]: it is a dict with 'a', 'b'$"),
    ({}, ("rows", 0), r"no part \['rows'\]\[0\]: it is an empty dict$"),
    (dict.fromkeys(range(20)), ("x",), r"it is a dict with 0, 1, 2, 3, 4, 5, 6, 7 and 12 more$"),
    ({"rows": [1, 2]}, ("rows", 2), r"no part \['rows'\]\[2\]: \['rows'\] is a list of length 2$"),
    ([1, 2], (-3,), r"it is a list of length 2$"),
    ([1, 2], (10**30,), r"it is a list of length 2$"),
    ([1, 2], ("x",), r"it is a list of length 2$"),
    ("abc", (3,), r"it is a str of length 3$"),
    (None, ("x",), r"it is None$"),
    (5, (0,), r"it is of type int$"),
    ({"a": {"b": None}}, ("a", "b", "c"), r"no part \['a'\]\['b'\]\['c'\]: \['a'\]\['b'\] is None$"),
    ({"a": Grudging()}, ("a", 0), r"\['a'\] is of type Grudging, which raised ZeroDivisionError\('mine'\)$"),
]


def part(output: Output[Any], path: tuple[Any, ...]) -> Output[Any]:
    for key in path:
        output = output[key]
    return output


@pytest.mark.parametrize(("value", "path", "told"), MISSING)
def test_a_part_that_is_missing_fails_the_child_which_is_not_called(
    value: object, path: tuple[Any, ...], told: str
) -> None:
    """And no default hides it: the parent succeeded, and it is the path that is wrong."""
    world = World()
    one = world.scheduler.schedule(lambda: value, after(1), id="extract", name="fetch")
    children = [
        world.scheduler.schedule(world.story.append, args=(part(one.output, path),)),
        world.scheduler.schedule(world.story.append, args=([part(one.output, path).or_else(7)],), run_if="all_done"),
    ]
    world.clock.advance(1)
    for child in children:
        assert child.state is State.FAILED
        with pytest.raises(OutputGone, match=r"(?m)the output of task extract \(fetch\) has .*" + told):
            child.result()
    assert (world.story, one.state) == ([], State.SUCCEEDED)


def test_or_else_after_a_part_stands_for_the_part() -> None:
    world = World()
    broken = world.scheduler.schedule(fail, after(1))
    child = world.scheduler.schedule(
        lambda *args: args,
        args=(broken.output["rows"][0].or_else(7), [broken.output["n"].or_else(None)]),
        run_if="all_done",
    )
    world.clock.advance(1)
    assert child.result() == (7, [None])


def test_a_part_needs_a_parent_that_succeeds_as_the_whole_does() -> None:
    world = World()
    one = world.scheduler.schedule(fail, after(1))
    with pytest.raises(DependencyError, match=r"<output\['x'\] of .*or_else\(x\)"):
        world.scheduler.schedule(print, args=(one.output["x"],), run_if="all_done")


def test_a_part_keeps_its_task_alive_and_shows_itself() -> None:
    world = World()
    part_of_it = world.scheduler.schedule(lambda: {"a": 5}, id="x", name="load").output["a"]
    assert repr(part_of_it) == "<output['a'] of x load>"
    assert world.scheduler.schedule(lambda x: x, args=(part_of_it,)).result() == 5


class Hostile(str):
    """A text whose every method is foreign code."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __hash__(self) -> int:
        raise AssertionError("hashed")

    def __str__(self) -> str:
        raise AssertionError("asked for its text")

    __repr__ = __str__


def test_a_key_that_is_a_text_of_another_type_is_a_plain_one() -> None:
    """A member of a StrEnum is a natural key. Its methods are not asked when the part is looked up."""
    world = World()
    one = world.scheduler.schedule(lambda: {"rows": 5})
    assert world.scheduler.schedule(lambda x: x, args=(one.output[Hostile("rows")],)).result() == 5


@pytest.mark.parametrize("key", [True, None, 1.0, b"x", ("a", "b"), slice(1, 2), Ellipsis, object()])
def test_a_key_is_a_text_or_an_int(key: Any) -> None:
    """What else a user's object might take as a key no store could keep."""
    with pytest.raises(ScheduleError, match="a part is named by"):
        World().scheduler.schedule(fail, after(1)).output[key]


def test_odd_texts_are_keys() -> None:
    world = World()
    keys = ["", " ", "\ud800", "\n\x1b[31m", "'\"", "$", "ключ", "x" * 10_000]
    one = world.scheduler.schedule(lambda: dict.fromkeys(keys, 1))
    assert world.scheduler.schedule(sum, args=([one.output[key] for key in keys],)).result() == len(keys)
    child = world.scheduler.schedule(len, args=(one.output["y" * 10_000],))
    with pytest.raises(OutputGone) as caught:
        child.result()
    assert len(str(caught.value)) < 3_000


def test_an_output_is_no_value() -> None:
    """Where it is used as one at the wrong time, that is said, and not answered for ever or with True."""
    output: Any = World().scheduler.schedule(list, after(1)).output
    uses: list[Callable[[], Any]] = [
        lambda: list(output),
        lambda: [*output],
        lambda: 1 in output,
        lambda: bool(output),
        lambda: output["x"] or 5,
    ]
    for use in uses:
        with pytest.raises(TypeError, match="stands for a value that is there when the child runs"):
            use()
    for use in (lambda: len(output), lambda: reversed(output), lambda: {**output}):
        with pytest.raises(TypeError):
            use()


def test_or_else_is_said_last_and_of_a_value() -> None:
    """`or_else({})["rows"]` might mean two things; an output as default would be handed to the work as it is."""
    world = World()
    one, two = world.scheduler.schedule(fail, after(1)), world.scheduler.schedule(fail, after(1))
    with pytest.raises(ScheduleError, match=r"write output\[\.\.\.\]\.or_else\(x\)"):
        one.output.or_else({})["rows"]
    for default in (two.output, [two.output["x"]], (one.output,), {"a": two.output}):
        with pytest.raises(ScheduleError, match="a default is a value, and no output"):
            one.output.or_else(default)


def test_a_recurring_parent_has_no_output() -> None:
    world = World()
    beat = world.scheduler.schedule(fail, every(seconds=1))
    with pytest.raises(DependencyError, match="Flow"):
        world.scheduler.schedule(print, args=(beat.output["x"],))


# The walk


def test_what_is_replaced_is_what_is_found() -> None:
    """One walk for both: what `outputs_in` finds becomes a parent, and all of that, and no more, is replaced."""
    world = World()
    one, two = world.scheduler.schedule(lambda: 1, after(1)), world.scheduler.schedule(lambda: 2, after(1))
    deep = [[one.output]]
    arguments: list[Any] = [one.output["x"], [one.output, 0], (one.output.or_else(5),), {"a": one.output, "b": 1}, deep]
    assert [output._task for output in outputs_in((*arguments, 7), {"k": one.output})] == [one] * 5
    moved = [replaced(argument, lambda output: output.of(two)) for argument in arguments]
    assert repr(moved[0]) == f"<output['x'] of {two.id} <lambda>>"
    assert [output._task for output in outputs_in(tuple(moved), None)] == [two] * 4
    assert [type(argument) for argument in moved] == [type(argument) for argument in arguments]
    assert not moved[2][0].needs_success
    assert (moved[1][1], moved[3]["b"], moved[4] is deep) == (0, 1, True)
    assert [output._task for output in outputs_in(tuple(arguments), None)] == [one] * 4  # they are as they were


def test_what_holds_no_output_is_not_copied() -> None:
    for value in ([1, 2], (1, 2), {"a": 1}, [], "x", None):
        assert replaced(value) is value


def test_other_stand_ins_can_be_replaced_by_the_same_walk() -> None:
    class Due:
        pass

    due = Due()
    assert replaced([due, 1], lambda one: "now", Due) == ["now", 1]
    assert replaced({"a": due}, lambda one: "now", Due) == {"a": "now"}
