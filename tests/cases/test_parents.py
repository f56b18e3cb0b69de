"""Dependencies: when a child is decided, how often, and what is refused."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases.kit import PATIENCE_S, inline
from tickless import Call, DependencyError, Reason, RunIf, Scheduler, State, Stopped, Task, after, every
from tickless.testing import FakeClock, ManualPool

S, F, C, K = State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED
RUNS = (S, None)
"""How a child ends that was let go."""

# How the parent ended -> run_if -> (the child's state, its reason).
CHILD: dict[State, dict[str, tuple[State, Reason | None]]] = {
    S: {
        "all_succeeded": RUNS,
        "all_done": RUNS,
        "any_succeeded": RUNS,
        "any_failed": (K, Reason.RUN_IF),
        "none_failed": RUNS,
    },
    F: {
        "all_succeeded": (K, Reason.PARENT_FAILED),
        "all_done": RUNS,
        "any_succeeded": (K, Reason.PARENT_FAILED),
        "any_failed": RUNS,
        "none_failed": (K, Reason.PARENT_FAILED),
    },
    C: {
        "all_succeeded": (K, Reason.PARENT_CANCELLED),
        "all_done": RUNS,
        "any_succeeded": (K, Reason.PARENT_CANCELLED),
        "any_failed": (K, Reason.RUN_IF),
        "none_failed": RUNS,
    },
    K: {
        "all_succeeded": (K, Reason.PARENT_SKIPPED),
        "all_done": RUNS,
        "any_succeeded": (K, Reason.PARENT_SKIPPED),
        "any_failed": (K, Reason.RUN_IF),
        "none_failed": RUNS,
    },
}


def fail() -> None:
    raise ValueError("broken")


def outcome(task: Task[Any]) -> tuple[State, Reason | None]:
    info = task.info
    return info.state, info.reason


def parent_that_is(scheduler: Scheduler, state: State) -> Task[Any]:
    """A parent that has ended so. The skipped one is skipped for a reason of its own, which is neutral."""
    if state is State.SUCCEEDED:
        return scheduler.schedule(int)
    if state is State.FAILED:
        return scheduler.schedule(fail)
    if state is State.SKIPPED:
        return scheduler.schedule(int, after_tasks=[scheduler.schedule(int)], run_if="any_failed")
    parent: Task[Any] = scheduler.schedule(int, after(60))
    parent.cancel()
    return parent


@pytest.mark.parametrize("run_if", RunIf)
@pytest.mark.parametrize("ended", [S, F, C, K])
def test_BUG_055_child_of_a_parent_that_has_ended_is_decided_at_once(ended: State, run_if: str) -> None:
    """In life: the parent ended just before, nobody will ever tell the child, and it waits for ever."""
    with inline() as (scheduler, _):
        parent = parent_that_is(scheduler, ended)
        assert parent.state is ended
        assert outcome(scheduler.schedule(int, after_tasks=[parent], run_if=run_if)) == CHILD[ended][run_if]


@pytest.mark.parametrize("run_if", RunIf)
@pytest.mark.parametrize("ends", [S, F])
@pytest.mark.parametrize("is_", [State.PENDING, State.READY, State.RUNNING])
def test_BUG_055_child_of_a_parent_that_has_not_ended_waits_for_it(is_: State, ends: State, run_if: str) -> None:
    """In life: a parent that is known and has not run is ignored, and the child starts too early."""
    clock, pool = FakeClock(), ManualPool()
    children: list[Task[int]] = []
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:

        def add_child() -> None:
            children.append(scheduler.schedule(int, after_tasks=[parent], run_if=run_if))
            assert outcome(children[0]) == (State.PENDING, None)

        def work() -> None:
            if is_ is State.RUNNING:
                assert parent.state is is_
                add_child()
            if ends is F:
                fail()

        parent = scheduler.schedule(work, after(60) if is_ is State.PENDING else None)
        if is_ is not State.RUNNING:
            assert parent.state is is_
            add_child()
        clock.advance(60)
        pool.run_all()
        assert outcome(children[0]) == CHILD[ends][run_if]


def test_BUG_055_child_that_is_added_while_its_parent_ends_runs_exactly_once() -> None:
    """In life: 0.1 to 0.4 % of the children wait for ever, under load only. 20,000 rounds on two workers."""
    counts: Counter[int] = Counter()
    with Scheduler(slots=2, observers=[], keep_finished=0) as scheduler:
        children = [
            scheduler.schedule(counts.update, args=([number],), after_tasks=[scheduler.schedule(int)])
            for number in range(20_000)
        ]
        assert scheduler.wait(PATIENCE_S)
        assert all(child.state == "succeeded" for child in children)
    assert set(counts.values()) == {1}
    assert len(counts) == 20_000


def test_BUG_055_child_that_another_thread_adds_while_its_parent_ends_runs_exactly_once() -> None:
    """In life: the same, where the add and the end meet at one moment. Parents and adds leave one barrier together."""
    counts: Counter[int] = Counter()
    gate = threading.Barrier(2)
    with Scheduler(slots=2, observers=[], keep_finished=0) as scheduler:
        for number in range(2_000):
            parent = scheduler.schedule(gate.wait)
            gate.wait()
            scheduler.schedule(counts.update, args=([number],), after_tasks=[parent])
        assert scheduler.wait(PATIENCE_S)
    assert set(counts.values()) == {1}
    assert len(counts) == 2_000


def end_as(state: State) -> Callable[[], None]:
    """The body of a task that ends so: cancelled means that it stops when asked."""

    def work() -> None:
        if state is F:
            fail()
        if state is C:
            raise Stopped

    return work


@pytest.mark.parametrize("run_if", RunIf)
@pytest.mark.parametrize(("b", "c"), list(itertools.product([S, F, C], repeat=2)))
def test_BUG_058_bottom_of_a_diamond_is_decided_once_and_the_order_does_not_matter(
    b: State, c: State, run_if: str
) -> None:
    """In life: the last task of a diamond runs twice, never, or as it happens to come."""
    ends = []
    for first in "bc":
        runs: list[str] = []
        pool = ManualPool()
        with Scheduler(pool, clock=FakeClock(), observers=[]) as scheduler:
            scheduler.schedule(int, id="a")
            for id, state in (("b", b), ("c", c)):
                work = end_as(state)
                scheduler.schedule(work, id=id, after_tasks=["a"], priority=int(id == first))
            d = scheduler.schedule(runs.append, args=("d",), after_tasks=["b", "c"], run_if=run_if)
            pool.run_all()
            assert (scheduler.get("b").state, scheduler.get("c").state) == (b, c)
            assert len(d.runs()) == 1
            assert len(runs) == (d.state is S)
            ends.append(d.state)
    assert ends[0] is ends[1]
    assert ends[0].terminal


@pytest.mark.parametrize("kind", ["inline", "threads"])
def test_BUG_058_each_node_of_a_ladder_of_diamonds_runs_once(kind: str) -> None:
    """In life: the counter of a child is taken down twice, and a level further down nothing adds up."""
    counts: Counter[str] = Counter()

    def ladder(scheduler: Scheduler) -> None:
        bottom = scheduler.schedule(counts.update, args=(["0"],))
        for level in range(1, 11):
            sides = [
                scheduler.schedule(counts.update, args=([f"{level}{side}"],), after_tasks=[bottom]) for side in "bc"
            ]
            bottom = scheduler.schedule(counts.update, args=([f"{level}d"],), after_tasks=sides)
        assert bottom.wait(PATIENCE_S)

    if kind == "inline":
        with inline() as (scheduler, _):
            ladder(scheduler)
    else:
        with Scheduler(slots=2, observers=[]) as scheduler:
            ladder(scheduler)
    assert len(counts) == 31
    assert set(counts.values()) == {1}


@pytest.mark.parametrize(
    ("parents_of", "count"),
    [
        (lambda p: [], 0),
        (lambda p: [p], 1),
        (lambda p: [p, p], 1),
        (lambda p: [p, p.id], 1),
        (lambda p: (parent for parent in [p]), 1),
        (lambda p: {p}, 1),
        (lambda p: (p.id,), 1),
        (lambda p: iter([p]), 1),
    ],
)
def test_BUG_059_every_way_to_name_parents_counts_each_once(parents_of: Callable[[Task[int]], Any], count: int) -> None:
    """In life: an empty list never fires, a single parent raises, and a parent named twice is waited for twice."""
    with inline() as (scheduler, clock):
        parent = scheduler.schedule(int, after(60), id="p")
        child = scheduler.schedule(int, after_tasks=parents_of(parent))
        assert child.parents == ("p",) * count
        assert child.state == ("pending" if count else "succeeded")
        clock.advance(60)
        assert child.state == "succeeded"
        assert len(child.runs()) == 1


@pytest.mark.parametrize("wrong", ["p", lambda p: p, lambda p: [[p]], lambda p: [None], lambda p: [3]])
def test_BUG_059_what_names_no_parents_is_refused(wrong: Any) -> None:
    """In life: a text is taken for a list of letters, and the child waits for tasks of one letter."""
    with inline() as (scheduler, _):
        parent = scheduler.schedule(int, after(60), id="p")
        before = scheduler.tasks()
        with pytest.raises(DependencyError, match="after_tasks"):
            scheduler.schedule(int, after_tasks=wrong(parent) if callable(wrong) else wrong)
        assert scheduler.tasks() == before


@pytest.mark.parametrize("length", [1, 2, 3, 5000])
def test_BUG_060_circle_is_refused_and_the_message_walks_it(length: int) -> None:
    """In life: it is accepted, waits for ever, and can not even be deleted."""
    with inline() as (scheduler, _):
        circle = [Call(int, id=f"t{n}", after_tasks=[f"t{(n + 1) % length}"]) for n in range(length)]
        with pytest.raises(DependencyError, match=r"cycle|cannot wait for itself") as refusal:
            scheduler.schedule_many([Call(int, id="good"), *circle])
        assert "t0" in str(refusal.value)
        assert len(str(refusal.value)) < 400, "a message for people"
        assert scheduler.tasks() == []


def test_BUG_060_task_cannot_wait_for_itself() -> None:
    """In life: it waits."""
    with inline() as (scheduler, _):
        with pytest.raises(DependencyError, match="'x'"):
            scheduler.schedule(int, id="x", after_tasks=["x"])
        assert scheduler.tasks() == []


@pytest.mark.parametrize("last", ["a", "b", "c"])
def test_BUG_060_circle_that_an_update_would_close_is_refused_and_nothing_has_changed(last: str) -> None:
    """In life: a is given a new parent that waits for a. Both wait for ever; or, worse, both are skipped in silence."""
    with inline() as (scheduler, clock):
        handles = {"a": scheduler.schedule(int, after(60), id="a")}
        handles["b"] = scheduler.schedule(int, id="b", after_tasks=["a"])
        handles["c"] = scheduler.schedule(int, id="c", after_tasks=["b"])
        before = scheduler.tasks()
        with pytest.raises(DependencyError, match=r"cycle|cannot wait for itself"):
            scheduler.schedule(int, id="a", after_tasks=[handles[last]], exists="update")
        assert scheduler.tasks() == before
        clock.advance(60)
        assert [info.state for info in scheduler.tasks()] == ["succeeded"] * 3


def test_BUG_060_running_task_may_ask_to_come_after_what_waits_for_it() -> None:
    """In life: a refusal of circles that takes the next round for one. The new task is another one, and comes later."""
    order: list[str] = []
    with inline() as (scheduler, _):

        def work() -> None:
            order.append("first")
            after_it = scheduler.schedule(order.append, args=("between",), after_tasks=["x"])
            scheduler.schedule(order.append, args=("again",), id="x", after_tasks=[after_it], exists="update")

        scheduler.schedule(work, id="x")
        assert order == ["first", "between", "again"]


def test_BUG_060_of_two_threads_that_close_a_circle_none_succeeds() -> None:
    """In life: each looks before the other has written, and the two wait for one another."""
    refused: list[str] = []
    with inline() as (scheduler, _):
        for _ in range(50):
            gate = threading.Barrier(2)

            def add(id: str, parent: str, gate: threading.Barrier = gate) -> None:
                gate.wait()
                try:
                    scheduler.schedule(int, id=id, after_tasks=[parent])
                except DependencyError:
                    refused.append(id)

            threads = [threading.Thread(target=add, args=pair) for pair in (("a", "b"), ("b", "a"))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(refused) == 100
        assert scheduler.tasks() == []


def test_BUG_062_cancel_skips_at_once_all_below_and_each_once() -> None:
    """In life: children run although their parent never did; or are orphans for ever; or vanish without a word."""
    clock, pool = FakeClock(), ManualPool(slots=2)
    with Scheduler(pool, clock=clock, observers=[]) as scheduler:
        states: list[tuple[State, Reason | None]] = []

        def while_q_runs() -> None:
            assert p.cancel()
            states.extend(outcome(task) for task in below)

        q = scheduler.schedule(while_q_runs, after(1))
        p = scheduler.schedule(int, after(60))
        one = scheduler.schedule(int, after_tasks=[p])
        two = scheduler.schedule(int, after_tasks=[p, q])
        three = scheduler.schedule(int, after_tasks=[one])
        four = scheduler.schedule(int, after_tasks=[one, two])
        five = scheduler.schedule(int, after_tasks=[four])
        other = scheduler.schedule(int, after_tasks=[q])
        alarm = scheduler.schedule(int, after_tasks=[p], run_if="all_done")
        below = [one, two, three, four, five]
        clock.advance(1)
        pool.run_all()
        assert states == [(K, Reason.PARENT_CANCELLED)] * 5, "and did not wait for q"
        assert [len(task.runs()) for task in below] == [1] * 5
        assert [outcome(task) for task in below] == states, "and q's end changed nothing"
        assert (other.state, alarm.state) == (S, S)


@pytest.mark.parametrize("stops", [True, False])
def test_BUG_062_children_of_a_running_task_are_decided_when_it_ends(stops: bool) -> None:
    """In life: cancel asks a running task to stop, it finishes, and its children have been skipped already."""
    pool = ManualPool()
    with Scheduler(pool, clock=FakeClock(), observers=[]) as scheduler:

        def work() -> None:
            assert p.cancel() == "asked"
            assert child.state is State.PENDING
            if stops:
                raise Stopped

        p = scheduler.schedule(work)
        child = scheduler.schedule(int, after_tasks=[p])
        pool.run_all()
        assert outcome(child) == ((K, Reason.PARENT_CANCELLED) if stops else RUNS)


@pytest.mark.parametrize("by_id", [False, True])
def test_BUG_063_recurring_parent_is_refused_with_what_to_do_instead(by_id: bool) -> None:
    """In life: only the parent recurs, and the child runs once or never again."""
    with inline() as (scheduler, clock):
        recurring = scheduler.schedule(int, every(seconds=1), id="p")
        released_later = scheduler.schedule(
            int, every(seconds=1), id="q", after_tasks=[scheduler.schedule(int, after(9))]
        )
        for parent in (recurring, released_later):
            with pytest.raises(DependencyError, match=f"'{parent.id}' is recurring"):
                scheduler.schedule(int, after_tasks=[parent.id if by_id else parent])
        assert recurring.cancel()
        assert outcome(scheduler.schedule(int, after_tasks=[recurring])) == (K, Reason.PARENT_CANCELLED)
        clock.advance(1)


def test_BUG_063_child_may_be_recurring_from_the_moment_its_parent_lets_go() -> None:
    """In life: a child that recurs starts before its parent, or only once."""
    with inline() as (scheduler, clock):
        parent = scheduler.schedule(int, after(10))
        child = scheduler.schedule(int, every(seconds=60), after_tasks=[parent])
        assert child.next_fire is None
        clock.advance(10 + 180)
        assert [run.state for run in child.runs()] == [S] * 3
