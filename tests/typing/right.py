"""What a type checker must accept, and what it must know of it. Read by mypy and pyright, run by nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import assert_type

from tickless import Output, Retry, Scheduler, Task, TaskFunction, after, every

scheduler = Scheduler()


@scheduler.task
def bare(number: int, word: str = "") -> list[int]:
    """Without brackets."""
    return [number] * len(word)


@scheduler.task()
def empty() -> None:
    """With empty brackets."""


@scheduler.task(retry=Retry(3), timeout=timedelta(seconds=5), priority=2, tags=["a"], name="invoice")
def invoice(order: int, *, day: date) -> str:
    """With options."""
    return f"{order} of {day}"


@scheduler.every(minutes=5, jitter=10, overlap="queue", max_runs=7)
def beat() -> int:
    """A clock interval."""
    return 1


@scheduler.every(timedelta(seconds=1), id="seconds")
def each_second() -> None:
    """A timedelta."""


@scheduler.every(weeks=2, on=["mon", "fri"], at="09:00", tz="Europe/Paris", gap="skip")
def fortnight() -> None:
    """A calendar interval."""


@scheduler.cron("30 2 * * *", tz="Europe/Berlin", fold="first", catch_up="all", args=(17,))
def nightly(number: int = 3) -> float:
    """A cron expression."""
    return number / 2


class Shop:
    """Where a static method stands."""

    @scheduler.task
    @staticmethod
    def tidy(shelf: int) -> bool:
        """This decorator above the other."""
        return shelf > 0


def call(work: Callable[[int, str], list[int]]) -> None:
    """Takes a plain function."""
    work(1, "a")


assert_type(bare(1), list[int])
assert_type(bare(1, word="a"), list[int])
assert_type(bare.schedule(1, "a"), Task[list[int]])
assert_type(bare.schedule(number=1).result(), list[int])
assert_type(bare.schedule(1).output, Output[list[int]])
assert_type(empty.schedule(), Task[None])
assert_type(invoice(1, day=date.max), str)
assert_type(invoice.schedule(1, day=date.max), Task[str])
assert_type(invoice.options(when=after(5), id="x", exists="keep").schedule(2, day=date.min), Task[str])
assert_type(invoice.options(when=every(hours=1), overlap="skip", retry=None).schedule(order=2, day=date.min), Task[str])
invoice.options(after_tasks=[bare.schedule(1), "y"], run_if="all_done").schedule(3, day=date.min)
assert_type(beat, TaskFunction[[], int])
assert_type(beat.schedule(), Task[int])
assert_type(each_second(), None)
assert_type(fortnight.schedule().result(timeout=1), None)
assert_type(nightly(), float)
assert_type(nightly.schedule(4).result(), float)
assert_type(Shop.tidy(1), bool)
assert_type(Shop.tidy.schedule(1), Task[bool])
assert_type(scheduler.schedule(bare, args=(1,)), Task[list[int]])
assert_type(scheduler.schedule(beat, after(1)), Task[int])
assert_type(bare.name, str)
assert_type(beat.id, str | None)
call(bare)
