"""A thousand commands due at one instant, beside a bare loop of `subprocess.Popen`; and what far-off ones cost.

Each measure runs in a fresh process, contenders take turns, and the median of the rounds counts. Each proves its
result: every command has ended with code 0.

    python benchmarks/commands.py            # print the tables
    python benchmarks/commands.py --write    # and keep them in COMMANDS.md
"""

from __future__ import annotations

import argparse
import subprocess
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from harness import Measure, in_process, machine
from ours import _cpu_ns, _switches

from tickless import Pool, Scheduler, after, at
from tickless.commands.children import Children
from tickless.commands.command import Command
from tickless.commands.kept import Outputs

COUNT = 1_000
ROUNDS = 7
ASKED = 1.2
IDLE_S = 5.0
LEAD_S = 1.0
"""The tasks are scheduled so long before they are due."""
RESULTS = Path(__file__).with_name("COMMANDS.md")
PLAIN, PIPES, OURS = "bare Popen, nothing read", "bare Popen, stdout=PIPE", "tickless"
FORMS: dict[str, str | list[str]] = {'run = "true"': "true", 'run = ["true"]': ["true"]}


def bare(run: str | list[str], pipes: bool) -> dict[str, float]:
    """Start them in a loop; then read and reap them. `pipes`: as a scheduler must, with output, a group, no stdin."""
    command = ["/bin/sh", "-c", run] if isinstance(run, str) else run
    more: dict[str, Any] = {}
    if pipes:
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        more["start_new_session"] = True
    began = time.perf_counter()
    processes = [subprocess.Popen(command, **more) for _ in range(COUNT)]
    started_s = time.perf_counter() - began
    for process in processes:
        process.communicate()
    ended_s = time.perf_counter() - began
    assert all(process.returncode == 0 for process in processes)
    return {"started_s": started_s, "ended_s": ended_s}


def ours(run: str | list[str]) -> dict[str, float]:
    """From the instant that they are due at until the last one is started: its process is there."""
    outputs = Outputs(keep_runs=1)
    with Children(COUNT, outputs=outputs) as children:
        scheduler = Scheduler(Pool(children, slots=COUNT), keep_finished=COUNT + 1)
        command = Command(run if isinstance(run, str) else tuple(run))
        due = datetime.now(UTC) + timedelta(seconds=LEAD_S)
        tasks = [scheduler.schedule(command, at(due)) for _ in range(COUNT)]
        with scheduler:
            assert scheduler.wait(60)
            kept = [outputs.of(task.id)[-1] for task in tasks]
            assert all(task.state == "succeeded" for task in tasks)
    starts = [(one.started - due).total_seconds() for one in kept if one.started]
    ends = [(one.ended - due).total_seconds() for one in kept if one.ended]
    assert len(starts) == len(ends) == COUNT
    assert min(starts) >= 0
    return {"started_s": max(starts), "ended_s": max(ends)}


def idle(span_s: float) -> dict[str, float]:
    """Voluntary switches and CPU time of every thread but the one that measures. Each has been at work before."""
    with Children(COUNT, outputs=Outputs()) as children:
        scheduler = Scheduler(Pool(children, slots=COUNT))
        for number in range(COUNT):
            scheduler.schedule(Command("true"), after(3_600 + number))
        with scheduler:
            scheduler.schedule(Command("true")).result(timeout=10)
            time.sleep(0.5)
            others = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
            assert any(thread.name == "tickless-children" for thread in others)
            before = [(_switches(thread), _cpu_ns(thread)) for thread in others]
            time.sleep(span_s)
            changes = [
                (_switches(thread) - switches, _cpu_ns(thread) - cpu_ns)
                for thread, (switches, cpu_ns) in zip(others, before, strict=True)
            ]
            assert len([task for task in scheduler.tasks() if task.next_fire_us is not None]) == COUNT
            scheduler.close(timeout=0)
    return {"switches": float(sum(one[0] for one in changes)), "cpu_us": sum(one[1] for one in changes) / 1_000}


def measured(run: str | list[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Contender -> kind of figure -> one number a round."""
    measures = {
        PLAIN: Measure("commands.bare", {"run": run, "pipes": False}),
        PIPES: Measure("commands.bare", {"run": run, "pipes": True}),
        OURS: Measure("commands.ours", {"run": run}),
    }
    figures: dict[str, dict[str, list[float]]] = {name: {} for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            for kind, figure in in_process(measure).items():
                figures[name].setdefault(kind, []).append(figure)
    return figures


def rows(form: str, figures: dict[str, dict[str, list[float]]]) -> list[str]:
    started = {name: median(kinds["started_s"]) for name, kinds in figures.items()}
    ended = {name: median(kinds["ended_s"]) for name, kinds in figures.items()}
    lines = []
    for name, kinds in figures.items():
        spread = f"{min(kinds['started_s']) * 1e3:,.0f}-{max(kinds['started_s']) * 1e3:,.0f}"
        ratio = f"{started[OURS] / started[name]:.2f}x" if name != OURS else ""
        verdict = "" if name == OURS else ("met" if started[OURS] <= ASKED * started[name] else "MISSED")
        lines.append(
            f"| `{form}` | {name} | {started[name] * 1e3:,.0f} ms | {spread} | {ended[name] * 1e3:,.0f} ms | {ratio} | "
            f"{f'≤ {ASKED:g}x' if ratio else ''} | {verdict} |"
        )
    return lines


def page(lines: Sequence[str], idle_figures: dict[str, float], rounds: int) -> str:
    verdict = "met" if idle_figures["switches"] == 0 else "MISSED"
    return "\n".join(
        [
            "# Results: commands",
            "",
            f"{machine()}. Median of {rounds} rounds in fresh processes.",
            "",
            f"{COUNT:,} commands due at one instant, {COUNT:,} slots. For tickless from that instant, for the loops "
            "from their first start; the loops reap nothing until all are started.",
            "",
            "| command | contender | last is started | rounds | last has ended | tickless / it | asked | verdict |",
            "|---|---|---|---|---|---|---|---|",
            *lines,
            "",
            f"| {COUNT:,} far-off commands for {IDLE_S:g} s | measured | asked | verdict |",
            "|---|---|---|---|",
            f"| wake-ups | {idle_figures['switches']:.0f} | 0 | {verdict} |",
            f"| CPU | {idle_figures['cpu_us']:.0f} µs | | |",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {RESULTS.name}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is measured")
    given = parser.parse_args()
    idle_figures = in_process(Measure("commands.idle", {"span_s": IDLE_S}))
    lines = [line for form, run in FORMS.items() for line in rows(form, measured(run, given.rounds))]
    text = page(lines, idle_figures, given.rounds)
    print(text)
    if given.write:
        RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
