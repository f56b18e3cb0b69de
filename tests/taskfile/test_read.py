"""A task file says the same as the parameters in Python, with the same names and values."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.taskfile.good import FOLDER, file_of, text_of
from tests.taskfile.test_mistakes import told_of
from tickless.commands.command import Command
from tickless.options import CallOptions
from tickless.policies import Limit, Retry
from tickless.rules import cron, every
from tickless.taskfile.keys import OPTIONS
from tickless.taskfile.read import read
from tickless.taskfile.values import FlowDef, PythonCall, TaskDef, TaskFile

BEGIN = '[tasks.a]\nrun = "x"\n'


def the_task(text: str, name: str = "a") -> TaskDef:
    file = read(Path("tasks.toml"), text)
    return next(task for task in file.tasks if task.name == name)


def option(line: str) -> Any:
    """What comes of the option of a task that recurs."""
    return the_task(f'{BEGIN}when = "every 1h"\n{line}').options[line.partition(" ")[0]]


def test_the_options_are_the_parameters_of_schedule() -> None:
    """A parameter that files do not know makes people write Python after all."""
    elsewhere = {"args", "kwargs", "id", "name", "after_tasks", "on_failure"}
    assert set(OPTIONS) == set(CallOptions.__annotations__) - elsewhere


def test_the_first_file_of_the_page() -> None:
    """Three lines are enough."""
    hello = TaskDef("hello", Command("echo hello"), every(seconds=10), "every 10s")
    assert file_of("first.toml") == TaskFile(FOLDER / "first.toml", "toml", tasks=(hello,), parts=(hello,))


def test_every_key_says_what_its_parameter_says() -> None:
    """Each key once, so that none is read and forgotten."""
    file = file_of("everything.toml")
    assert (file.timezone, file.store, file.pools) == ("Europe/Berlin", "sqlite:///tasks.db", {"db": 2})
    assert file.limits == (Limit("api", running=3, starts=10, per=60), Limit("disk", running=1))
    report = file.tasks[0]
    assert report.work == Command(
        "python report.py",
        shell="/bin/bash",
        env=(("MODE", "day"),),
        cwd=str(FOLDER / "reports"),
        stdin="yes\n",
        user="www-data",
        success_codes=(0, 3),
        kill_after_us=2_500_000,
    )
    assert (report.when, report.when_text) == (cron("0 7 * * mon-fri", tz="Europe/Berlin"), "0 7 * * mon-fri")
    assert report.description == 'The figures of the day, for "everybody".'
    assert report.place == "tasks.report"
    assert report.options == {
        "timeout": timedelta(minutes=90),
        "on_timeout": "release",
        "retry": Retry(4, delay=10, factor=3, max_delay=600, jitter=5),
        "grace": timedelta(minutes=10),
        "overlap": "allow",
        "max_running": 2,
        "catch_up": "all",
        "max_catch_up": 5,
        "pause_after_failures": 3,
        "pool": "db",
        "limit": "api",
        "priority": 5,
        "tags": ("shop", "figures"),
        "delivery": "at_most_once",
        "start": datetime(2026, 12, 31, 23, tzinfo=UTC),
        "until": datetime(2027, 12, 31, 23, tzinfo=UTC),
        "max_runs": 100,
        "jitter": timedelta(seconds=30),
    }


def test_a_function_is_named_and_not_imported() -> None:
    """To look at a file must not run what it speaks of."""
    index = file_of("everything.toml").tasks[1]
    arguments = (1, "two", [3.5], {"four": True}, date(2027, 1, 1))
    assert index.work == PythonCall("shop.search:Index.build", arguments, {"deep": True})


def test_what_is_done_about_a_failure_has_the_place_of_its_task_but_not_its_input() -> None:
    """An alarm that reads what was meant for the report; one that counts exit code 3 as success."""
    report, index, start, _ = file_of("everything.toml").tasks
    assert report.on_failure == Command(
        ("sh", "alarm.sh", "report"),
        shell="/bin/bash",
        env=(("MODE", "day"),),
        cwd=str(FOLDER / "reports"),
        user="www-data",
        kill_after_us=2_500_000,
    )
    assert index.on_failure == Command("sh alarm.sh index", shell="/bin/bash", kill_after_us=10_000_000)
    assert start.on_failure == PythonCall("shop.alarms:tell")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("timeout = 90", timedelta(seconds=90)),
        ("timeout = 0.5", timedelta(milliseconds=500)),
        ('timeout = "90s"', timedelta(seconds=90)),
        ('timeout = "1h30m"', timedelta(minutes=90)),
        ('timeout = "2 days"', timedelta(days=2)),
        ("retry = 3", Retry(3)),
        ('retry = { attempts = 3, delay = "1m" }', Retry(3, delay=60)),
        ("tags = []", ()),
        ("start = 2027-01-01T09:00:00+02:00", datetime(2027, 1, 1, 7, tzinfo=UTC)),
        ('start = "2027-01-01T09:00"', datetime(2027, 1, 1, 9, tzinfo=UTC)),
        ("until = 2027-01-01", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_value_may_be_written_in_several_ways(line: str, expected: object) -> None:
    """Seconds as in Python, or as one says it."""
    assert option(line) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-03-29T02:30:00", datetime(2026, 3, 29, 1, tzinfo=UTC)),  # is skipped: the first instant after the gap
        ("2026-10-25T02:30:00", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # comes twice: the first
    ],
)
def test_a_moment_that_the_clock_skips_or_shows_twice_is_one_instant(moment: str, expected: datetime) -> None:
    """As `docs/time.md` has it for rules."""
    task = the_task(f'timezone = "Europe/Berlin"\n{BEGIN}when = "every 1h"\nstart = {moment}')
    assert task.options["start"] == expected


def test_times_are_in_the_zone_of_the_file_unless_they_name_one() -> None:
    """At nine in Berlin, and not at nine in Greenwich."""
    lead = f'timezone = "Europe/Berlin"\n{BEGIN}'
    assert the_task(f'{lead}when = "0 9 * * *"').when == cron("0 9 * * *", tz="Europe/Berlin")
    assert the_task(f'{lead}when = "0 9 * * * Asia/Tokyo"').when == cron("0 9 * * *", tz="Asia/Tokyo")


def test_a_folder_is_from_that_of_the_file_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever tickless was started."""
    monkeypatch.setenv("HOME", str(tmp_path / "house"))
    path = tmp_path / "tasks.toml"

    def folder(cwd: str) -> str | None:
        work = read(path, f'{BEGIN}cwd = "{cwd}"').tasks[0].work
        assert isinstance(work, Command)
        return work.cwd

    assert folder("data/../logs") == str(tmp_path / "logs")
    assert folder("/srv") == os.path.normpath("/srv")
    assert folder("~/data") == str(tmp_path / "house" / "data")


def test_variables_of_a_task_are_added_to_those_of_all() -> None:
    """One more variable, and PATH is gone."""
    task = the_task(f'[defaults]\nenv = {{ A = "1", B = "1" }}\n{BEGIN}env = {{ B = "2", C = "2" }}')
    assert task.work == Command("x", env=(("A", "1"), ("B", "2"), ("C", "2")))


def test_the_order_in_which_variables_are_written_makes_no_difference() -> None:
    """A reload that finds a change where none is."""
    assert the_task(f'{BEGIN}env = {{ A = "1", B = "2" }}') == the_task(f'{BEGIN}env = {{ B = "2", A = "1" }}')


@pytest.mark.parametrize(
    ("defaults", "task", "left"),
    [
        ('overlap = "queue"', 'when = "every 1h"', {"overlap"}),
        ('overlap = "queue"', "", set()),
        ('overlap = "queue"', 'when = "after 1h"', set()),
        ('overlap = "queue"', 'when = "every 1h sliding"', set()),
        ('overlap = "allow"\nmax_running = 3', 'when = "every 1h"', {"overlap", "max_running"}),
        ('overlap = "allow"\nmax_running = 3', 'when = "every 1h"\noverlap = "skip"', {"overlap"}),
        ('catch_up = "all"\nmax_catch_up = 3', 'when = "every 1h"\ncatch_up = "none"', {"catch_up"}),
        ('catch_up = "all"\nmax_catch_up = 3', "", set()),
        ('catch_up = "all"\ngrace = "1m"', 'when = "every 1h"', {"grace"}),
        ('catch_up = "all"\ngrace = "2h"', 'when = "every 1h"', {"catch_up", "grace"}),
        ('grace = "1m"', 'when = "after 1h"', {"grace"}),
        ('jitter = "1m"', 'when = "every 1m"', set()),
        ('jitter = "1m"', 'when = "every 2m"', {"jitter"}),
        ('jitter = "1m"', 'when = "at 2027-01-01 09:00"', {"jitter"}),
        ('jitter = "1m"', "", set()),
        ("start = 2027-01-01\nmax_runs = 3", 'when = "after 1h"', set()),
        ("start = 2027-01-01", 'when = "every 1h"\nuntil = 2026-01-01', {"until"}),
        ('on_timeout = "release"', "", set()),
        ('on_timeout = "release"', "timeout = 5", {"on_timeout", "timeout"}),
        ("pause_after_failures = 3", "", set()),
        ('run_if = "all_done"', "", set()),
        ("retry = 3\npriority = 2", "", {"retry", "priority"}),
    ],
)
def test_what_is_said_of_all_and_does_not_fit_a_task_is_left_out_of_it(
    defaults: str, task: str, left: set[str]
) -> None:
    """Otherwise [defaults] could say only what fits the least of the tasks."""
    assert set(the_task(f"[defaults]\n{defaults}\n{BEGIN}{task}").options) == left


def test_what_does_not_fit_is_refused_where_the_task_itself_says_it() -> None:
    """Also where it is said of all: whoever wrote it there wants it."""
    assert told_of(f'[defaults]\noverlap = "queue"\n{BEGIN}overlap = "queue"')
    assert told_of(f'[defaults]\nmax_running = 2\n{BEGIN}when = "every 1h"\nmax_running = 2')


def test_commands_are_told_apart_from_functions_under_defaults() -> None:
    """What is about commands says nothing to a function."""
    text = '[defaults]\ncwd = "x"\nshell = "/bin/bash"\n[tasks.a]\npython = "m:f"'
    assert the_task(text).work == PythonCall("m:f")


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
def test_line_ends_and_marks_of_other_systems_make_no_difference(change: Any, tmp_path: Path) -> None:
    """A file that was edited elsewhere."""
    text = text_of("flow.toml")
    assert file_of("flow.toml", change(text)) == file_of("flow.toml")
    path = tmp_path / "tasks.toml"
    path.write_bytes(change(text).encode())
    assert [one.name for one in read(path).tasks] == [one.name for one in file_of("flow.toml").tasks]


def test_the_ending_of_its_name_says_what_it_is() -> None:
    """A crontab has none."""
    assert read(Path("TASKS.TOML"), BEGIN).kind == "toml"
    assert read(Path("crontab"), "@reboot true\n").kind == "crontab"


def test_parts_are_tasks_and_flows_in_the_order_of_the_file() -> None:
    """What `tickless ls` shows."""
    parts = file_of("flow.toml").parts
    assert [type(part) for part in parts] == [FlowDef, TaskDef]
