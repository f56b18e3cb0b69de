"""An update that would have tasks wait for ever, and lanes of priorities that are used no more."""

from __future__ import annotations

import pytest

from tickless.core.ready import ReadyQueue
from tickless.errors import DependencyError
from tickless.records import SUCCESS
from tickless.rules import every
from tickless.states import State
from tickless.stores.memory import MemoryStore
from tickless.testing.drafts import NOON_US, draft


def test_a_task_that_others_wait_for_cannot_become_recurring() -> None:
    """It would never end, so its children would neither run nor be skipped."""
    store = MemoryStore()
    parent = draft(None, NOON_US, NOON_US, "p")
    child = draft(None, NOON_US, NOON_US, "c", parents=(parent,))
    store.add(parent, NOON_US)
    store.add(child, NOON_US)
    with pytest.raises(DependencyError, match="tasks wait for its end"):
        store.add_or("update", draft(every(seconds=1), NOON_US, NOON_US, "p"), NOON_US)
    store.open()
    store.due(NOON_US, NOON_US)
    run = store.take(NOON_US)
    assert run is not None
    store.finish(run, SUCCESS, NOON_US)
    assert store.get(child).state is State.READY


def test_priorities_that_are_used_no_more_cost_nothing() -> None:
    """Somebody gives deadlines as priorities: each run would look at every deadline there ever was."""
    queue = ReadyQueue()
    for priority in range(1_000):
        task = draft(None, NOON_US, NOON_US, priority=priority)
        queue.push(task)
        assert queue.take() is task
    assert len(queue._lanes) <= 2
