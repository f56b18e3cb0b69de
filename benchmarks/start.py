"""How long a command of the shell takes as a whole process, beside a bare Python.

The commands look at one scheduler that runs 1,000 tasks of a task file, at a file that nobody runs, and at a store.
They take turns, and the median counts; what each says is looked at, so that none is quick because it failed.

    python benchmarks/start.py            # print the table
    python benchmarks/start.py --write    # and keep it in START.md
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROUNDS = 15
ASKED_MS = 200.0
TASKS = 1_000
RESULTS = Path(__file__).with_name("START.md")
TICKLESS = [sys.executable, "-m", "tickless"]


def commands() -> dict[str, tuple[list[str], str, bool]]:
    """Name -> (the command, a word of its answer, whether it is to be quick)."""
    return {
        "python -c pass": ([sys.executable, "-c", "print('nothing')"], "nothing", False),
        "preview EXPR": ([*TICKLESS, "preview", "30 2 * * *", "--tz", "Europe/Berlin"], "fires in 365 days", True),
        "preview FILE": ([*TICKLESS, "preview", "idle.toml"], "t7", True),
        "ls, of a scheduler that runs 1,000": ([*TICKLESS, "ls", "-f", "tasks.toml"], "t999", True),
        "show, of the same": ([*TICKLESS, "show", "t7", "-f", "tasks.toml"], "every hour", True),
        "ls, of a file that nobody runs": ([*TICKLESS, "ls", "-f", "idle.toml"], "t7", True),
        "show, of the same file": ([*TICKLESS, "show", "t7", "-f", "idle.toml"], "every hour", True),
        "ls, of a store": ([*TICKLESS, "ls", "--store", "sqlite:///tasks.db"], "t7", True),
    }


def task_file(count: int, store: bool = False) -> str:
    head = 'store = "sqlite:///tasks.db"\n' if store else ""
    return head + "".join(f'[tasks.t{number}]\nrun = "true"\nwhen = "every 1h"\n' for number in range(count))


def run_for(folder: Path, name: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    """A scheduler of that file, once it has begun."""
    process = subprocess.Popen(
        [*TICKLESS, "run", name], cwd=folder, env=environment, stderr=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stderr is not None
    assert "tasks" in process.stderr.readline()
    return process


def took_ms(command: list[str], word: str, folder: Path, environment: dict[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=True)
    took = (time.perf_counter() - began) * 1_000
    assert word in done.stdout, done.stdout
    return took


def measured(folder: Path) -> dict[str, list[float]]:
    environment = {**os.environ, "TICKLESS_RUNTIME_DIR": str(folder / "run")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled once, as what was installed is
    for name, text in {
        "tasks.toml": task_file(TASKS),
        "idle.toml": task_file(10),
        "stored.toml": task_file(10, store=True),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    run_for(folder, "stored.toml", environment).terminate()
    running = run_for(folder, "tasks.toml", environment)
    try:
        figures: dict[str, list[float]] = {name: [] for name in commands()}
        for _ in range(ROUNDS + 1):  # the first round fills the caches
            for name, (command, word, _) in commands().items():
                figures[name].append(took_ms(command, word, folder, environment))
    finally:
        running.terminate()
        running.wait()
    return {name: taken[1:] for name, taken in figures.items()}


def report(figures: dict[str, list[float]]) -> str:
    lines = [
        f"# Results: how long a command takes\n\nMachine: {os.cpu_count()} cores, {platform.system()}, "
        f"CPython {platform.python_version()}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. Whole processes, {ROUNDS} "
        "rounds, taking turns; the median, and from the lowest to the highest.\n",
        "| command | ms | lowest to highest | asked | verdict |",
        "|---|---|---|---|---|",
    ]
    for name, taken in figures.items():
        middle = statistics.median(taken)
        quick = commands()[name][2]
        verdict = ("met" if middle < ASKED_MS else "MISSED") if quick else ""
        asked = f"< {ASKED_MS:.0f}" if quick else ""
        lines.append(f"| {name} | {middle:.0f} | {min(taken):.0f} to {max(taken):.0f} | {asked} | {verdict} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = report(measured(Path(folder)))
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
