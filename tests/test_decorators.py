"""Functions that declare their own schedule.

The invariants: to decorate writes nothing and starts nothing; what recurs is in the store once from the start on, all
of it or nothing; a name, and an id, belongs to one place; what is refused has changed nothing.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from tests.declaring import Make, advance, in_memory_and_on_sqlite, maker, module, still
from tests.stores.sql.house import House, note, told
from tickless import (
    Retry,
    ScheduleError,
    Scheduler,
    State,
    TaskFunction,
    after,
    every,
)

HOUR_S = 3_600
HERE = f"{__name__}:"


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    yield from still()


@pytest.fixture
def make(kept: str, house: House) -> Make:
    return maker(kept, house)


# What a decorated function is


def test_a_decorated_function_is_called_as_before_and_nothing_is_scheduled(scheduler: Scheduler) -> None:
    """A module that declares is imported by tests and by other programs, which want the function."""

    @scheduler.task(retry=Retry(3))
    def add(one: int, two: int = 2) -> int:
        """Adds."""
        return one + two

    scheduler.start()
    assert add(1) == 3
    assert add(1, two=5) == 6
    assert scheduler.tasks() == []


def test_name_text_signature_and_types_stay(scheduler: Scheduler) -> None:
    """What `help`, an editor and a web framework look at."""

    @scheduler.every(minutes=5)
    def beat(loud: bool = False) -> str:
        """It beats."""
        return "!"

    assert (beat.__name__, beat.__doc__, beat.__module__) == ("beat", "It beats.", __name__)
    assert beat.__qualname__.endswith("<locals>.beat")
    assert str(inspect.signature(beat)) == "(loud: 'bool' = False) -> 'str'"
    assert get_type_hints(beat) == {"loud": bool, "return": str}
    assert inspect.unwrap(beat) is beat.__wrapped__
    assert inspect.isfunction(beat.__wrapped__)


def test_it_is_frozen(scheduler: Scheduler) -> None:
    """Another module that sets an attribute would change every task to come."""

    @scheduler.task
    def work() -> None: ...

    for name in ("name", "new", "_options"):
        with pytest.raises(FrozenInstanceError, match="frozen"):
            setattr(work, name, 1)
    with pytest.raises(FrozenInstanceError, match="frozen"):
        del work.__wrapped__
    with pytest.raises(TypeError, match=r"@scheduler\.task"):
        TaskFunction(work)
    assert copy.copy(work) is copy.deepcopy(work) is work


def test_schedule_has_it_run_once_with_arguments_and_declared_options(scheduler: Scheduler) -> None:
    tries: list[int] = []

    @scheduler.task(retry=Retry(3), tags=["a"], priority=7)
    def work(number: int, *, add: int = 0) -> int:
        tries.append(number)
        if len(tries) < 3:
            raise ValueError("not yet")
        return number + add

    scheduler.start()
    task = work.schedule(1, add=2)
    advance(scheduler, 3600)
    assert task.result() == 3
    assert tries == [1, 1, 1]
    assert (task.info.name, task.info.tags, task.info.priority) == ("work", ("a",), 7)


def test_options_are_of_one_call_and_are_added(scheduler: Scheduler) -> None:
    """Were they kept, the next caller would get the delay of the one before."""

    @scheduler.task(tags=["a"], priority=1)
    def work(what: str) -> None:
        told.append(what)

    scheduler.start()
    work.options(when=after(5)).options(id="x", priority=2).schedule("later")
    work.schedule("now")
    assert told == ["now"]
    info = scheduler.get("x")
    assert (info.tags, info.priority) == (("a",), 2)
    advance(scheduler, 5)
    assert told == ["now", "later"]
    with pytest.raises(
        TypeError, match=r"options\(\) got an unexpected keyword argument 'retries'; did you mean 'retry'"
    ):
        work.options(retries=3)  # type: ignore[call-arg]  # what is meant
    with pytest.raises(TypeError, match=r"'args'; arguments are given to schedule"):
        work.options(args=(1,))  # type: ignore[call-arg]  # what is meant


def test_an_iterator_among_the_options_holds_for_each_call(scheduler: Scheduler) -> None:
    """The check at the decoration would have emptied it, and the tasks would have no tags."""

    @scheduler.task(tags=(tag for tag in "ab"))
    def work() -> None: ...

    @scheduler.every(minutes=5, tags=iter("cd"))
    def beat() -> None: ...

    scheduler.start()
    later = work.options(tags=iter("ef"), when=after(5))
    found = [task.info.tags for task in (work.schedule(), work.schedule(), later.schedule(), later.schedule())]
    assert found == [("a", "b"), ("a", "b"), ("e", "f"), ("e", "f")]
    assert scheduler.get(beat.name).tags == ("c", "d")


def test_it_is_a_work_like_any_other_and_outputs_pass(scheduler: Scheduler) -> None:
    """`scheduler.schedule(f)`, as a callback, as a parent's child."""

    @scheduler.task
    def double(number: int) -> int:
        return 2 * number

    scheduler.start()
    first = double.schedule(4)
    second = scheduler.schedule(double, args=(first.output,))
    third = double.schedule(second.output)  # type: ignore[arg-type]  # an output stands for the int
    assert third.result() == 32


def test_the_traceback_of_a_failure_begins_with_the_users_code(scheduler: Scheduler) -> None:
    """The first frame that is read is theirs."""

    @scheduler.task
    def broken() -> None:
        raise ValueError("broken")

    scheduler.start()
    with pytest.raises(ValueError, match="broken") as caught:
        broken.schedule().result()
    names = [entry.name for entry in caught.traceback]
    assert names[-1] == "broken"
    assert "__call__" not in names


# Where it stands


def test_it_is_pickled_by_reference(scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process pool sends the work: only the name may travel, and the child finds the declared one under it."""
    text = """
@scheduler.task
def work(): return 1
def plain(): return 2
declared = scheduler.task(plain)
@scheduler.cron("0 1 * * *", id="one")
@scheduler.cron("0 2 * * *", id="two")
def twice(): return 3
class Shop:
    @scheduler.task
    @staticmethod
    def tidy(): return 4
"""
    shop = module(tmp_path, scheduler, "pickled_of_a_test", text, monkeypatch)
    assert pickle.loads(pickle.dumps(shop.work)) is shop.work
    assert pickle.loads(pickle.dumps(shop.declared)) is shop.plain
    assert pickle.loads(pickle.dumps(shop.twice)) is shop.twice
    assert pickle.loads(pickle.dumps(shop.twice._first)) is shop.twice
    assert pickle.loads(pickle.dumps(shop.Shop.tidy)) is shop.Shop.tidy
    assert [shop.Shop.tidy(), shop.Shop().tidy()] == [4, 4]
    local = scheduler.task(name="x")(lambda: 1)
    with pytest.raises(TypeError, match=r"<TaskFunction x> cannot be pickled"):
        pickle.dumps(local)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (len, "is no function"),
        (functools.partial(note, 1), "is no function; write a def, or give it to schedule"),
        (int, "is no function"),
        (17, "needs something to call"),
        (note.__get__(object()), "is no function"),
        (lambda: 1, r"a lambda has no name of its own; write a def, or give it one: name="),
    ],
)
def test_what_has_no_name_and_place_is_refused(scheduler: Scheduler, given: Any, why: str) -> None:
    """Its rows could not be read after a restart, and a clash could name no place."""
    with pytest.raises(ScheduleError, match=why):
        scheduler.task()(given)
    with pytest.raises(ScheduleError, match=why):
        scheduler.every(minutes=5)(given)


def test_what_a_call_would_not_run_is_refused_by_name(scheduler: Scheduler) -> None:
    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    @functools.wraps(coroutine)
    def wrapped() -> Any:
        return coroutine()

    for given in (coroutine, generator, wrapped):
        with pytest.raises(ScheduleError, match=r"coroutine|generator"):
            scheduler.task(given)
    assert scheduler._declared.named == {}


def test_methods_are_refused_and_static_ones_are_not(scheduler: Scheduler) -> None:
    """A method would be called without its object, at the first fire."""
    with pytest.raises(ScheduleError, match=r"Shop\.tidy \(.*test_decorators\.py:\d+\): .*is a method") as caught:

        class Shop:
            @scheduler.task
            def tidy(self) -> None: ...

    assert "above @staticmethod" in str(caught.value)

    class Store:
        @scheduler.every(minutes=5)
        @staticmethod
        def tidy() -> int:
            return 1

    assert Store.tidy() == Store().tidy() == 1
    assert Store.tidy.name.endswith("Store.tidy")

    class Twice:
        @scheduler.every(minutes=5, id="five")
        @scheduler.every(minutes=7, id="seven")
        @staticmethod
        def tidy() -> int:
            return 2

    assert Twice.tidy.schedule().id != Twice.tidy.id == "five"


def test_functions_that_others_have_wrapped_are_functions(scheduler: Scheduler) -> None:
    """`lru_cache`, a tracing decorator: the outermost is called, and the innermost has the place."""
    calls: list[int] = []

    @scheduler.task
    @functools.lru_cache
    def cached(number: int) -> int:
        calls.append(number)
        return number

    scheduler.start()
    assert [cached.schedule(1).result(), cached(1)] == [1, 1]
    assert calls == [1]


# Recurring


@in_memory_and_on_sqlite
def test_what_recurs_enters_at_the_start_and_counts_from_there(make: Make) -> None:
    """Written at import, it would fire in whatever program imports the module."""
    scheduler = make()

    @scheduler.every(minutes=5, id="beat", max_runs=2)
    def beat() -> None:
        told.append("beat")

    @scheduler.cron("30 14 * * *", args=("nightly",), tz="UTC", tags=["night"], name="night")
    def nightly(what: str) -> None:
        told.append(what)

    assert (beat.id, beat.name, nightly.id, nightly.name) == ("beat", f"{HERE}{beat.__qualname__}", "night", "night")
    assert scheduler.tasks() == []
    advance(scheduler, 200)
    with scheduler:
        assert [info.id for info in scheduler.tasks()] == ["beat", "night"]
        scheduler.start()
        assert len(scheduler.tasks()) == 2
        advance(scheduler, 299)
        assert told == []
        advance(scheduler, 1)
        assert told == ["beat"]
        advance(scheduler, 24 * HOUR_S)
        assert sorted(told) == ["beat", "beat", "nightly"]
        assert (scheduler.get("night").tags, scheduler.get("night").name) == (("night",), "night")
        assert scheduler.get("beat").name == "beat"


@in_memory_and_on_sqlite
def test_what_is_declared_after_the_start_enters_at_once(make: Make) -> None:
    with make() as scheduler:

        @scheduler.every(seconds=5)
        def beat() -> None:
            told.append("beat")

        assert [info.id for info in scheduler.tasks()] == [beat.name]
        advance(scheduler, 5)
    assert told == ["beat"]


@in_memory_and_on_sqlite
def test_a_recurring_function_runs_by_hand_without_what_is_about_its_fires(make: Make) -> None:
    """`overlap` of a single call is an error, and the caller has not said it."""
    scheduler = make()

    @scheduler.every(minutes=5, overlap="queue", catch_up="all", max_catch_up=3, tags=["a"], timeout=60, args=("fire",))
    def beat(what: str = "hand") -> str:
        told.append(what)
        return what

    with scheduler:
        task = beat.schedule()
        assert task.id != beat.id
        assert task.result() == "hand"
        assert task.info.tags == ("a",)
        advance(scheduler, 300)
        assert told == ["hand", "fire"]
        with pytest.raises(ScheduleError, match=r"one more by hand needs an id of its own"):
            beat.options(when=every(minutes=1)).schedule()
        beat.options(when=every(minutes=1), id="more").schedule("more")
        advance(scheduler, 60)
        assert told == ["hand", "fire", "more"]


def test_a_restart_keeps_next_fire_history_and_pause(house: House) -> None:
    """A daily task whose program is deployed every three hours would never run."""

    def program(scheduler: Scheduler) -> None:
        @scheduler.every(hours=24)
        def daily() -> None:
            told.append("daily")

        @scheduler.cron("0 * * * *", id="hourly")
        def hourly() -> None:
            told.append("hourly")

    with house.start(program) as scheduler:
        daily = next(info.id for info in scheduler.tasks() if info.id != "hourly")
        house.clock.advance(3 * HOUR_S)
        scheduler.pause("hourly", reason="quiet")
        next_fire = scheduler.get(daily).next_fire
    told.clear()
    with house.start(program) as scheduler:
        assert len(scheduler.tasks()) == 2
        assert scheduler.get(daily).next_fire == next_fire
        assert len([run for run in scheduler.runs("hourly") if run.state is State.SUCCEEDED]) == 3
        assert scheduler.get("hourly").paused
        house.clock.advance(21 * HOUR_S)
    assert told == ["daily"]


def test_nothing_is_written_before_the_start(house: House) -> None:
    """Nor by the check of what is declared: the file is the same to the byte, and no thread is there."""
    scheduler = house.make()

    def traces() -> list[object]:
        files = {path.name: path.read_bytes() for path in house.path.parent.iterdir()}
        return [files, threading.active_count()]

    before = traces()

    @scheduler.every(minutes=5, args=(1, [2]), on_failure=note)
    def beat(*what: object) -> None: ...

    @scheduler.task
    def work() -> None: ...

    beat(1)
    work()
    assert traces() == before
    with scheduler:
        assert [info.id for info in scheduler.tasks()] == [beat.id]


def test_rows_name_the_function_and_another_start_finds_it(house: House) -> None:
    """A call that waits over a restart, of a function that no module has under its name."""

    def program(scheduler: Scheduler) -> TaskFunction[[str], None]:
        @scheduler.task(name="greet")
        def greet(whom: str) -> None:
            told.append(whom)

        return greet

    scheduler = house.make()
    greet = program(scheduler)
    with scheduler:
        greet.options(when=after(60)).schedule("world")
        scheduler.schedule(greet.options(priority=1), after(70), args=("other",))
    house.clock.advance(100)
    with house.start(program):
        house.clock.advance(0)
    assert told == ["world", "other"]


def test_another_scheduler_stores_a_declared_function_as_its_module_has_it(
    house: House, tmp_path: Path, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module declares to one scheduler, and a program has a second one."""
    text = "said = []\n@scheduler.task(name='w')\ndef work(): said.append(1)\n"
    shop = module(tmp_path, scheduler, "shop_of_a_test", text, monkeypatch)
    with house.start() as other:
        other.schedule(shop.work, after(5))
    with house.start():
        house.clock.advance(5)
    assert shop.said == [1]


def test_in_main_a_row_needs_a_name(house: House, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """`__main__:work` would be another function in each program on the file."""

    def work() -> None: ...

    monkeypatch.setattr(work, "__module__", "__main__")
    assert scheduler.task(work).name.startswith("__main__:")
    durable = house.make()
    with pytest.raises(ScheduleError, match=r"__main__ is another module .*: name='work'"):
        durable.task(work)
    assert durable.task(name="work")(work).name == "work"
    durable.close()
