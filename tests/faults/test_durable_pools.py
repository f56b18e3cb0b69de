"""BUG-042 on a store: a pool that takes nothing any more burns no fire; what is due waits for one that works."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.faults.test_pool_faults import Undrained, is_rejected
from tests.faults.test_store_outages import Faults
from tests.faults.world import PATIENCE_S
from tests.observe.observers import Caller, Keeper
from tests.pools.executors import Refusing
from tests.stores.sql.house import House, note, told
from tickless import EventKind, Pool, Reason, Scheduler, State, after, every
from tickless.stores.sql.checking import check
from tickless.testing import InlinePool, ManualPool

KINDS: dict[str, Callable[[Executor], Executor | Pool]] = {
    "drained": lambda executor: executor,
    "one by one": lambda executor: Pool(Undrained(executor), slots=2),  # type: ignore[arg-type]  # any will do
}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def said_of_pools(house: House) -> list[str]:
    return [event.error for event in house.ear.of(EventKind.TROUBLE) if event.error and "pool" in event.error]


def whole(scheduler: Scheduler) -> None:
    check(scheduler._store)  # type: ignore[arg-type]  # it is the durable one


def kill_the_worker() -> None:
    os._exit(1)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_due_waits_for_a_start_with_a_pool_that_works(house: House, kind: str) -> None:
    """In life: the program's owner shuts its pool down, and by the morning every job of the night has failed."""
    pool = InlinePool()
    with house.start(pool=KINDS[kind](pool)) as scheduler:
        scheduler.schedule(note, args=("before",))
        pool.shutdown()
        once = scheduler.schedule(note, args=("once",), id="once")
        later = scheduler.schedule(note, after(30), args=("later",), id="later")
        beat = scheduler.schedule(note, every(seconds=10), args=("beat",), id="beat")
        house.clock.advance(60)
        assert [task.state for task in (once, later, beat)] == [State.READY] * 3
        assert [run.state for run in beat.runs()] == [State.READY]
        (line,) = said_of_pools(house)
        assert "wait in the store" in line
        assert "shutdown" in (scheduler.pools()["default"].down or "")
        whole(scheduler)
    assert told == ["before"]
    with house.start(lambda scheduler: scheduler.schedule(note, every(seconds=10), args=("beat",), id="beat")) as again:
        house.clock.advance(10)
        assert (again.get("once").state, again.get("later").state) == (State.SUCCEEDED, State.SUCCEEDED)
        assert (told.count("once"), told.count("later")) == (1, 1)
        assert not [run for run in again.runs("beat") if run.state is State.FAILED]
        assert again.pools()["default"].down is None
        whole(again)


def test_another_scheduler_of_the_file_runs_what_one_without_a_pool_cannot(house: House) -> None:
    """And is told of it at once: both turn while nobody else rings."""
    pool = InlinePool()
    pool.shutdown()
    with house.start(pool=pool) as broken:
        broken.schedule(note, every(seconds=10), args=("beat",), id="beat")
        house.clock.advance(10)
        assert told == []
        with house.start():
            house.clock.advance(30)
            assert told == ["beat"] * 4
            assert [run.state for run in broken.runs("beat")] == [State.SUCCEEDED] * 4
            whole(broken)


def test_the_other_pools_of_the_scheduler_go_on(house: House) -> None:
    gone = ManualPool()
    gone.shutdown()
    with house.start(pool=None, pools={"default": InlinePool(), "gone": gone}) as scheduler:
        waits = scheduler.schedule(note, args=("gone",), pool="gone")
        goes = scheduler.schedule(note, every(seconds=10), args=("goes",))
        house.clock.advance(20)
        assert (waits.state, goes.state, told) == (State.READY, State.PENDING, ["goes", "goes"])
        assert {name: pool.down is None for name, pool in scheduler.pools().items()} == {"default": True, "gone": False}
        waits.cancel()
        assert waits.state is State.CANCELLED


@pytest.mark.parametrize("kind", KINDS)
def test_the_give_back_may_meet_a_store_that_does_not_answer(house: House, kind: str) -> None:
    """Whichever call fails, the run is nobody's in the end, and waits."""
    n = 0
    while True:
        n += 1
        folder = house.path.parent / str(n)
        folder.mkdir()
        one = House(folder)
        pool = InlinePool()
        scheduler = one.make(pool=KINDS[kind](pool))
        scheduler.schedule(note, after(10), args=("x",), id="x")
        scheduler.start()
        pool.shutdown()
        faults = Faults(scheduler, n, 3)
        one.clock.advance(130)
        met = faults.met
        faults._n = 1 << 60
        assert scheduler.get("x").state is State.READY, f"the {n}th call failed"
        whole(scheduler)
        scheduler.close()
        with one.start() as again:
            one.clock.advance(120)
            assert (again.get("x").state, told) == (State.SUCCEEDED, ["x"])
        if not met:
            assert n > 5, "there are calls to fail"
            return


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_that_says_nothing_of_the_next_one_fails_its_run(house: House, kind: str) -> None:
    """No thread could be had, a bounded queue was full: that is one failed run, and the next one goes."""
    with (
        Refusing(2, lambda n: RuntimeError("can't start new thread") if n == 1 else None) as pool,
        Scheduler(KINDS[kind](pool), store=house.url, observers=[house.ear]) as scheduler,
    ):
        is_rejected(scheduler.schedule(note))
        assert scheduler.schedule(note, args=(5,)).wait(PATIENCE_S)
        assert scheduler.pools()["default"].down is None
    assert said_of_pools(house) == []


def test_a_process_pool_whose_worker_dies_costs_the_run_that_killed_it_and_no_other(house: House) -> None:
    """In life: the kernel kills a worker that takes too much memory; its executor takes nothing from then on."""
    heard = threading.Event()
    ear = Caller(lambda events: heard.set(), [EventKind.TROUBLE])
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
        Scheduler(Pool(pool, slots=1), store=house.url, observers=[ear]) as scheduler,
    ):
        killer = scheduler.schedule(kill_the_worker)
        waits = scheduler.schedule(note, args=("once",), id="waits")
        is_rejected(killer)
        assert heard.wait(PATIENCE_S)
        assert waits.state is State.READY
        assert "BrokenProcessPool" in (scheduler.pools()["default"].down or "")
        whole(scheduler)
    with Scheduler(InlinePool(), store=house.url, observers=[]) as scheduler:
        assert scheduler.wait(PATIENCE_S)
        assert (scheduler.get("waits").state, told) == (State.SUCCEEDED, ["once"])


def test_in_memory_each_run_fails_and_the_pool_is_said_to_be_down_once() -> None:
    """Nothing lasts there, so that nobody would ever run them."""
    pool, keeper = ThreadPoolExecutor(1), Keeper([EventKind.TROUBLE])
    pool.shutdown()
    with Scheduler(pool, observers=[keeper]) as scheduler:
        tasks = [scheduler.schedule(note) for _ in range(5)]
        for task in tasks:
            is_rejected(task)
        assert "shutdown" in (scheduler.pools()["default"].down or "")
    lines = [event.error or "" for event in keeper.events]
    assert len(lines) == 1
    assert lines[0].startswith("pool default: takes nothing any more (RuntimeError: ")
    assert lines[0].endswith(": its runs fail")
    assert {task.reason for task in tasks} == {Reason.REJECTED}


def test_a_pool_that_is_down_costs_no_turns(house: House) -> None:
    """No hot retry: an hour with a run that waits is an hour without a statement."""
    pool = InlinePool()
    pool.shutdown()
    with house.start(pool=pool) as scheduler:
        scheduler.schedule(note, args=("x",))
        house.clock.advance(1)
        faults = Faults(scheduler, 1 << 60)
        house.clock.advance(3_600)
        assert faults.calls == 0
