"""What a task of a flow costs beside a plain task with one parent, and whether a thousand rounds keep memory flat.

By the CPU of the process, since what is compared is work and not waiting; both kinds take turns, and the median counts.
Each measure proves its result: every task has run, in order.

    python benchmarks/flows.py            # print the tables
    python benchmarks/flows.py --write    # and keep them in FLOWS.md
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tickless import Scheduler, every
from tickless.testing import FakeClock, InlinePool

NODES = 10_000
ROUNDS = 5
ASKED = 2.0
FLAT_KIB = 1024
RESULTS = Path(__file__).with_name("FLOWS.md")


def work() -> None: ...


def plain(shape: str) -> float:
    """Build and run a chain or a fan of plain tasks. Gives the CPU seconds."""
    with Scheduler(InlinePool(), clock=FakeClock(), observers=[], keep_finished=NODES + 1) as scheduler:
        gc.collect()
        began = time.process_time()
        first = last = scheduler.schedule(work)
        for _ in range(NODES - 1):
            last = scheduler.schedule(work, after_tasks=[last if shape == "chain" else first])
        took = time.process_time() - began
        assert len(scheduler.tasks()) == NODES
        assert last.state == "succeeded"
    return took


def held(shape: str) -> float:
    """The same, all scheduled before the first runs: as the tasks of a round are."""
    clock = FakeClock()
    scheduler = Scheduler(InlinePool(), clock=clock, observers=[], keep_finished=NODES + 1)
    gc.collect()
    began = time.process_time()
    first = last = scheduler.schedule(work)
    for _ in range(NODES - 1):
        last = scheduler.schedule(work, after_tasks=[last if shape == "chain" else first])
    with scheduler:
        took = time.process_time() - began
        assert last.state == "succeeded"
    return took


def of_a_flow(shape: str) -> float:
    """One round of a flow of that shape: it is opened, and runs. Its definition is made once, before."""
    clock = FakeClock()
    with Scheduler(InlinePool(), clock=clock, observers=[]) as scheduler:
        with scheduler.flow("flow", every(seconds=1)) as flow:
            first = last = flow.task(work, name="0")
            for number in range(1, NODES):
                last = flow.task(work, name=str(number), after_tasks=[last if shape == "chain" else first])
        gc.collect()
        began = time.process_time()
        clock.advance(1)
        took = time.process_time() - began
        (one,) = flow.rounds()
        assert one.state == "succeeded"
        assert len(one.tasks) == NODES
    return took


def memory() -> tuple[int, int]:
    """KiB that are held after a hundred rounds of a hundred tasks, and after a thousand."""
    clock = FakeClock()
    tracemalloc.start()
    with Scheduler(InlinePool(), clock=clock, observers=[]) as scheduler:
        with scheduler.flow("flow", every(seconds=1)) as flow:
            last = flow.task(work, name="0")
            for number in range(1, 100):
                last = flow.task(work, name=str(number), after_tasks=[last])
        sizes = []
        for rounds in (100, 900):
            clock.advance(rounds)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0] // 1024)
        assert len(flow.rounds()) == 20
        assert all(one.state == "succeeded" for one in flow.rounds())
    tracemalloc.stop()
    return sizes[0], sizes[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {RESULTS.name}")
    parser.add_argument("--repeat", type=int, default=ROUNDS, help="how often each is measured")
    given = parser.parse_args()
    kinds: dict[str, Callable[[str], float]] = {"plain": held, "plain, scheduler running": plain, "flow": of_a_flow}
    lines = [
        "| shape | plain, us a task | plain, scheduler running | task of a round, us | x plain | asked | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for shape in ("chain", "fan"):
        taken: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(given.repeat):
            for kind, measure in kinds.items():
                taken[kind].append(measure(shape))
        us = {kind: statistics.median(values) / NODES * 1e6 for kind, values in taken.items()}
        ratio = us["flow"] / us["plain"]
        lines.append(
            f"| {shape} of {NODES:,} | {us['plain']:.2f} | {us['plain, scheduler running']:.2f} | {us['flow']:.2f} | "
            f"{ratio:.2f}x | ≤ {ASKED:g}x | {'met' if ratio <= ASKED else 'MISSED'} |"
        )
    before, after = memory()
    grown = after - before
    flat = "met" if grown < FLAT_KIB else "MISSED"
    lines += [
        "",
        "| rounds of 100 tasks, 20 kept | after 100 | after 1,000 | grown | asked | verdict |",
        "|---|---|---|---|---|---|",
        f"| memory | {before:,} KiB | {after:,} KiB | {grown:,} KiB | flat (< {FLAT_KIB:,} KiB) | {flat} |",
    ]
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    machine = f"CPython {platform.python_version()}, {platform.machine()}, {now}."
    head = f"{machine} CPU of the process, median of {given.repeat}. The flow is defined before the clock starts."
    page = "\n".join(["# Results: flows", "", head, "", *lines, ""])
    print(page)
    if given.write:
        RESULTS.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
