"""What the tests of declarations share: modules that declare, and schedulers of both kinds."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest

from tests.stores.sql.house import House, told
from tickless import Scheduler
from tickless.testing import FakeClock, InlinePool

in_memory_and_on_sqlite = pytest.mark.parametrize("kept", ["memory", "sqlite"])


class Make(Protocol):
    """Gives a scheduler that was not started."""

    def __call__(self) -> Scheduler: ...


def maker(kept: str, house: House) -> Make:
    return house.make if kept == "sqlite" else functools.partial(house.make, store=None)


def still() -> Iterator[Scheduler]:
    """A scheduler in memory, on a clock that stands still until it is moved."""
    told.clear()
    scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
    yield scheduler
    scheduler.close()


def advance(scheduler: Scheduler, seconds: float) -> None:
    clock = scheduler._clock
    assert isinstance(clock, FakeClock)
    clock.advance(seconds)


def module(folder: Path, scheduler: Scheduler, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of that text, in which `scheduler` is the scheduler."""
    desk = ModuleType("desk_of_a_test")
    vars(desk)["scheduler"] = scheduler
    monkeypatch.setitem(sys.modules, "desk_of_a_test", desk)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # or else a change within the same second is not seen
    monkeypatch.syspath_prepend(str(folder))
    (folder / f"{name}.py").write_text(f"from desk_of_a_test import scheduler\n{text}", "utf-8")
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that it is taken away afterwards
    del sys.modules[name]
    return importlib.import_module(name)
