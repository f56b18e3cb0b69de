"""Tasks run in the pool that you give: threads shared with other code, or processes for heavy work.

python examples/own_pool.py
"""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from math import factorial
from multiprocessing import get_context

from tickless import Pool, Scheduler


def digits(number: int) -> int:
    """How many digits number! has. Work for a processor, not for a thread."""
    return len(str(factorial(number)))


def main() -> None:
    with ThreadPoolExecutor(4) as threads, Scheduler(threads) as scheduler:
        tasks = [scheduler.schedule(pow, args=(2, power)) for power in range(5)]
        elsewhere = threads.submit(pow, 3, 3)  # the pool is yours: others may use it, and nobody closes it for you
        print("threads:  ", [task.result(timeout=30) for task in tasks], "and besides", elsewhere.result())

    # Any other executor is given with the number of runs that it may have at a time.
    with ProcessPoolExecutor(2, get_context("spawn")) as processes, Scheduler(Pool(processes, slots=2)) as scheduler:
        counts = [scheduler.schedule(digits, args=(number,)) for number in (10, 100, 1000)]
        found = [task.result(timeout=60) for task in counts]
    print("processes:", found, "digits")
    assert found == [7, 158, 2568]


if __name__ == "__main__":
    main()
