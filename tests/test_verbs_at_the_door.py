"""Policies and verbs from the user's side, through the scheduler: what the doors hand on, and what comes back.

Needs the store's verbs of issue 4 (pause, resume, settings, change, run_now, missed, pools, limits) and `Retry`.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World, fail, running_until_let_go
from tests.pools.executors import Held
from tests.test_drafts import work
from tickless import (
    Call,
    DependencyError,
    EventKind,
    Limit,
    Pool,
    Reason,
    Retry,
    ScheduleError,
    Scheduler,
    State,
    after,
    cron,
    current_run,
    every,
    simulate,
)
from tickless.testing import ManualPool


def at_second(world: World, second: float) -> datetime:
    return datetime.fromtimestamp(world.start_us / 1e6, UTC) + timedelta(seconds=second)


# The options that are values


def test_a_limit_is_known_by_its_name_and_two_of_one_name_are_refused() -> None:
    with pytest.raises(ScheduleError, match="two have the name 'db'"):
        Scheduler(limits=[Limit("db", running=1), Limit("db", running=2)])
    world = World(limits=[Limit("db", running=2), Limit("api", starts=5, per=1)])
    with pytest.raises(ScheduleError, match=r"limit='dv'.*there is 'db', 'api'"):
        world.scheduler.schedule(work, limit="dv")
    assert world.scheduler.schedule(lambda: 5, limit="db").result() == 5
    assert sorted(world.scheduler.limits()) == ["api", "db"]


def test_a_run_is_retried_and_each_attempt_knows_its_number() -> None:
    world = World()

    def body() -> None:
        seen = []
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(lambda: seen.append(current_run().attempt),))
        thread.start()
        thread.join(PATIENCE_S)
        world.story.append((world.elapsed_s, current_run().attempt, seen))
        if current_run().attempt < 3:
            raise OSError("gone")

    task = world.scheduler.schedule(body, retry=Retry(3, delay=2))
    assert (task.state, task.reason) == (State.PENDING, Reason.RETRY)
    world.clock.advance(10)
    assert world.story == [(0, 1, [1]), (2, 2, [2]), (6, 3, [3])]
    assert task.state is State.SUCCEEDED
    assert world.kinds(task.id).count(EventKind.RETRY) == 2


def test_the_log_of_a_second_attempt_says_so(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    def body() -> None:
        current_run().log.warning("trying")
        fail()

    world.scheduler.schedule(body, id="x", retry=Retry(2))
    world.clock.advance(10)
    assert [record.getMessage() for record in caplog.records if record.name == "tickless.run"] == [
        "x attempt 1: trying",
        "x attempt 2: trying",
    ]


# Timeouts wake the dispatcher, whoever takes the run


@pytest.mark.parametrize("pool", [None, "single"])
def test_a_timeout_rings_the_dispatcher_that_sleeps_without_an_end(pool: str | None) -> None:
    """In life: the run is taken while nothing else is due, and its deadline is noticed with the next task, tomorrow."""
    made: Any = None if pool is None else Pool(Held(), slots=1)
    with Scheduler(made, observers=[], slots=1) as scheduler:
        gate = threading.Event()
        task = scheduler.schedule(gate.wait, args=(PATIENCE_S,), timeout=0.02)
        try:
            assert task.wait(PATIENCE_S)
            assert (task.state, task.reason) == (State.FAILED, Reason.TIMED_OUT)
            with pytest.raises(TimeoutError):
                task.result()
        finally:
            gate.set()
            if made is not None:
                made.executor.run_next()


def test_a_zombie_still_knows_who_it_is_when_its_task_is_forgotten() -> None:
    """In life: what it logs and cleans up is under the id of a task that nobody lists any more."""
    facts: list[Any] = []
    begun, gate = threading.Event(), threading.Event()

    def body() -> None:
        flag = current_run().stop_requested
        begun.set()
        assert flag.wait(PATIENCE_S)
        assert gate.wait(PATIENCE_S)
        run = current_run()
        facts.append((run.task_id, run.attempt, bool(run.stop_requested), run.due is not None))

    with Scheduler(slots=1, observers=[], keep_finished=0) as scheduler:
        task = scheduler.schedule(body, id="x", timeout=0.05)
        assert begun.wait(PATIENCE_S)
        assert task.wait(PATIENCE_S)
        del task
        with pytest.raises(LookupError):
            while True:  # it is forgotten at the latest with the next that ends
                scheduler.get("x")
                scheduler.schedule(int, pool="default").cancel()
        gate.set()
        assert scheduler.schedule(lambda: 5).result(PATIENCE_S) == 5
    assert facts == [("x", 1, True, True)]


def test_a_simulated_run_that_takes_longer_than_its_timeout_has_failed_at_that_instant() -> None:
    def program(scheduler: Scheduler) -> None:
        scheduler.schedule(work, id="slow", timeout=5)
        scheduler.schedule(work, after(1), id="quick", timeout=5)

    trace = simulate(program, durations={"slow": 60.0, "quick": 2.0}, slots=2)
    ends = {
        event.task_id: (event.kind, event.reason)
        for event in trace.events
        if event.kind.value in ("failed", "succeeded")
    }
    assert ends == {"slow": (EventKind.FAILED, Reason.TIMED_OUT), "quick": (EventKind.SUCCEEDED, None)}


# reschedule and update


def test_a_rescheduled_task_fires_by_its_new_rule_and_says_how_many_there_were() -> None:
    world = World()
    task = world.scheduler.schedule(world.timed("a"), every(seconds=10), id="a", tags=["t"])
    other = world.scheduler.schedule(world.timed("b"), after(3), tags=["t"])
    world.clock.advance(1)
    task.reschedule(every(seconds=2))
    assert task.next_fire == at_second(world, 3)
    assert world.scheduler.reschedule(when=after(4), tag="t") == 2
    world.clock.advance(10)
    assert world.story == [("a", 5), ("b", 5)]
    assert (task.state, other.state) == (State.SUCCEEDED, State.SUCCEEDED)
    for ended in (lambda: task.reschedule(after(1)), lambda: world.scheduler.update("a", priority=1)):
        with pytest.raises(ScheduleError, match="'a' has ended"):
            ended()
    assert world.scheduler.reschedule(tag="t", when=after(1)) == 0


def test_several_are_checked_before_the_first_is_changed() -> None:
    world = World()
    first = world.scheduler.schedule(work, every(seconds=10), tags=["t"])
    world.scheduler.schedule(work, every(seconds=10), overlap="queue", tags=["t"])
    before = first.next_fire
    with pytest.raises(ScheduleError, match=r'overlap="queue".*fires once'):
        world.scheduler.reschedule(when=after(1), tag="t")
    assert first.next_fire == before


def test_a_parent_cannot_become_recurring() -> None:
    world = World()
    parent = world.scheduler.schedule(work, after(5))
    world.scheduler.schedule(work, after_tasks=[parent])
    with pytest.raises(DependencyError):
        parent.reschedule(every(seconds=1))
    with pytest.raises(DependencyError):
        world.scheduler.reschedule(when=every(seconds=1))


def test_a_child_that_waits_takes_its_new_rule_from_when_the_parent_lets_go() -> None:
    world = World()
    parent = world.scheduler.schedule(work, after(5))
    child = world.scheduler.schedule(world.timed("child"), after_tasks=[parent])
    child.reschedule(after(3))
    world.clock.advance(20)
    assert world.story == [("child", 8)]


def test_an_update_counts_from_the_next_run_and_leaves_the_next_fire() -> None:
    world = World()
    task = world.scheduler.schedule(world.note("old"), every(seconds=10), id="a")
    world.clock.advance(15)
    task.update(work=world.note("new"), name="other", tags=["t"], timeout=5)
    assert task.next_fire == at_second(world, 20)
    assert (task.info.name, task.info.tags) == ("other", ("t",))
    world.clock.advance(5)
    assert world.story == ["old", "new"]
    assert world.scheduler.update(tag="t", priority=4) == 1
    assert task.info.priority == 4
    assert world.scheduler.update(priority=5) == 1


# pause and resume


def test_pauses_by_task_by_tag_and_of_all_say_how_many_they_hold() -> None:
    world = World()
    one = world.scheduler.schedule(world.note("one"), after(1), tags=["t"])
    other = world.scheduler.schedule(world.note("other"), after(1), tags=["t", "u"])
    third = world.scheduler.schedule(world.note("third"), after(1))
    assert one.pause(reason="audit")
    assert not one.pause()
    assert (one.info.paused, other.info.paused) == (True, False)
    assert world.scheduler.pause(tag="t", until=at_second(world, 60)) == 1
    assert world.scheduler.pause() == 1
    world.clock.advance(5)
    assert world.story == []
    assert world.scheduler.resume() == 1
    assert world.story == ["third"]
    assert third.state is State.SUCCEEDED
    assert world.scheduler.resume(tag="t") == 1
    assert one.resume()
    assert world.story == ["third", "other", "one"]


def test_a_pause_until_an_instant_ends_by_itself() -> None:
    world = World()
    task = world.scheduler.schedule(world.timed("beat"), every(seconds=10))
    task.pause(until=at_second(world, 25), reason="migration")
    assert (task.info.pause_reason, task.info.paused_until_us) == ("migration", world.start_us + 25_000_000)
    world.clock.advance(40)
    assert world.story == [("beat", 30), ("beat", 40)]


def test_what_was_missed_in_a_pause_is_counted_at_each_look_and_runs_if_asked_for() -> None:
    world = World()
    task = world.scheduler.schedule(world.timed("beat"), every(seconds=10))
    daily = world.scheduler.schedule(work, cron("* * * * *"))
    assert (task.skipped_now, daily.skipped_now) == (0, 0)
    world.scheduler.pause()
    world.clock.advance(35)
    assert task.skipped_now == 3
    world.clock.advance(100)
    assert (task.skipped_now, daily.skipped_now) == (13, 2)
    world.scheduler.resume(catch_up="latest")
    assert [what for what, _ in world.story] == ["beat"]
    assert task.skipped_now == 0


def test_what_comes_while_a_run_goes_on_is_counted_at_each_look() -> None:
    pool = ManualPool()
    world = World(pool)
    task = world.scheduler.schedule(work, every(seconds=10))
    world.clock.advance(10)
    assert task.skipped_now == 0
    world.clock.advance(25)
    assert task.skipped_now == 2
    pool.run_all()
    assert task.skipped_now == 0


# run_now


def test_run_now_gives_the_run_or_for_several_a_list() -> None:
    world = World()
    once = world.scheduler.schedule(world.note("once"), after(100), id="once", tags=["t"])
    beat = world.scheduler.schedule(world.note("beat"), every(seconds=10), id="beat", tags=["t"])
    child = world.scheduler.schedule(work, after_tasks=[world.scheduler.schedule(work, after(9))], tags=["t"])
    run = beat.run_now()
    assert (run.task_id, run.due_us) == ("beat", world.clock.now())
    assert world.story == ["beat"]
    with pytest.raises(DependencyError):
        child.run_now()
    runs = world.scheduler.run_now(tag="t")
    assert [run.task_id for run in runs] == ["once", "beat"]
    assert world.story == ["beat", "once", "beat"]
    assert once.state is State.SUCCEEDED
    assert beat.next_fire == at_second(world, 10)
    with pytest.raises(ScheduleError):
        once.run_now()
    assert [run.task_id for run in world.scheduler.run_now()] == [
        "beat",
        *[task.id for task in world.scheduler.tasks() if task.name == "work" and not task.parents],
    ]


# Everybody may call


VERBS: list[Callable[[Scheduler, Any], Any]] = [
    lambda scheduler, task: task.pause(),
    lambda scheduler, task: task.resume(),
    lambda scheduler, task: task.run_now(),
    lambda scheduler, task: task.update(priority=3),
    lambda scheduler, task: task.reschedule(every(seconds=5)),
    lambda scheduler, task: task.skipped_now,
    lambda scheduler, task: scheduler.pools(),
    lambda scheduler, task: scheduler.limits(),
]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_may_be_called_by_the_task_itself_while_it_runs(verb: Callable[[Scheduler, Any], Any]) -> None:
    """No lock is held while it runs."""
    with Scheduler(slots=1, observers=[]) as scheduler, running_until_let_go(scheduler) as (_, gate):
        done = threading.Event()
        tasks: list[Any] = []

        def body() -> None:
            verb(scheduler, tasks[0])
            done.set()

        tasks.append(scheduler.schedule(body, every(seconds=1)))
        tasks[0].run_now()
        gate.set()
        assert done.wait(PATIENCE_S)


def test_the_counts_of_a_pool() -> None:
    pool = ManualPool(2)
    world = World(pool)
    world.scheduler.schedule_many([Call(work) for _ in range(5)])
    info = world.scheduler.pools()["default"]
    assert (info.name, info.slots, info.ready, info.running, info.zombies) == ("default", 2, 5, 0, 0)
    assert world.scheduler.limits() == {}
