"""`graph`: what waits for what, as a tree of text, as Mermaid, or as DOT."""

from __future__ import annotations

import click

from tickless.cli.page import Page
from tickless.cli.settings import looks, settings
from tickless.cli.sources import source_of
from tickless.control.documents import Document
from tickless.control.refusals import Code, Refusal
from tickless.observe.text import printable

MERMAID, DOT = "mermaid", "dot"
_COLOURS = {
    "succeeded": "#9fd8a4",
    "failed": "#f2a3a3",
    "skipped": "#f2dfa0",
    "cancelled": "#d0d0d0",
    "running": "#9fd3f2",
    "ready": "#c9e6f7",
}
FEW_PARENTS = 3


@click.command(
    epilog="""\b
examples:
  tickless graph nightly
  tickless graph --mermaid > graph.mmd
  tickless graph --dot | dot -Tsvg -o graph.svg
"""
)
@click.argument("task", required=False)
@click.option("--mermaid", is_flag=True, help="As a Mermaid flowchart.")
@click.option("--dot", is_flag=True, help="As a Graphviz digraph.")
@looks
def graph(task: str | None, mermaid: bool, dot: bool) -> None:
    """Draw what waits for what: of a flow, a round, what is joined to a task, or all that is listed.

    Among all, the steps of a flow are below it, with their states in its newest round.
    """
    if mermaid and dot:
        raise Refusal(Code.USAGE, "usage", "--mermaid and --dot: say one form")
    answer = source_of(settings()).ask("graph", id=task)
    page = Page()
    if page.said.json:
        page.document("graph", answer)
    elif mermaid:
        print("\n".join(as_mermaid(answer)))
    elif dot:
        print("\n".join(as_dot(answer)))
    else:
        page.header(answer)
        for line in as_tree(answer):
            page.line(line)


def as_tree(graph: Document) -> list[str]:
    """Each node under the last of its parents, and there the others by name. By work list, never by recursion."""
    parents: dict[str, list[str]] = {node["id"]: [] for node in graph["nodes"]}
    for parent, child in graph["edges"]:
        parents[child].append(parent)
    under: dict[str | None, list[str]] = {}
    for id, of in parents.items():
        under.setdefault(of[-1] if of else None, []).append(id)
    states = {node["id"]: node["state"] for node in graph["nodes"]}
    lines: list[str] = []
    left = [("", "", id) for id in reversed(under.get(None, []))]
    while left:
        lead, branch, id = left.pop()
        others = parents[id][:-1]
        also = f"  also after {', '.join(map(printable, others[:FEW_PARENTS]))}" if others else ""
        also += f" and {len(others) - FEW_PARENTS} more" if len(others) > FEW_PARENTS else ""
        lines.append(f"{lead}{branch}{printable(id)}" + (f"  {states[id]}" if states[id] else "") + also)
        inner = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        below = under.get(id, [])
        left += [(inner, "└─ " if one == below[-1] else "├─ ", one) for one in reversed(below)]
    return lines


def as_mermaid(graph: Document) -> list[str]:
    numbers = {node["id"]: f"t{number}" for number, node in enumerate(graph["nodes"])}
    lines = ["flowchart TD"]
    for node in graph["nodes"]:
        label = printable(node["id"]).replace("#", "#35;").replace('"', "#quot;").replace("<", "#lt;")
        lines.append(f'    {numbers[node["id"]]}["{label}"]')
        if node["state"] in _COLOURS:
            lines.append(f"    style {numbers[node['id']]} fill:{_COLOURS[node['state']]}")
    return [*lines, *(f"    {numbers[parent]} --> {numbers[child]}" for parent, child in graph["edges"])]


def as_dot(graph: Document) -> list[str]:
    lines = ["digraph tickless {", "    node [shape=box, style=filled, fillcolor=white];"]
    for node in graph["nodes"]:
        colour = f' [fillcolor="{_COLOURS[node["state"]]}"]' if node["state"] in _COLOURS else ""
        lines.append(f"    {_quoted(node['id'])}{colour};")
    return [*lines, *(f"    {_quoted(parent)} -> {_quoted(child)};" for parent, child in graph["edges"]), "}"]


def _quoted(text: str) -> str:
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
