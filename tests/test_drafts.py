"""What cannot be scheduled is refused at the call: the message names the thing, the value and the way out.

And afterwards nothing is lost and nothing half added: see `unchanged`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.faults.world import Odd, World, fail, heap_length
from tickless import (
    Call,
    DependencyError,
    DuplicateId,
    RuleError,
    ScheduleError,
    State,
    TicklessError,
    after,
    at,
    every,
)
from tickless.drafts import check_call

NAN, INF = float("nan"), float("inf")
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001  # being naive is what it is for
FAR_EAST = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
FAR_WEST = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))


def work(*args: Any, **kwargs: Any) -> None:
    """What would run."""


@contextmanager
def unchanged(world: World) -> Iterator[None]:
    """Inside, the scheduler refuses something: its tasks, its heap and its events are afterwards what they were."""
    before = world.scheduler.tasks(), heap_length(world.scheduler), len(world.events)
    yield
    assert (world.scheduler.tasks(), heap_length(world.scheduler), len(world.events)) == before


def furnished() -> World:
    """A scheduler that has something to lose: a task that waits, one that recurs, one that has ended, and a child."""
    world = World()
    schedule = world.scheduler.schedule
    schedule(world.note("later"), after(10), id="later")
    schedule(world.note("beat"), every(seconds=7), id="beat")
    schedule(work, id="done")
    schedule(world.note("child"), after_tasks=["later"], id="child")
    return world


def still_works(world: World) -> None:
    """All that was there before the refusal runs as it would have."""
    world.scheduler.schedule(world.note("new"), after(1))
    world.clock.advance(10)
    assert world.story == ["new", "beat", "later", "child"]


TIMES: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: after(NAN), "after", "nan"),
    (lambda: after(INF), "after", "inf"),
    (lambda: after(-INF), "after", "-inf"),
    (lambda: after(-1), "after", "after(0) runs now"),
    (lambda: after(-1e-6), "after", "negative"),
    (lambda: after(timedelta(seconds=-1)), "after", "negative"),
    (lambda: after(True), "after", "True"),
    (lambda: after("5"), "after", "'5'"),  # type: ignore[arg-type]
    (lambda: after(None), "after", "None"),  # type: ignore[arg-type]
    (lambda: after(timedelta.max), "after", "longer than the calendar"),
    (lambda: after(1e300), "after", "longer than the calendar"),
    (lambda: after(8000 * 365.25 * 86_400), "after", "year 9999"),
    (lambda: at(NAIVE), "at", "give it a zone"),
    (lambda: at("2030-01-01"), "at", "'2030-01-01'"),  # type: ignore[arg-type]
    (lambda: at(True), "at", "True"),  # type: ignore[arg-type]
    (lambda: at(1_900_000_000.0), "at", "1900000000.0"),  # type: ignore[arg-type]
    (lambda: at(FAR_EAST), "at", "years 1 to 9999"),
    (lambda: at(FAR_WEST), "at", "years 1 to 9999"),
    (lambda: every(seconds=0), "every", "at least 1 ms"),
    (lambda: every(seconds=-1), "every", "at least 1 ms"),
    (lambda: every(seconds=0.000_9), "every", "at least 1 ms"),
    (lambda: every(timedelta(0)), "every", "at least 1 ms"),
    (lambda: every(seconds=NAN), "every", "nan"),
    (lambda: every(minutes=INF), "every", "inf"),
    (lambda: every(hours=True), "every", "True"),
    (lambda: every(seconds="5"), "every", "'5'"),  # type: ignore[call-overload]
    (lambda: every(5), "every", "seconds=5"),  # type: ignore[call-overload]
    (lambda: every(timedelta.max), "every", "longer than the calendar"),
    (lambda: every(hours=1, anchor=NAIVE), "every", "give it a zone"),
    (lambda: every(hours=1, anchor="noon"), "every", "'noon'"),  # type: ignore[call-overload]
]


@pytest.mark.parametrize(("rule", "thing", "rest"), TIMES, ids=[f"{n}-{row[2][:12]}" for n, row in enumerate(TIMES)])
@pytest.mark.parametrize("parents", [(), ["later"]], ids=["alone", "child"])
def test_a_time_that_cannot_be_is_refused_and_nothing_changes(
    rule: Callable[[], Any], thing: str, rest: str, parents: list[str]
) -> None:
    """In life: a typing error in a setting becomes a task that never runs, or a heap that cannot be ordered."""
    world = furnished()
    with unchanged(world), pytest.raises(RuleError) as caught:
        world.scheduler.schedule(work, rule(), after_tasks=parents, id="new")
    assert str(caught.value).startswith(thing)
    assert rest in str(caught.value)
    still_works(world)


OPTIONS: list[tuple[dict[str, Any], type[TicklessError], list[str]]] = [
    ({"when": 5}, RuleError, ["when=5", "after(5)"]),
    ({"when": "5 * * * *"}, RuleError, ["when='5 * * * *'", "needs a rule"]),
    ({"when": timedelta(5)}, RuleError, ["when=", "needs a rule"]),
    ({"when": after}, RuleError, ["when=", "needs a rule"]),
    ({"when": every}, RuleError, ["when=", "needs a rule"]),
    ({"args": "ab"}, ScheduleError, ["args='ab'", "args=('ab',)"]),
    ({"args": 5}, ScheduleError, ["args=5", "args=(5,)"]),
    ({"args": {1}}, ScheduleError, ["args={1}", "tuple"]),
    ({"kwargs": [1]}, ScheduleError, ["kwargs=[1]", "dict"]),
    ({"kwargs": {1: 2}}, ScheduleError, ["kwargs={1: 2}", "names"]),
    ({"id": ""}, ScheduleError, ["id=''", "at least one character"]),
    ({"id": 5}, ScheduleError, ["id=5", "text"]),
    ({"id": "#7"}, ScheduleError, ["id '#7'", "choose another"]),
    ({"name": ""}, ScheduleError, ["name=''", "at least one character"]),
    ({"name": 5}, ScheduleError, ["name=5", "text"]),
    ({"priority": 1.5}, ScheduleError, ["priority=1.5", "whole number"]),
    ({"priority": True}, ScheduleError, ["priority=True", "whole number"]),
    ({"priority": "high"}, ScheduleError, ["priority='high'", "higher runs first"]),
    ({"run_if": "sometimes", "after_tasks": ["later"]}, ScheduleError, ["run_if='sometimes'", "all_done"]),
    ({"run_if": None, "after_tasks": ["later"]}, ScheduleError, ["run_if=None", "all_done"]),
    ({"run_if": "all_done"}, DependencyError, ["run_if='all_done'", "no parents", "after_tasks"]),
    ({"exists": "replace", "id": "new"}, ScheduleError, ["exists='replace'", "keep, update"]),
    ({"exists": "keep"}, ScheduleError, ["exists='keep'", "say id="]),
    ({"id": "later"}, DuplicateId, ["id 'later'", "choose another", 'exists="keep"']),
    ({"id": "done"}, DuplicateId, ["id 'done'", "choose another"]),
    ({"after_tasks": ["nobody"]}, DependencyError, ["'nobody'", "no task has the id"]),
    ({"after_tasks": ["later", "nobody"], "id": "new"}, DependencyError, ["of 'new'", "'nobody'"]),
    ({"after_tasks": ["#99"]}, DependencyError, ["'#99'", "no task has the id"]),
    ({"after_tasks": ["new"], "id": "new"}, DependencyError, ["'new'", "cannot wait for itself"]),
    ({"after_tasks": ["beat"]}, DependencyError, ["'beat'", "recurring", "Flow"]),
    ({"after_tasks": "later"}, DependencyError, ["after_tasks='later'", "['later']"]),
    ({"after_tasks": 5}, DependencyError, ["after_tasks=5", "in a list"]),
    ({"after_tasks": [5]}, DependencyError, ["after_tasks: 5", "neither a task nor an id"]),
    ({"after_tasks": [None]}, DependencyError, ["after_tasks: None", "neither a task nor an id"]),
]


@pytest.mark.parametrize(("options", "error", "words"), OPTIONS, ids=[str(row[0])[:50] for row in OPTIONS])
def test_an_option_that_cannot_be_is_refused_and_nothing_changes(
    options: dict[str, Any], error: type[TicklessError], words: list[str]
) -> None:
    """In life: a typing error is found when the task should have run, or never."""
    world = furnished()
    with unchanged(world), pytest.raises(error) as caught:
        world.scheduler.schedule(work, **options)
    message = str(caught.value)
    assert [word for word in words if word not in message] == []
    still_works(world)


BATCHED = [row[:2] for row in OPTIONS if "exists" not in row[0]]


@pytest.mark.parametrize(("options", "error"), BATCHED, ids=[str(row[0])[:50] for row in BATCHED])
def test_a_batch_with_one_bad_call_adds_none_of_them(options: dict[str, Any], error: type[TicklessError]) -> None:
    """In life: half a pipeline runs, and nobody knows which half."""
    world = furnished()
    good = [Call(work, id="one"), Call(work, after(1), id="two", after_tasks=["one"])]
    with unchanged(world), pytest.raises(error):
        world.scheduler.schedule_many([*good, Call(work, **options), Call(work, id="three")])
    still_works(world)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda after: None, ["never fires"]),
        (lambda after: after, ["strictly after"]),
        (lambda after: after - 1, ["strictly after"]),
        (lambda after: float(after + 1), ["plain int"]),
        (lambda after: True, ["plain int"]),
        (lambda after: "soon", ["'soon'", "plain int"]),
        (lambda after: 10**30, ["year 9999"]),
        (lambda after: 1 // 0, ["ZeroDivisionError"]),
    ],
)
def test_a_rule_of_the_users_own_that_lies_is_refused_at_the_call(
    answer: Callable[[int], Any], words: list[str]
) -> None:
    """In life: the timeline spins on a fire that is never after the last one."""
    world = furnished()
    with unchanged(world), pytest.raises(RuleError) as caught:
        world.scheduler.schedule(work, Odd(answer))
    assert [word for word in words if word not in str(caught.value)] == []
    still_works(world)


def test_a_rule_that_cannot_be_bound_is_refused_with_its_error() -> None:
    """The cause is chained, so that the author of the rule finds the line."""

    class Unbindable(Odd):
        def bound(self, now: int) -> Any:
            raise KeyError("no zone")

    world = furnished()
    with unchanged(world), pytest.raises(RuleError, match=r"binding it .* raised KeyError\('no zone'\)") as caught:
        world.scheduler.schedule(work, Unbindable(lambda after: None))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_cycle_in_a_batch_is_refused_with_its_path() -> None:
    """In life: none of them would ever start, and the programme would wait for ever."""
    world = furnished()
    calls = [
        Call(work, id="a", after_tasks=["c"]),
        Call(work, id="b", after_tasks=["a"]),
        Call(work, id="c", after_tasks=["b"]),
    ]
    with unchanged(world), pytest.raises(DependencyError, match=r"a -> c -> b -> a is a cycle.*take one"):
        world.scheduler.schedule_many(calls)
    with unchanged(world), pytest.raises(DependencyError, match="cannot wait for itself"):
        world.scheduler.schedule_many([Call(work, id="a", after_tasks=["a"])])
    still_works(world)


def test_a_cycle_of_ten_thousand_is_found_and_told_briefly() -> None:
    """No recursion, and no message of a hundred kilobytes."""
    world = furnished()
    size = 10_000
    calls = [Call(work, id=f"t{n}", after_tasks=[f"t{(n + 1) % size}"]) for n in range(size)]
    with unchanged(world), pytest.raises(DependencyError, match="is a cycle") as caught:
        world.scheduler.schedule_many(calls)
    assert len(str(caught.value)) < 500


def test_an_id_twice_in_a_batch_is_refused() -> None:
    world = furnished()
    with unchanged(world), pytest.raises(DuplicateId, match="id 'x'"):
        world.scheduler.schedule_many([Call(work, id="x"), Call(fail, id="x")])


@pytest.mark.parametrize("wrong", [work, (work,), None, 5, [], {}, "print", (), Call, (work, None, (), None, "x")])
def test_what_is_no_call_is_refused_and_nothing_changes(wrong: Any) -> None:
    """A bare function in the list is the likely slip, and a plain tuple would be a call by accident."""
    with pytest.raises(ScheduleError, match=r"is no Call; .*Call\(f, "):
        check_call(wrong)
    world = furnished()
    with unchanged(world), pytest.raises(ScheduleError, match="is no Call") as caught:
        world.scheduler.schedule_many([Call(work), wrong])
    assert repr(wrong)[:30] in str(caught.value)
    still_works(world)


def test_an_iterable_that_raises_half_way_adds_nothing() -> None:
    """In life: the calls come from a file that ends in the middle of a line."""

    def calls() -> Iterator[Call]:
        yield Call(work, id="one")
        raise OSError("the disk is gone")

    world = furnished()
    with unchanged(world), pytest.raises(OSError, match="the disk is gone"):
        world.scheduler.schedule_many(calls())
    still_works(world)


def test_an_empty_batch_adds_nothing_and_is_no_error() -> None:
    """In life: the list of today's files is empty."""
    world = furnished()
    with unchanged(world):
        assert world.scheduler.schedule_many([]) == []
    still_works(world)


def test_a_handle_of_another_scheduler_is_no_parent() -> None:
    """The other scheduler would never tell this one that the parent has ended."""
    world, other = furnished(), World()
    stranger = other.scheduler.schedule(work, id="later")
    with unchanged(world), pytest.raises(DependencyError, match="another scheduler"):
        world.scheduler.schedule(work, after_tasks=[stranger])
    with unchanged(world), pytest.raises(DependencyError, match="another scheduler"):
        world.scheduler.schedule(work, args=(stranger.output,))


@pytest.mark.parametrize("wrong", [5, None, "print", object(), [work], 0.5])
def test_a_work_that_is_not_callable_is_refused(wrong: Any) -> None:
    """The likely slip is `schedule(f())`: it runs at once, and its None is scheduled."""
    world = furnished()
    with unchanged(world), pytest.raises(ScheduleError, match=r"schedule\(f\), not schedule\(f\(\)\)") as caught:
        world.scheduler.schedule(wrong)
    assert repr(wrong)[:20] in str(caught.value)
    still_works(world)


@pytest.mark.parametrize("wrong", [-1, 1.0, True, "5", None])
@pytest.mark.parametrize("what", ["keep_finished", "keep_runs"])
def test_a_limit_that_is_no_whole_number_is_refused(what: str, wrong: Any) -> None:
    with pytest.raises(ScheduleError, match=f"{what}={wrong!r}"):
        World(**{what: wrong})


@pytest.mark.parametrize("wrong", [-1, NAN, True, "5", -INF, timedelta(1)])
def test_a_timeout_that_is_no_length_of_time_is_refused(wrong: Any) -> None:
    """Of `close` above all: nothing is closed by a call that is refused."""
    world = furnished()
    task = world.scheduler.schedule(work, after(5))
    for call in (world.scheduler.wait, world.scheduler.close, task.wait, task.result):
        with unchanged(world), pytest.raises(ScheduleError, match="timeout="):
            call(wrong)
    assert world.scheduler.phase == "running"
    assert task.state is State.PENDING


# Works that would run nothing (BUG-046)


async def coroutine() -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


class Methods:
    async def method(self) -> None: ...

    @classmethod
    async def of_class(cls) -> None: ...

    @staticmethod
    async def static() -> None: ...


class AsyncCall:
    async def __call__(self) -> None: ...


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def around(*args: Any) -> Any:
        return function(*args)

    return around


HIDDEN: Mapping[str, Callable[..., Any]] = {
    "coroutine function": coroutine,
    "generator function": generator,
    "async generator function": async_generator,
    "bound method": Methods().method,
    "class method": Methods.of_class,
    "static method": Methods.static,
    "callable object": AsyncCall(),
    "partial": functools.partial(coroutine),
    "partial of a partial": functools.partial(functools.partial(generator)),
    "partial of a method": functools.partial(Methods().method),
    "partial of an object": functools.partial(AsyncCall()),
    "lambda that yields": lambda: (yield),
    "library coroutine": asyncio.sleep,
}
DECORATED: Mapping[str, Callable[..., Any]] = {
    "decorated": wrapped(coroutine),
    "decorated bound method": wrapped(Methods().method),
    "partial of a decorated": functools.partial(wrapped(generator)),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_BUG_046_a_coroutine_or_generator_function_is_refused_however_it_is_wrapped(name: str) -> None:
    """In life: the run succeeds within a microsecond, and nothing of it has happened."""
    world = furnished()
    with unchanged(world), pytest.raises(ScheduleError, match=r"runs nothing of it.*asyncio\.run"):
        world.scheduler.schedule(HIDDEN[name])
    with unchanged(world), pytest.raises(ScheduleError, match="runs nothing of it"):
        world.scheduler.schedule_many([Call(work), Call(HIDDEN[name])])
    still_works(world)


@pytest.mark.parametrize("name", DECORATED)
def test_BUG_046_a_decorated_coroutine_function_is_refused_or_its_run_fails(name: str) -> None:
    """From outside nobody can tell whether the decorator runs it: see the next test. What it returned tells."""
    world = World()
    try:
        task = world.scheduler.schedule(DECORATED[name])
    except ScheduleError:
        return
    assert task.state is State.FAILED
    gc.collect()


def test_a_plain_function_that_runs_a_coroutine_function_is_taken_although_it_wraps_it() -> None:
    """`asyncio.run` in a decorator with functools.wraps is the usual way to make a command out of a coroutine."""

    def runs(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def around(*args: Any) -> Any:
            return asyncio.run(function(*args))

        return around

    world = World()
    for plain in (runs(coroutine), functools.partial(runs(coroutine)), functools.partial(runs(Methods().method))):
        assert world.scheduler.schedule(plain).state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("made", "kind"),
    [(coroutine, "coroutine"), (generator, "generator"), (async_generator, "async_generator")],
)
def test_BUG_046_a_work_that_returns_what_nobody_runs_has_failed(made: Callable[[], Any], kind: str) -> None:
    """A lambda hides the kind. The object is closed, so that no "never awaited" is printed (warnings are errors)."""
    world = World()
    task = world.scheduler.schedule(lambda: made())
    assert task.state is State.FAILED
    with pytest.raises(ScheduleError, match=f"returned a {kind}"):
        task.result()
    gc.collect()


def test_BUG_046_a_hidden_coroutine_of_a_recurring_task_fails_each_run_and_the_schedule_goes_on() -> None:
    world = World()
    task = world.scheduler.schedule(lambda: coroutine(), every(seconds=1))
    world.clock.advance(3)
    assert [run.state for run in task.runs()] == [State.FAILED] * 3
    gc.collect()


@pytest.mark.parametrize(
    ("plain", "name"),
    [
        (work, "work"),
        (print, "print"),
        (functools.partial(work, 1), "work"),
        (int, "int"),
        ([].append, "append"),
        (lambda *args: None, "<lambda>"),
        (Methods, "Methods"),
        (functools.partial(int), "int"),
    ],
)
def test_a_plain_work_is_taken_and_named_after_itself(plain: Callable[..., Any], name: str) -> None:
    """The name is what lists and log lines show when none was given."""
    world = World()
    assert world.scheduler.schedule(plain, args=(1,) if plain in ([].append,) else (), name=None).name == name
    assert world.scheduler.schedule(plain, after(1), name="mine").name == "mine"


def test_a_class_whose_instances_are_awaited_on_call_is_a_plain_work() -> None:
    """Calling the class makes an object, which is what was asked for; its async `__call__` is not in question."""
    assert World().scheduler.schedule(AsyncCall).state is State.SUCCEEDED


def test_a_list_of_arguments_is_a_tuple_of_them_and_kwargs_are_copied() -> None:
    """A dict that the caller changes later must not change what was scheduled."""
    world = World()
    given: dict[str, Any] = {"sep": "-"}
    seen: list[Any] = []
    world.scheduler.schedule(lambda *a, **k: seen.append((a, k)), after(1), args=[1, 2], kwargs=given)  # type: ignore[arg-type]
    given["sep"] = given["end"] = "x"
    world.clock.advance(1)
    assert seen == [((1, 2), {"sep": "-"})]


def test_after_tasks_may_be_any_iterable_and_names_each_parent_once() -> None:
    """A generator is read once; a parent that is named three times is waited for once (BUG-059)."""
    world = World()
    parent = world.scheduler.schedule(work, after(1), id="p")
    child = world.scheduler.schedule(work, after_tasks=(p for p in (parent, "p", parent)), args=(parent.output,))
    assert child.parents == ("p",)
    assert parent.children == (child.id,)
    assert world.scheduler.get(child).state is State.PENDING
    world.clock.advance(1)
    assert world.scheduler.get(child).state is State.SUCCEEDED


def test_the_farthest_times_are_taken() -> None:
    """The last second of the calendar is a time like any other, and waits."""
    world = World()
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert world.scheduler.schedule(work, at(last)).next_fire == last
    assert world.scheduler.schedule(work, after(timedelta(days=365 * 7000))).state is State.PENDING
    world.clock.advance(1)
    assert {info.state for info in world.scheduler.tasks()} == {State.PENDING}
