"""A verb of the store fails at its n-th call, for n = 1, 2, ... until a run meets no failure: the dispatcher lives on.

In life: later stores talk to disks and networks. In memory: a MemoryError, or a defect of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.faults.clocks import PATIENCE_S, CountingClock
from tests.faults.world import World
from tests.observe.observers import Keeper
from tickless import EventKind, Scheduler, State, after, every
from tickless.stores.memory import MemoryStore

VERBS = ["due", "next_wake"]
"""What the dispatcher asks in its turn."""


def failing(verb: str, fails: Callable[[int], BaseException | None]) -> tuple[type[MemoryStore], list[int]]:
    """A memory store whose `verb` raises what `fails(n)` gives for its n-th call; and the failures, as they come."""
    calls, failures = [0], []
    plain = getattr(MemoryStore, verb)

    def verb_that_may_fail(self: MemoryStore, *args: Any) -> Any:
        calls[0] += 1
        error = fails(calls[0])
        if error is not None:
            failures.append(calls[0])
            raise error
        return plain(self, *args)

    return type("Failing", (MemoryStore,), {verb: verb_that_may_fail}), failures


def nth(n: int, error: BaseException) -> Callable[[int], BaseException | None]:
    return lambda call: error if call == n else None


def five_tasks(world: World) -> None:
    """Tasks of all kinds within the first seconds."""
    schedule = world.scheduler.schedule
    schedule(world.note("one"), after(1))
    first = schedule(world.note("two"), after(2))
    schedule(world.note("child"), after_tasks=[first])
    schedule(world.note("both"), after(1), after_tasks=[first])
    beat = schedule(world.note("beat"), every(seconds=1.5))
    schedule(beat.cancel, after(4))


@pytest.mark.parametrize("verb", VERBS)
def test_the_nth_call_fails_and_every_task_runs_all_the_same(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a back-off it is late, and never lost: P9. `add` fails to its caller, who then knows."""
    met = 0
    for n in range(1, 200):
        store, failures = failing(verb, nth(n, OSError("gone")))
        monkeypatch.setattr("tickless.scheduler.MemoryStore", store)
        world = World(start=False)
        world.scheduler.start()
        try:
            five_tasks(world)
        except OSError:
            continue  # the look after a schedule asks `take_ring`, too: its caller hears of it
        world.clock.advance(100)
        assert sorted(set(world.story)) == ["beat", "both", "child", "one", "two"], f"call {n} of {verb}"
        assert {info.state for info in world.scheduler.tasks()} <= {State.SUCCEEDED, State.CANCELLED}
        world.scheduler.close()
        if not failures:
            break
        met += 1
        assert any("gone" in str(event.error) for event in world.events if event.kind is EventKind.TROUBLE)
    assert met > 3


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_fails_for_a_minute_is_asked_again_later_and_later(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a busy loop nor a pause without end; and one line of trouble for each attempt."""
    broken = [False]
    store, failures = failing(verb, lambda call: OSError("gone") if broken[0] else None)
    monkeypatch.setattr("tickless.scheduler.MemoryStore", store)
    world = World()
    task = world.scheduler.schedule(world.timed("late"), after(1))
    broken[0] = True
    world.clock.advance(60)
    attempts = len(failures)
    assert 5 <= attempts <= 20
    broken[0] = False
    world.clock.advance(60)
    assert world.scheduler.get(task).state is State.SUCCEEDED
    assert world.elapsed_s == 120
    assert len([event for event in world.events if event.kind is EventKind.TROUBLE]) == attempts


@pytest.mark.parametrize("error", [OSError("gone"), MemoryError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("verb", VERBS)
def test_the_thread_of_the_dispatcher_outlives_any_error(
    verb: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BUG-003: a thread that has died looks like an idle one, until somebody asks why nothing runs."""
    armed = [False]

    def once(call: int) -> BaseException | None:
        if armed[0]:
            armed[0] = False
            return error
        return None

    store, failures = failing(verb, once)
    monkeypatch.setattr("tickless.scheduler.MemoryStore", store)
    clock, keeper = CountingClock(), Keeper([EventKind.TROUBLE])
    with ThreadPoolExecutor(1) as pool, Scheduler(pool, clock=clock, observers=[keeper]) as scheduler:
        task = scheduler.schedule(int, after(10))
        clock.await_sleep(10)
        armed[0] = True
        clock.go_to(10)
        retry = clock.await_waits(3)[2]
        if retry is not None:  # it backs off; had the run gone to the pool before, there is nothing to wait for
            clock.go_to(retry)
        assert task.wait(PATIENCE_S)
        assert failures
    assert type(error).__name__ in str(keeper.batches[0][0].error)


def test_an_add_that_fails_is_the_callers_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """BUG-002: no ghost in the heap."""
    store, _ = failing("add", nth(2, OSError("disk full")))
    monkeypatch.setattr("tickless.scheduler.MemoryStore", store)
    world = World()
    world.scheduler.schedule(world.note("one"), after(1), id="one")
    with pytest.raises(OSError, match="disk full"):
        world.scheduler.schedule(world.note("two"), after(1), id="two")
    assert [info.id for info in world.scheduler.tasks()] == ["one"]
    world.scheduler.schedule(world.note("two"), after(1), id="two")
    world.clock.advance(1)
    assert world.story == ["one", "two"]


def test_a_take_that_fails_once_costs_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drainer dies, gives its slot back, and the next one takes the run."""
    store, failures = failing("take", nth(3, OSError("gone")))
    monkeypatch.setattr("tickless.scheduler.MemoryStore", store)
    world = World()
    for n in range(5):
        world.scheduler.schedule(world.note(n), after(1))
    world.clock.advance(5)
    assert failures
    assert world.story == [0, 1, 2, 3, 4]
