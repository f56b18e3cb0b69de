"""Schedule a function for now, for later, and for a time of day; wait; use the results.

python examples/first_steps.py
"""

from datetime import UTC, datetime, timedelta

from tickless import Scheduler, after, at


def greet(name: str) -> str:
    print(f"hello, {name}")
    return name.upper()


with Scheduler() as scheduler:
    late = scheduler.schedule(greet, at(datetime.now(UTC) + timedelta(seconds=0.4)), args=("at a given time",))
    soon = scheduler.schedule(greet, after(0.2), args=("a fifth of a second later",))
    print("planned for", late.next_fire)
    now = scheduler.schedule(greet, args=("now",))

    assert soon.result(timeout=10) == "A FIFTH OF A SECOND LATER"  # the value, or the exception of the task
    assert scheduler.wait(timeout=10)  # True: every task has ended

for task in (now, soon, late):
    assert task.last_run is not None
    print(f"{task.id:>3} {task.state}, {task.last_run.lateness} after it was due")
    assert task.state == "succeeded"
