"""A store that is opened by who does not have its works: to look into it, and to say what the tasks in it are to do.

The programs that run the tasks need not know: they are rung, and do what was said. Nothing is imported, no argument and
no result becomes an object of a user's class, and a row that makes no sense here stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Never

from tickless.errors import PayloadError, shown
from tickless.instants import Clock
from tickless.scheduler import Scheduler
from tickless.stores.sql.address import parse
from tickless.stores.sql.header import check_store

KEEPS_ALL = 1 << 40
"""What is forgotten is for those to say whose tasks they are."""


class AnyWorks:
    """Stands in for the works of whatever program: it has each name, and none that could be called."""

    stands_in = True
    names_no_tasks = True
    """Nothing recurring gets an id of its own here."""

    def resolve(self, name: str) -> Never:
        """Raises PayloadError: nothing is run by who has no works."""
        raise PayloadError(f"work {shown(name)}: the store was opened without works; only its own program can run it")

    def name_of(self, work: Callable[..., Any]) -> Never:
        """Raises PayloadError: nothing new is scheduled by who has no works."""
        raise PayloadError(
            f"work={shown(work)}: the store was opened by open_store(), without works, so that no other program would "
            "find it by its name; schedule it in a program of its own: Scheduler(store=...)"
        )


def open_store(url: str, *, clock: Clock | None = None) -> Scheduler:
    """A scheduler on the store at that address, for who does not have its works. Close it at the end.

    It is never started: to start it is a ScheduleError, and to wait NotStarted. All else is about the tasks of other
    programs: look, cancel, pause, resume, reschedule, run_now, retry, backfill. What is to run, their schedulers run.
    Arguments, results and parameters are as JSON has them. What it shows of pools is about the whole file, and says
    nothing of slots.

    `clock`: for tests. Raises ScheduleError for what is no address, and StoreError where there is no store, or one that
    is not of the version of this tickless: it is neither made nor changed.
    """
    check_store(os.path.realpath(parse(url)))
    return Scheduler(
        store=url,
        clock=clock,
        observers=[],
        keep_finished=KEEPS_ALL,
        keep_runs=KEEPS_ALL,
        keep_rounds=KEEPS_ALL,
        works=AnyWorks(),  # type: ignore[arg-type]  # what answers as `Works` does is taken as it is
        durability="power",  # what somebody has said by hand is not said again
    )
