"""The command `tickless`. Exit codes: 0 all well, 1 a task failed, 2 usage or not found, 130 SIGINT, 143 SIGTERM."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tickless import __version__
from tickless.cli import preview
from tickless.cli.run import EXIT_CODES, run
from tickless.cli.streams import make_lasting


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the arguments (default: those of the process). Gives the exit code.

    Raises SystemExit where argparse does: 2 for wrong usage, 0 for --help and --version.
    """
    make_lasting()
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help(sys.stderr)
        return 2
    return preview.run(given) if given.command == "preview" else run(given.target)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tickless", description="Run tasks at their time, in order, once.")
    parser.add_argument("--version", action="version", version=f"tickless {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    command = commands.add_parser(
        "run",
        help="run the scheduler of a Python file until every task has ended",
        description="Run the scheduler of a Python file until every task has ended, or a signal comes. "
        "What the tasks print goes to standard output, the live log to standard error.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "target",
        metavar="FILE.py:NAME",
        help="NAME is a Scheduler in the file, or a function without arguments that returns one; without it: scheduler",
    )
    command = commands.add_parser(
        "preview",
        help="show when a rule fires next",
        description="Show when a rule fires next, and what is unusual about it: wall times that do not exist or come "
        "twice. Nothing is run.",
        epilog=preview.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    preview.add_arguments(command)
    return parser
