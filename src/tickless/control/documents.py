"""Snapshots as JSON-ready documents: what every command shows, and what the socket carries.

Instants are ISO 8601 in UTC with a Z, lengths of time are seconds. A key is always there; null says that there is none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tickless.instants import SECOND_US, Instant, datetime_of

if TYPE_CHECKING:
    from tickless.records import Event, LimitInfo, PoolInfo, Run, TaskInfo
    from tickless.round_info import RoundInfo, RoundTask

VERSION = 1
Document = dict[str, Any]


def moment(us: Instant | None) -> str | None:
    """`2026-12-01T02:30:00Z`, with as many digits of the second as it has."""
    return None if us is None else moment_of(datetime_of(us))


def moment_of(when: datetime) -> str:
    return when.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def run_name(task_id: str, due_us: Instant | None) -> str:
    """The name of a run: its task's id and the instant that it was planned for.

    A task of a round, and one of a backfill, has one run, and an id with the instant in it already.
    """
    flow, at, rest = task_id.partition("@")
    if due_us is None or (flow and at and ("/" in rest or rest == moment(due_us))):
        return task_id
    return f"{task_id}@{moment(due_us)}"


def task_document(info: TaskInfo, description: str | None = None) -> Document:
    return {
        "id": info.id,
        "name": info.name,
        "kind": "flow" if info.is_flow else "task",
        "state": str(info.state),
        "reason": None if info.reason is None else str(info.reason),
        "when": None if info.when is None else str(info.when),
        "recurring": info.recurring,
        "next_fire": moment(info.next_fire_us),
        "retry_at": moment(info.retry_at_us),
        "paused": info.paused,
        "pause_reason": info.pause_reason,
        "paused_until": moment(info.paused_until_us),
        "waiting_for": info.waiting_for,
        "priority": info.priority,
        "pool": info.pool,
        "tags": list(info.tags),
        "parents": list(info.parents),
        "children": list(info.children),
        "description": description,
        "last_run": None if info.last_run is None else run_document(info.last_run),
    }


def run_document(run: Run) -> Document:
    took = None if run.started_us is None or run.finished_us is None else run.finished_us - run.started_us
    return {
        "run": run_name(run.task_id, run.due_us),
        "task": run.task_id,
        "due": moment(run.due_us),
        "last_due": moment(run.last_due_us),
        "count": run.count,
        "state": str(run.state),
        "reason": None if run.reason is None else str(run.reason),
        "started": moment(run.started_us),
        "finished": moment(run.finished_us),
        "took_s": seconds(took),
        "late_s": seconds(run.lateness_us),
        "attempt": run.attempt,
        "error": run.error,
        "attempts": [
            {
                "attempt": one.number,
                "started": moment(one.started_us),
                "finished": moment(one.finished_us),
                "reason": None if one.reason is None else str(one.reason),
                "error": one.error,
            }
            for one in run.attempts
        ],
        "late_result": run.late_result,
    }


def round_document(info: RoundInfo) -> Document:
    return {
        "round": info.id,
        "flow": info.flow_id,
        "due": moment(info.due_us),
        "state": str(info.state),
        "reason": None if info.reason is None else str(info.reason),
        "started": moment(info.started_us),
        "finished": moment(info.finished_us),
        "error": info.error,
        "retry_of": info.retry_of,
        "tasks": [_round_task(task) for task in info.tasks],
        "critical_path": list(info.critical_path),
    }


def _round_task(task: RoundTask) -> Document:
    return {
        "name": task.name,
        "task": task.task_id,
        "state": str(task.state),
        "reason": None if task.reason is None else str(task.reason),
        "started": moment(task.started_us),
        "finished": moment(task.finished_us),
        "took_s": None if task.took is None else task.took.total_seconds(),
        "attempt": task.attempt,
        "error": task.error,
        "parents": list(task.parents),
        "run_if": str(task.run_if),
    }


def event_document(event: Event) -> Document:
    return {
        "v": VERSION,
        "kind": "event",
        "event": str(event.kind),
        "at": moment(event.at_us),
        "task": event.task_id,
        "run": None if event.task_id is None else run_name(event.task_id, event.due_us),
        "name": event.name,
        "due": moment(event.due_us),
        "reason": None if event.reason is None else str(event.reason),
        "error": event.error,
        "traceback": event.traceback,
        "count": event.count,
    }


def pool_document(pool: PoolInfo) -> Document:
    return {
        "name": pool.name,
        "slots": pool.slots,
        "ready": pool.ready,
        "running": pool.running,
        "zombies": pool.zombies,
        "down": pool.down,
    }


def limit_document(limit: LimitInfo) -> Document:
    return {"name": limit.name, "running": limit.running, "waiting": limit.waiting}


def seconds(us: int | None) -> float | None:
    return None if us is None else us / SECOND_US
