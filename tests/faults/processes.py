"""Programs that run to their end in a process of their own: what a user sees of fork, exit and signals."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

PATIENCE_S = 60
"""Far beyond anything that passes: only a hang gets here."""
HEADER = """
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from tickless import *
"""


def program(source: str, **options: str) -> subprocess.CompletedProcess[str]:
    """Run `source` after the usual imports, with every warning shown."""
    code = HEADER + textwrap.dedent(source)
    command = [sys.executable, "-W", "always::RuntimeWarning", "-c", code]
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1", **options}
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False, env=environment
    )


def quiet(source: str) -> list[str]:
    """The lines that the program prints. It must end with 0, and say nothing on stderr."""
    done = program(source)
    assert (done.returncode, done.stderr) == (0, ""), f"exit code {done.returncode}\n{done.stderr}"
    return done.stdout.splitlines()
