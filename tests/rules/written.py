"""Hypothesis strategies for rules to be written down: every kind, with every option, as parts of one another, bound."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.strategies import afters, aligned, anchored, ats, instants, sliding
from tickless.errors import RuleError
from tickless.rules import Calendar, Cron, RRule, Rule, Union, at, cron, rrule, weekdays
from tickless.rules.combine import not_on, on_days

ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "+05:30", "-00:44:30")
EXPRESSIONS = (
    "30 2 * * *",
    "*/15 9-17 * * mon-fri",
    "0 0 1,15 * 5#3",
    "0 0 L * *",
    "59 59 23 31 12 *",
    "*/10 * * * * *",
    "0 12 LW jan-mar 5L",
    "@daily",
    "@Hourly",
    "0  9 *  * 7",
)
RECURRENCES = (
    "FREQ=WEEKLY;BYDAY=MO,WE",
    "freq=daily;count=5",
    "FREQ=MONTHLY;BYDAY=-1FR;INTERVAL=2",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=HOURLY;UNTIL=20300101T000000Z",
)
DAY_SETS = ("mon-fri", "sat,sun", "wed", "mon,wed-fri,sun")

zones = st.sampled_from(ZONES)
choices = st.fixed_dictionaries(
    {}, optional={"gap": st.sampled_from(["next", "skip", "raise"]), "fold": st.sampled_from(["first", "last", "both"])}
)
times = st.one_of(
    st.sampled_from([time(9), time(2, 30), time(0, 0, 1), time(23, 59, 59, 999_999), time(0, 0, 0, 500_000)]),
    st.times(),
)
dates = st.dates(date(1970, 1, 1), date(2200, 12, 31))
walls = st.datetimes(datetime(1970, 1, 2), datetime(2200, 12, 31))  # noqa: DTZ001  # wall times


def crons() -> SearchStrategy[Cron]:
    return st.builds(
        lambda expr, tz, options: cron(expr, tz=tz, **options), st.sampled_from(EXPRESSIONS), zones, choices
    )


def calendars() -> SearchStrategy[Calendar]:
    small = st.integers(1, 40)
    intervals = st.one_of(
        st.fixed_dictionaries({"days": small}),
        st.fixed_dictionaries({"weeks": small}),
        st.fixed_dictionaries({"weeks": small, "on": st.sampled_from(DAY_SETS)}),
        st.fixed_dictionaries({"weeks": small, "days": small}),
        st.fixed_dictionaries({"months": small}),
        st.fixed_dictionaries({"years": small, "months": small}),
    )
    begins: SearchStrategy[dict[str, Any]] = st.one_of(
        st.just({}),
        st.fixed_dictionaries({"at": times}),
        st.fixed_dictionaries({"anchor": dates}),
        st.fixed_dictionaries({"anchor": dates, "at": times}),
        st.fixed_dictionaries({"anchor": walls}),
        st.fixed_dictionaries({"anchor": walls.map(lambda wall: wall.replace(tzinfo=UTC))}),
    )
    return st.builds(
        lambda interval, begin, tz, options: Calendar(**interval, **begin, tz=tz, **options),
        intervals,
        begins,
        zones,
        choices,
    )


def wall_ats() -> SearchStrategy[Rule]:
    """`at` a wall time of a zone: some are skipped there, some come twice."""
    edges = [datetime(2027, 3, 28, 2, 30), datetime(2027, 10, 31, 2, 30), datetime(2027, 1, 1)]  # noqa: DTZ001
    folds = st.sampled_from(["first", "last", None])
    return st.builds(
        lambda wall, tz, fold: at(wall, tz=tz, gap="next", fold=fold),
        st.one_of(st.sampled_from(edges), walls),
        zones,
        folds,
    )


def rrules() -> SearchStrategy[RRule]:
    starts = st.datetimes(datetime(1990, 1, 1), datetime(2029, 12, 31))  # noqa: DTZ001  # wall times
    return st.builds(
        lambda text, start, tz, options: rrule(text, start=start.replace(microsecond=0), tz=tz, **options),
        st.sampled_from(RECURRENCES),
        starts,
        zones,
        choices,
    )


def wall_rules() -> SearchStrategy[Rule]:
    """One rule of the wall clock."""
    return st.one_of(crons(), calendars(), wall_ats(), rrules(), ats(), anchored())


def filtered() -> SearchStrategy[Rule]:
    """Confined to days, once or twice; some of these would never fire, and are left out."""
    days = st.one_of(
        st.sampled_from(DAY_SETS).map(weekdays), st.sets(st.dates(date(2026, 1, 1), date(2030, 12, 31)), min_size=1)
    )

    def kept_from(rule: Rule, cal: Any, shift: Any) -> Rule | None:
        try:
            return on_days(rule, cal) if shift is None else not_on(rule, cal, shift)
        except RuleError:  # it would never fire
            return None

    recurring = st.one_of(
        st.sampled_from(EXPRESSIONS[:3]).map(cron), calendars().filter(lambda rule: not rule.anchored)
    )
    shifts = st.sampled_from(["skip", "next", None])
    once = st.builds(kept_from, recurring, days, shifts).filter(lambda rule: rule is not None)
    twice = st.builds(kept_from, once, days, shifts).filter(lambda rule: rule is not None)
    return st.one_of(once, twice)


def unions() -> SearchStrategy[Rule]:
    return st.lists(st.one_of(wall_rules(), filtered()), min_size=2, max_size=4).map(lambda rules: Union(*rules))


def texts() -> SearchStrategy[Rule]:
    """Every rule that has a text form."""
    return st.one_of(wall_rules(), afters(), aligned(), sliding(), filtered(), unions())


def any_rule() -> SearchStrategy[Rule]:
    """Every rule there is, half of them bound."""
    return st.one_of(texts(), st.builds(lambda rule, now: rule.bound(now), texts(), instants(0, 4 * 10**15)))
