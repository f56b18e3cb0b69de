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
        task._parents = tuple(tasks[parent] for parent in task._parents)
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


def test_a_child_knows_its_parents_by_their_keys() -> None:
    """A chain of a million would keep all its ancestors."""
    parent, child = batch({"parent": (), "child": ("parent",)})
    parent._seq = 1
    graph.link(child)
    assert (child._waiting, parent._children) == (1, [child])
    assert child._parents == ((1, "parent"),)
