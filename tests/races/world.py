"""What a program is given: a scheduler, verbs to call, a book of what its tasks did, and what must hold at the end.

Without pytest, so that an interpreter that has none can run it too: see `stress.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from random import Random
from threading import Lock
from typing import Any, Protocol

from tests.races.weaver import Weaver
from tickless import Cancelled, Limit, Pool, Rule, Scheduler, State, Task, after, current_run
from tickless.core.record import state_of
from tickless.instants import Clock, Instant, Waitable


class Threads(Protocol):
    """Where a world's threads come from: woven ones (`weaver.Weaver`) or blind ones (`stress.Blind`)."""

    def spawn(self, name: str, body: Callable[[], None]) -> Callable[[], None]:
        """Start a thread; gives the function that waits for its end."""

    def pause(self) -> None:
        """A place where another thread may go on."""

    def read_clock(self) -> int:
        """Microseconds, later with each reading or at least not earlier."""


class WovenClock:
    """Time of the weaver: a few microseconds pass with each reading."""

    def __init__(self, weaver: Weaver) -> None:
        self._weaver = weaver

    def now(self) -> Instant:
        return Instant(self._weaver.read_clock())

    def wall(self) -> Instant:
        return Instant(self._weaver.read_clock())

    def wait(self, bell: Waitable, until: Instant | None) -> None:
        bell.wait(None if until is None else (until - self._weaver.read_clock()) / 1e6)

    @contextmanager
    def watch(self, bell: Waitable) -> Iterator[None]:
        yield


class WovenPool(Executor):
    """A pool of `size` strands. What escapes a submitted call is a fault of ours: the bodies are caught before."""

    def __init__(self, weaver: Weaver, size: int, drained: bool) -> None:
        if drained:
            self.tickless_slots = size
        self._weaver = weaver
        self._calls: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._shut = False
        for number in range(size):
            weaver.spawn(f"worker-{number}", self._work)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._calls.append((future, fn, args))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._shut = True
        while cancel_futures and self._calls:
            future = self._calls.popleft()[0]
            future.cancel()
            future.set_running_or_notify_cancel()

    def _work(self) -> None:
        while True:
            self._weaver.block(lambda: self._calls or self._shut)
            if not self._calls:
                return
            future, fn, args = self._calls.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    value = fn(*args)
                except ValueError as error:  # a body's own, where the pool runs bodies and not drainers
                    future.set_exception(error)
                else:
                    future.set_result(value)


def woven_world(weaver: Weaver, rng: Random, slots: int, drained: bool) -> World:
    """A world on woven threads. Drained, or fed one submit per run as any other executor is."""
    pool = WovenPool(weaver, slots, drained)
    return World(weaver, rng, pool if drained else Pool(pool, slots=slots), slots, WovenClock(weaver))


class World:
    """One scheduler and its callers. `rng` varies the program with the seed."""

    def __init__(self, threads: Threads, rng: Random, pool: Executor | Pool, slots: int, clock: Clock | None) -> None:
        self.threads = threads
        self.rng = rng
        self.slots = slots
        self.pool = pool.executor if isinstance(pool, Pool) else pool
        self.scheduler = Scheduler(
            pool, clock=clock, observers=[], keep_finished=rng.choice((0, 0, 2, 1000)), limits=[Limit("one", running=1)]
        )
        self.tasks: list[Task[Any]] = []
        self.parents: dict[str, Sequence[Task[Any]]] = {}
        self.ran: dict[str, int] = {}
        self.began: dict[str, int] = {}
        self.over: dict[str, int] = {}
        self.answers: list[tuple[Task[Any], Cancelled]] = []
        self.recurring: set[str] = set()
        self.going_on: list[str] = []
        self.crowds: list[tuple[str, ...]] = []
        self._naming = Lock()  # a real one: nobody is switched inside
        self._callers: list[Callable[[], None]] = []

    # Verbs

    def task(
        self,
        parents: Sequence[Task[Any]] = (),
        *,
        when: Rule | None = None,
        fails: bool = False,
        times: int | None = None,
        **more: Any,
    ) -> Task[Any]:
        """Schedule a task that books its runs, and cancels itself in the run of that number. Its name is t0, t1, ..."""
        with self._naming:
            name = f"t{len(self.ran)}"
            self.ran[name] = 0
        task = self.scheduler.schedule(self._body(name, fails, times), when, name=name, after_tasks=parents, **more)
        self.tasks.append(task)
        self.parents[name] = parents if more.get("run_if") is None else ()
        if when is not None and when.recurring:
            self.recurring.add(name)
        return task

    def cancel(self, task: Task[Any]) -> Cancelled:
        answer = task.cancel()
        self.answers.append((task, answer))
        return answer

    def thread(self, body: Callable[[], object]) -> None:
        """Have another thread call `body`; `join` waits for all of them."""

        def call() -> None:
            body()

        self._callers.append(self.threads.spawn(f"caller-{len(self._callers)}", call))

    def join(self) -> None:
        while self._callers:
            self._callers.pop()()

    def soon(self, most_us: int = 60) -> Rule:
        """A rule that fires within so many microseconds: some readings of the clock from now."""
        return after(self.rng.randrange(most_us) / 1e6)

    def _body(self, name: str, fails: bool, times: int | None) -> Callable[[], None]:
        def body() -> None:
            self.ran[name] += 1
            self.began.setdefault(name, self.threads.read_clock())
            self.going_on.append(name)
            if len(self.going_on) > self.slots:
                self.crowds.append(tuple(self.going_on))
            self.threads.pause()
            self.going_on.remove(name)
            self.over[name] = self.threads.read_clock()
            if self.ran[name] == times:
                self.scheduler.cancel(current_run().task_id)
            if fails:
                raise ValueError(name)

        return body

    def tell(self) -> str:
        """Where everything stands, read without a lock: for the story of a failure."""
        places = self.places()
        lines = [f"{name}: {places[name]}" for name in places if places[name]]
        lines += [f"{task!r} {state_of(task)}" for task in self.tasks]
        return "\n".join(f"    {line}" for line in lines)

    def places(self) -> dict[str, object]:
        """All that must be empty once every task has ended."""
        store = self.scheduler._store
        machine = store.machine
        return {
            "live": list(machine.registry.live),
            "ready": list(machine.ready.claims),
            "waiting": set(machine.waiting),
            "asking": set(machine.questions),
            "unsettled": list(store.unsettled),
            "idle waiters": list(machine.idle_waiters),
            "living entries": machine.timeline.live,
        }

    # What must hold

    def finish(self) -> None:
        """Wait until all is quiet, check, close, check again."""
        self.join()
        assert self.scheduler.wait()
        self.check()
        assert self.scheduler.close() == []
        self.check()
        self.pool.shutdown()

    def check(self) -> None:
        """The promises, as far as they can be seen once every task has ended."""
        assert not self.crowds, f"more runs at a time than {self.slots} slots: {self.crowds}"
        for task in self.tasks:
            info = task.info
            assert info.state.terminal, f"{task!r} is {info.state}"
            if task.name not in self.recurring:
                self._check_one(task, info.state)
        for task, answer in self.answers:
            if answer is Cancelled.CANCELLED and task.name not in self.recurring:
                assert not self.ran[task.name], f"{task!r} ran after its cancel had been answered with CANCELLED"
                assert task.state is State.CANCELLED, f"{task!r} is {task.state} after its cancel"
        self._check_empty()

    def _check_one(self, task: Task[Any], state: State) -> None:
        name = task.name
        runs = int(state in (State.SUCCEEDED, State.FAILED))
        assert self.ran[name] == runs, f"{task!r} is {state} and ran {self.ran[name]} times"
        for parent in self.parents[name] if runs else ():
            assert parent.state is State.SUCCEEDED, f"{task!r} ran after {parent!r}, which is {parent.state}"
            assert self.over[parent.name] <= self.began[name], f"{task!r} began before {parent!r} had ended"

    def _check_empty(self) -> None:
        """P1, P4: nothing is in any place any more."""
        left = {name: held for name, held in self.places().items() if held}
        assert not left, f"every task has ended, and there are {left}"
