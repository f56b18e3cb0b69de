"""Who is listed, under which id, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from tickless.core.record import RunRecord, TaskRecord
from tickless.core.registry import SLACK, Registry
from tickless.errors import DependencyError, DuplicateId, UnknownTask
from tickless.rules import every
from tickless.states import State
from tickless.testing.drafts import NOON_US, draft


def listed(registry: Registry, seq: int, id: str | None = None, *, ended: bool = False) -> TaskRecord:
    """A task as the machine enters it."""
    task = draft(None, NOON_US, NOON_US, id)
    task._seq = seq
    if id is not None:
        registry.named[id] = task
    if ended:
        task._run = RunRecord(task, NOON_US, State.SUCCEEDED)
        registry.finished.append(task)
    else:
        registry.live[seq] = task
    return task


@pytest.mark.parametrize("keep", [0, 1, 7])
def test_a_trim_keeps_exactly_the_newest(keep: int) -> None:
    """One more each time is a leak; one less, and `keep_finished=1` lists nothing."""
    registry = Registry(keep)
    for seq in range(20):
        listed(registry, seq, f"t{seq}", ended=True)
    registry.trim()
    assert [task._seq for task in registry.finished] == list(range(20 - keep, 20))
    assert sorted(registry.named) == sorted(f"t{seq}" for seq in range(20 - keep, 20))


def test_a_trim_takes_no_id_from_the_task_that_has_it_now() -> None:
    """The old one was replaced; forgetting it must not make the new one unfindable."""
    registry = Registry(0)
    listed(registry, 1, "a", ended=True)
    new = listed(registry, 2, "a")
    registry.trim()
    assert registry.find("a") is new


def test_a_worker_asks_for_a_trim_only_now_and_then() -> None:
    """Each end would cost the lock."""
    registry = Registry(5)
    for seq in range(5 + SLACK):
        listed(registry, seq, ended=True)
    assert not registry.overfull
    listed(registry, 999, ended=True)
    assert registry.overfull


def test_an_id_is_free_again_once_its_task_is_forgotten_and_not_before() -> None:
    """A nightly `schedule(id="backup")` must work every night, and not twice in one."""
    registry = Registry(1)
    listed(registry, 1, "a", ended=True)
    with pytest.raises(DuplicateId, match=r"'a'.*exists="):
        registry.admit(draft(None, NOON_US, NOON_US, "a"))
    listed(registry, 2, "b", ended=True)
    registry.admit(draft(None, NOON_US, NOON_US, "a"))


def test_a_task_without_an_id_is_found_by_its_number() -> None:
    """Live and finished; and a number is no way to one that has an id."""
    registry = Registry(10)
    live, ended, named = listed(registry, 1), listed(registry, 2, ended=True), listed(registry, 3, "a")
    assert registry.find("#1") is live
    assert registry.find("#2") is ended
    assert registry.find("a") is named
    for id in ("#3", "#4", "#", "# 1", "#-1", "#1.0", "#²", "1", ""):
        with pytest.raises(UnknownTask, match="keep_finished=10"):
            registry.find(id)


class Ending(TaskRecord):
    """While its number is looked at, a worker ends another task: that takes no lock."""

    __slots__ = ()

    @property
    def _seq(self) -> int:
        if ENDED_MEANWHILE:
            REGISTRIES[0].finished.append(ENDED_MEANWHILE.pop())
        seq: int = _SEQ.__get__(self, TaskRecord)
        return seq

    @_seq.setter
    def _seq(self, seq: int) -> None:
        _SEQ.__set__(self, seq)


_SEQ: Any = TaskRecord.__dict__["_seq"]
REGISTRIES: list[Registry] = []
ENDED_MEANWHILE: list[TaskRecord] = []


@pytest.mark.parametrize("wanted", ["#2", "#3", "nobody"])
def test_a_task_is_found_by_its_number_while_workers_end_others(wanted: str) -> None:
    """In life: `get("#3")` on a page of the status, and once a week "deque mutated during iteration"."""
    registry = Registry(10)
    tasks = [listed(registry, seq, ended=True) for seq in (1, 2, 3)]
    tasks[0].__class__ = Ending
    REGISTRIES[:] = [registry]
    ENDED_MEANWHILE[:] = [draft(None, NOON_US, NOON_US)]
    if wanted == "nobody":
        with pytest.raises(UnknownTask, match="#99"):
            registry.find("#99")
    else:
        assert registry.find(wanted) is tasks[int(wanted[1:]) - 1]
    assert not ENDED_MEANWHILE


def test_parents_are_turned_into_tasks_each_once() -> None:
    """Named by id and given as a handle is still one parent; counted twice it would never be let go."""
    registry = Registry(10)
    parent = listed(registry, 1, "a")
    child = draft(None, NOON_US, NOON_US, parents=("a", parent, "a"))
    registry.admit(child)
    assert child._parents == (parent,)


def test_a_recurring_parent_is_refused_and_one_that_has_ended_is_not() -> None:
    """Which of its runs would count? Once it has ended, there is no question."""
    registry = Registry(10)
    beat = draft(every(seconds=1), NOON_US, NOON_US, "beat")
    beat._seq = 1
    registry.named["beat"] = registry.live[1] = beat
    with pytest.raises(DependencyError, match=r"'beat' is recurring.*Flow"):
        registry.admit(draft(None, NOON_US, NOON_US, parents=("beat",)))
    beat._rule = None
    beat._run = RunRecord(beat, NOON_US, State.CANCELLED)
    registry.admit(draft(None, NOON_US, NOON_US, parents=("beat",)))


def test_the_listing_is_in_the_order_of_scheduling() -> None:
    """Not in that of ending."""
    registry = Registry(10)
    for seq, ended in ((3, True), (1, True), (2, False)):
        listed(registry, seq, ended=ended)
    assert [task._seq for task in registry.listing()] == [1, 2, 3]
