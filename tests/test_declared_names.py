"""A name and an id belong to one place. A clash names both; a module that is executed again is none."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.declaring import Make, advance, in_memory_and_on_sqlite, maker, module, still
from tests.stores.sql.house import House, note, told
from tickless import (
    DuplicateId,
    ScheduleError,
    Scheduler,
    every,
)

HERE = f"{__name__}:"
BEAT = """
@scheduler.every(minutes=5)
def beat(): return "first"
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    yield from still()


@pytest.fixture
def make(kept: str, house: House) -> Make:
    return maker(kept, house)


def test_a_clash_names_both_places(scheduler: Scheduler) -> None:
    """Which of two files has it, a reader would have to look for."""

    @scheduler.every(minutes=5, name="one", id="a")
    def first() -> None: ...

    def second() -> None: ...

    def place(function: Any) -> str:
        return f"{function.__qualname__} ({__file__}:{inspect.unwrap(function).__code__.co_firstlineno})"

    with pytest.raises(ScheduleError) as caught:
        scheduler.task(name="one")(second)
    assert str(caught.value).startswith(place(second))
    assert f"the name 'one' is declared already, by {place(first)}; give one of them name=" in str(caught.value)
    with pytest.raises(DuplicateId) as caught:
        scheduler.every(minutes=5, id="a")(second)
    assert str(caught.value).startswith(place(second))
    assert f"the id 'a' is declared already, by {place(first)}; give one of them id=" in str(caught.value)
    scheduler.start()
    assert [info.id for info in scheduler.tasks()] == ["a"]


def test_a_loop_that_declares_is_a_clash(scheduler: Scheduler) -> None:
    """All but the last would be lost without a word."""

    def declare_one(id: str | None = None) -> None:
        @scheduler.every(minutes=5, **({} if id is None else {"id": id, "name": id}))  # type: ignore[arg-type]  # as said
        def beat() -> None: ...

    declare_one()
    with pytest.raises(ScheduleError, match="is declared already"):
        declare_one()
    declare_one("a")
    declare_one("b")
    assert len(scheduler._declared.waiting) == 3


def test_a_function_may_be_declared_twice_under_two_ids(scheduler: Scheduler) -> None:
    with pytest.raises(DuplicateId, match=r"the id 'beat' is declared already, by .*give one of them id="):

        @scheduler.every(minutes=5)
        @scheduler.every(minutes=7, name="beat")
        @scheduler.every(minutes=9, id="beat", name="beat")
        def clash() -> None: ...

    @scheduler.every(minutes=5, id="five")
    @scheduler.every(minutes=7, id="seven")
    @scheduler.task(tags=["by hand"])
    def both() -> None:
        told.append("both")

    scheduler.start()
    assert {"five", "seven"} <= {info.id for info in scheduler.tasks()}
    assert both.id == "five"
    told.clear()
    advance(scheduler, 7 * 60)
    assert told == ["both", "both"]


def test_a_function_declared_twice_is_one_work_of_a_durable_store(house: House) -> None:
    def program(scheduler: Scheduler) -> None:
        @scheduler.every(minutes=5, id="five")
        @scheduler.every(minutes=7, id="seven")
        def both() -> None:
            told.append("both")

    for _ in range(2):
        with house.start(program) as scheduler:
            assert scheduler.unusable() == {}
            house.clock.advance(7 * 60)
    assert told == ["both"] * 4


def test_functions_of_one_name_in_two_modules_have_two_names(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = module(tmp_path, scheduler, "one_of_a_test", BEAT, monkeypatch)
    two = module(tmp_path, scheduler, "two_of_a_test", BEAT, monkeypatch)
    assert [one.beat.id, two.beat.id] == ["one_of_a_test:beat", "two_of_a_test:beat"]
    with pytest.raises(DuplicateId, match=r"beat \(.*three_of_a_test\.py:3\): .*by beat \(.*one_of_a_test\.py:3\)"):
        module(
            tmp_path, scheduler, "three_of_a_test", BEAT.replace("minutes=5", "minutes=5, id='one_of_a_test:beat'"),
            monkeypatch,
        )  # fmt: skip


@in_memory_and_on_sqlite
@pytest.mark.parametrize("started", [False, True])
def test_a_module_that_is_loaded_again_replaces_what_it_declared(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    """`importlib.reload`, after an edit that moved the lines. What it declared before must neither stay nor clash."""
    scheduler = make()
    text = "@scheduler.every(minutes=5)\ndef beat(): said.append('first')\nsaid = []\n"
    shop = module(tmp_path, scheduler, "loaded_of_a_test", text, monkeypatch)
    if started:
        scheduler.start()
    (tmp_path / "loaded_of_a_test.py").write_text(
        "from desk_of_a_test import scheduler\n# a line more\n"
        "@scheduler.every(minutes=2)\ndef beat(): said.append('second')\nsaid = []\n",
        "utf-8",
    )
    importlib.reload(shop)
    with scheduler:
        assert [info.id for info in scheduler.tasks()] == ["loaded_of_a_test:beat"]
        advance(scheduler, 5 * 60)
        assert shop.said == ["second", "second"]
        shop.beat.schedule()
    assert shop.said == ["second"] * 3


def test_two_functions_of_one_name_in_a_module_are_a_clash_and_not_a_reload(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied, and its name forgotten: the first would never run."""
    with pytest.raises(
        ScheduleError, match=r"beat \(.*copied_of_a_test\.py:6\): .*by beat \(.*copied_of_a_test\.py:3\)"
    ):
        module(tmp_path, scheduler, "copied_of_a_test", BEAT + BEAT, monkeypatch)


def test_an_id_of_a_task_that_was_scheduled_by_hand_is_told_at_the_start_with_the_place(scheduler: Scheduler) -> None:
    """In memory it is a mistake. The start may be tried again, and the others have not entered meanwhile."""
    by_hand = scheduler.schedule(note, every(hours=1), id="beat")

    @scheduler.every(minutes=5)
    def other() -> None: ...

    @scheduler.every(minutes=5, id="beat")
    def beat() -> None: ...

    for _ in range(2):
        with pytest.raises(DuplicateId, match=r"<locals>\.beat \(.*: the id 'beat' is that of a task"):
            scheduler.start()
        assert [info.id for info in scheduler.tasks()] == ["beat"]
        assert scheduler.phase == "new"
    by_hand.cancel()
    del by_hand
    for number in range(1001):  # so that it is forgotten
        scheduler.schedule(note, id=f"n{number}").cancel()
    scheduler.start()
    assert {"beat", other.id} <= {info.id for info in scheduler.tasks()}


def test_what_a_module_declares_no_more_after_it_was_loaded_again_does_not_enter(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id was changed: under the old one the old function would run, beside the new."""
    text = "@scheduler.every(minutes=5, id='old')\n@scheduler.every(minutes=7, id='seven')\ndef beat(): ...\n"
    shop = module(tmp_path, scheduler, "changed_of_a_test", text, monkeypatch)
    (tmp_path / "changed_of_a_test.py").write_text(
        f"from desk_of_a_test import scheduler\n{text.replace('old', 'new')}", "utf-8"
    )
    importlib.reload(shop)
    scheduler.start()
    assert sorted(info.id for info in scheduler.tasks()) == ["new", "seven"]


def test_a_function_of_a_module_that_declares_when_it_is_called_is_no_reload(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a module that is executed may replace what it declared."""
    text = """
@scheduler.task(name="x")
def work(): ...
def more():
    @scheduler.task(name="x")
    def other(): ...
"""
    shop = module(tmp_path, scheduler, "calling_of_a_test", text, monkeypatch)
    with pytest.raises(ScheduleError, match=r"other \(.*py:6\): .*by work \("):
        shop.more()


def test_one_file_under_two_names_and_two_files_under_one_are_clashes(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that is also imported by name, and two `conftest`: both are there, and neither is the other anew."""
    text = "@scheduler.task(name='x')\ndef work(): ...\n"
    module(tmp_path, scheduler, "script_of_a_test", text, monkeypatch)
    file = str(tmp_path / "script_of_a_test.py")
    code = f"from desk_of_a_test import scheduler\n{text}"
    for name, path in (("__main__", file), ("script_of_a_test", str(tmp_path / "other.py"))):
        with pytest.raises(ScheduleError, match=r"the name 'x' is declared already, by work \(.*script_of"):
            exec(compile(code, path, "exec"), {"__name__": name})
    again: dict[str, object] = {"__name__": "script_of_a_test"}
    exec(compile(code, file, "exec"), again)  # taken out of sys.modules, and imported again
    exec(compile(code, "<cell 7>", "exec"), again)
    with pytest.raises(ScheduleError, match=r"by work \(<cell 7>:2\)"):
        exec(compile(code, file, "exec"), {"__name__": "script_of_a_test"})
