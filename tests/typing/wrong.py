"""What a type checker must refuse: each line with `# E:` and words that stand in the message, and no other.

Where mypy and pyright have no word in common there are words of both, with a `|` between them.
"""

from __future__ import annotations

from tickless import Retry, Scheduler, Task, after

scheduler = Scheduler()


@scheduler.task(retry=Retry(3))
def invoice(order: int, *, copies: int = 1) -> str:
    """A work with arguments."""
    return "x" * order * copies


@scheduler.every(minutes=5)
def beat() -> int:
    """A recurring one."""
    return 1


# The arguments of a call

invoice("17")  # E: "int"
invoice.schedule("17")  # E: "int"
invoice.schedule()  # E: order
invoice.schedule(17, 2)  # E: positional argument
invoice.schedule(17, copies="two")  # E: "int"
invoice.schedule(17, copy=2)  # E: copy
invoice.options(retry=None).schedule("17")  # E: "int"
beat.schedule(1)  # E: Too many arguments | Expected 0 positional

# What comes back

number: int = invoice.schedule(17).result()  # E: "int"
task: Task[bytes] = invoice.schedule(17)  # E: Task[bytes]
other: Task[bytes] = invoice.options(when=after(5)).schedule(17)  # E: Task[bytes]

# The names and the types of options

invoice.options(retries=3)  # E: retries
invoice.options(retry=3)  # E: Retry
invoice.options(args=(17,))  # E: args
invoice.options(when=5)  # E: Rule
invoice.options(overlap="never")  # E: overlap
invoice.options(exists="overwrite")  # E: exists
scheduler.task(retrys=Retry(3))  # E: retrys | No overloads
scheduler.task(id="one")  # E: "id" | No overloads
scheduler.every(minuets=5)  # E: minuets
scheduler.every(minutes="5")  # E: minutes
scheduler.every(minutes=5, retry=3)  # E: retry
scheduler.every(minutes=5, exists="keep")  # E: exists
scheduler.cron(30)  # E: "str"
scheduler.cron("30 2 * * *", zone="Europe/Berlin")  # E: zone
scheduler.cron("30 2 * * *", minutes=5)  # E: minutes
scheduler.cron()  # E: Too few arguments | 1 more positional

# What is frozen, and what is no function

invoice.name = "other"  # E: "name"
invoice.retries = 3  # E: "retries"
invoice.schedul(17)  # E: "schedul"
scheduler.task(17)  # E: overload | "function"
scheduler.every(minutes=5)(17)  # E: "int" | Literal[17]
scheduler.schedule(invoice, args=(17,), retrys=3)  # E: retrys
