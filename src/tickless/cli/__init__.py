"""The command `tickless`. What it needs beyond the library is in the extra `cli`; without it the command says so."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tickless.cli.streams import make_lasting

NOT_INSTALLED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the arguments (default: those of the process). Gives the exit code: docs/cli.md."""
    make_lasting()
    try:
        import click
        import rich
    except ImportError as error:
        print(
            f"tickless: the command line needs {error.name}, which is not installed: pip install 'tickless[cli]'",
            file=sys.stderr,
        )
        return NOT_INSTALLED
    assert click, rich
    from tickless.cli.app import run_command

    return run_command(sys.argv[1:] if arguments is None else list(arguments))
