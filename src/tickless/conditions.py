"""Conditions that can never hold: found in a flow's definition, before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tickless.core.record import TaskRecord, run_if_of
from tickless.errors import DependencyError, shown
from tickless.states import RunIf

Needs = tuple[int, int]
"""What must hold for a task to run, as bits: who may not have failed, most having to succeed, and who must have."""
NOTHING: Needs = (0, 0)
FEW_WAYS = 8
"""So many ways in which a task may come to run are told apart."""


def check_conditions(flow: str, tasks: Sequence[TaskRecord]) -> None:
    """Raise DependencyError for a task that could never run: one task would have to fail and not to.

    `tasks`: parents before their children. Where there are more than a few ways for a task to come to run, only what
    all of them need is known. O(links), times the number of tasks that a condition wants failed, over the size of a
    word.
    """
    wanted = (parent for task in tasks if run_if_of(task) is RunIf.ANY_FAILED for parent in task._parents)
    bits = {parent: 1 << place for place, parent in enumerate(dict.fromkeys(wanted))}
    if not bits:
        return  # whatever succeeds lets all others run
    needs: dict[TaskRecord, list[Needs]] = {}
    for task in tasks:
        ways = _ways(task, needs, bits)
        able = [way for way in ways if not _clash(way)]
        if not able:
            _refuse(flow, task, min(ways, key=lambda way: _clash(way).bit_count()), list(bits))
        needs[task] = _few(able)


def _ways(task: TaskRecord, needs: dict[TaskRecord, list[Needs]], bits: dict[TaskRecord, int]) -> list[Needs]:
    """The ways in which a task may come to run, each by what it needs; those that contradict themselves among them."""
    run_if, parents = run_if_of(task), task._parents
    if run_if is RunIf.ANY_FAILED:
        return [way for parent in parents for way in _failing(parent, needs, bits)]
    if run_if is RunIf.ANY_SUCCEEDED:
        return [(succeeds | bits.get(parent, 0), fails) for parent in parents for succeeds, fails in needs[parent]]
    ways = [NOTHING]
    if run_if is RunIf.NONE_FAILED:
        for parent in parents:  # or it was cancelled or skipped: but it has not failed
            ways = [(ways[0][0] | bits.get(parent, 0), 0)]
    if run_if is RunIf.ALL_SUCCEEDED:
        for parent in parents:
            bit = bits.get(parent, 0)
            both = [(one[0] | two[0] | bit, one[1] | two[1]) for one in ways for two in needs[parent]]
            ways = _few([way for way in both if not _clash(way)])
            if not ways:
                return both
    return ways


def _failing(parent: TaskRecord, needs: dict[TaskRecord, list[Needs]], bits: dict[TaskRecord, int]) -> list[Needs]:
    """How a parent comes to count as failed. By itself, or skipped since another had failed, unless it wants that."""
    ways = needs[parent] if run_if_of(parent) is RunIf.ANY_FAILED else [NOTHING]
    return [(succeeds, fails | bits[parent]) for succeeds, fails in ways]


def _clash(way: Needs) -> int:
    """Who would have to fail and not to."""
    return way[0] & way[1]


def _few(ways: list[Needs]) -> list[Needs]:
    """The ways, or what all of them need where they are too many."""
    different = list(dict.fromkeys(ways))
    if len(different) <= FEW_WAYS:
        return different
    succeeds, fails = different[0]
    for way in different[1:]:
        succeeds &= way[0]
        fails &= way[1]
    return [(succeeds, fails)]


def _refuse(flow: str, task: TaskRecord, way: Needs, wanted: list[TaskRecord]) -> None:
    both = _clash(way).bit_length() - 1
    raise DependencyError(
        f"flow {flow}: {shown(task._name)} can never run: by its run_if={str(run_if_of(task))!r} and those of its "
        f"parents {shown(wanted[both]._name)} would have to fail and not to fail; change one of the conditions"
    )
