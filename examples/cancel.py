"""Cancel a task that waits, and ask one that runs to stop.

A thread cannot be killed, so a running task is asked: its own code looks at `stop_requested`.

python examples/cancel.py
"""

import threading

from tickless import Cancelled, Scheduler, Stopped, after, current_run

running = threading.Event()


def copy_everything() -> None:
    running.set()
    stop = current_run().stop_requested
    for number in range(1_000_000):
        print("part", number)
        if stop.wait(0.05):  # sleeps like time.sleep, and wakes at once when asked to stop
            raise Stopped


with Scheduler() as scheduler:
    reminder = scheduler.schedule(print, after(3600), args=("never printed",))
    assert reminder.cancel() is Cancelled.CANCELLED  # it will never start
    assert not reminder.cancel()  # falsy: there was nothing left to cancel

    copy = scheduler.schedule(copy_everything)
    assert running.wait(10)
    assert copy.cancel() is Cancelled.ASKED  # it runs: its stop flag is set
    assert copy.wait(timeout=10)

print("reminder:", reminder.state, "  copy:", copy.state, f"({copy.reason})")
assert reminder.state == copy.state == "cancelled"
