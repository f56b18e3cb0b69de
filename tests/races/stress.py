"""The same programs on blind threads: real ones, in real time, switched by nobody. For interpreters without a GIL.

    PYTHONPATH=src:. python3.13t tests/races/stress.py 300

Where there is no GIL, threads truly run at once, between opcodes and inside them, which no weaver makes; with one this
finds next to nothing. Needs nothing but the standard library. Ends with code 1 at the first fault, or hang.
"""

from __future__ import annotations

import faulthandler
import itertools
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tests.races.flows import ABOUT_FLOWS
from tests.races.programs import ABOUT_POLICIES, PROGRAMS, Program
from tests.races.world import World

EVERY: tuple[Program, ...] = (*PROGRAMS, *ABOUT_POLICIES, *ABOUT_FLOWS)
PATIENCE_S = 60.0
"""A program takes a millisecond. Who takes so long hangs: its threads are shown, and the process ends."""


class Blind:
    """See `world.Threads`."""

    def __init__(self) -> None:
        self.faults: list[BaseException] = []

    def spawn(self, name: str, body: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                body()
            except BaseException as error:  # noqa: BLE001 - told by the main thread
                self.faults.append(error)

        thread = threading.Thread(target=guarded, name=name)
        thread.start()
        return thread.join

    def pause(self) -> None:
        """Nothing to do: they all run."""

    def read_clock(self) -> int:
        return time.monotonic_ns() // 1000


def stress(program: Program, seed: int, slots: int) -> None:
    """Run it once. Raises what it finds."""
    threads = Blind()
    with ThreadPoolExecutor(slots) as pool:
        program(World(threads, Random(seed), pool, slots, None))
    if threads.faults:
        raise threads.faults[0]


def main(times: int) -> int:
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    for program, slots in itertools.product(EVERY, (1, 2, 4)):
        for seed in range(times):
            faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
            try:
                stress(program, seed, slots)
            except BaseException as error:
                print(f"{program.__name__}, seed {seed}, {slots} slots: {error!r}")  # noqa: T201 - a command
                raise
    faulthandler.cancel_dump_traceback_later()
    print(f"{len(EVERY) * 3 * times} runs {'with' if gil else 'without'} a GIL")  # noqa: T201 - a command
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
