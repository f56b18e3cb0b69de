"""What `tickless run` says of a scheduler, however it came by it: the log, the stop, the sum at the end."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tickless.cli.live import LiveLog
from tickless.cli.voice import JsonLog, Voice
from tickless.clocks import SystemClock
from tickless.control import paths
from tickless.control.documents import Document
from tickless.control.refusals import Code, Refusal
from tickless.control.subject import Subject
from tickless.instants import Instant
from tickless.observe import Observer
from tickless.observe.text import printable, span_text
from tickless.records import EventKind, Run
from tickless.scheduler import Scheduler
from tickless.states import State

ON_SIGNAL = 128


class Log(Observer, Protocol):
    """An observer that counts how runs ended."""

    counts: Counter[EventKind]


def log_of(voice: Voice) -> Log:
    """The live log, for the eye or for programs."""
    return JsonLog(voice.stream) if voice.as_json else LiveLog(sys.stderr, starts=voice.verbose)


def quiet_logger() -> None:
    """The live log shows failures. Without a handler of the file's own they would be printed a second time, by the
    logging module's last resort.
    """
    logger = logging.getLogger("tickless")
    if not logger.hasHandlers():
        logger.addHandler(logging.NullHandler())


def stop(scheduler: Scheduler, number: int, voice: Voice) -> None:
    """Nothing new starts, what runs is asked to stop. Said afterwards: who reads the line may rely on it."""
    voice.say(
        f"{signal.Signals(number).name}: stopping{_waits_for(scheduler.close(timeout=0, cancel=True))}", "warning"
    )


def _waits_for(running: list[Run]) -> str:
    if not running:
        return ""
    some = ", ".join(printable(run.task_id, 60) for run in running[:3]) + (", ..." if len(running) > 3 else "")
    return f"; asked to stop, and may finish: {some}. A second signal ends all at once"


Failure = tuple[str, Instant | None]


def failures(scheduler: Scheduler) -> frozenset[Failure]:
    """The tasks that have failed, each with its end: a store has those of earlier runs of the program as well."""
    return frozenset(
        (task.id, None if task.last_run is None else task.last_run.finished_us)
        for task in scheduler.tasks()
        if task.state is State.FAILED
    )


def told(
    scheduler: Scheduler, log: Log, voice: Voice, begun: int, came: int | None, before: frozenset[Failure] = frozenset()
) -> int:
    """Say how it went. Gives the exit code. `before`: what had failed before it began."""
    voice.say(f"{summary(log)} in {span_text(SystemClock().now() - begun)}", "warning")
    if came is not None:
        return ON_SIGNAL + came
    # Counted, since the scheduler forgets; looked at, since events may be lost. Not to know is not success.
    known = log.counts[EventKind.FAILED] or failures(scheduler) - before
    return Code.FAILED if known or log.counts[EventKind.DROPPED] else Code.DONE


def summary(log: Log) -> str:
    """`3 succeeded, 1 failed, 0 skipped, 2 cancelled`: runs, and tasks that ended without one."""
    ends = (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.SKIPPED, EventKind.CANCELLED)
    text = ", ".join(f"{log.counts[kind]} {kind}" for kind in ends)
    lost = log.counts[EventKind.DROPPED]
    return f"at least {text}, and {lost} events came too fast to be known," if lost else text


@contextmanager
def served(
    place: Path | None, subject: Subject, target: str, voice: Voice, more: Callable[[], Document] = dict
) -> Iterator[None]:
    """While inside, other commands reach the scheduler by the socket. `more`: what is said of it besides.

    Raises Refusal where the same file runs already. Where no socket can be made it runs without one, and says so.
    """
    if place is None:
        yield
        return
    from tickless.control.server import Server

    try:
        if place.parent == paths.folder():
            paths.made_folder()
        server = Server(place, subject, lambda: {"kind": "socket", "where": target, "pid": os.getpid(), **more()})
    except Refusal as refusal:
        if refusal.code is Code.REFUSED:
            raise
        voice.say(f"other commands cannot reach it: {refusal}", "warning")
        yield
        return
    try:
        yield
    finally:
        server.close()
