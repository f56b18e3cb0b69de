"""The options of `schedule`: what is no value, or contradicts another, is refused at the call and names both."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.faults.world import Odd, World
from tests.test_drafts import INF, NAN, furnished, still_works, unchanged, work
from tests.test_drafts_foreign import HUGE, Hostile, Unshowable
from tickless import Call, Rule, RuleError, ScheduleError, Scheduler, Task, TicklessError, after, every
from tickless.drafts import DEFAULTS, draft
from tickless.instants import SECOND_US
from tickless.options import POLICY_DEFAULTS, CallOptions, Options, policy_in
from tickless.policies import Policy
from tickless.records import Run

TEN = every(minutes=10)
SLIDING = every(minutes=10, sliding=True)


def told(run: Run) -> None:
    """What `on_failure` calls."""


async def told_in_vain(run: Run) -> None: ...


def yields(run: Run) -> Iterator[int]:
    yield 1


VALUES: list[tuple[dict[str, Any], list[str]]] = [
    ({"overlap": "sometimes"}, ["overlap='sometimes'", "skip, queue, allow, replace"]),
    ({"overlap": None}, ["overlap=None", "queue"]),
    ({"overlap": ["skip"]}, ["overlap=['skip']", "queue"]),
    ({"catch_up": "some"}, ["catch_up='some'", "latest, all, none"]),
    ({"on_timeout": "kill", "timeout": 1}, ["on_timeout='kill'", "keep, release"]),
    ({"max_running": 0, "overlap": "allow"}, ["max_running=0", "at least 1"]),
    ({"max_running": 2.0, "overlap": "allow"}, ["max_running=2.0", "whole number"]),
    ({"max_running": True, "overlap": "allow"}, ["max_running=True", "whole number"]),
    ({"max_catch_up": 0, "catch_up": "all"}, ["max_catch_up=0", "at least 1"]),
    ({"max_catch_up": "5", "catch_up": "all"}, ["max_catch_up='5'", "whole number"]),
    ({"pause_after_failures": -1}, ["pause_after_failures=-1", "at least 1"]),
    ({"pause_after_failures": False}, ["pause_after_failures=False", "whole number"]),
    ({"grace": 0}, ["grace=0", "at least 1 ms"]),
    ({"grace": -1}, ["grace=-1", "at least 1 ms"]),
    ({"grace": NAN}, ["grace", "nan"]),
    ({"grace": INF}, ["grace", "inf"]),
    ({"grace": True}, ["grace", "True"]),
    ({"grace": "5"}, ["grace", "'5'"]),
    ({"grace": timedelta(microseconds=999)}, ["grace=", "at least 1 ms"]),
    ({"timeout": 0}, ["timeout=0", "at least 1 ms"]),
    ({"timeout": 0.000_4}, ["timeout=0.0004", "at least 1 ms"]),
    ({"timeout": NAN}, ["timeout", "nan"]),
    ({"timeout": 1e300}, ["timeout", "longer than the calendar"]),
    ({"retry": 3}, ["retry=3", "Retry(3)"]),
    ({"retry": "often"}, ["retry='often'", "needs a Retry"]),
    ({"on_failure": 5}, ["on_failure=5", "something to call"]),
    ({"on_failure": told_in_vain}, ["on_failure=", "runs nothing of it"]),
    ({"on_failure": yields}, ["on_failure=", "runs nothing of it"]),
    ({"on_failure": functools.partial(told_in_vain)}, ["on_failure=", "runs nothing of it"]),
    ({"pool": "cpu"}, ["pool='cpu'", "there is 'default'", "Scheduler(pools="]),
    ({"pool": 5}, ["pool=5", "'default'"]),
    ({"pool": ""}, ["pool=''", "'default'"]),
    ({"limit": "db"}, ["limit='db'", "there is none", "Scheduler(limits="]),
    ({"tags": "night"}, ["tags='night'", "['night']"]),
    ({"tags": 5}, ["tags=5", "in a list"]),
    ({"tags": ["night", ""]}, ["tags=''", "at least one character"]),
    ({"tags": ["night", 5]}, ["tags=5", "at least one character"]),
]
CONTRADICTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"max_running": 2}, ["max_running=2", 'overlap="skip"', 'overlap="allow"']),
    ({"max_running": 2, "overlap": "queue"}, ["max_running=2", 'overlap="queue"']),
    ({"max_catch_up": 5}, ["max_catch_up=5", 'catch_up="latest"', 'catch_up="all"']),
    ({"max_catch_up": 100}, ["max_catch_up=100", 'catch_up="latest"']),
    ({"max_catch_up": 5, "catch_up": "none"}, ["max_catch_up=5", 'catch_up="none"']),
    ({"on_timeout": "release"}, ['on_timeout="release"', "timeout="]),
    ({"overlap": "queue", "when": after(5)}, ['overlap="queue"', "after(", "fires once"]),
    ({"overlap": "queue", "when": None}, ['overlap="queue"', "when=None", "fires once"]),
    ({"catch_up": "none", "when": after(5)}, ['catch_up="none"', "fires once"]),
    ({"pause_after_failures": 3, "when": after(5)}, ["pause_after_failures=3", "fires once"]),
    ({"pause_after_failures": 3, "when": None, "after_tasks": ["later"]}, ["pause_after_failures=3", "fires once"]),
    ({"overlap": "queue", "when": after(5), "after_tasks": ["later"]}, ['overlap="queue"', "fires once"]),
    ({"overlap": "replace", "when": SLIDING}, ['overlap="replace"', "sliding=True"]),
    ({"catch_up": "all", "when": SLIDING}, ['catch_up="all"', "sliding=True"]),
    ({"overlap": "allow", "when": SLIDING, "max_runs": 9}, ['overlap="allow"', "sliding=True"]),
    ({"catch_up": "all", "grace": 599.9}, ['catch_up="all"', "grace=599.9", "every(seconds=600)"]),
]


def refused(options: dict[str, Any], words: list[str], error: type[TicklessError] = ScheduleError) -> None:
    """Each of the words is in the message, nothing has changed, and a batch refuses it too."""
    options = {"when": TEN, **options}
    world = furnished()
    with unchanged(world), pytest.raises(error) as caught:
        world.scheduler.schedule(work, **options)
    message = str(caught.value)
    assert [word for word in words if word not in message] == []
    with unchanged(world), pytest.raises(error) as batched:
        world.scheduler.schedule_many([Call(work), Call(work, **options)])
    assert str(batched.value) == message
    still_works(world)


@pytest.mark.parametrize(("options", "words"), VALUES, ids=[str(row[0])[:50] for row in VALUES])
def test_a_value_that_cannot_be_is_refused(options: dict[str, Any], words: list[str]) -> None:
    """In life: a setting with a typing error protects nothing, and is found in the night in which it should have."""
    refused(options, words)


@pytest.mark.parametrize(("options", "words"), CONTRADICTIONS, ids=[str(row[0])[:60] for row in CONTRADICTIONS])
def test_a_contradiction_is_refused_and_names_both_sides(options: dict[str, Any], words: list[str]) -> None:
    """In life: somebody believes in a setting that another one has switched off."""
    refused(options, words)


@pytest.mark.parametrize("when", [TEN, SLIDING, after(5), None], ids=["every", "sliding", "once", "now"])
def test_a_setting_that_is_given_at_its_default_contradicts_nothing(when: Rule | None) -> None:
    """In life: settings come from a table in which each has a value."""
    world = World(start=False)
    said = {name: default for name, default in DEFAULTS.items() if name != "exists"}
    for task in (
        world.scheduler.schedule(work, when, **said),
        *world.scheduler.schedule_many([Call(work, when, **said)]),
    ):
        assert task._more is None or not task._more.special


def test_a_grace_as_long_as_the_interval_and_a_grace_without_a_second_fire_are_taken() -> None:
    """Only `all` wants more than one fire."""
    schedule = World(start=False).scheduler.schedule
    assert policy_of(schedule(work, TEN, grace=600, catch_up="all")).grace_us == 600 * SECOND_US
    assert policy_of(schedule(work, TEN, grace=1, catch_up="none")).catch_up == "none"
    assert policy_of(schedule(work, SLIDING, grace=1)).grace_us == SECOND_US
    assert policy_of(schedule(work, after(5), grace=1)).grace_us == SECOND_US


# Keywords


@pytest.mark.parametrize(
    ("keyword", "words"),
    [
        ("aftertasks", "did you mean 'after_tasks'?"),
        ("time_out", "did you mean 'timeout'?"),
        ("retries", "did you mean 'retry'?"),
        ("exist", "did you mean 'exists'?"),
        ("owner", ""),
        ("clock", ""),
        ("zzz", ""),
    ],
)
def test_an_unknown_keyword_is_refused_as_python_does_and_the_nearest_is_offered(keyword: str, words: str) -> None:
    """Not in the name of a function that the user never called."""
    world = furnished()
    with unchanged(world), pytest.raises(TypeError) as caught:
        world.scheduler.schedule(work, TEN, **{keyword: 5}, id="new")  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"schedule() got an unexpected keyword argument {keyword!r}")
    assert message.endswith(words)
    assert words or "mean" not in message
    still_works(world)


def test_the_signature_shows_every_option_with_its_default() -> None:
    """`help()` and whatever completes in a live session would show `**options`, which says nothing."""
    shown = inspect.signature(Scheduler.schedule)
    assert list(shown.parameters) == ["self", "work", "when", *DEFAULTS]
    options = list(shown.parameters.values())[3:]
    assert {option.kind for option in options} == {inspect.Parameter.KEYWORD_ONLY}
    assert {option.name: option.default for option in options} == DEFAULTS
    assert shown.parameters["timeout"].annotation == "float | timedelta | None"
    assert shown.return_annotation == "Task[T]"
    assert next(iter(inspect.signature(World().scheduler.schedule).parameters)) == "work"


def test_the_options_are_the_same_wherever_they_are_said() -> None:
    """A default that differs between a call and a batch is a bug that only a batch has."""
    assert set(DEFAULTS) == set(Options.__annotations__)
    assert set(DEFAULTS) - {"exists"} == set(CallOptions.__annotations__)
    assert {name: DEFAULTS[name] for name in POLICY_DEFAULTS} == POLICY_DEFAULTS
    said = {name: part.default for name, part in inspect.signature(draft).parameters.items()}
    assert {name: said[name] for name in said if name in DEFAULTS} == {
        name: DEFAULTS[name] for name in said if name in DEFAULTS
    }


def test_a_call_takes_the_options_of_schedule_and_no_others() -> None:
    """A typing error in a batch of a thousand would be told as one of the batch, if at all."""
    assert Call(work, TEN, priority=3).options == {"priority": 3}
    assert repr(Call(int, id="a")) == "Call(<class 'int'>, None, id='a')"
    with pytest.raises(TypeError, match="did you mean 'priority'"):
        Call(work, prioriti=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="said to schedule"):
        Call(work, exists="keep")  # type: ignore[call-arg]
    world = World(start=False)
    with pytest.raises(TypeError):
        world.scheduler.schedule(work, TEN, (1,))  # type: ignore[call-arg, arg-type]


# What becomes of them


def policy_of(task: Task[Any]) -> Policy:
    return policy_in(task._more)


def test_the_policy_holds_microseconds_and_plain_texts() -> None:
    schedule = World(start=False).scheduler.schedule
    task = schedule(
        work, TEN, overlap="allow", max_running=3, grace=timedelta(hours=1), catch_up="all", max_catch_up=7,
        timeout=2.5, on_timeout="release", pause_after_failures=5, on_failure=told, pool="default",
        tags=[Hostile("night"), "etl", "night"],
    )  # fmt: skip
    policy = policy_of(task)
    assert policy == Policy(
        overlap="allow", max_running=3, grace_us=3_600 * SECOND_US, catch_up="all", max_catch_up=7,
        timeout_us=2_500_000, releases=True, pause_after_failures=5, on_failure=told, tags=("night", "etl"),
    )  # fmt: skip
    assert {type(tag) for tag in policy.tags} == {str}
    assert task._more is not None
    assert task._more.special


def test_jitter_alone_closes_the_quick_ways_too() -> None:
    task = World(start=False).scheduler.schedule(work, TEN, jitter=3)
    assert task._more is not None
    assert task._more.special
    assert policy_of(task) == Policy(jitter_us=3 * SECOND_US)


def test_a_batch_makes_the_same_policies() -> None:
    world = World(start=False)
    options: dict[str, Any] = {"timeout": 5, "tags": ("a",), "priority": 2}
    alone = world.scheduler.schedule(work, **options)
    [batched] = world.scheduler.schedule_many([Call(work, **options)])
    assert policy_of(alone) == policy_of(batched)
    assert batched._priority == 2


def test_a_rule_of_the_users_own_is_asked_once_whether_it_recurs() -> None:
    """It is foreign code: what it raises is told with its rule."""

    class Raises(Odd):
        @property
        def recurring(self) -> bool:  # type: ignore[override]
            raise KeyError("no idea")

    refused({"when": Raises(lambda after: after + 1), "overlap": "queue"}, ["when=", "no idea"], RuleError)
    own = Odd(lambda after: after + SECOND_US)
    assert policy_of(World(start=False).scheduler.schedule(work, own, overlap="queue")).overlap == "queue"


@pytest.mark.parametrize("name", POLICY_DEFAULTS)
@pytest.mark.parametrize("wrong", [Unshowable(), HUGE, [HUGE]], ids=["raises", "huge", "list"])
def test_a_value_that_cannot_be_shown_is_refused_all_the_same(name: str, wrong: Any) -> None:
    """In life: the log has a RuntimeError out of somebody's repr, or a megabyte."""
    if name == "tags" and type(wrong) is list:
        return  # a long tag is a tag
    world = furnished()
    with unchanged(world), pytest.raises(ScheduleError) as caught:
        world.scheduler.schedule(work, TEN, **{name: wrong})
    assert len(str(caught.value)) < 1_000
    still_works(world)
