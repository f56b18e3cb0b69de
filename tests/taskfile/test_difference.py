"""What a reload changes is told by the names of the tasks and by the keys that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.taskfile.good import GOOD, file_of
from tickless.taskfile.difference import Change, difference
from tickless.taskfile.read import read

A = '[tasks.a]\nrun = "x"\nwhen = "every 1h"\n'
PYTHON = '[tasks.a]\npython = "m:f"\nwhen = "every 1h"\n'


def changes(old: str, new: str) -> tuple[Change, ...]:
    return difference(read(Path("tasks.toml"), old), read(Path("tasks.toml"), new))


@pytest.mark.parametrize("name", GOOD)
def test_a_file_that_is_read_again_is_the_same(name: str) -> None:
    """An editor that writes it unchanged restarts nothing."""
    assert difference(file_of(name), file_of(name)) == ()


def test_the_first_file_is_all_new() -> None:
    """There was none before."""
    assert [change.kind for change in difference(None, file_of("flow.toml"))] == ["added"] * 6


def test_added_changed_and_removed_are_told_in_the_order_of_the_file() -> None:
    """What is gone stands nowhere in it, and comes last."""
    old = '[tasks.gone]\nrun = "x"\n[tasks.b]\nrun = "x"\n'
    assert changes(old + A, f'[tasks.new]\nrun = "x"\n{A}timeout = 5\n[tasks.b]\nrun = "y"') == (
        Change("added", "new"),
        Change("changed", "a", ("timeout",)),
        Change("changed", "b", ("run",)),
        Change("removed", "gone"),
    )


@pytest.mark.parametrize(
    ("old", "new", "details"),
    [
        (A, A.replace("1h", "2h"), ("when",)),
        (A, A.replace("1h", "60m"), ("when",)),
        (A, f"{A}timeout = 5\nretry = 2", ("timeout", "retry")),
        (f"{A}timeout = 5", A, ("timeout",)),
        (A, f'{A}env = {{ A = "1" }}\ncwd = "x"\nkill_after = 1', ("env", "cwd", "kill_after")),
        (A, f'{A}description = "x"\non_failure = "y"', ("description", "on_failure")),
        (A, PYTHON, ("run", "python")),
        (PYTHON, A, ("python", "run")),
        (PYTHON, f"{PYTHON}args = [1]\nkwargs = {{ a = 1 }}", ("args", "kwargs")),
        (PYTHON, PYTHON.replace("m:f", "m:g"), ("python",)),
    ],
)
def test_details_are_the_keys_of_the_file(old: str, new: str, details: tuple[str, ...]) -> None:
    """`kill_after_us` stands in no file."""
    assert changes(old, new) == (Change("changed", "a", details),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (A, f"\n\n# moved\n{A}"),
        (f"{A}timeout = 60", f'{A}timeout = "1m"'),
        (f"{A}timeout = 60", f"[defaults]\ntimeout = 60\n{A}"),
        ('[tasks.a]\nrun = "x"', '[defaults]\noverlap = "queue"\n[tasks.a]\nrun = "x"'),
        (f'{A}[tasks.b]\nrun = "x"', f'[tasks.b]\nrun = "x"\n{A}'),
    ],
)
def test_what_means_the_same_is_no_change(old: str, new: str) -> None:
    """A task that is told as changed is scheduled anew."""
    assert changes(old, new) == ()


def test_what_is_said_of_all_changes_those_that_it_fits() -> None:
    """One line of the file, and twenty tasks."""
    old = f'[defaults]\noverlap = "skip"\n{A}[tasks.b]\nrun = "x"'
    assert changes(old, old.replace("skip", "queue")) == (Change("changed", "a", ("overlap",)),)


def test_another_zone_is_another_time_of_what_is_in_it() -> None:
    """`0 9 * * *` stands there as before; `every 1h` is the same everywhere."""
    old = f'timezone = "UTC"\n{A}[tasks.b]\nrun = "x"\nwhen = "0 9 * * *"'
    new = old.replace("UTC", "Europe/Berlin")
    assert changes(old, new) == (Change("changed", "timezone"), Change("changed", "b", ("when",)))


def test_what_is_no_task_is_told_by_its_table() -> None:
    """Pools, limits and the store cannot be changed while it runs: it must be seen that they were."""
    new = f'store = "sqlite:///x.db"\n{A}[pools.db]\nslots = 2\n[limits.api]\nrunning = 2'
    assert [change.name for change in changes(A, new)] == ["store", "pools", "limits"]
