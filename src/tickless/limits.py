"""The door of `start=`, `until=`, `max_runs=` and `jitter=`: limits on a schedule, whatever its rule."""

from __future__ import annotations

from datetime import datetime, timedelta

from tickless.checks import counted
from tickless.core.record import More
from tickless.errors import RuleError, ScheduleError, shown
from tickless.instants import SECOND_US, instant_of, span_us
from tickless.rules import Every, Rule, Window, is_ours


def limited(
    when: Rule | None,
    start: datetime | None,
    until: datetime | None,
    max_runs: int | None,
    jitter: float | timedelta | None,
    more: More,
) -> tuple[Rule, More, int]:
    """The rule within `start` and `until`, `more` with its `runs_left`, and the jitter in microseconds.

    At least one of the limits is given.

    Raises RuleError or ScheduleError for what is no limit, or none that this rule could have.
    """
    given = {"start": start, "until": until, "max_runs": max_runs, "jitter": jitter}
    said = ", ".join(f"{name}={shown(value)}" for name, value in given.items() if value is not None)
    if when is None:
        raise ScheduleError(f"{said}: limits a rule, and there is none; give when=, e.g. every(minutes=10)")
    jitter_us = 0 if jitter is None else _jitter_us(when, jitter)
    if max_runs is not None:
        more.runs_left = counted("max_runs", max_runs)
    if start is None and until is None and max_runs is None:
        return when, more, jitter_us
    if not _is_recurring(when):
        raise ScheduleError(
            f"{said}: limits a rule that fires again and again, and {shown(when)} fires once; say its time in the rule"
        )
    if start is None and until is None:
        return when, more, jitter_us
    first = None if start is None else instant_of(start, "start")
    last = None if until is None else instant_of(until, "until")
    if first is not None and last is not None and last < first:
        raise RuleError(f"{said}: ends before it begins")
    return Window(when, first, last), more, jitter_us


def _is_recurring(when: Rule) -> bool:
    try:
        return bool(when.recurring)
    except Exception as error:  # a user's own rule is foreign code
        raise RuleError(f"when={shown(when)}: asking whether it is recurring raised {shown(error)}") from error


def every_of(when: Rule | None) -> Every | None:
    """The grid of elapsed or anchored time that the rule is, `start` and `until` aside; None for any other rule."""
    if type(when) is Window:
        when = when.rule
    return when if type(when) is Every else None


def _jitter_us(when: Rule, jitter: float | timedelta) -> int:
    jitter_us = span_us(jitter, "jitter")
    if jitter_us < 0:
        raise ScheduleError(f"jitter={shown(jitter)}: makes fires later, never earlier; needs seconds, not negative")
    check_jitter(when, jitter_us, shown(jitter))
    return jitter_us


def check_jitter(when: Rule, jitter_us: int, said: str | None = None) -> None:
    """Raises ScheduleError for a jitter that the rule cannot have. `said`: how it was given, seconds without."""
    grid = every_of(when) if is_ours(when) else None
    if grid is None:
        return
    said = said or f"{jitter_us / SECOND_US:g}"
    if grid.sliding:
        raise ScheduleError(
            f"jitter={said}: spreads fires that would come together, and a sliding rule measures from the "
            "finish of each run; leave one of them out"
        )
    if jitter_us >= grid.interval_us:
        raise ScheduleError(
            f"jitter={said}: is as long as the interval of {when!r} or longer, so that fires would change "
            "places; choose a shorter one"
        )
