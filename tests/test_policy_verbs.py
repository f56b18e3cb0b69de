"""pause, resume, reschedule, update, run_now: whatever the task is doing, twice, and late."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.cases.kit import fires_skipped, seconds, sound, starts
from tests.policy_bench import (
    DOING,
    FAR,
    Bench,
    make,
)
from tickless import (
    Cancelled,
    DependencyError,
    EventKind,
    Reason,
    Retry,
    Run,
    ScheduleError,
    Scheduler,
    State,
    Task,
    after,
    at,
    every,
)
from tickless.instants import datetime_of
from tickless.testing import FakeClock, ManualPool

SCOPES: dict[str, Callable[[Task[Any]], dict[str, Any]]] = {
    "task": lambda task: {"task": task},
    "id": lambda task: {"task": task.id},
    "info": lambda task: {"task": task.info},
    "tag": lambda task: {"tag": "t"},
    "all": lambda task: {},
}


@pytest.mark.parametrize("doing", DOING)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_paused_task_does_nothing_until_it_is_resumed_whatever_it_was_doing(doing: str, scope: str) -> None:
    """One state that pause forgets is a task that mails its customers during the repair."""
    bench, task = make(doing)
    if scope == "tag":
        if (task.state is State.READY and task.info.recurring) or doing == "beating_retrying":
            return  # what is said of it now counts from its next run on
        task.update(tags=["t"])
    of = SCOPES[scope](task)
    count = bench.scheduler.pause(**of, reason="repair")
    assert count >= 1
    assert bench.scheduler.pause(**of, reason="again") == 0, "twice is once, with the newer reason"
    sound(bench.scheduler)
    begun = len(starts(task.runs()))
    bench.go(95)
    info = task.info
    assert (info.paused, info.pause_reason, info.state) == (True, "again", State.PENDING)
    assert len(starts(task.runs())) == begun
    assert not task.wait(0)
    assert bench.scheduler.resume(**of) == count
    assert bench.scheduler.resume(**of) == 0
    sound(bench.scheduler)
    bench.go(30)
    assert len(starts(task.runs())) > begun or task.runs()[-1].attempt == 2, "it goes on"
    assert (bench.kinds(task).count(EventKind.PAUSED), bench.kinds(task).count(EventKind.RESUMED)) == (1, 1)


@pytest.mark.parametrize("doing", DOING)
@pytest.mark.parametrize("catch_up", ["none", "latest", "all"])
def test_fires_that_came_during_a_pause_are_one_record_or_run_as_the_resume_says(doing: str, catch_up: Any) -> None:
    """Each fire is accounted for once: it ran, or a record counts it."""
    bench, task = make(doing)
    task.pause()
    bench.clock.advance(100)
    task.resume(catch_up=catch_up)
    bench.go(0)
    bench.go(1)
    named = [run for run in task.runs() if run.state.terminal]
    counted = sum(run.count for run in named)
    if not task.info.recurring:
        assert (len(named), fires_skipped(task, Reason.PAUSED)) == (1 if task.state.terminal else 0, 0)
        return
    now = (seconds(bench.clock.now()) or 0) - 1
    if doing not in ("queueing", "allowing", "beating_retrying"):
        assert counted == int(now) // 10, "no fire is lost, and none is counted twice"
    assert len({run.due_us for run in named}) == len(named)
    sound(bench.scheduler)


@pytest.mark.parametrize("doing", DOING)
def test_cancel_of_a_paused_task_is_final_and_a_resume_brings_nothing_back(doing: str) -> None:
    """P5; and the pause of a dead task holds nothing in memory."""
    bench, task = make(doing)
    task.pause(until=FAR)
    assert task.cancel() is Cancelled.CANCELLED
    assert (task.state, task.info.paused) == (State.CANCELLED, False)
    sound(bench.scheduler)
    assert not task.resume()
    assert not task.pause(until=FAR)
    assert EventKind.RESUMED not in bench.kinds(task)
    bench.go(100)
    assert task.state is State.CANCELLED
    assert bench.scheduler._store.machine.pause_ends == {}


@pytest.mark.parametrize("doing", DOING)
def test_run_now_starts_at_once_or_says_why_not(doing: str) -> None:
    """What a person who presses the button gets to see."""
    bench, task = make(doing)
    before = len(starts(task.runs()))
    if doing == "child":
        with pytest.raises(DependencyError, match="waits for 1 parents"):
            task.run_now()
        return
    run = task.run_now()
    assert isinstance(run, Run)
    assert run.task_id == task.id
    sound(bench.scheduler)
    if doing in ("beating_ready", "queueing"):
        assert (run.state, run.reason) == (State.SKIPPED, Reason.OVERLAP)
        return
    assert run.state is State.READY
    bench.pool.run_all()
    sound(bench.scheduler)
    if doing != "waiting_for_rate":
        assert len(starts(task.runs())) > before or task.runs()[0].attempt == 2
    assert task.run_now().state is State.READY if not task.state.terminal else True
    if task.state.terminal:
        with pytest.raises(ScheduleError, match="it has ended"):
            task.run_now()


@pytest.mark.parametrize("doing", DOING)
def test_a_paused_task_runs_when_it_is_told_to_and_stays_paused(doing: str) -> None:
    """The button is for the one who repairs it."""
    bench, task = make(doing)
    if doing in ("child", "queueing", "waiting_for_rate"):
        return
    task.pause()
    before = len(starts(task.runs()))
    run = task.run_now()
    assert run.state is State.READY
    bench.go(0)
    assert len(starts(task.runs())) == before + 1 or task.runs()[-1].attempt == 2
    if not task.state.terminal:
        assert task.info.paused
        bench.go(30)
        assert len(starts(task.runs())) == before + 1 or task.runs()[-1].attempt == 2


CHANGES: dict[str, dict[str, Any]] = {
    "work": {"work": int, "args": ()},
    "priority": {"priority": -5},
    "name": {"name": "other"},
    "tags": {"tags": ["t"]},
    "timeout": {"timeout": 3},
    "retry": {"retry": Retry(2, delay=1)},
    "no retry": {"retry": None},
    "limit": {"limit": "one"},
    "other limit": {"limit": "rate"},
    "no limit": {"limit": None},
    "grace": {"grace": 1000},
}


@pytest.mark.parametrize("doing", DOING)
@pytest.mark.parametrize("change", CHANGES)
def test_update_changes_a_task_whatever_it_is_doing_and_loses_nothing(doing: str, change: str) -> None:
    """A permit that is given back to the limit of another name is gone for ever."""
    bench, task = make(doing)
    for _ in range(2):
        assert bench.scheduler.update(task, **CHANGES[change]) == 1
        sound(bench.scheduler)
    bench.go(200)
    assert task.state.terminal is not task.info.recurring
    assert len(starts(task.runs())) >= 1
    task.cancel()
    assert {(limit.running, limit.waiting) for limit in bench.scheduler.limits().values()} == {(0, 0)}
    assert task.info.name in ("other", task.name)


@pytest.mark.parametrize("doing", DOING)
@pytest.mark.parametrize(
    "when", [after(20), at(datetime_of(FakeClock().now()) + timedelta(seconds=200)), every(seconds=7)]
)
def test_reschedule_gives_another_time_or_refuses_and_never_both(doing: str, when: Any) -> None:
    """A task that is said to have been moved, and is not, runs at the hour that was to be avoided."""
    bench, task = make(doing)
    now = seconds(bench.clock.now()) or 0
    begun = len(starts(task.runs()))
    try:
        assert bench.scheduler.reschedule(task, when) == 1
    except ScheduleError as error:
        assert doing in ("retrying", "ready_again", "queueing", "allowing"), error  # noqa: PT017 - some are refused
        assert task.id in str(error) or "overlap" in str(error)  # noqa: PT017
        sound(bench.scheduler)
        return
    sound(bench.scheduler)
    if doing in ("pending", "beating", "ready", "limited", "waiting_for_rate"):
        assert task.state is State.PENDING
        first = {after(20): now + 20, every(seconds=7): now + 7}.get(when, 200)
        assert seconds(task.info.next_fire_us) == first
        bench.go(first - now - 1)
        assert len(starts(task.runs())) == begun
    bench.go(250)
    assert len(starts(task.runs())) > begun
    assert task.state.terminal is not when.recurring
    if doing == "child" and not when.wall:
        assert starts(task.runs())[0] == {after(20): 25, every(seconds=7): 12}[when], "counted from its release"
    sound(bench.scheduler)


def test_an_update_of_what_is_ready_takes_its_new_place_by_priority() -> None:
    """Its old place in the queue is there still: found there, it would run before those that it was put behind."""
    bench = Bench()
    first = bench.note("first")
    for word in ("second", "third"):
        bench.note(word)
    first.update(priority=-1)
    sound(bench.scheduler)
    bench.go()
    assert bench.order == ["second", "third", "first"]


def test_what_was_asked_for_by_hand_and_got_another_time_may_be_too_late_for_that() -> None:
    """A run by hand is never too late. Once it is rescheduled it is none any more."""
    clock = FakeClock()
    scheduler = Scheduler(ManualPool(), clock=clock, observers=[])
    task = scheduler.schedule(print, after(3), grace=1)
    scheduler.start()
    task.run_now()
    task.reschedule(after(3))
    clock.advance(5)
    assert scheduler._store.take(clock.now()) is None
    assert (task.state, task.reason) == (State.SKIPPED, Reason.MISFIRE)
    scheduler.close()
