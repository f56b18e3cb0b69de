"""One id, its tasks one after another, and schedules that are changed while they go on."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import pytest

from tests.cases.kit import dues, entries, inline, starts
from tickless import Call, DuplicateId, Reason, Scheduler, Task, after, every
from tickless.testing import FakeClock, InlinePool, ManualPool

MINUTE = every(minutes=1)


def test_BUG_016_new_task_under_the_id_of_a_running_one_starts_with_a_clean_slate() -> None:
    """In life: the new one is "already running" for ever, or the old one's result is written onto it."""
    clock, pool = FakeClock(), ManualPool(slots=2)
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        second: list[Task[str]] = []

        def first_body() -> str:
            second.append(scheduler.schedule(lambda: "new", id="x", exists="update"))
            assert pool.run_next(), "the new one is submitted while the old one runs"
            assert second[0].state == "succeeded"
            clock.advance(5)
            return "old"

        first = scheduler.schedule(first_body, id="x")
        pool.run_next()
        assert (first.result(timeout=0), second[0].result(timeout=0)) == ("old", "new")
        assert (starts(first.runs()), starts(second[0].runs())) == ([0], [0])
        assert scheduler.get("x").last_run == second[0].last_run
        assert [run.finished for run in first.runs()] != [run.finished for run in second[0].runs()]


def test_BUG_016_end_of_the_old_task_changes_neither_the_new_ones_state_nor_its_next_fire() -> None:
    """In life: the old run's end overwrites "scheduled" with "done", and the new task is never looked at again."""
    clock, pool = FakeClock(), ManualPool()
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        old = scheduler.schedule(lambda: scheduler.schedule(int, after(60), id="x", exists="update"), id="x")
        child = scheduler.schedule(int, after_tasks=[old])
        pool.run_all()
        assert child.state == "succeeded", "the children of the old one are those of the old one"
        assert scheduler.get("x").state == "pending"
        assert scheduler.get("x").children == ()
        clock.advance(60)
        pool.run_all()
        assert scheduler.get("x").state == "succeeded"


def test_BUG_020_update_with_the_same_rule_keeps_the_next_fire() -> None:
    """In life: a program registers its tasks anew each time it is looked at, and none ever comes to its turn."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, every(hours=24), id="x")
        for _ in range(40):
            clock.advance(3 * 3600)
            assert scheduler.schedule(int, every(hours=24), id="x", exists="update") is task
        assert dues(task.runs()) == [day * 86_400 for day in (1, 2, 3, 4, 5)]


def test_BUG_020_update_with_another_rule_counts_from_the_update_and_does_not_run_at_once() -> None:
    """In life: a changed interval keeps the old fire, or fires an extra time at the change."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, every(hours=24), id="x")
        clock.advance(3 * 3600)
        scheduler.schedule(int, every(hours=6), id="x", exists="update")
        assert task.runs() == []
        clock.advance(6 * 3600)
        assert dues(task.runs()) == [9 * 3600]


def test_BUG_020_anchored_interval_outlives_the_process_that_is_started_anew_every_three_hours() -> None:
    """In life: each deployment puts "in 24 hours" off by 24 hours. In memory an anchor is the way out."""
    clock, runs = FakeClock(), 0

    def work() -> None:
        nonlocal runs
        runs += 1

    for _ in range(40):
        with Scheduler(InlinePool(), clock=clock, observers=[]) as scheduler:
            scheduler.schedule(work, every(hours=24, anchor="epoch"), id="x")
            clock.advance(3 * 3600)
    assert runs == 5


def test_BUG_022_update_that_changes_nothing_loses_no_fire_of_anybody() -> None:
    """In life: a reload near the full minute swallows that minute; or, finding all equal, leaves the heap empty."""
    with inline() as (scheduler, clock):
        a, b = (scheduler.schedule(int, MINUTE, id=id) for id in ("a", "b"))
        clock.advance(59)
        scheduler.schedule(int, MINUTE, id="a", exists="update")
        clock.advance(1)
        assert (dues(a.runs()), dues(b.runs())) == ([60], [60])
        clock.advance(60)
        assert (dues(a.runs()), dues(b.runs())) == ([60, 120], [60, 120])


def test_BUG_022_change_of_one_rule_is_in_force_at_once_and_touches_nobody_else() -> None:
    """In life: the change is ignored until the process is started anew."""
    with inline() as (scheduler, clock):
        a, b = scheduler.schedule(int, every(hours=1), id="a"), scheduler.schedule(int, MINUTE, id="b")
        scheduler.schedule(int, MINUTE, id="a", exists="update")
        clock.advance(60)
        assert (dues(a.runs()), dues(b.runs())) == ([60], [60])
        assert b.cancel()
        clock.advance(60)
        assert (dues(a.runs()), dues(b.runs())) == ([60, 120], [60])
        assert entries(scheduler) == 1 + 1, "one lives, and one was left behind by the cancel"


@pytest.mark.parametrize("exists", ["keep", "update"])
def test_BUG_022_hundred_edits_leave_one_entry_that_fires(exists: str) -> None:
    """In life: each edit leaves a living entry behind, and the task fires a hundred times."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, MINUTE, id="a")
        for number in range(100):
            scheduler.schedule(int, every(seconds=30 + number % 2), id="a", exists=exists)  # type: ignore[arg-type]
        clock.advance(90)
        assert dues(task.runs()) == ([60] if exists == "keep" else [31, 62])


def test_BUG_032_task_that_is_cancelled_while_it_runs_ends_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """In life: the end of the run does not find its task, raises, or brings the deleted task back to life."""
    clock, pool = FakeClock(), ManualPool()
    with Scheduler(pool, clock=clock) as scheduler:
        task = scheduler.schedule(lambda: scheduler.cancel("x"), MINUTE, id="x")
        clock.advance(60)
        pool.run_all()
        assert (task.state, task.next_fire) == ("cancelled", None)
        assert [run.state for run in task.runs()] == ["succeeded"]
        clock.advance(600)
        assert len(pool) == 0
        scheduler.schedule(int, MINUTE, id="x", exists="update")
        assert scheduler.get("x").state == "pending"
    assert [record.message for record in caplog.records] == []


def test_BUG_032_task_that_schedules_itself_again_under_its_own_id_goes_on() -> None:
    """In life: the write at the end of the run overwrites what the run itself has scheduled, and the chain ends."""
    runs: list[float] = []
    with inline() as (scheduler, clock):

        def link() -> None:
            runs.append((clock.now() - FakeClock().now()) / 1e6)
            scheduler.schedule(link, after(10), id="chain", exists="update")

        scheduler.schedule(link, after(10), id="chain")
        clock.advance(1000)
        assert runs == [10.0 * number for number in range(1, 101)]
        info = scheduler.get("chain")
        assert (info.state, info.reason) == ("pending", None)
        assert info.next_fire is not None
        assert info.next_fire - scheduler.tasks()[-2].last_run.started == timedelta(seconds=10)  # type: ignore[union-attr, operator]


@pytest.mark.parametrize("started", [False, True], ids=["before the start", "after it"])
def test_BUG_033_second_task_of_an_id_is_refused_and_the_first_is_as_it_was(started: bool) -> None:
    """In life: before the start both are queued, after it the second takes the place of the first without a word."""
    scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
    if started:
        scheduler.start()
    first = scheduler.schedule(int, after(60), id="x")
    for again in (lambda: scheduler.schedule(str, id="x"), lambda: scheduler.schedule_many([Call(str, id="x")])):
        with pytest.raises(DuplicateId, match="'x'"):
            again()
    with pytest.raises(DuplicateId):
        scheduler.schedule_many([Call(int, id="y"), Call(int, id="y")])
    assert [info.id for info in scheduler.tasks()] == ["x"]
    assert first.state == "pending"
    scheduler.schedule(int, after(30), id="x", exists="update")
    assert [info.id for info in scheduler.tasks() if info.state == "pending"] == ["x"]
    scheduler.close()


def test_BUG_033_replaced_recurring_task_keeps_its_history() -> None:
    """In life: each new version of the rule forgets what the former did."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, MINUTE, id="x")
        clock.advance(120)
        scheduler.schedule(int, every(seconds=30), id="x", exists="update")
        clock.advance(30)
        assert len(scheduler.tasks()) == 1
        assert dues(scheduler.runs("x")) == [60, 120, 150]
        assert dues(task.runs()) == [60, 120, 150]


def test_BUG_033_one_function_under_two_ids_or_none_is_two_tasks() -> None:
    """In life: the key is made of the function's name, and the second is taken for the first."""
    calls: list[int] = []
    with inline() as (scheduler, clock):
        for id in ("a", "b", None, None):
            scheduler.schedule(calls.append, MINUTE, args=(1,), id=id)
        assert len({info.id for info in scheduler.tasks()}) == 4
        clock.advance(60)
        assert len(calls) == 4


def test_BUG_033_of_eight_threads_that_take_one_id_one_gets_it() -> None:
    """In life: two look whether it is free, both find it so, and one is lost."""
    refused: list[int] = []
    scheduler = Scheduler(InlinePool(), clock=FakeClock(), observers=[])
    for round_number in range(50):
        gate = threading.Barrier(8)

        def take(number: int, gate: threading.Barrier = gate, id: str = f"x{round_number}") -> None:
            gate.wait()
            try:
                scheduler.schedule(int, after(60), id=id)
            except DuplicateId:
                refused.append(number)

        threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(refused) == 50 * 7
    assert len(scheduler.tasks()) == 50
    scheduler.close()


def test_BUG_016_pending_task_that_is_updated_is_the_same_task_and_keeps_its_children() -> None:
    """In life: the parent list of a child still names the old task, and nobody ever frees it."""
    with inline() as (scheduler, clock):
        old = scheduler.schedule(int, after(60), id="x")
        child = scheduler.schedule(int, after_tasks=["x"])
        assert scheduler.schedule(int, after(30), id="x", exists="update") is old
        clock.advance(30)
        assert (old.state, child.state) == ("succeeded", "succeeded")


def test_BUG_016_waiting_task_that_is_replaced_ends_under_its_own_handle_and_its_children_with_it() -> None:
    """In life: the old one's parents still count down on the new one, which starts too early."""
    with inline() as (scheduler, clock):
        parent = scheduler.schedule(int, after(60))
        old = scheduler.schedule(int, id="x", after_tasks=[parent])
        child = scheduler.schedule(int, after_tasks=[old])
        new = scheduler.schedule(int, after(90), id="x", exists="update")
        assert (old.state, old.reason) == ("cancelled", Reason.REPLACED)
        assert (child.state, child.reason) == ("skipped", Reason.PARENT_CANCELLED)
        clock.advance(60)
        assert new.state == "pending"
        clock.advance(30)
        assert starts(new.runs()) == [90]


def test_BUG_032_nothing_is_logged_when_a_cancelled_task_of_a_real_pool_ends(caplog: pytest.LogCaptureFixture) -> None:
    """In life: an error in the log for each task that was cancelled in time."""
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(30)

    with caplog.at_level(logging.INFO), Scheduler(slots=1) as scheduler:
        task = scheduler.schedule(work, every(seconds=0.001), id="x")
        assert begun.wait(30)
        assert task.cancel() == "asked"
        go.set()
        assert task.wait(30)
        assert task.state == "cancelled"
    # That the real clock was ahead of a 1 ms interval may have been told: fires skipped are no error.
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
