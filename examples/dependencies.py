"""A task waits for others, gets what they returned, and decides what their failure means.

       fetch prices ──┐
                      ├──> total        and when any of the three fails: alert
       fetch stock ───┘

python examples/dependencies.py
"""

from tickless import Scheduler


def fetch_prices() -> dict[str, float]:
    return {"apple": 0.5, "pear": 0.75}


def fetch_stock() -> dict[str, int]:
    return {"apple": 10, "pear": 4}


def total(prices: dict[str, float], stock: dict[str, int]) -> float:
    return sum(prices[fruit] * count for fruit, count in stock.items())


def alert() -> None:
    print("something went wrong")


with Scheduler() as scheduler:
    prices = scheduler.schedule(fetch_prices)
    stock = scheduler.schedule(fetch_stock)
    # Each .output is replaced by what that task returned.
    value = scheduler.schedule(total, args=(prices.output, stock.output), after_tasks=[prices, stock])
    alarm = scheduler.schedule(alert, after_tasks=[prices, stock, value], run_if="any_failed")

    print("the stock is worth", value.result(timeout=10))
    alarm.wait(timeout=10)
    print("the alarm was", alarm.state, "because of", alarm.reason)
    assert value.result() == 8.0
    assert alarm.state == "skipped"
