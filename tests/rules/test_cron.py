"""`cron(expr, tz=)`: its meaning over changes of clocks, its value, its cost. What is refused: test_cron_refused.py."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.strategies import NOW, YEAR_US
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, MIN_INSTANT, SECOND_US, Instant, datetime_of, instant_of
from tickless.rules import Cron, Rule, checked_next, cron, is_ours, span
from tickless.rules.grammar import crontab
from tickless.testing.rule_suite import RuleSuite

ODD_ZONES = (
    "UTC +05:45 Europe/Berlin Europe/Dublin Africa/Casablanca Australia/Lord_Howe Antarctica/Troll Pacific/Apia"
    " America/St_Johns America/Santiago Asia/Gaza Pacific/Chatham"
).split()
"""Gaps of an hour, of 30 minutes, of two hours, of a day; summer time in winter; two changes within a week."""


def field(low: int, high: int) -> SearchStrategy[str]:
    value = st.integers(low, high)
    ranges = st.tuples(value, value).map(lambda ends: f"{min(ends)}-{max(ends)}")
    steps = st.integers(2, (high - low) // 2).map(lambda step: f"*/{step}")
    lists = st.lists(value, min_size=1, max_size=3).map(lambda values: ",".join(map(str, values)))
    return st.one_of(st.just("*"), lists, ranges, steps)


def expressions() -> SearchStrategy[str]:
    """Any expression that fires: days up to 28 leave no month without one."""
    days = st.one_of(field(1, 28), st.sampled_from(["L", "LW", "1,L"]))
    weekdays = st.one_of(field(0, 7), st.sampled_from(["5L", "1#1", "MON-FRI", "0L,3#2"]))
    either = st.one_of(st.tuples(days, st.just("*")), st.tuples(st.just("*"), weekdays))
    five = st.tuples(field(0, 59), field(0, 23), either, field(1, 12)).map(
        lambda parts: f"{parts[0]} {parts[1]} {parts[2][0]} {parts[3]} {parts[2][1]}"
    )
    return st.one_of(five, st.tuples(field(0, 59), five).map(" ".join), st.sampled_from(["@hourly", "@daily"]))


def crons() -> SearchStrategy[Rule]:
    return st.builds(
        lambda expr, tz, gap, fold: cron(expr, tz=tz, gap=gap, fold=fold),
        expressions(),
        st.sampled_from(ODD_ZONES),
        st.sampled_from([None, "next", "skip"]),
        st.sampled_from([None, "first", "last", "both"]),
    )


class TestCron(RuleSuite):
    """The contract of every rule."""

    def rules(self) -> SearchStrategy[Rule]:
        return crons()


def local(fire: Instant | None, tz: str) -> str:
    assert fire is not None
    return datetime_of(fire).astimezone(ZoneInfo(tz)).isoformat()


def us(text: str) -> Instant:
    return instant_of(datetime.fromisoformat(text), "test")


def fires(rule: Cron, start: str, count: int, tz: str) -> list[str]:
    found, asked = [], us(start)
    for _ in range(count):
        fire = rule.next_after(asked)
        found.append(local(fire, tz))
        assert fire is not None
        asked = fire
    return found


# Gap and overlap. The defaults are in the cases and the oracle; here is what overrides them.

SPRING = "2026-03-29T00:00:00+01:00"
AUTUMN = "2026-10-25T00:00:00+02:00"


@pytest.mark.parametrize(
    ("gap", "first"),
    [(None, "2026-03-29T03:00:00+02:00"), ("next", "2026-03-29T03:00:00+02:00"), ("skip", "2026-03-30T02:30:00+02:00")],
)
def test_gap_says_what_becomes_of_a_time_that_does_not_exist(gap: Any, first: str) -> None:
    """Half an hour late is right for a backup, and wrong for a reminder."""
    assert fires(cron("30 2 * * *", tz="Europe/Berlin", gap=gap), SPRING, 1, "Europe/Berlin") == [first]


@pytest.mark.parametrize(
    ("fold", "hours"), [(None, ["+02:00"]), ("first", ["+02:00"]), ("last", ["+01:00"]), ("both", ["+02:00", "+01:00"])]
)
def test_fold_says_which_pass_counts(fold: Any, hours: list[str]) -> None:
    """Twice is right for a reading of a meter, and wrong for a payment."""
    rule = cron("30 2 * * *", tz="Europe/Berlin", fold=fold)
    expected = [f"2026-10-25T02:30:00{offset}" for offset in hours] + ["2026-10-26T02:30:00+01:00"]
    assert fires(rule, AUTUMN, len(expected), "Europe/Berlin") == expected


def test_a_wildcard_can_be_told_to_fire_once() -> None:
    """With fold="first" the repeated hour is silent, with gap="next" the skipped one is made up for."""
    rule = cron("*/30 * * * *", tz="Europe/Berlin", gap="next", fold="first")
    before, after = "2026-10-25T02:30:00+02:00", "2026-10-25T03:00:00+01:00"
    assert fires(rule, before, 1, "Europe/Berlin") == [after]
    assert fires(rule, "2026-10-25T02:30:00+01:00", 1, "Europe/Berlin") == [after]
    assert fires(rule, "2026-03-29T01:30:00+01:00", 2, "Europe/Berlin") == [
        "2026-03-29T03:00:00+02:00",  # what was skipped, and 03:00 itself: one fire
        "2026-03-29T03:30:00+02:00",
    ]


def test_with_gap_raise_the_fire_that_does_not_exist_is_an_error_and_the_others_are_not() -> None:
    """Who asks for it wants to hear of it when that night is planned."""
    rule = cron("30 2 * * *", tz="Europe/Berlin", gap="raise")
    assert fires(rule, "2026-03-27T12:00:00+01:00", 1, "Europe/Berlin") == ["2026-03-28T02:30:00+01:00"]
    with pytest.raises(RuleError, match=r"cron\('30 2 \* \* \*'.*2026-03-29 02:30:00 does not exist in Europe/Berlin"):
        rule.next_after(us(SPRING))
    assert fires(rule, "2026-03-29T03:00:00+02:00", 1, "Europe/Berlin") == ["2026-03-30T02:30:00+02:00"]


def test_the_end_of_a_gap_is_a_time_that_exists() -> None:
    """With gap="raise" too; and with "next" it is one fire, not two, for who asks and for who counts."""
    for gap in ("next", "raise"):
        rule = cron("0 3,4 * * *", tz="Europe/Berlin", gap=gap)
        assert fires(rule, SPRING, 1, "Europe/Berlin") == ["2026-03-29T03:00:00+02:00"]
    rule = cron("0,30 2,3 * * *", tz="Europe/Berlin")
    assert span(rule, us(SPRING), us("2026-03-29T12:00:00+02:00")) == (
        2,
        us("2026-03-29T03:00:00+02:00"),
        us("2026-03-29T03:30:00+02:00"),
    )


def test_with_gap_raise_the_day_that_samoa_left_out_is_an_error_too() -> None:
    """By default it is dropped."""
    with pytest.raises(RuleError, match="2011-12-30 12:00:00 does not exist in Pacific/Apia"):
        cron("0 12 * * *", tz="Pacific/Apia", gap="raise").next_after(us("2011-12-29T13:00:00-10:00"))


def test_a_change_at_the_end_of_a_block_of_the_cache_fires_nothing_again() -> None:
    """Chatham, April 2011: the oracle found a walk that went back into the second pass, for ever."""
    rule = cron("* 2 * * *", tz="Pacific/Chatham")
    assert fires(rule, "2011-04-03T02:59:00+13:45", 1, "Pacific/Chatham") == ["2011-04-03T02:45:00+12:45"]
    assert fires(rule, "2011-04-03T02:59:00+12:45", 2, "Pacific/Chatham") == [
        "2011-04-04T02:00:00+12:45",
        "2011-04-04T02:01:00+12:45",
    ]


def test_a_yearly_fire_in_the_overlap_fires_in_the_second_pass() -> None:
    """A search that leaps to the next match by wall time would be a year late."""
    rule = cron("30 2 25 10 *", tz="Europe/Berlin", fold="both")
    assert fires(rule, "2026-10-25T02:45:00+02:00", 1, "Europe/Berlin") == ["2026-10-25T02:30:00+01:00"]


def test_microseconds_of_the_question_do_not_move_the_fire() -> None:
    """A fire is at the full second, and strictly after."""
    rule = cron("* * * * * *")
    assert rule.next_after(Instant(0)) == SECOND_US
    assert rule.next_after(Instant(-1)) == 0
    assert rule.next_after(Instant(1)) == SECOND_US
    assert rule.next_after(Instant(SECOND_US - 1)) == SECOND_US


# The published examples of cronsim, on naive time, which it is known to have right.


@given(expressions().filter(lambda expr: not expr.startswith("@")), st.integers(0, 100 * YEAR_US))
def test_in_utc_it_fires_as_cronsim_does(expr: str, after: int) -> None:
    """A mistake in our own layer would show where there are no changes of clocks at all."""
    search = CronSim(expr, datetime_of(Instant(after)).replace(tzinfo=None))
    right = [instant_of(next(search).replace(tzinfo=UTC), "test") for _ in range(3)]
    rule, asked, found = cron(expr), Instant(after), []
    for _ in right:
        fire = rule.next_after(asked)
        assert fire is not None
        found.append(fire)
        asked = fire
    assert found == right


@pytest.mark.parametrize(
    ("expr", "first"),
    [
        ("0 0 13 * 5", "2026-01-02"),  # either is enough
        ("0 0 */13 * 5", "2026-02-27"),  # one starts with a star: both
        ("0 0 13 * */5", "2026-02-13"),
        ("0 0 1-31 * 1", "2026-01-02"),  # a full range is no star
        ("0 0 * * 1", "2026-01-05"),
        ("0 0 29 2 *", "2028-02-29"),
        ("0 0 L 2 *", "2026-02-28"),
        ("0 0 LW * *", "2026-01-30"),
        ("0 0 * * 0", "2026-01-04"),
        ("0 0 * * 7", "2026-01-04"),
        ("0 0 * * sun", "2026-01-04"),
        ("0 0 * * 5L", "2026-01-30"),
        ("0 0 * * fri#3", "2026-01-16"),
        ("0 0 * * 5#3,1L", "2026-01-16"),
        ("0 0 15,L * *", "2026-01-15"),
        ("0 0 1 feb-mar *", "2026-02-01"),
        ("@daily", "2026-01-02"),
        ("@midnight", "2026-01-02"),
        ("@weekly", "2026-01-04"),
        ("@monthly", "2026-02-01"),
        ("@yearly", "2027-01-01"),
        ("@ANNUALLY", "2027-01-01"),
    ],
)
def test_days_are_found_as_the_grammar_says(expr: str, first: str) -> None:
    """1 January 2026 was a Thursday."""
    assert cron(expr).next_after(us("2026-01-01T00:00:00+00:00")) == us(f"{first}T00:00:00+00:00")


def test_hourly_is_a_wildcard() -> None:
    """It fires in both passes of the repeated hour."""
    assert fires(cron("@hourly", tz="Europe/Berlin"), "2026-10-25T02:00:00+02:00", 2, "Europe/Berlin") == [
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


# The value.


def test_equal_rules_are_equal_however_they_were_written() -> None:
    """An unchanged schedule keeps its next fire; a changed one does not."""
    rule = cron("0 9 * * MON-FRI", tz="Europe/Berlin")
    for twin in (
        cron("  0  9 * *\tmon-fri ", tz=ZoneInfo("Europe/Berlin")),
        cron("0 9 * * mon-fri", tz=ZoneInfo.no_cache("Europe/Berlin")),
        cron("0 9 * * Mon-Fri", tz="Europe/Berlin", gap="next", fold="first"),
    ):
        assert twin == rule
        assert hash(twin) == hash(rule)
    assert cron("@daily", tz=UTC) == cron("@Daily") == cron("@daily", tz=timezone(timedelta(0)))
    for other in (
        cron("0 9 * * MON-FRI"),
        cron("0 9 * * MON-THU", tz="Europe/Berlin"),
        cron("0 9 * * MON-FRI", tz="Europe/Berlin", gap="skip"),
        cron("0 9 * * MON-FRI", tz="Europe/Berlin", fold="both"),
    ):
        assert other != rule


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (cron("30 2 * * *", tz="Europe/Berlin"), "cron('30 2 * * *', tz='Europe/Berlin')"),
        (cron("30 2 * * *"), "cron('30 2 * * *')"),
        (cron("0 0 * * mon", tz="+05:30", gap="skip"), "cron('0 0 * * MON', tz='+05:30', gap='skip')"),
        (cron("* * * * *", gap="next", fold="last"), "cron('* * * * *', gap='next', fold='last')"),
        (cron("@Daily"), "cron('@daily')"),
    ],
)
def test_its_repr_is_what_a_user_writes(rule: Cron, text: str) -> None:
    """It is in every message about the rule."""
    assert repr(rule) == text
    assert eval(text, {"cron": cron}) == rule


@given(crons())
def test_it_reads_back_from_its_repr_a_pickle_and_a_copy(rule: Cron) -> None:
    """Also where gap and fold are what they would be anyway."""
    assert eval(repr(rule), {"cron": cron}) == rule
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert copy.deepcopy(rule) == copy.copy(rule) == rule


def test_a_pickle_outlives_the_cache_of_zones() -> None:
    """ZoneInfo objects of one key are unequal after it: the rule holds the key."""
    pickled = pickle.dumps(cron("30 2 * * *", tz="Europe/Berlin"))
    ZoneInfo.clear_cache()
    assert pickle.loads(pickled) == cron("30 2 * * *", tz="Europe/Berlin")


@pytest.mark.parametrize("name", ["expr", "tz", "gap", "anything"])
def test_it_cannot_be_changed(name: str) -> None:
    """A rule is shared: by tasks, threads, and as a key."""
    with pytest.raises((AttributeError, TypeError)):
        setattr(cron("* * * * *"), name, "5")


def test_it_is_a_wall_rule_of_ours_that_recurs_and_needs_no_binding() -> None:
    """So it may be asked under a lock, and is placed anew when the clock is set."""
    rule = cron("* * * * *")
    assert (rule.recurring, rule.wall, is_ours(rule)) == (True, True, True)
    assert rule.bound(NOW) is rule


# The ends of the calendar, and cost.


@pytest.mark.parametrize("tz", ["UTC", "America/New_York", "Asia/Tokyo", "+23:59", "-23:59"])
@pytest.mark.parametrize("expr", ["* * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 1 1 5#1,2L"])
def test_after_the_year_9999_there_is_nothing_and_before_the_year_1_the_first(expr: str, tz: str) -> None:
    """No OverflowError, which would end the task with a riddle."""
    rule = cron(expr, tz=tz)
    assert rule.next_after(MAX_INSTANT) is None
    assert rule.next_after(Instant(MAX_INSTANT + 10**18)) is None
    first = checked_next(rule, Instant(MIN_INSTANT - 10**18))
    assert first is not None
    assert MIN_INSTANT <= first < MIN_INSTANT + 30 * YEAR_US
    asked, count = Instant(MAX_INSTANT - 10 * SECOND_US * 86_400), 0
    while (fire := checked_next(rule, asked)) is not None:
        asked, count = fire, count + 1
    assert count <= 14_400


def test_the_newest_of_ten_years_is_found_and_a_thousand_are_counted() -> None:
    """After ten years in a drawer a laptop must not count three hundred million seconds."""
    rule = cron("* * * * * *", tz="Europe/Berlin")
    until = Instant(NOW + 10 * YEAR_US)
    assert span(rule, NOW, until) == (1_000, NOW + SECOND_US, until)
    assert span(rule, NOW, Instant(NOW + 999 * SECOND_US)) == (999, NOW + SECOND_US, NOW + 999 * SECOND_US)
    assert span(rule, NOW, Instant(NOW + 1)) is None


def test_the_newest_of_a_span_is_found_by_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bisection: the count of searches does not grow with the gap."""
    asked: list[Instant] = []
    honest = Cron.next_after

    def counted(rule: Cron, after: Instant) -> Instant | None:
        asked.append(after)
        return honest(rule, after)

    monkeypatch.setattr(Cron, "next_after", counted)
    assert span(cron("*/5 * * * *"), NOW, Instant(NOW + 100 * YEAR_US)) is not None
    assert len(asked) < 70


def test_a_parsed_expression_is_never_advanced() -> None:
    """cronsim's parsed form is an iterator: shared and advanced, it would lose fires of every other rule."""
    rule = cron("7 * * * *")
    before = crontab(rule.expr).search.dt
    first = rule.next_after(NOW)
    assert (rule.next_after(NOW), crontab(rule.expr).search.dt) == (first, before)


# Words.

WORDS = [
    ("* * * * *", "every minute"),
    ("*/5 * * * *", "every 5 minutes"),
    ("*/7 * * * *", "at minutes 0, 7, 14 ... 56 of every hour"),
    ("5-59/15 * * * *", "at minutes 5, 20, 35 and 50 of every hour"),
    ("0 * * * *", "every hour"),
    ("@hourly", "every hour"),
    ("30 * * * *", "every hour at minute 30"),
    ("0 */2 * * *", "every 2 hours"),
    ("5 */2 * * *", "every 2 hours at minute 5"),
    ("30 9-17 * * *", "every hour from 09:30 to 17:30"),
    ("0 1-23/2 * * *", "at minute 0 of the hours 1, 3, 5 ... 23"),
    ("30 2 * * *", "every day at 02:30"),
    ("0 9,12,18 * * *", "every day at 09:00, 12:00 and 18:00"),
    ("*/15 9-17 * * mon-fri", "every 15 minutes from 09:00 to 17:45, Monday to Friday"),
    ("* 9 * * *", "every minute from 09:00 to 09:59"),
    ("*/10 8,20 * * *", "every 10 minutes in the hours 8 and 20"),
    ("3,7,11 9-17 * * *", "at minutes 3, 7 and 11 of the hours 9 to 17"),
    ("0 9 * * 1-5", "at 09:00, Monday to Friday"),
    ("0 9 * * 1,3,5", "at 09:00, on Monday, Wednesday and Friday"),
    ("0 9 * * 0,6", "at 09:00, on Saturday and Sunday"),
    ("0 9 * * 6-7", "at 09:00, on Saturday and Sunday"),
    ("0 9 * * 0", "at 09:00, on Sunday"),
    ("0 18 * * 5L", "at 18:00, on the last Friday of the month"),
    ("0 9 * * 1#1,5#3,0L", "at 09:00, on the first Monday, the third Friday and the last Sunday of the month"),
    ("0 9 * * 1,5#3", "at 09:00, on every Monday and the third Friday of the month"),
    ("0 0 1 * *", "at 00:00, on day 1 of the month"),
    ("0 0 1,15 * *", "at 00:00, on days 1 and 15 of the month"),
    ("0 0 1-7 * *", "at 00:00, on days 1 to 7 of the month"),
    ("0 0 L * *", "at 00:00, on the last day of the month"),
    ("0 5 LW * *", "at 05:00, on the last weekday (Monday to Friday) of the month"),
    ("0 5 15,L * *", "at 05:00, on day 15 and the last day of the month"),
    ("0 0 29 2 *", "at 00:00, on 29 February"),
    ("0 0 1,15 1 *", "at 00:00, on 1 and 15 January"),
    ("0 0 * 6-8 *", "every day at 00:00, from June to August"),
    ("0 0 * 1,7 sat", "at 00:00, on Saturday, in January and July"),
    ("0 0 13 * 5", "at 00:00, on day 13 of the month or on Friday (one of the two is enough)"),
    ("0 0 1 * 1-5", "at 00:00, on day 1 of the month or on any day from Monday to Friday (one of the two is enough)"),
    ("0 0 */10 * 1-5", "at 00:00, on days 1, 11, 21 and 31 of the month, but only from Monday to Friday"),
    ("0 0 13 * */5", "at 00:00, on day 13 of the month, but only on Friday and Sunday"),
    ("0 0 1-31 * 1", "every day at 00:00"),
    ("0 0 1 * 0-6", "every day at 00:00"),
    ("* * * * * *", "every second"),
    ("*/10 * * * * *", "every 10 seconds"),
    ("*/7 * * * * *", "at seconds 0, 7, 14 ... 56 of every minute"),
    ("*/10 * 9-17 * * *", "every 10 seconds from 09:00 to 17:59:50"),
    ("*/10 0 * * * *", "every 10 seconds in minute 0 of every hour"),
    ("1,5 * 8,20 * * *", "at seconds 1 and 5 of every minute of the hours 8 and 20"),
    ("15 30 2 * * *", "every day at 02:30:15"),
    ("7 */5 * * * *", "every 5 minutes, at second 7"),
]


@pytest.mark.parametrize(("expr", "words"), WORDS, ids=[expr for expr, _ in WORDS])
def test_it_says_in_words_what_it_means(expr: str, words: str) -> None:
    """What the user meant and what was written differ most often in the day fields and the steps."""
    assert str(cron(expr)) == f"{words}, UTC"


def test_the_words_name_the_zone_and_what_is_not_the_default() -> None:
    """The zone is half of the meaning."""
    assert str(cron("30 2 * * *", tz="Europe/Paris")) == "every day at 02:30, Europe/Paris"
    assert str(cron("30 2 * * *", gap="skip", fold="both")) == (
        "every day at 02:30, UTC, not where clocks are put forward over it, twice where clocks are put back over it"
    )


@given(expressions())
def test_the_words_of_any_expression_name_no_number_that_it_has_not(expr: str) -> None:
    """A list that is shortened wrongly would promise a fire that never comes."""
    table = crontab(cron(expr).expr)
    known = set().union(table.seconds, table.minutes, table.hours, table.days)
    steps = {
        len(values) and size // len(values)
        for values, size in ((table.seconds, 60), (table.minutes, 60), (table.hours, 24))
    }
    numbers = {int(number) for number in re.findall(r"\d+", str(cron(expr)).removesuffix(", UTC"))}
    assert numbers <= known | steps | {59}


@pytest.mark.parametrize(
    ("fixed", "wild"),
    [("0-59 0-23 * * *", "* * * * *"), ("0 0-23 * * *", "0 * * * *"), ("0-59 1-3 * * *", "* 1-3 * * *")],
)
def test_a_fixed_expression_that_reads_as_a_wildcard_says_what_it_does_where_clocks_change(
    fixed: str, wild: str
) -> None:
    """Written as ranges it is silent in the hour that comes again: other fires than `*`, under the same words."""
    words = str(cron(wild, tz="Europe/Berlin"))
    put_back = "the first time where clocks are put back over it"
    assert str(cron(fixed, tz="Europe/Berlin")) == (
        f"{words}, right after it where clocks are put forward over it, {put_back}"
    )
    assert str(cron(fixed, tz="Europe/Berlin", gap="skip", fold="both")) == words
    assert str(cron(fixed)) == str(cron(wild))  # in UTC they are the same
