"""What a user gives may be foreign code in disguise: a repr that raises, a text with methods of its own.

None of it takes the place of our error, and none of it comes through the door of `schedule`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Any

import pytest

from tests.faults.world import Odd, World
from tests.test_drafts import furnished, still_works, unchanged, work
from tickless import (
    Call,
    DependencyError,
    DuplicateId,
    Pool,
    PoolError,
    RuleError,
    ScheduleError,
    State,
    after,
)
from tickless.drafts import check_call


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


HUGE = "x" * 1_000_000
ENDLESS = 10**5000
"""Python refuses to print it: its repr raises."""


class BadlyBound(Odd):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def bound(self, now: int) -> Any:
        raise BadError


class BadError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def _shown_badly() -> Iterator[dict[str, Any]]:
    for what in ("when", "args", "kwargs", "id", "name", "priority", "run_if", "after_tasks"):
        for wrong in (Unshowable(), ENDLESS, [HUGE], HUGE):
            if what in ("id", "name") and wrong is HUGE:
                continue  # long, and allowed
            if what == "priority" and wrong is ENDLESS:
                continue  # a whole number
            if what == "args" and isinstance(wrong, list):
                continue  # a list of arguments is allowed
            yield {what: wrong, **({"after_tasks": ["later"]} if what == "run_if" else {})}
    yield {"kwargs": {Unshowable(): 1}}
    yield {"after_tasks": [Unshowable()]}
    yield {"after_tasks": [ENDLESS]}
    yield {"id": "#" + HUGE}
    yield {"when": BadlyBound(lambda after: None)}


SHOWN_BADLY = list(_shown_badly())


@pytest.mark.parametrize("options", SHOWN_BADLY, ids=[f"{n}-{next(iter(row))}" for n, row in enumerate(SHOWN_BADLY)])
def test_a_value_that_cannot_be_shown_does_not_take_the_place_of_the_error(options: dict[str, Any]) -> None:
    """In life: the log has a RuntimeError out of somebody's repr, or a line of a megabyte, and not what was wrong."""
    world = furnished()
    with unchanged(world), pytest.raises((ScheduleError, RuleError)) as caught:
        world.scheduler.schedule(work, **options)
    assert len(str(caught.value)) < 1_000
    still_works(world)


@pytest.mark.parametrize("wrong", [Unshowable(), ENDLESS, HUGE], ids=["raises", "endless", "huge"])
def test_a_work_or_an_item_that_cannot_be_shown_is_refused_all_the_same(wrong: Any) -> None:
    for refused in (World().scheduler.schedule, check_call):
        with pytest.raises(ScheduleError) as caught:
            refused(wrong)
        assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("wrong", [Unshowable(), ENDLESS, HUGE], ids=["raises", "endless", "huge"])
def test_a_pool_that_cannot_be_shown_is_refused_all_the_same(wrong: Any) -> None:
    with pytest.raises(PoolError, match="it has no submit") as caught:
        Pool(wrong)
    assert len(str(caught.value)) < 1_000
    with ThreadPoolExecutor(1) as executor, pytest.raises(PoolError, match="slots=") as caught:
        Pool(executor, slots=-wrong if wrong is ENDLESS else wrong)
    assert len(str(caught.value)) < 1_000


def test_an_output_with_a_huge_id_is_told_briefly() -> None:
    world = furnished()
    parent = world.scheduler.schedule(work, after(1), id=HUGE)
    with pytest.raises(DependencyError, match="or_else") as caught:
        world.scheduler.schedule(work, args=(parent.output,), run_if="all_done")
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("part", ["wall", "recurring", "bound"])
def test_a_rule_that_lacks_a_part_is_refused(part: str) -> None:
    """In life: an AttributeError out of the middle of the scheduler, about a name that the user never wrote."""

    class Part(Odd):
        def __getattribute__(self, name: str) -> Any:
            if name == part:
                raise AttributeError(name)
            return super().__getattribute__(name)

    world = furnished()
    with unchanged(world), pytest.raises(RuleError, match=f"when=.*AttributeError.*{part}"):
        world.scheduler.schedule(work, Part(lambda after: after + 1))
    still_works(world)


# Texts that are not plain


class Hostile(str):
    """A text whose methods are foreign code: each would run where ids are looked up, under the lock."""

    __slots__ = ()

    def refuse(self, *args: Any) -> Any:
        raise AssertionError("foreign code was called")

    __eq__ = __ne__ = __hash__ = __len__ = __getitem__ = __iter__ = refuse
    __str__ = __repr__ = __format__ = __contains__ = __add__ = refuse


class Own(str):
    """A text that is found in a dict by its identity."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def test_ids_names_and_keys_of_a_subclass_are_plain_texts_from_the_door_on() -> None:
    """In life: an id of an ORM's or a parser's own text type calls back into it while the scheduler is locked."""
    world = furnished()
    schedule = world.scheduler.schedule
    one = schedule(work, after(1), id=Hostile("one"), name=Hostile("first"))
    two = schedule(work, id="two", after_tasks=[Hostile("one")], kwargs={Own("key"): 1})
    many = [Call(work, id=Hostile("three")), Call(work, id=Hostile("four"), after_tasks=[Hostile("three")])]
    three, four = world.scheduler.schedule_many(many)
    texts = [one.id, one.name, three.id, *two.parents, *four.parents, *(two._kwargs or {})]
    assert texts == ["one", "first", "three", "one", "three", "key"]
    assert {type(text) for text in texts} == {str}
    with pytest.raises(DuplicateId, match="id 'one'"):
        schedule(work, id=Hostile("one"))
    world.clock.advance(1)
    assert {world.scheduler.get(id).state for id in ("one", "two", "three", "four")} == {State.SUCCEEDED}


def test_a_text_of_a_subclass_is_checked_like_any_other() -> None:
    world = furnished()
    wrong: list[dict[str, Any]] = [{"id": Hostile("")}, {"id": Hostile("#7")}, {"name": Hostile("")}]
    for options in wrong:
        with unchanged(world), pytest.raises(ScheduleError):
            world.scheduler.schedule(work, **options)
    with unchanged(world), pytest.raises(DependencyError, match=r"needs several"):
        world.scheduler.schedule(work, after_tasks=Hostile("later"))
    still_works(world)


def test_an_object_that_only_says_that_it_is_a_text_is_refused() -> None:
    class Liar:
        @property  # type: ignore[misc]  # lying about it is what it is for
        def __class__(self) -> type:
            return str

    world = furnished()
    wrong: Any = Liar()
    for options in ({"id": wrong}, {"name": wrong}, {"kwargs": {wrong: 1}}, {"after_tasks": [wrong]}):
        with unchanged(world), pytest.raises(ScheduleError):
            world.scheduler.schedule(work, **options)
    still_works(world)


def test_two_keys_that_are_one_text_are_refused() -> None:
    """As plain texts one would silently take the other's place."""

    with pytest.raises(ScheduleError, match=r"'a' twice"):
        World().scheduler.schedule(work, kwargs={Own("a"): 1, "a": 2})


def test_a_name_that_the_work_has_is_a_plain_text() -> None:
    """Functions and classes may be given a name of any text type."""

    def one() -> None: ...

    class Two:
        pass

    class Three:
        def __call__(self) -> None: ...

    for named in (one, Two, Three):
        named.__name__ = Hostile(named.__name__)
    world = World()
    for plain in (one, Two, Three(), functools.partial(one)):
        assert type(world.scheduler.schedule(plain, after(1)).name) is str


def test_an_id_from_an_enumeration_is_its_value() -> None:
    class Ids(StrEnum):
        NIGHTLY = "nightly"

    world = World()
    assert world.scheduler.schedule(work, id=Ids.NIGHTLY).id == "nightly"
    assert type(world.scheduler.get("nightly").id) is str


# A call in disguise


def test_one_call_that_is_not_in_a_list_is_refused() -> None:
    """It is no list of one, and what Python says of it ("not iterable") names neither it nor the way out."""
    world = furnished()
    with unchanged(world), pytest.raises(ScheduleError, match="put them in a list"):
        world.scheduler.schedule_many(Call(work, after(1)))  # type: ignore[arg-type]
    still_works(world)


def test_a_call_is_checked_by_its_type_and_given_back() -> None:
    """`isinstance` would believe what an object says of itself."""
    call = Call(work)
    assert check_call(call) is call

    class Disguised:
        __class__ = Call  # type: ignore[assignment]  # that is the disguise

    with pytest.raises(ScheduleError, match="is no Call"):
        check_call(Disguised())
