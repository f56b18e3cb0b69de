"""The timeline: all that has a time, in one heap of ints.

An entry is `at << 40 | seq`, so that one comparison of two ints orders by instant and then by the order of scheduling,
and no user object is ever compared. Taking an entry out of the middle is lazy: the task forgets its entry, and the int
stays behind as an orphan until it surfaces, or until orphans outnumber the living and the heap is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from tickless.instants import Instant

SEQ_BITS = 40
SEQ_MASK = (1 << SEQ_BITS) - 1
SLACK = 64


class Timeline:
    """Entries and how many of them live. Every method is O(log n) or better, but for rebuild: O(n), rarely."""

    __slots__ = ("heap", "live")

    def __init__(self) -> None:
        self.heap: list[int] = []
        self.live = 0

    def __len__(self) -> int:
        """Entries held, orphans included."""
        return len(self.heap)

    def push(self, at: Instant, seq: int) -> int:
        """Place `seq` at `at`; gives the entry, by which the task owns its place."""
        entry = (at << SEQ_BITS) | seq
        heappush(self.heap, entry)
        self.live += 1
        return entry

    def extend(self, entries: list[int]) -> None:
        """Place many at once: one heapify where that costs less than the pushes."""
        heap = self.heap
        if len(entries) * 4 > len(heap):
            heap.extend(entries)
            heapify(heap)
        else:
            for entry in entries:
                heappush(heap, entry)
        self.live += len(entries)

    def orphan(self, lives: Callable[[int], bool]) -> None:
        """One entry lost its task. A million cancel-and-reschedule must not hold a million entries: see rebuild."""
        self.live -= 1
        if len(self.heap) > 2 * self.live + SLACK:
            self.rebuild(lives)

    def rebuild(self, lives: Callable[[int], bool]) -> None:
        """Drop the orphans. A set, since a task re-placed at its old instant leaves an equal entry behind."""
        self.heap[:] = {entry for entry in self.heap if lives(entry)}
        heapify(self.heap)

    def pop_until(self, now: Instant) -> int | None:
        """The earliest entry at or before `now`, taken out; None when nothing is due. May be an orphan."""
        heap = self.heap
        if heap and heap[0] < (now + 1) << SEQ_BITS:
            return heappop(heap)
        return None

    def head(self, lives: Callable[[int], bool]) -> Instant | None:
        """The instant of the earliest living entry. Orphans on top go, so that none ever causes a wake-up."""
        heap = self.heap
        while heap:
            if lives(heap[0]):
                return Instant(heap[0] >> SEQ_BITS)
            heappop(heap)
        return None
