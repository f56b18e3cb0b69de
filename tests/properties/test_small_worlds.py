"""The small worlds, for each body of the memory store."""

from __future__ import annotations

from tests.properties.small_worlds import SHAPES, all_small_worlds, drafts_of
from tickless.stores.memory import MemoryStore


def test_every_promise_holds_in_every_small_world() -> None:
    """What three tasks and five verbs can break is found here whatever the luck of the draw."""
    assert all_small_worlds() > 10_000


def test_every_promise_holds_in_every_small_world_without_the_gil() -> None:
    """There takes and finishes go under the lock, which is another way through the store."""
    assert all_small_worlds(lambda: MemoryStore(always_hold=True), verbs_each=4) > 4_000


def test_every_way_to_wait_for_one_another_is_among_them() -> None:
    """Three tasks, of which each may wait for those before it: eight sets of links, six but for the names."""
    links = [(0, 1), (0, 2), (1, 2)]
    found = set()
    for choice in range(8):
        chosen = [link for bit, link in enumerate(links) if choice >> bit & 1]
        degrees = sorted((sum(p == n for p, _ in chosen), sum(c == n for _, c in chosen)) for n in range(3))
        found.add(tuple(degrees))
    assert len(found) == len(SHAPES) == 6
    assert sum(1 for shape in SHAPES for _ in drafts_of(shape)) == 1 + 5 + 25 + 5 + 25 + 25
