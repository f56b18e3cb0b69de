"""From tasks to what is scheduled: tasks that stand alone, and flows of those that `after_tasks` joins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from tickless.errors import shown
from tickless.taskfile.values import ABOUT_FIRES, FlowDef, Part, Problem, TaskDef


def parts_of(tasks: Sequence[TaskDef], defaults: Mapping[str, object]) -> tuple[tuple[Part, ...], list[Problem]]:
    """The parts, in the order of their first tasks; and what is wrong with how tasks are joined.

    `defaults`: options that were said of all tasks, and do not count where they do not fit.
    """
    by_name = {task.name: task for task in tasks}
    problems = [*_unknown(tasks, by_name), *_cycles(tasks, by_name)]
    if problems:
        return (), problems
    parts: list[Part] = []
    for group in _groups(tasks, by_name):
        if len(group) == 1:
            parts.append(_lone(group[0], defaults))
        else:
            parts.append(_flow(group, defaults, problems))
    return tuple(parts), problems


def _unknown(tasks: Sequence[TaskDef], by_name: Mapping[str, TaskDef]) -> Iterable[Problem]:
    for task in tasks:
        for name in task.after_tasks:
            if name == task.name:
                yield Problem(f"{task.place}.after_tasks", "a task cannot come after itself")
            elif name not in by_name:
                near = get_close_matches(name, by_name, n=1)
                hint = f' (did you mean "{near[0]}"?)' if near else ""
                yield Problem(f"{task.place}.after_tasks", f'no task named "{name}"{hint}')


def _cycles(tasks: Sequence[TaskDef], by_name: Mapping[str, TaskDef]) -> Iterable[Problem]:
    graph = {task.name: [name for name in task.after_tasks if name in by_name and name != task.name] for task in tasks}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        path = list(reversed(error.args[1]))
        first = by_name[path[0]]
        yield Problem(f"{first.place}.after_tasks", f"each waits for the next, in a circle: {' -> '.join(path)}")


def _groups(tasks: Sequence[TaskDef], by_name: Mapping[str, TaskDef]) -> list[list[TaskDef]]:
    """Those that are joined, in the order of the file."""
    joined: dict[str, set[str]] = {task.name: set(task.after_tasks) for task in tasks}
    for task in tasks:
        for name in task.after_tasks:
            joined[name].add(task.name)
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


def _lone(task: TaskDef, defaults: Mapping[str, object]) -> TaskDef:
    if task.when is not None and task.when.recurring:
        return task
    return _without(task, [key for key in ABOUT_FIRES if key != "tags" and _is_default(task, key, defaults)])


def _is_default(task: TaskDef, key: str, defaults: Mapping[str, object]) -> bool:
    return key in defaults and task.options.get(key) == defaults[key]


def _without(task: TaskDef, keys: Iterable[str]) -> TaskDef:
    return replace(task, options={key: value for key, value in task.options.items() if key not in set(keys)})


def _flow(group: list[TaskDef], defaults: Mapping[str, object], problems: list[Problem]) -> FlowDef:
    roots = [task for task in group if not task.after_tasks]
    timed = [task for task in group if task.when is not None]
    for task in timed:
        if task.after_tasks:
            problems.append(
                Problem(
                    f"{task.place}.when",
                    f"it comes after {', '.join(map(shown, task.after_tasks))}, and has the time of that; leave it out",
                )
            )
    first = next((task for task in roots if task.when is not None), roots[0])
    for task in timed:
        if not task.after_tasks and task.when != first.when:
            problems.append(
                Problem(
                    f"{task.place}.when",
                    f"{task.name} and {first.name} are joined by after_tasks, and have two times; give both the same",
                )
            )
    return FlowDef(first.name, first.when, _flow_options(group, first, defaults, problems), _ordered(group, first))


def _flow_options(
    group: list[TaskDef], first: TaskDef, defaults: Mapping[str, object], problems: list[Problem]
) -> dict[str, object]:
    for task in group:
        for key in ABOUT_FIRES:
            if key == "tags":
                continue
            if task is not first and key in task.options and not _is_default(task, key, defaults):
                problems.append(Problem(f"{task.place}.{key}", f"is about the time of {first.name}: say it there"))
    recurs = first.when is not None and first.when.recurring
    return {
        key: value
        for key, value in first.options.items()
        if key in ABOUT_FIRES and (recurs or key == "tags" or not _is_default(first, key, defaults))
    }


def _ordered(group: list[TaskDef], first: TaskDef) -> tuple[TaskDef, ...]:
    """Parents before their children, else in the order of the file."""
    others = [key for key in ABOUT_FIRES if key != "tags"]
    left = [_without(task, ABOUT_FIRES if task is first else others) for task in group]
    done: set[str] = set()
    order: list[TaskDef] = []
    while left:
        ready = next(task for task in left if done.issuperset(task.after_tasks))
        left.remove(ready)
        done.add(ready.name)
        order.append(replace(ready, when=None, when_text=None))
    return tuple(order)
