"""A store and the oracle side by side: each verb is told to both, and after each everything is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from tests.properties.oracle import Fire, Oracle, Shadow
from tests.properties.whens import S, When
from tests.strategies import NOW
from tickless.core.invariants import check
from tickless.core.record import key_of
from tickless.errors import TicklessError
from tickless.instants import Instant
from tickless.records import EventKind, Outcome, Run, TaskInfo
from tickless.states import Cancelled, Exists, Reason, State
from tickless.stores import Store
from tickless.stores.memory import MemoryStore
from tickless.testing.drafts import Bell, draft

OUTCOMES = {
    "succeeds": Outcome(State.SUCCEEDED, "value"),
    "fails": Outcome(State.FAILED, ValueError("x"), None, "ValueError: x"),
    "stops": Outcome(State.CANCELLED, None, Reason.STOPPED, "Stopped"),
}
STATES = {"timeline": State.PENDING, "waiting": State.PENDING, "ready": State.READY, "running": State.RUNNING}
AWAKE = -(10**30)
ASLEEP = 10**30


class World:
    """Time, a store, and what must be true of it. Every verb ends with `audit`."""

    def __init__(self, make_store: Callable[[], Store] = MemoryStore, *, is_open: bool = True) -> None:
        self.store = make_store()
        self.store.listen(self._posted, frozenset({EventKind.SCHEDULED}))
        self.oracle = Oracle()
        self.now = int(NOW)
        self.wall = int(NOW)
        self.told: int = AWAKE
        """What the dispatcher sleeps for; AWAKE while it is up."""
        self.waiters: list[tuple[Bell, Shadow | None]] = []
        self._of: dict[Any, Shadow] = {}
        self._meanwhile: Callable[[], object] | None = None
        self._final: dict[Shadow, TaskInfo] = {}
        self._ready_before = 0
        self._audits = True
        if is_open:
            self.open()

    # Verbs

    def open(self) -> None:
        self.store.open()
        self.oracle.is_open = True
        self.audit()

    def record_of(self, shadow: Shadow) -> Any:
        shadow.when.box.probe = self.no_lock_is_held
        parents = tuple(parent.record or parent.id for parent in shadow.parents)
        now, wall = Instant(self.now), Instant(self.wall)
        return draft(
            shadow.when.rule(), now, wall, shadow.id, priority=shadow.priority, parents=parents, run_if=shadow.run_if
        )

    def no_lock_is_held(self) -> None:
        """A user's own rule is foreign code: it may call the scheduler, or take an hour (P2)."""
        lock = getattr(self.store, "lock", None)
        assert lock is None or not lock.locked(), "P2: the store's lock is held in foreign code"

    def add(self, *batch: Shadow, exists: Exists = "error", meanwhile: tuple[Shadow, str] | None = None) -> None:
        """Schedule. `meanwhile` a run ends: on a worker that finds the store's lock taken by this very verb."""
        for shadow in batch:
            shadow.record = self.record_of(shadow)
            self._of[shadow.record] = shadow
        if meanwhile is not None:
            run, outcome = meanwhile[0].run, OUTCOMES[meanwhile[1]]
            self._meanwhile = lambda: self.store.finish(run, outcome, Instant(self.now))
        if exists == "error":
            self.oracle.batch += 1
            self._enter([shadow.record for shadow in batch])
        else:
            (new,) = batch
            self.oracle.batch += 1
            there = self.oracle.meet(new, exists, self.now, self.wall)
            entered = self.store.add_or(exists, new.record, Instant(self.now))
            assert key_of(entered) == key_of((there or new).record)
            batch = () if there else batch
        self.oracle.add(list(batch), self.now, self.wall)
        if meanwhile is not None:
            assert self._meanwhile is None, "nobody was told that a task was scheduled"
            self.oracle.finish(meanwhile[0], OUTCOMES[meanwhile[1]].state, OUTCOMES[meanwhile[1]].reason, self.now)
        self.audit()

    def _enter(self, records: list[Any]) -> None:
        if len(records) == 1:
            self.store.add(records[0], Instant(self.now))
        else:
            self.store.add_many(records, Instant(self.now))

    def add_linked(self, batch: list[Shadow]) -> None:
        """Schedule a batch whose members may wait for one another, whatever order they come in."""
        for number, shadow in enumerate(batch):
            shadow.id = f"member {len(self._of) + number}"
        for shadow in batch:
            shadow.record = self.record_of(shadow)
            self._of[shadow.record] = shadow
        self.oracle.batch += 1
        self.store.add_many([shadow.record for shadow in batch], Instant(self.now))
        self.oracle.add(batch, self.now, self.wall)
        self.audit()

    def storm(self, count: int, later: int) -> None:
        """Schedule so many, look once, take all back, look again."""
        many = [Shadow(When("after", later)) for _ in range(count)]
        with self.unchecked():
            for shadow in many:
                self.add(shadow)
        self.audit()
        with self.unchecked():
            for shadow in many:
                self.cancel(shadow)
        self.audit()

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        """Verbs in here are played and not compared, since they were before, or for speed."""
        before, self._audits = self._audits, False
        yield
        self._audits = before

    def _posted(self, kind: EventKind, *_: object) -> None:
        act, self._meanwhile = self._meanwhile, None
        if act is not None:
            act()

    def refused(self, error: type[TicklessError], records: list[Any], exists: Exists = "error") -> None:
        """The store must raise, and then nothing has changed: the comparison with the oracle proves it."""
        try:
            if exists == "error":
                self._enter(records)
            else:
                self.store.add_or(exists, records[0], Instant(self.now))
        except error:
            self.audit()
        else:
            raise AssertionError(f"{error.__name__} was not raised")

    def due(self, limit: int = 1024) -> None:
        for _ in range(10_000):
            full = self.store.due(Instant(self.now), Instant(self.wall), limit)
            if not full:
                break
        else:
            raise AssertionError("due: there is always more")
        self.oracle.due_now(self.now, self.wall)
        self.told = AWAKE
        self.audit()

    def pass_time(self, us: int) -> None:
        self.now += us
        self.wall += us

    def step_wall(self, us: int) -> None:
        """Somebody sets the wall clock; a step rings the bell, so the dispatcher looks at once."""
        self.wall += us
        self.due()

    def next_wake(self) -> int | None:
        answer = self.store.next_wake()
        assert answer == self.oracle.earliest(), f"P7: would wake at {answer}, not {self.oracle.earliest()}"
        self.told = ASLEEP if answer is None else answer
        self.audit()
        return answer

    def take(self) -> Shadow | None:
        run = self.store.take(Instant(self.now))
        if run is None:
            assert not self.oracle.at_place("ready"), "what is ready is not given to a worker"
            return None
        shadow = self._of[run.task]
        assert shadow.place == "ready", f"P8: {shadow.place} and started again"
        assert self.oracle.may_start(shadow), "started before another that comes first"
        assert run.due == shadow.due
        shadow.run = run
        self.oracle.start(shadow)
        self.audit()
        return shadow

    def finish(self, shadow: Shadow, how: str = "succeeds") -> None:
        outcome = OUTCOMES[how]
        self.store.finish(shadow.run, outcome, Instant(self.now))
        self.oracle.finish(shadow, outcome.state, outcome.reason, self.now)
        self.audit()

    def finish_together(self, ends: list[tuple[Shadow, str]]) -> None:
        """They end while somebody else is in the store, and are settled by that one."""

        def act() -> None:
            for shadow, how in ends:
                self.store.finish(shadow.run, OUTCOMES[how], Instant(self.now))

        self._meanwhile = act
        new = Shadow(When("after", 50 * S))
        new.record = self.record_of(new)
        self._of[new.record] = new
        self.oracle.batch += 1
        self.store.add(new.record, Instant(self.now))
        self.oracle.add([new], self.now, self.wall)
        for shadow, how in ends:
            self.oracle.finish(shadow, OUTCOMES[how].state, OUTCOMES[how].reason, self.now)
        self.audit()

    def reject(self) -> None:
        ready = self.oracle.at_place("ready")
        assert self.store.reject("the pool is closed", Instant(self.now)) == bool(ready)
        going = [(s, cast(Run, self.info(s).last_run)) for s in ready]
        rejected = [s for s, run in going if run.state is not State.READY or run.due_us != s.due]
        assert len(rejected) == bool(ready)
        for shadow in rejected:
            assert self.oracle.may_start(shadow)
            self.oracle.finish(shadow, State.FAILED, Reason.REJECTED, self.now)
        self.audit()

    def cancel(self, shadow: Shadow) -> Cancelled:
        self.oracle.batch += 1
        answer = self.store.cancel(shadow.record, Instant(self.now))
        assert answer == self.oracle.cancel(shadow, Reason.CANCELLED, self.now)
        self.audit()
        return answer

    def close(self) -> None:
        self.store.close(Instant(self.now))
        self.oracle.close(self.now)
        self.audit()

    def wait_for(self, shadow: Shadow | None) -> None:
        """Somebody waits for the end of a task, or of all."""
        bell = Bell()
        over = not self.oracle.live() if shadow is None else shadow.place == "ended"
        asked = self.store.await_idle(bell) if shadow is None else self.store.await_end(shadow.record, bell)
        assert asked is not over
        if asked:
            self.waiters.append((bell, shadow))
        else:
            self.store.forget_waiter(bell, None if shadow is None else shadow.record)
        self.audit()

    def give_up(self, number: int) -> None:
        bell, shadow = self.waiters.pop(number)
        self.store.forget_waiter(bell, None if shadow is None else shadow.record)
        self.audit()

    # Comparing

    def info(self, shadow: Shadow) -> TaskInfo:
        return self.store.get(shadow.record)

    def audit(self) -> None:
        """The promises on the store's own records, then every task against the oracle."""
        fresh = [shadow for shadow in self.oracle.shadows if shadow.placed_now]
        if fresh:
            there = [shadow for shadow in self.oracle.at_place("timeline") if not shadow.placed_now]
            for shadow in fresh:
                self._adopt(shadow, there)
        if not self._audits:
            return
        self.check_promises()
        for shadow in self.oracle.shadows:
            self._compare(shadow)
        live = [shadow.record for shadow in self.oracle.live()]
        assert self.store.live() == live, "a task was lost, or lives on"
        ready = len(self.oracle.at_place("ready"))
        assert self.store.ready_runs() == ready
        assert len(self.store.running()) == len(self.oracle.at_place("running"))
        self._compare_signs(ready)
        for bell, task in self.waiters:
            over = not live if task is None else task.place == "ended"
            assert bell.rings == over, f"a waiter was rung {bell.rings} times, and over is {over}"
        self.waiters = [(bell, shadow) for bell, shadow in self.waiters if not bell.rings]

    def check_promises(self) -> None:
        if hasattr(self.store, "machine"):
            check(cast(Any, self.store))

    def _adopt(self, shadow: Shadow, there: list[Shadow]) -> None:
        """What is due when it is placed may be ready at once; but it never overtakes what was there before it."""
        shadow.placed_now = False
        if shadow.at is None or shadow.wall or not self.oracle.is_open or shadow.at > self.now:
            return
        if self.info(shadow).state is State.READY:
            before = (shadow.at, shadow.number)
            assert not any((other.at or 0, other.number) < before for other in there), "overtook one that is due before"
            self.oracle.make_ready(shadow, shadow.due or 0)

    def _compare(self, shadow: Shadow) -> None:
        info = self.info(shadow)
        ended = shadow.place == "ended"
        if shadow in self._final:
            assert info == self._final[shadow], "P5: it had ended, and changed"
            return
        state = shadow.state if ended else STATES[shadow.place]
        assert info.state is state, f"task {info.id} is {info.state} ({info.reason}), not {state} ({shadow.reason})"
        assert info.next_fire_us == (shadow.due if shadow.place == "timeline" else None), f"next fire of task {info.id}"
        if ended:
            assert info.reason is shadow.reason, f"task {info.id} {info.state} by {info.reason}, not {shadow.reason}"
            self._final[shadow] = info
        self._compare_runs(shadow)

    def _compare_runs(self, shadow: Shadow) -> None:
        """Every fire is accounted for: it ran, or is part of a record that counts it (P6)."""
        runs = self.store.runs(shadow.record)
        if shadow.place in ("ready", "running"):
            going = runs.pop()
            assert (going.due_us, going.state) == (shadow.due, STATES[shadow.place])
            if going.started_us is not None and not shadow.wall:
                assert going.due_us is not None
                assert going.due_us <= going.started_us <= self.now, "P6: started before it was due"
            asked = shadow.place == "running" and shadow.asked_to_stop
            assert not asked or self.store.stop_flag(shadow.run).is_set(), "nobody asked it to stop"
        # Of what ran before, all lines must be the same: due, how it ended, and how many fires a line stands for.
        # A rule that broke had no next fire to tell, so what its record says of due is not looked at.
        lines = [
            Fire(None if run.reason is Reason.RULE else run.due_us, run.state, run.reason, run.count, run.last_due_us)
            for run in runs
        ]
        assert lines == shadow.history, f"P6: history of {shadow.record.id}:\n{lines}\nnot\n{shadow.history}"

    def _compare_signs(self, ready: int) -> None:
        signs, head = self.store.signs, self.oracle.earliest()
        earlier = head is not None and head < self.told
        assert not earlier or signs.earlier, f"the dispatcher sleeps until {self.told}, and {head} comes earlier"
        assert not signs.earlier or earlier or self.told == AWAKE, "P7: the bell is rung for nothing"
        assert not signs.earlier or signs.stirred, "callers look at `stirred` first, and would not ring"
        assert ready <= self._ready_before or signs.stirred, "a run became ready, and nobody is told"
        if signs.earlier:
            self.told = AWAKE  # it is rung, so it looks
        signs.earlier = signs.stirred = False
        self._ready_before = ready
