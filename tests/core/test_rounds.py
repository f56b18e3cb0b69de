"""What the machine of `tests/properties/test_flow_machine.py` and the weaver have found in rounds, as plain tests."""

from __future__ import annotations

from tickless import Flow, Scheduler, every
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


def test_what_is_tried_again_is_as_it_was() -> None:
    """In life: the fix was deployed with another task in the flow, and last night's round is to be put right first."""
    clock, pool = FakeClock(), ManualPool()
    scheduler = Scheduler(pool, clock=clock, observers=[])
    told: list[str] = []

    def work(said: str) -> None:
        told.append(said)
        if len(told) == 1:
            raise ValueError(said)

    def define(name: str) -> Flow:
        with scheduler.flow("etl", every(hours=1), exists="update", params={"said": name}) as flow:
            flow.task(work, args=(flow.param("said"),), name=name)
        return flow

    define("before").run_now({"said": "monday"})
    scheduler.start()
    pool.run_all()
    flow = define("after")
    (failed,) = flow.rounds()
    failed.retry_failed()
    flow.run_now()  # skipped: one goes on
    pool.run_all()
    flow.run_now()
    pool.run_all()
    assert [list(one.tasks) for one in flow.rounds()] == [["before"], ["before"], ["after"]]
    assert told == ["monday", "monday", "after"]
