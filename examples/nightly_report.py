"""A nightly report that cleans up after a failure. Four nights pass in a moment, on a clock that the program moves.

python examples/nightly_report.py
"""

from datetime import UTC, datetime

from tickless import Scheduler, cron
from tickless.testing import FakeClock, InlinePool

SALES = {26: [120, 80], 27: None, 28: [75, 25, 50], 29: [200]}  # of the 27th nothing came
cleaned: list[str] = []


def fetch(night: datetime) -> dict[str, list[int]]:
    sales = SALES[night.day]
    if sales is None:
        raise ConnectionError("no answer from the shop")
    return {"sales": sales}


def total(sales: list[int]) -> int:
    return sum(sales)


def clean(night: datetime) -> None:
    cleaned.append(f"{night:%d}")


clock = FakeClock(start=datetime(2026, 3, 26, tzinfo=UTC))
scheduler = Scheduler(InlinePool(), clock=clock, observers=[])
with scheduler.flow("report", cron("30 2 * * *", tz="Europe/Berlin")) as flow:  # the 29th has no half past two there
    fetched = flow.task(fetch, args=(flow.due,))
    totalled = flow.task(total, args=(fetched.output["sales"],))
    flow.task(clean, args=(flow.due,), after_tasks=[fetched, totalled], run_if="any_failed")

with scheduler:
    clock.advance(4 * 86_400)
    for night in flow.rounds():
        print(night, end="\n\n")
    SALES[27] = [90]  # the shop answers again
    failed = next(night for night in flow.rounds() if night.state == "failed")
    failed.retry_failed()
    totals = [night["total"].result() for night in flow.rounds() if night.state == "succeeded"]
    print(f"{failed.id} tried again: {flow.rounds()[-1].state}; totals {totals}, cleaned up after {cleaned}")
assert totals == [200, 150, 200, 90]
