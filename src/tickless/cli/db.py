"""`db`: look after a store. Needs none of the works that its tasks call."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from tickless.cli.page import Page
from tickless.cli.progress import bar
from tickless.cli.settings import looks_at, settings
from tickless.cli.sources import file_said
from tickless.control.documents import Document
from tickless.control.refusals import Code, Refusal
from tickless.errors import RuleError
from tickless.observe.text import printable
from tickless.taskfile.spans import span_of

NEEDED = "name the store: --store sqlite:///tasks.db"


def _url() -> str:
    url, file = settings().store, file_said()
    if url is None and file is not None:
        from pathlib import Path

        from tickless.taskfile.build import store_of
        from tickless.taskfile.read import read

        url = store_of(read(Path(file)))
    if url is None:
        raise Refusal(Code.USAGE, "usage", NEEDED)
    return url


@click.group()
def db() -> None:
    """Look after a store: what it has, its schema, what is too old, all of it as JSON."""


@db.command(epilog="\b\nexample:\n  tickless db status --store sqlite:///tasks.db --check\n")
@click.option("--check", is_flag=True, help="Read the whole file through for damage.")
@looks_at("file", "store")
def status(check: bool) -> int:
    """Show what a store has: size, schema, tasks by state, who works on it, rows that cannot be used."""
    from tickless.upkeep import status as status_of

    found = status_of(_url(), integrity=check)
    page = Page()
    if page.said.json:
        page.document("db_status", found)
    else:
        _facts(page, found)
    return Code.FINDINGS if found["faults"] or found["unusable"] else Code.DONE


def _facts(page: Page, facts: Document) -> None:
    for key, value in facts.items():
        page.line(f"{key.replace('_', ' '):<15} {printable(_fact(value), 500)}")


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_fact(what)}" for name, what in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(map(_fact, value)) or "none"
    return "-" if value is None else f"{value:,}" if type(value) is int else str(value)


@db.command(epilog="\b\nexample:\n  tickless db upgrade --store sqlite:///tasks.db\n")
@looks_at("file", "store")
def upgrade() -> None:
    """Bring a store to the schema of this version; a copy of what it was is kept beside it."""
    from tickless.upkeep import upgrade as upgraded

    found = upgraded(_url())
    page = Page()
    if page.said.json:
        page.document("db_upgrade", found)
    elif found["from"] == found["to"]:
        page.line(f"is at schema {found['to']} already")
    else:
        page.line(f"from schema {found['from']} to {found['to']}; the copy is {found['backup']}")


@db.command(
    epilog="""\b
examples:
  tickless db prune --store sqlite:///tasks.db --keep-for 30d --dry-run
  tickless db prune --store sqlite:///tasks.db --keep-runs 20 --vacuum
"""
)
@click.option("--keep-for", metavar="SPAN", help="Forget what ended longer ago: 12h, 30d.")
@click.option("--keep-runs", type=click.IntRange(min=0), metavar="N", help="Keep so many runs of each task.")
@click.option("--keep-finished", type=click.IntRange(min=0), metavar="N", help="Keep so many tasks that have ended.")
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
@click.option("--vacuum", is_flag=True, help="Give the room back to the file system, too.")
@looks_at("file", "store")
def prune(keep_for: str | None, keep_runs: int | None, keep_finished: int | None, dry_run: bool, vacuum: bool) -> None:
    """Forget what has ended and is too old or too much. What is pending, and what children wait for, stays."""
    from tickless.upkeep import prune as pruned

    if keep_for is None and keep_runs is None and keep_finished is None and not vacuum:
        raise Refusal(Code.USAGE, "usage", "say what to keep: --keep-for, --keep-runs, --keep-finished; or --vacuum")
    span = None if keep_for is None else _span_s(keep_for)
    with bar("prune") as step:
        found = pruned(
            _url(),
            keep_for=span,
            keep_runs=keep_runs,
            keep_finished=keep_finished,
            dry_run=dry_run,
            vacuum=vacuum,
            progress=step,
        )
    page = Page()
    if page.said.json:
        page.document("db_prune", found)
    else:
        verb = "would be forgotten" if dry_run else "are forgotten"
        counts = f"{found['tasks']:,} tasks, {found['rounds']:,} rounds and {found['runs']:,} runs"
        page.line(f"{counts} {verb}; {found['bytes_before']:,} bytes before, {found['bytes_after']:,} now")


def _span_s(text: str) -> float:
    try:
        return span_of(float(text) if text.replace(".", "", 1).isdigit() else text).total_seconds()
    except RuleError as error:
        raise Refusal(Code.USAGE, "usage", f"--keep-for {error}") from None


@db.command(epilog="\b\nexample:\n  tickless db export --store sqlite:///tasks.db > tasks.jsonl\n")
@click.option("-o", "--output", metavar="PATH", help="Write it there, and not to standard output.")
@looks_at("file", "store")
def export(output: str | None) -> None:
    """Write all tasks and runs as JSON, a document a line."""
    from tickless.upkeep import export as exported

    documents = exported(_url())
    if output is None:
        for document in documents:
            print(json.dumps(document, ensure_ascii=False))
        return
    partial = f"{output}.part"
    try:
        with bar("export") as step, open(partial, "w", encoding="utf-8") as file:
            for count, document in enumerate(documents, 1):
                file.write(json.dumps(document, ensure_ascii=False) + "\n")
                if count % 1_000 == 0:
                    step(count, None)
        os.replace(partial, output)  # what is there under that name is whole
    except OSError as error:
        raise Refusal(Code.FAILED, "system", f"{output}: cannot be written: {error.strerror}") from None
