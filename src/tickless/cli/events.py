"""`events`: what a running scheduler has done lately, and what it does."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from tickless.cli.page import Page
from tickless.cli.settings import looks, settings
from tickless.cli.sources import Remote, source_of
from tickless.cli.voice import write_line
from tickless.control.client import follow
from tickless.control.documents import Document
from tickless.control.refusals import Code, Refusal
from tickless.instants import Instant, instant_of
from tickless.observe.console import ConsoleObserver
from tickless.records import Event, EventKind
from tickless.states import Reason


@click.command(
    epilog="""\b
examples:
  tickless events
  tickless events -f tasks.toml --follow --json
"""
)
@click.option("-n", "limit", type=click.IntRange(0, 1_000), default=100, show_default=True, help="So many of the past.")
@click.option("--follow", "follows", is_flag=True, help="Go on with each as it happens, until Ctrl-C or its end.")
@looks
def events(limit: int, follows: bool) -> None:
    """Show the newest events of a running scheduler; --follow: and each as it happens. With --json a line each."""
    source = source_of(settings())
    if not isinstance(source, Remote):
        raise Refusal(
            Code.UNREACHABLE,
            "not_running",
            f"{source.header['where']}: nobody runs it, and events are told by a scheduler that runs; "
            "what ran is shown by: tickless runs",
        )
    page = Page()
    if not follows:
        answer = source.ask("events", limit=limit)
        _show(page, answer, answer["events"])
        return
    stream = follow(source.path, limit)
    _show(page, {"source": {**source.header, **next(stream)["source"]}}, stream)


def _show(page: Page, answer: Document, events: object) -> None:
    if page.said.json:
        for event in events:  # type: ignore[attr-defined]  # a list, or what comes
            write_line(event, sys.stdout)
        return
    page.header(answer)
    console = ConsoleObserver(sys.stdout, starts=True, zone=page.zone, colour=page.rich and not page.said.no_color)
    for event in events:  # type: ignore[attr-defined]
        console.observe([_event(event)])


def _event(document: Document) -> Event:
    """The event that the document was made of."""
    due, at = _instant(document["due"]), _instant(document["at"])
    assert at is not None
    return Event(
        EventKind(document["event"]),
        at,
        document["task"],
        document["name"],
        due,
        None if document["reason"] is None else Reason(document["reason"]),
        document["error"],
        document["traceback"],
        document["count"],
    )


def _instant(text: str | None) -> Instant | None:
    return None if text is None else instant_of(datetime.fromisoformat(text), "event")
