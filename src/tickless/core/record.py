"""The store's own mutable records. Nobody outside the store and these floors holds one but as an opaque key."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tickless.errors import TicklessError
from tickless.instants import Instant
from tickless.rules import Rule
from tickless.states import Reason, RunIf, State

SEQ_BITS = 40
"""A timeline entry is `at << SEQ_BITS | seq`: see `core.timeline`."""
SEQ_MASK = (1 << SEQ_BITS) - 1


class IllegalMove(TicklessError, AssertionError):
    """A move that the table does not have: a defect of tickless, never of its user."""


class Cell(Protocol):
    """What the outcome of a task is put into: the handle. While only it holds the value, it lives as long as it."""

    _value: Any


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
    """One task. `entry` is its place in the timeline, None when it has none; see `due_of`."""

    __slots__ = (
        "args",
        "cell",
        "due",
        "entry",
        "id",
        "kwargs",
        "more",
        "name",
        "priority",
        "rule",
        "run",
        "seq",
        "wall",
        "work",
    )

    def __init__(
        self,
        work: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None,
        id: str | None,
        name: str,
        priority: int,
        rule: Rule | None,
        due: Instant | None,
        wall: bool,
        more: More | None,
    ) -> None:
        self.work: Callable[..., Any] | None = work
        self.args: tuple[Any, ...] | None = args
        self.kwargs = kwargs
        self.id = id
        self.name = name
        self.priority = priority
        self.rule = rule
        """The bound rule while more fires may come; a one-shot needs none, its instant is `due`."""
        self.due = due
        """On entering, the first fire; then, of a task of the wall clock, the next. Others have it in `entry`."""
        self.wall = wall
        """True when its fires are instants of the wall clock."""
        self.more = more
        self.seq = -1
        self.entry: int | None = None
        self.run: RunRecord | None = None
        """The run that lives or, failing that, the last one."""
        self.cell: Cell | None = None

    @property
    def public_id(self) -> str:
        return f"#{self.seq}" if self.id is None else self.id

    @property
    def label(self) -> str:
        return self.name


class More:
    """What few tasks need: links, waiters, history, an end of their own. Made under the store's lock only."""

    __slots__ = (
        "children",
        "end",
        "history",
        "kin",
        "outputs",
        "parents",
        "recurring",
        "run_if",
        "seen",
        "waiters",
        "waiting",
        "update",
        "when",
    )

    def __init__(self) -> None:
        self.parents: tuple[Any, ...] = ()
        """Records while the task lives, then their ids or seqs: a chain must not keep its ancestors."""
        self.children: list[TaskRecord] | None = None
        self.kin: tuple[str | int, ...] = ()
        """The children's ids or seqs once the task has ended."""
        self.run_if = RunIf.ALL_SUCCEEDED
        self.waiting = 0
        """How many parents have not finished (P4)."""
        self.seen = 0
        """How the others ended, as bits: see `policies.kind_of_end`."""
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


class RunRecord:
    """The life of one occurrence."""

    __slots__ = ("at", "due", "error", "fires", "finished", "reason", "started", "state", "stop", "task")

    def __init__(self, task: TaskRecord, due: Instant | None, state: State) -> None:
        """A pending task has no run record yet: one is made when it becomes ready, or is decided not to run."""
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
        self.fires: tuple[int, Instant] | None = None
        """Of a summary of skipped fires: how many, and the last one's due."""


def move(run: RunRecord, after: State, reason: Reason | None = None) -> None:
    """The one door through which a run changes state. Raises IllegalMove for a move that the table does not have."""
    if after not in run.state.after:
        raise IllegalMove(f"run of {run.task.public_id} due {run.due}: {run.state} -> {after} is not in the table")
    if reason is not None:
        run.reason = reason
    run.state = after


def due_of(task: TaskRecord) -> Instant | None:
    """The planned instant of the task's next fire, on the clock that drives it; None when it has no place in time."""
    if task.wall or task.entry is None:
        return task.due
    return Instant(task.entry >> SEQ_BITS)


def state_of(task: TaskRecord) -> State:
    """The task's state, derived: its end if it has one, else its run's while that lives or was the only one."""
    run = task.run
    if task.rule is None:
        more = task.more
        if more is not None and more.end is not None and (run is None or not run.state.after):
            return more.end[0]
        if run is not None:
            return run.state
    elif run is not None and run.state.after:
        return run.state
    return State.PENDING


def reason_of(task: TaskRecord) -> Reason | None:
    """Why the task is in the state it is in, where the state alone does not tell."""
    more = task.more
    if task.rule is None and more is not None and more.end is not None:
        return more.end[1]
    return None if task.run is None else task.run.reason


def ended(task: TaskRecord) -> bool:
    """True once the task is terminal. Safe to ask without the lock: it never goes back."""
    return not state_of(task).after


def more_of(task: TaskRecord) -> More:
    """The task's `more`, made if it has none. Under the store's lock only: a worker looks whether there is one."""
    more = task.more
    if more is None:
        more = task.more = More()
    return more
