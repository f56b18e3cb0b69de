"""The part of docs/cli.md that is drawn from the commands themselves."""

from __future__ import annotations

import textwrap

import click

from tickless.cli.app import COMMANDS, group
from tickless.cli.settings import PLACES, place_options, places_of, shown_options


def commands_reference() -> str:
    """Every command: what it does, how it is written, its own options, its examples."""
    root = group()
    context = click.Context(root, info_name="tickless")
    parts = ["## Options of every command", *_options(shown_options(), context)]
    parts += ["", "Of each that looks at a scheduler, besides:", "", *_options(place_options(), context)[1:]]
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        parts += ["", *_command(command, name, context, "##")]
    return "\n".join(parts)


def _command(command: click.Command, name: str, parent: click.Context, mark: str) -> list[str]:
    context = click.Context(command, info_name=name, parent=parent)
    lines = [f"{mark} {context.command_path.removeprefix('tickless ')}", ""]
    lines += [_text(command.help or ""), ""]
    usage = " ".join(command.collect_usage_pieces(context))
    lines += ["```", f"{context.command_path} {usage}", *_examples(command.epilog), "```"]
    places = places_of(command)
    of_all = [*shown_options(), *(place_options() if places == PLACES else ())]
    common = {option.opts[-1] for option in of_all}
    own = [one for one in command.params if isinstance(one, click.Option) and not common.intersection(one.opts)]
    lines += _options(own, context)
    if isinstance(command, click.Group):
        for inner, one in command.commands.items():
            lines += ["", *_command(one, inner, context, f"{mark}#")]
    return lines


def _text(text: str) -> str:
    return "\n\n".join(
        "\n".join(textwrap.wrap(" ".join(part.split()), 120)) for part in textwrap.dedent(text).split("\n\n")
    )


def _examples(epilog: str | None) -> list[str]:
    text = (epilog or "").replace("\b\n", "").strip()
    return ["", *text.split("\n")] if text else []


def _options(options: list[click.Parameter] | list[click.Option], context: click.Context) -> list[str]:
    rows = [record for one in options if (record := one.get_help_record(context)) is not None]
    if not rows:
        return []
    cells = [(said.replace("|", "\\|"), what.replace("  [", " [")) for said, what in rows]
    return ["", "| option | |", "|---|---|", *(f"| `{said}` | {what} |" for said, what in cells)]
