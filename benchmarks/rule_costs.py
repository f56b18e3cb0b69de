"""What rules cost where no peer does the same: refusals, long gaps, a step of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from statistics import median
from time import perf_counter

from tickless import RuleError, Scheduler, cron, every
from tickless.instants import SECOND_US, Instant, instant_of
from tickless.rules import Rule, rrule, span
from tickless.testing import FakeClock, InlinePool

NOW = instant_of(datetime(2026, 1, 1, tzinfo=UTC), "now")
TEN_YEARS_US = 3_652 * 86_400 * SECOND_US
NEVER = ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 */29 2 MON#5", "0 0 */8 * MON#5"]
"""The last is the dearest: each day of 28 years is looked at."""
TIMES = 11


def refuse() -> dict[str, float]:
    """The slowest of the expressions that never fire. A refusal is never cached."""
    slowest = 0.0
    for expr in NEVER:
        took = []
        for _ in range(TIMES):
            before = perf_counter()
            try:
                cron(expr)
            except RuleError:
                took.append(perf_counter() - before)
        slowest = max(slowest, median(took))
    return {"ms": slowest * 1e3}


def _gap(rule: Rule, newest: Instant) -> dict[str, float]:
    took = []
    for _ in range(TIMES):
        before = perf_counter()
        missed = span(rule, NOW, Instant(NOW + TEN_YEARS_US))
        took.append(perf_counter() - before)
        if missed is None or missed[2] != newest:
            raise AssertionError(f"{rule!r}: missed {missed}, the newest of which should be {newest}")
    return {"ms": median(took) * 1e3}


def gap_every() -> dict[str, float]:
    """The fires of every(seconds=1) in ten years: how many, the first, the newest."""
    return _gap(every(seconds=1).bound(NOW), Instant(NOW + TEN_YEARS_US))


def gap_cron(expr: str, tz: str) -> dict[str, float]:
    """The same of a cron rule that fires each second: up to a thousand are counted, and the newest is found."""
    return _gap(cron(expr, tz=tz), Instant(NOW + TEN_YEARS_US))


def seek(text: str) -> dict[str, float]:
    """An RRULE that began in 2000 is asked for its next fire, which it was asked once before."""
    took = []
    for number in range(TIMES):
        rule = rrule(text, start=datetime(2000, 1, 1 + number, 9), tz="Europe/Berlin")  # noqa: DTZ001  # in the zone
        first = rule.next_after(NOW)
        before = perf_counter()
        fire = rule.next_after(NOW)
        took.append(perf_counter() - before)
        if fire is None or fire != first:
            raise AssertionError(f"{rule!r} gave {first} and then {fire}")
    return {"ms": median(took) * 1e3}


def step(count: int) -> dict[str, float]:
    """`count` tasks of distinct expressions: the wall clock is set back by half an hour, and all are placed anew."""
    clock = FakeClock(datetime(2026, 1, 1, 12, tzinfo=UTC))
    with Scheduler(InlinePool(), clock=clock) as scheduler:
        scheduler.start()
        tasks = []
        for number in range(count):
            minute, rest = number % 60, number // 60
            expr = f"{minute} {rest % 24} {rest // 24 + 1} * *"
            tasks.append(scheduler.schedule(int, cron(expr, tz="Europe/Berlin")))
        due = [task.next_fire for task in tasks]
        before = perf_counter()
        clock.step_wall(timedelta(minutes=-30))
        took = perf_counter() - before
        if [task.next_fire for task in tasks] != due:
            raise AssertionError("a step back by half an hour may not change what is planned")
        scheduler.close(cancel=True)
    return {"ms": took * 1e3}
