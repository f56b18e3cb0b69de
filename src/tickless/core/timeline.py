"""The timeline: all that has a time, in one heap of ints.

An entry is `at << 40 | seq`, so that one comparison of two ints orders by instant and then by the order of scheduling,
and no user object is ever compared. Taking an entry out of the middle is lazy: the task forgets its entry, and the int
stays behind as an orphan until it surfaces, or until orphans outnumber the living and the heap is rebuilt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from tickless.core.record import SEQ_BITS, SEQ_MASK, TaskRecord
from tickless.instants import Instant

SLACK = 64
FEW = 16
"""So few entries that are due are popped one by one, whatever the others are."""


class Timeline:
    """Entries and how many of them live. Every method is O(log n) or better, but for rebuild: O(n), rarely."""

    __slots__ = ("heap", "is_sorted", "live")

    def __init__(self) -> None:
        self.heap: list[int] = []
        self.live = 0
        self.is_sorted = False
        """True while the heap is known to be sorted throughout, so that a flood need not be sorted for each batch."""

    def __len__(self) -> int:
        """Entries held, orphans included."""
        return len(self.heap)

    def push(self, at: Instant, seq: int) -> int:
        """Place `seq` at `at`; gives the entry, by which the task owns its place."""
        entry = (at << SEQ_BITS) | seq
        heappush(self.heap, entry)
        self.live += 1
        self.is_sorted = False
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
        self.is_sorted = False

    def prune(self, tasks: Mapping[int, TaskRecord]) -> None:
        """Rebuild when orphans outnumber the living: a million cancel-and-reschedule must not hold a million entries.

        To be called when an entry lost its task, and after a pass, which takes the living and leaves orphans.
        """
        if len(self.heap) > 2 * self.live + SLACK:
            self.rebuild(tasks)

    def rebuild(self, tasks: Mapping[int, TaskRecord]) -> None:
        """Drop the orphans. A set, since a task re-placed at its old instant leaves an equal entry behind."""
        find = tasks.get
        self.heap[:] = {
            entry for entry in self.heap if (task := find(entry & SEQ_MASK)) is not None and task._entry == entry
        }
        heapify(self.heap)
        self.is_sorted = False

    def pop_due(self, now: Instant, limit: int) -> list[int]:
        """The entries at or before `now`, in order and taken out, at most `limit`. There may be orphans among them."""
        heap = self.heap
        bound = (now + 1) << SEQ_BITS
        if len(heap) > FEW and heap[FEW] < bound and (self.is_sorted or self._is_flood(bound)):
            # A sorted list is a heap too, and sorting what came in order costs one look at each.
            if not self.is_sorted:
                heap.sort()
                self.is_sorted = True
            due = heap[: bisect_left(heap, bound, 0, min(limit, len(heap)))]
            del heap[: len(due)]
            return due
        due = []
        while heap and heap[0] < bound and len(due) < limit:
            due.append(heappop(heap))
        self.is_sorted = False
        return due

    def _is_flood(self, bound: int) -> bool:
        """Whether most of the entries are due, by a sample: then sorting all costs less than popping those."""
        sample = self.heap[:: len(self.heap) // 64 + 1]
        return 2 * sum(entry < bound for entry in sample) > len(sample)

    def head(self, tasks: Mapping[int, TaskRecord]) -> Instant | None:
        """The instant of the earliest living entry. Orphans on top go, so that none ever causes a wake-up."""
        heap = self.heap
        while heap:
            entry = heap[0]
            task = tasks.get(entry & SEQ_MASK)
            if task is not None and task._entry == entry:
                return Instant(entry >> SEQ_BITS)
            heappop(heap)
            self.is_sorted = False
        return None
