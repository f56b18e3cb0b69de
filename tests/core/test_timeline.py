"""The heap: order, orphans, bounds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickless.core.record import SEQ_BITS, TaskRecord
from tickless.core.timeline import SLACK, Timeline
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant
from tickless.testing.drafts import NOON_US, draft


class Placed:
    """A timeline and its tasks."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.tasks: dict[int, TaskRecord] = {}

    def place(self, at: int) -> TaskRecord:
        task = draft(None, NOON_US, NOON_US)
        task._seq = len(self.tasks) + 1
        task._entry = self.timeline.push(Instant(at), task._seq)
        self.tasks[task._seq] = task
        return task

    def unplace(self, task: TaskRecord) -> None:
        task._entry = None
        self.timeline.live -= 1
        self.timeline.prune(self.tasks)

    def due(self, now: int, limit: int = 1_000_000) -> list[int]:
        """The numbers of what is due, orphans left out."""
        entries = self.timeline.pop_due(Instant(now), limit)
        owners = [(self.tasks[entry & (1 << SEQ_BITS) - 1], entry) for entry in entries]
        return [task._seq for task, entry in owners if task._entry == entry]


@given(st.lists(st.integers(-5, 5), max_size=40), st.integers(-6, 6), st.integers(1, 50))
def test_what_is_due_comes_by_instant_and_then_as_it_was_placed(ats: list[int], now: int, limit: int) -> None:
    """And no user's object is ever compared: equal instants are told apart by number. Before 1970 as well."""
    placed = Placed()
    for at in ats:
        placed.place(at)
    expected = [seq for at, seq in sorted((at, seq) for seq, at in enumerate(ats, 1)) if at <= now]
    got: list[int] = []
    while some := placed.due(now, limit):
        got += some
    assert got == expected
    assert len(placed.timeline) == len(ats) - len(expected)


@pytest.mark.parametrize("at", [MIN_INSTANT, -1, 0, 1, NOON_US, MAX_INSTANT])
def test_an_entry_is_due_at_its_instant_and_not_a_microsecond_before(at: int) -> None:
    """From the year 1 to the year 9999."""
    placed = Placed()
    task = placed.place(at)
    assert placed.due(at - 1) == []
    assert placed.timeline.head(placed.tasks) == at
    assert placed.due(at) == [task._seq]


def test_an_orphan_on_top_causes_no_wake_up() -> None:
    """The dispatcher would wake for each timeout that was taken back."""
    placed = Placed()
    first, _ = placed.place(1), placed.place(2)
    placed.unplace(first)
    assert placed.timeline.head(placed.tasks) == 2
    assert len(placed.timeline) == 1


def test_a_million_placed_and_taken_back_hold_no_more_than_the_slack() -> None:
    """Lazy deletion without a rebuild is a leak. (A tenth of a million, which is the same.)"""
    placed = Placed()
    for _ in range(10):
        placed.place(10**9)
    most = 0
    for at in range(100_000):
        placed.unplace(placed.place(at))
        most = max(most, len(placed.timeline))
    assert most <= 2 * 10 + SLACK + 2
    assert placed.timeline.live == 10


def test_a_task_that_is_placed_again_at_its_old_instant_is_there_once() -> None:
    """It leaves an equal entry behind, which would live again: two fires of one occurrence."""
    placed = Placed()
    task = placed.place(5)
    placed.unplace(task)
    task._entry = placed.timeline.push(Instant(5), task._seq)
    placed.timeline.rebuild(placed.tasks)
    assert placed.timeline.heap == [task._entry]


@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_many_at_once_are_as_one_by_one(before: list[int], many: list[int]) -> None:
    """Whichever way is cheaper."""
    one, other = Timeline(), Timeline()
    for seq, at in enumerate(before):
        one.push(Instant(at), seq)
        other.push(Instant(at), seq)
    entries = [at << SEQ_BITS | len(before) + n for n, at in enumerate(many)]
    one.extend(entries)
    for n, at in enumerate(many):
        other.push(Instant(at), len(before) + n)
    assert one.live == other.live == len(one) == len(other)
    assert one.pop_due(Instant(9), 100) == other.pop_due(Instant(9), 100)


class Counted(int):
    """An entry that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: object) -> bool:
        type(self).compared += 1
        return int.__lt__(self, other)  # type: ignore[operator]  # entries are compared with entries


@pytest.mark.parametrize("due", [1, 16, 17, 100])
def test_a_few_that_are_due_cost_the_same_among_many_that_are_not(due: int) -> None:
    """In life: a million timeouts far away, and one ping a second; sorting the million for each ping takes the core."""
    many = 20_000
    timeline = Timeline()
    numbers = list(range(1, many))
    random.Random(7).shuffle(numbers)
    timeline.extend([Counted((1_000 + at) << SEQ_BITS | seq) for seq, at in enumerate(numbers)])
    timeline.extend([Counted(at << SEQ_BITS | many + at) for at in range(due)])
    Counted.compared = 0
    assert len(timeline.pop_due(Instant(500), 1_024)) == due
    assert Counted.compared <= 100 + due * 2 * many.bit_length()


def test_a_flood_is_sorted_once() -> None:
    """All are due: popping each costs the depth of the heap, and this is the path of a hundred thousand at once."""
    many = 20_000
    timeline = Timeline()
    timeline.extend([Counted(at << SEQ_BITS | at) for at in range(many)])
    Counted.compared = 0
    taken: list[int] = []
    while due := timeline.pop_due(Instant(many), 1_024):
        taken += due
    assert taken == [at << SEQ_BITS | at for at in range(many)]
    assert Counted.compared <= 2.1 * many


def test_a_flood_is_not_sorted_again_for_what_is_placed_meanwhile() -> None:
    """In life: after a suspend all is due, and each run schedules its next one."""
    many = 20_000
    timeline = Timeline()
    numbers = list(range(many))
    random.Random(7).shuffle(numbers)
    timeline.extend([Counted(at << SEQ_BITS | at) for at in numbers])
    taken = timeline.pop_due(Instant(many), 1_024)
    Counted.compared = 0
    for turn in range(18):
        timeline.push(Instant(taken[-1] >> SEQ_BITS), many + turn)  # at the instant of the last one, so it is the next
        due = timeline.pop_due(Instant(many), 1_024)
        assert (len(due), due[0] & (1 << SEQ_BITS) - 1) == (1_024, many + turn)
        assert due == sorted(due)
        taken = due
    assert Counted.compared <= 60_000


@given(
    st.lists(st.integers(0, 30), min_size=20, max_size=60),
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=40),
    st.integers(1, 9),
)
def test_a_flood_with_inserts_and_cancels_comes_in_order(
    ats: list[int], later: list[tuple[int, bool]], limit: int
) -> None:
    """As a plain sorted list would give it, whatever comes and goes between two batches."""
    placed, now = Placed(), 20
    held = {(at, placed.place(at)._seq) for at in ats}
    for at, cancels in later:
        if cancels and held:
            at, seq = min(held)
            held.discard((at, seq))
            placed.unplace(placed.tasks[seq])
        else:
            held.add((at, placed.place(at)._seq))
        head = placed.timeline.head(placed.tasks)
        assert head == (min(held)[0] if held else None)
        right = [seq for at, seq in sorted(held) if at <= now]
        entries = placed.timeline.pop_due(Instant(now), limit)
        got = [entry & (1 << SEQ_BITS) - 1 for entry in entries]
        living = [seq for seq in got if placed.tasks[seq]._entry in entries]
        assert living == right[: len(living)]
        assert living or not right or entries
        for seq in living:
            placed.tasks[seq]._entry = None
            placed.timeline.live -= 1
        held = {(at, seq) for at, seq in held if seq not in living}
        assert len(placed.timeline) >= len(held)
