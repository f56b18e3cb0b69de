"""The records that somebody holds, by number: one a task, however often its row is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ref

from tickless.core.record import TaskRecord

SLACK = 1024


class Alive:
    """As a WeakValueDictionary, but without a call for each record that dies, which is what that costs most by.

    The places of dead ones are swept out when there are twice as many as there were records at the last time.
    """

    __slots__ = ("_refs", "_sweep_above")

    def __init__(self) -> None:
        self._refs: dict[int, ref[TaskRecord]] = {}
        self._sweep_above = SLACK

    def __len__(self) -> int:
        """Places, those of the dead included."""
        return len(self._refs)

    def get(self, seq: int) -> TaskRecord | None:
        """The record of that task, if anybody holds it."""
        one = self._refs.get(seq)
        return None if one is None else one()

    def put(self, task: TaskRecord) -> None:
        """This is the record of its task from now on."""
        refs = self._refs
        refs[task._seq] = ref(task)
        if len(refs) > self._sweep_above:
            self._sweep()

    def put_many(self, tasks: Iterable[TaskRecord]) -> None:
        self._refs.update([(task._seq, ref(task)) for task in tasks])
        if len(self._refs) > self._sweep_above:
            self._sweep()

    def _sweep(self) -> None:
        self._refs = {seq: one for seq, one in self._refs.items() if one() is not None}
        self._sweep_above = 2 * len(self._refs) + SLACK
