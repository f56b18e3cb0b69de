"""Times on the command line, at the ends of the calendar."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.stage import Stage


@pytest.mark.parametrize(("zone", "when"), [("Asia/Tokyo", "0001-01-01"), ("America/New_York", "9999-12-31T23:59")])
def test_a_time_that_leaves_the_calendar_in_the_zone_of_the_machine_is_usage(
    tmp_path: Path, zone: str, when: str
) -> None:
    stage = Stage(tmp_path)
    stage.environment["TZ"] = zone
    stage.write("tasks.toml", '[tasks.a]\nrun = "true"\nwhen = "every 1h"\n')
    for arguments in (
        ("pause", "a", "--until", when),
        ("backfill", "a", "--from", when, "--until", "2026-01-01", "--dry-run"),
    ):
        assert "not within the years 1 to 9999" in stage.refused(*arguments, code=2)
