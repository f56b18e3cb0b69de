"""Several pools by name: each has its own slots, its own queue and its own hand.

From "What each pool does" on they need a store that keeps runs apart by pool.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World, fail
from tests.pools.executors import Held
from tests.test_drafts_foreign import Unshowable
from tickless import Pool, PoolError, Reason, ScheduleError, Scheduler, State, TaskRejected, after, current_run, every
from tickless.testing import FakeClock, InlinePool, ManualPool


class Named:
    """A started scheduler with two pools that run when they are told to."""

    def __init__(self, slots: int = 1, cpu_slots: int = 1, *, start: bool = True) -> None:
        self.pool, self.cpu = ManualPool(slots), ManualPool(cpu_slots)
        self.clock = FakeClock()
        self.scheduler = Scheduler(
            pools={"cpu": self.cpu, "default": self.pool}, clock=self.clock, observers=[]
        )  # fmt: skip
        self.story: list[Any] = []
        if start:
            self.scheduler.start()

    def run_all(self) -> list[Any]:
        while len(self.pool) + len(self.cpu):
            self.pool.run_all()
            self.cpu.run_all()
        return self.story


# What is no set of pools


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        (5, ["pools=5", "needs a dict"]),
        ([InlinePool()], ["pools=[", "needs a dict"]),
        ({}, ['no "default"']),
        ({"cpu": InlinePool()}, ["'cpu'", 'no "default"']),
        ({"": InlinePool()}, ["''", "at least one character"]),
        ({5: InlinePool()}, ["{5: ...}", "a text"]),
        ({Unshowable(): InlinePool()}, ["a text"]),
        ({"default": InlinePool(), "cpu": "fast"}, ["{'cpu': ...}", "'fast'", "no submit"]),
        ({"default": InlinePool(), "cpu": Held()}, ["{'cpu': ...}", "Pool(executor, slots=8)"]),
        ({"default": None}, ["{'default': ...}", "None", "no submit"]),
    ],
)
def test_what_is_no_set_of_pools_is_refused(pools: Any, words: list[str]) -> None:
    """At once: a pool that is missing is found else when the first task needs it."""
    with pytest.raises(PoolError) as caught:
        Scheduler(pools=pools)
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_pool_and_pools_are_refused_together() -> None:
    """Which of them would a task without a name run in?"""
    with pytest.raises(PoolError, match=r"pool=.*pools=.*as \"default\""):
        Scheduler(InlinePool(), pools={"default": InlinePool()})


def test_one_executor_under_two_names_is_refused() -> None:
    """Its slots would be counted twice: more runs at a time than it has workers for."""
    pool = InlinePool()
    for other in (pool, Pool(pool), Pool(pool, slots=1)):
        with pytest.raises(PoolError, match=r"'cpu', 'default'.*one executor.*counted twice"):
            Scheduler(pools={"cpu": other, "default": pool})


def test_slots_are_those_of_the_default_pool() -> None:
    with ThreadPoolExecutor(5) as threads:
        scheduler = Scheduler(pools={"default": threads}, slots=3)
        assert scheduler._pools["default"].slots == 3
    with pytest.raises(PoolError, match="slots=0"):
        Scheduler(pools={"default": InlinePool()}, slots=0)


def test_a_dict_of_the_default_pool_alone_is_as_that_pool() -> None:
    world = World()
    scheduler = Scheduler(pools={"default": InlinePool()}, clock=FakeClock(), observers=[])
    scheduler.start()
    for one in (world.scheduler, scheduler):
        assert one.schedule(lambda: 5, pool="default").result() == 5
        with pytest.raises(ScheduleError, match=r"pool='cpu'.*'default'"):
            one.schedule(fail, pool="cpu")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (5, "limits=5: needs several"),
        ("db", r"limits=\['d'\]: needs a Limit"),
        ([("db", 2)], r"limits=\[\('db', 2\)\]: needs a Limit, e\.g\. Limit\(\"db\", running=2\)"),
    ],
)
def test_what_are_no_limits_is_refused(limits: Any, words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        Scheduler(limits=limits)


# What each pool does


def test_a_task_runs_in_the_pool_that_it_names() -> None:
    named = Named()
    tasks = [named.scheduler.schedule(named.story.append, args=(pool,), pool=pool) for pool in ("cpu", "default", None)]
    assert (len(named.pool), len(named.cpu)) == (1, 1)
    assert named.cpu.run_all() == 1
    assert named.story == ["cpu"]
    assert [task.state for task in tasks] == [State.SUCCEEDED, State.READY, State.READY]
    named.pool.run_all()
    assert named.story == ["cpu", "default", None]
    with pytest.raises(ScheduleError, match=r"pool='gpu'.*'default', 'cpu'"):
        named.scheduler.schedule(fail, pool="gpu")


def test_a_busy_pool_holds_up_no_other() -> None:
    """In life: a hundred slow reports stand before the one mail that must go out."""
    named = Named()
    for n in range(100):
        named.scheduler.schedule(named.story.append, args=(n,), pool="cpu")
    mail = named.scheduler.schedule(named.story.append, args=("mail",))
    named.pool.run_all()
    assert named.story == ["mail"]
    assert mail.state is State.SUCCEEDED
    assert named.run_all() == ["mail", *range(100)]


def test_a_turn_feeds_every_pool_that_has_ready_runs() -> None:
    """What becomes due is nobody's own: the dispatcher has each hand called."""
    named = Named()
    for pool in ("cpu", "default"):
        named.scheduler.schedule(named.story.append, after(1), args=(pool,), pool=pool)
        named.scheduler.schedule(named.story.append, every(seconds=2), args=(f"{pool} beats",), pool=pool)
    named.clock.advance(1)
    assert (len(named.pool), len(named.cpu)) == (1, 1)
    assert sorted(named.run_all()) == ["cpu", "default"]
    named.clock.advance(1)
    assert sorted(named.run_all()) == ["cpu", "cpu beats", "default", "default beats"]


def test_a_child_in_another_pool_is_started_there_when_its_parent_ends() -> None:
    """The worker that ends the parent takes the next run of its own pool, and spares none of another's."""
    named = Named()
    load = named.scheduler.schedule(lambda: 20)
    crunch = named.scheduler.schedule(lambda x: x + 1, args=(load.output,), pool="cpu")
    store = named.scheduler.schedule(lambda x: x + 1, args=(crunch.output,))
    named.pool.run_next()
    assert (crunch.state, len(named.cpu)) == (State.READY, 1)
    named.run_all()
    assert store.result() == 22


def test_slots_are_counted_by_pool() -> None:
    named = Named(slots=2, cpu_slots=3)
    for _ in range(10):
        named.scheduler.schedule(len, args=((),), pool="cpu")
        named.scheduler.schedule(len, args=((),))
    assert (len(named.pool), len(named.cpu)) == (2, 3)
    pools = named.scheduler.pools()
    assert list(pools) == ["default", "cpu"]
    assert [(pool.name, pool.slots, pool.ready, pool.running, pool.zombies) for pool in pools.values()] == [
        ("default", 2, 10, 0, 0),
        ("cpu", 3, 10, 0, 0),
    ]


def test_priority_counts_within_a_pool() -> None:
    named = Named(start=False)
    for n in range(4):
        named.scheduler.schedule(named.story.append, args=(n,), pool=("cpu", "default")[n % 2], priority=n)
    named.scheduler.start()
    assert named.run_all() == [3, 1, 2, 0]


def test_a_pool_that_takes_nothing_costs_its_own_runs_only() -> None:
    named = Named()
    named.cpu.shutdown()
    lost = named.scheduler.schedule(fail, pool="cpu")
    fine = named.scheduler.schedule(lambda: 5)
    named.pool.run_all()
    assert (lost.state, lost.reason, fine.result()) == (State.FAILED, Reason.REJECTED, 5)
    with pytest.raises(TaskRejected):
        lost.result()


def test_an_executor_that_gets_one_submit_per_run_is_a_pool_like_any_other() -> None:
    held, clock = Held(), FakeClock()
    scheduler = Scheduler(pools={"default": InlinePool(), "far": Pool(held, slots=2)}, clock=clock, observers=[])
    scheduler.start()
    tasks = [scheduler.schedule(lambda: current_run().task_id, pool="far", id=f"t{n}") for n in range(3)]
    assert [task.state for task in tasks] == [State.RUNNING, State.RUNNING, State.READY]
    while held.held:
        held.run_next()
    assert [task.result() for task in tasks] == ["t0", "t1", "t2"]


def test_pools_of_threads_run_side_by_side_and_given_ones_stay_open() -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        with Scheduler(pools={"default": one, "other": other}, observers=[]) as scheduler:
            tasks = [scheduler.schedule(len, args=((1,) * n,), pool=("default", "other")[n % 2]) for n in range(200)]
            chain = [scheduler.schedule(int)]
            for n in range(100):
                chain.append(scheduler.schedule(int, pool=("other", "default")[n % 2], after_tasks=[chain[-1]]))
            assert scheduler.wait(PATIENCE_S)
            assert [task.result() for task in tasks] == list(range(200))
            assert chain[-1].state is State.SUCCEEDED
        assert (one.submit(int).result(PATIENCE_S), other.submit(int).result(PATIENCE_S)) == (0, 0)
