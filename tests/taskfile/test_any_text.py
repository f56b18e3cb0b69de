"""Whatever stands in a file, it is read or refused: nothing but FileError, and each problem is one line."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickless.taskfile.keys import DEFAULTS, TASK
from tickless.taskfile.read import read
from tickless.taskfile.values import FileError
from tickless.taskfile.write import key, value

TOML = Path("tasks.toml")
FAR = timezone(timedelta(hours=14))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    [
        "",
        " ",
        "a",
        "b",
        "5s",
        "-5s",
        "9999999999999d",
        "every 5m",
        "after 5s",
        "@daily",
        "0 5 * * *",
        "a:b",
        "skip",
        "all",
        "allow",
        "release",
        "any_failed",
        "default",
        "db",
        "\x00",
        "\r",
        "2027-01-01T09:00",
        "sqlite:///x.db",
        "UTC",
        "~",
        "~x",
    ]
)
NUMBERS = st.integers(-3, 5) | st.floats() | st.booleans() | st.sampled_from([10**30, -(10**30), 10**400, 255, 256])
MOMENTS = st.datetimes() | st.datetimes(timezones=st.sampled_from([UTC, FAR])) | st.dates() | st.times()
INNER = ["python", "run", "attempts", "delay", "factor", "jitter", "A", "", "slots", "running", "starts", "per"]
VALUES = st.recursive(
    TEXTS | NUMBERS | MOMENTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=3),
    max_leaves=5,
)
TASKS = st.fixed_dictionaries(
    {"run": st.just("x")}, optional={name: VALUES for name in TASK if name not in ("run", "python")}
)
FILES = st.fixed_dictionaries(
    {"tasks": st.dictionaries(st.sampled_from(["a", "b", "", "a@b", "\r"]), TASKS | VALUES, max_size=3)},
    optional={
        "timezone": VALUES,
        "store": VALUES,
        "defaults": st.dictionaries(st.sampled_from([*DEFAULTS, "run"]), VALUES, max_size=4) | VALUES,
        "pools": st.dictionaries(TEXTS, VALUES, max_size=2) | VALUES,
        "limits": st.dictionaries(TEXTS, VALUES, max_size=2) | VALUES,
        "tsks": VALUES,
    },
)


def problems_of(text: str, path: Path = TOML) -> list[str]:
    """What is wrong with it; empty for what was read."""
    try:
        read(path, text)
    except FileError as error:
        return [str(problem) for problem in error.problems]
    return []


def toml(said: object) -> str:
    """As `value`, with dates and times."""
    if isinstance(said, dict):
        return "{" + ", ".join(f"{key(name)} = {toml(one)}" for name, one in said.items()) + "}"
    if isinstance(said, list):
        return "[" + ", ".join(map(toml, said)) + "]"
    return said.isoformat() if hasattr(said, "isoformat") else value(said)


@given(FILES)
def test_any_values_under_any_keys_are_read_or_refused(file: dict[str, object]) -> None:
    """In life: a traceback where a line of the file should stand, for `timeout = nan`."""
    problems = problems_of("\n".join(f"{name} = {toml(said)}" for name, said in file.items()))
    assert [problem for problem in problems if len(problem.splitlines()) != 1] == []


@given(st.text(), st.booleans())
def test_any_text_is_read_or_refused(text: str, is_toml: bool) -> None:
    """Of either kind, surrogates too."""
    for problem in problems_of(text, TOML if is_toml else Path("crontab")):
        assert len(problem.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + "9" * 5_000, "it has a number of too many digits"),
        ("a = " + "[" * 3_000 + "]" * 3_000, "it is nested too deeply"),
        ("a = " + "{a = " * 3_000 + "1" + "}" * 3_000, "it is nested too deeply"),
    ],
)
def test_what_python_s_own_reader_breaks_at_is_refused(text: str, why: str) -> None:
    """It raises what is no TOML error there."""
    assert problems_of(text) == [f"is no TOML: {why}"]


def test_a_chain_of_thousands_is_read() -> None:
    """By work list, never by recursion."""
    first, rest = "[tasks.t0]\nrun = 'x'\nwhen = 'every 5m'\n", range(1, 3_000)
    assert problems_of(first + "".join(f"[tasks.t{i}]\nrun = 'x'\nafter_tasks = ['t{i - 1}']\n" for i in rest)) == []


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    """In life: a crontab in Latin-1, or a picture."""
    path = tmp_path / "crontab"
    path.write_bytes(b"0 5 * * * x\n# caf\xe9\n")
    with pytest.raises(FileError) as caught:
        read(path)
    assert [str(problem) for problem in caught.value.problems] == ["line 2: is not UTF-8"]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """And so is a folder."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(FileError, match="cannot be read: "):
            read(path)
