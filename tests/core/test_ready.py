"""The ready queue: its order, and that a task goes to one of those who want it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickless.core.ready import SLACK, ReadyQueue
from tickless.core.record import TaskRecord
from tickless.testing.drafts import NOON_US, draft


def ready_task(priority: int = 0) -> TaskRecord:
    return draft(None, NOON_US, NOON_US, priority=priority)


def taken(queue: ReadyQueue) -> list[TaskRecord]:
    tasks = []
    while (task := queue.take()) is not None:
        tasks.append(task)
    return tasks


@given(st.lists(st.integers(-2, 2), max_size=40))
def test_higher_priority_comes_first_and_then_what_came_first(priorities: list[int]) -> None:
    """The order that was promised, whatever else is going on."""
    queue = ReadyQueue()
    tasks = [ready_task(priority) for priority in priorities]
    for task in tasks:
        queue.push(task)
    assert len(queue) == len(tasks)
    by_priority = sorted(range(len(tasks)), key=lambda n: (-priorities[n], n))
    assert taken(queue) == [tasks[n] for n in by_priority]
    assert len(queue) == 0


def test_a_task_is_taken_or_claimed_and_never_both() -> None:
    """A cancel that says CANCELLED while a worker starts the run."""
    queue = ReadyQueue()
    first, second = ready_task(), ready_task()
    queue.push(first)
    queue.push(second)
    assert queue.claim(first)
    assert not queue.claim(first)
    assert queue.take() is second
    assert not queue.claim(second)
    assert queue.take() is None


@given(st.lists(st.tuples(st.integers(-1, 1), st.booleans()), max_size=300))
def test_who_is_left_after_many_claims_comes_in_order(draws: list[tuple[int, bool]]) -> None:
    """The lanes are swept now and then: nobody may get lost, or lose his turn."""
    queue = ReadyQueue()
    kept: list[tuple[int, int, TaskRecord]] = []
    for number, (priority, stays) in enumerate(draws):
        task = ready_task(priority)
        queue.push(task)
        if stays:
            kept.append((-priority, number, task))
        else:
            assert queue.claim(task)
    assert taken(queue) == [task for _, _, task in sorted(kept, key=lambda entry: entry[:2])]


def test_a_hundred_thousand_claimed_leave_nothing_behind() -> None:
    """All scheduled for now, all cancelled, no worker looks: the lanes must not keep them."""
    queue = ReadyQueue()
    for number in range(10_000):
        task = ready_task(number % 3)
        queue.push(task)
        queue.claim(task)
        assert sum(len(lane) for lane in queue._lanes.values()) <= SLACK + 2
