"""Weaves programs under seeds, and says of a failure how to repeat it."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

import tickless
from tests.races.programs import Program
from tests.races.weaver import Tangle, Weaver, stand_ins
from tests.races.world import World, woven_world
from tickless.core import ready, registry, timeline
from tickless.core.invariants import check

HOME = Path(tickless.__file__).parent
WOVEN = ("core", "stores", "pools", "worker.py", "dispatcher.py", "bell.py", "scheduler.py")
"""Where threads change: the places that rely on an order of loads and stores."""
FILES = frozenset(
    str(path) for part in WOVEN for path in ([HOME / part] if part.endswith(".py") else (HOME / part).rglob("*.py"))
)
LEFT_ALONE = ("tickless.clocks", "tickless.lifetime", "tickless.cli", "tickless.testing", "tickless.__main__")
"""Modules that keep the real threads: no run here comes by."""


def _modules() -> tuple[ModuleType, ...]:
    names = [info.name for info in pkgutil.walk_packages(tickless.__path__, "tickless.")]
    return tuple(importlib.import_module(name) for name in names if not name.startswith(LEFT_ALONE))


MODULES = _modules()


def weave(program: Program, seed: int, *, slots: int, held: bool = False, drained: bool = True) -> int:
    """Run the program once, and give how many opcodes that took. Raises Tangle for any fault, with the story."""
    name = f"{program.__name__} {seed}"
    weaver = Weaver(name, FILES)

    worlds: list[World] = []

    def main() -> None:
        worlds.append(woven_world(weaver, Random(f"{name} draws"), slots, drained))
        program(worlds[0])

    try:
        with woven(weaver, held):
            weaver.run(main)
            worlds[0].scheduler.tasks()  # trims what a worker that found the lock taken has left
            check(worlds[0].scheduler._store)
    except BaseException as error:
        stand = "\n".join(world.tell() for world in worlds)
        raise Tangle(f"{type(error).__name__}: {error}\n{weaver.tell()}\n{stand}") from error
    return weaver.steps


def seeds(count: int) -> range:
    """The seeds to weave: WEAVE_SEED=7 only that one, WEAVE_TIMES=100 a hundred times as many as usual."""
    only = os.environ.get("WEAVE_SEED")
    if only is not None:
        return range(int(only), int(only) + 1)
    return range(count * int(os.environ.get("WEAVE_TIMES", "1")))


def first_fault(
    program: Program, over: range, *, slots: int, held: bool = False, drained: bool = True, test: str | None = None
) -> str | None:
    """What goes wrong under the first of these seeds that finds anything, with the seed; None when none does.

    `test` is the pytest id that is to be named in the command that repeats it.
    """
    for seed in over:
        try:
            weave(program, seed, slots=slots, held=held, drained=drained)
        except Tangle as tangle:
            return f"seed {seed}: {tangle}{_how_to_repeat(seed, test)}"
    return None


def _how_to_repeat(seed: int, test: str | None) -> str:
    """A line for the failure. CPython 3.12 and later count other opcodes while code is not warm yet, so there a seed
    repeats only after the same ones before it."""
    if test is None:
        return ""
    only = f"WEAVE_SEED={seed} " if sys.version_info < (3, 12) else ""
    return f"\nrepeat: {only}.venv/bin/python -m pytest '{test}'"


@contextmanager
def woven(weaver: Weaver, held: bool) -> Iterator[None]:
    """While inside, the library's locks, events and threads are the weaver's, and its tables are pruned at once.

    `held`: as without a GIL, every take and finish goes under the lock.
    """
    instead = {id(real): woven for real, woven in stand_ins(weaver).items()}
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            for name, value in list(vars(module).items()):
                if id(value) in instead:
                    patch.setattr(module, name, instead[id(value)])
        for module in (ready, registry, timeline):
            patch.setattr(module, "SLACK", 0)
        if held:
            patch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
        yield
