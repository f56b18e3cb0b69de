"""`tickless run`: run a scheduler until every task has ended or a signal comes, and say how it went."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tickless.cli.load import NotFound, app_of
from tickless.cli.loop import sleep_until_end
from tickless.cli.printed import printed_as_json
from tickless.cli.settings import Seconds, settings
from tickless.cli.telling import failures, log_of, quiet_logger, served, stop, told
from tickless.cli.voice import Voice
from tickless.clocks import SystemClock
from tickless.control import paths
from tickless.control.broadcast import Broadcast
from tickless.control.subject import Subject
from tickless.scheduler import Scheduler

STOP_AFTER_S = 8.0
"""Below the 10 s that container engines give."""

EPILOG = """\b
examples:
  tickless run tasks.toml
  tickless run /etc/crontab
  tickless run FILE.py:scheduler

\b
exit codes:
  0    every task succeeded, was cancelled by the program, or was skipped
       by its own run_if
  1    a run failed, or so many ended at once that nobody knows
  4    the file cannot be loaded, or names no scheduler
  6    it runs already
  130  stopped by SIGINT (Ctrl-C); 143 by SIGTERM: what ran was asked to stop,
       and could finish
       A second signal ends everything at once.

A reader that goes away (`| head -1`) ends the output, not the tasks.
"""


@click.command(epilog=EPILOG)
@click.argument("target", metavar="FILE")
@click.option("--socket", metavar="PATH", help="Where other commands reach it; by default a place of its own.")
@click.option("--no-socket", is_flag=True, help="Other commands shall not reach it.")
@click.option(
    "--stop-after",
    type=Seconds(0),
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
    voice = Voice(settings())
    place = None if no_socket else Path(socket) if socket else paths.socket_of(target)
    with printed_as_json(voice):
        if is_python(target):
            return run_app(target, voice, place)
        from tickless.cli.serve import run_file

        return run_file(Path(target), voice, place, stop_after)


def run_one(target: str, task: str, timeout: float | None) -> int:
    """One task of a task file that nobody runs, here and now."""
    from tickless.cli.serve import run_part

    voice = Voice(settings())
    with printed_as_json(voice):
        return run_part(Path(target), task, voice, timeout, STOP_AFTER_S)


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
        before = failures(scheduler)
        came = sleep_until_end(scheduler, lambda number: _end(scheduler, number, voice))
        events.close()
    return told(scheduler, log, voice, begun, came, before)


def _end(scheduler: Scheduler, number: int | None, voice: Voice) -> None:
    if number is not None:
        stop(scheduler, number, voice)
    scheduler.close()
