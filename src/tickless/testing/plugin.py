"""The pytest plugin: two fixtures for schedules on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tickless.scheduler import Scheduler
from tickless.testing.clock import FakeClock
from tickless.testing.pools import InlinePool


@pytest.fixture
def tickless_clock() -> FakeClock:
    """A clock that stands still until the test calls `advance`."""
    return FakeClock()


@pytest.fixture
def tickless_scheduler(tickless_clock: FakeClock) -> Iterator[Scheduler]:
    """A started scheduler on `tickless_clock`, whose tasks run inline: what is due has run when `advance` returns."""
    with Scheduler(InlinePool(), clock=tickless_clock, observers=[]) as scheduler:
        yield scheduler
