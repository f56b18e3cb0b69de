"""Threads that a test left behind."""

from __future__ import annotations

import threading
from collections.abc import Collection

OURS = "tickless"
"""What the name of each thread begins with that the library starts."""


def leaked_threads(before: Collection[threading.Thread], grace_s: float = 5.0) -> list[str]:
    """The names of our threads that run and did not run `before`, sorted.

    One that is on its way out gets `grace_s` seconds: `close` may be called from a thread that it cannot join.
    """
    new = [thread for thread in threading.enumerate() if thread.name.startswith(OURS) and thread not in before]
    for thread in new:
        thread.join(grace_s)
    return sorted(thread.name for thread in new if thread.is_alive())
