"""The doors of the scheduler: schedule, look, observe; and that memory stays flat while it goes on for ever."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World, fail, heap_length
from tests.observe.observers import Keeper
from tickless import (
    Call,
    Cancelled,
    DuplicateId,
    EventKind,
    Pool,
    Reason,
    ScheduleError,
    Scheduler,
    State,
    UnknownTask,
    after,
    at,
    every,
)
from tickless.testing import FakeClock, InlinePool, ManualPool

S, R, T = EventKind.SCHEDULED, EventKind.READY, EventKind.STARTED


def nothing() -> None: ...


# Schedule


def test_without_a_rule_a_task_runs_now() -> None:
    world = World()
    task = world.scheduler.schedule(world.timed("x"))
    assert world.story == [("x", 0)]
    assert task.state is State.SUCCEEDED


def test_after_counts_from_the_call_and_at_is_an_instant() -> None:
    world = World()
    world.clock.advance(5)
    world.scheduler.schedule(world.timed("after"), after(1))
    world.scheduler.schedule(world.timed("at"), at(datetime(2024, 1, 1, 0, 0, 7, tzinfo=UTC)))
    world.clock.advance(10)
    assert world.story == [("after", 6), ("at", 7)]


def test_a_time_that_has_passed_runs_now_and_is_no_misfire() -> None:
    """Late is better than never. Nothing is skipped, and the run's due is what was asked for."""
    world = World()
    world.clock.advance(5)
    task = world.scheduler.schedule(world.timed("at"), at(datetime(2020, 1, 1, tzinfo=UTC)))
    world.scheduler.schedule(world.timed("after"), after(0))
    assert sorted(world.story) == [("after", 5), ("at", 5)]
    assert EventKind.SKIPPED not in world.kinds(task.id)


def test_every_fires_on_its_grid_without_drift_however_long_its_runs_take() -> None:
    """due + k * interval: a run that takes 0.3 s moves nothing."""
    world = World()

    def body() -> None:
        world.story.append(world.elapsed_s)
        world.clock.advance(0.3)

    world.scheduler.schedule(body, every(seconds=1))
    world.clock.advance(5)
    assert world.story == [1, 2, 3, 4, 5]


def test_a_sliding_rule_counts_from_the_finish() -> None:
    world = World()

    def body() -> None:
        world.story.append(world.elapsed_s)
        world.clock.advance(0.5)

    world.scheduler.schedule(body, every(seconds=1, sliding=True))
    world.clock.advance(6)
    assert world.story == [1, 2.5, 4, 5.5]


def test_a_gap_of_ten_years_is_one_run_and_one_record_of_what_was_missed() -> None:
    """A laptop that slept: found by arithmetic. Three hundred million fires would take an hour to enumerate."""
    world = World()
    beat = world.scheduler.schedule(world.timed("beat"), every(seconds=1))
    world.clock.suspend(timedelta(days=3650))
    assert len(world.story) == 1
    skipped = [run for run in beat.runs() if run.state is State.SKIPPED]
    assert [(run.reason, run.count) for run in skipped] == [(Reason.COALESCED, 3650 * 86_400 - 1)]
    world.clock.advance(2)
    assert len(world.story) == 3


def test_arguments_are_passed_as_given() -> None:
    world = World()
    world.scheduler.schedule(
        lambda *args, **kwargs: world.story.append((args, kwargs)), args=(1, [2]), kwargs={"x": {"y": 3}}
    )
    assert world.story == [((1, [2]), {"x": {"y": 3}})]


def test_schedule_is_safe_from_many_threads_and_from_tasks() -> None:
    """Each call adds one task, which runs once."""
    counts: list[int] = []
    with Scheduler(slots=2, observers=[]) as scheduler:

        def outer(n: int) -> None:
            counts.append(n)
            scheduler.schedule(counts.append, args=(-n,))

        def add(low: int) -> None:
            for n in range(low, low + 200):
                scheduler.schedule(outer, args=(n,))

        threads = [threading.Thread(target=add, args=(low,)) for low in range(1, 1_000, 200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert scheduler.wait(PATIENCE_S)
    assert sorted(counts) == [n for n in range(-1_000, 1_001) if n]


# Batches


def test_a_batch_gives_the_handles_in_order_with_one_reading_of_the_clock() -> None:
    world = World()
    tasks = world.scheduler.schedule_many([Call(nothing, after(n), id=f"t{n}") for n in range(1, 100)])
    assert [task.id for task in tasks] == [f"t{n}" for n in range(1, 100)]
    assert [world.second(task.next_fire) for task in tasks] == list(range(1, 100))


def test_a_batch_may_name_its_own_members_as_parents_earlier_or_later() -> None:
    world = World()
    world.scheduler.schedule_many(
        [
            Call(world.note("last"), after_tasks=["middle"]),
            Call(world.note("middle"), id="middle", after_tasks=["first"]),
            Call(world.note("first"), after(1), id="first"),
        ]
    )
    world.clock.advance(1)
    assert world.story == ["first", "middle", "last"]


def test_a_batch_is_as_good_as_single_calls() -> None:
    """The same order, the same events."""

    def calls(world: World) -> list[Call]:
        rules = [None, after(2), after(1), every(seconds=1), at(datetime(2024, 1, 1, 0, 0, 1, tzinfo=UTC))]
        return [Call(world.timed(n), rules[n % 5], id=f"t{n}", priority=n % 3) for n in range(50)]

    single, batch = World(start=False), World(start=False)
    for call in calls(single):
        single.scheduler.schedule(call.work, call.when, **call.options)
    batch.scheduler.schedule_many(calls(batch))
    for world in (single, batch):
        world.scheduler.start()
        world.clock.advance(5)
    assert single.story == batch.story
    assert single.events == batch.events


# Ids


def test_without_an_id_a_task_is_listed_under_a_number_that_can_be_asked_for() -> None:
    world = World()
    task = world.scheduler.schedule(nothing, after(1))
    assert task.id.startswith("#")
    assert world.scheduler.get(task.id) == world.scheduler.get(task) == task.info
    world.clock.advance(1)
    assert world.scheduler.get(task.id).state is State.SUCCEEDED


@pytest.mark.parametrize("unknown", ["nobody", "#0", "#99", "#", "#x", "", "#-1", "#1_0"])
def test_an_id_that_no_task_has_is_an_error_everywhere(unknown: str) -> None:
    world = World()
    world.scheduler.schedule(nothing, after(1))
    for call in (world.scheduler.get, world.scheduler.cancel, world.scheduler.runs):
        with pytest.raises(UnknownTask, match="keep_finished=1000"):
            call(unknown)


@pytest.mark.parametrize("wrong", [5, None, b"x", object()])
def test_what_is_neither_a_task_nor_an_id_is_refused(wrong: Any) -> None:
    world = World()
    for call in (world.scheduler.get, world.scheduler.cancel, world.scheduler.runs):
        with pytest.raises(UnknownTask, match="neither a task nor an id"):
            call(wrong)


def test_a_handle_of_another_scheduler_is_refused() -> None:
    """Both may have a task "#1": to cancel the wrong one is worse than an error."""
    one, two = World(), World()
    task = one.scheduler.schedule(nothing, after(1))
    two.scheduler.schedule(nothing, after(1))
    for call in (two.scheduler.get, two.scheduler.cancel, two.scheduler.runs):
        with pytest.raises(UnknownTask, match="another scheduler"):
            call(task)


def test_a_snapshot_may_be_used_as_the_task_it_shows() -> None:
    world = World()
    world.scheduler.schedule(nothing, after(1), id="x")
    info = world.scheduler.tasks()[0]
    assert world.scheduler.get(info) == info
    assert world.scheduler.cancel(info) is Cancelled.CANCELLED
    assert info.state is State.PENDING, "a snapshot never changes"


def test_exists_keep_gives_the_task_that_is_there_and_changes_nothing() -> None:
    world = World()
    first = world.scheduler.schedule(world.note("first"), after(5), id="x")
    again = world.scheduler.schedule(world.note("second"), after(1), id="x", exists="keep")
    assert again is first
    world.clock.advance(10)
    assert world.story == ["first"]
    ended = world.scheduler.schedule(world.note("third"), id="x", exists="keep")
    assert ended.state is State.SUCCEEDED
    assert world.story == ["first"]


def test_exists_update_of_an_unchanged_rule_keeps_its_next_fire_and_its_history() -> None:
    """BUG-020, BUG-022: a program that registers its tasks at each start must not push them into the future."""
    world = World()
    task = world.scheduler.schedule(world.note("old"), every(seconds=10), id="x")
    world.clock.advance(15)
    again = world.scheduler.schedule(world.note("new"), every(seconds=10), id="x", exists="update")
    assert world.second(again.next_fire) == 20
    assert len(again.runs()) == 1
    world.clock.advance(5)
    assert world.story == ["old", "new"]
    assert task.id == again.id
    assert len(task.runs()) == 2


def test_exists_update_of_a_changed_rule_counts_from_now() -> None:
    world = World()
    world.scheduler.schedule(world.timed("x"), every(seconds=10), id="x")
    world.clock.advance(15)
    world.scheduler.schedule(world.timed("x"), every(seconds=3), id="x", exists="update")
    world.clock.advance(6)
    assert world.story == [("x", 10), ("x", 18), ("x", 21)]


def test_exists_update_while_a_run_goes_on_takes_effect_when_it_has_ended() -> None:
    pool = ManualPool()
    world = World(pool)
    world.scheduler.schedule(world.note("old"), every(seconds=10), id="x")
    world.clock.advance(10)
    world.scheduler.schedule(world.note("new"), every(seconds=4), id="x", exists="update")
    pool.run_all()
    world.clock.advance(4)
    pool.run_all()
    assert len(world.story) == 2
    assert world.story[1] == "new"


def test_exists_update_replaces_a_task_that_has_ended_and_one_that_waits_for_parents() -> None:
    """The old one ends under its own handle, with the reason, and the id is the new one's."""
    world = World()
    done = world.scheduler.schedule(world.note("done"), id="x")
    new = world.scheduler.schedule(world.note("again"), id="x", exists="update")
    assert world.story == ["done", "again"]
    assert done.state is State.SUCCEEDED
    assert new is not done
    parent = world.scheduler.schedule(nothing, after(5), id="p")
    waits = world.scheduler.schedule(world.note("waits"), after_tasks=[parent], id="w")
    world.scheduler.schedule(world.note("now"), id="w", exists="update")
    assert (waits.state, waits.reason) == (State.CANCELLED, Reason.REPLACED)
    world.clock.advance(5)
    assert world.story == ["done", "again", "now"]


def test_exists_update_with_a_bad_parent_changes_nothing() -> None:
    world = World()
    task = world.scheduler.schedule(world.note("old"), after(5), id="x")
    for parents in (["nobody"], ["x"]):
        with pytest.raises(ScheduleError):
            world.scheduler.schedule(world.note("new"), id="x", after_tasks=parents, exists="update")
    world.clock.advance(5)
    assert world.story == ["old"]
    assert task.state is State.SUCCEEDED


# Looking


def test_tasks_lists_live_and_finished_ones_in_the_order_of_scheduling() -> None:
    world = World()
    for n in (3, 0, 2, 1):
        world.scheduler.schedule(nothing, after(n), id=f"t{n}")
    world.clock.advance(1.5)
    assert [(info.id, info.state.terminal) for info in world.scheduler.tasks()] == [
        ("t3", False),
        ("t0", True),
        ("t2", False),
        ("t1", True),
    ]


def test_a_listing_is_a_snapshot_that_a_task_may_take_while_others_change() -> None:
    """BUG-030."""
    with Scheduler(slots=2, observers=[]) as scheduler:
        stop = threading.Event()

        def churn() -> None:
            while not stop.is_set():
                scheduler.schedule(nothing)
                scheduler.schedule(nothing, after(1000)).cancel()

        thread = threading.Thread(target=churn)
        thread.start()
        for _ in range(200):
            assert all(info.state in State for info in scheduler.tasks())
        stop.set()
        thread.join(PATIENCE_S)


def test_runs_gives_the_newest_oldest_first_and_at_most_limit() -> None:
    world = World()
    beat = world.scheduler.schedule(nothing, every(seconds=1), id="x")
    world.clock.advance(5)
    assert [world.second(run.due) for run in world.scheduler.runs("x")] == [1, 2, 3, 4, 5]
    assert [world.second(run.due) for run in beat.runs(2)] == [4, 5]
    assert beat.runs(0) == []
    for wrong in (-1, True, 1.5, "2"):
        with pytest.raises(ScheduleError, match=f"limit={wrong!r}"):
            beat.runs(wrong)  # type: ignore[arg-type]


# Events


ENDS: list[tuple[Callable[[], None], EventKind]] = [(nothing, EventKind.SUCCEEDED), (fail, EventKind.FAILED)]


@pytest.mark.parametrize(("work", "end"), ENDS)
def test_events_of_a_run_come_in_order(work: Callable[[], None], end: EventKind) -> None:
    world = World()
    task = world.scheduler.schedule(work, after(1))
    world.clock.advance(1)
    assert world.kinds(task.id) == [S, R, T, end]
    beat = world.scheduler.schedule(work, every(seconds=1))
    world.clock.advance(3)
    assert world.kinds(beat.id) == [S, *([R, T, end] * 3)]


def test_events_of_what_never_runs_come_in_order() -> None:
    world = World(ManualPool())
    pending = world.scheduler.schedule(nothing, after(5))
    ready = world.scheduler.schedule(nothing)
    child = world.scheduler.schedule(nothing, after_tasks=[ready])
    pending.cancel()
    ready.cancel()
    assert world.kinds(pending.id) == [S, EventKind.CANCELLED]
    assert world.kinds(ready.id) == [S, R, EventKind.CANCELLED]
    assert world.kinds(child.id) == [S, EventKind.SKIPPED]


def test_an_event_tells_what_happened_to_whom_when_and_why() -> None:
    world = World()
    world.scheduler.schedule(fail, after(1), id="x", name="payment")
    world.scheduler.schedule(nothing, after_tasks=["x"], id="child")
    world.clock.advance(2)
    failed = next(event for event in world.events if event.kind is EventKind.FAILED)
    assert (failed.task_id, failed.name, failed.error) == ("x", "payment", "ValueError: broken")
    assert (world.second(failed.at), world.second(failed.due)) == (1, 1)
    assert "raise ValueError" in str(failed.traceback)
    skipped = next(event for event in world.events if event.kind is EventKind.SKIPPED)
    assert (skipped.task_id, skipped.reason) == ("child", Reason.PARENT_FAILED)


def test_one_skipped_event_stands_for_all_fires_that_were_missed() -> None:
    world = World()
    world.scheduler.schedule(nothing, every(seconds=1))
    world.clock.suspend(10)
    skips = [event for event in world.events if event.kind is EventKind.SKIPPED]
    assert [(event.count, event.reason) for event in skips] == [(9, Reason.COALESCED)]


def test_an_observer_may_be_added_before_the_start_and_not_later() -> None:
    """It is told of what comes; those that were there before miss nothing for it."""
    keeper, other = Keeper(), Keeper()
    scheduler = Scheduler(observers=[keeper])
    scheduler.schedule(nothing, id="early")
    scheduler.observe(other)
    with scheduler:
        with pytest.raises(ScheduleError, match=r"observers=\[\.\.\.\]"):
            scheduler.observe(Keeper())
        assert scheduler.wait(PATIENCE_S)
    told = [[event.kind for batch in each.batches for event in batch] for each in (keeper, other)]
    assert told == [[S, R, T, EventKind.SUCCEEDED], [R, T, EventKind.SUCCEEDED]]


# Memory


def test_keep_finished_tasks_stay_listed_and_the_rest_are_forgotten() -> None:
    """Handles keep theirs, and the id is free."""
    world = World(keep_finished=5)
    tasks = [world.scheduler.schedule(lambda n=n: n, id=f"t{n}") for n in range(1_000)]
    assert [info.id for info in world.scheduler.tasks()] == [f"t{n}" for n in range(995, 1_000)]
    with pytest.raises(UnknownTask):
        world.scheduler.get("t0")
    assert (tasks[0].state, tasks[0].result()) == (State.SUCCEEDED, 0)
    world.scheduler.schedule(nothing, id="t0")
    with pytest.raises(DuplicateId):
        world.scheduler.schedule(nothing, id="t999")


def test_keep_finished_none_of_them_keeps_what_lives() -> None:
    world = World(keep_finished=0)
    world.scheduler.schedule(nothing, after(1), id="x")
    world.scheduler.schedule(nothing)
    assert [info.id for info in world.scheduler.tasks()] == ["x"]


def test_keep_runs_of_each_recurring_task_are_kept() -> None:
    world = World(keep_runs=3)
    beat = world.scheduler.schedule(nothing, every(seconds=1))
    world.clock.advance(100)
    assert [world.second(run.due) for run in beat.runs()] == [98, 99, 100]


def test_a_thousand_times_cancel_and_reschedule_holds_no_more_than_what_lives() -> None:
    """BUG-031: a timeout that is set anew for each request."""
    world = World()
    tasks = [world.scheduler.schedule(nothing, after(1_000 + n)) for n in range(100)]
    longest = 0
    for n in range(20_000):
        tasks[n % 100].cancel()
        tasks[n % 100] = world.scheduler.schedule(nothing, after(1_000 + n))
        longest = max(longest, heap_length(world.scheduler))
    assert longest <= 2 * 100 + 64 + 1
    assert len(world.scheduler.tasks()) == 1_100


def test_an_update_in_a_loop_holds_no_more_than_what_lives() -> None:
    world = World()
    for n in range(5_000):
        world.scheduler.schedule(nothing, every(seconds=1_000 + n % 2), id="x", exists="update")
    assert heap_length(world.scheduler) <= 2 + 64 + 1
    assert len(world.scheduler.tasks()) == 1


def test_a_scheduler_that_nobody_holds_is_let_go_with_all_that_is_in_it() -> None:
    """New, closed, and running under a driven clock that is gone, too."""
    for end in ("new", "closed"):
        scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
        scheduler.schedule(nothing, after(5))
        if end == "closed":
            scheduler.close()
        gone = weakref.ref(scheduler)
        del scheduler
        gc.collect()
        assert gone() is None, end


def test_slots_of_a_pool_may_be_said_to_the_scheduler() -> None:
    with ThreadPoolExecutor(4) as threads:
        together = threading.Barrier(2)
        with Scheduler(Pool(threads), slots=2, observers=[]) as scheduler:
            tasks = [scheduler.schedule(together.wait, args=(PATIENCE_S,)) for _ in range(4)]
            assert sorted(task.result(PATIENCE_S) for task in tasks) == [0, 0, 1, 1]
