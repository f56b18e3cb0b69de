"""Waiting for the end of one run that was asked for, by the events of the scheduler that runs it."""

from __future__ import annotations

from queue import Empty

from tickless.control.broadcast import Broadcast
from tickless.control.refusals import Code, Refusal
from tickless.control.subject import Subject
from tickless.records import EventKind, Run, TaskInfo
from tickless.waits import deadline_of, left_s

ENDS = frozenset({EventKind.SUCCEEDED, EventKind.FAILED, EventKind.SKIPPED, EventKind.CANCELLED})


def awaited(subject: Subject, info: TaskInfo, events: Broadcast, wait_s: float) -> Run:
    """Have it run now, and give the run once it has ended. Zero waits for as long as it takes."""
    with events.listening() as ear:
        run = subject.scheduler.run_now(info)
        if not run.state.after:
            return run
        deadline = deadline_of(wait_s or None)
        while True:
            try:
                event = ear.get(timeout=left_s(deadline))
            except Empty:
                raise Refusal(
                    Code.TIMED_OUT, "timed_out", f"run {run.task_id}: has not ended within {wait_s:g} s; it goes on"
                ) from None
            if event is None:
                raise Refusal(Code.UNREACHABLE, "closed", f"run {run.task_id}: the scheduler was closed meanwhile")
            if event.kind in ENDS and event.task_id == info.id and (run.due_us is None or event.due_us == run.due_us):
                return _ended(subject, info, run)


def _ended(subject: Subject, info: TaskInfo, run: Run) -> Run:
    found = [one for one in subject.runs(info, None) if one.due_us == run.due_us]
    return found[-1] if found else run
