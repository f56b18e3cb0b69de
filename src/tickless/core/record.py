"""The store's own mutable records. Nobody outside the store and these floors holds one but as an opaque key."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tickless.errors import TicklessError
from tickless.instants import Instant
from tickless.rules import Rule
from tickless.states import Reason, RunIf, State

if TYPE_CHECKING:
    from tickless.core.special import RunExtra, Special

SEQ_BITS = 40
"""A timeline entry is `at << SEQ_BITS | seq`: see `core.timeline`."""
SEQ_MASK = (1 << SEQ_BITS) - 1


class IllegalMove(TicklessError, AssertionError):
    """A move that the table does not have: a defect of tickless, never of its user."""


NOT_SET: Any = object()
"""The value of a task that nothing was put into."""


class Waiter(Protocol):
    """A thread that waits for a task to end."""

    def ring(self) -> None: ...


class Signs:
    """What the caller of a verb looks at afterwards: see `tickless.stores.Store`."""

    __slots__ = ("earlier", "stirred")

    def __init__(self) -> None:
        self.stirred = False
        """Something became ready, or `earlier` was set, since this was last cleared."""
        self.earlier = False
        """The earliest entry became earlier than the last answer of `next_wake`."""


class TaskRecord:
    """One task, and what `schedule` gives: `tickless.task.Task` adds the methods that users call. One object, since
    what a flood of tasks costs is mostly what the collector of garbage must walk over.

    `_entry` is its place in the timeline, None when it has none; see `due_of`.
    """

    __slots__ = (
        "__weakref__",
        "_args",
        "_at",
        "_children",
        "_due",
        "_entry",
        "_id",
        "_kwargs",
        "_more",
        "_name",
        "_owner",
        "_parents",
        "_priority",
        "_rule",
        "_run",
        "_seen",
        "_seq",
        "_value",
        "_waiting",
        "_wall",
        "_work",
    )

    def __init__(
        self,
        work: Callable[..., Any] | None,
        args: tuple[Any, ...] | None,
        kwargs: Mapping[str, Any] | None,
        id: str | None,
        name: str,
        priority: int,
        rule: Rule | None,
        due: Instant | None,
        wall: bool,
        more: More | None,
        parents: tuple[Any, ...] = (),
        owner: Any = None,
    ) -> None:
        self._owner = owner
        """Whose handle it is: the scheduler."""
        self._work = work
        self._args = args
        self._kwargs = kwargs
        self._id = id
        """The one that was given, if any."""
        self._name = name
        self._priority = priority
        self._rule = rule
        """The bound rule while more fires may come; a one-shot needs none, its instant is `_due`."""
        self._due = due
        """On entering, the first fire; of a ready task the fire that runs; of a task of the wall clock, or with jitter,
        the next one. Others have that in `_entry`."""
        self._wall = wall
        """True when its fires are instants of the wall clock."""
        self._more = more
        self._parents = parents
        """Tasks until it is linked, then keys: a chain must not keep its ancestors."""
        self._children: list[Any] | None = None
        """Who waits for it; keys once it has ended."""
        self._waiting = 0
        """How many parents have not finished (P4)."""
        self._seen = 0
        """How the others ended, as bits: see `policies.kind_of_end`."""
        self._seq = -1
        self._entry: int | None = None
        self._run: RunRecord | None = None
        """The run that lives or, failing that, the last one. Some are shared: see QUEUED."""
        self._at: Instant | None = None
        """In `Clock.now()`: when a ready task of the wall clock, or with jitter, was to run; or when it was cancelled,
        if its run is CANCELLED_RUN."""
        self._value = NOT_SET
        """What it returned or raised, once it has ended."""

    @property
    def id(self) -> str:
        """The id that was given, or "#" and a number."""
        return f"#{self._seq}" if self._id is None else self._id

    @property
    def name(self) -> str:
        """The name that was given, or that of the work."""
        return self._name


Key = int | tuple[int, str]
"""Names a task without keeping it: its number, and its id if it was given one."""


def number_of(key: Key) -> int:
    return key if isinstance(key, int) else key[0]


def key_of(task: TaskRecord) -> Key:
    return task._seq if task._id is None else (task._seq, task._id)


def without_value(task: TaskRecord) -> TaskRecord:
    """A twin of a task that has ended, for the store to list: the value dies with the last handle of the task itself.

    The runs are the twin's from now on, so that nothing that is listed leads to the task.
    """
    twin = type(task)(
        None, None, None, task._id, task._name, task._priority, None, task._due, task._wall, task._more, task._parents,
        task._owner,
    )  # fmt: skip
    twin._children, twin._waiting, twin._seen, twin._seq = task._children, task._waiting, task._seen, task._seq
    twin._run = task._run
    if task._run is not None:
        task._run.task = twin
    if task._more is not None:
        for run in task._more.history or ():
            run.task = twin
    return twin


class More:
    """What few tasks need: waiters, history, an end of their own. Made under the store's lock only."""

    __slots__ = (
        "end",
        "history",
        "outputs",
        "recurring",
        "round",
        "run_if",
        "runs_left",
        "special",
        "update",
        "waiters",
        "when",
    )

    def __init__(self) -> None:
        self.run_if = RunIf.ALL_SUCCEEDED
        self.runs_left: int | None = None
        """How many more times it runs, where that is limited (`max_runs`)."""
        self.when: Rule | None = None
        """The rule as given: to be bound when the parents let go, and to see whether an update changes it."""
        self.recurring = False
        """Whether it fires, or `when` will, more than once. Asked at the door: a user's own rule is foreign code."""
        self.outputs = False
        """True when the arguments hold outputs of parents."""
        self.update: TaskRecord | None = None
        """What to become once the run that goes on has ended (`exists="update"`)."""
        self.waiters: list[Waiter] | None = None
        self.history: deque[RunRecord] | None = None
        self.end: tuple[State, Reason | None] | None = None
        """How the task ended, or will when its run does, where that is not simply how its last run ended."""
        self.round: int | None = None
        """Of a task of a flow: the number of its round."""
        self.special: Special | None = None
        """What a task needs that has a policy, a pause, jitter, or a chief. The quick ways are closed to it."""


class RunRecord:
    """The life of one occurrence."""

    __slots__ = ("at", "due", "error", "extra", "finished", "reason", "started", "state", "stop", "task")

    def __init__(self, task: TaskRecord, due: Instant | None, state: State) -> None:
        """A pending or ready task has none yet: it is made when a worker takes the task, or when it is not to run."""
        self.task = task
        """Deleted when the task is forgotten, so that the two do not keep each other."""
        self.due = due
        self.at = due
        """When that is in `Clock.now()`; another instant where the wall clock drives the task."""
        self.state = state
        self.reason: Reason | None = None
        self.started: Instant | None = None
        self.finished: Instant | None = None
        self.error: str | None = None
        self.stop: Any = None
        """None; True once asked to stop; or the waitable flag that somebody looked at."""
        self.extra: RunExtra | None = None


QUEUED = RunRecord(None, None, State.READY)  # type: ignore[arg-type]  # it belongs to nobody
"""The run of every task that is ready, for as long as it is: a flood of them makes no objects. See `own_run`."""
CANCELLED_RUN = RunRecord(None, None, State.CANCELLED)  # type: ignore[arg-type]  # likewise
"""The run of every plain task that was cancelled in the timeline, where nobody listens: timeouts make no objects."""
CANCELLED_RUN.reason = Reason.CANCELLED


def own_run(task: TaskRecord, run: RunRecord) -> RunRecord:
    """The record of the task's run, for who takes it or shows it: made, where the one that is there is shared."""
    if run is not QUEUED and run is not CANCELLED_RUN:
        return run
    own = RunRecord(task, task._due, run.state)
    if run is CANCELLED_RUN:
        own.reason = run.reason
        own.finished = task._at
    return own


def move(run: RunRecord, after: State, reason: Reason | None = None) -> None:
    """The one door through which a run changes state. Raises IllegalMove for a move that the table does not have."""
    if after not in run.state.after:
        raise IllegalMove(f"run of {run.task.id} due {run.due}: {run.state} -> {after} is not in the table")
    if reason is not None:
        run.reason = reason
    run.state = after


def holdings(task: TaskRecord) -> tuple[object, ...]:
    """What a task lets go of when it ends. Foreign code may be behind each: keep it until the lock is free."""
    when = None if task._more is None else task._more.when
    return task._work, task._args, task._kwargs, task._rule, when, task


def is_apart(task: TaskRecord) -> bool:
    """True when its place in the timeline is not its due: the wall clock drives it, or it has jitter."""
    special = None if task._more is None else task._more.special
    return task._wall or (special is not None and special.policy.jitter_us > 0)


def is_retrying(task: TaskRecord) -> bool:
    """True while an occurrence of it has begun, or was ready, and is to begin again."""
    return task._run is not None and task._run.state is State.PENDING


def due_of(task: TaskRecord) -> Instant | None:
    """The planned instant of the task's next fire, on the clock that drives it; None when it has no place in time."""
    if task._entry is None or is_apart(task) or is_retrying(task):
        return task._due
    return Instant(task._entry >> SEQ_BITS)


def state_of(task: TaskRecord) -> State:
    """The task's state, derived: its end if it has one, else its run's while that lives or was the only one."""
    run = task._run
    return state_with(task, None if run is None else run.state)


def state_with(task: TaskRecord, of_run: State | None) -> State:
    """The same, where its run (None: it has none) has been looked at: a worker may be about to end it."""
    more = task._more
    if more is not None and more.special is not None and more.special.crew:
        states = [state_of(one) for one in more.special.crew]
        return next((state for state in (State.RUNNING, State.READY) if state in states), State.PENDING)
    if task._rule is None:
        if more is not None and more.end is not None and (of_run is None or not of_run.after):
            return more.end[0]
        if of_run is not None:
            return of_run
    elif of_run is not None and of_run.after:
        return of_run
    return State.PENDING


def reason_of(task: TaskRecord) -> Reason | None:
    """Why the task is in the state it is in, where the state alone does not tell."""
    return reason_with(task, None if task._run is None else task._run.reason)


def reason_with(task: TaskRecord, of_run: Reason | None) -> Reason | None:
    """The same, where its run has been looked at."""
    more = task._more
    if task._rule is None and more is not None and more.end is not None:
        return more.end[1]
    return of_run


def ended(task: TaskRecord) -> bool:
    """True once the task is terminal. Safe to ask without the lock: it never goes back."""
    return not state_of(task).after


def run_if_of(task: TaskRecord) -> RunIf:
    return RunIf.ALL_SUCCEEDED if task._more is None else task._more.run_if


def more_of(task: TaskRecord) -> More:
    """The task's `more`, made if it has none. Under the store's lock only: a worker looks whether there is one."""
    more = task._more
    if more is None:
        more = task._more = More()
    return more
