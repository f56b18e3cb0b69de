"""Where a test can have the process die. Nothing is armed outside of tests, and a point costs one look."""

from __future__ import annotations

from collections.abc import Callable

POINTS = (
    "begin.before",  # nothing was asked of the file
    "begin.after",  # this process alone may write
    "work.after",  # all verbs have been, and nothing is written
    "write.after",  # written, and not committed
    "commit.after",  # committed, and nobody was told
    "told.after",  # waiters, observers and other processes know
    "take.after",  # runs were taken, and no worker has one
    "start.before",  # a worker has a run, and has not begun it
    "finish.before",  # a run has ended, and the store does not know
    "finish.after",  # it is noted, and maybe not committed
    "join.after",  # this process is known to the others
    "recover.after",  # the runs of a dead process were found, and nothing is written
    "renew.before",
    "renew.after",
)
"""Every point, in the order in which a run comes by."""
armed: Callable[[str], object] | None = None
"""Called at each point by its name."""


def reach(point: str) -> None:
    if armed is not None:
        armed(point)
