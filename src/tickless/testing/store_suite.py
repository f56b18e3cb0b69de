"""What every Store must do, as tests to inherit.

class TestMyStore(StoreSuite):
    def make_store(self) -> Store:
        return MyStore()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tickless.errors import DependencyError, DuplicateId, SchedulerClosed, UnknownTask
from tickless.instants import Instant, datetime_of
from tickless.records import SUCCESS, EventKind, Outcome
from tickless.rules import Rule, after, at, every
from tickless.states import Cancelled, Reason, State
from tickless.stores import Store
from tickless.testing.drafts import NOON_US, Bell, draft, later

FAILURE = Outcome(State.FAILED, ValueError("x"), None, "ValueError: x")


class StoreSuite(ABC):
    """Inherit, and say how a store is made. Each test is one promise of one verb."""

    survives_close = False
    """Whether tasks outlive the store's closing: those of a durable one do."""

    @abstractmethod
    def make_store(self) -> Store:
        """A new store, with nothing in it, that keeps some finished tasks and some runs of each."""

    @pytest.fixture
    def store(self) -> Store:
        """A store that was opened."""
        store = self.make_store()
        store.open()
        return store

    def add(
        self,
        store: Store,
        when: Rule | None = None,
        id: str | None = None,
        *,
        at_us: Instant = NOON_US,
        parents: tuple[Any, ...] = (),
        run_if: str = "all_succeeded",
        priority: int = 0,
    ) -> Any:
        """Schedule one task; gives the store's key for it."""
        task = draft(when, at_us, at_us, id, parents=parents, run_if=run_if, priority=priority)
        store.add(task, at_us)
        return task

    def run(self, store: Store, outcome: Outcome = SUCCESS, at_us: Instant = NOON_US) -> Any:
        """Take the next run and finish it; gives its task."""
        run = store.take(at_us)
        assert run is not None
        task = run.task
        store.finish(run, outcome, at_us)
        return task

    # Into the store

    def test_what_is_due_at_once_is_ready_at_once(self, store: Store) -> None:
        """A turn of the dispatcher would cost a thread switch for each task that is scheduled for now."""
        task = self.add(store)
        assert store.get(task).state is State.READY
        assert store.ready_runs() == 1
        assert store.signs.stirred

    def test_nothing_is_ready_before_it_is_opened(self) -> None:
        """A scheduler that was not started runs nothing."""
        store = self.make_store()
        task = self.add(store)
        assert store.take(NOON_US) is None
        assert store.get(task).state is State.PENDING
        store.open()
        store.due(NOON_US, NOON_US)
        assert store.get(task).state is State.READY

    def test_a_duplicate_id_is_refused_and_nothing_changes(self, store: Store) -> None:
        """Two tasks of one id: `cancel` would find the wrong one."""
        self.add(store, after(1), "a")
        batch = [draft(after(1), NOON_US, NOON_US, id) for id in ("b", "a")]
        with pytest.raises(DuplicateId, match="'a'"):
            store.add_many(batch, NOON_US)
        with pytest.raises(DuplicateId, match="'a'"):
            self.add(store, after(1), "a")
        assert [info.id for info in store.tasks()] == ["a"]

    def test_unknown_own_recurring_and_cyclic_parents_are_refused(self, store: Store) -> None:
        """Each of them would wait for ever."""
        self.add(store, every(seconds=1), "beat")
        for parents, message in ((("nobody",), "nobody"), (("me",), "itself"), (("beat",), "recurring")):
            with pytest.raises(DependencyError, match=message):
                self.add(store, None, "me", parents=parents)
        ring = [draft(None, NOON_US, NOON_US, id, parents=(other,)) for id, other in (("a", "b"), ("b", "a"))]
        with pytest.raises(DependencyError, match="cycle"):
            store.add_many(ring, NOON_US)
        assert [info.id for info in store.tasks()] == ["beat"]

    def test_a_batch_may_name_its_own_members_in_any_order(self, store: Store) -> None:
        """A file of tasks is not sorted."""
        child = draft(None, NOON_US, NOON_US, "child", parents=("parent",))
        parent = draft(None, NOON_US, NOON_US, "parent")
        store.add_many([child, parent], NOON_US)
        assert self.run(store) is parent
        assert self.run(store) is child

    def test_keep_leaves_the_task_that_is_there(self, store: Store) -> None:
        """A program that starts again must not schedule everything twice."""
        there = self.add(store, after(1), "a")
        assert store.add_or("keep", draft(after(9), NOON_US, NOON_US, "a"), NOON_US) is there
        assert store.next_wake() == later(1)

    def test_an_update_leaves_an_unchanged_rule_its_next_fire(self, store: Store) -> None:
        """Else a program that is started each hour never runs its task of every two hours."""
        there = self.add(store, every(hours=2), "a")
        new = draft(every(hours=2), later(3600), later(3600), "a")
        assert store.add_or("update", new, later(3600)) is there
        assert store.next_wake() == later(7200)

    def test_an_update_of_the_rule_moves_the_next_fire(self, store: Store) -> None:
        """The old place must be gone: it would fire once more."""
        there = self.add(store, every(seconds=5), "a")
        assert store.add_or("update", draft(every(seconds=60), NOON_US, NOON_US, "a"), NOON_US) is there
        store.due(later(30), later(30))
        assert store.ready_runs() == 0
        assert store.next_wake() == later(60)

    def test_an_update_makes_room_where_one_runs_once(self, store: Store) -> None:
        """What waits, or runs, ends under its own handle; the id is the new one's."""
        old = self.add(store, None, "a")
        new = store.add_or("update", draft(None, NOON_US, NOON_US, "a"), NOON_US)
        assert new is not old
        assert (store.get(old).state, store.get(old).reason) == (State.CANCELLED, Reason.REPLACED)
        assert store.find("a") is new

    # Time passes

    def test_due_runs_to_the_microsecond(self, store: Store) -> None:
        """Early is wrong, and late by a microsecond may be late by a sleep."""
        self.add(store, after(1))
        store.due(Instant(later(1) - 1), Instant(later(1) - 1))
        assert store.ready_runs() == 0
        store.due(later(1), later(1))
        assert store.ready_runs() == 1

    def test_equal_deadlines_run_as_they_were_scheduled(self, store: Store) -> None:
        """Whoever schedules `open` and then `close` for the same instant means that order."""
        tasks = [self.add(store, after(1)) for _ in range(50)]
        store.due(later(1), later(1))
        assert [self.run(store, at_us=later(1)) for _ in tasks] == tasks

    def test_a_limit_leaves_the_rest_and_says_so(self, store: Store) -> None:
        """A flood must not keep everybody else out; and what is left must not be forgotten."""
        tasks = [self.add(store, after(1)) for _ in range(5)]
        assert store.due(later(1), later(1), 2)
        assert store.ready_runs() == 2
        while store.due(later(1), later(1), 2):
            pass
        assert [self.run(store, at_us=later(1)) for _ in tasks] == tasks

    def test_the_next_wake_is_the_earliest_entry(self, store: Store) -> None:
        """Later, and something is late; earlier, and the machine wakes for nothing."""
        assert store.next_wake() is None
        first, second = self.add(store, after(2)), self.add(store, after(5))
        assert store.next_wake() == later(2)
        store.cancel(first, NOON_US)
        assert store.next_wake() == later(5)
        store.cancel(second, NOON_US)
        assert store.next_wake() is None

    def test_an_entry_before_the_next_wake_is_signalled_and_a_later_one_is_not(self, store: Store) -> None:
        """The first is late without it. The second would wake the dispatcher for each task that is scheduled."""
        self.add(store, after(5))
        store.next_wake()
        store.signs.earlier = store.signs.stirred = False
        self.add(store, after(6))
        assert not store.signs.earlier
        self.add(store, after(1))
        assert store.signs.earlier
        assert store.signs.stirred

    def test_missed_fires_leave_one_record_and_the_newest_runs(self, store: Store) -> None:
        """After a night of suspend: one run, and a line that says how many there were not."""
        beat = self.add(store, every(seconds=10))
        store.due(later(95), later(95))
        skipped, going = store.runs(beat)
        assert (skipped.state, skipped.reason, skipped.count) == (State.SKIPPED, Reason.COALESCED, 8)
        assert (skipped.due_us, skipped.last_due_us) == (later(10), later(80))
        assert (going.state, going.due_us) == (State.READY, later(90))

    def test_ten_years_missed_cost_no_more_than_one(self, store: Store) -> None:
        """A machine from the cellar must not enumerate 300 million fires before it does anything else."""
        beat = self.add(store, every(seconds=1))
        ten_years = Instant(NOON_US + timedelta(days=3653) // timedelta(microseconds=1))
        store.due(ten_years, ten_years)
        skipped, _ = store.runs(beat)
        assert skipped.count == 3653 * 86_400 - 1

    def test_the_wall_clock_drives_what_is_at_a_time_and_nothing_else(self, store: Store) -> None:
        """Somebody corrects the clock by an hour: the train leaves by the clock, the egg boils as it did."""
        train = self.add(store, at(datetime_of(later(3600))))
        egg = self.add(store, after(600))
        store.due(NOON_US, later(3600))
        assert store.get(train).state is State.READY
        assert store.get(egg).state is State.PENDING
        assert store.next_wake() == later(600)

    def test_a_clock_set_back_by_an_hour_fires_nothing_again(self, store: Store) -> None:
        """A backup that runs twice overwrites the good one."""
        beat = self.add(store, every(minutes=10, anchor="epoch"))
        store.due(later(600), later(600))
        self.run(store, at_us=later(600))
        back = later(601 - 3600)
        store.due(later(601), back)
        assert store.ready_runs() == 0
        assert store.next_wake() == later(1200 + 3600)
        assert store.get(beat).next_fire_us == later(1200)

    # A run's life

    def test_a_run_starts_once(self, store: Store) -> None:
        """Two workers with the same run send the mail twice."""
        task = self.add(store)
        run = store.take(later(1))
        assert run is not None
        assert run.task is task
        assert store.take(later(1)) is None
        info = store.get(task)
        assert (info.state, info.last_run and info.last_run.started_us) == (State.RUNNING, later(1))
        assert len(store.running()) == 1

    def test_higher_priority_starts_first_then_what_was_ready_first(self, store: Store) -> None:
        """The order that was promised, and no other."""
        low, first, second, high = [self.add(store, priority=priority) for priority in (-1, 0, 0, 7)]
        assert [self.run(store) for _ in range(4)] == [high, first, second, low]

    @pytest.mark.parametrize(
        "outcome",
        [SUCCESS, FAILURE, Outcome(State.CANCELLED, None, Reason.STOPPED, "Stopped")],
        ids=lambda outcome: str(outcome.state),
    )
    def test_the_outcome_of_a_run_that_is_once_is_that_of_its_task(self, store: Store, outcome: Outcome) -> None:
        """And it is terminal: it does not change any more, whatever is asked of it."""
        task = self.add(store)
        self.run(store, outcome, later(2))
        info = store.get(task)
        assert (info.state, info.reason) == (outcome.state, outcome.reason)
        assert info.last_run is not None
        assert (info.last_run.finished_us, info.last_run.error) == (later(2), outcome.error)
        assert store.cancel(task, later(3)) is Cancelled.TOO_LATE
        assert store.get(task) == info
        assert store.live() == []

    def test_a_failed_run_of_a_recurring_task_is_not_its_end(self, store: Store) -> None:
        """One bad night must not end all nights."""
        beat = self.add(store, every(seconds=10))
        store.due(later(10), later(10))
        self.run(store, FAILURE, later(11))
        assert store.get(beat).state is State.PENDING
        assert store.next_wake() == later(20)

    def test_fires_during_a_run_are_one_record_and_one_at_its_end_runs(self, store: Store) -> None:
        """Skip by absence: no slot, no error, no second copy. And a finish at t does not overlap a fire at t."""
        beat = self.add(store, every(seconds=10))
        store.due(later(10), later(10))
        self.run(store, at_us=later(40))
        store.due(later(40), later(40))
        ran, skipped, going = store.runs(beat)
        assert (ran.due_us, ran.state) == (later(10), State.SUCCEEDED)
        assert (skipped.due_us, skipped.last_due_us, skipped.count) == (later(20), later(30), 2)
        assert skipped.reason is Reason.OVERLAP
        assert (going.due_us, going.state) == (later(40), State.READY)

    def test_a_sliding_rule_counts_from_the_finish(self, store: Store) -> None:
        """That is what it is for: a pause of ten seconds between two runs, however long they take."""
        self.add(store, every(seconds=10, sliding=True))
        store.due(later(10), later(10))
        self.run(store, at_us=later(17))
        assert store.next_wake() == later(27)

    def test_a_run_that_no_pool_takes_is_failed_with_the_reason(self, store: Store) -> None:
        """A pool that was shut down under us: nothing may wait for it for ever."""
        assert store.reject("the pool is closed", NOON_US) is False
        task = self.add(store)
        assert store.reject("the pool is closed", NOON_US) is True
        info = store.get(task)
        assert (info.state, info.reason) == (State.FAILED, Reason.REJECTED)
        assert info.last_run is not None
        assert (info.last_run.started_us, info.last_run.error) == (None, "the pool is closed")

    # Dependencies

    def test_a_child_runs_when_its_last_parent_has_succeeded(self, store: Store) -> None:
        """Exactly then, and exactly once."""
        one, two = self.add(store), self.add(store)
        child = self.add(store, parents=(one, two))
        self.run(store)
        assert store.get(child).state is State.PENDING
        self.run(store)
        assert self.run(store) is child
        assert store.take(NOON_US) is None

    def test_a_failure_dooms_all_that_come_after_it(self, store: Store) -> None:
        """A chain of 5,000 must neither recurse nor stay behind."""
        first = last = self.add(store)
        for _ in range(5_000):
            last = self.add(store, parents=(last,))
        self.run(store, FAILURE)
        assert (store.get(last).state, store.get(last).reason) == (State.SKIPPED, Reason.PARENT_FAILED)
        assert store.get(first).state is State.FAILED
        assert store.live() == []

    def test_a_cancelled_parent_does_not_free_its_child(self, store: Store) -> None:
        """To upload what was never built."""
        parent = self.add(store, after(5))
        child = self.add(store, parents=(parent,))
        store.cancel(parent, NOON_US)
        assert (store.get(child).state, store.get(child).reason) == (State.SKIPPED, Reason.PARENT_CANCELLED)
        assert store.ready_runs() == 0

    @pytest.mark.parametrize(
        ("run_if", "after_success", "after_failure"),
        [
            ("all_succeeded", State.READY, State.SKIPPED),
            ("all_done", State.READY, State.READY),
            ("any_succeeded", State.READY, State.SKIPPED),
            ("any_failed", State.SKIPPED, State.READY),
            ("none_failed", State.READY, State.SKIPPED),
        ],
    )
    def test_run_if_decides_also_for_parents_that_have_ended(
        self, store: Store, run_if: str, after_success: State, after_failure: State
    ) -> None:
        """A child that is scheduled a moment too late must not wait for ever."""
        for outcome, expected in ((SUCCESS, after_success), (FAILURE, after_failure)):
            parent = self.add(store)
            before = self.add(store, parents=(parent,), run_if=run_if)
            run = store.take(NOON_US)
            store.finish(run, outcome, NOON_US)
            behind = self.add(store, parents=(parent,), run_if=run_if)
            assert [store.get(child).state for child in (before, behind)] == [expected, expected]
            while store.ready_runs():
                self.run(store)

    def test_the_rule_of_a_child_counts_from_its_release(self, store: Store) -> None:
        """Ten minutes after the oven was lit, and not after the recipe was read. A past `at` is due then."""
        parent = self.add(store)
        egg = self.add(store, after(10), parents=(parent,))
        past = self.add(store, at(datetime_of(later(1))), parents=(parent,))
        beat = self.add(store, every(seconds=7), parents=(parent,))
        run = store.take(NOON_US)
        store.due(later(100), later(100))
        store.finish(run, SUCCESS, later(100))
        store.due(later(100), later(100))
        assert store.get(egg).next_fire_us == later(110)
        assert store.get(beat).next_fire_us == later(107)
        assert store.get(past).last_run is not None
        assert store.get(past).state is State.READY

    # From outside

    def test_cancel_takes_the_future_away(self, store: Store) -> None:
        """Pending or ready: it never starts."""
        for task in (self.add(store, after(1)), self.add(store), self.add(store, every(seconds=1))):
            assert store.cancel(task, NOON_US) is Cancelled.CANCELLED
            assert (store.get(task).state, store.get(task).reason) == (State.CANCELLED, Reason.CANCELLED)
            assert store.cancel(task, NOON_US) is Cancelled.TOO_LATE
        store.due(later(9), later(9))
        assert store.take(later(9)) is None
        assert store.next_wake() is None

    def test_a_run_is_asked_to_stop_and_its_outcome_stands(self, store: Store) -> None:
        """Work that was done is done; a thread cannot be killed."""
        task = self.add(store)
        run = store.take(NOON_US)
        flag = store.stop_flag(run)
        assert not flag.is_set()
        assert store.cancel(task, NOON_US) is Cancelled.ASKED
        assert flag.is_set()
        assert store.stop_flag(run).is_set()
        store.finish(run, SUCCESS, NOON_US)
        assert store.get(task).state is State.SUCCEEDED

    def test_a_recurring_task_that_runs_has_no_more_fires_after_a_cancel(self, store: Store) -> None:
        """It ends when its run does, and how that ended stays in the history."""
        beat = self.add(store, every(seconds=1))
        store.due(later(1), later(1))
        run = store.take(later(1))
        assert store.cancel(beat, later(1)) is Cancelled.ASKED
        assert store.get(beat).state is State.RUNNING
        store.finish(run, SUCCESS, later(1))
        assert store.get(beat).state is State.CANCELLED
        assert [run.state for run in store.runs(beat)] == [State.SUCCEEDED]
        assert store.next_wake() is None

    def test_a_recurring_task_is_listed_as_recurring_to_its_end(self, store: Store) -> None:
        """The list of what ended would show the heartbeat as one that ran once."""
        beat = self.add(store, every(seconds=1))
        assert store.get(beat).recurring
        store.cancel(beat, NOON_US)
        assert store.get(beat).recurring

    def test_all_that_run_can_be_asked_to_stop(self, store: Store) -> None:
        """`close(cancel=True)`: those that run, and those alone."""
        for _ in range(3):
            self.add(store)
        runs = [store.take(NOON_US), store.take(NOON_US)]
        store.stop_running()
        assert all(store.stop_flag(run).is_set() for run in runs)
        assert not store.stop_flag(store.take(NOON_US)).is_set()

    def test_close_ends_what_waits_and_lets_finish_what_runs(self, store: Store) -> None:
        """And it is final, and twice is once. What outlives it goes on at the next start."""
        running, beat = self.add(store), self.add(store, every(seconds=1))
        ready, pending = self.add(store), self.add(store, after(5))
        child = self.add(store, parents=(running,), run_if="all_done")
        run = store.take(NOON_US)
        for _ in range(2):
            store.close(NOON_US)
        for task in (beat, ready, pending, child):
            assert (store.get(task).reason is Reason.CLOSED) is not self.survives_close
            assert (store.get(task).state is State.CANCELLED) is not self.survives_close
        with pytest.raises(SchedulerClosed):
            self.add(store)
        assert store.live() == [running]
        store.finish(run, SUCCESS, NOON_US)
        assert store.get(running).state is State.SUCCEEDED
        assert store.live() == []

    def test_who_waits_for_an_end_is_rung_once(self, store: Store) -> None:
        """And who waits for what has ended is told at once, or would sleep for ever."""
        task = self.add(store)
        for_task, for_all, gave_up = Bell(), Bell(), Bell()
        assert store.await_end(task, for_task)
        assert store.await_idle(for_all)
        assert store.await_end(task, gave_up)
        store.forget_waiter(gave_up, task)
        store.forget_waiter(gave_up, task)
        self.run(store)
        assert (for_task.rings, for_all.rings, gave_up.rings) == (1, 1, 0)
        assert not store.await_end(task, Bell())
        assert not store.await_idle(Bell())

    # Looking

    def test_a_task_is_found_by_its_id_given_or_not(self, store: Store) -> None:
        """And one that never was is named in the error."""
        named, nameless = self.add(store, after(1), "a"), self.add(store, after(1))
        assert store.find("a") is named
        assert store.find(store.get(nameless).id) is nameless
        for id in ("nobody", "#77", "#", ""):
            with pytest.raises(UnknownTask):
                store.find(id)

    def test_tasks_are_listed_in_the_order_of_scheduling(self, store: Store) -> None:
        """The ended ones too, as long as they are kept."""
        for id in "abc":
            self.add(store, None, id)
        self.run(store)
        assert [info.id for info in store.tasks()] == ["a", "b", "c"]

    def test_the_newest_runs_come_last_and_a_limit_keeps_those(self, store: Store) -> None:
        """`runs(1)` is how the last one went."""
        beat = self.add(store, every(seconds=1))
        for second in range(1, 4):
            store.due(later(second), later(second))
            self.run(store, at_us=later(second))
        dues = [run.due_us for run in store.runs(beat)]
        assert dues == [later(1), later(2), later(3)]
        assert [run.due_us for run in store.runs(beat, 1)] == dues[-1:]
        assert store.runs(beat, 0) == []

    def test_events_are_posted_for_those_who_want_them(self, store: Store) -> None:
        """One of each kind, in the order in which things happened, and none that nobody asked for."""
        events: list[tuple[EventKind, Instant]] = []
        post: Callable[..., None] = lambda kind, at_us, *_: events.append((kind, at_us))  # noqa: E731 - one line
        store.listen(post, frozenset(EventKind) - {EventKind.READY})
        self.add(store, after(1))
        store.due(later(1), later(1))
        self.run(store, at_us=later(2))
        wanted = [(EventKind.SCHEDULED, NOON_US), (EventKind.STARTED, later(2)), (EventKind.SUCCEEDED, later(2))]
        assert events == wanted
