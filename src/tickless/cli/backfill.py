"""`backfill`: runs for fires of the past."""

from __future__ import annotations

import click

from tickless.cli.moments import instant_said
from tickless.cli.page import Page
from tickless.cli.progress import bar
from tickless.cli.settings import looks, settings
from tickless.cli.sources import source_of, source_to_change
from tickless.control.documents import moment
from tickless.control.refusals import Code, Refusal


@click.command(
    epilog="""\b
examples:
  tickless backfill report --from 2026-11-01 --until 2026-12-01 --dry-run
  tickless backfill report --from 2026-11-01 --until 2026-12-01
"""
)
@click.argument("task")
@click.option("--from", "start", metavar="TIME", required=True, help="The first fire at or after this.")
@click.option("--until", metavar="TIME", required=True, help="Fires before this.")
@click.option("--again", is_flag=True, help="Also those that have succeeded.")
@click.option("--dry-run", is_flag=True, help="Only say what would run.")
@looks
def backfill(task: str, start: str, until: str, again: bool, dry_run: bool) -> int:
    """Run a task, or a flow, once for each of its fires in a span of the past: one after another, beside its plan."""
    zone = settings().zone()
    first, end = instant_said("--from", start, zone), instant_said("--until", until, zone)
    if first > end:
        raise Refusal(Code.USAGE, "usage", f"--from {start} is after --until {until}; give the earlier one first")
    source = source_of(settings()) if dry_run else source_to_change(settings())
    with bar(f"backfill {task}"):
        answer = source.ask(
            "backfill", None, id=task, start=moment(first), end=moment(end), again=again, dry_run=dry_run
        )
    page = Page()
    if page.said.json:
        page.document("backfill", answer)
        return Code.DONE
    page.header(answer)
    for run in answer["runs"]:
        page.line(run["run"])
    if not answer["runs"]:
        page.line(
            "no run is wanted: each fire in that span has succeeded, or there is none; a rule such as `every 2 days` "
            "counts from when it was scheduled, and has none before"
        )
        return Code.DONE
    page.line(f"{len(answer['runs'])} runs {'would be made' if dry_run else 'are made, one after another'}")
    return Code.DONE
