"""The timeline: all that has a time, in one heap of ints.

An entry is `at << 40 | seq`, so that one comparison of two ints orders by instant and then by the order of scheduling,
and no user object is ever compared. Taking an entry out of the middle is lazy: the task forgets its entry, and the int
stays behind as an orphan until it surfaces, or until orphans outnumber the living and the heap is rebuilt.

When most of the heap is due at once, what is due is sorted once and put aside: the flood. It is taken from its end,
batch by batch, and what is placed meanwhile goes into the heap and comes in its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Protocol

from tickless.core.record import SEQ_BITS, SEQ_MASK, TaskRecord
from tickless.instants import Instant


class Alarm(Protocol):
    """The owner of an entry that belongs to no task: a timeout, the end of a pause, a limit that frees up."""

    seq: int
    """Of the same count as tasks' numbers."""
    _entry: int | None
    """Its place in the timeline, None when it is not armed."""

    def ring(self, now: Instant, wall: Instant) -> None:
        """Its time has come. Called once each time it was armed, under the store's lock, so it is our own code."""


SLACK = 64
FEW = 16
"""So few entries that are due are popped one by one, whatever the others are."""


class Timeline:
    """Entries and how many of them live. Every method is O(log n) or better, but for rebuild: O(n), rarely."""

    __slots__ = ("alarms", "flood", "heap", "live")

    def __init__(self) -> None:
        self.alarms: dict[int, Alarm] = {}
        """By number; numbers are of the same count as tasks'."""
        self.heap: list[int] = []
        self.flood: list[int] = []
        """Entries that were found due, the earliest last."""
        self.live = 0

    def __len__(self) -> int:
        """Entries held, orphans included."""
        return len(self.heap) + len(self.flood)

    def push(self, at: Instant, seq: int) -> int:
        """Place `seq` at `at`; gives the entry, by which the task owns its place."""
        entry = (at << SEQ_BITS) | seq
        heappush(self.heap, entry)
        self.live += 1
        return entry

    def arm(self, alarm: Alarm, at: Instant) -> None:
        """Have the alarm ring at `at`, and at no other instant that was said before."""
        if alarm._entry is None:
            self.live += 1
        seq = alarm.seq
        self.alarms[seq] = alarm
        alarm._entry = entry = (at << SEQ_BITS) | seq
        heappush(self.heap, entry)

    def disarm(self, alarm: Alarm) -> None:
        """It will not ring. Twice is once."""
        if alarm._entry is not None:
            alarm._entry = None
            del self.alarms[alarm.seq]
            self.live -= 1

    def taken_alarm(self, entry: int) -> Alarm | None:
        """The alarm that this entry, which has come up, is the place of; it is armed no more."""
        alarm = self.alarms.get(entry & SEQ_MASK)
        if alarm is None or alarm._entry != entry:
            return None
        self.disarm(alarm)
        return alarm

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

    def would_be_first(self, at: Instant, seq: int) -> bool:
        """Whether nothing that is held comes before this."""
        entry = (at << SEQ_BITS) | seq
        return (not self.heap or entry < self.heap[0]) and (not self.flood or entry < self.flood[-1])

    def prune(self, tasks: Mapping[int, TaskRecord]) -> None:
        """Rebuild when orphans outnumber the living: a million cancel-and-reschedule must not hold a million entries.

        To be called when an entry lost its task, and after a pass, which takes the living and leaves orphans.
        """
        if len(self.heap) + len(self.flood) > 2 * self.live + SLACK:
            self.rebuild(tasks)

    def rebuild(self, tasks: Mapping[int, TaskRecord]) -> None:
        """Drop the orphans. A set, since a task re-placed at its old instant leaves an equal entry behind."""
        find, find_alarm = tasks.get, self.alarms.get
        self.heap[:] = {
            entry
            for entry in (*self.heap, *self.flood)
            if (owner := find(entry & SEQ_MASK) or find_alarm(entry & SEQ_MASK)) is not None and owner._entry == entry
        }
        self.flood.clear()
        heapify(self.heap)

    def pop_due(self, now: Instant, limit: int) -> list[int]:
        """The entries at or before `now`, in order and taken out, at most `limit`. There may be orphans among them.

        `now` never goes back, so the flood is due whenever this is asked.
        """
        heap, flood = self.heap, self.flood
        bound = (now + 1) << SEQ_BITS
        if not flood and len(heap) > FEW and heap[FEW] < bound and self._is_flood(bound):
            self._set_aside(bound)
        due = flood[: -limit - 1 : -1]
        if due:
            del flood[-limit:]
            if heap and heap[0] < due[-1]:
                self._mix_in(due, limit)
        while len(due) < limit and heap and heap[0] < bound:
            due.append(heappop(heap))
        return due

    def _is_flood(self, bound: int) -> bool:
        """Whether most of the entries are due, by a sample: then sorting all that are costs less than popping each."""
        sample = self.heap[:: len(self.heap) // 64 + 1]
        return 2 * sum(entry < bound for entry in sample) > len(sample)

    def _set_aside(self, bound: int) -> None:
        heap, flood = self.heap, self.flood
        flood += [entry for entry in heap if entry < bound]
        flood.sort(reverse=True)
        heap[:] = [entry for entry in heap if entry >= bound]
        heapify(heap)

    def _mix_in(self, due: list[int], limit: int) -> None:
        """What was placed since the flood was set aside, and comes before the last of these, takes its turn."""
        heap, last = self.heap, due[-1]
        while heap and heap[0] < last:
            due.append(heappop(heap))
        due.sort()
        self.flood += due[: limit - 1 : -1]
        del due[limit:]

    def head(self, tasks: Mapping[int, TaskRecord]) -> Instant | None:
        """The instant of the earliest living entry. Orphans on top go, so that none ever causes a wake-up."""
        heap, flood = self.heap, self.flood
        while flood and not self._lives(flood[-1], tasks):
            flood.pop()
        while heap and not self._lives(heap[0], tasks):
            heappop(heap)
        first = min(heap[:1] + flood[-1:], default=None)
        return None if first is None else Instant(first >> SEQ_BITS)

    def _lives(self, entry: int, tasks: Mapping[int, TaskRecord]) -> bool:
        seq = entry & SEQ_MASK
        owner = tasks.get(seq) or self.alarms.get(seq)
        return owner is not None and owner._entry == entry
