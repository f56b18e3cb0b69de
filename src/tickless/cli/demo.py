"""`demo`: five seconds of a scheduler at work, without a file."""

from __future__ import annotations

import click

from tickless import Retry, Scheduler, after, every
from tickless.cli.loop import sleep_until_end
from tickless.cli.settings import settings
from tickless.cli.telling import log_of, quiet_logger, stop, told
from tickless.cli.voice import Voice
from tickless.clocks import SystemClock

SOURCE = """\
    scheduler.schedule(tick, every(seconds=1), max_runs=5)             # a grid without drift
    fetch = scheduler.schedule(fetch, after(1), retry=Retry(3))        # fails twice, and is tried again
    count = scheduler.schedule(len, args=(fetch.output,))              # runs when it has succeeded, with its result
    scheduler.schedule(clean_up, after_tasks=[count], run_if="all_done")
"""


@click.command()
def demo() -> int:
    """Five seconds of a scheduler at work: a recurring task, a retry, a result that is handed on, a clean-up."""
    said = settings()
    voice = Voice(said)
    if not said.json and not said.quiet:
        print(f"What you see is this:\n\n{SOURCE}")
    scheduler = demonstration()
    log = log_of(voice)
    scheduler.observe(log)
    quiet_logger()
    begun = SystemClock().now()

    def end(number: int | None) -> None:
        if number is not None:
            stop(scheduler, number, voice)
        scheduler.close()

    came = sleep_until_end(scheduler, end)
    code = told(scheduler, log, voice, begun, came)
    if came is None and not said.json and not said.quiet:
        print(
            "\nNext: a file of your own. tickless import crontab, or docs/task-files.md; then tickless run tasks.toml"
        )
    return code


def demonstration() -> Scheduler:
    """The scheduler of the demo, not started."""
    scheduler = Scheduler(observers=[])
    tries: list[int] = []

    def tick() -> None:
        print("tick", flush=True)

    def fetch() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError(f"no answer to try {len(tries)}")
        return "to be or not to be"

    def clean_up() -> None:
        print("cleaned up", flush=True)

    scheduler.schedule(tick, every(seconds=1), max_runs=5)
    fetched = scheduler.schedule(fetch, after(1), retry=Retry(3))
    counted = scheduler.schedule(len, args=(fetched.output,), name="count")
    scheduler.schedule(clean_up, after_tasks=[counted], run_if="all_done")
    return scheduler
