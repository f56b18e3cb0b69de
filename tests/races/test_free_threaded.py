"""The programs on real threads that truly run at once: where an interpreter without a GIL can be had."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.house.sources import ROOT, SRC
from tests.races.stress import main

NAMES = ("python3.13t", "python3.14t", "python3.15t")
TIMES = 40
"""Runs of each program and number of slots: some ten seconds in all."""


def interpreter() -> str:
    """One without a GIL: TICKLESS_FREE_THREADED if that is set, else the first that is on the path. Or skip."""
    named = os.environ.get("TICKLESS_FREE_THREADED")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(
            f"no interpreter without a GIL ({', '.join(NAMES)}) is on the path, and neither Debian 12 nor the Python "
            "package index has one: build CPython with --disable-gil, and set TICKLESS_FREE_THREADED to its path. The "
            'way taken without a GIL is woven all the same, by the "held" tests of test_weave.py'
        )
    return found


def test_threads_that_truly_run_at_once_break_no_promise() -> None:
    """What a GIL hides: two threads inside of one another's single steps."""
    times = TIMES * int(os.environ.get("WEAVE_TIMES", "1"))
    done = subprocess.run(
        [interpreter(), os.path.join("tests", "races", "stress.py"), str(times)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(SRC), str(ROOT))), "PYTHON_GIL": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "without a GIL" in done.stdout, f"{interpreter()} has a GIL: {done.stdout}"


def test_the_stress_itself_runs_here() -> None:
    """Once, with a GIL or without: what is only run elsewhere is broken when it is needed."""
    assert main(1) == 0
