"""Thread pools are drained: a few submits, each of which takes ready runs until none is left, or it is others' turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.clocks import CountingClock
from tests.faults.world import PATIENCE_S, our_threads
from tickless import Pool, Scheduler, State, Task


class Counting(ThreadPoolExecutor):
    """Counts submits."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.submits = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submits += 1
        return super().submit(fn, *args, **kwargs)


def nothing() -> None: ...


def test_a_thousand_ready_runs_cost_a_handful_of_submits() -> None:
    """A submit costs as much as seven runs. The clock stands still, so only the 256 runs of a stay count."""
    with Counting(2) as pool:
        scheduler = Scheduler(pool, clock=CountingClock(), observers=[])
        tasks = [scheduler.schedule(nothing) for _ in range(1_000)]
        with scheduler:
            assert scheduler.wait(PATIENCE_S)
        assert {task.state for task in tasks} == {State.SUCCEEDED}
        assert pool.submits <= 2 + 1_000 // 256 + 2


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_at_most_slots_runs_go_on_at_once_and_that_many_do(slots: int) -> None:
    """Fewer slots than workers: the rest of the pool is for others."""
    entered, gate = threading.Semaphore(0), threading.Event()
    lock, now, most = threading.Lock(), 0, 0

    def body() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        entered.release()
        assert gate.wait(PATIENCE_S)
        with lock:
            now -= 1

    with Counting(5) as pool, Scheduler(Pool(pool, slots=slots), observers=[]) as scheduler:
        tasks = [scheduler.schedule(body) for _ in range(20)]
        for _ in range(slots):
            assert entered.acquire(timeout=PATIENCE_S)
        assert pool.submits == slots
        states = [task.state for task in tasks]
        assert states.count(State.RUNNING) == slots
        assert states.count(State.READY) == 20 - slots
        gate.set()
        assert scheduler.wait(PATIENCE_S)
    assert most == slots


def test_a_stay_ends_after_256_runs_so_that_others_who_share_the_pool_get_a_turn() -> None:
    """In life: the web server's own work waits behind a flood of ours."""
    ran = 0
    seen: list[int] = []
    queued = threading.Event()

    def body() -> None:
        nonlocal ran
        assert queued.wait(PATIENCE_S)
        ran += 1

    with ThreadPoolExecutor(1) as pool, Scheduler(pool, clock=CountingClock(), observers=[]) as scheduler:
        for _ in range(1_000):
            scheduler.schedule(body)
        other = pool.submit(lambda: seen.append(ran))
        queued.set()
        other.result(PATIENCE_S)
        assert scheduler.wait(PATIENCE_S)
    assert seen == [256]
    assert ran == 1_000


def test_a_stay_ends_after_20_ms() -> None:
    """The run in which they pass is the last one of the stay."""
    clock = CountingClock()
    ran = 0
    seen: list[int] = []
    queued = threading.Event()

    def body() -> None:
        nonlocal ran
        assert queued.wait(PATIENCE_S)
        ran += 1
        if ran == 3:
            clock.go_to(0.020_001)

    with ThreadPoolExecutor(1) as pool, Scheduler(pool, clock=clock, observers=[]) as scheduler:
        for _ in range(10):
            scheduler.schedule(body)
        other = pool.submit(lambda: seen.append(ran))
        queued.set()
        other.result(PATIENCE_S)
        assert scheduler.wait(PATIENCE_S)
    assert seen == [3]
    assert ran == 10


def test_a_run_that_becomes_ready_as_the_last_drainer_leaves_is_not_forgotten() -> None:
    """Each task is scheduled when the one before has just ended: again and again the worker is on its way out."""
    with ThreadPoolExecutor(1) as pool, Scheduler(pool, observers=[]) as scheduler:
        for n in range(2_000):
            assert scheduler.schedule(lambda n=n: n).result(PATIENCE_S) == n


def test_two_schedulers_share_a_pool_of_one_thread() -> None:
    with ThreadPoolExecutor(1) as pool, Scheduler(pool, observers=[]) as one, Scheduler(pool, observers=[]) as two:
        tasks = [scheduler.schedule(lambda n=n: n) for n in range(1_000) for scheduler in (one, two)]
        assert one.wait(PATIENCE_S)
        assert two.wait(PATIENCE_S)
        assert [task.result() for task in tasks] == [n for n in range(1_000) for _ in (one, two)]


def test_a_task_may_wait_for_another_while_a_slot_is_free() -> None:
    """With all slots waiting it would be a deadlock of the user's own making, as in any pool."""
    with Scheduler(slots=2, observers=[]) as scheduler:
        outer = scheduler.schedule(lambda: scheduler.schedule(lambda: 5).result(PATIENCE_S))
        assert outer.result(PATIENCE_S) == 5


def test_a_child_runs_on_the_worker_that_finished_its_parent() -> None:
    """No switch of threads in a chain: that is what makes chains cheap. (The clock stands still: no stay is over.)"""
    threads: set[str] = set()
    with Scheduler(slots=4, clock=CountingClock(), observers=[]) as scheduler:
        gate = threading.Event()
        last: Task[Any] = scheduler.schedule(gate.wait, args=(PATIENCE_S,))
        for _ in range(200):
            last = scheduler.schedule(lambda: threads.add(threading.current_thread().name), after_tasks=[last])
        gate.set()
        assert last.wait(PATIENCE_S)
    assert len(threads) == 1


def test_our_own_pool_has_as_many_threads_as_slots() -> None:
    with Scheduler(slots=3, observers=[]) as scheduler:
        together = threading.Barrier(3)
        tasks = [scheduler.schedule(together.wait, args=(PATIENCE_S,)) for _ in range(3)]
        assert sorted(task.result(PATIENCE_S) for task in tasks) == [0, 1, 2]
        assert len([name for name in our_threads() if name.startswith("tickless-worker")]) == 3
