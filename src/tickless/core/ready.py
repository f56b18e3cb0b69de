"""The ready queue: tasks that are due and wait for room. By priority, then by the order of becoming ready.

Two structures on purpose. The lanes give the order; `claims` decides who gets a task: whoever pops it from that dict
has it, be it a worker that takes or a caller that cancels. Both pops are single atomic steps of the interpreter, which
is why a worker needs no lock to take. See tests/races.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from tickless.core.record import QUEUED, TaskRecord

SLACK = 64
TURN = 64
"""While several lanes hold tasks, every so many takes serve one of the lower: no priority starves another for ever."""


class ReadyQueue:
    """`push` and `claim` are called under the store's lock, `take` and `len` are not."""

    __slots__ = ("_lanes", "_order", "_takes", "claims")

    def __init__(self) -> None:
        self.claims: dict[TaskRecord, bool] = {}
        self._lanes: dict[int, deque[TaskRecord]] = {}
        self._order: tuple[deque[TaskRecord], ...] = ()
        self._takes = 0
        """How often a task was taken since there are several lanes."""

    def __len__(self) -> int:
        return len(self.claims)

    def push(self, task: TaskRecord) -> None:
        """Make the task ready, at the end of its lane. The claim comes first: without one it would be taken for gone.

        The lane is there before the state is: a Ctrl-C between the last three lines would leave one that none can take.
        """
        priority = task._priority
        lane = self._lanes.get(priority)
        if lane is None:
            # Lanes that ran empty go, lest every priority that was ever used be looked at for each run.
            self._lanes = {p: lane for p, lane in self._lanes.items() if lane}
            lane = self._lanes[priority] = deque()
            self._order = tuple(self._lanes[p] for p in sorted(self._lanes, reverse=True))
        append = lane.append
        task._run = QUEUED
        self.claims[task] = True
        append(task)

    def push_first(self, task: TaskRecord) -> None:
        """Make the task ready, at the head of its lane: for one that takes the turn of another."""
        self.push(task)
        lane = self._lanes[task._priority]
        with suppress(IndexError):  # a worker has come by, who takes from the other end
            if lane[-1] is task:
                lane.appendleft(lane.pop())

    def take(self) -> TaskRecord | None:
        """The next task, which now is the caller's alone; None when there is none."""
        claims, order = self.claims, self._order
        if len(order) > 1:
            order = self._in_turn(order)
        for lane in order:
            while lane:
                try:
                    task = lane.popleft()
                except IndexError:  # another worker was quicker
                    break
                if claims.pop(task, False):
                    return task
        return None

    def _in_turn(self, order: tuple[deque[TaskRecord], ...]) -> tuple[deque[TaskRecord], ...]:
        """The lanes from the highest priority down; but every 64th time one of the lower, in turn, comes first.

        Workers may count the same take or lose one: a turn more or less is no harm.
        """
        self._takes += 1
        if self._takes % TURN:
            return order
        waiting = [lane for lane in order[1:] if lane]
        if not waiting:
            return order
        return (waiting[self._takes // TURN % len(waiting)], *order)

    def claim(self, task: TaskRecord) -> bool:
        """Take this task out, wherever it stands; False when a worker has it already. Its place is orphaned."""
        if not self.claims.pop(task, False):
            return False
        if sum(map(len, self._order)) > 2 * len(self.claims) + SLACK:
            self.sweep()
        return True

    def sweep(self) -> None:
        """Drop the orphaned places: of who is to be ready once more, lest it stands in its old place, too."""
        if sum(map(len, self._order)) == len(self.claims):
            return
        # A worker may pop from an old lane meanwhile: it is refused by `claims` or it has the run, never both.
        for priority, lane in self._lanes.items():
            self._lanes[priority] = deque(other for other in lane.copy() if other in self.claims)
        self._order = tuple(self._lanes[p] for p in sorted(self._lanes, reverse=True))


class PoolState:
    """What is ready for a pool, and the runs in it that timed out and go on."""

    __slots__ = ("queue", "zombies")

    def __init__(self) -> None:
        self.queue = ReadyQueue()
        self.zombies = 0
