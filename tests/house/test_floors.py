"""Imports go down only. Without this the pure machine would learn of threads, and could no longer be tested alone."""

from __future__ import annotations

import pytest

from tests.house.floors import FLOORS, adapter_faults, cycle_faults, floor_faults
from tests.house.sources import Source, library


def test_every_module_stands_on_a_floor_and_imports_go_down() -> None:
    """A rule that imports the scheduler cannot be used, tested or stored without it."""
    assert floor_faults(library()) == []


def test_adapters_do_not_know_one_another() -> None:
    """A store that knows the thread pool works with no other pool."""
    assert adapter_faults(library()) == []


def test_no_module_needs_itself_by_way_of_others() -> None:
    """A cycle makes the order of imports matter: it works for us and fails for the first user who imports otherwise."""
    assert cycle_faults(library()) == []


def test_there_are_five_floors() -> None:
    """The table is the design's: a sixth floor is a decision for an ADR."""
    assert sorted(set(FLOORS.values())) == [0, 1, 2, 3, 4]


def source(module: str, text: str = "", is_package: bool = False) -> Source:
    return Source(module, text, is_package)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("tickless.rules.at", "from tickless.core.timeline import Timeline"),
        ("tickless.rules.at", "import tickless.core.timeline"),
        ("tickless.rules.at", "from ..core import timeline"),
        ("tickless.core.ready", "def f():\n    from tickless.scheduler import Scheduler"),
        ("tickless.core.ready", "if TYPE_CHECKING:\n    from tickless.stores import Store"),
        ("tickless.stores.memory", "from tickless.dispatcher import Dispatcher"),
        ("tickless.dispatcher", "from tickless import Scheduler"),
        ("tickless.instants", "try:\n    import tickless.clocks\nexcept ImportError:\n    pass"),
    ],
)
def test_an_import_that_goes_up_is_reported(module: str, line: str) -> None:
    """However it is written: a rule that only sees one spelling is no rule."""
    tree = [source(module, line), source("tickless.core", is_package=True), source("tickless.core.timeline")]
    faults = floor_faults(tree)
    assert len(faults) == 1
    assert module in faults[0]
    assert "up to floor" in faults[0]


@pytest.mark.parametrize("module", ["tickless.helpers", "tickless.util.strings"])
def test_a_module_without_a_floor_is_reported(module: str) -> None:
    """Else a new file would be outside of every rule."""
    assert floor_faults([source(module)]) == [
        f"{module} stands on no floor: give it a line in tests/house/floors.py",
    ]


PORTS = (
    source("tickless.observe", "class Observer(Protocol): ...\nclass Journal: ...", is_package=True),
    source("tickless.observe.log", "class LogObserver: ..."),
    source("tickless.clocks", "class SystemClock: ..."),
)


@pytest.mark.parametrize(
    "line",
    [
        "from tickless.observe.log import LogObserver",
        "from tickless.observe import Journal",
        "from tickless.observe import log",
        "from tickless import observe",
        "import tickless.clocks",
        "from tickless.clocks import SystemClock",
    ],
)
def test_an_adapter_that_knows_another_is_reported(line: str) -> None:
    """The store of the next person has no such observer, pool or clock."""
    assert len(adapter_faults([source("tickless.stores.memory", line), *PORTS])) == 1


@pytest.mark.parametrize(
    "line",
    ["from tickless.observe import Observer", "from tickless.stores import Store", "from tickless.core import graph"],
)
def test_protocols_own_package_and_lower_floors_are_free_to_use(line: str) -> None:
    """A rule that forbids too much gets switched off."""
    assert adapter_faults([source("tickless.stores.memory", line), *PORTS]) == []


def test_a_cycle_is_reported_with_its_path() -> None:
    """The path is what one needs in order to cut it."""
    tree = [
        source("tickless.task", "from tickless.flow import Flow"),
        source("tickless.flow", "def f():\n    import tickless.scheduler"),
        source("tickless.scheduler", "from tickless.task import Task"),
    ]
    assert cycle_faults(tree) == [
        "tickless.flow imports tickless.scheduler imports tickless.task imports tickless.flow"
    ]


def test_an_import_for_types_only_makes_no_cycle() -> None:
    """It never runs, so it can break no program."""
    tree = [
        source("tickless.task", "if TYPE_CHECKING:\n    from tickless.scheduler import Scheduler"),
        source("tickless.scheduler", "from tickless.task import Task"),
    ]
    assert cycle_faults(tree) == []
