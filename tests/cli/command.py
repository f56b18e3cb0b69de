"""The command as a user starts it: a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

COMMAND = [sys.executable, "-m", "tickless"]
PATIENCE_S = 60
"""Far beyond anything that passes: only a hang gets here."""


def tickless(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False
    )


@contextmanager
def running(path: Path) -> Iterator[subprocess.Popen[str]]:
    """`tickless run` of the file with pipes on all three streams; killed at the end if it still runs."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, "run", str(path)], stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8") as it:
        try:
            yield it
        finally:
            it.kill()


def wait_for(word: str, stream: IO[str] | None) -> str:
    """Reads lines until one has the word, and gives that line: the sign that the other side got so far."""
    assert stream is not None
    seen = []
    for line in stream:
        seen.append(line)
        if word in line:
            return line
    raise AssertionError(f"the stream ended without {word!r}: {''.join(seen)}")


def written(folder: Path, source: str) -> Path:
    path = folder / "tasks.py"
    path.write_text(source, encoding="utf-8")
    return path
