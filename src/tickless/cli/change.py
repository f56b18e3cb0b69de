"""`run-now`, `retry`, `cancel`, `pause`, `resume`: what is done to tasks by hand."""

from __future__ import annotations

import sys

import click

from tickless.cli.moments import instant_said
from tickless.cli.page import Page
from tickless.cli.settings import Seconds, looks, settings
from tickless.cli.sources import Local, source_of, source_to_change
from tickless.control.client import PATIENCE_S
from tickless.control.documents import Document, moment
from tickless.control.refusals import Code


@click.command(
    epilog="""\b
examples:
  tickless run-now dump
  tickless run-now dump --wait --timeout 600
"""
)
@click.argument("task")
@click.option("--wait", is_flag=True, help="Wait for its end; the exit code then is 1 when it failed.")
@click.option("--timeout", type=Seconds(0.001), metavar="SECONDS", help="Wait no longer than this.")
@looks
def run_now(task: str, wait: bool, timeout: float | None) -> int:
    """Have a task run now, beside its plan.

    Of a task file that nobody runs and that has no store, the task is run here, and waited for.
    """
    source = source_of(settings())
    if isinstance(source, Local) and source.header["kind"] == "file" and not source.lasts:
        from tickless.cli.run import run_one

        return run_one(source.header["where"], task, timeout)
    if isinstance(source, Local):
        source = source_to_change(settings(), source)
    wait = wait or timeout is not None
    answer = source.ask("run_now", _patience(wait, timeout), id=task, wait=(timeout or 0) if wait else None)
    return _tell_run(answer, "run", wait=wait)


def _patience(wait: bool, timeout: float | None) -> float | None:
    if not wait:
        return PATIENCE_S
    return None if timeout is None else timeout + PATIENCE_S


@click.command(
    epilog="""\b
examples:
  tickless retry etl
  tickless retry etl@2026-12-01T02:30:00Z
"""
)
@click.argument("task")
@looks
def retry(task: str) -> int:
    """Have what failed tried again: of a flow the tasks of its last failed round, or a task whose last run failed."""
    return _tell_run(source_to_change(settings()).ask("retry", id=task), "run", wait=False)


def _tell_run(answer: Document, kind: str, *, wait: bool) -> int:
    page, run = Page(), answer["run"]
    if page.said.json:
        page.document(kind, answer)
    else:
        page.header(answer)
        how = f" ({run['reason']})" if run["reason"] else ""
        page.line(f"{run['run']}: {run['state']}{how}")
        if run["error"]:
            page.line(f"  {run['error']}", "red")
    if run["state"] == "skipped":
        return Code.REFUSED
    return Code.FAILED if wait and run["state"] in ("failed", "cancelled") else Code.DONE


@click.command(epilog="\b\nexample:\n  tickless cancel dump upload --yes\n")
@click.argument("tasks", nargs=-1, required=True, metavar="TASK...")
@looks
def cancel(tasks: tuple[str, ...]) -> int:
    """Take the future of tasks away: they never start again, and what runs is asked to stop. Rounds, too."""
    source = source_to_change(settings())
    if not _agreed(f"Cancel {', '.join(tasks)}? They will not run again."):
        return Code.REFUSED
    answer = source.ask("cancel", ids=list(tasks))
    page = Page()
    if page.said.json:
        page.document("changed", answer)
    else:
        page.header(answer)
        said = {
            "cancelled": "cancelled",
            "asked": "runs, and is asked to stop",
            "too_late": "had ended already",
        }
        for one in answer["changed"]:
            page.line(f"{one['id']}: {said[one['answer']]}")
    return Code.REFUSED if any(one["answer"] == "too_late" for one in answer["changed"]) else Code.DONE


def _agreed(question: str) -> bool:
    """Whether to go on: asked on a terminal only, and not with --yes."""
    if settings().yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return click.confirm(question, err=True)


@click.command(
    epilog="""\b
examples:
  tickless pause dump --reason "a new disk" --until 2026-12-02T08:00
  tickless pause --tag backup
  tickless pause --all
"""
)
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@click.option("--tag", help="All tasks with this tag, and those to come.")
@click.option("--all", "every", is_flag=True, help="All tasks.")
@click.option("--reason", help="Why; shown where the task is.")
@click.option("--until", metavar="TIME", help="Resume by itself then; in the zone of --tz, or with an offset.")
@looks
def pause(tasks: tuple[str, ...], tag: str | None, every: bool, reason: str | None, until: str | None) -> None:
    """Hold tasks, those of a tag, or all. What runs goes on."""
    when = None if until is None else moment(instant_said("--until", until, settings().zone()))
    source = source_to_change(settings())
    answer = source.ask("pause", ids=list(tasks), tag=tag, all=every, reason=reason, until=when)
    _tell_changed(answer, "paused", "was paused already")


@click.command(epilog="\b\nexample:\n  tickless resume dump --catch-up latest\n")
@click.argument("tasks", nargs=-1, metavar="[TASK...]")
@click.option("--tag", help="What was paused by this tag.")
@click.option("--all", "every", is_flag=True, help="What was paused by --all.")
@click.option(
    "--catch-up",
    type=click.Choice(["none", "latest", "all"]),
    default="none",
    show_default=True,
    help="What becomes of the fires that came meanwhile.",
)
@looks
def resume(tasks: tuple[str, ...], tag: str | None, every: bool, catch_up: str) -> None:
    """End a pause: of tasks, of a tag, or of all."""
    source = source_to_change(settings())
    answer = source.ask("resume", ids=list(tasks), tag=tag, all=every, catch_up=catch_up)
    _tell_changed(answer, "resumed", "was not paused")


def _tell_changed(answer: Document, done: str, not_done: str) -> None:
    page = Page()
    if page.said.json:
        page.document("changed", answer)
        return
    page.header(answer)
    for one in answer["changed"]:
        if "id" in one:
            page.line(f"{one['id']}: {done if one['count'] else not_done}")
        else:
            page.line(f"{'tag ' + one['tag'] if 'tag' in one else 'all'}: {one['count']} {done}")
