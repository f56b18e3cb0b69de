"""What the rules share that count their fires over a gap: how far they count, and how the newest is found."""

from __future__ import annotations

from collections.abc import Callable

from tickless.instants import Instant

COUNT_LIMIT = 1_000
"""Up to here fires are counted one by one; more are "at least"."""


def newest(ask: Callable[[Instant], Instant | None], low: Instant, until: Instant) -> Instant:
    """The newest fire up to `until`, by bisection, from `low`, which is a fire. `ask` gives the first after an instant.

    It ends even for a rule that contradicts itself: each answer moves `low` up or `high` down.
    """
    high = until  # no fire lies in (high, until]
    while low < high:
        middle = Instant((low + high) // 2)
        fire = ask(middle)
        if fire is None or fire > until:
            high = middle
        else:
            low = fire
    return low
