"""tickless: keep the future in a heap, and let one thread sleep until the earliest entry is due."""

from tickless.clocks import SystemClock
from tickless.decorators import TaskFunction
from tickless.drafts import Call
from tickless.errors import (
    CancelledError,
    DependencyError,
    DuplicateId,
    ForkedScheduler,
    NotStarted,
    OutputGone,
    PayloadError,
    PoolError,
    RuleError,
    ScheduleError,
    SchedulerClosed,
    Stopped,
    StoreDown,
    StoreError,
    TaskFailed,
    TaskRejected,
    TaskSkipped,
    TaskTimedOut,
    TicklessError,
    UnknownTask,
)
from tickless.instants import Clock, Instant
from tickless.observe import Observer
from tickless.observe.log import LogObserver
from tickless.output import Output
from tickless.policies import Limit, Retry
from tickless.pools import Pool
from tickless.records import Attempt, Event, EventKind, LimitInfo, PoolInfo, Run, TaskInfo
from tickless.rules import Rule, after, at, cron, every, rrule, weekdays
from tickless.scheduler import Scheduler
from tickless.simulate import Trace, simulate
from tickless.states import Cancelled, Reason, RunIf, State
from tickless.stores import Store
from tickless.task import Task
from tickless.worker import current_run

__all__ = [
    "Scheduler",
    "Task",
    "TaskFunction",
    "Call",
    "Pool",
    "Retry",
    "Limit",
    "Output",
    "after",
    "at",
    "every",
    "cron",
    "rrule",
    "weekdays",
    "current_run",
    "simulate",
    "Trace",
    "State",
    "Reason",
    "RunIf",
    "Cancelled",
    "Run",
    "Attempt",
    "TaskInfo",
    "PoolInfo",
    "LimitInfo",
    "Event",
    "EventKind",
    "Rule",
    "Clock",
    "SystemClock",
    "Store",
    "Observer",
    "LogObserver",
    "Instant",
    "TicklessError",
    "RuleError",
    "ScheduleError",
    "DuplicateId",
    "UnknownTask",
    "DependencyError",
    "SchedulerClosed",
    "NotStarted",
    "ForkedScheduler",
    "PoolError",
    "OutputGone",
    "TaskSkipped",
    "TaskRejected",
    "TaskTimedOut",
    "TaskFailed",
    "StoreError",
    "StoreDown",
    "PayloadError",
    "CancelledError",
    "Stopped",
]
__version__ = "0.1.0"
