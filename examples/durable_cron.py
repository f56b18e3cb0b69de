"""A schedule that outlives its process: it is started twice on one file, and dies in the middle of the first time.

python examples/durable_cron.py
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tickless import Scheduler, cron, current_run


def tick() -> None:
    pass


def pay(order: int) -> None:
    attempt = current_run().attempt
    print(f"order {order}, attempt {attempt}", flush=True)
    if attempt == 1:
        os._exit(1)  # the power fails


def main(file: str) -> None:
    # Functions of the file that is started have no name in other processes, so they get one: `works`.
    with Scheduler(store=f"sqlite:///{file}", works=[tick, pay]) as scheduler:
        clock = scheduler.schedule(tick, cron("* * * * * *", tz="UTC"))  # its id is "tick", at each start the same
        history = [f"{run.due:%H:%M:%S}" for run in clock.runs()]
        print(f"process {os.getpid()}, ticks so far: {history}", flush=True)
        while not any(run.finished for run in clock.runs()):
            scheduler.wait(0.02)  # False: a cron has no end
        paid = scheduler.schedule(pay, args=(17,), id="pay-17", exists="keep")
        assert paid.wait(10)  # the first process does not come back from here
        assert paid.last_run is not None
        before = [one.reason for one in paid.last_run.attempts]
        print(f"order 17: {paid.last_run.state} at attempt {paid.last_run.attempt}, before: {before}")
        assert history, "the second process knows what the first one did"


if __name__ == "__main__" and len(sys.argv) > 1:
    main(sys.argv[1])
elif __name__ == "__main__":
    with TemporaryDirectory() as folder:
        command = [sys.executable, __file__, str(Path(folder) / "tasks.db")]
        assert [subprocess.run(command, check=False).returncode for start in (1, 2)] == [1, 0]
