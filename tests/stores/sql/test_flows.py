"""Rounds that outlive a stop and a start, and rounds that several processes work on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stores.sql.house import House, fail, note, other, told
from tickless import Flow, PayloadError, Reason, Scheduler, State, every
from tickless.stores.sql.checking import check
from tickless.testing import ManualPool

MINUTE_S = 60


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def rows(day: Any, due: Any) -> dict[str, Any]:
    told.append(("rows", day, due.minute))
    return {"rows": [1, 2, day]}


def broken(*what: Any) -> Any:
    """Fails while the list below is empty."""
    note(*what)
    if not mended:
        raise ValueError("broken")
    return what[0]


mended: list[bool] = []


def define(scheduler: Scheduler, **options: Any) -> Flow:
    """rows -> note(its part) -> other(the same once more)."""
    with scheduler.flow("etl", every(seconds=MINUTE_S), params={"day": 5}, **options) as flow:
        first = flow.task(rows, args=(flow.param("day"), flow.due))
        second = flow.task(note, args=(first.output["rows"][2],))
        flow.task(other, args=([second.output],))
    return flow


def step(scheduler: Scheduler, runs: int) -> None:
    """A worker that takes so many runs, and leaves."""
    store, now = scheduler._store, scheduler._now()
    for _ in range(runs):
        run = store.take(now)
        assert run is not None
        store.finish(run, scheduler._workers[0].outcome(run), now)
    scheduler.tasks()  # which has written what was said


def checked(scheduler: Scheduler) -> None:
    check(scheduler._store)  # type: ignore[arg-type]  # it is the durable one


def test_a_round_goes_on_where_the_program_was_stopped_and_outputs_come_along(house: House) -> None:
    """The second program takes each task of the round that was left, and none again."""
    with house.start(define, pool=ManualPool()) as scheduler:
        house.clock.advance(MINUTE_S)
        step(scheduler, 2)  # the round is opened, and its first task runs
        checked(scheduler)
        assert told == [("rows", 5, 1)]
    with house.start(define) as scheduler:
        house.clock.advance(1)
        (one,) = scheduler.rounds("etl")
        assert [task.state for task in one.info.tasks] == [State.SUCCEEDED] * 3
        assert one.state is State.SUCCEEDED
        assert told == [("rows", 5, 1), 5, [5]]
        checked(scheduler)


def test_a_round_keeps_the_definition_that_it_began_with(house: House) -> None:
    with house.start(define, pool=ManualPool()) as scheduler:
        house.clock.advance(MINUTE_S)
        step(scheduler, 1)

    def other_definition(scheduler: Scheduler) -> None:
        with scheduler.flow("etl", every(seconds=MINUTE_S)) as flow:
            flow.task(note, args=("anew",))

    with house.start(other_definition) as scheduler:
        house.clock.advance(1)
        assert told == [("rows", 5, 1), 5, [5]]
        house.clock.advance(MINUTE_S)
        assert told[3:] == ["anew"]
        before, after = scheduler.rounds("etl")
        assert [task.name for task in before.info.tasks] == ["rows", "note", "other"]
        assert [task.name for task in after.info.tasks] == ["note"]
        assert [(one.name, one.before, one.now) for one in after.info.compare(before.info)] == [
            ("rows", State.SUCCEEDED, None),
            ("other", State.SUCCEEDED, None),
        ]
        checked(scheduler)


def test_an_unchanged_flow_keeps_its_next_fire_and_its_rounds(house: House) -> None:
    with house.start(define):
        house.clock.advance(90)
    with house.start(define) as scheduler:
        house.clock.advance(29)
        assert len(scheduler.rounds("etl")) == 1
        house.clock.advance(1)
        assert len(scheduler.rounds("etl")) == 2
        assert scheduler.round(scheduler.rounds("etl")[0].id).state is State.SUCCEEDED


def test_what_failed_is_tried_again_after_a_restart_and_what_succeeded_is_copied(house: House) -> None:
    """The outputs of the first program are what the second one's tasks are given."""

    def prepare(scheduler: Scheduler) -> None:
        with scheduler.flow("etl", every(seconds=MINUTE_S)) as flow:
            first = flow.task(note, args=("out",), name="first")
            second = flow.task(broken, args=(first.output,), name="second")
            flow.task(other, args=(second.output,), name="third")
            flow.task(note, args=("cleaned",), name="clean", after_tasks=[second], run_if="any_failed")

    mended.clear()
    with house.start(prepare) as scheduler:
        house.clock.advance(MINUTE_S)
        assert scheduler.rounds("etl")[0].state is State.FAILED
    mended.append(True)
    told.clear()
    with house.start(prepare) as scheduler:
        (one,) = scheduler.rounds("etl")
        one.retry_failed()
        again = scheduler.rounds("etl")[-1]
        assert again.retry_of == one.id
        assert again.due == one.due
        assert told == ["out", "out"]
        found = {task.name: (task.state, task.reason) for task in again.info.tasks}
        assert found == {
            "first": (State.SUCCEEDED, Reason.COPIED),
            "second": (State.SUCCEEDED, None),
            "third": (State.SUCCEEDED, None),
            "clean": (State.SKIPPED, Reason.RUN_IF),  # it is decided again
        }
        assert again["first"].state is State.SUCCEEDED
        checked(scheduler)
        again.info.tree()
        with pytest.raises(ValueError, match="nothing of it failed"):
            again.retry_failed()


def test_a_round_times_out_in_a_program_that_never_opened_it(house: House) -> None:
    with house.start(lambda scheduler: define(scheduler, timeout=30), pool=ManualPool()) as scheduler:
        house.clock.advance(MINUTE_S)
        step(scheduler, 2)
    with house.start(lambda scheduler: define(scheduler, timeout=30), pool=ManualPool()) as scheduler:
        house.clock.advance(29)
        assert scheduler.rounds("etl")[0].state is State.RUNNING
        checked(scheduler)
        house.clock.advance(1)
        (one,) = scheduler.rounds("etl")
        assert (one.state, one.reason) == (State.FAILED, Reason.TIMED_OUT)
        assert [task.reason for task in one.info.tasks] == [None, Reason.TIMED_OUT, Reason.TIMED_OUT]
        checked(scheduler)


def test_another_program_cancels_a_round_and_the_task_that_runs_is_told(house: House) -> None:
    """The stop flag of a run is set in the process that runs it, when that turns: a test's clock does not wait for the
    doorbell's thread, and here that never comes.
    """
    first, second = house.make(pool=ManualPool()), house.make(pool=ManualPool())
    define(first)
    with first, second:
        store: Any = first._store
        store.transactions.company._bell.close()
        house.clock.advance(MINUTE_S)
        step(first, 1)
        (one,) = first.rounds("etl")
        taken = first._store.take(house.clock.now())
        assert taken is not None
        second.round(one.id).cancel()
        house.clock.advance(1)
        assert taken.stop is True
        assert [task.state for task in one.info.tasks] == [State.RUNNING, State.CANCELLED, State.CANCELLED]
        first._store.finish(taken, first._workers[0].outcome(taken), house.clock.now())
        first._store.take(house.clock.now())
        assert (one.state, one.reason) == (State.CANCELLED, Reason.CANCELLED)
        checked(first)


def test_rounds_are_forgotten_with_their_tasks_and_definitions(house: House) -> None:
    """Nothing of a round that is not kept stays in the file."""

    def prepare(scheduler: Scheduler) -> None:
        with scheduler.flow("etl", every(seconds=MINUTE_S)) as flow:
            flow.task(note, args=(house.clock.now(),), name="one")  # another definition at each start

    for _ in range(4):
        with house.start(prepare, keep_rounds=3) as scheduler:
            house.clock.advance(2 * MINUTE_S)
            assert len(scheduler.rounds("etl")) <= 3
            checked(scheduler)
    with house.start(keep_rounds=3) as scheduler:
        store: Any = scheduler._store
        (rows_left,) = store.db.execute("SELECT count(*) FROM tasks").fetchone()
        (plans_left,) = store.db.execute("SELECT count(*) FROM plans").fetchone()
        store.db.rollback()
        assert rows_left == 1 + 3 + 3  # the flow, its rounds, their tasks
        assert plans_left <= 3


def test_params_by_hand_wait_with_the_round_that_they_are_for(house: House) -> None:
    """Told in one program, taken in the next."""
    flows: list[Flow] = []
    with house.start(
        lambda scheduler: flows.append(define(scheduler, overlap="queue")), pool=ManualPool()
    ) as scheduler:
        house.clock.advance(MINUTE_S)
        step(scheduler, 1)
        assert flows[0].run_now({"day": 9}).state is State.PENDING
    with house.start() as scheduler:
        house.clock.advance(1)
        assert [one.params["day"] for one in scheduler.rounds("etl")] == [5, 9]
        assert told[-1] == [9]


def test_what_cannot_be_stored_is_refused_by_the_name_of_its_task(house: House) -> None:
    with house.start() as scheduler:
        with pytest.raises(PayloadError, match=r"task note of the flow: args\[0\]"), scheduler.flow("etl") as flow:
            flow.task(note, args=(object(),))
        with pytest.raises(PayloadError, match=r"task nobody of the flow: .* lambda"), scheduler.flow("etl") as flow:
            flow.task(lambda: None, name="nobody")
        assert scheduler.tasks() == []


def test_a_flow_whose_task_is_gone_from_the_code_is_reported_at_the_start(house: House) -> None:
    def gone() -> None: ...

    def prepare(scheduler: Scheduler) -> None:
        with scheduler.flow("etl", every(seconds=MINUTE_S)) as flow:
            flow.task(gone, name="gone")

    with house.start(prepare, works={"the old name": gone}):
        pass
    with house.start():
        assert any("the old name" in str(event.error) for event in house.ear.events)


def test_a_task_that_fails_fails_its_round_and_both_are_told(house: House) -> None:
    def prepare(scheduler: Scheduler) -> None:
        with scheduler.flow("etl") as flow:
            flow.task(fail)

    with house.start(prepare) as scheduler:
        house.clock.advance(1)
        (one,) = scheduler.rounds("etl")
        assert one.info.error == "TaskFailed: 1 of 1 tasks failed: fail (ValueError: broken)"
        assert scheduler.get("etl").state is State.FAILED


@pytest.mark.parametrize("form", ["{", '{"v": 1}', '{"v": 99}', None])
def test_a_definition_that_is_damaged_fails_its_own_rounds_and_stops_nobody(house: House, form: str | None) -> None:
    with house.start(define) as scheduler:
        scheduler.schedule(note, every(seconds=MINUTE_S), args=("beside",), id="beside")
        store: Any = scheduler._store
        with store.transactions.lock:
            change = "DELETE FROM plans" if form is None else "UPDATE plans SET form = ?"
            store.db.execute(change, () if form is None else (form,))
        house.clock.advance(2 * MINUTE_S)
        assert told == ["beside"] * 2
        assert [one.state for one in scheduler.rounds("etl")] == [State.FAILED] * 2
        assert scheduler.rounds("etl")[0].info.error
        assert scheduler.get("etl").next_fire is not None
