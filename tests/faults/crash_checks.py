"""What must hold after any crash of `crash_program.py`: the ledger of the bodies against what the store says."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.faults.crash_program import BEAT_S, DELIVERIES

BEAT_US = int(BEAT_S * 1e6)
KINDS = ("one", "parent", "child", "beat", "retry", "queue", "plan", "follower")
MAX_RUNS = {"beat": 2, "queue": 2}
Line = dict[str, Any]


def ledger_of(folder: Path) -> list[Line]:
    path = folder / "ledger"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


class Story:
    """The occurrences of one program by (task, due): what their bodies did, and their one record."""

    def __init__(self, lines: list[Line], tasks: dict[str, Any]) -> None:
        self.lines, self.tasks = lines, tasks
        self.by_run: dict[tuple[str, str], list[Line]] = defaultdict(list)
        for line in lines:
            self.by_run[line["task"], line["due"]].append(line)
        self.records: dict[tuple[str, str], Line] = {}
        for id, task in tasks.items():
            for run in task["runs"]:
                if run["state"] != "skipped":
                    assert (id, run["due"]) not in self.records, f"{id}: {run['due']} has two records"
                    self.records[id, run["due"]] = run

    def check(self) -> None:
        for id, task in self.tasks.items():
            assert task["state"] in ("succeeded", "failed", "skipped"), f"{id} is {task['state']}"
        starts = Counter((line["task"], line["due"], line["attempt"]) for line in self.lines if line["what"] == "start")
        twice = [start for start, count in starts.items() if count > 1]
        assert not twice, f"started twice in one attempt: {twice}"
        lost = self.by_run.keys() - self.records.keys()
        assert not lost, f"ran, and have no record: {lost}"
        for (id, due), record in self.records.items():
            lines = self.by_run.get((id, due), [])
            self._check_attempts(id, record, lines)
            if id.startswith("most_once"):
                self._check_at_most_once(id, record, lines)
            else:
                self._check_at_least_once(id, record, lines)

    def _check_attempts(self, id: str, record: Line, lines: list[Line]) -> None:
        """What began and did not end was in flight when its process died, and is told as such."""
        assert [number for number, _ in record["failed"]] == list(range(1, record["attempt"])), id
        reasons = {**dict(record["failed"]), record["attempt"]: record["reason"]}
        ended = {line["attempt"] for line in lines if line["what"] in ("end", "raise")}
        for line in lines:
            assert line["attempt"] <= record["attempt"], f"{id}: a body began that the store does not know of"
            if line["attempt"] not in ended:
                assert reasons[line["attempt"]] == "crashed", f"{id}: died in attempt {line['attempt']}: {record}"
        if record["state"] == "succeeded":
            ends = {line["attempt"] for line in lines if line["what"] == "end"}
            assert record["attempt"] in ends, f"{id}: succeeded, and its last attempt never came to its end"

    def _check_at_least_once(self, id: str, record: Line, lines: list[Line]) -> None:
        assert record["state"] == "succeeded", f"{id}: {record}"
        for number, reason in record["failed"]:
            raised = any(line["what"] == "raise" and line["attempt"] == number for line in lines)
            assert reason == "crashed" or (reason is None and raised), f"{id}: attempt {number}: {reason}"

    def _check_at_most_once(self, id: str, record: Line, lines: list[Line]) -> None:
        """A crash is the end: nothing begins after it."""
        assert "crashed" not in [reason for _, reason in record["failed"]], f"{id}: begun again after a crash: {record}"
        if record["state"] != "succeeded":
            assert (record["state"], record["reason"]) == ("failed", "crashed"), f"{id}: {record}"
        raised = sum(line["what"] == "raise" for line in lines)
        assert sum(line["what"] == "start" for line in lines) <= 1 + raised, f"{id}: began twice"

    def is_spotless(self) -> bool:
        """Nothing has crashed, and all has succeeded."""
        return all(run["state"] == "succeeded" and not _crashes(run) for run in self.records.values())

    def crashed(self) -> list[str]:
        return [id for (id, _), run in self.records.items() if _crashes(run)]


def _crashes(run: Line) -> bool:
    return run["reason"] == "crashed" or any(reason == "crashed" for _, reason in run["failed"])


def check_kinds(story: Story) -> None:
    """What belongs to each kind of task."""
    tasks, lines = story.tasks, story.lines
    for delivery in DELIVERIES:
        name = delivery[3:]
        planned = any(line["task"] == f"{name}:plan" and line["what"] == "end" for line in lines)
        for kind in KINDS:
            assert f"{name}:{kind}" in tasks or (kind == "follower" and not planned), f"{name}:{kind} was lost"
        for kind, count in MAX_RUNS.items():
            _check_grid(f"{name}:{kind}", tasks[f"{name}:{kind}"]["runs"], count)
        _check_family(tasks[f"{name}:parent"], tasks[f"{name}:child"], f"{name}:child", lines)
        _check_queue(f"{name}:queue", lines)


def _check_grid(id: str, runs: list[Line], count: int) -> None:
    """Every fire has one place: a run, or a summary of skipped ones."""
    assert sum(run["state"] != "skipped" for run in runs) == count, f"{id}: {runs}"
    fires: list[int] = []
    for run in runs:
        last = run["last_due_us"] or run["due_us"]
        assert (last - run["due_us"]) // BEAT_US + 1 == run["count"], f"{id}: {run}"
        fires += range(run["due_us"], last + 1, BEAT_US)
    first = min(fires)
    last_run = max(run["due_us"] for run in runs if run["state"] != "skipped")
    fires = sorted(fire for fire in fires if fire <= last_run)
    assert fires == list(range(first, last_run + 1, BEAT_US)), f"{id}: a fire has no record, or has two: {runs}"


def _check_family(parent: Line, child: Line, id: str, lines: list[Line]) -> None:
    starts = [number for number, line in enumerate(lines) if (line["task"], line["what"]) == (id, "start")]
    assert all(lines[number]["given"] == 20 for number in starts)
    if parent["state"] != "succeeded":
        assert (child["state"], child["reason"], starts) == ("skipped", "parent_failed", [])
    else:
        assert child["state"] == "succeeded" or child["reason"] == "crashed"
        ends = [n for n, line in enumerate(lines) if (line["task"], line["what"]) == (id[:-5] + "parent", "end")]
        assert all(ends and ends[0] < number for number in starts)


def _check_queue(id: str, lines: list[Line]) -> None:
    """One at a time: a body begins when the one before has ended, or died with its process."""
    before: Line | None = None
    for line in lines:
        if line["task"] == id and line["what"] == "start":
            assert before is None or before["pid"] != line["pid"], f"{id}: two at a time"
            before = line
        elif line["task"] == id:
            before = None


def check_file(path: Path, story: Story) -> None:
    """The file is sound, and no row is anybody's: BUG-067. Who died while nothing was left to do may be listed yet."""
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM tasks WHERE owner IS NOT NULL OR lane IS NOT NULL").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM tasks WHERE ended IS NULL OR at IS NOT NULL").fetchone() == (0,)
        assert db.execute("SELECT live FROM facts").fetchone() == (0,)
        assert not story.crashed() or db.execute("SELECT count(*) FROM owners").fetchone() == (0,)
    db.close()
