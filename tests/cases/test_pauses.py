"""Paused is a flag of its own: whatever else is changed meanwhile, it holds until somebody resumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cases.kit import Ear, fires_skipped, inline, sound, starts
from tickless import EventKind, Reason, Scheduler, Task, after, at, cron, every
from tickless.instants import datetime_of
from tickless.testing import FakeClock

Change = Callable[[Scheduler, Task[Any]], object]
CHANGES: dict[str, Change] = {
    "reschedule": lambda scheduler, task: task.reschedule(every(seconds=5)),
    "reschedule to the wall": lambda scheduler, task: task.reschedule(cron("* * * * *")),
    "update": lambda scheduler, task: task.update(priority=3, work=float),
    "update of its policy": lambda scheduler, task: task.update(overlap="queue"),
    "schedule again": lambda scheduler, task: scheduler.schedule(int, every(seconds=5), id="x", exists="update"),
    "schedule the same again": lambda scheduler, task: scheduler.schedule(
        int, every(seconds=60), id="x", exists="update"
    ),
    "schedule to keep": lambda scheduler, task: scheduler.schedule(int, every(seconds=5), id="x", exists="keep"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("scope", ["task", "tag", "all"])
def test_BUG_025_edit_of_a_paused_task_leaves_it_paused(change: str, scope: str) -> None:
    """In life: "paused" is "has no next fire", so the edit that gives it one wakes it up, in the middle of a repair."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, every(seconds=60), id="x", tags=["repair"])
        scopes: dict[str, dict[str, Any]] = {"task": {"task": task}, "tag": {"tag": "repair"}, "all": {}}
        named = scopes[scope]
        assert scheduler.pause(**named, reason="repair") == 1
        if change.startswith("schedule") and scope == "tag":
            return  # the new one says which tags it bears, and it says none: see the test below
        CHANGES[change](scheduler, task)
        for _ in range(6):
            clock.advance(20)
            info = task.info
            assert (info.paused, info.pause_reason, info.state) == (True, "repair", "pending")
            assert info.reason is Reason.PAUSED
            assert info.next_fire is None
            sound(scheduler)
        assert starts(task.runs()) == []
        assert scheduler.resume(**named) == 1
        assert not task.info.paused
        clock.advance(60)
        assert len(starts(task.runs())) >= 1
        assert fires_skipped(task, Reason.PAUSED) >= 1
        assert min(second or 0 for second in starts(task.runs())) >= 120, "none of those that came meanwhile"
        sound(scheduler)


@pytest.mark.parametrize("when", [after(30), at(datetime_of(FakeClock().now() + 30_000_000))], ids=["after", "at"])  # type: ignore[arg-type]  # an instant
def test_BUG_025_one_shot_that_is_rescheduled_while_paused_waits_too(when: Any) -> None:
    """In life: the same, with a task that fires once."""
    with inline() as (scheduler, clock):
        task = scheduler.schedule(int, after(60))
        task.pause()
        task.reschedule(when)
        clock.advance(100)
        assert (task.state, task.info.paused) == ("pending", True)
        task.resume()
        clock.advance(0)
        assert starts(task.runs()) == [100]
        sound(scheduler)


def test_BUG_025_tag_holds_who_bears_it_and_lets_go_of_who_does_not_any_more() -> None:
    """In life: a task that lost its tag belongs to no group any more, so that no resume ever finds it."""
    ear = Ear()
    with inline(ear=ear) as (scheduler, clock):
        task = scheduler.schedule(int, every(seconds=10), tags=["a"])
        once = scheduler.schedule(int, after(15), tags=["a"])
        scheduler.pause(tag="a")
        clock.advance(20)
        for one in (task, once):
            one.update(tags=["b"])
            assert not one.info.paused
        clock.advance(10)
        assert starts(task.runs()) == [20, 30], "a fire at the very instant runs"
        assert fires_skipped(task, Reason.PAUSED) == 1
        assert once.state == "succeeded"
        sound(scheduler)
        task.update(tags=["b", "a"])
        assert task.info.paused
        sound(scheduler)
        clock.advance(30)
        assert len(starts(task.runs())) == 2
        again = scheduler.schedule(int, after(1), tags=["a"])
        assert again.info.paused
        assert scheduler.resume(tag="a") == 2
        clock.advance(10)
        assert len(starts(task.runs())) >= 3
        assert again.state == "succeeded"
        kinds = [event.kind for event in ear.events if event.task_id == task.id]
        assert (kinds.count(EventKind.PAUSED), kinds.count(EventKind.RESUMED)) == (2, 2)
        sound(scheduler)


def test_BUG_022_edit_by_the_verbs_touches_its_own_task_and_no_slot_of_another() -> None:
    """In life: the reload near the full minute swallows that minute's slots; or an edit is seen at the next restart."""
    with inline() as (scheduler, clock):
        a, b, c = (scheduler.schedule(int, every(seconds=span)) for span in (60, 60, 3600))
        clock.advance(59)
        a.update(priority=1)
        a.update(priority=1)
        clock.advance(1)
        assert (starts(a.runs()), starts(b.runs())) == ([60], [60])
        c.reschedule(every(seconds=60))
        b.pause()
        assert scheduler._store.machine.timeline.live == 2
        clock.advance(60)
        assert (starts(a.runs()), starts(b.runs()), starts(c.runs())) == ([60, 120], [60], [120])
        sound(scheduler)
