"""Options that more than one command has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.stage import Stage


@pytest.mark.parametrize("length", ["nan", "inf", "1e12", "-1"])
def test_a_length_of_time_that_nobody_can_wait_is_usage(tmp_path: Path, length: str) -> None:
    stage = Stage(tmp_path)
    stage.write("tasks.toml", '[tasks.a]\nrun = "true"\n')
    for arguments in (
        ("run-now", "a", "--timeout", length),
        ("health", "--timeout", length),
        ("run", "tasks.toml", "--stop-after", length),
    ):
        assert arguments[-2] in stage.refused(*arguments, code=2)
