"""The verbs about a tag and about all; pauses that end by themselves; and verbs from inside of a run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.cases.kit import dues, fires_skipped, seconds, sound, starts
from tests.policy_bench import FAR, TICK, Bench
from tickless import (
    EventKind,
    Reason,
    ScheduleError,
    State,
    UnknownTask,
    after,
    current_run,
    every,
)
from tickless.instants import datetime_of

# Of several


def test_a_verb_of_a_tag_is_about_those_that_bear_it_and_a_verb_of_nothing_about_all() -> None:
    bench = Bench()
    scheduler = bench.scheduler
    a, b, c = (bench.note(word, TICK, tags=tags) for word, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", [])))
    ended = bench.note("ended", tags=["x"])
    bench.pool.run_all()
    assert ended.state is State.SUCCEEDED
    assert scheduler.update(tag="x", priority=7) == 2
    assert [task.info.priority for task in (a, b, c)] == [7, 7, 0]
    assert scheduler.reschedule(tag="y", when=every(seconds=3)) == 1
    assert seconds(b.info.next_fire_us) == 3
    assert [run.task_id for run in scheduler.run_now(tag="x")] == [a.id, b.id]
    assert {run.state for run in scheduler.run_now()} == {State.READY, State.SKIPPED}
    assert scheduler.pause(tag="x") == 2
    assert scheduler.pause() == 1, "two are paused already"
    assert scheduler.resume(tag="x") == 0, "all are paused still"
    assert scheduler.resume() == 3
    assert scheduler.pause(tag="nobody bears this") == 0
    assert scheduler.run_now(tag="nobody bears this") == []
    for verb in (scheduler.pause, scheduler.resume, scheduler.run_now):
        with pytest.raises(ScheduleError, match="not both"):
            verb(a, tag="x")  # type: ignore[call-overload]  # that is what is refused
        with pytest.raises(UnknownTask):
            verb("nobody")
    sound(scheduler)


def test_the_pauses_of_a_task_of_its_tags_and_of_all_are_three_and_each_is_ended_by_its_own_resume() -> None:
    """The night watch pauses all, and must not by its resume start what somebody paused for a reason of their own."""
    bench = Bench()
    scheduler = bench.scheduler
    task = bench.note("x", TICK, tags=["a", "b"])
    assert [scheduler.pause(task), scheduler.pause(tag="a"), scheduler.pause(tag="b"), scheduler.pause()] == [
        1,
        0,
        0,
        0,
    ]
    assert [scheduler.resume(), scheduler.resume(tag="b"), scheduler.resume(task)] == [0, 0, 0]
    assert task.info.paused
    bench.go(20)
    assert scheduler.resume(tag="a") == 1
    bench.go()
    bench.go(10)
    assert starts(task.runs()) == [20, 30]
    assert bench.kinds(task).count(EventKind.PAUSED) == bench.kinds(task).count(EventKind.RESUMED) == 1


def test_new_tasks_with_a_paused_tag_are_paused_from_the_start() -> None:
    bench = Bench()
    scheduler = bench.scheduler
    scheduler.pause(tag="mail", reason="server is down")
    now, once, beat = (bench.note(n, when, tags=["mail"]) for n, when in enumerate((None, after(5), TICK)))
    many = scheduler.schedule_many([])
    other = bench.note("other")
    born = scheduler.schedule(int, after_tasks=[other], tags=["mail"])
    bench.go(30)
    assert many == []
    assert bench.order == ["other"]
    for task in (now, once, beat, born):
        assert (task.info.paused, task.info.pause_reason, task.state) == (True, "server is down", State.PENDING)
    scheduler.resume(tag="mail")
    bench.go()
    assert bench.order[1:] == [0, 1, 2], "in order; and the fire at this very instant runs"
    assert born.state is State.SUCCEEDED


def test_what_was_held_goes_on_in_the_order_in_which_it_was_due() -> None:
    """By priority, then by readiness, as if nobody had come in between."""
    bench = Bench()
    for word in "abc":
        bench.note(word)
    for number in (3, 2, 1):
        bench.note(number, after(number))
    bench.note("high", priority=1)
    bench.scheduler.pause()
    bench.clock.advance(10)
    bench.scheduler.resume()
    bench.go()
    assert bench.order == ["high", "a", "b", "c", 1, 2, 3]


# Until


def test_a_pause_with_an_end_ends_by_itself_on_the_wall_clock() -> None:
    bench = Bench()
    clock = bench.clock
    task = bench.note("x", TICK)
    end = datetime_of(clock.wall()) + timedelta(seconds=35)
    assert task.pause(reason="lunch", until=end)
    assert task.info.paused_until_us is not None
    assert datetime_of(task.info.paused_until_us) == end
    bench.go(34)
    assert task.info.paused
    clock.step_wall(1)
    assert not task.info.paused, "the wall clock says that it is time"
    bench.go(26)
    assert starts(task.runs()) == [40, 50, 60]
    assert fires_skipped(task, Reason.PAUSED) == 3
    assert bench.kinds(task).count(EventKind.RESUMED) == 1


def test_a_second_pause_takes_the_place_of_the_first_with_its_end() -> None:
    bench = Bench()
    task = bench.note("x", TICK)
    start = datetime_of(bench.clock.wall())
    task.pause(until=start + timedelta(seconds=15))
    task.pause(until=start + timedelta(seconds=45))
    bench.go(40)
    assert task.info.paused
    task.pause()
    bench.go(20)
    assert (task.info.paused, task.info.paused_until_us) == (True, None)
    task.resume()
    for past in (start, start + timedelta(seconds=60)):
        with pytest.raises(ScheduleError, match="has been"):
            task.pause(until=past)
    assert not task.info.paused
    for _ in range(300):
        task.pause(until=FAR)
        task.resume()
    sound(bench.scheduler)
    assert bench.scheduler._store.machine.pause_ends == {}


@pytest.mark.parametrize("scope", ["tag", "all"])
def test_the_end_of_a_group_pause_lets_go_of_those_that_came_later_too(scope: str) -> None:
    bench = Bench()
    of: dict[str, Any] = {"tag": "t"} if scope == "tag" else {}
    bench.scheduler.pause(**of, until=datetime_of(bench.clock.wall()) + timedelta(seconds=20))
    task = bench.note("x", tags=["t"])
    bench.go(19)
    assert bench.order == []
    bench.go(1)
    assert (bench.order, task.state) == (["x"], State.SUCCEEDED)


# From inside, and twice


def test_verbs_on_a_run_that_goes_on_count_from_its_end() -> None:
    bench = Bench()

    def body() -> None:
        run = current_run()
        task.reschedule(every(seconds=100))
        task.update(args=(), name="later")
        task.reschedule(every(seconds=4))
        assert task.info.name == "body"
        assert task.state is State.RUNNING
        assert run.attempt == 1
        bench.clock.advance(1)

    task = bench.scheduler.schedule(body, TICK)
    bench.clock.advance(10)
    bench.pool.run_all()
    assert (task.info.name, seconds(task.info.next_fire_us)) == ("later", 14)
    sound(bench.scheduler)


@pytest.mark.parametrize("verb", ["update", "reschedule", "both"])
def test_max_runs_counts_the_run_in_which_a_task_changes_itself(verb: str) -> None:
    """In life: "three times at most" that changes its priority each time runs for ever."""
    bench = Bench()

    def body() -> None:
        bench.order.append(1)
        if verb != "reschedule":
            task.update(priority=len(bench.order))
        if verb != "update":
            task.reschedule(every(seconds=5))

    task = bench.scheduler.schedule(body, TICK, max_runs=3)
    bench.go(100)
    assert len(bench.order) == 3
    assert (task.state, task.reason) == (State.SUCCEEDED, Reason.MAX_RUNS)


def test_a_fire_that_is_too_late_when_a_worker_comes_does_not_count_as_a_run() -> None:
    """max_runs is about runs: a skip is none, wherever it was found."""
    bench = Bench()
    task = bench.note("x", TICK, max_runs=1, grace=2)
    bench.clock.advance(13)
    bench.go(10)
    assert [run.reason for run in task.runs()] == [Reason.MISFIRE, Reason.MAX_RUNS] or bench.order == ["x"]
    assert (bench.order, task.state) == (["x"], State.SUCCEEDED)


def test_a_task_that_is_rescheduled_to_fire_once_while_its_zombie_goes_on_fires_once() -> None:
    """The one that returns late finds a task without a rule."""
    bench = Bench()

    def body() -> None:
        if not bench.order:
            bench.order.append("first")
            bench.clock.advance(5)
            task.reschedule(after(100))
            bench.clock.advance(5)
        else:
            bench.order.append(seconds(bench.clock.now()))

    task = bench.scheduler.schedule(body, TICK, timeout=2)
    bench.clock.advance(10)
    bench.pool.run_all()
    sound(bench.scheduler)
    bench.go(150)
    assert bench.order == ["first", 115]
    assert task.state is State.SUCCEEDED


def test_a_run_by_hand_takes_no_fire_away_that_jitter_has_put_off() -> None:
    """The schedule stays: what had come and was put off comes, or is skipped with a record."""
    bench = Bench()
    task = bench.note("x", every(seconds=60), jitter=50, id="j1")
    bench.clock.advance(60.001)
    assert task.state is State.PENDING
    assert seconds(task.info.next_fire_us) == 60
    task.run_now()
    bench.go(59)
    assert dues(task.runs()) == [60.001, 60]


def test_a_run_by_hand_leaves_the_schedule_as_it_is() -> None:
    bench = Bench()
    task = bench.note("x", TICK)
    bench.go(4)
    assert task.run_now().due_us == bench.clock.now()
    bench.go(16)
    assert dues(task.runs()) == [4, 10, 20]


def test_an_ended_task_refuses_what_would_change_it_and_is_not_touched_by_a_group() -> None:
    bench = Bench()
    task = bench.note("x", tags=["t"])
    bench.go()
    info, runs = task.info, task.runs()
    for act in (task.run_now, lambda: task.update(priority=1), lambda: task.reschedule(TICK)):
        with pytest.raises(ScheduleError, match="has ended"):
            act()
    scheduler = bench.scheduler
    assert not task.pause(until=FAR)
    assert not task.resume()
    assert [scheduler.pause(tag="t"), scheduler.update(tag="t", priority=1), scheduler.resume(tag="t")] == [0, 0, 0]
    assert (task.info, task.runs(), task.skipped_now) == (info, runs, 0)
    sound(scheduler)


def test_a_crowd_that_goes_on_is_not_turned_into_a_task_that_fires_once() -> None:
    """Such a task would end with its one run, while others of it go on."""
    bench = Bench(3)

    def body() -> None:
        task.update(overlap="skip")
        with pytest.raises(ScheduleError, match="runs of it go on"):
            task.reschedule(after(5))
        new = bench.note("once", after(1), id="x", exists="update")
        assert new is not task
        bench.clock.advance(2)
        bench.pool.run_next()
        assert (new.state, task.state) == (State.SUCCEEDED, State.RUNNING)
        bench.scheduler.close(timeout=0)

    task = bench.scheduler.schedule(body, TICK, overlap="allow", id="x")
    bench.clock.advance(10)
    bench.pool.run_all()
    sound(bench.scheduler)
    assert bench.order == ["once"]
    assert (task.state, task.reason) == (State.CANCELLED, Reason.REPLACED), "the first reason counts"
