"""What every Store must do with a task's policy, as tests to inherit: see `store_suite` for the rest of its contract.

class TestMyStore(PolicySuite):
    def make_store(self, pools: Sequence[str], limits: Sequence[Limit]) -> Store:
        return MyStore(pools=pools, limits=limits)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pytest

from tickless.core.record import More
from tickless.core.special import Special
from tickless.errors import DependencyError, ScheduleError
from tickless.instants import SECOND_US, Instant
from tickless.policies import Limit, Pause, Policy, Retry
from tickless.records import SUCCESS, Outcome, Run
from tickless.rules import Rule, after, every
from tickless.states import DEFAULT_POOL, Cancelled, Reason, State
from tickless.stores import Store
from tickless.testing.drafts import NOON_US, draft, later

FAILURE = Outcome(State.FAILED, ValueError("x"), None, "ValueError: x")
POOLS = (DEFAULT_POOL, "cpu")
LIMITS = (Limit("db", running=1), Limit("api", starts=2, per=10))


class PolicySuite(ABC):
    """Inherit, and say how a store is made. Each test is one promise about one policy."""

    @abstractmethod
    def make_store(self, pools: Sequence[str], limits: Sequence[Limit]) -> Store:
        """A new store with these pools and limits."""

    @pytest.fixture
    def store(self) -> Store:
        """A store that was opened."""
        store = self.make_store(POOLS, LIMITS)
        store.open()
        return store

    def add(self, store: Store, when: Rule | None = None, id: str | None = None, **policy: Any) -> Any:
        """Schedule one task at noon; gives the store's key for it."""
        task = draft(when, NOON_US, NOON_US, id)
        task._more = task._more or More()
        task._more.special = Special(Policy(**policy))
        store.add(task, NOON_US)
        return task

    def at(self, store: Store, seconds: float) -> Instant:
        """So many seconds have passed, and the store has looked."""
        now = later(seconds)
        while store.due(now, now):
            pass
        return now

    def taken(self, store: Store, seconds: float, pool: str = DEFAULT_POOL) -> Any:
        """The next run, which a worker takes after so many seconds."""
        run = store.take(self.at(store, seconds), pool)
        assert run is not None
        return run

    def facts(self, store: Store, task: Any) -> list[tuple[str, str | None, float | None, int]]:
        """Of each run: state, reason, due in seconds after noon, count."""

        def fact(run: Run) -> tuple[str, str | None, float | None, int]:
            due = None if run.due_us is None else (run.due_us - NOON_US) / SECOND_US
            return str(run.state), None if run.reason is None else str(run.reason), due, run.count

        return [fact(run) for run in store.runs(task)]

    # Retry

    def test_a_failed_attempt_is_tried_again_and_the_run_has_not_ended(self, store: Store) -> None:
        """The retry that was counted as a new run would count twice in every statistic."""
        task = self.add(store, retry=Retry(2, delay=5))
        store.finish(self.taken(store, 0), FAILURE, later(1))
        assert store.get(task).state is State.PENDING
        assert store.get(task).retry_at_us == later(6)
        assert store.next_wake() == later(6)
        run = self.taken(store, 6)
        store.finish(run, SUCCESS, later(7))
        assert self.facts(store, task) == [("succeeded", None, 0.0, 1)]
        last = store.runs(task)[0]
        assert (last.attempt, [one.error for one in last.attempts]) == (2, ["ValueError: x"])

    def test_the_last_attempt_fails_for_good(self, store: Store) -> None:
        """Retries that never end."""
        task = self.add(store, retry=Retry(2, delay=0))
        store.finish(self.taken(store, 0), FAILURE, NOON_US)
        store.finish(self.taken(store, 0), FAILURE, NOON_US)
        assert store.get(task).state is State.FAILED

    def test_a_run_that_was_asked_to_stop_is_not_tried_again(self, store: Store) -> None:
        """Cancelled at night, and back in the morning."""
        task = self.add(store, retry=Retry(9))
        run = self.taken(store, 0)
        assert store.cancel(task, NOON_US) is Cancelled.ASKED
        store.finish(run, FAILURE, later(1))
        assert store.get(task).state is State.FAILED

    # Timeout

    def test_a_timeout_counts_from_the_start_and_fails_the_run(self, store: Store) -> None:
        """Counted from the due, a run that waited for a slot would be ended before it began."""
        task = self.add(store, timeout_us=5 * SECOND_US)
        run = self.taken(store, 100)
        self.at(store, 104)
        assert store.get(task).state is State.RUNNING
        self.at(store, 105)
        assert (store.get(task).state, store.get(task).reason) == (State.FAILED, Reason.TIMED_OUT)
        assert store.stop_flag(run).is_set()
        assert store.pools()[DEFAULT_POOL] == (0, 0, 1)
        store.finish(run, SUCCESS, later(200))
        assert store.get(task).state is State.FAILED
        assert store.runs(task)[0].late_result == "returned"
        assert store.pools()[DEFAULT_POOL] == (0, 0, 0)

    def test_a_run_that_ends_in_time_leaves_no_entry(self, store: Store) -> None:
        """A wake-up an hour later, for nobody."""
        self.add(store, timeout_us=3600 * SECOND_US)
        store.finish(self.taken(store, 0), SUCCESS, later(1))
        assert store.next_wake() is None

    def test_a_zombie_keeps_its_task_busy_until_it_returns(self, store: Store) -> None:
        """The body that does not stop would run beside itself."""
        task = self.add(store, every(seconds=10), timeout_us=5 * SECOND_US)
        run = self.taken(store, 10)
        self.at(store, 15)
        assert store.next_wake() is None
        store.finish(run, SUCCESS, later(35))
        assert self.facts(store, task) == [("failed", "timed_out", 10.0, 1), ("skipped", "overlap", 20.0, 2)]
        assert store.next_wake() == later(40)

    # Overlap

    @pytest.mark.parametrize(
        ("policy", "facts"),
        [
            ({}, [("succeeded", None, 10.0, 1), ("skipped", "overlap", 20.0, 2)]),
            ({"overlap": "queue"}, [("succeeded", None, 10.0, 1), ("skipped", "overlap", 30.0, 1)]),
            ({"overlap": "replace"}, [("succeeded", None, 10.0, 1), ("skipped", "replaced", 20.0, 1)]),
        ],
    )
    def test_what_comes_while_a_run_goes_on(
        self, store: Store, policy: dict[str, Any], facts: list[tuple[str, str | None, float, int]]
    ) -> None:
        """Skip: lost. Queue: the first waits. Replace: the newest does."""
        task = self.add(store, every(seconds=10), **policy)
        run = self.taken(store, 10)
        for second in (20, 30):
            self.at(store, second)
            assert store.ready_runs() == 0
        store.finish(run, SUCCESS, later(35))
        assert self.facts(store, task)[:2] == facts
        assert store.ready_runs() == (1 if policy else 0)

    def test_allow_runs_as_many_as_it_says(self, store: Store) -> None:
        """One more, and the machine swaps."""
        self.add(store, every(seconds=10), overlap="allow", max_running=2)
        self.taken(store, 10)
        self.taken(store, 20)
        assert store.take(self.at(store, 30)) is None

    # Misfire

    def test_a_fire_that_is_later_than_its_grace_is_skipped(self, store: Store) -> None:
        """Exactly as late as the grace is on time."""
        on_time, late = (self.add(store, after(10), grace_us=grace * SECOND_US) for grace in (5, 4))
        store.finish(self.taken(store, 15), SUCCESS, later(15))
        assert store.get(on_time).state is State.SUCCEEDED
        assert (store.get(late).state, store.get(late).reason) == (State.SKIPPED, Reason.MISFIRE)

    def test_missed_fires_run_one_after_another_where_that_is_asked(self, store: Store) -> None:
        """`catch_up="all"`: the newest of them, oldest first."""
        task = self.add(store, every(seconds=10), catch_up="all", max_catch_up=2)
        for _ in range(2):
            store.finish(self.taken(store, 45), SUCCESS, later(45))
        assert self.facts(store, task) == [
            ("skipped", "coalesced", 10.0, 2),
            ("succeeded", None, 30.0, 1),
            ("succeeded", None, 40.0, 1),
        ]
        assert store.next_wake() == later(50)

    # Pause

    @pytest.mark.parametrize("scope", ["itself", "its tag", "all"])
    def test_a_paused_task_goes_on_when_it_is_resumed(self, store: Store, scope: str) -> None:
        """What is ready is held, what fires is skipped, and nothing wakes anybody meanwhile."""
        ready, beat = self.add(store, tags=("x",)), self.add(store, every(seconds=10), tags=("x",))
        named = {"itself": [ready, beat], "its tag": ["x"], "all": [None]}[scope]
        assert sum(store.pause(one, Pause("why"), NOON_US, NOON_US) for one in named) == 2
        assert store.take(NOON_US) is None
        assert store.next_wake() is None
        assert (store.get(beat).paused, store.get(beat).pause_reason) == (True, "why")
        assert sum(store.resume(one, "none", later(25), later(25)) for one in named) == 2
        assert self.taken(store, 25).task is ready
        assert self.facts(store, beat) == [("skipped", "paused", 10.0, 2)]
        assert store.next_wake() == later(30)

    def test_a_pause_ends_by_itself(self, store: Store) -> None:
        """`until=`, on the wall clock."""
        task = self.add(store)
        store.pause(task, Pause(None, later(60)), NOON_US, NOON_US)
        assert store.next_wake() == later(60)
        assert self.taken(store, 60).task is task

    # Limits and pools

    def test_a_limit_is_kept_and_who_waits_comes_next(self, store: Store) -> None:
        """The permit goes to the head of the queue, and not to who asks first."""
        first, second = self.add(store, limit="db"), self.add(store, limit="db")
        run = self.taken(store, 0)
        assert run.task is first
        assert store.take(NOON_US) is None
        assert (store.get(second).state, store.get(second).waiting_for) == (State.READY, "db")
        third = self.add(store, limit="db")
        store.finish(run, SUCCESS, later(1))
        run = self.taken(store, 1)
        assert run.task is second
        store.finish(run, SUCCESS, later(1))
        assert self.taken(store, 1).task is third
        assert [(one.name, one.running, one.waiting) for one in store.limits()] == [("db", 1, 0), ("api", 0, 0)]

    def test_a_permit_that_was_kept_for_a_task_goes_on_when_that_is_cancelled(self, store: Store) -> None:
        """Else the limit would shrink by one for ever."""
        first, second, third = (self.add(store, limit="db") for _ in range(3))
        run = self.taken(store, 0)
        assert run.task is first
        assert store.take(NOON_US) is None
        store.finish(run, SUCCESS, later(1))
        store.cancel(second, later(1))
        assert self.taken(store, 1).task is third

    def test_a_rate_holds_in_every_window(self, store: Store) -> None:
        """Two in any ten seconds, wherever one looks."""
        for _ in range(4):
            self.add(store, limit="api")
        self.taken(store, 0)
        self.taken(store, 3)
        assert store.take(self.at(store, 9)) is None
        self.taken(store, 10)
        assert store.take(self.at(store, 12)) is None
        self.taken(store, 13)

    def test_each_pool_has_its_own_runs(self, store: Store) -> None:
        """A worker of one that takes the other's."""
        task = self.add(store, pool="cpu")
        assert (store.ready_runs(), store.ready_runs("cpu")) == (0, 1)
        assert store.take(NOON_US) is None
        assert self.taken(store, 0, "cpu").task is task
        assert store.pools() == {DEFAULT_POOL: (0, 0, 0), "cpu": (0, 1, 0)}

    # By hand

    def test_run_now_is_a_run_beside_the_plan(self, store: Store) -> None:
        """A grid that moved would fire at another minute from then on."""
        task = self.add(store, every(seconds=10))
        assert store.run_now(task, later(3)).state is State.READY
        store.finish(self.taken(store, 3), SUCCESS, later(4))
        assert store.next_wake() == later(10)
        assert self.facts(store, task) == [("succeeded", None, 3.0, 1)]

    def test_run_now_is_refused_where_it_means_nothing(self, store: Store) -> None:
        """A task that waits for its parents, or has ended."""
        task = self.add(store)
        child = draft(None, NOON_US, NOON_US, parents=(task,))
        store.add(child, NOON_US)
        with pytest.raises(DependencyError, match="waits for 1 parent"):
            store.run_now(child, NOON_US)
        store.cancel(task, NOON_US)
        with pytest.raises(ScheduleError, match="has ended"):
            store.run_now(task, NOON_US)

    def test_a_changed_task_keeps_its_runs_and_its_pause(self, store: Store) -> None:
        """A reschedule that un-pauses: "paused" was the absence of a next fire."""
        task = self.add(store, every(seconds=10))
        store.finish(self.taken(store, 10), SUCCESS, later(10))
        store.pause(task, Pause(), later(11), later(11))
        copy = store.settings(task)
        copy._rule, copy._due = every(seconds=3).bound(later(12)), later(15)
        store.change([(task, copy)], later(12))
        assert store.take(self.at(store, 60)) is None
        assert store.get(task).paused
        store.resume(task, "none", later(60), later(60))
        assert self.taken(store, 60).due == later(60)
        assert self.facts(store, task)[:2] == [("succeeded", None, 10.0, 1), ("skipped", "paused", 15.0, 15)]
