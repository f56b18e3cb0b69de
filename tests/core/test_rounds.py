"""What the machine of `tests/properties/test_flow_machine.py` and the weaver have found in rounds, as plain tests."""

from __future__ import annotations

from tickless import Scheduler, every
from tickless.testing import FakeClock, ManualPool


def test_a_round_that_is_skipped_takes_nothing_from_the_one_that_waits() -> None:
    """In life: a backfill for Monday waits, somebody clicks once more, and Monday's parameters are gone."""
    clock, pool = FakeClock(), ManualPool()
    scheduler = Scheduler(pool, clock=clock, observers=[])
    given: list[str] = []
    with scheduler.flow("etl", every(hours=1), overlap="queue", params={"day": "today"}) as flow:
        flow.task(given.append, args=(flow.param("day"),), name="load")
    scheduler.start()
    flow.run_now()
    flow.run_now({"day": "monday"})
    clock.advance(1)
    assert flow.run_now({"day": "tuesday"}).reason == "overlap"
    pool.run_all()
    assert given == ["today", "monday"]
