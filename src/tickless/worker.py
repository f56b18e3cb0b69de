"""Around one user call: take, context, outcome, finish; and the drainer, which does so until nothing is ready."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from logging import Logger, LoggerAdapter, getLogger
from threading import get_ident
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, final

from tickless.clocks import LONGEST_SLEEP_S
from tickless.core.record import RunRecord, TaskRecord
from tickless.core.special import attempt_of
from tickless.errors import OUR_FRAMES, ScheduleError, Stopped, TaskRejected, TicklessError, shown
from tickless.instants import Clock, Instant, datetime_of
from tickless.observe.text import error_line, printable, traceback_of
from tickless.output import replaced
from tickless.records import SUCCESS, Outcome
from tickless.states import DEFAULT_POOL, Reason, State
from tickless.stores import Store
from tickless.stores.stopping import StopEvent

STAY_RUNS = 256
STAY_US = 20_000
"""How long a drainer stays: others who share the pool get a turn."""
_NEVER_RAN = frozenset({CoroutineType, GeneratorType, AsyncGeneratorType})


@final
class CurrentRun:
    """The run that the calling code belongs to."""

    __slots__ = ("_run", "_store", "attempt", "task_id")

    def __init__(self, store: Store, run: RunRecord, task_id: str) -> None:
        self._store = store
        self._run = run
        self.task_id = task_id
        """The id of its task."""
        self.attempt = attempt_of(run)
        """Which try this is: 1, and more for the retries."""

    @property
    def due(self) -> datetime | None:
        """The instant it was planned for, aware UTC: with the id it names this run, on every node and in a replay."""
        return None if self._run.due is None else datetime_of(self._run.due)

    @property
    def lease_lost(self) -> bool:
        """True once another process may run it too: what this one says of its end counts for nothing.

        Never in memory, where there are no leases.
        """
        return self._store.lease_lost(self._run)

    @property
    def log(self) -> RunLog:
        """The logger "tickless.run", with the id, the due instant and the attempt in each line and each record."""
        return RunLog(self.task_id, self.due, self.attempt)

    @property
    def stop_requested(self) -> StopFlag:
        """True once somebody cancelled the run or closed with `cancel=True`. `.wait(seconds)` sleeps until then."""
        return StopFlag(self._store.stop_flag(self._run))


@final
class StopFlag:
    """`if flag:` asks; `flag.wait(timeout)` sleeps until it is set, at most `timeout` real seconds, and answers."""

    __slots__ = ("_event",)

    def __init__(self, event: StopEvent) -> None:
        self._event = event

    def __bool__(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """True when the stop was asked for, False after `timeout` seconds without; zero or less only looks.

        Raises ScheduleError for what is no number of seconds. A longer wait than the system has ends after the longest.
        """
        if timeout is None:
            return self._event.wait()
        if type(timeout) not in (int, float) or timeout != timeout:  # not by isinstance: True is an int too
            raise ScheduleError(
                f"stop_requested.wait({shown(timeout)}): needs seconds, or None to wait for as long as it takes"
            )
        return self._event.wait(max(0, min(timeout, LONGEST_SLEEP_S)))

    def call(self, callback: Callable[[], object]) -> None:
        """Have it called once: when the stop is asked for, or now where it was. For code that cannot wait, such as
        that of an event loop: it is called in the thread that asks, in the middle of its work, so it must only note
        that and wake another, and must not raise.
        """
        self._event.call(callback)


@final
class DistantRun:
    """What `current_run()` gives where the body runs in another process: ids only, no stop flag reaches it."""

    __slots__ = ("attempt", "due", "stop_requested", "task_id")

    lease_lost = False

    def __init__(self, task_id: str, due: Instant | None, attempt: int) -> None:
        self.task_id = task_id
        self.due = None if due is None else datetime_of(due)
        self.attempt = attempt
        self.stop_requested = StopFlag(StopEvent())

    @property
    def log(self) -> RunLog:
        """As in `CurrentRun`; where its lines go is said by the logging of the process that the body runs in."""
        return RunLog(self.task_id, self.due, self.attempt)


@final
class RunLog(LoggerAdapter[Logger]):
    """The logger "tickless.run" for one run: `night attempt 2: no connection`.

    Each record has `task_id`, `due` (aware UTC, or None) and `attempt`, beside what `extra=` says.
    """

    def __init__(self, task_id: str, due: datetime | None, attempt: int) -> None:
        super().__init__(_LOGGER, {"task_id": task_id, "due": due, "attempt": attempt})
        self._prefix = f"{printable(task_id)} attempt {attempt}: "

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """As `Logger.log`; debug, info, warning, error, exception and critical come here."""
        if not self.isEnabledFor(level):
            return
        prefix = self._prefix.replace("%", "%%") if args else self._prefix  # without arguments nothing is formatted
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # the line is the caller's, and not this one
        self.logger.log(level, f"{prefix}{msg}", *args, **kwargs)


_LOGGER = getLogger("tickless.run")


_run: ContextVar[RunRecord | None] = ContextVar("tickless_run", default=None)
_store: ContextVar[Store | None] = ContextVar("tickless_store", default=None)
_timed: ContextVar[tuple[RunRecord, str] | None] = ContextVar("tickless_timed_run", default=None)
"""A run that may time out, and the id of its task: that may be forgotten while the run's code goes on."""
_distant: ContextVar[DistantRun | None] = ContextVar("tickless_distant_run", default=None)


def current_run() -> CurrentRun | DistantRun:
    """The run that calls this, in its own thread or in one started with `contextvars.copy_context().run`.

    Raises TicklessError where no run of a task goes on.
    """
    run, store = _run.get(), _store.get()
    if run is not None and store is not None:
        task, timed = getattr(run, "task", None), _timed.get()
        if task is not None:
            return CurrentRun(store, run, task.id)
        if timed is not None and timed[0] is run:
            return CurrentRun(store, run, timed[1])
        raise TicklessError("current_run(): the run that this belongs to has ended, and its task was forgotten")
    distant = _distant.get()
    if distant is None:
        raise TicklessError("current_run(): no task's run goes on here; call it from a task's own code")
    return distant


Seat = list[RunRecord | None]
"""One place: the run that a thread is inside of."""
_seats: dict[int, tuple[Store, Seat]] = {}
"""Thread -> whose run it is inside of. A context can be copied elsewhere; a thread is where it is."""


def run_going_on(store: Store) -> RunRecord | None:
    """The run of this store that goes on and that the caller is inside of, by its thread or by its context."""
    there, seat = _seats.get(get_ident(), (None, ()))
    by_thread = seat[0] if there is store and seat else None
    by_context = _run.get() if _store.get() is store else None
    for run in (by_thread, by_context):
        if run is not None and run.state is State.RUNNING and hasattr(run, "task"):
            return run
    return None


class Worker:
    """Executes the runs of one pool. `look` is called after a finish that may have changed more than its own task."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        look: Callable[[int], None],
        stay_runs: int = STAY_RUNS,
        pool: str = DEFAULT_POOL,
        keeps: Callable[[BaseException, RunRecord | None], bool] = lambda error, run: False,
    ) -> None:
        self._store = store
        self.keeps = keeps
        """Whether runs, and this one that was not taken, go on waiting where an executor refuses with this error."""
        self.take_at: Callable[[Instant], RunRecord | None]
        """The next ready run of the pool, now RUNNING. Who takes one with a deadline calls `time` for it."""
        self.take_at = store.take if pool == DEFAULT_POOL else partial(store.take, pool=pool)
        self._now = clock.now
        self._look = look
        self._stay_runs = stay_runs
        self.tracebacks = False
        """Whether anybody wants failures told, so that their tracebacks are worth the 50 µs."""

    def stay(self) -> None:
        """One drainer's stay in the pool: take and run until nothing is ready, or it is the others' turn.

        A child that this makes ready is taken by this very loop, so `look` is told to spare one.
        """
        take, finish, now, look, call = self.take_at, self._store.finish, self._now, self._look, self.outcome
        signs = self._store.signs
        with self.context() as (set_run, seat):
            at = now()
            leave_at = at + STAY_US
            for _ in range(self._stay_runs):
                run = take(at)
                if signs.earlier:  # one that was too late to start has left a next fire to be woken for
                    look(1)
                if run is None:
                    break
                set_run(run)
                seat[0] = run
                if run.extra is not None and run.extra.time_out is not None:
                    self.time(run)
                outcome = call(run)
                at = now()
                changed = finish(run, outcome, at)
                del outcome  # what nobody holds must not live through the next run
                if changed:
                    look(1)
                if at > leave_at:
                    break

    @contextmanager
    def context(self) -> Iterator[tuple[Callable[[RunRecord], object], Seat]]:
        """While inside, `current_run()` answers. Gives what says which run it is: to its context, and to its thread."""
        me = get_ident()
        seat: Seat
        before, seat = _seats.get(me), [None]
        in_store, in_run, in_timed = _store.set(self._store), _run.set(None), _timed.set(None)
        _seats[me] = self._store, seat
        try:
            yield _run.set, seat
        finally:
            _timed.reset(in_timed)
            _run.reset(in_run)
            _store.reset(in_store)
            if before is None:
                del _seats[me]
            else:
                _seats[me] = before

    def time(self, run: RunRecord) -> None:
        """Called for every run with a deadline once it is taken: that may be the earliest entry of all now."""
        task: TaskRecord | None = getattr(run, "task", None)
        if task is not None:
            _timed.set((run, task.id))
        self._look(0)

    def outcome(self, run: RunRecord) -> Outcome:
        """Call the user's work. The one place where what user code raises is caught, BaseException included."""
        task = getattr(run, "task", None)
        if task is None or task._work is None:  # what a task held is let go of at its end, and it may be forgotten
            return self.failure(TimeoutError("the time of the run was up before its work began"))
        work, args, kwargs, more = task._work, task._args, task._kwargs, task._more
        try:
            if more is not None and more.outputs:
                args, kwargs = _filled_call(args, kwargs)
            value = work(*args, **kwargs) if kwargs else work(*args)
            return SUCCESS if value is None else self.success(value)
        except BaseException as error:  # noqa: BLE001 - whatever a task raises is its outcome, and ends nothing else
            del work, args, kwargs, task  # this frame lives as long as somebody keeps the error, by the frames above it
            return self.failure(error)

    def success(self, value: Any) -> Outcome:
        """The outcome of a work that returned. What never ran, such as a coroutine, is a failure and is closed.

        Asked by type: a proxy answers `isinstance` with foreign code.
        """
        kind = type(value)
        if kind not in _NEVER_RAN:
            return Outcome(State.SUCCEEDED, value)
        if kind is not AsyncGeneratorType:
            value.close()
        raise ScheduleError(
            f"the work returned a {kind.__name__}, which nobody runs; schedule a plain function that returns"
        )

    def failure(self, error: BaseException) -> Outcome:
        """The outcome of a work that raised. `Stopped` says that it stopped on request."""
        # The traceback begins with the user's code: our own frames say nothing about the error.
        rest = frame = error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code in OUR_FRAMES:
                rest = frame.tb_next
            frame = frame.tb_next
        BaseException.with_traceback(error, rest)
        line = error_line(error)
        if issubclass(type(error), Stopped):
            return Outcome(State.CANCELLED, error, Reason.STOPPED, line)
        return Outcome(State.FAILED, error, None, line, traceback_of(error) if self.tracebacks and rest else None)

    # What the hand for other executors asks: see `pools.single.Desk`

    def take(self) -> RunRecord | None:
        return self.take_at(self._now())

    def is_timed(self, run: RunRecord) -> bool:
        return run.extra is not None and run.extra.time_out is not None

    def call_of(self, run: RunRecord) -> tuple[Any, ...]:
        task = run.task
        args, kwargs = task._args, task._kwargs
        if task._more is not None and task._more.outputs:
            args, kwargs = _filled_call(args, kwargs)
        key = (os.getpid(), id(run))
        _here[key] = self._store, run
        work = task._work
        if hasattr(type(work), "tickless_parts"):  # what is stored is called by its name here only
            work, args, kwargs = work.tickless_parts()  # type: ignore[union-attr]  # asked just now
        return (call_distant, key, task.id, run.due, attempt_of(run), work, args, dict(kwargs or {}))

    def returned(self, run: RunRecord, value: Any) -> None:
        try:
            outcome = SUCCESS if value is None else self.success(value)
        except BaseException as error:  # noqa: BLE001 - to close what never ran is foreign code
            outcome = self.failure(error)
        self._finish(run, outcome)

    def raised(self, run: RunRecord, error: BaseException) -> None:
        self._finish(run, self.failure(error))

    def refused(self, run: RunRecord, error: BaseException) -> None:
        if self.keeps(error, run):
            _here.pop((os.getpid(), id(run)), None)
        else:
            self.rejected(run, error)

    def rejected(self, run: RunRecord, error: BaseException) -> None:
        self._finish(run, rejection(error))

    def _finish(self, run: RunRecord, outcome: Outcome) -> None:
        _here.pop((os.getpid(), id(run)), None)
        self._store.finish(run, outcome, self._now())  # the hand has the dispatcher look, once the slot is free


def rejection(error: BaseException) -> Outcome:
    """The outcome of a run that the pool would not take."""
    line = f"the pool did not take the run: {error_line(error)}"
    return Outcome(State.FAILED, TaskRejected(line), Reason.REJECTED, line)


_here: dict[tuple[int, int], tuple[Store, RunRecord]] = {}
"""The runs that were submitted one by one, by process and number: how a body learns whether it runs in this process."""


def call_distant(
    key: tuple[int, int],
    task_id: str,
    due: Instant | None,
    attempt: int,
    work: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """What is submitted to an executor that may run it in another process. A forked one has a copy of `_here`."""
    store, run = _here.get(key, (None, None)) if key[0] == os.getpid() else (None, None)
    in_store, in_run, in_timed = _store.set(store), _run.set(run), _timed.set(None)
    if run is not None:
        _timed.set((run, task_id))
    distant = _distant.set(DistantRun(task_id, due, attempt))
    try:
        return work(*args, **kwargs)
    finally:
        del work, args, kwargs  # as in `Worker.outcome`
        _distant.reset(distant)
        _timed.reset(in_timed)
        _run.reset(in_run)
        _store.reset(in_store)


OUR_FRAMES |= {Worker.outcome.__code__, call_distant.__code__}


def _filled_call(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(replaced, args)), {key: replaced(value) for key, value in (kwargs or {}).items()}
