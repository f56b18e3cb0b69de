"""Conditions that can never hold: found in a flow's definition, before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tickless.core.record import TaskRecord, run_if_of
from tickless.errors import DependencyError, shown
from tickless.states import RunIf

Needs = tuple[int, int]
"""What must hold for a task to run, as bits: who may not have failed, most having to succeed, and who must have."""
NOTHING: Needs = (0, 0)


def check_conditions(flow: str, tasks: Sequence[TaskRecord]) -> None:
    """Raise DependencyError for a task that could never run: one task would have to fail and not to.

    `tasks`: parents before their children. What several parents may bring about, one or the other, is known as far as
    all of them need it. O(links), times the number of tasks that a condition wants failed, over the size of a word.
    """
    wanted = (parent for task in tasks if run_if_of(task) is RunIf.ANY_FAILED for parent in task._parents)
    bits = {parent: 1 << place for place, parent in enumerate(dict.fromkeys(wanted))}
    if not bits:
        return  # whatever succeeds lets all others run
    needs: dict[TaskRecord, Needs] = {}
    for task in tasks:
        ways = _ways(task, needs, bits)
        if ways and all(succeeds & fails for succeeds, fails in ways):
            _refuse(flow, task, min(ways, key=lambda way: (way[0] & way[1]).bit_count()), list(bits))
        needs[task] = _common([way for way in ways if not way[0] & way[1]]) if ways else NOTHING


def _ways(task: TaskRecord, needs: dict[TaskRecord, Needs], bits: dict[TaskRecord, int]) -> list[Needs]:
    """The ways in which a task may come to run, each by what it needs; none where it needs nothing."""
    run_if, parents = run_if_of(task), task._parents
    if run_if is RunIf.ANY_FAILED:
        return [_failing(parent, needs, bits) for parent in parents]
    succeeding = [(needs[parent][0] | bits.get(parent, 0), needs[parent][1]) for parent in parents]
    if run_if is RunIf.ANY_SUCCEEDED:
        return succeeding
    if run_if is RunIf.ALL_SUCCEEDED and parents:
        succeeds = fails = 0
        for one in succeeding:
            succeeds |= one[0]
            fails |= one[1]
        return [(succeeds, fails)]
    if run_if is RunIf.NONE_FAILED:
        succeeds = 0
        for parent in parents:
            succeeds |= bits.get(parent, 0)  # or was cancelled or skipped: but it has not failed
        return [(succeeds, 0)]
    return []


def _failing(parent: TaskRecord, needs: dict[TaskRecord, Needs], bits: dict[TaskRecord, int]) -> Needs:
    """What a parent needs to count as failed. By itself, or skipped since another had failed, unless it wants that."""
    succeeds, fails = needs[parent] if run_if_of(parent) is RunIf.ANY_FAILED else NOTHING
    return succeeds, fails | bits[parent]


def _common(ways: list[Needs]) -> Needs:
    succeeds, fails = ways[0]
    for way in ways[1:]:
        succeeds &= way[0]
        fails &= way[1]
    return succeeds, fails


def _refuse(flow: str, task: TaskRecord, way: Needs, wanted: list[TaskRecord]) -> None:
    both = (way[0] & way[1]).bit_length() - 1
    raise DependencyError(
        f"flow {flow}: {shown(task._name)} can never run: by its run_if={str(run_if_of(task))!r} and those of its "
        f"parents {shown(wanted[both]._name)} would have to fail and not to fail; change one of the conditions"
    )
