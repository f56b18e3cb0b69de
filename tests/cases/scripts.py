"""Programs in processes of their own: what ends a process must not end the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cases.kit import PATIENCE_S

PROLOGUE = "import os, signal, sys, threading\nfrom tickless import *\n"


@contextmanager
def process(source: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The program with pipes on all three streams; killed at the end if it still runs."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-X", "dev", "-c", PROLOGUE + source, *map(str, arguments)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8") as program:
        try:
            yield program
        finally:
            program.kill()


def result(source: str, *arguments: object) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the program. Raises TimeoutExpired when it hangs."""
    with process(source, *arguments) as program:
        out, err = program.communicate(timeout=2 * PATIENCE_S)
    return program.returncode, out, err
