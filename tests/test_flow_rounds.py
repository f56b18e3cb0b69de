"""What a round does as a run: overlap, misfire, pause, limit, timeout, close; and what it does to its tasks.

In memory, and by `TEST_STORE=sqlite` on a file.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from operator import add
from threading import Event as Signal
from typing import Any

import pytest

from tests.flow_bench import MINUTE, Place, fail, note, states, told
from tickless import (
    Cancelled,
    EventKind,
    Flow,
    Limit,
    Pool,
    Reason,
    Retry,
    ScheduleError,
    Scheduler,
    State,
    UnknownTask,
    current_run,
    every,
    simulate,
)
from tickless.testing import InlinePool


def beside(*what: Any) -> Any:
    """In another process, so it tells nobody."""
    return what[0]


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.pool.run_all()
    made.check()
    made.scheduler.close()


def test_a_round_keeps_its_flow_busy_until_its_last_task_has_ended(place: Place) -> None:
    flow = place.chain(note, note)
    place.advance(MINUTE)
    place.step(2)
    assert (flow.state, flow.next_fire) == (State.RUNNING, None)
    place.advance(5.5 * MINUTE)
    assert states(flow) == ["running"]
    place.step()
    assert states(flow) == ["succeeded"]
    assert [(run.state, run.count) for run in flow.runs()] == [(State.SUCCEEDED, 1), (State.SKIPPED, 5)]
    assert flow.next_fire is not None


def test_rounds_allowed_at_once_have_tasks_and_outputs_of_their_own(place: Place) -> None:
    with place.scheduler.flow("f", every(seconds=MINUTE), overlap="allow", max_running=2) as flow:
        first = flow.task(note, args=(flow.due,), name="first")
        flow.task(note, args=([first.output],), name="second")
    place.scheduler.start()
    place.advance(3.5 * MINUTE)
    assert states(flow) == ["ready", "ready"]
    place.step(6)
    one, two = flow.rounds()
    assert states(flow) == ["succeeded", "succeeded"]
    assert [one["second"].result(), two["second"].result()] == [[one.due], [two.due]]
    assert one.due != two.due


def test_a_newer_round_replaces_the_one_that_goes_on(place: Place) -> None:
    flow = place.chain(note, note, overlap="replace")
    place.advance(MINUTE)
    place.step(1)
    place.advance(MINUTE)
    assert states(flow) == ["cancelled", "ready"]
    assert [task.reason for task in flow.rounds()[0].info.tasks] == [Reason.REPLACED] * 2
    place.step(3)
    assert states(flow) == ["cancelled", "succeeded"]


def test_missed_rounds_are_caught_up_with_one_after_another(place: Place) -> None:
    """In life: five nights are made good at once, and each of them reads what another is writing."""
    with place.scheduler.flow("f", every(seconds=MINUTE), catch_up="all") as flow:
        first = flow.task(note, args=(flow.due,), name="first")
        flow.task(note, args=("then",), after_tasks=[first], name="second")
    place.scheduler.start()
    place.clock.suspend(5 * MINUTE)
    for _ in range(5):
        place.step(3)
    dues = [one.due for one in flow.rounds()]
    assert [line for line in told if line != "then"] == dues
    assert told[1::2] == ["then"] * 5
    assert states(flow) == ["succeeded"] * 5


def test_a_pause_lets_the_round_that_goes_on_end_and_no_other_begin(place: Place) -> None:
    flow = place.chain(note, note)
    place.advance(MINUTE)
    place.step(1)
    assert flow.pause("a holiday")
    place.step(2)
    assert states(flow) == ["succeeded"]
    place.advance(5 * MINUTE)
    assert states(flow) == ["succeeded"]
    flow.resume(catch_up="latest")
    place.check()
    assert states(flow) == ["succeeded", "ready"]


def test_a_round_that_is_ready_is_held_with_its_flow(place: Place) -> None:
    flow = place.chain(note)
    place.advance(MINUTE)
    flow.pause()
    place.check()
    assert states(flow) == ["pending"]
    flow.resume()
    place.step(2)
    assert states(flow) == ["succeeded"]


def test_a_limit_is_held_by_a_round_until_its_end() -> None:
    place = Place(limits=[Limit("db", 1)])
    flow = place.chain(note, note, overlap="allow", limit="db")
    place.advance(MINUTE)
    place.step(2)
    place.advance(MINUTE)
    assert [str(one.state) for one in flow.rounds()] == ["running", "ready"]
    assert place.scheduler.get("f").waiting_for == "db"
    place.step(1)
    assert place.scheduler.limits()["db"].running == 1
    place.step(3)
    assert states(flow) == ["succeeded", "succeeded"]
    assert place.scheduler.limits()["db"].running == 0
    place.scheduler.close()


def test_max_runs_counts_rounds_and_the_flow_ends_as_the_last_did(place: Place) -> None:
    flow = place.chain(fail, max_runs=2)
    for _ in range(2):
        place.advance(MINUTE)
        place.step(2)
    assert (flow.state, flow.info.reason) == (State.FAILED, Reason.MAX_RUNS)
    assert states(flow) == ["failed", "failed"]
    with pytest.raises(ScheduleError, match="has ended"):
        flow.run_now()


def test_a_timeout_cancels_the_rest_and_waits_for_what_runs(place: Place) -> None:
    with place.scheduler.flow("f", every(seconds=MINUTE), timeout=10) as flow:
        first = flow.task(note, args=(1,), name="first")
        flow.task(note, args=(2,), name="beside")
        flow.task(note, args=(3,), name="after", after_tasks=[first])
        flow.task(note, args=(4,), name="clean", after_tasks=[first], run_if="all_done")
    place.scheduler.start()
    place.advance(MINUTE)
    place.step(1)
    run = place.scheduler._store.take(place.clock.now())
    assert run is not None
    place.advance(9)
    assert states(flow) == ["running"]
    place.advance(1)
    (one,) = flow.rounds()
    found = {task.name: (str(task.state), task.reason) for task in one.info.tasks}
    gone = ("cancelled", Reason.TIMED_OUT)
    assert found == {"first": ("running", None), "beside": gone, "after": gone, "clean": gone}
    assert place.scheduler._store.stop_flag(run).is_set()
    place.advance(MINUTE)
    assert states(flow) == ["running"]  # busy, so no other has begun
    place.scheduler._store.finish(run, place.scheduler._workers[0].outcome(run), place.clock.now())
    place.scheduler.tasks()
    place.check()
    assert (one.state, one.reason) == (State.FAILED, Reason.TIMED_OUT)
    assert one["first"].state is State.SUCCEEDED
    assert flow.next_fire is not None


def test_a_round_by_hand_at_the_instant_of_a_fire_that_waits_takes_nothing_from_it(place: Place) -> None:
    """One waits already, so the one by hand is skipped; its parameters are not those of the fire."""
    with place.scheduler.flow("f", every(seconds=MINUTE), overlap="queue", params={"who": "fire"}) as flow:
        flow.task(note, args=(flow.param("who"),))
    place.scheduler.start()
    flow.run_now()
    place.advance(MINUTE)
    assert flow.run_now({"who": "me"}).reason is Reason.OVERLAP
    place.step(4)
    assert told == ["fire", "fire"]


def test_outputs_are_looked_at_anew_at_each_attempt() -> None:
    """A parent that succeeds between two attempts of its child: the second one is given what it returned."""
    place = Place()
    gates: list[int] = []

    def twice(early: Any, late: Any) -> Any:
        gates.append(1)
        if len(gates) == 1:
            raise ValueError("again")
        return note((early, late))

    with place.scheduler.flow("f", every(seconds=MINUTE)) as flow:
        early = flow.task(note, args=("early",), name="early")
        late = flow.task(note, args=("late",), name="late")
        flow.task(
            twice,
            args=(early.output.or_else("none"), late.output.or_else("none")),
            run_if="any_succeeded",
            retry=Retry(2, delay=5, factor=1),
            priority=1,
        )
    place.scheduler.start()
    place.advance(MINUTE)
    place.step(4)
    place.advance(5)
    place.step(1)
    assert told == ["early", "late", ("early", "late")]
    place.scheduler.close()


def test_a_round_that_timed_out_though_all_succeeded_is_tried_again_and_ends(place: Place) -> None:
    """Nothing of it is left to run, so nothing would ever end it."""
    flow = place.chain(note, timeout=10)
    place.advance(MINUTE)
    place.step(1)
    run = place.scheduler._store.take(place.clock.now())
    assert run is not None
    place.advance(10)
    place.scheduler._store.finish(run, place.scheduler._workers[0].outcome(run), place.clock.now())
    (one,) = flow.rounds()
    assert one.state is State.FAILED
    one.retry_failed()
    place.step(1)
    again = flow.rounds()[-1]
    assert again.state is State.SUCCEEDED
    assert again.info.tasks[0].reason is Reason.COPIED


def test_a_retry_is_of_a_task_and_its_round_goes_on_meanwhile(place: Place) -> None:
    with place.scheduler.flow("f", every(seconds=MINUTE)) as flow:
        flow.task(fail, args=(1,), retry=Retry(2, delay=5, factor=1))
    place.scheduler.start()
    place.advance(MINUTE)
    place.step(2)
    assert states(flow) == ["running"]
    place.advance(5)
    place.step(1)
    (one,) = flow.rounds()
    assert one.state is State.FAILED
    assert one.info.tasks[0].attempt == 2


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_cancel_of_a_round_starts_nothing_more_cleaning_up_included(place: Place, opened: int) -> None:
    with place.scheduler.flow("f", every(seconds=MINUTE)) as flow:
        first = flow.task(note, args=(1,), name="first")
        flow.task(note, args=(2,), name="clean", after_tasks=[first], run_if="all_done")
    place.scheduler.start()
    place.advance(MINUTE)
    place.step(opened)
    (one,) = flow.rounds()
    assert one.cancel() is Cancelled.CANCELLED
    place.check()
    assert (one.state, one.reason) == (State.CANCELLED, Reason.CANCELLED)
    assert one.cancel() is Cancelled.TOO_LATE
    assert told == [1][: opened - 1] if opened else told == []
    assert flow.next_fire is not None


def test_cancel_of_the_flow_ends_its_rounds_too(place: Place) -> None:
    flow = place.chain(note, note, overlap="allow")
    place.advance(2 * MINUTE)
    place.step(3)
    assert flow.cancel() is Cancelled.CANCELLED
    place.check()
    assert states(flow) == ["cancelled", "cancelled"]
    assert (flow.state, place.scheduler.wait(0)) == (State.CANCELLED, True)


def test_one_task_of_a_round_is_cancelled_by_itself(place: Place) -> None:
    flow = place.chain(note, note)
    place.advance(MINUTE)
    place.step(1)
    (one,) = flow.rounds()
    assert one["0"].cancel() is Cancelled.CANCELLED
    place.check()
    assert [str(task.reason) for task in one.info.tasks] == ["cancelled", "parent_cancelled"]
    assert one.state is State.CANCELLED


def test_a_round_is_cancelled_from_inside_its_own_task() -> None:
    place = Place(pool=InlinePool())
    flows: list[Flow] = []

    def give_up() -> None:
        flows[0].rounds()[-1].cancel()
        note(bool(current_run().stop_requested))

    with place.scheduler.flow("f", every(seconds=MINUTE)) as flow:
        flow.task(note, args=("after",), after_tasks=[flow.task(give_up)])
    flows.append(flow)
    place.scheduler.start()
    place.advance(MINUTE)
    assert told == [True]
    assert states(flow) == ["cancelled"]
    place.scheduler.close()


def test_a_close_ends_what_waits_in_a_round(place: Place) -> None:
    flow = place.chain(note, note)
    place.advance(MINUTE)
    place.step(2)
    place.scheduler.close()
    place.check()
    (one,) = flow.rounds()
    assert (one.state, one.reason) == (State.CANCELLED, Reason.CLOSED)
    assert [str(task.state) for task in one.info.tasks] == ["succeeded", "cancelled"]


def test_a_task_of_a_round_closes_the_scheduler_and_does_not_wait_for_its_own_round() -> None:
    """In life: the last task of the night calls close(), and hangs for ever."""
    with ThreadPoolExecutor(2) as pool:
        scheduler = Scheduler(pool, observers=[])
        closed = Signal()

        def last() -> None:
            scheduler.close()
            closed.set()

        with scheduler.flow("f") as flow:
            flow.task(last)
        scheduler.start()
        assert closed.wait(30)


def test_ids_of_rounds_and_tasks_are_found_until_the_round_is_forgotten() -> None:
    place = Place(pool=InlinePool(), keep_rounds=2)
    flow = place.chain(note)
    place.advance(MINUTE)
    (first,) = flow.rounds()
    assert place.scheduler.get(f"{first.id}/0").state is State.SUCCEEDED
    assert place.scheduler.round(first.id).id == first.id
    for _ in range(3):
        place.advance(MINUTE)
    assert len(flow.rounds()) == 2
    assert len(flow.rounds(1)) == 1
    assert len(place.scheduler.tasks()) == 3
    with pytest.raises(UnknownTask):
        place.scheduler.get(f"{first.id}/0")
    with pytest.raises(UnknownTask):
        place.scheduler.round(first.id)
    with pytest.raises(UnknownTask):
        flow.round(first.id)
    assert first.state is State.SUCCEEDED  # a handle answers after that
    assert flow.round(flow.runs()[-1]).id == flow.rounds()[-1].id
    place.scheduler.close()


def test_a_clock_set_back_by_hours_makes_rounds_with_other_ids() -> None:
    """The same wall instants come again, and the first rounds of them are kept."""
    place = Place(pool=InlinePool())
    flow = place.chain(note, when=every(hours=1, anchor="epoch"))
    place.advance(2 * 3600)
    place.clock.step_wall(-4 * 3600)
    place.advance(4 * 3600)
    ids = [one.id for one in flow.rounds()]
    assert len(ids) == len(set(ids)) == 6
    assert len({one.due for one in flow.rounds()}) < 6
    assert set(states(flow)) == {"succeeded"}
    place.scheduler.close()


def test_an_update_counts_from_the_next_round(place: Place) -> None:
    flow = place.chain(note, note)
    place.advance(MINUTE)
    place.step(1)
    with place.scheduler.flow("f", every(seconds=MINUTE), exists="update") as again:
        again.task(note, args=("new",))
    place.step(2)
    place.advance(MINUTE)
    place.step(2)
    assert told == [0, 1, "new"]
    assert again.rounds()[0].id == flow.rounds()[0].id


def test_a_plain_task_takes_the_id_of_a_flow_and_a_flow_that_of_a_plain_task(place: Place) -> None:
    flow = place.chain(note)
    place.scheduler.schedule(note, every(seconds=MINUTE), args=("plain",), id="f", exists="update")
    place.check()
    assert flow.state is State.CANCELLED
    with place.scheduler.flow("f", every(seconds=MINUTE), exists="update") as again:
        again.task(note, args=("flow",))
    place.check()
    place.advance(MINUTE)
    place.step(2)
    assert told == ["flow"]


def test_a_child_from_outside_waits_for_a_task_of_a_round(place: Place) -> None:
    flow = place.chain(note, note)
    place.advance(MINUTE)
    place.step(1)
    (one,) = flow.rounds()
    child = place.scheduler.schedule(note, args=("outside",), after_tasks=[one["0"]])
    place.step(2)
    place.pool.run_all()
    assert child.state is State.SUCCEEDED
    assert one.state is State.SUCCEEDED


def test_events_tell_of_the_round_and_of_its_tasks_in_order() -> None:
    place = Place(pool=InlinePool())
    flow = place.chain(note)
    place.ear.events.clear()
    place.advance(MINUTE)
    (one,) = flow.rounds()
    seen = [(event.kind, event.task_id) for event in place.ear.events if event.kind is not EventKind.READY]
    assert seen == [
        (EventKind.STARTED, "f"),
        (EventKind.SCHEDULED, f"{one.id}/0"),
        (EventKind.STARTED, f"{one.id}/0"),
        (EventKind.SUCCEEDED, f"{one.id}/0"),
        (EventKind.SUCCEEDED, "f"),
    ]
    place.scheduler.close()


def test_a_failed_round_calls_the_handler_and_pauses_a_flow_that_fails_too_often() -> None:
    place = Place(pool=InlinePool())
    flow = place.chain(fail, on_failure=note, pause_after_failures=2)
    place.advance(2 * MINUTE)
    runs = [line for line in told if not isinstance(line, int)]
    assert [(run.task_id, run.error) for run in runs] == [
        ("f", "TaskFailed: 1 of 1 tasks failed: 0 (ValueError: broken)")
    ] * 2
    assert flow.info.paused
    place.scheduler.close()


def test_rounds_and_their_tasks_in_process_pools() -> None:
    """Both the opening of the round and its tasks are called in another process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:  # as in tests/pools
        scheduler = Scheduler(Pool(processes, slots=1), observers=[])
        with scheduler.flow("f") as flow:
            first = flow.task(beside, args=([3, 4],), name="first")
            flow.task(add, args=(first.output[0], first.output[1]), name="second")
        with scheduler:
            assert flow.wait(60)
            (one,) = flow.rounds()
            assert one["second"].result(60) == 7


def test_a_program_with_a_flow_is_simulated() -> None:
    flows: list[Flow] = []

    def program(scheduler: Scheduler) -> None:
        with scheduler.flow("f", every(hours=1)) as flow:
            flow.task(note, args=(2,), name="second", after_tasks=[flow.task(note, args=(1,), name="first")])
        flows.append(flow)

    told.clear()
    trace = simulate(program, until=timedelta(hours=3))
    again = simulate(program, until=timedelta(hours=3))
    assert told == [1, 2] * 6
    assert trace == again
    assert [str(one.state) for one in flows[0].rounds()] == ["succeeded"] * 3
