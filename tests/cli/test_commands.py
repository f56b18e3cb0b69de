"""Each command through a process of its own, on a scheduler that runs: exit code, page, document."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.stage import Stage, checked, stop, wait_for

FILE = """
timezone = "Europe/Berlin"

[pools.db]
slots = 2

[limits.api]
running = 1

[tasks.dump]
description = "the nightly dump"
run = "echo dumping; echo $TICKLESS_RUN; exit ${CODE:-0}"
when = "30 2 * * *"
pool = "db"
tags = ["backup"]

[tasks.upload]
run = ["echo", "uploading"]
after_tasks = ["dump"]
limit = "api"

[tasks.broken]
run = "echo no disk; exit 3"
when = "0 4 * * *"

[tasks.slow]
run = "read line < gate"
when = "0 5 * * *"

[tasks.once]
run = "true"
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One scheduler for all tests of this module: they ask of tasks of their own."""
    it = Stage(tmp_path_factory.mktemp("stage"))
    it.write("tasks.toml", FILE)
    with it.running("tasks.toml") as process:
        wait_for("next is", process.stderr)
        yield it
        code, _, err = stop(process, signal.SIGTERM)
        assert (code, "Traceback" in err) == (143, False)


def test_ls_lists_what_there_is_and_says_where_it_is_from(stage: Stage) -> None:
    lines = stage.done("ls").splitlines()
    assert lines[0].startswith("running scheduler of tasks.toml (pid ")
    assert lines[0].endswith("; times in Europe/Berlin (UTC+01:00)") or lines[0].endswith("(UTC+02:00)")
    assert lines[2].split() == ["TASK", "STATE", "NEXT", "LAST", "WHEN"]
    assert [line.split()[0] for line in lines[3:]] == ["dump", "broken", "slow", "once"]
    shown = stage.json("ls", "--tag", "backup")
    assert [(task["id"], task["kind"], task["description"]) for task in shown["tasks"]] == [
        ("dump", "flow", "the nightly dump")
    ]
    assert shown["source"]["kind"] == "socket"
    assert [task["id"] for task in stage.json("ls", "--state", "succeeded", "--once")["tasks"]] == ["once"]


def test_a_word_after_the_command_or_before_it_is_the_same(stage: Stage) -> None:
    assert stage.done("--json", "ls") == stage.done("ls", "--json")
    assert stage.done("-q", "ls").splitlines()[0].split()[0] == "TASK"


def test_show_and_runs_and_logs_of_a_flow(stage: Stage) -> None:
    """From the round by hand to what its tasks have printed."""
    run = stage.json("run-now", "dump", "--wait")["run"]
    assert run["state"] == "succeeded"
    page = stage.json("show", "dump")
    assert [(task["name"], task["state"]) for task in page["round"]["tasks"]] == [
        ("dump", "succeeded"),
        ("upload", "succeeded"),
    ]
    text = stage.done("show", "dump")
    assert "when        every day at 02:30, Europe/Berlin" in text
    assert "└─ upload" in text
    assert stage.json("show", page["round"]["round"])["task"] is None
    assert [one["text"] for one in stage.json("logs", "dump")["outputs"]][1] == "uploading\n"
    assert "== " in stage.done("logs", "dump/upload")
    assert stage.done("logs", "-q", "dump/upload") == "uploading\n"
    tasks = [one["task"] for one in stage.json("runs", page["round"]["round"])["runs"]]
    assert sorted(tasks) == sorted(f"{page['round']['round']}/{name}" for name in ("dump", "upload"))


def test_run_now_that_waits_gives_one_when_it_failed(stage: Stage) -> None:
    """BUG-086: it printed the failure, and exited with 0."""
    run = stage.json("run-now", "broken", "--wait", code=1)["run"]
    assert (run["state"], run["error"]) == ("failed", "CommandFailed: exit code 3: no disk")
    assert stage.json("runs", "broken", "--failed")["runs"][0]["run"] == run["run"]
    assert "no disk" in stage.done("runs", "broken")
    assert stage.json("retry", "broken")["run"]["task"] == "broken"
    assert stage.done("run-now", "once", code=6) == ""


def test_run_now_that_waits_too_long_is_seven(stage: Stage) -> None:
    os.mkfifo(stage.folder / "gate")
    done = stage.call("run-now", "slow", "--timeout", "0.05")
    assert (done.returncode, done.stdout) == (7, "")
    assert "has not ended within 0.05 s; it goes on" in done.stderr
    assert stage.json("cancel", "slow")["changed"] == [{"id": "slow", "answer": "asked"}]


def test_pause_and_resume(stage: Stage) -> None:
    answer = stage.json("pause", "broken", "--reason", "moving", "--until", "2099-01-01T00:00")
    assert answer["changed"] == [{"id": "broken", "count": 1}]
    assert "paused      until 2099-01-01 00:00:00: moving" in stage.done("show", "broken", "--tz", "UTC")
    assert stage.done("resume", "broken").splitlines()[-1] == "broken: resumed"
    assert stage.done("resume", "broken").splitlines()[-1] == "broken: was not paused"
    assert stage.done("pause", "--tag", "backup").splitlines()[-1] == "tag backup: 1 paused"
    assert stage.json("resume", "--tag", "backup")["changed"] == [{"tag": "backup", "count": 1}]


def test_a_zone_that_is_none_is_told_before_anything_is_done(stage: Stage) -> None:
    """In life: "usage", says the command, and is called again; and the first call had done it, too."""
    said = stage.refused("pause", "dump", "--tz", "Nowhere/City", code=2)
    assert said.startswith("--tz: 'Nowhere/City' is no zone")
    assert stage.json("show", "dump")["task"]["paused"] is False


def test_graph_in_each_form(stage: Stage) -> None:
    assert stage.done("graph", "dump").splitlines()[-2].split()[0] == "dump"
    assert "└─ upload" in stage.done("graph", "dump")
    assert stage.json("graph", "dump")["edges"] == [["dump", "upload"]]
    mermaid = stage.done("graph", "dump", "--mermaid").splitlines()
    assert (mermaid[0], mermaid[-1]) == ("flowchart TD", "    t0 --> t1")
    dot = stage.done("graph", "dump", "--dot").splitlines()
    assert (dot[0], dot[-2]) == ("digraph tickless {", '    "dump" -> "upload";')
    whole = stage.json("graph")
    steps = {"dump/dump", "dump/upload"}
    assert {node["id"] for node in whole["nodes"]} == {"dump", "broken", "slow", "once"} | steps
    assert whole["edges"] == [["dump", "dump/dump"], ["dump/dump", "dump/upload"]]
    assert "   └─ dump/upload" in stage.done("graph")


def test_health_and_events(stage: Stage) -> None:
    shown = stage.json("health")
    assert (shown["healthy"], shown["findings"]) == (True, [])
    assert "all is well" in stage.done("health")
    assert stage.done("health", "-q") == ""
    lines = stage.done("events", "--json").splitlines()
    assert {checked(line)["kind"] for line in lines} == {"event"}
    assert "succeeded" in stage.done("events", "-n", "500")


def test_events_are_followed_as_they_happen(stage: Stage) -> None:
    from tests.cli.command import COMMAND, PATIENCE_S

    with subprocess.Popen(
        [*COMMAND, "events", "--follow", "-n", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=stage.folder,
        env=stage.environment,
    ) as follower:
        try:
            assert follower.stdout is not None
            # It says nothing until something happens, so one is made to happen until it has heard of it: the first may
            # be over before it listens.
            while not select.select([follower.stdout], [], [], 0)[0]:
                stage.call("run-now", "broken")
            assert json.loads(follower.stdout.readline())["task"] == "broken"
            follower.send_signal(signal.SIGINT)
            assert follower.wait(PATIENCE_S) == 130
        finally:
            follower.kill()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "dupm"), 3, "did you mean 'dump'?"),
        (("show", "dump@2020-01-01T00:00:00Z"), 3, "dump@2020"),
        (("runs", "nobody"), 3, "nobody"),
        (("logs", "nobody"), 3, "nobody"),
        (("logs", "dump", "--run", "1999"), 3, "1999"),
        (("run-now", "nobody"), 3, "nobody"),
        (("cancel", "nobody"), 3, "nobody"),
        (("pause",), 2, "name tasks, or a tag"),
        (("pause", "dump", "--all"), 2, "name tasks, or a tag"),
        (("pause", "dump", "--until", "tomorrow"), 2, "--until needs a date"),
        (("pause", "dump", "--until", "2001-01-01"), 6, "give a time to come"),
        (("retry", "once"), 6, "its last run succeeded"),
        (("graph", "--dot", "--mermaid"), 2, "say one form"),
        (("ls", "--state", "asleep"), 2, "asleep"),
        (("ls", "--tz", "Europe/Berln"), 2, "did you mean 'Europe/Berlin'"),
        (("ls", "--store", "sqlite:///x.db", "--app", "x:y"), 2, "say one place"),
        (("ls", "--socket", "no/such"), 5, "no scheduler can be reached there"),
        (("ls", "--file", "no.toml"), 4, "no.toml"),
        (("ls", "--app", "nomodule:x"), 4, "nomodule"),
        (("ls", "--store", "sqlite:///nothere.db"), 5, "nothere.db"),
        (("run", "tasks.toml"), 6, "runs already"),
        (("lss",), 2, "did you mean ls?"),
        (("ls", "--jsn"), 2, "--jsn"),
        (("import", "crontab", "nothere"), 4, "nothere"),
    ],
)
def test_what_cannot_be_is_told_on_standard_error_with_its_code(
    stage: Stage, arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert words in stage.refused(*arguments, code=code)


def test_where_nothing_runs_and_no_file_is_there(tmp_path: Path) -> None:
    """BUG-086: a list exited with 0 when nobody could be reached."""
    stage = Stage(tmp_path)
    for command in ("ls", "runs", "health", "events", "graph"):
        assert "no scheduler of yours runs" in stage.refused(command, code=5)


def test_a_file_that_nobody_runs_is_looked_at_and_not_changed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write("tasks.toml", FILE)
    assert [task["id"] for task in stage.json("ls")["tasks"]] == ["dump", "broken", "slow", "once"]
    assert "task file tasks.toml, which does not run" in stage.done("ls")
    assert "└─ upload" in stage.done("graph", "dump")
    assert "no scheduler runs it" in stage.refused("cancel", "dump", code=6)
    assert "no scheduler runs it" in stage.refused("pause", "dump", code=6)
    assert "nobody runs it" in stage.refused("health", code=5)
    assert "nobody runs it" in stage.refused("events", code=5)


def test_a_task_of_a_file_that_nobody_runs_is_run_here(tmp_path: Path) -> None:
    """In life: one wants to see whether the line of the crontab works, before the night."""
    stage = Stage(tmp_path)
    stage.write("tasks.toml", FILE)
    done = stage.call("run-now", "dump")
    assert done.returncode == 0
    assert [line.rpartition(" | ")[2] for line in done.stdout.splitlines()][::2] == ["dumping", "uploading"]
    assert stage.call("run-now", "broken").returncode == 1
    assert "did you mean 'broken'" in stage.refused("run-now", "brokn", code=3)
    lines = stage.call("run-now", "broken", "--json").stdout.splitlines()
    assert {checked(line)["kind"] for line in lines} == {"event", "note", "output"}
    assert stage.call("run-now", "slow", "--timeout", "0.2").returncode in (1, 7)


def test_app_of_a_module_that_does_not_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write(
        "shop.py",
        "from tickless import Scheduler, every\nscheduler = Scheduler()\n"
        "scheduler.schedule(print, every(hours=1), id='beat')\n",
    )
    for target in ("shop:scheduler", "shop", "shop.py:scheduler"):
        shown = stage.json("ls", "--app", target)
        assert [task["id"] for task in shown["tasks"]] == ["beat"]
        assert shown["source"] == {"kind": "app", "where": target}
    assert "app shop:scheduler, which does not run" in stage.done("ls", "--app", "shop:scheduler")
    assert "has no 'schedular'" in stage.refused("ls", "--app", "shop:schedular", code=4)


def test_doctor(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    shown = stage.json("doctor")
    assert shown["healthy"]
    assert {"versions", "sqlite", "time zones", "clock", "sockets"} <= {one["what"] for one in shown["findings"]}
    stage.write("tasks.toml", FILE.replace('after_tasks = ["dump"]', 'after_tasks = ["dmp"]'))
    shown = stage.json("doctor", code=8)
    assert [one["message"] for one in shown["findings"] if one["level"] == "bad"] == [
        'tasks.upload.after_tasks: no task named "dmp" (did you mean "dump"?)'
    ]
    assert "bad   tasks.toml" in stage.done("doctor", code=8)


def test_demo_is_all_well(tmp_path: Path) -> None:
    done = Stage(tmp_path).call("demo")
    assert done.returncode == 0
    assert "8 succeeded, 0 failed" in done.stderr.splitlines()[-1]
    assert "cleaned up" in done.stdout


def test_preview_of_a_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write("tasks.toml", FILE)
    shown = stage.json("preview", "tasks.toml", "--from", "2027-03-27T12:00", "-n", "3")
    assert [(fire["due"], fire["task"]) for fire in shown["fires"]] == [
        ("2027-03-28T01:00:00Z", "dump"),
        ("2027-03-28T02:00:00Z", "broken"),
        ("2027-03-28T03:00:00Z", "slow"),
    ]
    assert shown["at_start"] == ["once"]
    page = stage.done("preview", "tasks.toml", "--from", "2027-03-27T12:00", "-n", "3")
    assert "02:30 does not exist on 28 Mar in Europe/Berlin; fires at 03:00" in page
    assert "is about two rules" in stage.refused("preview", "tasks.toml", "--compare", "every 5m", code=2)
    checked(stage.done("preview", "every 5m", "--json"))
    checked(stage.done("preview", "every 5m", "--compare", "every 10m", "--json"))


def test_import_of_a_crontab(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    crontab = "CRON_TZ=Europe/Paris\nMAILTO=ops\n# the nightly dump\n30 2 * * * /opt/dump.sh > /dev/null\n"
    stage.write("crontab", crontab)
    done = stage.call("import", "crontab", "crontab")
    assert done.returncode == 0
    assert 'when = "30 2 * * *"' in done.stdout
    assert "no mail is sent" in done.stderr
    assert stage.call("import", "crontab", "-", given=crontab).stdout.count("[tasks.") == 1
    assert stage.json("import", "crontab", "crontab", "-o", "tasks.toml")["tasks"] == ["dump"]
    assert "is there already" in stage.refused("import", "crontab", "crontab", "-o", "tasks.toml", code=6)
    assert stage.call("import", "crontab", "crontab", "-o", "tasks.toml", "--yes").returncode == 0
    assert stage.json("ls")["tasks"][0]["description"] == "the nightly dump"
    assert stage.json("ls", "-f", "crontab")["tasks"][0]["id"] == "dump"


def test_without_click_it_says_how_to_get_it(tmp_path: Path) -> None:
    """The command is always there, and what it needs is in an extra."""
    code = "import sys; sys.modules['click'] = None; from tickless.cli import main; sys.exit(main(['ls']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "tickless: the command line needs click, which is not installed: pip install 'tickless[cli]'\n"
    )


def test_more_is_said_when_more_is_asked_for(stage: Stage, tmp_path: Path) -> None:
    heads = stage.done("ls", "-v").splitlines()[2].split()
    assert heads == ["TASK", "STATE", "NEXT", "LAST", "POOL", "TAGS", "WHEN"]
    other = Stage(tmp_path)
    other.write("tasks.toml", '[tasks.a]\nrun = "true"\n')
    assert "started" in other.call("run", "tasks.toml", "-v").stderr
    assert "started" not in other.call("run", "tasks.toml").stderr
    quiet = other.call("run", "tasks.toml", "-q")
    assert "1 task" not in quiet.stderr


def test_help_is_there_for_each_command_and_has_its_options(tmp_path: Path) -> None:
    from tickless.cli.app import COMMANDS

    stage = Stage(tmp_path)
    overview = stage.done("--help")
    for name in COMMANDS:
        assert f"  {name} " in overview
        text = stage.done(name, "--help")
        assert "--json" in text
        assert [line for line in text.splitlines() if len(line) > 80] == []


def test_a_reader_that_goes_away_is_no_fault(stage: Stage) -> None:
    """BUG-086: `tickless ls | head -1` ended with a traceback."""
    from tests.cli.command import COMMAND

    shell = " ".join(COMMAND)
    done = subprocess.run(
        ["sh", "-c", f"{shell} runs -n 1000 | head -1"],
        capture_output=True,
        encoding="utf-8",
        cwd=stage.folder,
        env=stage.environment,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("running scheduler")


DURABLE = """
store = "sqlite:///tasks.db"

[tasks.report]
run = "echo report of $TICKLESS_DUE"
when = "0 6 * * *"

[tasks.load]
run = "true"
when = "0 5 * * *"

[tasks.clean]
run = "echo cleaned"
after_tasks = ["load"]
"""


def test_a_backfill_runs_each_fire_of_the_past_once(tmp_path: Path) -> None:
    """Beside the plan, one after another, and what succeeded is not done again."""
    stage = Stage(tmp_path)
    stage.write("tasks.toml", DURABLE)
    span = ("--from", "2026-01-01", "--until", "2026-01-04", "--tz", "UTC")
    dues = [f"2026-01-0{day}T06:00:00Z" for day in (1, 2, 3)]
    with stage.running("tasks.toml") as process:
        wait_for("next is", process.stderr)
        assert [run["due"] for run in stage.json("backfill", "report", *span, "--dry-run")["runs"]] == dues
        assert [run["due"] for run in stage.json("backfill", "report", *span)["runs"]] == dues
        for due in dues:
            assert wait_for("| report of", process.stdout).split()[-1] == due
        stage.json("run-now", "report", "--wait")  # in the same queue: behind them, so they have ended
        assert "no run is wanted" in stage.done("backfill", "report", *span)
        assert len(stage.json("backfill", "report", *span, "--again", "--dry-run")["runs"]) == 3
        assert [run["run"] for run in stage.json("backfill", "load", *span)["runs"]] == [
            f"load@2026-01-0{day}T05:00:00Z" for day in (1, 2, 3)
        ]
        assert "--from" in stage.refused("backfill", "report", "--until", "2026-01-01", code=2)
        assert "--from 2026-02-01 is after --until 2026-01-01" in stage.refused(
            "backfill", "report", "--from", "2026-02-01", "--until", "2026-01-01", code=2
        )
        stop(process, signal.SIGTERM)
    assert "tasks.toml" in stage.done("ls")


def test_a_store_is_looked_at_and_changed_beside_who_runs_it(tmp_path: Path) -> None:
    """`--store`: nothing is imported, and the scheduler that runs does what was said."""
    stage = Stage(tmp_path)
    stage.write("tasks.toml", DURABLE)
    url = ("--store", "sqlite:///tasks.db")
    with stage.running("tasks.toml") as process:
        wait_for("next is", process.stderr)
        shown = stage.json("ls", *url)
        assert [task["id"] for task in shown["tasks"]] == ["report", "load"]
        assert shown["source"]["kind"] == "store"
        assert stage.json("graph", "load", *url)["edges"] == [["load", "clean"]]
        assert stage.json("run-now", "report", *url)["run"]["task"] == "report"
        wait_for("| report of", process.stdout)
        assert "no scheduler runs here" in stage.refused("run-now", "report", "--wait", *url, code=6)
        assert stage.json("pause", "report", *url)["changed"] == [{"id": "report", "count": 1}]
        assert stage.json("show", "report")["task"]["paused"]
        assert stage.json("cancel", "load", *url)["changed"] == [{"id": "load", "answer": "cancelled"}]
        assert stage.json("show", "load")["task"]["state"] == "cancelled"
        stop(process, signal.SIGTERM)
    assert stage.json("logs", "report")["outputs"][0]["ending"] == "succeeded"
    assert stage.json("resume", "report")["changed"] == [{"id": "report", "count": 1}]
    assert stage.json("runs", "report", *url)["runs"][0]["state"] == "succeeded"


def test_db_looks_after_a_store(tmp_path: Path) -> None:
    """Its size, its schema, what is too old, all of it as JSON: while nobody runs it, and without its works."""
    stage = Stage(tmp_path)
    stage.write("tasks.toml", 'store = "sqlite:///tasks.db"\n' + FILE)
    url = ("--store", "sqlite:///tasks.db")
    with stage.running("tasks.toml") as process:
        wait_for("next is", process.stderr)
        stage.json("run-now", "dump", "--wait")
        stage.json("run-now", "dump", "--wait")
        shown = stage.json("db", "status", *url)
        assert [owner["alive"] for owner in shown["owners"]] == [True]
        assert "a process has it open" in stage.refused("db", "prune", "--vacuum", *url, code=5)
        stop(process, signal.SIGTERM)
    shown = stage.json("db", "status", "--check", *url)
    assert (shown["faults"], shown["unusable"], shown["rounds"]) == ([], [], 2)
    assert "journal mode" in stage.done("db", "status", *url)
    assert stage.done("db", "status", "-f", "tasks.toml") == stage.done("db", "status", *url)
    assert stage.done("db", "status") == stage.done("db", "status", *url), "as for each command, that of this folder"
    documents = [checked(line) for line in stage.done("db", "export", *url).splitlines()]
    assert documents[0]["kind"] == "store"
    assert {one["id"] for one in documents if one["kind"] == "stored_task"} >= {"dump", "broken", "slow", "once"}
    stage.done("db", "export", *url, "-o", "all.jsonl")
    assert (tmp_path / "all.jsonl").read_text().splitlines() == stage.done("db", "export", *url).splitlines()
    would = stage.json("db", "prune", "--keep-runs", "1", "--keep-finished", "0", "--dry-run", *url)
    done = stage.json("db", "prune", "--keep-runs", "1", "--keep-finished", "0", *url)
    assert (would["dry_run"], done["dry_run"]) == (True, False)
    assert {key: done[key] for key in ("tasks", "rounds", "runs")} == {
        key: would[key] for key in ("tasks", "rounds", "runs")
    }
    assert done["runs"] + done["rounds"] + done["tasks"] > 0
    assert stage.json("db", "upgrade", *url)["backup"] is None
    assert "say what to keep" in stage.refused("db", "prune", *url, code=2)
    assert "--keep-for" in stage.refused("db", "prune", "--keep-for", "soon", *url, code=2)
    stage.write("without.toml", '[tasks.a]\nrun = "true"\n')
    assert "name the store" in stage.refused("db", "status", "-f", "without.toml", code=2)
    assert "nothere.db" in stage.refused("db", "status", "--store", "sqlite:///nothere.db", code=5)
    assert stage.done("db", "export", *url, "-o", "no/such/folder/x", code=1) == ""
    assert stage.json("doctor", *url)["healthy"]


def test_a_damaged_store_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    path = tmp_path / "tasks.db"
    path.write_bytes(b"no database at all" * 300)
    before = path.read_bytes()
    for command in (("db", "status"), ("db", "export"), ("db", "upgrade"), ("ls",), ("runs",)):
        assert "tasks.db" in stage.refused(*command, "--store", "sqlite:///tasks.db", code=5)
    stage.json("doctor", "--store", "sqlite:///tasks.db", code=8)
    assert path.read_bytes() == before
