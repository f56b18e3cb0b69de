"""The durable store beside a bare loop on SQLite, APScheduler and huey, on disk.

Prints what is asked and what was reached, then every figure. It is no test: it fails (exit code 1) only when a measure
failed, never because one was slow. While tickless has no durable store, the others are measured and it is said.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from durable_tools import SYNCHRONOUS, file_system
from experiments import APS, OURS, plain, ratio, short
from harness import HERE, Experiment, Goal, Measure, in_process, machine, run
from table import document

YARDSTICK, HUEY = "yardstick", "huey"
APS_NORMAL, HUEY_NORMAL = f"{APS}, WAL and NORMAL", f"{HUEY}, NORMAL"
LEGEND = (
    "**yardstick** = a bare loop on `sqlite3`: claim 100 in a transaction, `ThreadPoolExecutor(10).submit` each, record"
    " one history row a run, finish those and claim the next in one transaction. NORMAL and FULL are SQLite's"
    f" `synchronous`. **{APS}** (SQLAlchemyJobStore) and **{HUEY}** (SqliteHuey) are as their manuals show them, which"
    " is FULL, the first with a rollback journal; what is asked is a ratio to that. With NORMAL they stand beside it:"
    " that is help. Neither records runs."
)
ABSENT = (
    f" **{OURS} is absent**: `Scheduler(store=...)` raises TypeError, so this one has no durable store, and all that is"
    " asked of it is not measured."
)


@dataclass(frozen=True, slots=True)
class Sizes:
    schedule: int = 10_000
    schedule_aps: int = 2_000
    batch: int = 50_000
    drain: int = 10_000
    fires: int = 500
    span_s: float = 10.0
    rings: int = 50
    pending: tuple[int, int] = (10_000, 1_000_000)
    first_pending: int = 100_000
    starts: int = 11
    idle_pending: int = 100_000
    idle_s: float = 60.0


QUICK = Sizes(1_000, 200, 5_000, 1_000, 100, 2.0, 10, (1_000, 20_000), 10_000, 3, 2_000, 5.0)


def all_experiments(folder: Path, sizes: Sizes) -> list[Experiment]:
    """In the order of the table."""
    on = {"folder": str(folder)}
    return [
        _schedule(on, sizes, "process"),
        _schedule(on, sizes, "power"),
        _schedule_many(on, sizes),
        _drain(on, sizes, "process"),
        _drain(on, sizes, "power"),
        _lateness(on, sizes),
        _wake(on, sizes),
        _pending(on, sizes),
        _first_run(on, sizes),
        _idle(on, sizes),
    ]


def _schedule(on: Mapping[str, Any], sizes: Sizes, durability: str) -> Experiment:
    sync = SYNCHRONOUS[durability]
    params = {**on, "count": sizes.schedule, "durability": durability}
    few = params | {"count": sizes.schedule_aps}
    goals = [Goal("x the yardstick", ratio("per_s", OURS, YARDSTICK), 0.35 if durability == "process" else 0.6)]
    peers = {
        APS: Measure("durable_apscheduler.schedule", few | {"durability": "power"}),
        HUEY: Measure("durable_huey.schedule", params | {"durability": "power"}),
    }
    if durability == "process":
        goals.append(Goal(f"x {APS}", ratio("per_s", OURS, APS), 15))
        peers[APS_NORMAL] = Measure("durable_apscheduler.schedule", few)
        peers[f"{APS_NORMAL}, paused, triggers made before"] = Measure("durable_apscheduler.schedule_helped", few)
        peers[HUEY_NORMAL] = Measure("durable_huey.schedule", params)
    return Experiment(
        f"schedule-{sync.lower()}",
        f"Schedule {sizes.schedule:,} one by one, {sync} ({APS} {sizes.schedule_aps:,})",
        {
            YARDSTICK: Measure("durable_limit.schedule", params),
            OURS: Measure("durable_ours.schedule", params),
            f"{OURS}, before the start": Measure("durable_ours.schedule", params | {"started": False}),
            **peers,
        },
        goals,
    )


def _schedule_many(on: Mapping[str, Any], sizes: Sizes) -> Experiment:
    params = {**on, "count": sizes.batch, "durability": "process"}
    return Experiment(
        "schedule-many",
        f"Schedule {sizes.batch:,} in one batch, NORMAL",
        {
            f"{YARDSTICK}, executemany": Measure("durable_limit.schedule_many", params),
            f"{OURS}, calls made as it reads": Measure("durable_ours.schedule_many", params),
            f"{OURS}, calls in a list": Measure("durable_ours.schedule_many", params | {"beforehand": True}),
        },
        [
            Goal(
                "x the yardstick",
                ratio("per_s", f"{OURS}, calls made as it reads", f"{YARDSTICK}, executemany"),
                0.25,
            )
        ],
    )


def _drain(on: Mapping[str, Any], sizes: Sizes, durability: str) -> Experiment:
    sync = SYNCHRONOUS[durability]
    params = {**on, "count": sizes.drain, "durability": durability}
    goals = [Goal("x the yardstick", ratio("per_s", OURS, YARDSTICK), 0.4)]
    peers = {
        HUEY: Measure("durable_huey.drain", params | {"durability": "power"}),
        APS: Measure("durable_apscheduler.drain", params | {"durability": "power"}, rounds_max=1),
    }
    if durability == "process":
        one = params | {"workers": 1}
        peers[HUEY_NORMAL] = Measure("durable_huey.drain", params)
        peers[f"{HUEY_NORMAL}, one worker"] = Measure("durable_huey.drain", one)
        peers[APS_NORMAL] = Measure("durable_apscheduler.drain", params, rounds_max=1)
        goals += [
            Goal(f"x {HUEY}", ratio("per_s", OURS, HUEY), 5),
            Goal(f"x {APS}", ratio("per_s", OURS, APS), 25),
            Goal("CPU a task, x the yardstick's", _cpu(OURS, YARDSTICK), 3, at_least=False),
        ]
    return Experiment(
        f"drain-{sync.lower()}",
        f"Drain of {sizes.drain:,} due tasks to recorded, {sync}",
        {
            YARDSTICK: Measure("durable_limit.drain", params),
            f"{YARDSTICK}, a submit for each thread": Measure("durable_limit.drain", params | {"drainers": True}),
            OURS: Measure("durable_ours.drain", params),
            f"{OURS}, keep_finished at its default": Measure("durable_ours.drain", params | {"forgetful": True}),
            **peers,
        },
        goals,
    )


def _cpu(contender: str, over: str) -> Any:
    return ratio("cpu_us_per_task", contender, over)


def _lateness(on: Mapping[str, Any], sizes: Sizes) -> Experiment:
    params = {**on, "count": sizes.fires, "span_s": sizes.span_s}
    return Experiment(
        "lateness",
        f"Lateness, {sizes.fires:,} one-shots over {sizes.span_s:g} s, NORMAL",
        {
            YARDSTICK: Measure("durable_limit.lateness", params),
            OURS: Measure("durable_ours.lateness", params),
            APS: Measure("durable_apscheduler.lateness", params | {"durability": "power"}),
            APS_NORMAL: Measure("durable_apscheduler.lateness", params | {"durability": "process"}),
            HUEY: Measure("durable_huey.lateness", params),
        },
        [
            Goal("p50 x the yardstick", ratio("p50_us", OURS, YARDSTICK), 3, at_least=False),
            Goal("p99", lambda figures: figures.get(OURS, "p99_us") / 1_000, 10, at_least=False, unit=" ms"),
        ],
    )


def _wake(on: Mapping[str, Any], sizes: Sizes) -> Experiment:
    params = {**on, "count": sizes.rings}
    return Experiment(
        "wake",
        f"From before `schedule` in one process to the run in another that idles, {sizes.rings} times, NORMAL",
        {
            YARDSTICK: Measure("durable_limit.wake", params),
            OURS: Measure("durable_ours.wake", params),
            HUEY: Measure("durable_huey.wake", params),
        },
        [Goal("p50", plain("p50_ms"), 3, at_least=False, unit=" ms")],
    )


def _pending(on: Mapping[str, Any], sizes: Sizes) -> Experiment:
    params = {**on, "count": sizes.fires, "span_s": sizes.span_s}
    names = [f"{short(count)} pending" for count in sizes.pending]
    contenders = {
        f"{who}, {name}": Measure(f"{module}.lateness", params | {"pending": count})
        for who, module in ((YARDSTICK, "durable_limit"), (OURS, "durable_ours"))
        for name, count in zip(names, sizes.pending, strict=True)
    }
    few, many = [f"{OURS}, {name}" for name in names]
    return Experiment(
        "pending",
        f"Lateness of {sizes.fires:,} over {sizes.span_s:g} s while many more are pending, NORMAL",
        contenders,
        [
            Goal(f"p50, {names[1]} x {names[0]}", ratio("p50_us", many, few), 1.3, at_least=False),
            Goal(f"CPU, {names[1]} x {names[0]}", _cpu(many, few), 1.3, at_least=False),
        ],
    )


def _first_run(on: Mapping[str, Any], sizes: Sizes) -> Experiment:
    params = {**on, "starts": sizes.starts}
    names = {"empty": 0, f"{short(sizes.first_pending)} pending": sizes.first_pending}
    contenders = {
        f"{who}, {name}": Measure(f"{module}.first_run", params | {"pending": count})
        for who, module in ((YARDSTICK, "durable_limit"), (OURS, "durable_ours"))
        for name, count in names.items()
    }
    empty, full = [f"{OURS}, {name}" for name in names]
    return Experiment(
        "first-run",
        f"From before the file is opened to the first run (the quickest of {sizes.starts} starts), NORMAL",
        contenders,
        [Goal("pending x empty", ratio("ms", full, empty), 1.2, at_least=False)],
    )


def _idle(on: Mapping[str, Any], sizes: Sizes) -> Experiment:
    params = {**on, "pending": sizes.idle_pending, "span_s": sizes.idle_s}
    return Experiment(
        "idle",
        f"Idle, {sizes.idle_pending:,} far off, two processes for {sizes.idle_s:g} s: both together",
        {
            YARDSTICK: Measure("durable_limit.idle", params, rounds_max=1),
            OURS: Measure("durable_ours.idle", params, rounds_max=1),
            HUEY: Measure("durable_huey.idle", params | {"pending": min(sizes.idle_pending, 2_000)}, rounds_max=1),
        },
        [
            Goal("SQL statements", plain("statements"), 0, at_least=False, unit=""),
            Goal("voluntary switches", plain("switches"), 0, at_least=False, unit=""),
        ],
    )


def main() -> int:
    options = _options()
    sizes = QUICK if options.quick else Sizes()
    keys = [one.key for one in all_experiments(Path(), sizes)]
    unknown = [word for word in options.rows if not any(key.startswith(word) for key in keys)]
    if options.list or unknown:
        print("rows:", *keys, file=sys.stderr if unknown else sys.stdout)
        return 2 if unknown else 0
    with TemporaryDirectory(prefix="durable-", dir=options.folder) as folder:
        return _measure(options, all_experiments(Path(folder).resolve(), sizes))


def _measure(options: argparse.Namespace, experiments: Sequence[Experiment]) -> int:
    if options.rows:
        experiments = [one for one in experiments if any(one.key.startswith(word) for word in options.rows)]
    legend, rounds = LEGEND, options.rounds or (1 if options.quick else 3)
    if not in_process(Measure("durable_ours.look", {"folder": str(options.folder)}))["there"]:
        _say(ABSENT.strip())
        legend += ABSENT
        experiments = [_without_ours(one) for one in experiments]
    where = f"{machine()}; SQLite {sqlite3.sqlite_version} on {file_system(options.folder)}"
    measured = [(one, run(one, rounds, options.contender, _say)) for one in experiments]
    text = document(where, rounds, measured, legend)
    print(text)
    if options.write:
        options.write.write_text("# Results: the durable store\n\n" + text, encoding="utf-8")
    return 1 if any(figures.failed for _, figures in measured) else 0


def _without_ours(experiment: Experiment) -> Experiment:
    """The others alone; what is asked stays in the table, as not measured."""
    others = {name: one for name, one in experiment.contenders.items() if not one.function.startswith("durable_ours.")}
    return replace(experiment, contenders=others)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _disk(text: str) -> Path:
    """A folder on a disk: without one there is nothing that a commit would wait for."""
    folder = Path(text)
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: no folder; make it first")
    if (kind := file_system(folder)) in ("tmpfs", "ramfs"):
        raise argparse.ArgumentTypeError(f"{text}: is on {kind}, which is no disk; name a folder that is on one")
    return folder


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/durable.py", description=__doc__)
    parser.add_argument("--rows", nargs="+", default=[], metavar="ROW", help="rows whose key begins so")
    parser.add_argument(
        "--contender",
        action="append",
        default=[],
        metavar="WORD",
        help="contenders with this word in their name, e.g. yardstick; may be repeated",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds; 3, or 1 with --quick")
    parser.add_argument("--quick", action="store_true", help="one round of smaller numbers and shorter spans")
    parser.add_argument("--folder", type=_disk, default=".", metavar="FOLDER", help="where the files are; the current")
    parser.add_argument(
        "--write",
        type=Path,
        nargs="?",
        const=HERE / "DURABLE.md",
        metavar="FILE",
        help="write the tables to benchmarks/DURABLE.md, or to this file, as well",
    )
    parser.add_argument("--list", action="store_true", help="print the keys of the rows")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
