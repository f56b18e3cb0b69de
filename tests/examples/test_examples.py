"""Every example runs as a newcomer runs it, and the figures of the big one are checked by another way."""

from __future__ import annotations

import csv
import importlib.util
import os
import subprocess
import sys
import tokenize
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from tests.examples.tzif import offset_changes

EXAMPLES = Path(__file__).parents[2] / "examples"
WORLD_CLOCKS = EXAMPLES / "world_clocks.py"
YEAR_S = 365 * 86_400


def run(*command: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_ends_by_itself_without_complaint(example: Path, tmp_path: Path) -> None:
    """In life: the first file that a newcomer runs prints a traceback, or hangs."""
    done = run(example, folder=tmp_path)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    assert done.stdout, "an example shows something"


def test_every_example_is_in_the_readme_and_short() -> None:
    """In life: a reader looks for a file that is gone, or must read three screens to learn one thing."""
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for example in EXAMPLES.glob("*.py"):
        assert f"`{example.name}`" in readme
        assert example == WORLD_CLOCKS or len(example.read_text(encoding="utf-8").splitlines()) < 50


def test_the_etl_counts_what_another_way_counts(tmp_path: Path) -> None:
    """In life: an example whose figures nobody looked at. Lines are counted as bytes, functions as the word `def`."""
    done = run(EXAMPLES / "etl.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "etl.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        files = sorted((Path(tokenize.__file__).parent / row["package"]).glob("*.py"))
        assert int(row["lines"]) == sum(file.read_bytes().count(b"\n") for file in files)
        assert int(row["functions"]) == sum(words_of(file).count("def") for file in files)


def words_of(file: Path) -> list[str]:
    with file.open("rb") as source:
        return [token.string for token in tokenize.tokenize(source.readline) if token.type == tokenize.NAME]


def test_the_nightly_report_cleans_up_once_and_is_mended(tmp_path: Path) -> None:
    """In life: a cleanup that runs every night, or never; a night that fires twice when the clocks change."""
    done = run(EXAMPLES / "nightly_report.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("critical path") == 4
    assert done.stdout.splitlines()[-1].endswith("totals [200, 150, 200, 90], cleaned up after ['27']")
    assert "report@2026-03-29T01:00:00Z succeeded" in done.stdout  # 02:30 is skipped, so it runs as the gap ends


def test_world_clocks_run_by_the_command_reports_the_true_changes(tmp_path: Path) -> None:
    """In life: the demo that should win trust shows wrong figures. The oracle reads the compiled zone files itself."""
    start = datetime(2025, 3, 1, tzinfo=UTC)
    target = f"{WORLD_CLOCKS}:scheduler"
    done = run("-m", "tickless", "run", target, folder=tmp_path, WORLD_CLOCKS_FROM=f"{start:%Y-%m-%d}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr

    zones = zoneinfo.available_timezones() - {"localtime"}
    begin = int(start.timestamp())
    expected = {(zone, *change) for zone in zones for change in offset_changes(zone, begin, begin + YEAR_S)}
    with (tmp_path / "world_clocks.csv").open(newline="", encoding="utf-8") as file:
        reported = [row_as_change(row) for row in csv.DictReader(file)]
    assert len(expected) > 100, "an oracle that finds nothing proves nothing"
    assert set(reported) == expected
    assert len(reported) == len(expected), "no change is reported twice"
    assert [change[1] for change in reported] == sorted(change[1] for change in reported)
    assert f"{len(zones)} time zones" in done.stdout
    assert f"All {len(expected)} changes" in done.stdout
    assert "heartbeat" in done.stderr, "the log tells that the heartbeat was cancelled"


def row_as_change(row: dict[str, str]) -> tuple[str, int, int, int]:
    at = int(datetime.fromisoformat(row["at_utc"]).timestamp())
    return row["zone"], at, offset_seconds(row["offset_before"]), offset_seconds(row["offset_after"])


def offset_seconds(text: str) -> int:
    """`-09:30` in seconds, by the standard library's own reader."""
    offset = datetime.fromisoformat(f"2000-01-01T00:00:00{text}").utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


@pytest.fixture(scope="module")
def world_clocks() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("world_clocks", WORLD_CLOCKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    module.scheduler.close()


@pytest.mark.parametrize(
    ("year", "zone", "what"),
    [
        (2011, "Pacific/Apia", "a whole day was left out: -10:00 -> +14:00 across the date line"),
        (2024, "Africa/Casablanca", "its standard time is the summer one, and Ramadan turns it back"),
        (2024, "Australia/Lord_Howe", "half an hour"),
        (2024, "Antarctica/Troll", "two hours"),
        (2024, "Europe/Dublin", "negative summer time in winter"),
        (2024, "America/Nuuk", "a rule whose hour is negative"),
        (2024, "Asia/Almaty", "one change and no more"),
        (2010, "Africa/Cairo", "four changes in a year"),
        (2087, "Africa/Casablanca", "the last year of the Moroccan table"),
        (2099, "America/New_York", "long after the table's end: the rule alone"),
        (1941, "Europe/London", "double summer time"),
        (1919, "Africa/Monrovia", "an offset with seconds: -00:43:08 -> -00:44:30"),
    ],
)
def test_zone_with_odd_changes_gets_them_to_the_second(
    world_clocks: ModuleType, year: int, zone: str, what: str
) -> None:
    """In life: the one zone that a reader knows well is wrong."""
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    found = [change[:3] for change in world_clocks.find_changes(zone, start, start + YEAR_S)]
    assert found == offset_changes(zone, start, start + YEAR_S), what
    assert found, what
