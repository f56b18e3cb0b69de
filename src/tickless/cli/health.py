"""`health`: for people, and for container engines that ask every half minute."""

from __future__ import annotations

import click

from tickless.cli.page import Page
from tickless.cli.settings import Seconds, looks, settings
from tickless.cli.sources import Remote, source_of
from tickless.control.refusals import Code, Refusal


@click.command(
    epilog="""\b
examples:
  tickless health -f tasks.toml
  HEALTHCHECK CMD tickless health -q -f /app/tasks.toml
"""
)
@click.option("--timeout", type=Seconds(0.01), default=10.0, show_default=True, metavar="SECONDS")
@looks
def health(timeout: float) -> int:
    """Ask a running scheduler whether all is well: exit code 0; 8 when something is not; 5 when nobody runs."""
    source = source_of(settings())
    if not isinstance(source, Remote):
        raise Refusal(
            Code.UNREACHABLE,
            "not_running",
            f"{source.header['where']}: nobody runs it, so there is no health to ask for",
        )
    answer = source.ask("health", timeout)
    page = Page()
    if page.said.json:
        page.document("health", answer)
    else:
        page.header(answer)
        for finding in answer["findings"]:
            page.line(f"{finding['word']}: {finding['message']}", "red")
        if not page.said.quiet:
            _all_well(page, answer)
    return Code.DONE if answer["healthy"] else Code.FINDINGS


def _all_well(page: Page, answer: dict[str, object]) -> None:
    if answer["healthy"]:
        page.line("all is well", "green")
    pools, limits = answer["pools"], answer["limits"]
    assert isinstance(pools, list)
    assert isinstance(limits, list)
    heads = ("POOL", "SLOTS", "READY", "RUNNING", "TIMED OUT")
    page.table(heads, [[str(pool[key]) for key in ("name", "slots", "ready", "running", "zombies")] for pool in pools])
    if limits:
        page.table(
            ("LIMIT", "RUNNING", "WAITING"),
            [[str(limit[key]) for key in ("name", "running", "waiting")] for limit in limits],
        )
