"""What a task needs when reality disagrees with the plan: its policy, and where it stands with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from tickless.core.record import RunRecord, TaskRecord, more_of
from tickless.instants import Instant
from tickless.policies import Pause, Policy
from tickless.records import Attempt
from tickless.states import DEFAULT_POOL, Reason

if TYPE_CHECKING:
    from tickless.core.ready import ReadyQueue

NO_POLICY = Policy()


class Hold(Enum):
    """Why a task is held, and what it does when it is let go."""

    FIRE = "fire"
    """Paused before its time: its rule is asked what became of `_due`."""
    READY = "ready"
    """Paused when it was ready, or would have been."""
    RETRY = "retry"
    """Paused before `retry_at`."""
    ZOMBIE = "zombie"
    """Its code goes on though its run has timed out."""
    TURN = "turn"
    """It is a run beside the plan, and those before it have not ended: see `core.asides`."""
    BUSY = "busy"
    """Its occurrences go on, and it takes no more fires until one has ended."""


class Special:
    """What reality asks of a task when it disagrees with the plan. Made under the store's lock only."""

    __slots__ = (
        "asks_at_due",
        "aside",
        "asides",
        "asked",
        "asks_at_start",
        "attempts",
        "by_hand",
        "chief",
        "crew",
        "failures",
        "hold",
        "pause",
        "permit",
        "planned",
        "policy",
        "queue",
        "retry_at",
        "round",
        "rounds",
        "since",
        "takes_turn",
        "unlisted",
        "until",
        "waiter",
        "zombie",
        "zombies",
    )

    def __init__(self, policy: Policy = NO_POLICY) -> None:
        self.crew: list[TaskRecord] | None = None
        """The occurrences with records of their own that keep this task busy."""
        self.set_policy(policy)
        self.pause: Pause | None = None
        """The task's own pause; a tag's, or that of all, may hold it too."""
        self.hold: Hold | None = None
        """Why it is in no queue, where it is held: that is its place then (P1)."""
        self.attempts: tuple[Attempt, ...] = ()
        """The failed attempts of the occurrence that goes on."""
        self.retry_at: Instant | None = None
        """When the next attempt begins."""
        self.failures = 0
        """How many runs in a row have failed."""
        self.zombie: RunRecord | None = None
        """The failed attempt whose code goes on, so that the next one waits."""
        self.since: Instant | None = None
        """Where that is not the run's own fire: the instant up to which fires are dealt with once it has ended."""
        self.zombies = 0
        """Runs that timed out, whose code goes on, and that keep it busy."""
        self.until: Instant | None = None
        """The last of the missed fires that run one after another (`catch_up="all"`)."""
        self.queue: ReadyQueue | None = None
        """The queue that it stands in while it is ready, where that is not the default pool's."""
        self.permit = False
        """Whether it holds a permit of its limit."""
        self.by_hand = False
        """Whether its run was asked for by `run_now`: then it is never too late."""
        self.planned: Instant | None = None
        """The fire before which the task was paused, while a run that was asked for by hand goes on."""
        self.takes_turn = False
        """Whether it stands where another stood that it replaces, so that one who is replaced often starves not."""
        self.aside = False
        """Whether it is an occurrence beside the plan of its chief: see `core.asides`."""
        self.asides = False
        """Whether there are such of this task, that have not ended."""
        self.unlisted = False
        """Whether it is shown to nobody: an occurrence with a record of its own, or what `on_failure` calls."""
        self.chief: TaskRecord | None = None
        """Of an occurrence that has a record of its own: the task whose occurrence it is."""
        self.waiter: Instant | None = None
        """The fire that waits for the run that goes on to end."""
        self.rounds: deque[TaskRecord] | None = None
        """Of a flow: the rounds that are kept, the oldest first."""
        self.asked: Asked | None = None
        """Of a flow: what was said of the round that waits, where it was asked for by hand."""
        self.round: Round | None = None
        """Of an occurrence of a flow."""

    def set_policy(self, policy: Policy) -> None:
        self.policy = policy
        is_late = bool(policy.jitter_us) or policy.grace_us is not None
        is_queued = policy.limit is not None or policy.pool != DEFAULT_POOL
        self.asks_at_start = is_late or is_queued or policy.timeout_us is not None
        """Whether a worker that takes it must ask something first."""
        is_chief = policy.overlap != "skip" or self.crew is not None
        self.asks_at_due = is_late or is_queued or is_chief or policy.catch_up != "latest"
        """Whether something must be asked when its entry comes up."""


class Asked(NamedTuple):
    """What is said of a round that is asked for by hand."""

    params: Mapping[str, Any]
    """Instead of the flow's own, by their names."""
    retry_of: str | None = None
    """The id of the round whose failed tasks are to be tried again."""


class Round:
    """What an occurrence of a flow is besides: a run whose body is other tasks."""

    __slots__ = ("due", "id", "opened", "params", "plan", "retry_of", "stopped", "tasks")

    def __init__(
        self, id: str, due: Instant | None, params: Mapping[str, Any], retry_of: str | None, plan: Any
    ) -> None:
        self.id = id
        self.due = due
        """The fire that it is of: of one that tries again, that of the first."""
        self.params = params
        self.retry_of = retry_of
        self.plan = plan
        """What it is made of: see `core.rounds.Plan`."""
        self.opened = False
        """Whether its tasks are there."""
        self.stopped: Reason | None = None
        """Why nothing of it starts any more."""
        self.tasks: list[TaskRecord] = []
        """In the order of definition: parents before their children. A store may keep them elsewhere."""


class RunExtra:
    """What few runs need. Of one with a timeout it is the alarm, too: see `core.timeline`."""

    __slots__ = (
        "_entry",
        "attempts",
        "deadline",
        "fires",
        "keeps",
        "late",
        "permit",
        "pool",
        "returned",
        "run",
        "seq",
        "time_out",
        "zombie",
    )

    def __init__(self, attempts: tuple[Attempt, ...] = ()) -> None:
        self.attempts = attempts
        """The failed tries before this one."""
        self.fires: tuple[int, Instant] | None = None
        """Of a summary of skipped fires: how many, and the last one's due."""
        self.time_out: Callable[[RunRecord, Instant], None] | None = None
        """What ends it when its time is up, for as long as that may come. Who takes a run with one looks at the signs.
        """
        self.zombie = False
        """True from the instant at which it timed out until its code returns."""
        self.returned: Instant | None = None
        """When its code returned."""
        self.late: str | None = None
        """What came of it after it had timed out."""

    def watch(
        self, run: RunRecord, seq: int, deadline: Instant, time_out: Callable[[RunRecord, Instant], None]
    ) -> None:
        """From here on it is an alarm, to be armed."""
        self.deadline = deadline
        self.run: RunRecord | None = run
        self.seq = seq
        self._entry: int | None = None
        self.time_out = time_out
        self.permit: str | None = None
        """The limit whose permit it keeps as a zombie."""
        self.pool = DEFAULT_POOL
        self.keeps = True
        """Whether it keeps its task busy as a zombie."""

    def ring(self, now: Instant, wall: Instant) -> None:
        """Its time is up, unless it has returned just now: whoever leaves the lock next settles that."""
        if self.time_out is not None and self.run is not None and self.returned is None:
            self.time_out(self.run, now)


def special_in(task: TaskRecord) -> Special | None:
    return None if task._more is None else task._more.special


def special_of(task: TaskRecord) -> Special:
    """The task's `special`, made if it has none. Under the store's lock only."""
    more = more_of(task)
    special = more.special
    if special is None:
        special = more.special = Special()
    return special


def is_flow(task: TaskRecord) -> bool:
    """Whether its occurrences are rounds: see `core.rounds`."""
    special = special_in(task)
    return special is not None and special.rounds is not None


def rounds_of(flow: TaskRecord) -> Collection[TaskRecord]:
    """The rounds of a flow that are kept, the oldest first; of any other task none."""
    special = special_in(flow)
    return () if special is None or special.rounds is None else special.rounds


def round_of(one: TaskRecord) -> Round:
    """What a round is besides an occurrence of its flow."""
    special = special_in(one)
    assert special is not None
    assert special.round is not None
    return special.round


def is_round(task: TaskRecord) -> bool:
    """Whether it is an occurrence of a flow."""
    special = special_in(task)
    return special is not None and special.round is not None


def is_open_round(task: TaskRecord) -> bool:
    """Whether it is a round that goes on in nobody's hands: it has its tasks."""
    special = special_in(task)
    return special is not None and special.round is not None and special.round.opened


def policy_of(task: TaskRecord) -> Policy:
    special = special_in(task)
    return NO_POLICY if special is None else special.policy


def is_chief(task: TaskRecord) -> bool:
    """True when its occurrences have records of their own: see `core.crew`."""
    special = special_in(task)
    return special is not None and (special.crew is not None or special.policy.overlap != "skip")


def numbers_of(task: TaskRecord) -> set[int]:
    """The number of the task and, of an occurrence with a record of its own, that of its chief, which lives as long."""
    special = special_in(task)
    return {task._seq} if special is None or special.chief is None else {task._seq, special.chief._seq}


def is_unlisted(task: TaskRecord) -> bool:
    special = special_in(task)
    return special is not None and special.unlisted


def keeps_busy(run: RunRecord) -> bool:
    """Whether the run has ended, and its code goes on and keeps the task busy."""
    return run.extra is not None and run.extra.zombie and run.extra.keeps


def queue_of(task: TaskRecord, default: ReadyQueue) -> ReadyQueue:
    """The queue in which a ready task stands: its pool's or its limit's, else the default pool's."""
    special = special_in(task)
    return default if special is None or special.queue is None else special.queue


def attempt_of(run: RunRecord) -> int:
    """Which try of its occurrence the run is."""
    return 1 if run.extra is None or not run.extra.attempts else run.extra.attempts[-1].number + 1
