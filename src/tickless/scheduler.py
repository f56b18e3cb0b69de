"""`Scheduler`: the one object that a program makes. It checks at the door, asks the store, and looks afterwards."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal, Never, TypeVar, final

from tickless.bell import Bell
from tickless.clocks import SystemClock
from tickless.core.record import TaskRecord
from tickless.dispatcher import Dispatcher
from tickless.drafts import ALL_SUCCEEDED, NOTHING, ZERO, Call, check_call, draft, plain
from tickless.errors import ForkedScheduler, NotStarted, ScheduleError, SchedulerClosed, UnknownTask, shown
from tickless.instants import SECOND_US, Clock, DrivenClock, Instant
from tickless.lifetime import SignalBell, remember, stop_signals
from tickless.observe import Journal, Observer
from tickless.observe.journal import QUEUE_LIMIT
from tickless.observe.log import LogObserver
from tickless.observe.text import error_line
from tickless.pools import Hand, Pool, checked_slots, pool_of
from tickless.pools.drain import DrainHand
from tickless.pools.single import SingleHand
from tickless.records import EventKind, Run, TaskInfo
from tickless.rules import Rule
from tickless.states import Cancelled, Exists
from tickless.stores.memory import MemoryStore
from tickless.task import Task
from tickless.worker import STAY_RUNS, Worker, run_going_on

T = TypeVar("T")
Phase = Literal["new", "running", "closing", "closed"]
_EXISTS = ("error", "keep", "update")


@final
class Scheduler:
    """Runs tasks at their time, in order, once.

    `pool`: a ThreadPoolExecutor, a `Pool(executor, slots=n)`, or None for a thread pool of our own, which is closed
    with the scheduler; a given one is never closed. `slots`: how many runs at a time, the pool's workers by default.
    `clock`: a `Clock`; the system's by default. `observers`: who is told of events; by default failures and skips are
    logged. `keep_finished` terminal tasks stay listed, and `keep_runs` runs of each recurring task.

    Threads: every method may be called from any thread, from tasks and from observers. From a signal handler call
    `request_stop` only. In a forked child every call raises ForkedScheduler.
    """

    def __init__(
        self,
        pool: Executor | Pool | None = None,
        *,
        clock: Clock | None = None,
        slots: int | None = None,
        observers: Iterable[Observer] | None = None,
        keep_finished: int = 1000,
        keep_runs: int = 100,
    ) -> None:
        _whole("keep_finished", keep_finished)
        _whole("keep_runs", keep_runs)
        if slots is not None:
            checked_slots(slots)
        self._own_pool = ThreadPoolExecutor(slots, thread_name_prefix="tickless-worker") if pool is None else None
        self._pool = pool_of(self._own_pool or pool, slots)  # type: ignore[arg-type]  # one of the two is there
        self._clock: Clock = SystemClock() if clock is None else _checked_clock(clock)
        self._now = self._clock.now
        self._observers: list[Observer] = [LogObserver()] if observers is None else _listed(observers)
        self._phase: Phase = "new"
        self._forked = False
        self._lifetime = threading.Lock()
        """Guards the phase. Never held while anything is waited for."""
        self._closers: set[int] = set()
        """Numbers of tasks that close the scheduler from inside."""
        self._stop_asked = False
        self._stop_bell: SignalBell | None = None
        self._store = store = MemoryStore(keep_finished=keep_finished, keep_runs=keep_runs)
        self._signs = store.signs
        self._add = store.add
        self._dispatcher = Dispatcher(store, self._clock)
        self._look = self._dispatcher.look
        stay_runs = getattr(self._pool.executor, "tickless_stay_runs", STAY_RUNS)
        self._worker = Worker(store, self._clock, self._look, stay_runs)
        self._dispatcher.feed(self._new_hand())
        self._driven = isinstance(self._clock, DrivenClock)
        self._tell_observers()
        remember(self)

    def _new_hand(self) -> Hand:
        """The hand for the kind of pool that was given."""
        own: Callable[[MemoryStore, Worker], Hand] | None = getattr(self._pool.executor, "tickless_hand", None)
        if own is not None:
            return own(self._store, self._worker)
        ready, worker, more = self._store.ready_runs, self._worker, self._dispatcher.ring
        if self._pool.drained:
            return DrainHand(self._pool, stay=worker.stay, ready=ready, reject=self._reject, more=more)
        return SingleHand(self._pool, desk=worker, ready=ready, more=more)

    def _tell_observers(self) -> None:
        """Have events posted to a journal for the observers as they are now."""
        # With a driven clock events wait in the queue only until the turn ends, and none may be dropped: same trace.
        limit = sys.maxsize if self._driven else QUEUE_LIMIT
        self._tell(Journal(self._observers, self._clock, limit=limit))

    def _tell(self, journal: Journal) -> None:
        """Where events go from now on; said before the start."""
        self._journal = journal
        self._store.listen(journal.post, journal.wants)
        self._dispatcher.tell(journal)
        self._worker.tracebacks = EventKind.FAILED in journal.wants

    def _reject(self, error: BaseException) -> bool:
        return self._store.reject(f"the pool did not take the run: {error_line(error)}", self._now())

    # Scheduling

    def schedule(
        self,
        work: Callable[..., T],
        when: Rule | None = None,
        *,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        id: str | None = None,
        name: str | None = None,
        after_tasks: Iterable[Task[Any] | str] = (),
        run_if: str = "all_succeeded",
        priority: int = 0,
        exists: Exists = "error",
        start: datetime | None = None,
        until: datetime | None = None,
        max_runs: int | None = None,
        jitter: float | timedelta | None = None,
    ) -> Task[T]:
        """Have `work(*args, **kwargs)` run when the rule says: `after(5)`, `at(datetime)`, `every(minutes=10)`.

        Without `when`: now, or as soon as the parents are done. With both, the rule counts from the moment at which
        the last parent lets go. `after_tasks` are handles or ids; an `output` among the arguments makes its task a
        parent too. `run_if` says how they must have ended. Of what is ready at once, higher `priority` runs first,
        then what became ready first. `exists`: what to do when a listed task has the id: "error", "keep" it as it is,
        or "update" it (an unchanged rule keeps its next fire and its history).

        Limits on a recurring rule: no fire before `start` or after `until` (aware; a fire at either counts, and a rule
        that counts from when it is scheduled counts from `start`), and at most `max_runs` runs. `jitter`, seconds or a
        timedelta, makes each fire later by a part of it that is drawn from the task and the fire, always the same.

        May be called before `start`; nothing runs until then. Costs O(log n) and O(arguments).
        Raises ScheduleError, RuleError, DuplicateId, DependencyError or SchedulerClosed, and then nothing has changed.
        """
        now = self._now()
        task: Task[T] | None = None
        bare = args is after_tasks is NOTHING and id is None and name is None and kwargs is None and priority is ZERO
        free = start is None and until is None and max_runs is None and jitter is None
        if bare and free and run_if is ALL_SUCCEEDED:
            task = plain(self, now, work, when)
        if task is None:
            task = draft(
                self, self._clock, now, work, when, args, kwargs, id, name, after_tasks, run_if, priority,
                start, until, max_runs, jitter,
            )  # fmt: skip
        if exists == "error":
            self._add(task, now)
        else:
            there = self._store.add_or(_exists(exists, id), task, now)
            assert isinstance(there, Task)  # all that the store has came through here
            task = there
        if self._signs.stirred or self._driven:
            self._look()
        return task

    def schedule_many(self, calls: Iterable[Call]) -> list[Task[Any]]:
        """Schedule a whole batch, all or nothing, with one reading of the clock. Gives the handles in order.

        In `after_tasks` a call may name the ids of others of the same batch, earlier or later.
        Raises what `schedule` raises, and then none of them was added.
        """
        now, clock = self._now(), self._clock
        tasks: list[Task[Any]] = []
        try:
            for call in _iterated(calls):
                tasks.append(draft(self, clock, now, *check_call(call)))
            self._store.add_many(tasks, now)
        except BaseException:
            for task in tasks:
                task._parents = ()  # a circle of them would keep itself, and the arguments
            raise
        self._look()
        return tasks

    def cancel(self, task: Task[Any] | TaskInfo | str) -> Cancelled:
        """Take a task's future away. CANCELLED: it will never start. ASKED: it runs, and its stop flag is set.

        TOO_LATE (falsy): it had ended. A recurring task that runs has no more fires at once, and is CANCELLED when its
        run ends. Raises UnknownTask.
        """
        return self._cancel(self._record_of(task))

    def _cancel(self, task: TaskRecord) -> Cancelled:
        answer = self._store.cancel(task, self._now())
        if self._signs.stirred or self._driven:
            self._look()
        return answer

    # Looking

    def get(self, task: Task[Any] | TaskInfo | str) -> TaskInfo:
        """The task as it is now. Raises UnknownTask."""
        info = self._store.get(self._record_of(task))
        self._look()
        return info

    def tasks(self) -> list[TaskInfo]:
        """All live tasks and the finished ones that are still listed, in the order of scheduling, as snapshots."""
        self._check_fork()
        infos = self._store.tasks()
        self._look()
        return infos

    def runs(self, task: Task[Any] | TaskInfo | str, limit: int | None = None) -> list[Run]:
        """The task's newest runs that are kept, at most `limit`, oldest first, as snapshots. Raises UnknownTask."""
        if limit is not None:
            _whole("limit", limit)
        runs = self._store.runs(self._record_of(task), limit)
        self._look()
        return runs

    @property
    def phase(self) -> Phase:
        """new, running, closing or closed."""
        return self._phase

    def observe(self, observer: Observer) -> None:
        """Add an observer, before the start; it is not told of what was scheduled before. ScheduleError later."""
        self._check_fork()
        if self._phase == "new":
            self._journal.deliver()  # what was posted before is for those who are there already
        with self._lifetime:
            if self._phase != "new":
                raise ScheduleError("observe: observers are added before the start; pass observers=[...]")
            self._observers.append(observer)
            self._tell_observers()

    # Lifetime

    def start(self) -> None:
        """Begin to run what is due. Starting twice is starting once. Raises SchedulerClosed after `close`."""
        self._check_fork()
        with self._lifetime:
            if self._phase == "running":
                return
            if self._phase != "new":
                raise SchedulerClosed("the scheduler is closed, and closing is final; make a new Scheduler")
            if not isinstance(self._clock, DrivenClock):
                self._journal.start()
            self._phase = "running"
            self._store.open()
            try:
                self._dispatcher.start()
            except BaseException:  # no thread to be had: it may be tried again
                self._phase = "new"
                raise
        self._look()

    def run(self) -> bool:
        """Start, wait until every task is terminal, close. True when all came to their end.

        In the main thread SIGINT and SIGTERM end the wait: what runs may finish, then False is returned, or for SIGINT
        KeyboardInterrupt raised. A second signal ends the process at once.
        """
        bell = self._stop_bell = SignalBell()
        try:
            with stop_signals(self.request_stop, bell) as came:
                self.start()
                while not self._stop_asked and self._store.await_idle(bell):
                    self._look()
                    bell.wait()
                    self._store.forget_waiter(bell, None)  # a signal that says nothing rings too
                done = not self._stop_asked and not came
                self.close()
        finally:
            self._stop_bell = None
            bell.close()
        if came and came[0] == signal.SIGINT:
            raise KeyboardInterrupt
        return done

    def request_stop(self) -> None:
        """End `run`, now or when it begins. The one method for signal handlers: it takes no lock and never blocks."""
        self._stop_asked = True
        bell = self._stop_bell
        if bell is not None:
            bell.ring()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep until every task is terminal: True; or for `timeout` real seconds: False.

        An endless task holds it until it is cancelled. Raises NotStarted when nothing could ever end.
        """
        return self._wait_for(None, timeout)

    def close(self, timeout: float | None = None, cancel: bool = False) -> list[Run]:
        """The end, and final: no new tasks, no new fires; what waits is CANCELLED (closed), what runs may finish.

        Waits for that at most `timeout` real seconds, and gives the runs that still go on. `cancel=True` sets their
        stop flags. From inside a task it waits for the others only. Closing twice is closing once more.
        """
        self._check_fork()
        deadline = _deadline(timeout)
        with self._lifetime:
            if self._phase != "closed":
                self._phase = "closing"
        store = self._store
        store.close(self._now())
        self._dispatcher.stop(_left_s(deadline))
        if cancel:
            store.stop_running()
        own = run_going_on(store)
        inside = None if own is None else own.task
        if inside is not None:
            self._closers.add(inside._seq)
        for record in store.live():
            # Two tasks that close do not wait for each other; who calls from outside waits for both.
            if inside is None or record._seq not in self._closers:
                self._await(record, deadline)
        running = [run for run in store.running() if inside is None or run.task_id != inside.id]
        if self._own_pool is not None:
            self._own_pool.shutdown(wait=not running and inside is None)
        if not running and inside is None:
            self._journal.close(_left_s(deadline))
        with self._lifetime:
            self._phase = "closed"
        return running

    def __enter__(self) -> Scheduler:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not self._forked:
            self.close()

    # Within

    def _wait_for(self, record: TaskRecord | None, timeout: float | None) -> bool:
        self._check_fork()
        deadline = _deadline(timeout)
        done = self._await(record, deadline, begun=self._phase != "new")
        self._look()
        return done

    def _await(self, record: TaskRecord | None, deadline: Instant | None, *, begun: bool = True) -> bool:
        """Sleep until the task, or with None every task, has ended; False at the deadline."""
        bell, store = Bell(), self._store
        if not (store.await_idle(bell) if record is None else store.await_end(record, bell)):
            return True
        self._look()
        if not begun:
            store.forget_waiter(bell, record)
            raise NotStarted("the scheduler was never started, so nothing would end; call start(), or use `with`")
        clock = _REAL
        while not bell.wait(None if deadline is None else min(max(0, deadline - clock.now()) / SECOND_US, _LONGEST_S)):
            if deadline is not None and clock.now() >= deadline:
                store.forget_waiter(bell, record)
                return False
        return True

    def _record_of(self, task: Task[Any] | TaskInfo | str) -> TaskRecord:
        if self._forked:
            self._refuse_child()
        if isinstance(task, Task):
            if task._owner is not self:
                raise UnknownTask(f"{shown(task)} belongs to another scheduler; ask that one")
            return task
        id = task.id if isinstance(task, TaskInfo) else task
        if not issubclass(type(id), str):
            raise UnknownTask(f"{shown(task)} is neither a task nor an id")
        return self._store.find(str.__str__(id))  # exactly a str: a subclass brings foreign code under the lock

    def _check_fork(self) -> None:
        if self._forked:
            self._refuse_child()

    def _refuse_child(self) -> Never:
        raise ForkedScheduler(
            "this scheduler was made before a fork, and its thread is in the parent; make a new one in the child"
        )

    def _after_fork(self) -> None:
        self._forked = True
        self._now = self._refuse_child  # so that `schedule` need not ask at each call

    def _at_exit(self) -> None:
        """The interpreter ends and nobody closed: no new fires, no noise. What runs is waited for by its pool."""
        if self._forked or self._phase == "new":
            return
        self._store.close(self._now())
        self._dispatcher.stop()
        self._journal.close(timeout=1.0)


def _exists(exists: Exists, id: str | None) -> Exists:
    if type(exists) is not str or exists not in _EXISTS:
        raise ScheduleError(f"exists={shown(exists)}: needs one of {', '.join(_EXISTS)}")
    if id is None:
        raise ScheduleError(f"exists={shown(exists)}: is about an id, and none was given; say id=")
    return exists


_REAL = SystemClock()
"""Threads that wait for an answer wait in real time, whatever clock drives the tasks."""
_LONGEST_S = threading.TIMEOUT_MAX / 2


def _deadline(timeout: float | None) -> Instant | None:
    """When a wait of so many seconds ends. Raises ScheduleError for what is no length of time."""
    if timeout is None:
        return None
    if type(timeout) not in (int, float) or not timeout >= 0:  # not by isinstance: True is an int too
        raise ScheduleError(
            f"timeout={shown(timeout)}: needs seconds, not negative, or None to wait for as long as it takes"
        )
    return Instant(_REAL.now() + int(min(timeout, _LONGEST_S) * 1e6))


def _left_s(deadline: Instant | None) -> float | None:
    return None if deadline is None else max(0, deadline - _REAL.now()) / SECOND_US


def _iterated(calls: Iterable[Call]) -> Iterator[Call]:
    try:
        return iter(calls)
    except TypeError:
        raise ScheduleError(f"schedule_many({shown(calls)}): needs several, so put them in a list") from None


def _listed(observers: Iterable[Observer]) -> list[Observer]:
    try:
        return list(observers)
    except TypeError:
        raise ScheduleError(f"observers={shown(observers)}: needs several, so put it in a list") from None


def _checked_clock(clock: Clock) -> Clock:
    if isinstance(clock, type) or not isinstance(clock, Clock):
        raise ScheduleError(f"clock={shown(clock)}: needs a Clock: now(), wall(), wait(bell, until), watch(bell)")
    return clock


def _whole(what: str, value: object) -> None:
    if type(value) is not int or not 0 <= value <= sys.maxsize:
        raise ScheduleError(f"{what}={shown(value)}: needs a whole number, not negative, and at most {sys.maxsize}")
