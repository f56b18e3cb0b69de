"""What is written reads back as the same, whatever the texts hold."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.taskfile.fixtures import meanings
from tickless.commands.command import Command
from tickless.rules.text import parse
from tickless.taskfile.crontab import read_crontab
from tickless.taskfile.machine import home_of
from tickless.taskfile.read import read
from tickless.taskfile.values import FileError, TaskDef, TaskFile
from tickless.taskfile.write import key, text, to_toml, value

TOML = Path("tasks.toml")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
"""All that a file in UTF-8 can hold."""
RARE = [
    '"',
    "'",
    "\\",
    "\n",
    "\r\n",
    "\t",
    "\x00",
    "\x1f",
    "\x7f",
    "\x85",
    "\u2028",
    "é",
    "☕",
    "𝄞",
    '"""',
    "\\u0041",
    "#",
    " ",
]


@given(TEXTS)
def test_a_text_reads_back(said: str) -> None:
    """Quotes, backslashes, control characters, line ends, and what is beyond 16 bits."""
    assert tomllib.loads(f"a = {text(said)}") == {"a": said}
    assert tomllib.loads(f"{key(said)} = 1") == {said: 1}


@pytest.mark.parametrize("said", RARE)
def test_a_rare_text_reads_back_and_takes_one_line(said: str) -> None:
    """A line end that is written as it is ends the text, or becomes another."""
    assert tomllib.loads(f"a = {text(said)}") == {"a": said}
    assert len(f"a = {text(said)}".split("\n")) == 1


@given(st.recursive(TEXTS | st.integers(-9, 9) | st.booleans(), lambda v: st.lists(v) | st.dictionaries(TEXTS, v)))
def test_a_value_reads_back(said: object) -> None:
    """Lists and tables too."""
    assert tomllib.loads(f"a = {value(said)}") == {"a": said}


# Task files

NO_NUL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
SAID = NO_NUL.filter(str.strip)
VARIABLES = st.dictionaries(SAID.filter(lambda name: "=" not in name), NO_NUL, max_size=4)
FOLDERS = st.none() | st.sampled_from(["/srv/x", "/", "/a b/ü", home_of(None)])
WHENS = st.sampled_from([None, "@daily", "30 2 * * *", "*/10 * * * * *", "0 9 * * MON-FRI Asia/Tokyo"])


@st.composite
def commands(draw: st.DrawFn) -> Command:
    env = tuple(sorted(draw(VARIABLES).items()))
    run, shell = draw(SAID), draw(st.sampled_from(["/bin/sh", "/bin/bash"]))
    stdin, user = draw(st.none() | NO_NUL), draw(st.none() | st.just("root"))
    codes, kill_after_us = draw(st.sampled_from([(0,), (0, 3)])), draw(st.sampled_from([5_000_000, 0, 1_500_000]))
    return Command(run, shell, env, draw(FOLDERS), stdin, user, codes, kill_after_us)


@st.composite
def files(draw: st.DrawFn) -> TaskFile:
    names = draw(st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True), min_size=1, max_size=4, unique=True))
    zone = draw(st.sampled_from(["UTC", "Europe/Berlin"]))
    tasks = []
    for name in names:
        when = draw(WHENS)
        rule = None if when is None else parse(when, tz=zone)
        description = draw(st.none() | SAID)
        tasks.append(TaskDef(name, draw(commands()), rule, when, description=description))
    path = Path(draw(st.sampled_from(["crontab", "a\nb", "ü \x1b[1m"])))
    warnings = tuple(draw(st.lists(TEXTS, max_size=2)))
    return TaskFile(path, "crontab", zone, tasks=tuple(tasks), parts=tuple(tasks), warnings=warnings)


@given(files())
def test_what_is_written_reads_back_as_the_same(file: TaskFile) -> None:
    """What the commands have in common is said once, and that is no difference."""
    again = read(TOML, to_toml(file))
    assert meanings(again) == meanings(file)
    assert again.timezone == file.timezone


def test_what_all_have_in_common_is_said_once() -> None:
    """In life: thirty lines, and each with the same PATH."""
    crontab = "PATH=/bin\nSHELL=/bin/bash\n* * * * * a\nB=1\n* * * * * b\n"
    file = read_crontab(Path("crontab"), crontab, user_column=False, timezone="UTC")
    assert to_toml(file) == (
        '# From crontab.\n\ntimezone = "UTC"\n\n[defaults]\nshell = "/bin/bash"\ncwd = "~"\n'
        'env = { PATH = "/bin", SHELL = "/bin/bash" }\n\n[tasks.a]\nrun = "a"\nwhen = "* * * * *"\n\n'
        '[tasks.b]\nrun = "b"\nwhen = "* * * * *"\nenv = { B = "1" }\n'
    )


# Crontabs

LINES = st.sampled_from(
    [
        "0 5 * * * x", "@daily y%in", "@reboot z", "-*/5 * * * * w", "* * * * * * v", "CRON_TZ=Asia/Tokyo", "A='b c'",
        "# words", "", "HOME=/srv//x/", "SHELL=/bin/bash", "MAILTO=a", "0 5 * * * root x", "61 * * * * x", "@never x",
        "A='", "0 5 * * *", r"* * * * * a \% \\% b%%", "\ufeff", "\t", "TZ=x", "0 5 * * * \x0b", "* * * * * é\u2028x",
    ]
)  # fmt: skip


def reads_back(crontab: str) -> None:
    """A crontab that can be read is the same as a task file; one that cannot has problems, each of one line."""
    file, problems = outcome(lambda: read_crontab(Path("crontab"), crontab, timezone="UTC"))
    if file is None:
        assert problems
        assert all(len(problem.splitlines()) == 1 for problem in problems)
    else:
        assert meanings(read(TOML, to_toml(file))) == meanings(file)


def outcome(reading: Callable[[], TaskFile]) -> tuple[TaskFile | None, list[str]]:
    """What was read, or what is wrong with it."""
    try:
        return reading(), []
    except FileError as error:
        return None, [str(problem) for problem in error.problems]


@given(st.lists(LINES, max_size=8).map("\n".join))
def test_a_crontab_of_likely_lines_reads_back_as_a_task_file(crontab: str) -> None:
    """In whatever order they stand."""
    reads_back(crontab)


@given(st.lists(LINES | NO_NUL.map("0 5 * * * ".__add__) | NO_NUL.map("A=".__add__), max_size=4).map("\n".join))
@example("0 5 * * * \x1c")
@example("0 5 * * * x%\x1c")
@example("# \x1c\n0 5 * * * x")
@example("SHELL=\u2003\n0 5 * * * x")
@example("HOME=/\u2003\n0 5 * * * x")
def test_a_crontab_with_any_command_and_any_value_reads_back(crontab: str) -> None:
    """Also with what no editor shows."""
    reads_back(crontab)


@given(TEXTS)
@example("\x00")
@example("@")
@example("-")
@example("=")
@example("* * * * * %")
def test_reading_any_text_as_a_crontab_raises_nothing_but_file_errors(crontab: str) -> None:
    """In life: `tickless run` of a picture."""
    reads_back(crontab)
