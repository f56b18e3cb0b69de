"""Outputs and their parts in the durable store: as text, over a restart, and where a row is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.stores.sql.house import House, fail, note, told
from tickless import OutputGone, PayloadError, Scheduler, State, after


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def rows_of(scheduler: Scheduler, id: str) -> Any:
    """The arguments of that task, as they are stored."""
    db: Any = scheduler._store.db  # type: ignore[attr-defined]
    return json.loads(db.execute("SELECT args FROM tasks WHERE id = ?", (id,)).fetchone()[0])


def test_parts_of_several_parents_are_taken_after_a_restart(house: House) -> None:
    """The parents ran in a process that is gone; one more has failed, and its part has a default."""
    with house.start() as scheduler:
        one = scheduler.schedule(note, after(10), args=({"rows": [{"x": 1}, {"x": (2,)}]},))
        two = scheduler.schedule(note, after(10), args=([5, 6],))
        broken = scheduler.schedule(fail, after(10))
        scheduler.schedule(note, after(100), args=(one.output["rows"][-1]["x"], [two.output[1]]), id="child")
        scheduler.schedule(
            note,
            after(200),
            args=(broken.output["rows"][0].or_else({"d": (1,)}), two.output[0].or_else(None)),
            id="other",
            run_if="all_done",
        )
        house.clock.advance(20)
    told.clear()
    with house.start():
        house.clock.advance(300)
    assert told == [((2,), [6]), ({"d": (1,)}, 5)]


def test_a_part_of_a_parent_that_has_ended_here_is_all_that_is_stored(house: House) -> None:
    """A fan-out over the parts of one big result stores each part once, and not the whole for each."""
    with house.start() as scheduler:
        parent = scheduler.schedule(note, args=({"rows": [7, "x" * 1000]},), id="parent")
        assert parent.state is State.SUCCEEDED
        scheduler.schedule(note, after(5), args=(parent.output["rows"][0],), id="child")
        assert rows_of(scheduler, "child")["a"] == [{"$": "output", "task": parent._seq, "value": 7}]
        house.clock.advance(5)
    assert told[-1] == 7


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_part_that_is_missing_fails_the_child_in_words(house: House, when: str) -> None:
    """It is the run that fails: the row is right, and is not set aside. The same where the parent has ended before."""
    with house.start() as scheduler:
        parent = scheduler.schedule(note, after(1), args=({"rows": [1]},), id="extract")
        if when == "after":
            house.clock.advance(1)
        child = scheduler.schedule(note, after(5), args=("never", parent.output["rows"][3]), id="child")
        house.clock.advance(6)
        assert child.state is State.FAILED
        with pytest.raises(
            OutputGone, match=r"task extract \(note\) has no part \['rows'\]\[3\]: \['rows'\] is a list of"
        ):
            child.result()
        assert scheduler.unusable() == {}
    assert told == [{"rows": [1]}]


def test_a_row_of_before_there_were_parts_reads_as_it_did(house: House) -> None:
    with house.start() as scheduler:
        parent = scheduler.schedule(note, after(10), args=({"rows": 1},))
        scheduler.schedule(note, after(20), args=(parent.output,), id="child")
        assert rows_of(scheduler, "child")["a"] == [{"$": "output", "task": parent._seq}]
        scheduler.schedule(note, after(20), args=(parent.output["rows"],), id="part")
        assert rows_of(scheduler, "part")["a"][0]["$"] == "part"  # which a version that knows no parts refuses


@pytest.mark.parametrize(
    "form",
    [
        {"$": "part", "task": 1, "whose": "x"},
        {"$": "part", "task": 1, "whose": "x", "path": "rows"},
        {"$": "part", "task": 1, "whose": "x", "path": [True]},
        {"$": "part", "task": 1, "whose": "x", "path": [["rows"]]},
        {"$": "part", "task": 1, "path": ["rows"]},
        {"$": "part", "path": ["rows"], "whose": "x"},
    ],
)
def test_a_damaged_part_sets_its_row_aside(house: House, form: dict[str, Any]) -> None:
    with house.start() as scheduler:
        parent = scheduler.schedule(note, after(10), args=({"rows": 1},))
        scheduler.schedule(note, after(20), args=(parent.output,), id="child")
    with house.start() as scheduler:
        db: Any = scheduler._store.db  # type: ignore[attr-defined]
        db.execute("UPDATE tasks SET args = ? WHERE id = 'child'", (json.dumps({"v": 1, "a": [form]}),))
        house.clock.advance(30)
        assert list(scheduler.unusable()) == ["child"]
    assert told == [{"rows": 1}]


def test_a_result_that_cannot_be_stored_fails_the_parent_though_the_part_could_be(house: House) -> None:
    """What a child needs is found in the whole result, which is what is stored of a task that ends before its child."""
    with house.start(works={"odd": lambda: {"rows": 1, "odd": object()}}) as scheduler:
        parent = scheduler.schedule(scheduler._durable.works.resolve("odd"), after(1), id="p")  # type: ignore[union-attr]
        child = scheduler.schedule(note, args=(parent.output["rows"],))
        house.clock.advance(1)
        with pytest.raises(PayloadError, match=r"the result of task p\['odd'\]"):
            parent.result()
        assert child.state is State.SKIPPED


def test_an_output_deep_inside_the_arguments_is_refused_by_name(house: House) -> None:
    """In memory it stays the object that it is; a row could only keep what nobody would fill in."""
    with house.start() as scheduler:
        parent = scheduler.schedule(note, after(10), args=(1,))
        for deep in ([[parent.output]], {"a": [parent.output["x"]]}, {parent.output}, [{"a": parent.output}]):
            with pytest.raises(PayloadError, match=r"<output.* deep inside the arguments: .* one level"):
                scheduler.schedule(note, args=(deep,))
            with pytest.raises(PayloadError, match="deep inside"):
                scheduler.schedule(note, kwargs={"a": deep, "b": parent.output})
        assert len(scheduler.tasks()) == 1


def test_keys_come_back_as_they_were(house: House) -> None:
    keys: list[str] = ["", "\ud800", "\n\x1b", "$", "ключ", "0"]
    with house.start() as scheduler:
        parent = scheduler.schedule(note, after(10), args=({**dict.fromkeys(keys, 1), 0: 2},))
        scheduler.schedule(
            note, after(20), args=([*(parent.output[key] for key in keys), parent.output[0]],), id="child"
        )
        with pytest.raises(PayloadError, match="4,300 digits"):
            scheduler.schedule(note, args=(parent.output[1 << 20_000],))
    with house.start():
        house.clock.advance(30)
    assert told[-1] == [1] * len(keys) + [2]
