"""The programs of `tests/simulation`, on a file: some of those that the memory store plays all of."""

from __future__ import annotations

import os

import pytest

from tests.simulation.explore import explore

SEEDS = range(0, 8_000, 40)
"""None of `late.py`: those end with the clock at rest, and what a worker says last is told within 10 ms of it."""


@pytest.mark.skipif(os.environ.get("TEST_STORE") != "sqlite", reason="tests/simulation plays them in memory")
@pytest.mark.parametrize("first", range(4))
def test_every_promise_holds_in_every_program(first: int) -> None:
    """Each is a small life with all policies in it; where it breaks, the seed is in the message."""
    for seed in SEEDS[first::4]:
        explore(seed)
