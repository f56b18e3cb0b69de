"""`tickless run FILE.py:NAME`: run a scheduler until every task has ended or a signal comes, and say how it went."""

from __future__ import annotations

import logging
import signal
import sys
import threading

from tickless.cli.live import LiveLog
from tickless.cli.load import NotFound, load
from tickless.clocks import SystemClock
from tickless.lifetime import SignalBell, stop_signals
from tickless.observe.text import printable, span_text
from tickless.records import EventKind, Run
from tickless.scheduler import Scheduler
from tickless.states import State

FINE, FAILED, USAGE, ON_SIGNAL = 0, 1, 2, 128
EXIT_CODES = """\
exit codes:
  0    every task succeeded, was cancelled by the program itself, or was skipped by its own run_if
  1    a run failed, or so many ended at once that nobody knows
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
            f"the scheduler of {target} is {scheduler.phase} already; the file should only make and fill it: "
            'put start(), run() and `with` under `if __name__ == "__main__":`'
        )
    log = LiveLog(sys.stderr)
    scheduler.observe(log)
    # The live log shows failures. Without a handler of the file's own they would be printed a second time, by the
    # logging module's last resort.
    logger = logging.getLogger("tickless")
    if not logger.hasHandlers():
        logger.addHandler(logging.NullHandler())

    now = SystemClock().now
    begun = now()
    stopped_by = run_until_signal(scheduler)
    _say(f"{summary(log)} in {span_text(now() - begun)}")
    if stopped_by is not None:
        return ON_SIGNAL + stopped_by
    # Counted, since the scheduler forgets; looked at, since events may be lost. Not to know is not success.
    known = log.counts[EventKind.FAILED] or any(task.state is State.FAILED for task in scheduler.tasks())
    return FAILED if known or log.counts[EventKind.DROPPED] else FINE


def run_until_signal(scheduler: Scheduler) -> int | None:
    """Start it, wait until every task has ended, close it. Gives the number of the signal that came, or None.

    Unlike with `Scheduler.run`, a signal sets the stop flags of what runs: a task that looks at its flag ends early.
    """
    bell, ended = SignalBell(), threading.Event()

    def wait_for_all() -> None:
        scheduler.wait()
        ended.set()
        bell.ring()

    with stop_signals(bell.ring, bell) as came:
        scheduler.start()
        threading.Thread(target=wait_for_all, name="tickless-wait", daemon=True).start()
        while not came and not ended.is_set():
            bell.wait()
        if came:
            # Closed first, told then: who reads the line may rely on it that nothing new starts.
            _say(f"{signal.Signals(came[0]).name}: stopping{_waits_for(scheduler.close(timeout=0, cancel=True))}")
        scheduler.close()
    if ended.is_set():  # else that thread may ring yet
        bell.close()
    return came[0] if came else None


def _waits_for(running: list[Run]) -> str:
    if not running:
        return ""
    some = ", ".join(printable(run.task_id, 60) for run in running[:3]) + (", ..." if len(running) > 3 else "")
    return f"; asked to stop, and may finish: {some}. A second signal ends all at once"


def summary(log: LiveLog) -> str:
    """`3 succeeded, 1 failed, 0 skipped, 2 cancelled`: runs, and tasks that ended without one."""
    ends = (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.SKIPPED, EventKind.CANCELLED)
    text = ", ".join(f"{log.counts[kind]} {kind}" for kind in ends)
    lost = log.counts[EventKind.DROPPED]
    return f"at least {text}, and {lost} events came too fast to be known," if lost else text


def _refused(why: str) -> int:
    _say(why)
    return USAGE


def _say(line: str) -> None:
    print(f"tickless: {line}", file=sys.stderr)
