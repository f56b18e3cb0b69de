"""What must hold of the rounds of `crash_program.py` after any crash, beside what holds of each of their tasks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.faults.crash_checks import Line, Story
from tests.properties.flow_model import Node, Part, verdict

NODES = (
    Node("first"),
    Node("retry", ("first",)),
    Node("taker", ("first",)),
    Node("cleanup", ("retry", "taker"), "any_failed"),
    Node("last", ("retry", "taker", "cleanup"), "all_done"),
)
ROUNDS = 2


class FlowStory(Story):
    """The story of the tasks of rounds, which have bodies; `flows` have none."""

    def __init__(self, lines: list[Line], said: dict[str, Any]) -> None:
        super().__init__(lines, {id: task for id, task in said.items() if "/" in id})
        self.flows = {id: task for id, task in said.items() if "/" not in id}

    def check(self) -> None:
        super().check()
        check_rounds(self)

    def crashed(self) -> list[str]:
        """Rounds, too, whose process died as it opened them."""
        opening = [id for id, flow in self.flows.items() for run in flow["runs"] if run["failed"]]
        return super().crashed() + opening


def check_rounds(story: FlowStory) -> None:
    rounds: dict[str, dict[str, Line]] = defaultdict(dict)
    for id, task in story.tasks.items():
        name, _, member = id.partition("/")
        rounds[name][member] = task
    for id, flow in story.flows.items():
        runs = [run for run in flow["runs"] if run["state"] != "skipped"]
        mine = {name: tasks for name, tasks in rounds.items() if name.startswith(f"{id}@")}
        assert len(runs) == len(mine) == ROUNDS, f"{id}: {len(runs)} runs, and the rounds {list(mine)}"
        states = sorted(_check_round(name, tasks, story) for name, tasks in mine.items())
        assert states == sorted(run["state"] for run in runs), f"{id}: {runs}, and its rounds are {states}"
        assert flow["state"] in states


def _check_round(name: str, tasks: dict[str, Line], story: Story) -> str:
    """Each task ended as its parents' ends say, and began after them. Gives how the round must have ended."""
    assert sorted(tasks) == sorted(node.name for node in NODES), f"{name} has {list(tasks)}"
    parts = {node.name: Part(node, tasks[node.name]["state"], tasks[node.name]["reason"]) for node in NODES}
    for node in NODES:
        answer = verdict(node.run_if, [parts[parent].kind for parent in node.parents], len(node.parents))
        part = parts[node.name]
        right = part.state in ("succeeded", "failed") if answer == "run" else part.reason == answer
        assert right, f"{name}/{node.name} is {part.state} ({part.reason}), and its parents say {answer}"
        begun = _places(story, f"{name}/{node.name}", "start")
        for parent in node.parents:
            if parts[parent].state == "succeeded" and node.run_if != "any_failed":  # that one may begin at the first
                ended = _places(story, f"{name}/{parent}", "end")
                assert not begun or ended[0] < begun[0], f"{name}/{node.name} began before {parent} had ended"
    given = [line["given"] for line in story.lines if line["task"] == f"{name}/taker" and line["what"] == "start"]
    assert set(given) <= {20}, f"{name}/taker was given {given}"
    return "failed" if "failed" in [part.state for part in parts.values()] else "succeeded"


def _places(story: Story, id: str, what: str) -> list[int]:
    return [n for n, line in enumerate(story.lines) if (line["task"], line["what"]) == (id, what)]
