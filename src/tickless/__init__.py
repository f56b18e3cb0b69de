"""tickless: keep the future in a heap, and let one thread sleep until the earliest entry is due.

A name is imported when it is first asked for: who wants a rule alone, such as `tickless preview`, does not wait for the
scheduler.
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from tickless.clocks import SystemClock
    from tickless.decorators import TaskFunction
    from tickless.drafts import Call
    from tickless.errors import (
        CancelledError,
        DependencyError,
        DuplicateId,
        FlowError,
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
    from tickless.flow import Flow, FlowTask
    from tickless.instants import Clock, Instant
    from tickless.observe import Observer
    from tickless.observe.log import LogObserver
    from tickless.output import Output
    from tickless.policies import Limit, Retry
    from tickless.pools import Pool
    from tickless.records import Attempt, Event, EventKind, LimitInfo, PoolInfo, Run, TaskInfo
    from tickless.round import Round
    from tickless.round_info import RoundChange, RoundInfo, RoundTask
    from tickless.rules import Rule, after, at, cron, every, rrule, weekdays
    from tickless.scheduler import Scheduler
    from tickless.simulation import Trace, simulate
    from tickless.states import Cancelled, Reason, RunIf, State
    from tickless.stores import Store
    from tickless.task import Task
    from tickless.worker import current_run

__all__ = [
    "Scheduler",
    "Task",
    "TaskFunction",
    "Flow",
    "FlowTask",
    "Round",
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
    "RoundInfo",
    "RoundTask",
    "RoundChange",
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
    "FlowError",
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

_HOMES = {
    name: f"tickless.{module}"
    for module, names in {
        "clocks": "SystemClock",
        "decorators": "TaskFunction",
        "drafts": "Call",
        "errors": (
            "CancelledError DependencyError DuplicateId FlowError ForkedScheduler NotStarted OutputGone "
            "PayloadError PoolError RuleError ScheduleError SchedulerClosed Stopped StoreDown StoreError "
            "TaskFailed TaskRejected TaskSkipped TaskTimedOut TicklessError UnknownTask"
        ),
        "flow": "Flow FlowTask",
        "instants": "Clock Instant",
        "observe": "Observer",
        "observe.log": "LogObserver",
        "output": "Output",
        "policies": "Limit Retry",
        "pools": "Pool",
        "records": "Attempt Event EventKind LimitInfo PoolInfo Run TaskInfo",
        "round": "Round",
        "round_info": "RoundChange RoundInfo RoundTask",
        "rules": "Rule after at cron every rrule weekdays",
        "scheduler": "Scheduler",
        "simulation": "Trace simulate",
        "states": "Cancelled Reason RunIf State",
        "stores": "Store",
        "task": "Task",
        "worker": "current_run",
    }.items()
    for name in names.split()
}
"""Name -> where it is. tests/house compares it with the imports above, which are for those who check types."""


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tickless' has no attribute {name!r}")
    found = globals()[name] = getattr(_importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
