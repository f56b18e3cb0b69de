"""`tickless run` of a task file: reload, stop, logs, a store over a restart. Through its real process."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.command import PATIENCE_S
from tests.cli.stage import Stage, checked, stop, wait_for
from tests.pressing import press_until_it_ends

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands run in process groups of Unix")

BEAT = """
[tasks.beat]
run = "echo beat"
when = "every 20ms"
"""
SLEEPER = """
[tasks.sleeper]
run = "{run}"
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_lines_have_their_task_and_run(stage: Stage) -> None:
    """In life: a hundred tasks print into one log, and nobody knows which was which."""
    stage.write("tasks.toml", '[tasks.a]\nrun = "echo one; echo two >&2"\n')
    done = stage.call("run", "tasks.toml")
    assert done.returncode == 0
    lines = [line.split("  ", 1)[1] for line in done.stdout.splitlines()]
    run = lines[0].partition(" | ")[0]
    assert run.startswith("a@20")
    assert lines == [f"{run} | one", f"{run} | two"]
    assert "1 succeeded, 0 failed" in done.stderr.splitlines()[-1]


def test_json_logs_are_lines_that_fit_their_schema(stage: Stage) -> None:
    stage.write("tasks.toml", '[tasks.a]\nrun = "echo one; exit 3"\n')
    done = stage.call("run", "tasks.toml", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    documents = [checked(line) for line in done.stdout.splitlines()]
    assert {document["kind"] for document in documents} == {"note", "output", "event"}
    failed = next(one for one in documents if one["kind"] == "event" and one["event"] == "failed")
    assert failed["error"] == "CommandFailed: exit code 3: one"
    assert failed["run"] == next(one for one in documents if one["kind"] == "output")["run"]


def test_a_changed_file_is_taken_and_the_difference_is_told(stage: Stage) -> None:
    path = stage.write("tasks.toml", BEAT + '[tasks.gone]\nrun = "true"\nwhen = "every 1h"\n')
    with stage.running("tasks.toml") as process:
        wait_for("beat@", process.stdout)
        path.write_text(BEAT.replace("echo beat", "echo changed") + '[tasks.new]\nrun = "true"\nwhen = "every 1h"\n')
        wait_for("was read again: 3 changes", process.stderr)
        assert "changed  beat (run)" in wait_for("changed", process.stderr)
        assert "added    new" in wait_for("added", process.stderr)
        assert "removed  gone" in wait_for("removed", process.stderr)
        wait_for("| changed", process.stdout)
        states = {task["id"]: task["state"] for task in stage.json("ls")["tasks"]}
        assert states.pop("beat") in ("pending", "ready", "running")
        assert states == {"gone": "cancelled", "new": "pending"}


def test_a_file_that_another_takes_the_place_of_is_seen(stage: Stage) -> None:
    """Editors write a new file and rename it; a ConfigMap changes a link above it."""
    old, new = stage.folder / "v1", stage.folder / "v2"
    for folder in (old, new):
        folder.mkdir()
    (old / "tasks.toml").write_text(BEAT)
    (new / "tasks.toml").write_text(BEAT.replace("echo beat", "echo changed"))
    os.symlink("v1", stage.folder / "now")
    os.symlink("now/tasks.toml", stage.folder / "tasks.toml")
    with stage.running("tasks.toml") as process:
        wait_for("beat@", process.stdout)
        os.symlink("v2", stage.folder / "next")
        os.replace(stage.folder / "next", stage.folder / "now")
        wait_for("| changed", process.stdout)
        (stage.folder / "edited").write_text(BEAT.replace("echo beat", "echo edited"))
        os.replace(stage.folder / "edited", new / "tasks.toml")
        wait_for("| edited", process.stdout)


def test_what_else_is_written_in_its_folder_does_not_put_a_reload_off(stage: Stage) -> None:
    """In life: a task logs into the folder of its file, line after line, and a change is never taken."""
    path = stage.write("tasks.toml", BEAT)
    with stage.running("tasks.toml") as process:
        wait_for("beat@", process.stdout)
        taken = threading.Event()

        def write() -> bool:
            """Gives whether it was taken while we wrote, for at most half a minute."""
            for number in range(3_000):
                stage.write("log", str(number))
                if taken.wait(0.01):
                    return True
            return False

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            path.write_text(BEAT.replace("echo beat", "echo changed"))
            wait_for("was read again", process.stderr)
            taken.set()
            assert writing.result()


def test_an_error_in_the_file_keeps_what_is_there(stage: Stage) -> None:
    """In life: a typing error at noon, and the backup of the night does not run."""
    path = stage.write("tasks.toml", BEAT)
    with stage.running("tasks.toml") as process:
        wait_for("beat@", process.stdout)
        path.write_text(BEAT.replace("every 20ms", "evry 20ms"))
        assert "did you mean 'every'?" in wait_for("tasks.beat.when", process.stderr)
        wait_for("was not taken; what was there goes on", process.stderr)
        wait_for("beat@", process.stdout)
        shown = stage.json("ls")
        assert "tasks.beat.when" in shown["source"]["reload_error"]
        assert "not taken when it changed, and what was there before goes on: tasks.toml" in stage.done("health")
        path.write_text(BEAT)
        wait_for("is as it was before the error", process.stderr)
        assert stage.json("ls")["source"]["reload_error"] is None
        assert "not taken" not in stage.done("health")


def test_hang_up_reads_the_file_again(stage: Stage) -> None:
    """For whoever tells it, and where changes are not noticed."""
    stage.write("tasks.toml", BEAT + 'env = { WHO = "a" }\n')
    with stage.running("tasks.toml") as process:
        wait_for("beat@", process.stdout)
        process.send_signal(signal.SIGHUP)
        wait_for("beat@", process.stdout)
        code, _, err = stop(process, signal.SIGTERM)
    assert code == 143
    assert "Traceback" not in err


def freeze(process: subprocess.Popen[str], store: Path) -> None:
    """Stop it where it stands, at a moment when it holds no lock of the store."""
    while True:
        process.send_signal(signal.SIGSTOP)
        with closing(sqlite3.connect(store, timeout=0)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                process.send_signal(signal.SIGCONT)
            else:
                return


def test_a_second_run_of_a_file_is_refused_before_it_touches_the_store(stage: Stage) -> None:
    """In life: somebody tries a new version by hand; it is refused, and has cancelled the backups of the old one."""
    text = 'store = "sqlite:///tasks.db"\n' + BEAT.replace("every 20ms", "every 1h")
    path = stage.write("tasks.toml", text + '[tasks.backup]\nrun = "true"\nwhen = "every 1h"\n')
    with stage.running("tasks.toml") as process:
        wait_for("next is", process.stderr)
        freeze(process, stage.folder / "tasks.db")  # so that it takes no change of the file itself
        path.write_text(text)
        assert "runs already" in stage.call("run", "tasks.toml").stderr
        states = {task["id"]: task["state"] for task in stage.json("ls", "--store", "sqlite:///tasks.db")["tasks"]}
        assert states == {"beat": "pending", "backup": "pending"}
        process.send_signal(signal.SIGCONT)  # or it could not be ended


def test_what_failed_before_it_began_is_no_failure_of_this_run(stage: Stage) -> None:
    """In life: one task fails once, is mended, and the service ends with 1 for ever, until the store is pruned."""
    text = 'store = "sqlite:///tasks.db"\n[tasks.{}]\nrun = "{}"\n'
    stage.write("tasks.toml", text.format("bad", "exit 3"))
    assert stage.call("run", "tasks.toml").returncode == 1
    stage.write("tasks.toml", text.format("good", "true"))
    again = stage.call("run", "tasks.toml")
    assert (again.returncode, "1 succeeded, 0 failed" in again.stderr) == (0, True), again.stderr
    assert [task["id"] for task in stage.json("ls", "--state", "failed")["tasks"]] == ["bad"]


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("run = \"trap '' TERM; while :; do sleep 0.01; done\"", "1 cancelled"),
        ('python = "stubborn:wait"', "ended with stubborn still going on"),
    ],
)
def test_run_now_that_takes_too_long_is_ended_here(stage: Stage, work: str, said: str) -> None:
    """In life: a task of a file that nobody runs is tried by hand, with --timeout, and hangs for ever."""
    stage.write("tasks.toml", f'[tasks.stubborn]\n{work}\nwhen = "every 1h"\n')
    stage.write("stubborn.py", "import threading\n\n\ndef wait():\n    threading.Event().wait()\n")
    code = "from tickless.cli import main, run; run.STOP_AFTER_S = 0.01; raise SystemExit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", code, "run-now", "stubborn", "--timeout", "0.1"],
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
        cwd=stage.folder,
        env=stage.environment,
    )
    assert ended.returncode == 7, ended.stderr
    assert "stubborn: has not ended within 0.1 s, and is stopped" in ended.stderr
    assert said in ended.stderr


def test_what_cannot_change_while_it_runs_is_refused(stage: Stage) -> None:
    path = stage.write("tasks.toml", BEAT + "[pools.db]\nslots = 2\n")
    with stage.running("tasks.toml") as process:
        wait_for("beat@", process.stdout)
        path.write_text(BEAT + "[pools.db]\nslots = 3\n")
        assert "pools: cannot be changed while it runs" in wait_for("pools", process.stderr)
        wait_for("was not taken", process.stderr)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_ends_commands_gracefully(stage: Stage, number: int, code: int) -> None:
    """In life: a deployment cuts a dump in half, which could have put it away."""
    run = "trap 'echo put away; exit 0' TERM; echo begun; while :; do sleep 0.01; done"
    stage.write("tasks.toml", SLEEPER.format(run=run))
    with stage.running("tasks.toml") as process:
        wait_for("begun", process.stdout)
        ended = stop(process, number)
    assert ended[0] == code
    assert "| put away" in ended[1]
    assert "1 cancelled" in ended[2].splitlines()[-1]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("how", ["deadline", "second signal"])
def test_commands_that_ignore_the_stop_are_killed_with_their_group(stage: Stage, how: str) -> None:
    """In life: the container is gone, and a pg_dump of it holds locks for hours."""
    run = "trap '' TERM; sh -c 'trap \\\"\\\" TERM; echo inner $$; sleep 1000' & echo outer $$; wait; sleep 1000"
    stage.write("tasks.toml", SLEEPER.format(run=run) + "kill_after = 600\n")
    more = ("--stop-after", "0.2") if how == "deadline" else ("--stop-after", "600")
    with stage.running("tasks.toml", *more) as process:
        seen: dict[str, int] = {}
        while len(seen) < 2:
            line = wait_for("er ", process.stdout)
            seen[line.split()[-2]] = int(line.split()[-1])
        pids = list(seen.values())
        process.send_signal(signal.SIGTERM)
        wait_for("stopping", process.stderr)
        if how == "second signal":
            press_until_it_ends(process, signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert process.returncode in (143, -signal.SIGTERM)
    for pid in pids:
        assert not _alive(pid)


def test_a_store_makes_up_for_what_came_due_while_it_was_down(stage: Stage) -> None:
    """With `catch_up`: the newest of what was missed runs at the start, and output and history are there."""
    text = 'store = "sqlite:///tasks.db"\n[tasks.beat]\nrun = "echo due $TICKLESS_DUE"\nwhen = "every 1s"\n'
    stage.write("tasks.toml", text)
    with stage.running("tasks.toml") as process:
        first = wait_for("| due", process.stdout)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    shown = stage.json("ls")
    assert shown["source"]["kind"] == "file"
    assert [task["id"] for task in shown["tasks"]] == ["beat"]
    due = shown["tasks"][0]["next_fire"] or shown["tasks"][0]["last_run"]["due"]
    with stage.running("tasks.toml") as process:
        second = wait_for("| due", process.stdout)
        assert stop(process, signal.SIGTERM)[0] == 143
    assert first != second
    assert due is not None
    assert [one["text"] for one in stage.json("logs", "beat", "--all")["outputs"]][-1].startswith("due 20")
    folder = stage.folder / "tasks.db-output"
    assert stat.S_IMODE(next(folder.rglob("*.log")).stat().st_mode) == 0o600


def test_a_disk_that_takes_no_output_is_told_once_and_fails_no_run(stage: Stage) -> None:
    """In life: nobody knows why `tickless logs` has nothing."""
    stage.write("tasks.toml", 'store = "sqlite:///tasks.db"\n' + BEAT)
    stage.write("tasks.db-output", "a file where a folder should be")
    with stage.running("tasks.toml") as process:
        wait_for("tasks.db-output", process.stderr)
        for _ in range(3):
            wait_for("| beat", process.stdout)
        _, _, err = stop(process, signal.SIGTERM)
    assert "tasks.db-output" not in err
    assert " 0 failed" in err.splitlines()[-1]


def test_a_second_start_of_a_file_changes_nothing_of_the_first(stage: Stage) -> None:
    """In life: somebody starts it by hand, and what the running one has in their store is changed under it."""
    stage.write("tasks.toml", 'store = "sqlite:///tasks.db"\n' + BEAT + '[tasks.b]\nrun = "true"\nwhen = "every 1h"\n')
    with stage.running("tasks.toml") as process:
        wait_for("beat@", process.stdout)
        before = stage.json("show", "b")["task"]
        os.symlink("tasks.toml", stage.folder / "again.toml")
        assert "runs already" in stage.refused("run", "again.toml", code=6)
        assert stage.json("show", "b")["task"] == before


def test_a_task_that_is_gone_from_the_file_is_cancelled_at_the_start(stage: Stage) -> None:
    """With a store it is there still; as by a reload it does not run any more, and that is said."""
    head = 'store = "sqlite:///tasks.db"\n'
    old = '[tasks.old]\nrun = "true"\nwhen = "every 1h"\n[tasks.flow]\nrun = "true"\nwhen = "every 1h"\n'
    path = stage.write("tasks.toml", head + BEAT + old + '[tasks.after]\nrun = "true"\nafter_tasks = ["flow"]\n')
    with stage.running("tasks.toml") as process:
        wait_for("beat@", process.stdout)
        stop(process, signal.SIGTERM)
    path.write_text(head + BEAT)
    with stage.running("tasks.toml") as process:
        gone = {wait_for("is not in the file any more", process.stderr).split()[1].rstrip(":") for _ in range(2)}
        wait_for("beat@", process.stdout)
        assert gone == {"old", "flow"}
        assert {task["id"]: task["state"] for task in stage.json("ls")["tasks"]}["old"] == "cancelled"
        assert stage.json("ls")["unusable"] == {}
        stop(process, signal.SIGTERM)


FLOW = """
store = "sqlite:///tasks.db"
[tasks.root]
run = "{run}"
when = "every 50ms"
"""
LEAF = """
[tasks.leaf]
run = "true"
after_tasks = ["root"]
on_failure = "true"
"""
OTHER = """
[tasks.other]
run = "echo other"
after_tasks = ["root"]
"""


def test_a_task_that_is_taken_out_of_a_flow_ends_in_the_round_that_goes_on(stage: Stage) -> None:
    """Else that round waits for ever for a task that nobody knows any more, and holds up all that come after it."""
    path = stage.write("tasks.toml", FLOW.format(run="echo begun; until [ -e go ]; do :; done") + LEAF)
    with stage.running("tasks.toml") as process:
        wait_for("begun", process.stdout)
        path.write_text(FLOW.format(run="true") + OTHER)
        wait_for("removed  leaf", process.stderr)
        stage.write("go", "")
        wait_for("| other", process.stdout)
        assert stage.json("ls")["unusable"] == {}


def test_a_task_that_was_taken_out_of_a_flow_while_nobody_ran_it_ends_at_the_start(stage: Stage) -> None:
    path = stage.write("tasks.toml", FLOW.format(run="echo begun; until [ -e go ]; do :; done") + LEAF)
    with stage.running("tasks.toml") as process:
        wait_for("begun", process.stdout)
        process.kill()
    stage.write("go", "")
    path.write_text(FLOW.format(run="true") + OTHER)
    with stage.running("tasks.toml") as process:
        assert "was cancelled" in wait_for("/leaf: is not in the file any more", process.stderr)
        wait_for("| other", process.stdout)
        assert stage.json("ls")["unusable"] == {}


def test_another_task_taken_out_of_a_flow_leaves_an_on_failure_that_goes_on(stage: Stage) -> None:
    text = FLOW.format(run="exit 1").replace('when = "every 50ms"\n', "")
    text += 'on_failure = "echo begun; until [ -e go ]; do :; done; echo handled"\n'
    path = stage.write("tasks.toml", text + LEAF + OTHER)
    with stage.running("tasks.toml") as process:
        wait_for("begun", process.stdout)
        path.write_text(text + OTHER)
        wait_for("removed  leaf", process.stderr)
        stage.write("go", "")
        wait_for("| handled", process.stdout)


def test_a_python_function_runs_beside_commands(stage: Stage) -> None:
    stage.write(
        "shop.py",
        "from tickless import current_run\n"
        "def report(day, *, loud=False):\n    print('report', day, loud, current_run().task_id)\n"
        "def told(run):\n    print('told', run.error)\n"
        "def broken():\n    raise OSError('no disk')\n",
    )
    stage.write(
        "tasks.toml",
        '[tasks.report]\npython = "shop:report"\nargs = ["monday"]\nkwargs = { loud = true }\n'
        '[tasks.broken]\npython = "shop:broken"\non_failure = { python = "shop:told" }\n',
    )
    done = stage.call("run", "tasks.toml")
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == ["report monday True report", "told OSError: no disk"]
    assert 'shop.py", line' in done.stderr
    assert "tickless/" not in "".join(line for line in done.stderr.splitlines() if line.lstrip().startswith("File"))


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("nomodule:f", "tasks.x.python: module nomodule cannot be imported: ModuleNotFoundError"),
        ("shop:nothing", "tasks.x.python: module shop has no 'nothing'"),
        ("shop:number", "tasks.x.python: shop:number is a int, and nothing to call"),
        ("raises:f", "tasks.x.python: module raises cannot be imported: OSError: no disk"),
        ("exits:f", "tasks.x.python: module exits called sys.exit"),
    ],
)
def test_a_function_that_cannot_be_had_is_told_before_anything_runs(stage: Stage, python: str, words: str) -> None:
    stage.write("shop.py", "number = 3\n")
    stage.write("raises.py", "raise OSError('no disk')\n")
    stage.write("exits.py", "import sys; sys.exit()\n")
    stage.write("tasks.toml", f'[tasks.x]\npython = "{python}"\n[tasks.y]\nrun = "echo ran"\n')
    assert words in stage.refused("run", "tasks.toml", code=4)


def test_an_old_socket_and_no_socket_are_no_hindrance(stage: Stage) -> None:
    stage.write("tasks.toml", '[tasks.a]\nrun = "echo ran"\n')
    long = stage.folder / ("x" * 120)
    done = stage.call("run", "tasks.toml", "--socket", str(long))
    assert done.returncode == 0
    assert "other commands cannot reach it" in done.stderr
    assert "| ran" in done.stdout
    assert stage.call("run", "tasks.toml", "--no-socket").returncode == 0


def test_a_crontab_runs_as_it_is(stage: Stage) -> None:
    """Unchanged: its environment, its shell, its folder, its % lines."""
    home = stage.folder / "home"
    home.mkdir()
    stage.write("crontab", f"HOME={home}\nWHO=cron\n@reboot pwd; echo $WHO; cat%first%second\n")
    done = stage.call("run", "crontab")
    assert done.returncode == 0
    assert [line.rpartition(" | ")[2] for line in done.stdout.splitlines()] == [str(home), "cron", "first", "second"]


def test_documents_of_the_log_name_the_file_only_by_what_was_said(stage: Stage) -> None:
    """No path of the machine comes into a log that is shared."""
    stage.write("tasks.toml", '[tasks.a]\nrun = "true"\n')
    done = stage.call("run", "tasks.toml", "--json")
    for line in done.stdout.splitlines():
        assert str(stage.folder) not in json.loads(line).get("message", "")
