"""Any order of the store's verbs, each promise checked after each: Hypothesis plays scheduler, workers and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.properties.oracle import Shadow, waited_for, would_be_waited_for_ever
from tests.properties.whens import Kind, S, When
from tests.properties.world import OUTCOMES, World
from tests.strategies import NOW
from tickless.errors import DependencyError, DuplicateId, SchedulerClosed
from tickless.instants import Instant
from tickless.rules import after
from tickless.states import Exists, RunIf
from tickless.stores import Store
from tickless.stores.memory import MemoryStore
from tickless.testing.drafts import draft

IDS = ("a", "b", "c")
picks = st.integers(0, 7)
"""Which of several: taken modulo how many there are, so that any number will do."""
spans = st.sampled_from([0, 1, 999_999, S, 2 * S, 3 * S, 5 * S, 10 * S, 100 * S, 5_000 * S])
steps = st.sampled_from([100_000, -100_000, 200_000, S, -S, 3_600 * S, -3_600 * S, 86_400 * S, -4 * 3_600 * S])
priorities = st.sampled_from([0, 0, 0, 1, -1])
run_ifs = st.sampled_from([str(run_if) for run_if in RunIf])
outcomes = st.sampled_from(sorted(OUTCOMES))


@st.composite
def whens(draw: st.DrawFn) -> When:
    kind: Kind = draw(st.sampled_from(["now", "now", "after", "at", "every", "every", "sliding", "anchored", "own"]))
    if kind == "at":
        return When(kind, NOW + draw(st.integers(-1, 20)) * S)
    if kind == "own":
        return When(kind, draw(st.integers(3, 60)) * S, draw(st.sampled_from([S, 3 * S])))
    return When(
        kind, draw(st.sampled_from([S, 2 * S, 3 * S, 10 * S])) - (kind == "after") * draw(st.integers(0, 1)) * S
    )


class StoreMachine(RuleBasedStateMachine):
    """The verbs. What is drawn says which task or run, never how it must end: the oracle knows that."""

    make_store: Callable[[], Store] = MemoryStore

    @initialize(is_open=st.booleans())
    def begin(self, is_open: bool) -> None:
        self.world = self.make_world(is_open)

    def make_world(self, is_open: bool) -> World:
        return World(type(self).make_store, is_open=is_open)

    @property
    def closed(self) -> bool:
        return self.world.oracle.is_closed

    def pick(self, number: int, tasks: list[Shadow]) -> Shadow:
        return tasks[number % len(tasks)]

    def named(self) -> list[Shadow]:
        return [shadow for shadow in self.world.oracle.named.values() if shadow.place != "ended"]

    def counted_from_now(self, when: When) -> When:
        return replace(when, us=when.us + self.world.now) if when.kind == "own" else when

    def parents(self, numbers: list[int]) -> list[Shadow]:
        """Some of the tasks that may be parents: any but those that recur."""
        able = [s for s in self.world.oracle.shadows if s.place == "ended" or not s.when.recurring]
        return list(dict.fromkeys(self.pick(number, able[-8:]) for number in numbers if able))

    # Scheduling

    @precondition(lambda self: not self.closed)
    @rule(when=whens(), priority=priorities, numbers=st.lists(picks, max_size=3), run_if=run_ifs)
    def schedule(self, when: When, priority: int, numbers: list[int], run_if: str) -> None:
        self.world.add(Shadow(self.counted_from_now(when), None, priority, self.parents(numbers), run_if))

    @precondition(lambda self: not self.closed)
    @rule(whens=st.lists(whens(), min_size=2, max_size=4), links=st.lists(picks, max_size=4), run_if=run_ifs)
    def schedule_batch(self, whens: list[When], links: list[int], run_if: str) -> None:
        """Each link makes one of the batch wait for another, whichever comes first; what recurs is nobody's parent."""
        batch = [Shadow(self.counted_from_now(when), run_if=run_if) for when in whens]
        order = sorted(batch, key=lambda shadow: batch.index(shadow) * 3 % 4)
        for link in links:
            child, parent = order[link % len(order)], order[link // 2 % len(order)]
            if order.index(parent) < order.index(child) and not parent.when.recurring and parent not in child.parents:
                child.parents.append(parent)
        self.world.add_linked(batch)

    @precondition(lambda self: not self.closed)
    @rule(
        id=st.sampled_from(IDS),
        when=whens(),
        numbers=st.lists(picks, max_size=1),
        exists=st.sampled_from(["keep", "update"]),
    )
    def schedule_by_id(self, id: str, when: When, numbers: list[int], exists: Exists) -> None:
        parents = [parent for parent in self.parents(numbers) if parent.id != id]
        new = Shadow(self.counted_from_now(when), id, 0, parents)
        there = self.world.oracle.named.get(id)
        if exists == "update" and there is not None and would_be_waited_for_ever(there, new):
            self.world.refused(DependencyError, [self.world.record_of(new)], exists)
        elif exists == "keep" or there is None or there not in waited_for(new):
            self.world.add(new, exists=exists)
        elif there.place in ("timeline", "waiting") and not there.history:
            # It would take the place of one that its own parents wait for, and the message would call that a cycle.
            self.world.refused(DependencyError, [self.world.record_of(new)], exists)

    @precondition(lambda self: not self.closed and self.named())
    @rule(number=picks, when=whens())
    def update_one_that_lives(self, number: int, when: When) -> None:
        """Wherever it is: in the timeline, ready, in the middle of a run."""
        there = self.pick(number, self.named())
        new = Shadow(self.counted_from_now(when), there.id)
        if would_be_waited_for_ever(there, new):
            self.world.refused(DependencyError, [self.world.record_of(new)], "update")
        else:
            self.world.add(new, exists="update")

    @precondition(lambda self: not self.closed and self.world.oracle.at_place("running"))
    @rule(number=picks, outcome=outcomes, run_if=run_ifs)
    def a_parent_ends_while_its_child_is_scheduled(self, number: int, outcome: str, run_if: str) -> None:
        parent = self.pick(number, self.world.oracle.at_place("running"))
        parents = [] if parent.when.recurring else [parent]
        self.world.add(Shadow(When(), parents=parents, run_if=run_if), meanwhile=(parent, outcome))

    @precondition(lambda self: not self.closed and self.world.oracle.at_place("running"))
    @rule(number=picks, other=picks, outcome=outcomes, another=outcomes)
    def two_end_at_once(self, number: int, other: int, outcome: str, another: str) -> None:
        """Two workers find the lock taken, and hand over to whoever has it."""
        running = self.world.oracle.at_place("running")
        pair = {self.pick(number, running): outcome, self.pick(other, running): another}
        self.world.finish_together(list(pair.items()))

    @rule(number=picks)
    def schedule_what_is_refused(self, number: int) -> None:
        now = Instant(self.world.now)
        named = [id for id, task in self.world.oracle.named.items()]
        ring = [draft(None, now, now, f"r{n}", parents=(f"r{(n + 1) % 3}",)) for n in range(3)]
        recurring = [s.record for s in self.world.oracle.live() if s.recurring and s.fated is None]
        wrong: list[tuple[Any, list[Any]]] = [
            (DependencyError, [draft(None, now, now, "x", parents=("x",))]),
            (DependencyError, [draft(None, now, now), draft(None, now, now, parents=("nobody",))]),
            (DependencyError, [draft(None, now, now), *ring]),
            (DuplicateId, [draft(None, now, now, "x"), draft(after(1), now, now, "x")]),
            *[(DuplicateId, [draft(None, now, now), draft(None, now, now, id)]) for id in named],
            *[(DependencyError, [draft(None, now, now, parents=(task,))]) for task in recurring],
        ]
        error, records = wrong[number % len(wrong)]
        self.world.refused(SchedulerClosed if self.closed else error, records)

    @precondition(lambda self: not self.closed)
    @rule(count=st.sampled_from([40, 70]), far=st.booleans())
    def a_storm_of_cancels(self, count: int, far: bool) -> None:
        """Many are scheduled and taken back: what they leave behind must not pile up."""
        self.world.storm(count, 1_000 * S if far else 0)

    # Time

    @rule(us=spans, limit=st.sampled_from([1, 2, 1024]))
    def time_passes(self, us: int, limit: int) -> None:
        self.world.pass_time(us)
        self.world.due(limit)

    @rule(us=spans)
    def time_passes_and_nobody_looks(self, us: int) -> None:
        self.world.pass_time(us)

    @rule(before=st.sampled_from([0, 1]))
    def sleep_until_the_next_wake(self, before: int) -> None:
        """To the microsecond, or one short of it."""
        wake = self.world.next_wake()
        if wake is not None and wake - before > self.world.now:
            self.world.pass_time(wake - before - self.world.now)
            self.world.due()

    @rule()
    def look_at_the_next_wake(self) -> None:
        self.world.next_wake()

    @rule(us=steps)
    def the_wall_clock_is_set(self, us: int) -> None:
        self.world.step_wall(us)

    # Runs

    @precondition(lambda self: self.world.oracle.at_place("ready"))
    @rule()
    def take(self) -> None:
        self.world.take()

    @precondition(lambda self: self.world.oracle.at_place("running"))
    @rule(number=picks, outcome=outcomes)
    def finish(self, number: int, outcome: str) -> None:
        self.world.finish(self.pick(number, self.world.oracle.at_place("running")), outcome)

    @rule(outcome=outcomes, times=st.integers(1, 4))
    def a_worker_takes_and_finishes(self, outcome: str, times: int) -> None:
        for _ in range(times):
            taken = self.world.take()
            if taken is not None:
                self.world.finish(taken, outcome)

    @rule()
    def the_pool_takes_nothing(self) -> None:
        self.world.reject()

    @precondition(lambda self: any(s.when.kind == "own" for s in self.world.oracle.live()))
    @rule(number=picks, how=st.sampled_from(["raises", "lies"]))
    def a_users_rule_breaks(self, number: int, how: Any) -> None:
        own = [s for s in self.world.oracle.live() if s.when.kind == "own"]
        self.pick(number, own).when.box.breaks = how

    # From outside

    @precondition(lambda self: self.world.oracle.shadows)
    @rule(number=st.integers(0, 40))
    def cancel(self, number: int) -> None:
        self.world.cancel(self.pick(number, self.world.oracle.shadows))

    @precondition(lambda self: self.world.oracle.live())
    @rule(number=picks)
    def cancel_one_that_lives(self, number: int) -> None:
        self.world.cancel(self.pick(number, self.world.oracle.live()))

    @rule(number=picks, all_of_them=st.booleans())
    def somebody_waits(self, number: int, all_of_them: bool) -> None:
        shadows = self.world.oracle.shadows
        self.world.wait_for(None if all_of_them or not shadows else self.pick(number, shadows))

    @precondition(lambda self: self.world.waiters)
    @rule(number=picks)
    def somebody_gives_up_waiting(self, number: int) -> None:
        self.world.give_up(number % len(self.world.waiters))

    @precondition(lambda self: len(self.world.oracle.shadows) > 4 and not self.closed)
    @rule(sure=st.sampled_from([False, False, True]))
    def close(self, sure: bool) -> None:
        if sure:
            self.world.close()

    @rule()
    def open(self) -> None:
        if not self.closed:
            self.world.open()


class HoldingMachine(StoreMachine):
    """The store as it is without the GIL."""

    make_store = staticmethod(lambda: MemoryStore(always_hold=True))


@pytest.mark.parametrize("machine", [StoreMachine, HoldingMachine])
def test_the_promises_hold_after_any_verbs_in_any_order(machine: type[StoreMachine]) -> None:
    """Each promise is easy to keep in one verb, and hard in all orders of them: that is where tasks get lost."""
    run_state_machine_as_test(machine, settings=settings())
