"""A backfill that outlives its process, and one that is asked for by who does not have the works."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.stores.sql.house import House, note, told
from tests.stores.sql.others import Other
from tickless import Scheduler, State, cron
from tickless.stores.sql.checking import check
from tickless.strangers import open_store
from tickless.testing import FakeClock, ManualPool

NOON = datetime(2024, 1, 5, 12, tzinfo=UTC)
HOURLY = cron("0 * * * *")
PROGRAM = """
    from tickless import Scheduler, cron, current_run

    def work(due=None):
        due = due or current_run().due
        say(due.strftime("%H"))
        if sys.argv[2] == "hangs" and due.hour == 4: signal.pause()

    scheduler = Scheduler(store=sys.argv[1], works={"work": work}, observers=[])
    scheduler.schedule(work, cron("0 * * * *", tz="UTC"), id="x")
    with scheduler.flow("etl", cron("30 * * * *", tz="UTC")) as flow:
        flow.task(work, args=(flow.due,))
    scheduler.start()
    say("begun")
    hear()
    scheduler.close()
    say("left")
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.clock = FakeClock(NOON)
    return house


def checked(scheduler: Scheduler) -> None:
    check(scheduler._store)  # type: ignore[arg-type]  # it is the durable one


@pytest.mark.parametrize("kind", ["task", "flow"])
def test_it_goes_on_where_it_was_when_the_program_starts_again(house: House, kind: str) -> None:
    def prepare(scheduler: Scheduler) -> None:
        if kind == "task":
            scheduler.schedule(note, HOURLY, id="x", args=(1,))
        else:
            with scheduler.flow("x", HOURLY) as flow:
                flow.task(note, args=(flow.due,))

    pool = ManualPool()
    with house.start(prepare, pool=pool) as scheduler:
        assert len(scheduler.backfill("x", NOON - timedelta(hours=4), NOON)) == 4
        pool.run_next()
        scheduler.tasks()
        checked(scheduler)
    assert len(told) < 4
    with house.start(prepare) as scheduler:
        house.clock.advance(1)
        assert len(told) == 4
        assert scheduler.backfill("x", NOON - timedelta(hours=4), NOON) == []
        checked(scheduler)


def test_one_whose_process_dies_begins_again_and_then_the_others(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    day = datetime(2026, 11, 2, tzinfo=UTC)
    with Other(PROGRAM, url, "hangs") as program:
        assert program.says() == "begun"
        with closing(open_store(url)) as stranger:
            runs = stranger.backfill("x", day.replace(hour=3), day.replace(hour=7))
            assert len(runs) == 4
            assert [program.says(), program.says()] == ["03", "04"]
            program.kill()
            assert stranger.get(runs[3].task_id).state is State.PENDING
    with Other(PROGRAM, url, "goes") as program:
        assert sorted(program.says() for _ in range(4)) == ["04", "05", "06", "begun"]
        assert program.answers("end") == "left"


def test_who_has_no_works_asks_for_the_rounds_of_a_flow(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    day = datetime(2026, 11, 2, tzinfo=UTC)
    with Other(PROGRAM, url, "goes") as program:
        assert program.says() == "begun"
        with closing(open_store(url)) as stranger:
            assert len(stranger.backfill("etl", day.replace(hour=3), day.replace(hour=6), dry_run=True)) == 3
            stranger.backfill("etl", day.replace(hour=3), day.replace(hour=6))
            assert [program.says() for _ in range(3)] == ["03", "04", "05"]
            assert program.answers("end") == "left"
            assert [one.state for one in stranger.rounds("etl")] == [State.SUCCEEDED] * 3
            assert stranger.backfill("etl", day.replace(hour=3), day.replace(hour=6)) == []


def test_the_task_of_what_is_to_come_is_not_forgotten(house: House) -> None:
    """Without it nobody would have the next one run."""
    pool = ManualPool()
    with house.start(pool=pool, keep_finished=1) as scheduler:
        scheduler.schedule(note, HOURLY, id="x", until=NOON + timedelta(hours=1))
        scheduler.backfill("x", NOON - timedelta(hours=3), NOON)
        house.clock.advance(3_600)
        for _ in range(600):
            scheduler.schedule(note)
        pool.run_all()
        house.clock.advance(3_600)
        assert len(told) == 604
        checked(scheduler)
