"""What a crontab takes from the machine: users, homes, and the zone that its clocks show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickless.taskfile import machine
from tickless.taskfile.machine import home_of, host_zone, users


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that says nothing of its zone yet."""
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(machine, "_LOCALTIME", tmp_path / "localtime")
    monkeypatch.setattr(machine, "_TIMEZONE", tmp_path / "timezone")
    return tmp_path


def zone_file(etc: Path, name: str) -> Path:
    """As the system's database has it: the folders are the name."""
    path = etc / "zoneinfo" / name
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_a_machine_that_says_nothing_has_no_zone(etc: Path) -> None:
    """It is not UTC for that, and whoever asks says so."""
    assert host_zone() is None


def test_the_zone_is_where_the_link_leads(etc: Path) -> None:
    """/etc/localtime, on nearly every system."""
    (etc / "localtime").symlink_to(zone_file(etc, "Asia/Tokyo"))
    assert host_zone() == "Asia/Tokyo"


def test_a_link_to_a_link_is_followed(etc: Path) -> None:
    """Some systems keep one in between."""
    (etc / "between").symlink_to(zone_file(etc, "Europe/Paris"))
    (etc / "localtime").symlink_to(etc / "between")
    assert host_zone() == "Europe/Paris"


def test_a_copy_says_no_name_and_the_other_file_does(etc: Path) -> None:
    """In life: an image in which /etc/localtime was copied."""
    (etc / "localtime").write_bytes(b"TZif2")
    assert host_zone() is None
    (etc / "timezone").write_text("Europe/Berlin\n", "utf-8")
    assert host_zone() == "Europe/Berlin"


def test_the_variable_counts_before_the_files(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does for every program; with the colon that POSIX lets stand before it."""
    (etc / "timezone").write_text("Europe/Berlin\n", "utf-8")
    for said in ("Asia/Tokyo", ":Asia/Tokyo"):
        monkeypatch.setenv("TZ", said)
        assert host_zone() == "Asia/Tokyo"


@pytest.mark.parametrize("said", ["CET-1CEST,M3.5.0,M10.5.0/3", "localtime", "Nowhere/At", "/x/y", ""])
def test_a_variable_that_names_no_zone_is_passed_over(said: str, etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of POSIX has no key that could be written down."""
    (etc / "timezone").write_text("Europe/Berlin\n", "utf-8")
    monkeypatch.setenv("TZ", said)
    assert host_zone() == "Europe/Berlin"


@pytest.mark.parametrize("said", ["UTC", "Etc/UTC", "Zulu"])
def test_utc_has_one_name(said: str, etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a file that says UTC has the same times."""
    monkeypatch.setenv("TZ", said)
    assert host_zone() == "UTC"


def test_root_is_a_user_everywhere() -> None:
    """Also where the system has no list of users."""
    assert "root" in users()


def test_a_home_is_a_path_from_the_root_on_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is none is no place to run in."""
    monkeypatch.setenv("HOME", "/srv//home/")
    assert home_of(None) == "/srv/home"
    monkeypatch.setenv("HOME", "relative")
    assert home_of(None) is None
    assert home_of("no-such-user-at-all") is None
