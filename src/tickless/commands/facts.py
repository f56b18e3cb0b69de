"""What a command is told of its run, in its environment."""

from __future__ import annotations

from datetime import datetime

from tickless.commands.lines import Source
from tickless.control.documents import moment_of, run_name
from tickless.records import Run


def facts_of(source: Source, due: datetime | None, failed: Run | None) -> dict[str, str]:
    """`failed`: the run that it is called about, as an `on_failure`."""
    facts = {
        "TICKLESS_TASK": source.task,
        "TICKLESS_RUN": source.run,
        "TICKLESS_ATTEMPT": str(source.attempt),
        "TICKLESS_DUE": "" if due is None else moment_of(due),
    }
    if failed is not None:
        facts |= {
            "TICKLESS_FAILED_TASK": failed.task_id,
            "TICKLESS_FAILED_RUN": run_name(failed.task_id, failed.due_us),
            "TICKLESS_FAILED_DUE": "" if failed.due is None else moment_of(failed.due),
            "TICKLESS_FAILED_STATE": str(failed.state),
            "TICKLESS_FAILED_REASON": "" if failed.reason is None else str(failed.reason),
            "TICKLESS_FAILED_ERROR": (failed.error or "").replace("\0", ""),
            "TICKLESS_FAILED_ATTEMPT": str(failed.attempt),
        }
    return facts
