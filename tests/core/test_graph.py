"""Links and cycles."""

from __future__ import annotations

import sys

import pytest

from tickless.core import graph
from tickless.core.record import TaskRecord
from tickless.core.registry import Registry
from tickless.errors import DependencyError
from tickless.testing.drafts import NOON_US, draft


def batch(links: dict[str, tuple[str, ...]]) -> list[TaskRecord]:
    """Tasks by name, each with the names of its parents turned into tasks."""
    tasks = {id: draft(None, NOON_US, NOON_US, id, parents=parents) for id, parents in links.items()}
    for task in tasks.values():
        if task.more is not None:
            task.more.parents = tuple(tasks[parent] for parent in task.more.parents)
    return list(tasks.values())


def ring(size: int) -> list[TaskRecord]:
    return batch({f"t{n}": (f"t{(n + 1) % size}",) for n in range(size)})


@pytest.mark.parametrize(
    "links",
    [
        {},
        {"a": ()},
        {"a": (), "b": ("a",)},
        {"b": ("a",), "a": ()},
        {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")},
        {"d": ("c", "b", "a"), "c": ("b", "a"), "b": ("a",), "a": ()},
    ],
)
def test_what_has_no_cycle_is_let_in(links: dict[str, tuple[str, ...]]) -> None:
    """A diamond is no cycle, and neither is a list that begins at its end."""
    graph.check_acyclic(batch(links))


def test_a_cycle_of_two_is_named_in_full() -> None:
    """The message is the whole search for the mistake."""
    with pytest.raises(DependencyError, match=r"t0 -> t1 -> t0 is a cycle.*take one of these"):
        graph.check_acyclic(ring(2))


def test_a_cycle_of_three_behind_a_harmless_head_is_named_without_the_head() -> None:
    """What leads into the cycle is not part of it."""
    links = {"head": ("a",), "a": ("b",), "b": ("c",), "c": ("a",), "d": ()}
    with pytest.raises(DependencyError) as caught:
        graph.check_acyclic(batch(links))
    assert "head" not in str(caught.value)
    assert "a -> b -> c -> a" in str(caught.value)


def test_a_cycle_of_5000_is_found_without_recursion_and_told_in_short() -> None:
    """Five times the depth at which Python gives up, and a message of a line."""
    assert sys.getrecursionlimit() < 5_000
    with pytest.raises(DependencyError) as caught:
        graph.check_acyclic(ring(5_000))
    assert "more ..." in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_chain_of_5000_is_let_in_whichever_end_comes_first() -> None:
    """Long is not wrong."""
    links: dict[str, tuple[str, ...]] = {"t0": (), **{f"t{n}": (f"t{n - 1}",) for n in range(1, 5_000)}}
    graph.check_acyclic(batch(links))
    graph.check_acyclic(batch(links)[::-1])


def test_a_cycle_is_refused_by_the_registry_before_anything_changes() -> None:
    """All or nothing."""
    registry = Registry(10)
    tasks = [draft(None, NOON_US, NOON_US, id, parents=(other,)) for id, other in (("a", "b"), ("b", "a"))]
    with pytest.raises(DependencyError):
        registry.admit_many(tasks)
    assert not registry.live
    assert not registry.named


def test_links_that_are_forgotten_leave_ids() -> None:
    """A chain of a million would keep all its ancestors."""
    parent, child = batch({"parent": (), "child": ("parent",)})
    assert child.more is not None
    graph.link(child, child.more)
    assert child.more.waiting == 1
    for task in (parent, child):
        assert task.more is not None
        graph.forget_links(task.more)
    assert parent.more is not None
    assert (child.more.parents, parent.more.kin, parent.more.children) == (("parent",), ("child",), None)
