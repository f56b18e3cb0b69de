"""Works for other processes: found there by name. They import nothing but what they need, since each process does."""

from __future__ import annotations

import os
import threading
from datetime import datetime

from tickless.worker import current_run


def add(one: int, other: int) -> int:
    return one + other


def table() -> dict[str, object]:
    return {"rows": [1, 5], "n": 2}


def process_id() -> int:
    return os.getpid()


def ids() -> tuple[str, datetime | None, bool]:
    run = current_run()
    return run.task_id, run.due, bool(run.stop_requested)


def attempt_over_there() -> tuple[int, bool, str]:
    run = current_run()
    return run.attempt, run.lease_lost, run.log.name


def fail_over_there() -> None:
    raise ValueError("over there")


def unpicklable_result() -> object:
    return threading.Lock()


class UnpicklableError(Exception):
    def __init__(self, needed: int, also: int) -> None:
        super().__init__("cannot be made again from its one argument")


def unpicklable_error() -> None:
    raise UnpicklableError(1, 2)


def die() -> None:
    os._exit(3)


def exit_over_there() -> None:
    raise SystemExit(3)
