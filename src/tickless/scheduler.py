"""`Scheduler`: the one object that a program makes. It checks at the door, asks the store, and looks afterwards."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, TypeVar, Unpack, cast, final

from tickless import decorators, verbs
from tickless.changes import skipped_now
from tickless.checks import checked_clock, iterated, listed, whole
from tickless.clocks import SystemClock
from tickless.core.record import TaskRecord
from tickless.declared import Declarations
from tickless.dispatcher import Dispatcher
from tickless.drafts import DEFAULTS, NOTHING, Call, check_call, draft, draft_of, plain, plain_child
from tickless.errors import ForkedScheduler, ScheduleError, UnknownTask, refuse_closed, shown
from tickless.hands import feed, limits_of, pools_of
from tickless.instants import Clock, DrivenClock, Instant, datetime_of
from tickless.lifetime import SignalBell, beside, remember, stop_signals
from tickless.observe import Journal, Observer
from tickless.observe.journal import QUEUE_LIMIT
from tickless.observe.log import LogObserver
from tickless.options import Options, exists_of, signature_with
from tickless.places import Keeps, Place, StoreOptions, place_of
from tickless.policies import Limit
from tickless.pools import Pool, checked_slots
from tickless.records import EventKind, LimitInfo, PoolInfo, Run, TaskInfo
from tickless.rules import Rule
from tickless.states import Cancelled
from tickless.stores import Store
from tickless.stores.memory import MemoryStore
from tickless.task import Task
from tickless.waits import await_end, deadline_of, left_s
from tickless.worker import run_going_on

if TYPE_CHECKING:
    from tickless.durable import Durable

T = TypeVar("T")
Phase = Literal["new", "running", "closing", "closed"]
Which = Task[Any] | TaskInfo | str
"""How a task is named."""


@final
class Scheduler:
    """Runs tasks at their time, in order, once.

    `pool`: a ThreadPoolExecutor, a `Pool(executor, slots=n)`, or None for a thread pool of our own, which is closed
    with the scheduler; a given one is never closed. `slots`: how many runs at a time, the pool's workers by default.
    `pools`: several by name, of which "default" is that of tasks that name none; then `slots` is for that one.
    `limits`: a `Limit` for each name that tasks may give as `limit=`.
    `store`: where tasks are kept, "sqlite:///tasks.db"; in memory by default. What else may be said of it: see
    `StoreOptions`. `clock`: a `Clock`; the system's by default. `observers`: who is told of events; by default
    failures and skips are logged. `keep_finished` terminal tasks stay listed, `keep_runs` runs of each recurring task,
    and `keep_rounds` rounds of each flow with their tasks.

    Threads: every method may be called from any thread, from tasks and from observers. From a signal handler call
    `request_stop` only. In a forked child every call raises ForkedScheduler.
    Raises PoolError for what is no pool, and ScheduleError for any other argument that cannot be.
    """

    def __init__(
        self,
        pool: Executor | Pool | None = None,
        *,
        pools: Mapping[str, Executor | Pool] | None = None,
        limits: Iterable[Limit] = (),
        clock: Clock | None = None,
        slots: int | None = None,
        observers: Iterable[Observer] | None = None,
        keep_finished: int = 1000,
        keep_runs: int = 100,
        keep_rounds: int = 20,
        store: str | None = None,
        **kept: Unpack[StoreOptions],
    ) -> None:
        whole("keep_finished", keep_finished)
        whole("keep_runs", keep_runs)
        whole("keep_rounds", keep_rounds)
        place = place_of(store, kept)
        if slots is not None:
            checked_slots(slots)
        self._limits = limits_of(limits)
        self._pools, self._own_pool = pools_of(pool, pools, slots)
        given_clock = None if clock is None else checked_clock(clock)
        self._observers: list[Observer] = [LogObserver()] if observers is None else listed("observers", observers)
        self._phase: Phase = "new"
        self._forked = False
        self._lifetime = threading.Lock()
        """Guards the phase. Never held while anything is waited for."""
        self._closers: set[int] = set()
        """Numbers of tasks that close the scheduler from inside."""
        self._declared = Declarations()
        self._stop_asked = False
        self._stop_bell: SignalBell | None = None
        self._make_store(Keeps(keep_finished, keep_runs, keep_rounds), place, given_clock)
        self._driven = isinstance(self._clock, DrivenClock)
        self._tell_observers()
        remember(self)

    def _make_store(self, keeps: Keeps, place: Place | None, clock: Clock | None) -> None:
        """The store and the clock, and around them the dispatcher, and a worker and a hand for each pool."""
        pools, limits = tuple(self._pools), tuple(self._limits.values())
        self._durable: Durable | None = None
        store: Store
        if place is None:
            store = MemoryStore(**keeps._asdict(), pools=pools, limits=limits)
        else:
            from tickless.durable import Durable  # SQLite costs who keeps tasks in memory nothing

            self._durable = Durable(place, self, keeps, self._pools, limits, clock)
            store, clock = self._durable.store, self._durable.clock
        self._clock: Clock = SystemClock() if clock is None else clock
        self._now = self._clock.now
        self._store = cast("MemoryStore", store)  # or another: here it is asked by the verbs of `Store` alone
        self._signs = store.signs
        self._add = store.add
        self._dispatcher = dispatcher = Dispatcher(store, self._clock)
        self._look = dispatcher.look
        self._workers = feed(dispatcher, self._pools, store, self._clock)

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
        for worker in self._workers:
            worker.tracebacks = EventKind.FAILED in journal.wants

    # Scheduling

    def schedule(self, work: Callable[..., T], when: Rule | None = None, **options: Unpack[Options]) -> Task[T]:
        """Have `work(*args, **kwargs)` run when the rule says: `after(5)`, `at(datetime)`, `every(minutes=10)`.

        Without `when`: now, or as soon as the parents are done. With both, the rule counts from the moment at which
        the last parent lets go. `after_tasks` are handles or ids; an `output` among the arguments makes its task a
        parent too. `run_if` says how they must have ended. Of what is ready at once, higher `priority` runs first,
        then what became ready first. `exists`: what to do when a listed task has the id: "error", "keep" it as it is,
        or "update" it (an unchanged rule keeps its next fire and its history). `tags` name several tasks at once.

        Limits on a recurring rule: no fire before `start` or after `until` (aware; a fire at either counts, and a rule
        that counts from when it is scheduled counts from `start`), and at most `max_runs` runs. `jitter` makes each
        fire later by a part of it that is drawn from the task and the fire, always the same. Times are seconds or a
        timedelta.

        When reality disagrees: `overlap` of a fire with the run that goes on ("skip", "queue", "allow" up to
        `max_running`, "replace"); a fire more than `grace` late does not run; `catch_up` of missed fires ("latest",
        "all" up to `max_catch_up`, "none"); `retry=Retry(3)`; a run that takes longer than `timeout` has failed, is
        asked to stop, and keeps the task busy until its code returns (`on_timeout="release"`: no longer). After
        `pause_after_failures` in a row the task pauses; `on_failure(run)` is called after the last attempt. `pool` and
        `limit` are names that the scheduler was given.

        May be called before `start`; nothing runs until then. Costs O(log n) and O(arguments).
        Raises ScheduleError, RuleError, DuplicateId, DependencyError or SchedulerClosed, and TypeError for an option
        that there is not; then nothing has changed.
        """
        now = self._now()
        task: Task[T] | None = None
        if self._durable is not None:
            options = self._durable.with_defaults(work, when, options)
        if not options:
            task = plain(self, now, work, when)
        elif when is None and "after_tasks" in options and len(options) == 1 + ("args" in options):
            task = plain_child(self, now, work, options["after_tasks"], options.get("args", NOTHING))
        if task is None and "exists" not in options:
            task = draft(self, self._clock, now, work, when, **options)  # type: ignore[misc]  # `exists` is not in it
        if task is not None:
            self._add(task, now)
        else:
            task = self._schedule_or(now, work, when, options)
        if self._signs.stirred or self._driven:
            self._look()
        return task

    def _schedule_or(self, now: Instant, work: Callable[..., T], when: Rule | None, options: Options) -> Task[T]:
        """Schedule a task, or keep or update the one of its id."""
        exists = exists_of(options.pop("exists"), options.get("id"))
        task: Task[T] = draft(self, self._clock, now, work, when, **options)  # type: ignore[misc]  # `exists` is out
        if exists is None:
            self._add(task, now)
            return task
        there = self._store.add_or(exists, task, now)
        assert isinstance(there, Task)  # all that the store has came through here
        return there

    def schedule_many(self, calls: Iterable[Call]) -> list[Task[Any]]:
        """Schedule a whole batch, all or nothing, with one reading of the clock. Gives the handles in order.

        In `after_tasks` a call may name the ids of others of the same batch, earlier or later.
        Raises what `schedule` raises, and then none of them was added.
        """
        now, clock = self._now(), self._clock
        tasks: list[Task[Any]] = []
        try:
            for call in iterated("schedule_many", calls):
                tasks.append(draft_of(self, clock, now, check_call(call)))
            self._store.add_many(tasks, now)
        except BaseException:
            for task in tasks:
                task._parents = ()  # a circle of them would keep itself, and the arguments
            raise
        self._look()
        return tasks

    def cancel(self, task: Which) -> Cancelled:
        """Take a task's future away. CANCELLED: it will never start. ASKED: it runs, and its stop flag is set
        (on a store it may not have begun, and never starts then). TOO_LATE (falsy): it had ended.

        A recurring task that runs has no more fires at once, and is CANCELLED when it ends. Raises UnknownTask.
        """
        return self._cancel(self._record_of(task))

    def _cancel(self, task: TaskRecord) -> Cancelled:
        answer = self._store.cancel(task, self._now())
        if self._signs.stirred or self._driven:
            self._look()
        return answer

    # Declaring

    task = decorators.task
    every = decorators.every
    cron = decorators.cron

    # Changing what is listed

    reschedule = verbs.reschedule
    update = verbs.update
    pause = verbs.pause
    resume = verbs.resume
    run_now = verbs.run_now
    backfill = verbs.backfill

    # Flows

    flow = verbs.flow
    rounds = verbs.rounds
    round = verbs.round_named
    _run_round = verbs.run_round

    # Looking

    def get(self, task: Which) -> TaskInfo:
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

    def runs(self, task: Which, limit: int | None = None) -> list[Run]:
        """The task's newest runs that are kept, at most `limit`, oldest first, as snapshots. Raises UnknownTask."""
        if limit is not None:
            whole("limit", limit)
        runs = self._store.runs(self._record_of(task), limit)
        self._look()
        return runs

    def pools(self) -> dict[str, PoolInfo]:
        """Every pool by its name: its slots, and how many runs are ready, running, and zombies."""
        self._check_fork()
        counts = self._store.pools()
        self._look()
        if self._durable is not None and self._durable.stands_in:
            return {name: PoolInfo(name, 0, *of) for name, of in counts.items()}
        down = self._dispatcher.pools_down
        return {name: PoolInfo(name, pool.slots, *counts[name], down.get(name)) for name, pool in self._pools.items()}

    def limits(self) -> dict[str, LimitInfo]:
        """Every limit by its name: how many permits are held, and how many runs wait for one."""
        self._check_fork()
        infos = self._store.limits()
        self._look()
        return {info.name: info for info in infos}

    def _skipped_now(self, task: TaskRecord) -> int:
        """See `Task.skipped_now`."""
        self._check_fork()
        count = skipped_now(self._store, task, self._clock)
        self._look()
        return count

    @property
    def down_since(self) -> datetime | None:
        """Since when the store has not answered, aware UTC; None: it does. In memory always None."""
        since = self._dispatcher.down_since
        return None if since is None else datetime_of(since)

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

    def unusable(self) -> dict[str, str]:
        """The tasks in the store whose rows cannot be used, by their ids, and why: a work that was renamed, damage.

        They stay as they are, and are tried again at each start, and by `try_again`. In memory there are none.
        """
        self._check_fork()
        return {} if self._durable is None else self._durable.store.unusable()

    def try_again(self) -> int:
        """Have the rows that could not be used tried again. Gives how many there are."""
        self._check_fork()
        count = 0 if self._durable is None else self._durable.store.try_again()
        self._look()
        return count

    def _tell_trouble(self, line: str) -> None:
        self._journal.post(EventKind.TROUBLE, self._now(), None, None, None, line)

    # Lifetime

    def start(self) -> None:
        """Begin to run what is due. Starting twice is starting once. Raises SchedulerClosed after `close`.

        What was declared enters the store, all of it or nothing; when it raises, it may be tried again.
        """
        self._check_fork()
        if self._durable is not None:
            self._durable.check_start()
        if self._phase in ("new", "running"):
            self._declared.enter(self)
        with self._lifetime:
            if self._phase == "running":
                return
            if self._phase != "new":
                refuse_closed()
            if not isinstance(self._clock, DrivenClock):
                self._journal.start()
            self._phase = "running"
            try:
                if self._durable is not None:
                    self._durable.start(None if self._driven else self._dispatcher.ring, self._tell_trouble)
                self._store.open()
                self._dispatcher.start()
            except BaseException:  # no thread to be had, or the store is away: it may be tried again
                self._phase = "new"
                raise
        self._declared.enter(self)  # what another thread has declared meanwhile
        self._look()

    def run(self) -> bool:
        """Start, wait until every task is terminal, close. True when all came to their end.

        In the main thread SIGINT and SIGTERM end the wait: what runs may finish, then False is returned, or for SIGINT
        KeyboardInterrupt raised. A second signal ends the process at once, but for the same one within 0.1 s.
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
                beside(bell, self.close)
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
        deadline = deadline_of(timeout)
        with self._lifetime:
            if self._phase != "closed":
                self._phase = "closing"
        store = self._store
        store.close(self._now())
        if cancel:
            store.stop_running()
        own = run_going_on(store)
        inside = None if own is None else own.task
        if inside is not None:
            self._closers |= store.busy_with(inside)
        try:
            for record in store.live():
                # Two tasks that close do not wait for each other; who calls from outside waits for both.
                if inside is None or record._seq not in self._closers:
                    await_end(store, record, deadline, self._look)
        finally:
            self._dispatcher.stop(left_s(deadline))  # not before: what runs may time out yet
        running = [run for run in store.running() if inside is None or run.task_id != inside.id]
        if self._own_pool is not None:
            is_idle = not running and inside is None and not store.zombies()
            self._own_pool.shutdown(wait=is_idle)
        if not running and inside is None:
            self._journal.close(left_s(deadline))
        with self._lifetime:
            self._phase = "closed"
        if self._durable is not None and not running and inside is None and not store.zombies():
            self._durable.leave()
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
        deadline = deadline_of(timeout)
        done = await_end(self._store, record, deadline, self._look, begun=self._phase != "new")
        self._look()
        return done

    def _record_of(self, task: Which) -> TaskRecord:
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
        if self._durable is not None and not self._durable.store.claims.any():
            self._durable.leave()


Scheduler.schedule.__signature__ = signature_with(Scheduler.schedule, Options, DEFAULTS)  # type: ignore[attr-defined]
