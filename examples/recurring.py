"""A task that comes again and again, and its history.

python examples/recurring.py
"""

from datetime import timedelta
from itertools import pairwise

from tickless import Scheduler, every

beats = 0


def beat() -> None:
    global beats
    beats += 1
    print("beat", beats)
    if beats == 5:
        heart.cancel()  # no more fires; the run that asks for it ends as usual


scheduler = Scheduler()
# Fires at start + 0.1 s, + 0.2 s, ...: however long a beat takes, the next one does not drift.
heart = scheduler.schedule(beat, every(seconds=0.1), id="heart")

with scheduler:
    assert heart.wait(timeout=30)

for run in heart.runs():
    assert run.due is not None
    print(f"{run.due:%H:%M:%S.%f} {run.state} lateness {run.lateness}")

ran = [run for run in heart.runs() if run.started]
gaps = {(later.due_us or 0) - (earlier.due_us or 0) for earlier, later in pairwise(ran)}
assert beats == 5
assert all(gap % 100_000 == 0 for gap in gaps), "every due instant lies on the grid, exactly"
assert all(run.lateness is not None and run.lateness >= timedelta(0) for run in ran), "and none ran early"
