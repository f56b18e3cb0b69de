"""What may be said to every command: how it shows, where it looks. Said before or after the name of the command."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import click

from tickless.control.refusals import Code, Refusal
from tickless.errors import RuleError

LONGEST_S = 1_000_000
"""The longest wait that an option takes, eleven days: a socket waits for no more than 24."""


class Seconds(click.FloatRange):
    """An option in seconds, from so many on; neither endless nor `nan`, which no clock can wait."""

    def __init__(self, least: float) -> None:
        super().__init__(min=least, max=LONGEST_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return found


@dataclass
class Settings:
    """The global options, as they were said."""

    json: bool = False
    plain: bool = False
    tz: str | None = None
    no_color: bool = False
    quiet: int = 0
    verbose: int = 0
    yes: bool = False
    app: str | None = None
    file: str | None = None
    store: str | None = None
    socket: str | None = None

    def zone(self) -> tzinfo | None:
        """The zone of --tz; None where nothing was said: the machine's own. Raises Refusal."""
        if self.tz is None:
            return None
        from tickless.rules.zones import zone_of  # the rules are a third of a command's start

        try:
            return zone_of(self.tz, "--tz")
        except RuleError as error:
            raise Refusal(Code.USAGE, "usage", str(error)) from None


def settings() -> Settings:
    """Those of the command that runs."""
    found = click.get_current_context().find_root().obj
    assert isinstance(found, Settings)
    return found


def _note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep what was said; what was said nearer to the command wins."""
    if value is None or value is False or (value == 0 and type(value) is int):
        return
    found = context.find_root().obj
    assert isinstance(found, Settings)
    assert parameter.name is not None
    setattr(found, parameter.name, value)
    if parameter.name == "tz":
        found.zone()  # refused before anything is done: who is told "usage" calls again


def _option(*names: str, **more: Any) -> click.Option:
    return click.Option(names, expose_value=False, callback=_note, **more)


PLACES = ("app", "file", "store", "socket")


def shown_options() -> list[click.Parameter]:
    """Of every command."""
    return [
        _option("--json", is_flag=True, help="Answer with a JSON document, and errors as well."),
        _option("--plain", is_flag=True, help="No colours and no boxes: as into a pipe."),
        _option("--tz", metavar="ZONE", help="Show times in this zone; by default the machine's own."),
        _option("--no-color", is_flag=True, help="No colours. So does NO_COLOR in the environment."),
        _option("-q", "--quiet", count=True, help="Say less: no header."),
        _option("-v", "--verbose", count=True, help="Say more: starts, pools and tags."),
        _option("--yes", is_flag=True, help="Do not ask back."),
    ]


def place_options(places: Sequence[str] = PLACES) -> list[click.Parameter]:
    """Of a command that looks at these places."""
    options = [
        _option("--app", metavar="MODULE:NAME", help="A Scheduler in a Python module, or in a file: FILE.py:NAME."),
        _option("-f", "--file", metavar="FILE", help="A task file or a crontab; the scheduler that runs it, if any."),
        _option("--store", metavar="URL", help="A store, such as sqlite:///tasks.db; nothing is imported."),
        _option("--socket", metavar="PATH", help="The socket of a running scheduler."),
    ]
    return [option for option in options if option.name in places]


def looks(command: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a command as one that looks at a scheduler, wherever it is."""
    return looks_at(*PLACES)(command)


def looks_at(*places: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a command as one that looks at some places only."""

    def mark(command: Callable[..., Any]) -> Callable[..., Any]:
        command.__dict__["places"] = places
        return command

    return mark


def places_of(command: click.Command) -> tuple[str, ...]:
    """Where the command looks."""
    found: tuple[str, ...] = getattr(command.callback, "__dict__", {}).get("places", ())
    return found


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether errors are to be told as JSON, before the arguments are understood."""
    before, _, _ = " ".join(arguments).partition(" -- ")
    return "--json" in before.split()


def wants_rich(settings: Settings, isatty: bool) -> bool:
    """Whether the output is for eyes: a terminal that can more than lines."""
    return isatty and not settings.plain and not settings.json and os.environ.get("TERM") != "dumb"
