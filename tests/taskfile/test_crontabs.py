"""Ten crontabs of different styles: each entry means what cron would do, and survives the way through a task file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.taskfile.fixtures import CRONTABS, EXPECTED, HOME, command, crontab, meanings, text_of
from tickless.instants import Instant, datetime_of, instant_of
from tickless.rules import Rule
from tickless.taskfile.difference import difference
from tickless.taskfile.machine import home_of
from tickless.taskfile.read import read
from tickless.taskfile.write import to_toml

START = datetime(2026, 3, 27, 12, tzinfo=UTC)

fixtures = pytest.mark.parametrize("name", CRONTABS)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    """One home, whoever runs the tests."""
    monkeypatch.setenv("HOME", HOME)


def next_fires(rule: Rule, count: int) -> list[datetime]:
    at, fires = instant_of(START, "start"), list[Instant]()
    while len(fires) < count:
        following = rule.next_after(at)
        assert following is not None
        at = following
        fires.append(at)
    return [datetime_of(fire) for fire in fires]


def test_there_are_ten_and_each_is_expected_to_mean_something() -> None:
    """A fixture that nobody reads proves nothing."""
    assert len(CRONTABS) == 10
    assert sorted(EXPECTED) == CRONTABS


@fixtures
def test_entries_have_their_names_and_stand_where_they_stand(name: str) -> None:
    """In life: an error says line 12, and the entry is in another."""
    read_as = [(task.name, task.place) for task in crontab(name).tasks]
    assert read_as == [(entry["name"], f"line {entry['line']}") for entry in EXPECTED[name]]


@fixtures
def test_entries_fire_when_cron_would_have_them(name: str) -> None:
    """Each of them, in the zone that counts from its line on."""
    for task, entry in zip(crontab(name).tasks, EXPECTED[name], strict=True):
        if "fires" not in entry:
            assert task.when is None, "at the start"
            continue
        assert task.when is not None
        assert getattr(task.when, "tz", None) == entry["zone"]
        assert next_fires(task.when, 3) == entry["fires"], entry["name"]


@fixtures
def test_commands_run_as_cron_runs_them(name: str) -> None:
    """The text, what it reads, its shell, its folder, its user and its variables."""
    for task, entry in zip(crontab(name).tasks, EXPECTED[name], strict=True):
        found = command(task)
        assert found.run == entry["run"]
        assert found.stdin == entry.get("stdin")
        assert found.shell == entry.get("shell", "/bin/sh")
        assert found.user == entry.get("user")
        assert found.cwd == (entry.get("cwd") or home_of(entry.get("user")))
        assert dict(found.env) == entry.get("env", {})
        assert task.description == entry.get("description")


@fixtures
def test_a_crontab_that_is_written_as_a_task_file_means_the_same(name: str, tmp_path: Path) -> None:
    """In life: somebody imports their crontab, and a job runs in another zone, or without its PATH."""
    file = crontab(name)
    again = read(tmp_path / "tasks.toml", to_toml(file))
    assert meanings(again) == meanings(file)
    assert again.timezone == file.timezone
    assert difference(file, again) == ()
    assert to_toml(again).partition("timezone")[2] == to_toml(file).partition("timezone")[2]


@fixtures
def test_a_crontab_reads_the_same_with_other_line_ends(name: str) -> None:
    """What an editor of another system, or a copy of it, makes of a file."""
    text = text_of(name).removeprefix("\ufeff").replace("\r\n", "\n")
    for other in (text, text.replace("\n", "\r\n"), text.rstrip("\n"), f"\ufeff{text}"):
        assert meanings(crontab(name, other)) == meanings(crontab(name))
