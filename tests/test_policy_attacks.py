"""What an attack with fresh eyes found: each is a program of a few lines that once went wrong."""

from __future__ import annotations

import pytest

from tests.cases.kit import sound
from tickless import DependencyError, Limit, Retry, ScheduleError, Scheduler, UnknownTask, after, every
from tickless.records import SUCCESS
from tickless.testing import FakeClock, InlinePool, ManualPool


def world(*, limits: list[Limit] | None = None) -> tuple[FakeClock, ManualPool, Scheduler]:
    clock, pool = FakeClock(), ManualPool(slots=4)
    scheduler = Scheduler(pool, clock=clock, observers=[], limits=limits or [])
    scheduler.start()
    return clock, pool, scheduler


def test_a_task_that_is_changed_to_skip_lives_on() -> None:
    """Its own record was taken for a run, and it never fired again."""
    clock, pool, scheduler = world()
    task = scheduler.schedule(int, every(minutes=1), overlap="allow")
    clock.advance(60)
    task.update(overlap="skip")
    clock.advance(60)
    pool.run_all()
    sound(scheduler)
    clock.advance(60)
    pool.run_all()
    sound(scheduler)
    assert [(run.state, run.reason, run.count) for run in task.runs()] == [
        ("skipped", "overlap", 1),
        ("succeeded", None, 1),
        ("succeeded", None, 1),
    ]


def test_a_task_that_was_changed_to_skip_never_runs_beside_itself() -> None:
    clock, pool, scheduler = world()
    at_once: list[int] = []
    live = [0]

    def body() -> None:
        live[0] += 1
        at_once.append(live[0])
        if live[0] == 1:
            task.run_now()
            pool.run_next()
        live[0] -= 1

    task = scheduler.schedule(body, every(minutes=1), overlap="allow")
    clock.advance(60)
    pool.run_all()
    task.update(overlap="skip")
    at_once.clear()
    clock.advance(60)
    pool.run_all()
    assert at_once == [1]


def test_a_released_zombie_lets_go_of_nothing_that_another_holds() -> None:
    """Its return freed the task, though a zombie that keeps it busy went on."""
    clock, _, scheduler = world()
    task = scheduler.schedule(int, every(seconds=10), timeout=1, on_timeout="release", overlap="queue")
    store = scheduler._store
    clock.advance(10)
    released = store.take(clock.now())
    clock.advance(1)
    task.update(on_timeout="keep")
    clock.advance(9)
    kept = store.take(clock.now())
    assert released is not None
    assert kept is not None
    clock.advance(1)
    store.finish(released, SUCCESS, clock.now())
    clock.advance(20)
    assert store.take(clock.now()) is None
    store.finish(kept, SUCCESS, clock.now())
    assert store.take(clock.now()) is not None
    sound(scheduler)


def test_a_group_is_changed_as_a_whole_or_not_at_all() -> None:
    _, _, scheduler = world()
    first, second = (scheduler.schedule(int, after(60), tags=["g"]) for _ in range(2))
    scheduler.schedule(int, after_tasks=[second])
    with pytest.raises(DependencyError):
        scheduler.reschedule(tag="g", when=every(minutes=5))
    assert not first.info.recurring


def test_what_is_replaced_again_and_again_has_its_turn() -> None:
    """Each newer fire stood at the end of the limit's queue."""
    clock, pool, scheduler = world(limits=[Limit("api", starts=1, per=25)])
    often = scheduler.schedule(int, every(minutes=1), overlap="replace", limit="api")
    for _ in range(3):
        scheduler.schedule(int, every(seconds=75), limit="api", overlap="queue")
    for _ in range(360):
        clock.advance(5)
        pool.run_all()
    assert sum(run.state == "succeeded" for run in often.runs()) > 5


def test_more_room_counts_at_once() -> None:
    """A hung run blocked a task for ever, whatever was allowed it."""
    clock, _, scheduler = world()
    task = scheduler.schedule(int, every(minutes=1), overlap="allow", max_running=1)
    clock.advance(60)
    task.update(max_running=5)
    clock.advance(180)
    assert (sum(run.state == "ready" for run in task.runs()), task.skipped_now) == (4, 0)


def test_a_tag_counts_at_once() -> None:
    clock, pool, scheduler = world()
    task = scheduler.schedule(int, every(minutes=1))
    clock.advance(60)
    task.update(tags=["n"])
    assert (scheduler.pause(tag="n"), task.state, task.info.tags) == (1, "pending", ("n",))
    pool.run_all()
    assert task.runs()[-1].state == "pending"


def test_numbers_beyond_all_reason_are_refused_where_they_are_said() -> None:
    with pytest.raises(ScheduleError, match="at most"):
        Limit("x", starts=10**30, per=1)


def test_a_task_that_is_none_is_not_all_of_them() -> None:
    """`run_now(by_name.get("a typo"))` ran everything."""
    _, _, scheduler = world()
    task = scheduler.schedule(int, after(60))
    with pytest.raises(UnknownTask):
        scheduler.run_now(None)  # type: ignore[call-overload, arg-type, unused-ignore]
    assert task.state == "pending"


def test_a_run_that_is_tried_for_ever_stays_flat() -> None:
    clock = FakeClock()
    scheduler = Scheduler(InlinePool(), clock=clock, observers=[])
    scheduler.start()

    def broken() -> None:
        raise OSError

    task = scheduler.schedule(broken, retry=Retry(1_000_000, delay=1, factor=1))
    clock.advance(500)
    info = task.last_run
    assert info is not None
    assert (info.attempt, len(info.attempts), info.attempts[-1].number) == (502, 100, 501)


def test_the_last_word_counts_while_a_zombie_goes_on() -> None:
    """What was said before the timeout came back when the zombie did."""
    clock, _, scheduler = world()
    task = scheduler.schedule(int, every(seconds=2), timeout=1)
    task.run_now()
    run = scheduler._store.take(clock.now())
    assert run is not None
    task.reschedule(every(seconds=5))
    clock.advance(1)
    task.reschedule(every(seconds=30))
    begun = clock.now()
    scheduler._store.finish(run, SUCCESS, clock.now())
    sound(scheduler)
    assert task.info.next_fire_us == begun + 30_000_000
