"""`tickless run FILE.py:NAME`: run a scheduler until every task has ended or a signal comes, and say how it went."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from time import monotonic

from tickless.bell import Bell
from tickless.cli.live import LiveLog
from tickless.cli.load import NotFound, load
from tickless.lifetime import stop_signals
from tickless.observe.text import span_text
from tickless.records import EventKind
from tickless.scheduler import Scheduler
from tickless.states import State

FINE, FAILED, USAGE, ON_SIGNAL = 0, 1, 2, 128
EXIT_CODES = """\
exit codes:
  0    every task succeeded, was cancelled by the program itself, or was skipped by its own run_if
  1    a run failed (its children that were skipped for that are told, but it alone decides)
  2    wrong usage, or FILE.py:NAME is no scheduler, or the file raised while it was loaded
  130  stopped by SIGINT (Ctrl-C); 143 by SIGTERM: what ran was asked to stop and could finish
       A second signal ends the process at once.

A reader that goes away (`| head -1`) ends the output, not the tasks."""


def run(target: str) -> int:
    """The whole command. Gives the exit code; nothing but a second signal leaves by another way."""
    try:
        scheduler = load(target)
    except NotFound as error:
        return _refused(str(error))
    except KeyboardInterrupt:
        return ON_SIGNAL + signal.SIGINT
    if scheduler.phase != "new":
        return _refused(
            f"the scheduler of {target} is {scheduler.phase} already; a file for `tickless run` makes and fills it only: "
            'put start(), run() and `with` under `if __name__ == "__main__":`'
        )
    log = LiveLog(sys.stderr)
    scheduler.observe(log)
    # The live log shows failures. Without a handler of the file's own they would be printed a second time, by the
    # logging module's last resort.
    logger = logging.getLogger("tickless")
    if not logger.hasHandlers():
        logger.addHandler(logging.NullHandler())

    begun = monotonic()
    stopped_by = run_until_signal(scheduler)
    failed = bool(log.counts[EventKind.FAILED]) or any(task.state is State.FAILED for task in scheduler.tasks())
    _say(f"{summary(log)} in {span_text(int((monotonic() - begun) * 1e6))}")
    if stopped_by is not None:
        return ON_SIGNAL + stopped_by
    return FAILED if failed else FINE


def run_until_signal(scheduler: Scheduler) -> int | None:
    """Start it, wait until every task has ended, close it. Gives the number of the signal that came, or None.

    Unlike with `Scheduler.run`, a signal sets the stop flags of what runs: a task that looks at its flag ends early.
    """
    bell = Bell()

    def wait_for_all() -> None:
        scheduler.wait()
        bell.ring()

    with stop_signals(bell.ring) as came:
        scheduler.start()
        threading.Thread(target=wait_for_all, name="tickless-wait", daemon=True).start()
        bell.wait(None)
        if came:
            name = signal.Signals(came[0]).name
            _say(f"{name}: stopping; what runs is asked to stop and may finish; a second signal ends it at once")
        scheduler.close(cancel=bool(came))
    return came[0] if came else None


def summary(log: LiveLog) -> str:
    """`3 succeeded, 1 failed, 0 skipped, 2 cancelled`: runs, and tasks that ended without one."""
    ends = (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.SKIPPED, EventKind.CANCELLED)
    text = ", ".join(f"{log.counts[kind]} {kind}" for kind in ends)
    lost = log.counts[EventKind.DROPPED]
    return f"at least {text} ({lost} events came too fast to be counted)" if lost else text


def _refused(why: str) -> int:
    _say(why)
    return USAGE


def _say(line: str) -> None:
    print(f"tickless: {line}", file=sys.stderr)
