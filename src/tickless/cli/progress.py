"""A bar for work that takes long: on a terminal, on standard error, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tickless.cli.settings import settings, wants_rich

Step = Callable[[int, int | None], None]
"""(done so far, of how many: None where that is not known)."""


@contextmanager
def bar(what: str) -> Iterator[Step]:
    """While inside, what is called with the progress shows it."""
    if settings().quiet or not wants_rich(settings(), sys.stderr.isatty()):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        line = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(line, completed=done, total=total)
