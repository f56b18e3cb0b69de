"""What the memory store promises beyond the verbs: clock steps under a run, rules that call back, flat memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tickless.core.invariants import check
from tickless.core.record import RunRecord
from tickless.core.timeline import SLACK
from tickless.errors import UnknownTask
from tickless.instants import Instant
from tickless.records import SUCCESS, EventKind, Outcome
from tickless.rules import Rule, after, every
from tickless.states import Cancelled, Reason, State
from tickless.stores.memory import MemoryStore
from tickless.testing.drafts import NOON_US, Bell, draft, later

HOUR_S = 3_600


@pytest.fixture(params=[False, True], ids=["lock-free", "always-hold"])
def store(request: pytest.FixtureRequest) -> MemoryStore:
    store = MemoryStore(always_hold=request.param)
    store.open()
    return store


def due(store: MemoryStore, seconds: float, wall_s: float | None = None) -> None:
    store.due(later(seconds), later(seconds if wall_s is None else wall_s))


def taken(store: MemoryStore, now: Instant) -> RunRecord:
    run = store.take(now)
    assert run is not None
    return run


@dataclass(frozen=True)
class Calls:
    """A user's own rule, of each second, that calls something whenever it is asked."""

    call: Callable[[], object] = field(compare=False)
    recurring = True
    wall = False

    def bound(self, now: Instant) -> Rule:
        return self

    def next_after(self, after: Instant) -> Instant | None:
        self.call()
        return Instant((after // 1_000_000 + 1) * 1_000_000)


# The wall clock is set while a run goes on


def test_a_clock_set_back_by_hours_under_a_run_plans_anew_from_there(store: MemoryStore) -> None:
    """Somebody sets the date of a new machine right, and the task that ran just then is silent for a day."""
    task = draft(every(minutes=10, anchor="epoch"), NOON_US, NOON_US)
    store.add(task, NOON_US)
    due(store, 600)
    run = taken(store, later(600))
    due(store, 601, 601 - 24 * HOUR_S)
    store.finish(run, SUCCESS, later(602))
    assert store.get(task).next_fire_us == later(1200 - 24 * HOUR_S)


def test_lateness_is_measured_on_the_clock_that_drives_the_rule(store: MemoryStore) -> None:
    """After the clock was set back by an hour, every run of the wall clock would seem to be an hour late."""
    task = draft(every(minutes=10, anchor="epoch"), NOON_US, NOON_US)
    store.add(task, NOON_US)
    due(store, 1, 1 - HOUR_S)
    due(store, HOUR_S + 600, 600)
    store.take(later(HOUR_S + 600))
    (run,) = store.runs(task)
    assert run.due_us == later(600)
    assert run.lateness is not None
    assert run.lateness.total_seconds() == 0


def test_an_update_that_changes_the_clock_under_a_run_skips_nothing_that_was_not_due(store: MemoryStore) -> None:
    """The old due instant is of another clock: taken for one of the new, it makes up a day of skipped fires."""
    task = draft(every(seconds=10), NOON_US, NOON_US, "a")
    store.add(task, NOON_US)
    due(store, 10, 10 + 24 * HOUR_S)
    run = taken(store, later(10))
    new = draft(every(seconds=10, anchor="epoch"), later(11), later(11 + 24 * HOUR_S), "a")
    assert store.add_or("update", new, later(11)) is task
    store.finish(run, SUCCESS, later(12))
    assert [run.count for run in store.runs(task)] == [1]
    assert store.get(task).next_fire_us == later(20 + 24 * HOUR_S)


def test_an_update_of_the_interval_under_a_run_follows_the_new_grid(store: MemoryStore) -> None:
    """The next fire is one of the rule as it is now, and so is each after it."""
    task = draft(every(seconds=10), NOON_US, NOON_US, "a")
    store.add(task, NOON_US)
    due(store, 10)
    run = taken(store, later(10))
    store.add_or("update", draft(every(seconds=60), later(12), later(12), "a"), later(12))
    store.finish(run, SUCCESS, later(13))
    assert store.get(task).next_fire_us == later(72)


# Idle


def test_a_replacement_is_no_moment_of_idleness(store: MemoryStore) -> None:
    """`run()` would close the scheduler, and cancel the task that was just scheduled."""
    old = draft(None, NOON_US, NOON_US, "a")
    store.add(old, NOON_US)
    bell = Bell()
    assert store.await_idle(bell)
    new = draft(after(5), NOON_US, NOON_US, "a")
    assert store.add_or("update", new, NOON_US) is new
    assert store.get(old).reason is Reason.REPLACED
    assert store.find("a") is new
    assert bell.rings == 0


def test_a_recurring_task_that_has_run_can_become_one_that_runs_once_more(store: MemoryStore) -> None:
    """Its last run has ended, and it has not: nobody could cancel it, and nobody would wait for it."""
    task = draft(every(seconds=10), NOON_US, NOON_US, "a")
    store.add(task, NOON_US)
    due(store, 10)
    store.finish(taken(store, later(10)), SUCCESS, later(10))
    assert store.add_or("update", draft(after(5), later(11), later(11), "a"), later(11)) is task
    check(store)
    assert (store.get(task).state, store.get(task).next_fire_us) == (State.PENDING, later(16))
    due(store, 16)
    store.finish(taken(store, later(16)), Outcome(State.FAILED), later(16))
    assert store.get(task).state is State.FAILED
    assert [run.due_us for run in store.runs(task)] == [later(10), later(16)]


# A user's own rule calls back


def test_a_rule_that_cancels_its_own_task_while_it_is_asked_ends_it(store: MemoryStore) -> None:
    """The answer comes to a task that is no more: it must not rise again."""
    answers: list[Cancelled] = []
    task = draft(Calls(lambda: None), NOON_US, NOON_US)
    object.__setattr__(task._rule, "call", lambda: answers.append(store.cancel(task, later(1))))
    store.add(task, NOON_US)
    due(store, 1)
    assert answers[0] is Cancelled.CANCELLED
    assert store.get(task).state is State.CANCELLED
    assert store.ready_runs() == 0
    assert store.next_wake() is None
    check(store)


def test_the_answer_of_a_rule_that_was_replaced_meanwhile_counts_for_nothing(store: MemoryStore) -> None:
    """It is slow, the task gets a new rule, and that one is being asked, when the old answer comes in."""
    old = draft(Calls(lambda: None), NOON_US, NOON_US, "a")
    new = draft(Calls(lambda: None), later(1), later(1), "a")

    def slow() -> None:
        if old._rule is not new._rule:
            store.add_or("update", new, later(1))
            with store.lock:  # as another thread, which will ask the new rule, and has not done so yet
                store.machine.surface(later(2), later(2), 100)

    object.__setattr__(old._rule, "call", slow)
    store.add(old, NOON_US)
    due(store, 1)
    (run,) = store.runs(old)
    assert (run.state, run.due_us) == (State.READY, later(2))
    check(store)


def test_a_rule_that_schedules_while_it_is_asked_does_not_hang(store: MemoryStore) -> None:
    """It is foreign code, and calls whom it likes (P2)."""
    added = []

    def add() -> None:
        assert not store.lock.locked()
        task = draft(after(100), later(1), later(1))
        store.add(task, later(1))
        added.append(task)

    task = draft(Calls(lambda: None), NOON_US, NOON_US)
    object.__setattr__(task._rule, "call", add)
    store.add(task, NOON_US)
    due(store, 1)
    assert added
    assert store.get(task).state is State.READY
    check(store)


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt()])
def test_a_rule_that_raises_ends_its_own_task_and_no_other(store: MemoryStore, error: BaseException) -> None:
    """One broken rule must not stop the dispatcher, nor the tasks that are due with it (P9)."""

    def fail() -> None:
        raise error

    broken, other = draft(Calls(lambda: None), NOON_US, NOON_US), draft(after(1), NOON_US, NOON_US)
    object.__setattr__(broken._rule, "call", fail)
    store.add_many([broken, other], NOON_US)
    due(store, 1)
    assert [store.get(task).state for task in (broken, other)] == [State.READY] * 2, "what was planned runs"
    while (run := store.take(later(1))) is not None:
        store.finish(run, SUCCESS, later(1))
    assert [run.state for run in store.runs(broken)] == [State.SUCCEEDED, State.FAILED]
    assert (store.get(broken).state, store.get(broken).reason) == (State.FAILED, Reason.RULE)
    assert store.get(other).state is State.SUCCEEDED
    check(store)


# Memory stays flat


def test_the_timeline_holds_no_more_than_twice_what_lives(store: MemoryStore) -> None:
    """A timeout that is set and taken back for each request: a million orphans, each due in an hour."""
    for round_ in range(200):
        for task in [draft(after(HOUR_S), later(round_), later(round_)) for _ in range(100)]:
            store.add(task, later(round_))
            store.cancel(task, later(round_))
    assert len(store.machine.timeline) <= SLACK
    check(store)


def test_orphans_do_not_outlive_what_was_due_before_them(store: MemoryStore) -> None:
    """Half of what is scheduled comes due, the other half was cancelled: nobody cancels again, and nobody cleans up."""
    tasks = [draft(after(1 if n % 2 else HOUR_S), NOON_US, NOON_US) for n in range(2_000)]
    store.add_many(tasks, NOON_US)
    for task in tasks[::2]:
        store.cancel(task, NOON_US)
    due(store, 1)
    check(store)


@pytest.mark.parametrize("how", ["run", "cancel", "doom"])
def test_no_more_finished_tasks_are_kept_than_was_said(how: str) -> None:
    """A scheduler that runs for a year ends a billion tasks."""
    store = MemoryStore(keep_finished=10)
    store.open()
    root = draft(None, NOON_US, NOON_US)
    if how == "doom":
        store.add(root, NOON_US)
    for _ in range(1_000):
        task = draft(None, NOON_US, NOON_US, parents=(root,) if how == "doom" else ())
        store.add(task, NOON_US)
        if how == "run":
            store.finish(taken(store, NOON_US), SUCCESS, NOON_US)
        elif how == "cancel":
            store.cancel(task, NOON_US)
    if how == "doom":
        store.finish(taken(store, NOON_US), Outcome(State.FAILED), NOON_US)
    check(store)
    assert len(store.tasks()) == 10


def test_a_forgotten_task_is_let_go_and_its_id_is_free(store: MemoryStore) -> None:
    """`keep_finished` is about memory: whoever holds a handle still gets an answer, and nobody else keeps the task."""
    small = MemoryStore(keep_finished=1)
    small.open()
    first = draft(None, NOON_US, NOON_US, "a")
    small.add(first, NOON_US)
    child = draft(None, NOON_US, NOON_US, "b", parents=(first,))
    small.add(child, NOON_US)
    for _ in range(2):
        small.finish(taken(small, NOON_US), SUCCESS, NOON_US)
    assert [info.id for info in small.tasks()] == ["b"]
    with pytest.raises(UnknownTask, match="keep_finished=1"):
        small.find("a")
    info = small.get(first)
    assert (info.id, info.state, info.children) == ("a", State.SUCCEEDED, ("b",))
    assert small.get(child).parents == ("a",)
    assert [run.task_id for run in small.runs(first)] == ["a"]
    gone = weakref.ref(first._run) if hasattr(type(first._run), "__weakref__") else None
    small.add(draft(None, NOON_US, NOON_US, "a"), NOON_US)
    del first
    gc.collect()
    assert gone is None or gone() is None


def test_a_recurring_task_keeps_its_newest_runs(store: MemoryStore) -> None:
    """A heartbeat of a year is 30 million runs."""
    small = MemoryStore(keep_runs=3)
    small.open()
    beat = draft(every(seconds=1), NOON_US, NOON_US)
    small.add(beat, NOON_US)
    for second in range(1, 9):
        small.due(later(second), later(second))
        small.finish(taken(small, later(second)), SUCCESS, later(second))
    assert [run.due_us for run in small.runs(beat)] == [later(6), later(7), later(8)]
    check(small)


# Handing over


def test_two_parents_that_end_while_the_lock_is_taken_release_their_child_once() -> None:
    """Two workers finish at once, neither waits for the lock, and whoever has it settles for both on leaving."""
    store = MemoryStore(always_hold=False)
    store.open()
    parents = [draft(None, NOON_US, NOON_US) for _ in range(2)]
    store.add_many(parents, NOON_US)
    child = draft(None, NOON_US, NOON_US, parents=tuple(parents), run_if="any_succeeded")
    store.add(child, NOON_US)
    runs = [taken(store, NOON_US) for _ in parents]

    def meanwhile(kind: EventKind, *_: object) -> None:
        while runs:
            assert store.finish(runs.pop(), SUCCESS, NOON_US)
            assert store.ready_runs() == 0, "settled by one that does not hold the lock"

    store.listen(meanwhile, frozenset({EventKind.SCHEDULED}))
    store.add(draft(after(9), NOON_US, NOON_US), NOON_US)
    assert taken(store, NOON_US).task is child
    assert store.take(NOON_US) is None
    check(store)


def test_a_verb_that_raises_still_settles_what_was_handed_over() -> None:
    """The way out by an error is a way out as well: whoever handed over relies on it."""
    store = MemoryStore(always_hold=False)
    store.open()
    parent = draft(None, NOON_US, NOON_US)
    store.add(parent, NOON_US)
    child = draft(None, NOON_US, NOON_US, parents=(parent,))
    store.add(child, NOON_US)
    run = taken(store, NOON_US)

    def fail(kind: EventKind, *_: object) -> None:
        store.finish(run, SUCCESS, NOON_US)
        raise MemoryError

    store.listen(fail, frozenset({EventKind.SCHEDULED}))
    with pytest.raises(MemoryError):
        store.add(draft(after(9), NOON_US, NOON_US), NOON_US)
    assert store.get(child).state is State.READY
