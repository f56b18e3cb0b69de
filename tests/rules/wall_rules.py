"""Hypothesis strategies for every rule of the wall clock, alone and combined, in odd zones.

Each is made once: Hypothesis checks a new strategy at its first draw, which takes longer than the draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.rules.zoned import ZONES, moments
from tests.strategies import anchored
from tickless.errors import RuleError
from tickless.instants import Instant
from tickless.rules import Rule, at, cron, every, rrule, weekdays
from tickless.rules.zones import wall_of, zone_of

DATES = st.dates(date(1999, 1, 1), date(2037, 12, 31))
FOLDS = st.sampled_from([None, None, "first", "last", "both"])
GAPS = st.sampled_from([None, None, "next", "skip"])
TIMES = st.one_of(
    st.sampled_from([time(0), time(0, 30), time(1, 30), time(2), time(2, 30), time(3), time(23, 30)]), st.times()
)
NAMES = st.lists(st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), min_size=1, max_size=6)


@cache
def calendars() -> SearchStrategy[Rule]:
    intervals = st.one_of(
        st.fixed_dictionaries({"days": st.integers(1, 40)}),
        st.fixed_dictionaries({"weeks": st.integers(1, 5)}, optional={"on": NAMES}),
        st.fixed_dictionaries({"months": st.integers(1, 30)}),
        st.fixed_dictionaries({"years": st.integers(1, 5)}),
    )
    when = st.one_of(
        st.fixed_dictionaries({"anchor": DATES}, optional={"at": TIMES}),
        st.fixed_dictionaries({}, optional={"at": TIMES}),
    )
    return st.builds(
        lambda interval, when, tz, gap, fold: every(**interval, **when, tz=tz, gap=gap, fold=fold),
        intervals,
        when,
        st.sampled_from(ZONES),
        GAPS,
        FOLDS,
    )


RECURS = (
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3;COUNT=40",
    "FREQ=DAILY;BYHOUR=0,2,23;BYMINUTE=0,30",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,MO;WKST=SU",
    "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=MONTHLY;BYMONTHDAY=31",
    "FREQ=MONTHLY;BYDAY=-1SU;UNTIL=20200101",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=SU",
    "FREQ=YEARLY;BYYEARDAY=1,-1",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=MINUTELY;INTERVAL=7;COUNT=1000",
    "FREQ=SECONDLY;INTERVAL=999;UNTIL=20250101T000000Z",
)


@cache
def rrules() -> SearchStrategy[Rule]:
    starts = st.datetimes(datetime(1999, 1, 1), datetime(2019, 1, 1)).map(lambda start: start.replace(microsecond=0))  # noqa: DTZ001  # wall times
    return st.builds(
        lambda text, start, tz, gap, fold: rrule(text, start=start, tz=tz, gap=gap, fold=fold),
        st.sampled_from(RECURS),
        starts,
        st.sampled_from(ZONES),
        GAPS,
        FOLDS,
    )


@cache
def wall_ats() -> SearchStrategy[Rule]:
    def made(instant: Instant, tz: str, fold: int) -> Rule:
        there = wall_of(instant, zone_of(tz, "test"))
        try:
            return at(there + timedelta(hours=1), tz=tz, gap="next", fold="last" if fold else None)
        except RuleError:  # into a gap of a day
            return at(there, tz=tz)

    return st.builds(made, moments(), st.sampled_from(ZONES), st.integers(0, 1))


CRONS = ("30 2 * * *", "*/30 * * * *", "0 0 * * *", "15 23 31 * *", "0 */6 * * mon-fri", "* 0 1 * *")


@cache
def crons() -> SearchStrategy[Rule]:
    return st.builds(lambda expr, tz: cron(expr, tz=tz), st.sampled_from(CRONS), st.sampled_from(ZONES))


@cache
def walls() -> SearchStrategy[Rule]:
    return st.one_of(calendars(), crons(), rrules(), wall_ats(), anchored())


@dataclass(frozen=True)
class EvenDays:
    """A set of days of somebody else's."""

    def __contains__(self, day: date) -> bool:
        return day.toordinal() % 2 == 0


@cache
def date_sets() -> SearchStrategy[object]:
    around = st.tuples(DATES, st.lists(st.integers(0, 40), min_size=1, max_size=12))
    return around.map(lambda drawn: frozenset(drawn[0] + timedelta(days=days) for days in drawn[1]))


@cache
def day_sets() -> SearchStrategy[object]:
    return st.one_of(NAMES.map(weekdays), NAMES.map(weekdays), date_sets(), st.just(EvenDays()))


def kept(rule: Rule, cal: object, kind: str) -> Rule:
    """The rule with its days looked at; as it is, where it would never fire then."""
    try:
        if kind == "on":
            return rule.on_days(cal)  # type: ignore[attr-defined, no-any-return]  # every rule of the wall clock has it
        return rule.not_on(cal, shift=kind)  # type: ignore[attr-defined, no-any-return]  # likewise
    except RuleError:
        return rule


@cache
def filtered(rules: SearchStrategy[Rule], *kinds: str) -> SearchStrategy[Rule]:
    return st.builds(kept, rules, day_sets(), st.sampled_from(kinds))
