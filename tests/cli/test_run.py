"""What `tickless run` tells its caller: the exit code, and where each line goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import tickless, written

FINE = """
from tickless import Scheduler
scheduler = Scheduler()
scheduler.schedule(print, args=("hello",), id="greet")
"""
GETATTR = FINE + "def __getattr__(name): raise RuntimeError('no ' + name)"
PROXY = (
    FINE
    + """
class Proxy:  # as web frameworks have them: unusable outside of a request
    def __getattribute__(self, name): raise RuntimeError("outside of a request")
proxy = Proxy()
"""
)
EMPTY = "from tickless import Scheduler\nscheduler = Scheduler()"
MADE = """
from tickless import Scheduler
def make():
    scheduler = Scheduler()
    scheduler.schedule(print, args=("made",))
    return scheduler
"""
HEARTBEAT = """
from tickless import Scheduler, every
scheduler = Scheduler()
beats = []
def beat():
    beats.append(1)
    if len(beats) == 3:
        heart.cancel()
heart = scheduler.schedule(beat, every(seconds=0.01), id="heart")
"""
FAILING = """
from tickless import Scheduler
scheduler = Scheduler()
def divide(): return 1 / 0
scheduler.schedule(divide, id="broken")
"""
CHILD_SKIPPED = FAILING + 'scheduler.schedule(print, args=("never",), after_tasks=["broken"], id="child")'
FAILURE_HANDLED = FAILING + 'scheduler.schedule(print, after_tasks=["broken"], run_if="any_failed")'
SKIPPED_BY_PLAN = FINE + 'scheduler.schedule(print, after_tasks=["greet"], run_if="any_failed", id="alert")'
ONE_BEAT_FAILED = HEARTBEAT.replace("beats.append(1)", "beats.append(1); 1 / (len(beats) - 1)")
FAILED_LONG_AGO = FAILING.replace("Scheduler()", "Scheduler(keep_finished=0)") + "\n".join(
    [
        "for number in range(50):",
        "    scheduler.schedule(str, args=(number,))",
    ]
)


@pytest.mark.parametrize(
    ("source", "name", "code"),
    [
        pytest.param(FINE, "scheduler", 0, id="every task succeeded"),
        pytest.param(EMPTY, "scheduler", 0, id="nothing to do"),
        pytest.param(MADE, "make", 0, id="a function makes the scheduler"),
        pytest.param(HEARTBEAT, "scheduler", 0, id="a heartbeat is cancelled by plan"),
        pytest.param(SKIPPED_BY_PLAN, "scheduler", 0, id="an alert had no reason to run"),
        pytest.param(FAILING, "scheduler", 1, id="a task failed"),
        pytest.param(CHILD_SKIPPED, "scheduler", 1, id="a parent failed"),
        pytest.param(FAILURE_HANDLED, "scheduler", 1, id="a task failed and another looked after it"),
        pytest.param(ONE_BEAT_FAILED, "scheduler", 1, id="one run of many failed"),
        pytest.param(FAILED_LONG_AGO, "scheduler", 1, id="the failed task is forgotten already"),
        pytest.param("raise OSError('no disk')", "scheduler", 4, id="the file raises"),
        pytest.param("def broken(:", "scheduler", 4, id="the file is not Python"),
        pytest.param("import sys; sys.exit(0)", "scheduler", 4, id="the file exits"),
        pytest.param(FINE, "schedular", 4, id="no such name"),
        pytest.param(FINE + "\nnumber = 3", "number", 4, id="not a scheduler"),
        pytest.param("from tickless import Scheduler", "Scheduler", 4, id="the class itself"),
        pytest.param("def make(): return 3", "make", 4, id="the function returns something else"),
        pytest.param("def make(): return 1 / 0", "make", 4, id="the function raises"),
        pytest.param("def make(needed): return 3", "make", 4, id="the function needs arguments"),
        pytest.param(GETATTR, "schedular", 4, id="the file's own __getattr__ raises"),
        pytest.param(PROXY, "proxy", 4, id="an object that cannot be asked what it is"),
        pytest.param(PROXY, "schedular", 4, id="such an object beside it"),
        pytest.param(FINE + "\nscheduler.close()", "scheduler", 4, id="the scheduler is closed"),
    ],
)
def test_BUG_086_exit_code_tells_what_happened(tmp_path: Path, source: str, name: str, code: int) -> None:
    """In life: cron or CI sees exit code 0 and nobody learns that the night's work failed."""
    done = tickless("run", f"{written(tmp_path, source)}:{name}")
    assert done.returncode == code, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tickless: "), "the last line is ours: the summary, or what is wrong"
    assert ("succeeded" in last) == (code < 2), "a crash of our own ends with 1, too"
    if code == 2:
        assert done.stdout == "", "errors go to stderr"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 2),
        (("run",), 2),
        (("walk", "file.py"), 2),
        (("run", "no/such/file.py:scheduler"), 4),
        (("run", "."), 4),
        (("--version",), 0),
        (("--help",), 0),
        (("run", "--help"), 0),
    ],
)
def test_BUG_086_wrong_usage_is_two_and_help_is_zero(arguments: tuple[str, ...], code: int) -> None:
    """In life: a typing error in a crontab passes for success."""
    done = tickless(*arguments)
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0)
    assert bool(done.stderr) == (code != 0)
    assert "Traceback" not in done.stderr


def test_wrong_name_is_told_the_names_that_there_are(tmp_path: Path) -> None:
    """In life: a typing error costs a look into the file."""
    path = written(tmp_path, FINE.replace("scheduler", "night"))
    done = tickless("run", str(path))
    assert f"{path} has no 'scheduler'; try {path}:night" in done.stderr


def test_error_of_the_file_is_shown_from_its_own_first_line_on(tmp_path: Path) -> None:
    """In life: the line that matters stands under ten lines of importlib."""
    done = tickless("run", str(written(tmp_path, "def deep():\n    1 / 0\ndeep()")))
    assert "ZeroDivisionError" in done.stderr
    assert done.stderr.count('  File "') == 2
    assert "importlib" not in done.stderr
    assert "load.py" not in done.stderr


def test_error_of_the_files_own_getattr_is_shown_without_our_frames(tmp_path: Path) -> None:
    """In life: a lazy module whose import fails looks like a crash of tickless."""
    done = tickless("run", f"{written(tmp_path, GETATTR)}:schedular")
    assert "RuntimeError: no schedular" in done.stderr
    assert done.stderr.count('  File "') == 1
    assert "load.py" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("tickless: ")


def test_file_that_makes_its_scheduler_on_demand_is_run(tmp_path: Path) -> None:
    source = FINE.replace("scheduler = Scheduler()", "made = Scheduler()").replace("scheduler.s", "made.s")
    done = tickless("run", str(written(tmp_path, source + "def __getattr__(name): return made")))
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_file_imports_its_neighbours_and_its_main_part_is_left_alone(tmp_path: Path) -> None:
    """In life: a file works with python and not with tickless run, or runs twice."""
    (tmp_path / "neighbour.py").write_text("WORD = 'from next door'", encoding="utf-8")
    source = "from tickless import Scheduler\nfrom neighbour import WORD\nscheduler = Scheduler()\n"
    source += "scheduler.schedule(print, args=(WORD,))\nif __name__ == '__main__':\n    print('main')\n"
    done = tickless("run", str(written(tmp_path, source)))
    assert done.stdout.splitlines() == ["from next door"]


def test_file_named_like_a_module_of_the_standard_library_runs(tmp_path: Path) -> None:
    """In life: somebody calls a file queue.py, and the library breaks from within."""
    path = tmp_path / "queue.py"
    path.write_text(FINE, encoding="utf-8")
    done = tickless("run", str(path))
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_summary_counts_what_happened(tmp_path: Path) -> None:
    """In life: a log of a thousand lines, and nobody knows whether all went well."""
    source = CHILD_SKIPPED + "\n".join(
        [
            "",
            "from tickless import after",
            "for number in range(3):",
            "    scheduler.schedule(str, args=(number,))",
            "late = scheduler.schedule(str, after(3600))",
            "scheduler.schedule(late.cancel)",
        ]
    )
    done = tickless("run", str(written(tmp_path, source)))
    assert "4 succeeded, 1 failed, 1 skipped, 1 cancelled" in done.stderr.splitlines()[-1]


def test_failure_is_shown_once_with_its_traceback(tmp_path: Path) -> None:
    """In life: two observers print the same failure, and it looks like two."""
    done = tickless("run", str(written(tmp_path, FAILING)))
    assert done.stderr.count("Traceback (most recent call last)") == 1
    assert "return 1 / 0" in done.stderr
    assert "broken" in done.stderr


def test_programs_own_output_is_all_there_is_on_stdout(tmp_path: Path) -> None:
    """In life: `tickless run report.py > report.txt` mixes the report with the log."""
    assert tickless("run", str(written(tmp_path, FINE))).stdout == "hello\n"
