"""`ls`, `show`, `runs`, `logs`: what there is, and what became of it."""

from __future__ import annotations

import sys
from typing import Any

import click

from tickless.cli.page import Page, state_of
from tickless.cli.settings import looks, settings
from tickless.cli.sources import source_of
from tickless.control.documents import Document
from tickless.observe.text import printable, printable_lines

STATES = ("pending", "ready", "running", "paused", "succeeded", "failed", "skipped", "cancelled")


@click.command(
    epilog="""\b
examples:
  tickless ls
  tickless ls -f tasks.toml --state failed
  tickless ls --store sqlite:///tasks.db --json
"""
)
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only these; may be said again.")
@click.option("--tag", help="Only tasks with this tag.")
@click.option("--recurring/--once", default=None, help="Only tasks that recur, or only those that do not.")
@looks
def ls(states: tuple[str, ...], tag: str | None, recurring: bool | None) -> None:
    """List the tasks: state, next fire, last run, rule."""
    answer = source_of(settings()).ask("tasks", states=list(states), tag=tag, recurring=recurring)
    page = Page()
    if page.said.json:
        page.document("tasks", answer)
        return
    page.header(answer)
    more = [("POOL", "pool"), ("TAGS", "tags")] if page.said.verbose else []
    heads = ["TASK", "STATE", "NEXT", "LAST", *(head for head, _ in more), "WHEN"]
    page.table(heads, [_row(page, task, [key for _, key in more]) for task in answer["tasks"]], "WHEN")
    for id, why in answer["unusable"].items():
        page.line(f"cannot be used: {printable(id)}: {printable(why, 500)}", "red")


def _row(page: Page, task: Document, more: list[str]) -> list[str]:
    last = task["last_run"]
    ended = "-" if last is None else last["state"]
    others = [", ".join(task[key]) or "-" if type(task[key]) is list else str(task[key]) for key in more]
    when = page.when(task["next_fire"] or task["retry_at"])
    return [task["id"], state_of(task), when, ended, *others, task["when"] or "once"]


@click.command(
    epilog="""\b
examples:
  tickless show dump
  tickless show etl@2026-12-01T02:30:00Z
"""
)
@click.argument("task")
@looks
def show(task: str) -> None:
    """Show one task with its newest runs; of a flow its newest round as a tree; or one round."""
    answer = source_of(settings()).ask("task", id=task)
    page = Page()
    if page.said.json:
        page.document("task", answer)
        return
    page.header(answer)
    if answer["task"] is not None:
        _facts(page, answer["task"])
    if answer["tree"] is not None:
        page.line()
        page.line(printable_lines(answer["tree"]))
    if answer["runs"]:
        page.line()
        _runs_table(page, answer["runs"], named=False)


def _facts(page: Page, task: Document) -> None:
    lines: list[tuple[str, Any]] = [
        ("task", task["id"]),
        ("name", task["name"] if task["name"] != task["id"] else None),
        ("about", task["description"]),
        ("kind", task["kind"] if task["kind"] != "task" else None),
        ("state", state_of(task) + (f" ({task['reason']})" if task["reason"] else "")),
        ("when", task["when"] or "once"),
        ("next fire", page.when(task["next_fire"])),
        ("next try", page.when(task["retry_at"]) if task["retry_at"] else None),
        ("paused", _pause(page, task)),
        ("waits for", f"the limit {task['waiting_for']}" if task["waiting_for"] else None),
        ("after", ", ".join(task["parents"])),
        ("before", ", ".join(task["children"])),
        ("pool", task["pool"] if task["pool"] != "default" else None),
        ("priority", task["priority"] or None),
        ("tags", ", ".join(task["tags"])),
        ("last error", None if task["last_run"] is None else task["last_run"]["error"]),
    ]
    for name, value in lines:
        if value not in (None, ""):
            page.line(f"{name:<11} {printable(str(value), 500)}")


def _pause(page: Page, task: Document) -> str | None:
    if not task["paused"]:
        return None
    until = f"until {page.when(task['paused_until'])}" if task["paused_until"] else "until it is resumed"
    return until + (f": {task['pause_reason']}" if task["pause_reason"] else "")


@click.command(
    epilog="""\b
examples:
  tickless runs
  tickless runs dump -n 50
  tickless runs --failed --json
"""
)
@click.argument("task", required=False)
@click.option("-n", "limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="At most so many.")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only runs that are or ended so.")
@click.option("--failed", is_flag=True, help="Only those that failed.")
@looks
def runs(task: str | None, limit: int, states: tuple[str, ...], failed: bool) -> None:
    """Show the newest runs, newest first: of a task, of a round's tasks, or of all."""
    answer = source_of(settings()).ask("runs", id=task, limit=limit, states=list(states), failed=failed)
    page = Page()
    if page.said.json:
        page.document("runs", answer)
        return
    page.header(answer)
    _runs_table(page, answer["runs"], named=True)
    if answer["more"]:
        page.line(f"... and more; -n {limit * 2} shows them", "dim")


def _runs_table(page: Page, runs: list[Document], *, named: bool) -> None:
    heads = ["DUE", "STATE", "TOOK", "LATE", "NOTE"]
    rows: list[list[str]] = []
    for run in runs:
        took, late = page.took(run["took_s"]), page.took(run["late_s"])
        rows.append([page.when(run["due"]), run["state"], took, late, _note(run)])
    if named:
        heads = ["TASK", *heads]
        rows = [[run["task"], *row] for run, row in zip(runs, rows, strict=True)]
    page.table(heads, rows, "NOTE")


def _note(run: Document) -> str:
    notes = []
    if run["count"] > 1:
        notes.append(f"{run['count']} fires")
    if run["attempt"] > 1:
        notes.append(f"attempt {run['attempt']}")
    notes += [note for note in (run["reason"], run["error"], run["late_result"]) if note]
    return ": ".join(notes)


@click.command(
    epilog="""\b
examples:
  tickless logs dump
  tickless logs dump --all
  tickless logs nightly/upload
"""
)
@click.argument("task")
@click.option("--run", metavar="PART", help="The run whose name has this part, such as 2026-12-01T02:30.")
@click.option("--all", "every", is_flag=True, help="Every run whose output is kept, not only the newest.")
@looks
def logs(task: str, run: str | None, every: bool) -> None:
    """Show what the newest run of a task has printed; of a flow what each task of its newest round has."""
    answer = source_of(settings()).ask("logs", id=task, run=run, all=every)
    page = Page()
    if page.said.json:
        page.document("logs", answer)
        return
    page.header(answer)
    if not answer["outputs"]:
        page.line("no output is kept", "dim")
    for one in answer["outputs"]:
        if not page.said.quiet:
            ending = one["ending"] or "runs"
            page.line(f"== {one['run']}  attempt {one['attempt']}  {ending}  {one['bytes']:,} bytes", "bold")
        sys.stdout.write(
            _ended(printable_lines(one["text"], len(one["text"]) + 1) if sys.stdout.isatty() else one["text"])
        )


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
