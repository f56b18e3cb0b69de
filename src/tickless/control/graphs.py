"""A graph as a document: nodes, and edges from parents to children."""

from __future__ import annotations

from collections.abc import Iterable

from tickless.control.documents import Document
from tickless.control.subject import Subject
from tickless.records import TaskInfo
from tickless.round import Round
from tickless.verbs import steps_of


def task_graph(subject: Subject, infos: Iterable[TaskInfo]) -> Document:
    """Of tasks that are listed; parents that are forgotten are left out. Below each flow are its steps."""
    infos = list(infos)
    there = {info.id for info in infos}
    nodes: list[Document] = []
    edges = [[parent, info.id] for info in infos for parent in info.parents if parent in there]
    for info in infos:
        kind = "flow" if info.is_flow else "task"
        nodes.append({"id": info.id, "name": info.name, "kind": kind, "state": str(info.state)})
        if info.is_flow:
            steps = flow_graph(subject, info, None)
            nodes += [{**step, "id": f"{info.id}/{step['id']}"} for step in steps["nodes"]]
            later = {child for _, child in steps["edges"]}
            edges += [[info.id, f"{info.id}/{step['id']}"] for step in steps["nodes"] if step["id"] not in later]
            edges += [[f"{info.id}/{parent}", f"{info.id}/{child}"] for parent, child in steps["edges"]]
    return {"of": None, "nodes": nodes, "edges": edges}


def flow_graph(subject: Subject, info: TaskInfo | None, round_: Round | None) -> Document:
    """Of a round, or of a flow as it is defined, with the states of its newest round."""
    if round_ is None and info is not None:
        newest = subject.newest_round(info.id)
        states = {} if newest is None else {task.name: str(task.state) for task in newest.info.tasks}
        steps, of = steps_of(subject.scheduler, info), info.id
    else:
        assert round_ is not None
        shown = round_.info
        states = {task.name: str(task.state) for task in shown.tasks}
        steps, of = [(task.name, task.parents) for task in shown.tasks], shown.id
    return {
        "of": of,
        "nodes": [{"id": name, "name": name, "kind": "task", "state": states.get(name)} for name, _ in steps],
        "edges": [[parent, name] for name, parents in steps for parent in parents],
    }
