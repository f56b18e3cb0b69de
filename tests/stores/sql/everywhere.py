"""With TEST_STORE=sqlite in the environment: every Scheduler that a test makes keeps its tasks in a file of its own.

`tests/conftest.py` imports this module then, and nobody else does. What may be different on SQLite, and which modules
run on it in `make test`, is said in `differences.py`.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.sql.differences import DIFFERENCES, MODULES
from tickless.core import invariants
from tickless.core.machine import Machine
from tickless.durable import Durable
from tickless.instants import Clock
from tickless.places import Keeps, Place
from tickless.scheduler import Scheduler
from tickless.stores.memory import MemoryStore
from tickless.stores.sql.checking import check as check_rows
from tickless.stores.sql.store import SqlStore
from tickless.testing.keepsakes import Keepsakes

ROOT = Path(__file__).parents[3]
_folder = Path(tempfile.mkdtemp(prefix="tickless-tests-"))
_numbers = itertools.count()
_left_open: list[weakref.ref[Durable]] = []
_make_store = Scheduler._make_store
_check_records = invariants.check


def _make_sql_store(scheduler: Scheduler, keeps: Keeps, place: Place | None, clock: Clock | None) -> None:
    if place is not None:  # the test is about stores, and has said where
        _make_store(scheduler, keeps, place, clock)
        return
    place = Place(f"sqlite:///{_folder}/{next(_numbers)}.db", "process", Keepsakes(), {}, 30_000_000, False, None)
    _make_store(scheduler, keeps, place, clock)
    assert isinstance(scheduler._store, SqlStore)
    scheduler._store.claims._most_group = 1  # a worker takes what it runs and no more, as tests of an order expect
    assert scheduler._durable is not None
    _left_open.append(weakref.ref(scheduler._durable))


def _check(subject: Machine | MemoryStore | SqlStore) -> None:
    if isinstance(subject, SqlStore):
        check_rows(subject)
    else:
        _check_records(subject)


Scheduler._make_store = _make_sql_store  # type: ignore[method-assign, assignment]
invariants.check = _check  # type: ignore[assignment]  # before any test imports it


def stores_are_left() -> None:
    """A test has ended: its schedulers may have been closed or not, and nothing of them may go on."""
    while _left_open:
        durable = _left_open.pop()()
        if durable is not None:
            durable.leave()


@pytest.fixture(scope="session", autouse=True)
def folder_goes() -> Iterator[None]:
    """The files of all tests go with the session."""
    yield
    shutil.rmtree(_folder)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of `pytest tests`, collect the modules that are listed; what is named more closely is always collected."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    named = [(ROOT / arg.partition("::")[0]).resolve() for arg in config.args]
    if any(path != ROOT / "tests" and (path == collection_path or path in collection_path.parents) for path in named):
        return None
    return None if str(collection_path.relative_to(ROOT / "tests")) in MODULES else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is rightly different, with the reason."""
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        for test, reason in DIFFERENCES.items():
            if name == test or name.startswith(test if "[" in test else f"{test}["):
                item.add_marker(pytest.mark.skip(reason=f"on SQLite: {reason}"))
