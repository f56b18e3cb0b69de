"""What holds for every test: Hypothesis is deterministic, and no thread of ours outlives the test that started it.

What the tests themselves are made of is garbage to nobody: the collector leaves it alone, or each look of it would take
a third of a second.

A test that hangs prints the stack of every thread: `faulthandler_timeout` in pyproject.toml.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.house.threads import leaked_threads

# A deadline, and the check that examples are made quickly, measure the machine. Neither may fail a test.
settings.register_profile(
    "ci",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    max_examples=5_000,
    stateful_step_count=100,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


ON_SQLITE = os.environ.get("TEST_STORE") == "sqlite"

if ON_SQLITE:  # the hooks and the fixture of that module hold for all tests
    from tests.stores.sql.everywhere import (
        folder_goes as folder_goes,
    )
    from tests.stores.sql.everywhere import (
        pytest_collection_modifyitems as pytest_collection_modifyitems,
    )
    from tests.stores.sql.everywhere import (
        pytest_ignore_collect as pytest_ignore_collect,
    )
    from tests.stores.sql.everywhere import (
        stores_are_left,
    )


def pytest_collection_finish() -> None:
    """Thousands of tests are there, and stay: a collection walks over them no more, and sees what a test has made."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_thread_is_left_behind() -> Iterator[None]:
    """Fail the test that leaves a thread of ours running: in life, a process that does not end."""
    before = frozenset(threading.enumerate())
    yield
    if ON_SQLITE:
        stores_are_left()
    left = leaked_threads(before)
    if left:
        pytest.fail(f"threads left running: {', '.join(left)}; close the scheduler, or shut the pool down")
