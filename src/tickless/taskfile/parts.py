"""From tasks to what is scheduled: tasks that stand alone, and flows of those that `after_tasks` joins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from tickless.errors import shown
from tickless.options import Owner
from tickless.taskfile.fit import Clash, fitting
from tickless.taskfile.places import near
from tickless.taskfile.values import ABOUT_FIRES, OF_FLOW, FlowDef, Part, Problem, TaskDef

Own = Mapping[str, Collection[str]]
"""Task -> the options that were said of itself, and not of all tasks."""


def parts_of(
    tasks: Sequence[TaskDef], own: Own, owner: Owner, unread: Set[str] = frozenset()
) -> tuple[tuple[Part, ...], list[Problem]]:
    """The parts, in the order of their first tasks; and what is wrong with how tasks are joined.

    `unread`: tasks of which something could not be read, so that what they contradict is not known.
    """
    by_name = {task.name: task for task in tasks}
    problems = [*_unknown(tasks, by_name), *_cycles(tasks, by_name)]
    broken = bool(problems)
    parts: list[Part] = []
    for group in _groups(tasks, by_name):
        making = _Making(group, own, owner, unread, problems)
        if len(group) == 1 and not group[0].after_tasks:
            parts.append(making.lone())
        elif making.flow_fits() and not broken:
            parts.append(making.flow())
    return tuple(parts), problems


def fitted(tasks: Sequence[TaskDef], parts: Iterable[Part]) -> tuple[TaskDef, ...]:
    """The tasks as they stand in the file, each with the options that it has in its part."""
    options: dict[str, Mapping[str, object]] = {}
    for part in parts:
        if isinstance(part, FlowDef):
            options |= {task.name: task.options for task in part.tasks}
            options[part.id] = {**part.options, **options[part.id]}
        else:
            options[part.name] = part.options
    return tuple(replace(task, options=options[task.name]) for task in tasks)


def _unknown(tasks: Sequence[TaskDef], by_name: Mapping[str, TaskDef]) -> Iterator[Problem]:
    for task in tasks:
        for name in task.after_tasks:
            if name == task.name:
                yield Problem(f"{task.place}.after_tasks", "a task cannot come after itself")
            elif name not in by_name:
                hint = near(name, [other for other in by_name if other != task.name])
                yield Problem(f"{task.place}.after_tasks", f'no task named "{name}"{hint}')


def _cycles(tasks: Sequence[TaskDef], by_name: Mapping[str, TaskDef]) -> Iterator[Problem]:
    graph = {task.name: {name for name in task.after_tasks if name in by_name and name != task.name} for task in tasks}
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            path = list(reversed(error.args[1]))
            yield Problem(
                f"{by_name[path[0]].place}.after_tasks", f"each waits for the next, in a circle: {' -> '.join(path)}"
            )
            graph[path[0]].discard(path[1])  # and on to the next circle
        else:
            return


def _groups(tasks: Sequence[TaskDef], by_name: Mapping[str, TaskDef]) -> list[list[TaskDef]]:
    """Those that are joined, in the order of the file."""
    joined: dict[str, set[str]] = {task.name: by_name.keys() & set(task.after_tasks) for task in tasks}
    for name, before in list(joined.items()):
        for other in list(before):
            joined[other].add(name)
    seen: set[str] = set()
    groups = []
    for task in tasks:
        if task.name in seen:
            continue
        group, left = {task.name}, [task.name]
        while left:
            for name in joined[left.pop()] - group:
                group.add(name)
                left.append(name)
        seen |= group
        groups.append([one for one in tasks if one.name in group])
    return groups


class _Making:
    """One part in the making: collects what is wrong on its way."""

    def __init__(self, group: list[TaskDef], own: Own, owner: Owner, unread: Set[str], problems: list[Problem]) -> None:
        self._group = group
        self._own = own
        self._owner = owner
        self._unread = unread
        self._problems = problems
        roots = [task for task in group if not task.after_tasks] or group
        self._first = next((task for task in roots if task.when is not None), roots[0])

    def lone(self) -> TaskDef:
        task = self._group[0]
        return replace(task, options=self._fitting(task, task.options))

    def flow_fits(self) -> bool:
        """Whether the times of its tasks go together."""
        before = len(self._problems)
        for task in self._group:
            self._check_when(task)
            if task is not self._first and self._unread.isdisjoint(one.name for one in self._group):
                for key in ABOUT_FIRES:
                    if key in self._own[task.name]:
                        said = f"is about the time of {self._first.name}: say it there"
                        self._problems.append(Problem(f"{task.place}.{key}", said))
        return len(self._problems) == before

    def flow(self) -> FlowDef:
        first = self._first
        options = self._fitting(first, {key: first.options[key] for key in OF_FLOW if key in first.options})
        tasks = [self._task(task) for task in _ordered(self._group)]
        return FlowDef(first.name, first.when, options, tuple(tasks))

    def _task(self, task: TaskDef) -> TaskDef:
        ours = OF_FLOW if task.name == self._first.name else ABOUT_FIRES
        single = {key: value for key, value in task.options.items() if key not in ours}
        alone = replace(task, when=None, when_text=None)
        return replace(alone, options=self._fitting(alone, single))

    def _check_when(self, task: TaskDef) -> None:
        place, first = f"{task.place}.when", self._first
        if task.when_text is None:
            return
        if task.after_tasks:
            before = ", ".join(map(shown, task.after_tasks))
            self._problems.append(Problem(place, f"it comes after {before}, and has the time of that; leave it out"))
        elif task.when is not None and task.when != first.when:
            said = f"{task.name} and {first.name} are joined by after_tasks, and have two times; give both the same"
            self._problems.append(Problem(place, said))

    def _fitting(self, task: TaskDef, options: Mapping[str, object]) -> dict[str, object]:
        if task.name in self._unread:
            return dict(options)
        try:
            return fitting(self._owner, options, task.when, self._own[task.name], task.when_text)
        except Clash as clash:
            self._problems.append(clash.problem(task.place))
            return dict(options)


def _ordered(group: Iterable[TaskDef]) -> list[TaskDef]:
    """Parents before their children, else in the order of the file."""
    left = list(group)
    done: set[str] = set()
    order: list[TaskDef] = []
    while left:
        ready = next(task for task in left if done.issuperset(task.after_tasks))
        left.remove(ready)
        done.add(ready.name)
        order.append(ready)
    return order
