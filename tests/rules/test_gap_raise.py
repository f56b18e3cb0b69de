"""gap="raise": a wall time that does not exist is an error when its turn comes, and not before."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.zoned import us
from tickless.errors import RuleError
from tickless.instants import Instant, instant_of
from tickless.rules import Rule, between, cron, every, preview, rrule, weekdays
from tickless.rules.zones import MissingTime

BERLIN = "Europe/Berlin"
START = datetime(2030, 3, 1, 2, 30)  # noqa: DTZ001  # a wall time
GAP = us(2030, 3, 31, 1)
"""The end of the gap: a Sunday at 03:00 in Berlin."""
SATURDAY, MONDAY = us(2030, 3, 30, 1, 30), us(2030, 4, 1, 0, 30)

RULES: list[Callable[[], Rule]] = [
    lambda: cron("30 2 * * *", tz=BERLIN, gap="raise"),
    lambda: every(days=1, at="02:30", tz=BERLIN, anchor=date(2030, 3, 1), gap="raise"),
    lambda: rrule("FREQ=DAILY", start=START, tz=BERLIN, gap="raise"),
]


@pytest.mark.parametrize("make", RULES)
def test_the_error_says_when_its_turn_is(make: Callable[[], Rule]) -> None:
    """Those who look at a part of the time can tell whether it concerns them; also after a journey."""
    with pytest.raises(MissingTime, match="2030-03-31 02:30:00 does not exist") as caught:
        make().next_after(SATURDAY)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.wall, copy.end, str(copy)) == (START.replace(day=31), GAP, str(caught.value))
    assert make().next_after(GAP) == MONDAY


@pytest.mark.parametrize("make", RULES)
def test_a_day_that_is_left_out_raises_nothing(make: Callable[[], Rule]) -> None:
    """`.not_on(sunday)` is what somebody writes who knows of the gap; the task failed on Saturday all the same."""
    assert make().not_on(weekdays("sun")).next_after(SATURDAY) == MONDAY  # type: ignore[attr-defined]  # all have it
    assert make().on_days(weekdays("mon-sat")).next_after(SATURDAY) == MONDAY  # type: ignore[attr-defined]  # as above
    with pytest.raises(MissingTime):
        make().not_on(weekdays("sat")).next_after(SATURDAY)  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize("make", RULES)
def test_a_moved_fire_needs_its_wall_time_on_the_new_day_alone(make: Callable[[], Rule]) -> None:
    """And one that is to come later does not hinder it."""
    moved = make().not_on({date(2030, 3, 29), date(2030, 3, 31)}, shift="next")  # type: ignore[attr-defined]  # all do
    assert moved.next_after(us(2030, 3, 28, 12)) == SATURDAY
    assert moved.next_after(SATURDAY) == MONDAY


def test_a_fire_at_the_end_of_a_gap_on_another_day_is_not_lost() -> None:
    """Samoa left out a whole day: the day after it begins where the gap ends."""
    rule = cron("0 0 * * *", tz="Pacific/Apia", gap="raise").not_on({date(2011, 12, 30)})
    assert rule.next_after(us(2011, 12, 29, 10)) == us(2011, 12, 30, 10)
    twice = rule.not_on({date(2012, 5, 1)})
    assert twice.next_after(us(2011, 12, 29, 10)) == us(2011, 12, 30, 10)


def test_a_union_fires_what_comes_before_the_gap() -> None:
    """One rule's gap is not the other one's."""
    both = cron("30 2 * * sun", tz=BERLIN, gap="raise") | cron("0 12 * * *", tz=BERLIN)
    assert both.next_after(us(2030, 3, 29, 12)) == us(2030, 3, 30, 11)
    with pytest.raises(MissingTime):
        both.next_after(us(2030, 3, 30, 11))
    assert both.next_after(GAP) == us(2030, 3, 31, 10)


@pytest.mark.parametrize("make", RULES)
def test_between_raises_for_fires_up_to_its_stop_only(make: Callable[[], Rule]) -> None:
    """What lies beyond is not asked for."""
    friday = datetime(2030, 3, 29, 12, tzinfo=UTC)
    found = between(make(), friday, friday + timedelta(days=1))
    assert [fire.day for fire in found] == [30]
    with pytest.raises(MissingTime):
        list(between(make(), friday, friday + timedelta(days=2)))


def test_an_rrule_needs_its_first_fire_to_be_made() -> None:
    """Gaps far ahead are errors when they come, if ever: COUNT and UNTIL may end it before."""
    eve = START.replace(day=30)
    assert rrule("FREQ=DAILY", start=eve, tz=BERLIN, gap="raise").next_after(Instant(0)) == SATURDAY
    many = rrule("FREQ=DAILY;COUNT=400", start=START, tz=BERLIN, gap="raise")
    assert many.next_after(Instant(0)) == us(2030, 3, 1, 1, 30)
    with pytest.raises(MissingTime):
        many.next_after(SATURDAY)
    for end in ("COUNT=1", "UNTIL=20300330", "UNTIL=20300331T005959Z"):
        assert rrule(f"FREQ=DAILY;{end}", start=eve, tz=BERLIN, gap="raise").next_after(SATURDAY) is None
    with pytest.raises(MissingTime):
        rrule("FREQ=DAILY", start=START.replace(day=31), tz=BERLIN, gap="raise")


def test_the_second_pass_comes_before_the_gap_of_next_spring() -> None:
    """The wall time after an overlap was looked at first, and its error swallowed the second pass."""
    rule = every(days=154, anchor=datetime(2030, 10, 27, 2, 30), tz=BERLIN, gap="raise", fold="both")  # noqa: DTZ001
    first, second = us(2030, 10, 27, 0, 30), us(2030, 10, 27, 1, 30)
    assert (rule.next_after(Instant(0)), rule.next_after(first)) == (first, second)
    with pytest.raises(MissingTime):
        rule.next_after(second)


def test_days_are_no_reason_to_refuse_a_rule_whose_first_fire_is_in_a_gap() -> None:
    """It may be scheduled long after that."""
    rule = cron("30 2 * * *", tz=BERLIN, gap="raise").on_days({date(2030, 3, 31), date(2030, 4, 1)})
    with pytest.raises(MissingTime):
        rule.next_after(Instant(0))
    assert rule.next_after(GAP) == MONDAY


def test_notes_do_not_raise_where_the_rule_does_not() -> None:
    """They ask the rule that is filtered, about days that are left out."""
    rule = cron("30 2 * * sat,sun", tz=BERLIN, gap="raise").not_on(weekdays("sat,sun"), shift="next")
    (monday,) = preview(rule, datetime(2030, 3, 29, 12, tzinfo=UTC), 1)
    assert monday.notes == ("moved from 30 Mar and 31 Mar",)


@given(
    minute=st.sampled_from(["0", "0,30", "15"]),
    hours=st.sampled_from(["2", "1-3", "0", "*"]),
    tz=st.sampled_from([BERLIN, "Africa/Cairo", "America/Havana", "Pacific/Apia"]),
    out=st.sets(st.integers(0, 6), max_size=6),
    first=st.datetimes(datetime(2009, 1, 1), datetime(2014, 1, 1)),  # noqa: DTZ001  # UTC
)
def test_it_fires_as_with_skip_up_to_a_gap_on_a_day_that_is_left(
    minute: str, hours: str, tz: str, out: set[int], first: datetime
) -> None:
    """The same fires in the same order; only a missing time on a day that is left ends them."""
    names = [("mon", "tue", "wed", "thu", "fri", "sat", "sun")[number] for number in sorted(out)]
    expr = f"{minute} {hours} * * *"
    raising, skipping = (cron(expr, tz=tz, gap=gap, fold="first") for gap in ("raise", "skip"))
    rules: list[Rule] = (
        [raising.not_on(weekdays(names)), skipping.not_on(weekdays(names))] if names else [raising, skipping]
    )
    start = first.replace(tzinfo=UTC)
    stop = start + timedelta(days=120)
    expected = list(between(rules[1], start, stop))
    found: list[datetime] = []
    refused = None
    try:
        for fire in between(rules[0], start, stop):
            found.append(fire)
    except MissingTime as missing:
        refused = missing.wall
        expected = [fire for fire in expected if instant_of(fire, "fire") < missing.end]
    assert found == expected
    assert refused is None or refused.weekday() not in out


def test_a_foreign_calendar_does_not_hide_whose_turn_it_is() -> None:
    """Rules with foreign parts are quoted in the error; between looks through that."""

    class Never:
        def __contains__(self, day: object) -> bool:
            return False

    rule = cron("30 2 * * *", tz=BERLIN, gap="raise").not_on(Never())
    friday = datetime(2030, 3, 29, 12, tzinfo=UTC)
    assert len(list(between(rule, friday, friday + timedelta(days=1)))) == 1
    with pytest.raises(RuleError, match="does not exist"):
        list(between(rule, friday, friday + timedelta(days=3)))
