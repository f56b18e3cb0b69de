"""`tickless run`: run a scheduler until every task has ended or a signal comes, and say how it went."""

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

import click

from tickless.cli.live import LiveLog
from tickless.cli.load import NotFound, app_of
from tickless.cli.loop import sleep_until_end
from tickless.cli.settings import settings
from tickless.cli.voice import JsonLog, Voice
from tickless.clocks import SystemClock
from tickless.control import paths
from tickless.control.broadcast import Broadcast
from tickless.control.documents import Document
from tickless.control.refusals import Code, Refusal
from tickless.control.subject import Subject
from tickless.observe import Observer
from tickless.observe.text import printable, span_text
from tickless.records import EventKind, Run
from tickless.scheduler import Scheduler
from tickless.states import State

ON_SIGNAL = 128
STOP_AFTER_S = 8.0
"""Below the 10 s that container engines give."""

EPILOG = """\b
examples:
  tickless run tasks.toml
  tickless run /etc/crontab
  tickless run FILE.py:scheduler

\b
exit codes:
  0    every task succeeded, was cancelled by the program itself, or was skipped by its own run_if
  1    a run failed, or so many ended at once that nobody knows
  4    the file cannot be loaded, or names no scheduler
  6    it runs already
  130  stopped by SIGINT (Ctrl-C); 143 by SIGTERM: what ran was asked to stop and could finish
       A second signal ends everything at once.

A reader that goes away (`| head -1`) ends the output, not the tasks.
"""


class Log(Observer, Protocol):
    """An observer that counts how runs ended."""

    counts: Counter[EventKind]


@click.command(epilog=EPILOG)
@click.argument("target", metavar="FILE")
@click.option("--socket", metavar="PATH", help="Where other commands reach it; by default a place of its own.")
@click.option("--no-socket", is_flag=True, help="Other commands shall not reach it.")
@click.option(
    "--stop-after",
    type=click.FloatRange(min=0),
    default=STOP_AFTER_S,
    show_default=True,
    metavar="SECONDS",
    help="How long commands may take to end after a signal, before they are killed.",
)
def run(target: str, socket: str | None, no_socket: bool, stop_after: float) -> int:
    """Run a task file, a crontab, or the scheduler of a Python file, until every task has ended or a signal comes.

    What tasks print goes to standard output, the live log to standard error; with --json all of it is JSON lines on
    standard output. A task file is read again when it changes, and on SIGHUP.
    """
    voice = Voice(as_json=settings().json, quiet=settings().quiet > 0)
    place = None if no_socket else Path(socket) if socket else paths.socket_of(target)
    if is_python(target):
        return run_app(target, voice, place)
    from tickless.cli.serve import run_file

    return run_file(Path(target), voice, place, stop_after)


def run_one(target: str, task: str, timeout: float | None) -> int:
    """One task of a task file that nobody runs, here and now."""
    from tickless.cli.serve import run_part

    return run_part(Path(target), task, Voice(as_json=settings().json, quiet=settings().quiet > 0), timeout)


def is_python(target: str) -> bool:
    """Whether it names a scheduler in Python, and no task file. Raises NotFound where it names nothing."""
    if os.path.isfile(target):
        return target.endswith(".py")
    if ":" in target or target.endswith(".py"):
        return True
    what = "is a folder" if os.path.isdir(target) else "is not there"
    raise NotFound(
        f"{target!r} {what}; give a task file, a crontab, or a Python file and a name in it: FILE.py:scheduler"
    )


def run_app(target: str, voice: Voice, place: Path | None) -> int:
    """Run a scheduler in Python."""
    scheduler = app_of(target)
    if scheduler.phase != "new":
        raise NotFound(
            f"the scheduler of {target} is {scheduler.phase} already; the file should only make and fill it: "
            'put start(), run() and `with` under `if __name__ == "__main__":`'
        )
    log = log_of(voice)
    events = Broadcast()
    for observer in (log, events):
        scheduler.observe(observer)
    quiet_logger()
    begun = SystemClock().now()
    with served(place, Subject(scheduler, runs_here=True, events=events), target, voice):
        came = sleep_until_end(scheduler, lambda number: _end(scheduler, number, voice))
        events.close()
    return told(scheduler, log, voice, begun, came)


def _end(scheduler: Scheduler, number: int | None, voice: Voice) -> None:
    if number is not None:
        stop(scheduler, number, voice)
    scheduler.close()


def log_of(voice: Voice) -> Log:
    """The live log, for the eye or for programs."""
    return JsonLog() if voice.as_json else LiveLog(sys.stderr)


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


def told(scheduler: Scheduler, log: Log, voice: Voice, begun: int, came: int | None) -> int:
    """Say how it went. Gives the exit code."""
    voice.say(f"{summary(log)} in {span_text(SystemClock().now() - begun)}", "warning")
    if came is not None:
        return ON_SIGNAL + came
    # Counted, since the scheduler forgets; looked at, since events may be lost. Not to know is not success.
    known = log.counts[EventKind.FAILED] or any(task.state is State.FAILED for task in scheduler.tasks())
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
