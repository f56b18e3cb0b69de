"""Parents and children: by counting, by work list, exactly once, whatever order things end in."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.world import PATIENCE_S, World, fail
from tickless import Call, EventKind, Reason, Scheduler, State, Task, after, at, every
from tickless.instants import datetime_of
from tickless.testing import ManualPool

ENDS = ["succeeded", "failed", "cancelled", "doomed", "failed parent", "cancelled parent"]


def nothing() -> None: ...


def ending(world: World, end: str, second: float, id: str | None = None) -> Task[Any]:
    """A task that ends in that way at that second; see ENDS. The last two are SKIPPED because of a parent of theirs."""
    schedule = world.scheduler.schedule
    if end == "cancelled":
        task = schedule(nothing, after(10_000), id=id)
        schedule(task.cancel, after(second))
        return task
    if end in ("failed parent", "doomed"):
        return schedule(nothing, after_tasks=[schedule(fail, after(second))], id=id)
    if end == "cancelled parent":
        return schedule(nothing, after_tasks=[ending(world, "cancelled", second)], id=id)
    return schedule(fail if end == "failed" else nothing, after(second), id=id)


BAD = {"failed": "f", "doomed": "f", "failed parent": "f", "cancelled": "c", "cancelled parent": "c", "succeeded": "s"}
"""How an end counts: a skip as what caused it."""


def expected(run_if: str, ends: tuple[str, ...]) -> State:
    """The meaning of `run_if`, by brute force over the ends as a set."""
    kinds = {BAD[end] for end in ends}
    runs = {
        "all_succeeded": kinds == {"s"},
        "all_done": True,
        "any_succeeded": "s" in kinds,
        "any_failed": "f" in kinds,
        "none_failed": "f" not in kinds,
    }[run_if]
    return State.SUCCEEDED if runs else State.SKIPPED


RUN_IFS = ["all_succeeded", "all_done", "any_succeeded", "any_failed", "none_failed"]


@pytest.mark.parametrize("run_if", RUN_IFS)
@pytest.mark.parametrize("when", ["before", "together", "one by one"])
def test_every_run_if_decides_by_how_the_parents_ended_and_not_by_their_order(run_if: str, when: str) -> None:
    """BUG-058. All pairs of ends, with parents that ended before, at one instant, and one after the other."""
    for ends in itertools.product(ENDS, repeat=2):
        world = World()
        seconds = {"before": (1, 1), "together": (3, 3), "one by one": (3, 4)}[when]
        parents = [ending(world, end, second) for end, second in zip(ends, seconds, strict=True)]
        world.clock.advance(2)
        child = world.scheduler.schedule(world.note("ran"), after_tasks=parents, run_if=run_if)
        world.clock.advance(5)
        state = child.state
        assert state is expected(run_if, ends), (ends, child.reason)
        assert world.story == ["ran"] * (state is State.SUCCEEDED), ends
        ended = [kind for kind in world.kinds(child.id) if kind.value in ("succeeded", "skipped")]
        assert len(ended) == 1, ends


@pytest.mark.parametrize(
    ("run_if", "ends", "second"),
    [
        ("all_succeeded", ("succeeded", "succeeded"), 2),
        ("all_succeeded", ("failed", "succeeded"), 1),
        ("all_succeeded", ("cancelled", "succeeded"), 1),
        ("all_done", ("failed", "failed"), 2),
        ("any_succeeded", ("succeeded", "failed"), 1),
        ("any_succeeded", ("failed", "failed"), 2),
        ("any_failed", ("failed", "succeeded"), 1),
        ("any_failed", ("succeeded", "succeeded"), 2),
        ("none_failed", ("succeeded", "cancelled"), 2),
        ("none_failed", ("failed", "succeeded"), 1),
    ],
)
def test_a_child_is_decided_as_soon_as_it_can_be(run_if: str, ends: tuple[str, str], second: float) -> None:
    """Doomed by the first, released by the first, or at the last: see DESIGN."""
    world = World()
    parents = [ending(world, end, n) for n, end in enumerate(ends, start=1)]
    child = world.scheduler.schedule(nothing, after_tasks=parents, run_if=run_if)
    world.clock.advance(second - 0.001)
    assert child.state is State.PENDING
    world.clock.advance(0.001)
    run = child.last_run
    assert run is not None
    assert world.second(run.finished) == second


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("failed", Reason.PARENT_FAILED),
        ("cancelled", Reason.PARENT_CANCELLED),
        ("failed parent", Reason.PARENT_FAILED),
        ("cancelled parent", Reason.PARENT_CANCELLED),
    ],
)
def test_the_reason_of_a_skip_names_what_became_of_the_parent(end: str, reason: Reason) -> None:
    world = World()
    child = world.scheduler.schedule(nothing, after_tasks=[ending(world, end, 1)])
    world.clock.advance(1)
    assert (child.state, child.reason) == (State.SKIPPED, reason)


# Shapes


def test_a_chain_of_ten_thousand_runs_in_order_without_recursion() -> None:
    world = World(start=False)
    tasks = [world.scheduler.schedule(world.note(0))]
    for n in range(1, 10_000):
        tasks.append(world.scheduler.schedule(world.note(n), after_tasks=[tasks[-1]]))
    world.scheduler.start()
    assert world.story == list(range(10_000))
    assert tasks[-1].state is State.SUCCEEDED


@pytest.mark.parametrize("end", ["fail", "cancel", "close"])
def test_a_chain_of_ten_thousand_that_loses_its_head_is_decided_without_recursion(end: str) -> None:
    world = World(keep_finished=20_000)
    head = world.scheduler.schedule(fail if end == "fail" else nothing, after(1))
    last = head
    for _ in range(10_000):
        last = world.scheduler.schedule(world.note("never"), after_tasks=[last])
    ends: dict[str, Callable[[], object]] = {
        "fail": lambda: world.clock.advance(1),
        "cancel": head.cancel,
        "close": world.scheduler.close,
    }
    ends[end]()
    assert world.story == []
    state = State.CANCELLED if end == "close" else State.SKIPPED
    assert {info.state for info in world.scheduler.tasks()[1:]} == {state}
    assert last.state is state


def test_a_chain_of_ten_thousand_is_freed_without_recursion() -> None:
    """A chain of objects that hold one another is freed recursively: that overflows the C stack."""
    world = World(start=False)
    last: Task[list[Any]] = world.scheduler.schedule(list)
    for _ in range(10_000):
        last = world.scheduler.schedule(list, args=(last.output,))
    del last
    world.scheduler.close()
    del world
    gc.collect()


def test_a_ladder_of_diamonds_releases_each_child_once() -> None:
    """BUG-058: two paths to each, a thousand levels deep; 2**1000 paths in all."""
    world = World(start=False)
    top = world.scheduler.schedule(world.note("top"))
    for level in range(1_000):
        left = world.scheduler.schedule(world.note((level, "left")), after_tasks=[top])
        right = world.scheduler.schedule(world.note((level, "right")), after_tasks=[top])
        top = world.scheduler.schedule(world.note((level, "end")), after_tasks=[left, right])
    world.scheduler.start()
    assert world.story == ["top"] + [(level, what) for level in range(1_000) for what in ("left", "right", "end")]


def test_a_ladder_of_diamonds_whose_top_fails_skips_each_child_once() -> None:
    world = World()
    top = world.scheduler.schedule(fail, after(1))
    for _ in range(300):
        sides = [world.scheduler.schedule(nothing, after_tasks=[top]) for _ in range(2)]
        top = world.scheduler.schedule(nothing, after_tasks=sides)
    world.clock.advance(1)
    assert world.kinds().count(EventKind.SKIPPED) == 900
    assert top.reason is Reason.PARENT_FAILED


def test_a_fan_of_ten_thousand_out_and_in_runs_once_each() -> None:
    world = World(start=False, keep_finished=20_000)
    source = world.scheduler.schedule(world.note("source"))
    fan = [world.scheduler.schedule(world.note(n), after_tasks=[source]) for n in range(10_000)]
    sink = world.scheduler.schedule(world.note("sink"), after_tasks=fan)
    world.scheduler.start()
    assert world.story == ["source", *range(10_000), "sink"]
    assert len(sink.parents) == 10_000


def test_two_parents_that_finish_at_once_on_two_workers_release_the_child_once() -> None:
    """Each sees the other as unfinished, or both see the last: then the child never runs, or twice."""
    counts = [0] * 500

    def count(n: int) -> None:
        counts[n] += 1

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool, Scheduler(pool, observers=[]) as scheduler:
            for n in range(500):
                together = threading.Barrier(2)
                parents = [scheduler.schedule(together.wait, args=(PATIENCE_S,)) for _ in range(2)]
                scheduler.schedule(count, args=(n,), after_tasks=parents)
            assert scheduler.wait(PATIENCE_S)
    finally:
        sys.setswitchinterval(before)
    assert counts == [1] * 500


def test_a_child_that_is_linked_while_its_parent_ends_runs_once() -> None:
    """BUG-055: the check and the registration are one step."""
    counts = [0] * 2_000

    def count(n: int) -> None:
        counts[n] += 1

    with Scheduler(slots=2, observers=[]) as scheduler:
        for n in range(2_000):
            scheduler.schedule(count, args=(n,), after_tasks=[scheduler.schedule(nothing)])
        assert scheduler.wait(PATIENCE_S)
    assert counts == [1] * 2_000


# Parents that have ended; ids


def test_a_parent_may_be_named_by_its_id_or_its_number() -> None:
    world = World()
    world.scheduler.schedule(world.note("p"), after(1), id="p")
    numbered = world.scheduler.schedule(world.note("n"), after(1))
    child = world.scheduler.schedule(world.note("child"), after_tasks=["p", numbered.id])
    assert child.parents == ("p", numbered.id)
    world.clock.advance(1)
    assert world.story == ["p", "n", "child"]


def test_kin_are_told_by_id_also_when_all_have_ended() -> None:
    world = World()
    parent = world.scheduler.schedule(nothing, after(1), id="p")
    children = [world.scheduler.schedule(nothing, after_tasks=["p"], id=f"c{n}") for n in range(3)]
    for _ in range(2):
        assert parent.children == ("c0", "c1", "c2")
        assert [child.parents for child in children] == [("p",)] * 3
        world.clock.advance(1)


def test_a_recurring_parent_that_has_ended_is_a_parent_like_any_other() -> None:
    """While it recurs it is refused: which of its runs would count? See tests/test_drafts.py."""
    world = World()
    beat = world.scheduler.schedule(nothing, every(seconds=1), id="beat")
    world.clock.advance(1)
    beat.cancel()
    child = world.scheduler.schedule(nothing, after_tasks=[beat], run_if="all_done")
    assert child.state is State.SUCCEEDED


def test_a_child_may_be_cancelled_while_it_waits_and_its_parents_do_not_care() -> None:
    world = World()
    parent = world.scheduler.schedule(world.note("p"), after(1))
    child = world.scheduler.schedule(world.note("never"), after_tasks=[parent])
    grandchild = world.scheduler.schedule(world.note("never"), after_tasks=[child])
    other = world.scheduler.schedule(world.note("other"), after_tasks=[parent])
    assert child.cancel()
    assert (grandchild.state, grandchild.reason) == (State.SKIPPED, Reason.PARENT_CANCELLED)
    world.clock.advance(1)
    assert world.story == ["p", "other"]
    assert other.state is State.SUCCEEDED


def test_a_parent_that_is_cancelled_while_it_runs_counts_by_how_it_ends() -> None:
    pool = ManualPool()
    world = World(pool)
    parent = world.scheduler.schedule(lambda: world.scheduler.cancel("p"), id="p")
    child = world.scheduler.schedule(world.note("child"), after_tasks=[parent])
    pool.run_all()
    assert world.story == ["child"], "its outcome stands: it succeeded"
    assert child.state is State.SUCCEEDED


# A rule on the child


def test_a_rule_on_the_child_counts_from_the_moment_the_last_parent_lets_go() -> None:
    world = World()
    parents = [world.scheduler.schedule(nothing, after(n)) for n in (1, 3)]
    child = world.scheduler.schedule(world.timed("after"), after(10), after_tasks=parents)
    assert child.next_fire is None, "nobody knows yet"
    past = datetime_of(world.start_us)
    world.scheduler.schedule(world.timed("past"), at(past), after_tasks=parents)
    world.scheduler.schedule(world.timed("every"), every(seconds=4), after_tasks=parents)
    world.clock.advance(3)
    assert world.second(child.next_fire) == 13
    world.clock.advance(9)
    assert world.story == [("past", 3), ("every", 7), ("every", 11)]
    world.clock.advance(1)
    assert world.story[3:] == [("after", 13)]


def test_a_past_rule_on_the_child_is_no_misfire() -> None:
    world = World()
    parent = world.scheduler.schedule(nothing, after(5))
    child = world.scheduler.schedule(nothing, at(datetime_of(world.start_us)), after_tasks=[parent])
    world.clock.advance(5)
    run = child.last_run
    assert run is not None
    assert (run.state, world.second(run.due)) == (State.SUCCEEDED, 5)


def test_a_doomed_child_with_a_rule_never_fires() -> None:
    world = World()
    parent = world.scheduler.schedule(fail, after(1))
    child = world.scheduler.schedule(world.note("never"), every(seconds=1), after_tasks=[parent])
    world.clock.advance(10)
    assert world.story == []
    assert (child.state, child.reason) == (State.SKIPPED, Reason.PARENT_FAILED)


# Memory


class Big:
    """An output that can be watched."""


def test_a_chain_does_not_keep_its_ancestors() -> None:
    """In life: a task that schedules its successor for ever. Only the last handle is held."""
    world = World()
    outputs: list[weakref.ref[Big]] = []

    def make(*_: Any) -> Big:
        big = Big()
        outputs.append(weakref.ref(big))
        return big

    last = world.scheduler.schedule(make)
    for _ in range(100):
        last = world.scheduler.schedule(make, args=(last.output,))
    assert [ref() is not None for ref in outputs] == [False] * 100 + [True]
    assert isinstance(last.result(), Big)


def test_an_output_lives_as_long_as_a_child_that_waits_for_it() -> None:
    world = World()
    parent = world.scheduler.schedule(Big)
    output = weakref.ref(parent.result())
    child = world.scheduler.schedule(lambda big: type(big).__name__, after(5), args=(parent.output,))
    del parent
    gc.collect()
    assert output() is not None
    world.clock.advance(5)
    assert child.result() == "Big"
    gc.collect()
    assert output() is None


@pytest.mark.parametrize("end", ["cancel", "doom"])
def test_a_child_that_will_not_run_lets_the_output_go_at_once(end: str) -> None:
    world = World()
    parent = world.scheduler.schedule(Big)
    output = weakref.ref(parent.result())
    broken = world.scheduler.schedule(fail, after(1))
    child = world.scheduler.schedule(print, args=(parent.output,), after_tasks=[broken])
    del parent
    if end == "cancel":
        child.cancel()
    else:
        world.clock.advance(1)
    assert child.state in (State.CANCELLED, State.SKIPPED)
    gc.collect()
    assert output() is None


def test_ten_thousand_ended_parents_of_a_batch_count_at_once() -> None:
    world = World(keep_finished=20_000)
    parents = world.scheduler.schedule_many([Call(nothing, id=f"p{n}") for n in range(10_000)])
    assert world.scheduler.schedule(nothing, after_tasks=parents).state is State.SUCCEEDED


def test_a_list_of_parents_beside_arguments_says_what_any_other_iterable_says() -> None:
    """The short way that most nodes of a graph take must not lose an argument, a parent or an output."""
    world = World()
    seen: list[object] = []
    first = world.scheduler.schedule(lambda: "out", after(1))
    second = world.scheduler.schedule(lambda: None, after(2))

    def note(*args: object) -> None:
        seen.append(args)

    both: list[Task[Any]] = [first, second, first]
    for listed in (list, tuple):
        child = world.scheduler.schedule(note, args=(1, "x"), after_tasks=listed(both))
        assert child.parents == (first.id, second.id)
    for listed in (list, tuple):
        child = world.scheduler.schedule(note, args=(first.output, [first.output]), after_tasks=listed([second]))
        assert set(child.parents) == {first.id, second.id}
    world.scheduler.schedule(note, args=(0,), after_tasks=[])
    world.clock.advance(0)
    assert seen == [(0,)]
    world.clock.advance(2)
    assert seen[1:] == [(1, "x"), (1, "x"), ("out", ["out"]), ("out", ["out"])]
