"""The text form: `parse`, `text_of`."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.custom import Squares
from tests.rules.written import texts
from tests.strategies import NOW
from tickless.errors import RuleError, TextError
from tickless.rules import (
    Rule,
    Union,
    after,
    at,
    cron,
    every,
    parse,
    rrule,
    text_of,
    weekdays,
)

NINE = datetime(2027, 1, 1, 9)  # noqa: DTZ001  # a wall time


@given(texts())
def test_what_is_written_is_read_as_the_same_rule(rule: Rule) -> None:
    """A file of tasks that is loaded and saved again may not move a single fire."""
    text = text_of(rule)
    assert parse(text) == rule, text
    assert text_of(parse(text)) == text


@given(texts(), st.sampled_from(["Asia/Tokyo", "America/New_York"]))
def test_what_is_written_names_its_zone(rule: Rule, elsewhere: str) -> None:
    """Else the same line would mean another time under another default zone."""
    assert parse(text_of(rule), tz=elsewhere) == rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("every 5m", every(minutes=5)),
        ("every 1h30m", every(minutes=90)),
        ("every 1 hour 30 minutes", every(minutes=90)),
        ("every hour", every(hours=1)),
        ("every 1.5s", every(seconds=1.5)),
        ("every 250ms", every(seconds=0.25)),
        ("every 1500us", every(timedelta(microseconds=1500))),
        ("Every 5 Min Sliding", every(minutes=5, sliding=True)),
        ("every 5m from epoch", every(minutes=5, anchor="epoch")),
        ("every 6h from 2027-01-01T09:00Z", every(hours=6, anchor=NINE.replace(tzinfo=UTC))),
        (
            "every 6h from 2027-01-01 09:00 Europe/Paris",
            every(hours=6, anchor=NINE.replace(tzinfo=ZoneInfo("Europe/Paris"))),
        ),
        ("every day", every(days=1)),
        ("every day at 9:00", every(days=1, at="09:00")),
        ("every 1w 2d", every(weeks=1, days=2)),
        ("every year from 2028-02-29 at 09:00:30", every(years=1, anchor=date(2028, 2, 29), at="09:00:30")),
        ("every month from 2027-01-31T09:00 +05:30", every(months=1, anchor=datetime(2027, 1, 31, 9), tz="+05:30")),  # noqa: DTZ001
        ("every 2 weeks on mon at 09:00 Europe/Paris", every(weeks=2, on="mon", at="09:00", tz="Europe/Paris")),
        ("every mon,Thursday at 09:00", every(weeks=1, on="mon,thu", at="09:00")),
        (
            "every mon-fri at 17:30 gap=skip fold=both",
            every(weeks=1, on="mon-fri", at="17:30", gap="skip", fold="both"),
        ),
        ("30 2 * * *", cron("30 2 * * *")),
        ("30 2 * * mon Europe/Berlin", cron("30 2 * * mon", tz="Europe/Berlin")),
        ("0 30 2 * * mon", cron("0 30 2 * * mon")),
        ("0 30 2 * * mon UTC gap=skip", cron("0 30 2 * * mon", gap="skip")),
        ("0 0 1 jan * -03:00", cron("0 0 1 jan *", tz="-03:00")),
        ("@daily Europe/Berlin fold=last", cron("@daily", tz="Europe/Berlin", fold="last")),
        ("at 2027-01-01T09:00+01:00", at(datetime(2027, 1, 1, 8, tzinfo=UTC))),
        ("at 2027-01-01 09:00:30.5Z", at(datetime(2027, 1, 1, 9, 0, 30, 500_000, tzinfo=UTC))),
        ("at 2027-01-01T09:00 Europe/Paris", at(NINE, tz="Europe/Paris")),
        (
            "at 2027-03-28T02:30 Europe/Berlin gap=next",
            at(NINE.replace(month=3, day=28, hour=2, minute=30), tz="Europe/Berlin", gap="next"),
        ),
        ("in 5m", after(300)),
        ("after 0s", after(0)),
        ("after 1d 2h", after(timedelta(hours=26))),
        ("rrule FREQ=DAILY from 2027-01-01T09:00 Europe/Paris", rrule("FREQ=DAILY", start=NINE, tz="Europe/Paris")),
        ("every 5m from epoch | 30 2 * * *", every(minutes=5, anchor="epoch") | cron("30 2 * * *")),
        ("30 2 * * * UTC only on mon-fri", cron("30 2 * * *").on_days(weekdays("mon-fri"))),
        (
            "30 2 * * * not on 2027-12-25,2027-12-26 shift=next",
            cron("30 2 * * *").not_on({date(2027, 12, 25), date(2027, 12, 26)}, shift="next"),
        ),
    ],
)
def test_the_grammar_by_examples(text: str, rule: Rule) -> None:
    """Each form of docs/time.md, and the spellings that people use."""
    assert parse(text) == rule
    assert parse(f"  {text}\n") == rule


def test_the_default_zone_is_for_what_names_none() -> None:
    """`--tz` must not change a rule that says where it belongs."""
    assert parse("30 2 * * *", tz="Europe/Paris") == cron("30 2 * * *", tz="Europe/Paris")
    assert parse("30 2 * * * UTC", tz="Europe/Paris") == cron("30 2 * * *")
    assert parse("every day at 09:00", tz="Europe/Paris") == every(days=1, at="09:00", tz="Europe/Paris")
    assert parse("at 2027-01-01T09:00", tz="Europe/Paris") == at(NINE, tz="Europe/Paris")
    assert parse("at 2027-01-01T09:00Z", tz="Europe/Paris") == at(NINE.replace(tzinfo=UTC))
    assert parse("rrule FREQ=DAILY from 2027-01-01T09:00", tz="Europe/Paris") == rrule(
        "FREQ=DAILY", start=NINE, tz="Europe/Paris"
    )
    assert parse("every 6h from 2027-01-01T09:00", tz="+01:00") == parse("every 6h from 2027-01-01T08:00Z")


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 1, "is empty"),
        ("evry 5m", 1, "did you mean 'every'?"),
        ("5m", 1, "did you mean 'every 5m' or 'after 5m'?"),
        ("09:00", 1, "did you mean 'every day at 09:00'?"),
        ("2027-01-01T09:00Z", 1, "did you mean 'at 2027-01-01T09:00Z'?"),
        ("daily", 1, "did you mean 'every day'?"),
        ("FREQ=DAILY", 1, "did you mean 'rrule FREQ="),
        ("TZ=Europe/Paris 30 2 * * *", 1, "a zone comes at the end"),
        ("every", 6, "every what?"),
        ("every 5", 7, "5 of what? write a unit, e.g. 5s, 5m"),
        ("every 5x", 8, "'x' is no unit of time"),
        ("every 1mo", 8, "did you mean 'month'?"),
        ("every 2 mos", 9, "did you mean 'month'?"),
        ("every 5 minuts", 9, "did you mean 'minutes'?"),
        ("every m", 7, "every what?"),
        ("every fortnight", 7, "did you mean '2 weeks'?"),
        ("every weekday", 7, "did you mean 'mon-fri'?"),
        ("every 0s", 1, "at least 1 ms"),
        ("every 0 days", 1, "at least 1"),
        ("every 0.0000001s", 7, "not a whole number of microseconds"),
        ("every 1d12h", 9, "days and hours cannot be added up"),
        ("every 1.5 days", 7, "counted in whole days"),
        ("every 1d 2d", 10, "given twice"),
        ("every 1 month 1 day", 1, "days and months cannot be added up"),
        ("every 5m at 09:00", 10, "'at' belongs to days"),
        ("every 5m from 2027-01-01", 15, "has no time; write e.g. 2027-01-01T09:00Z"),
        ("every 5m from 2027-01-01T09:00", 15, "neither an offset nor a zone"),
        ("every 5m from 2027-03-28T02:30 Europe/Berlin", 15, "does not exist in Europe/Berlin"),
        ("every 5m from tomorrow", 15, "not 'tomorrow'"),
        ("every 5m sliding from epoch", 18, "'from' comes too late here"),
        ("every 5m gap=skip", 10, "has no wall time"),
        ("every day at 9", 14, "here comes a time of day, e.g. 09:00, not '9'"),
        ("every day at noon", 14, "did you mean '12:00'?"),
        ("every day at 25:00", 14, "25:00 is no time of day"),
        ("every day at 9:00am", 18, "'am' is no part of a time of day"),
        ("every day att 09:00", 11, "did you mean 'at'?"),
        ("every day at 09:00 at 10:00", 20, "'at' is given twice"),
        ("every day sliding", 11, "only clock units can be sliding"),
        ("every day on mon", 1, "weekdays need weeks="),
        ("every day at 09:00 Europe/Berln", 20, "did you mean 'Europe/Berlin'"),
        ("every day at 09:00 UTC on mon", 24, "'on' comes too late here"),
        ("every 2 weeks on mon,thursdy", 22, "did you mean 'thursday'?"),
        ("every 2 weeks on mon, thu", 22, "without spaces: mon,thu"),
        ("every 2 weeks on", 17, "here come days of the week"),
        ("every day gap=jump", 15, "gap= is one of next, skip, raise, not 'jump'"),
        ("every day gab=skip", 11, "did you mean 'gap'?"),
        ("every day gap=skip gap=next", 20, "gap= is given twice"),
        ("at 09:00", 4, "'every day at 09:00'"),
        ("at 2027-01-01", 4, "has no time; write e.g. 2027-01-01T09:00"),
        ("at 2027-01-01T09:00", 4, "neither an offset nor a zone"),
        ("at 2027-02-30T09:00Z", 4, "2027-02-30 is no date"),
        ("at 2027-01-01T09:00+25:00", 20, "is no offset from UTC"),
        ("at 2027-01-01T09:00Europe/Berlin", 20, "write a space before it"),
        ("at 2027-01-01T09:00Z UTC", 4, "both an offset and a zone"),
        ("at 2027-03-28T02:30 Europe/Berlin", 1, "gap="),
        ("at 2027-01-01T09:00Z gap=skip", 1, "the datetime is aware"),
        ("in", 3, "here comes a length of time"),
        ("in 2 months", 4, "months differ in length"),
        ("in 5m Europe/Berlin", 7, "here the rule is complete, not 'Europe/Berlin'"),
        ("after 99999999999999 weeks", 1, "longer than the calendar"),
        ("rrule", 6, "here come the parts of an RRULE"),
        ("rrule FREQ=DAILY", 17, "an RRULE counts from a start"),
        ("rrule FREQ=DAILY from 2027-01-01", 23, "has no time"),
        ("rrule FREQ=DAYLY from 2027-01-01T09:00", 1, "DAYLY"),
        ("30 2 * *", 1, "4 fields"),
        ("30 2 * * Europe/Berlin", 1, "4 fields"),
        ("30 2 * * moon", 10, "did you mean 'mon'?"),
        ("30 25 * * *", 4, "hour '25'"),
        ("0 0 30 2 *", 1, "never fires"),
        ("30 2 * * * Europe/Berln", 12, "did you mean 'Europe/Berlin'"),
        ("30 2 * * * * * *", 1, "8 fields"),
        ("@dayly", 1, "did you mean '@daily'?"),
        ("@every 5m", 1, "'every 5m'"),
        ("30 2 * * * not mon", 16, "here comes 'on'"),
        ("30 2 * * * not on mon gap=next", 23, "shift=next"),
        ("30 2 * * * only on mon shift=next", 24, "does not belong to this rule"),
        ("30 2 * * * not on 2027-13-01", 19, "is no date"),
        ("every 5m not on mon", 1, 'anchor="epoch"'),
        ("every 5m |", 11, "here a rule is missing"),
        ("every 5m from epoch | evry 5m", 23, "did you mean 'every'?"),
        ("every 5m | 30 2 * * *", 1, 'anchor="epoch"'),
        ("9" * 2001, 1, "2001 characters long"),
    ],
)
def test_what_is_refused_is_told_with_its_place_and_a_way_out(text: str, position: int, words: str) -> None:
    """A line in a file of fifty tasks: where is the fault, and what should it have been?"""
    with pytest.raises(TextError) as caught:
        parse(text)
    assert words in caught.value.why
    assert (caught.value.text, caught.value.position) == (text, position)
    assert f"position {position}: {caught.value.why}" in str(caught.value)


@pytest.mark.parametrize("text", [None, b"every 5m", 5, ["every 5m"]])
def test_what_is_no_text_is_refused(text: Any) -> None:
    """A number out of a YAML file, say."""
    with pytest.raises(RuleError, match="needs a text"):
        parse(text)


def test_the_error_can_be_pickled() -> None:
    """It crosses to another process as any of ours does."""
    with pytest.raises(TextError) as caught:
        parse("evry 5m")
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (str(twin), twin.position, twin.text) == (str(caught.value), 1, "evry 5m")


def parsed(text: str) -> Rule | None:
    """The rule, or None where the text is refused as it should be."""
    try:
        return parse(text)
    except TextError as error:
        inside = 1 <= error.position <= len(text) + 1
    assert inside
    return None


@given(st.text(max_size=40))
def test_nothing_but_our_own_error_comes_out_of_any_text(text: str) -> None:
    """The text is typed by a person, or comes over a wire."""
    rule = parsed(text)
    assert rule is None or parse(text_of(rule)) == rule


WORDS = st.sampled_from(
    "every after in at rrule 5m 1h 5 2 weeks day mon,thu mon-fri on from epoch sliding 09:00 2027-01-01 not only * 0 "
    "2027-01-01T09:00 2027-03-28T02:30 2027-01-01T09:00Z UTC Europe/Berlin +01:00 gap=skip fold=both shift=next */5 30 "
    "L 5#3 @daily | FREQ=DAILY , = months".split()
)


@given(st.lists(WORDS, max_size=9).map(" ".join))
def test_nothing_but_our_own_error_comes_out_of_words_of_the_grammar(text: str) -> None:
    """Nearly right is what comes in most; and whatever is accepted can be written again."""
    rule = parsed(text)
    assert rule is None or parse(text_of(rule)) == rule


class Foreign:
    def __contains__(self, day: date) -> bool:
        return False


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (every(minutes=5).bound(NOW), "is bound to a start"),
        (every(minutes=5, sliding=True).bound(NOW), "is bound to a start"),
        (every(days=1).bound(NOW), "is bound to a start"),
        (after(5).bound(NOW), "is bound to an instant of elapsed time"),
        (cron("0 9 * * *").not_on(Foreign()), "days that no text names"),
        (cron("0 9 * * *").not_on(set()), "days that no text names"),
        (Union(cron("0 9 * * *")), "a union of one rule"),
        (Squares(), "has no text form"),
        (cron("0 9 * * *").not_on({date(2027, 1, 1) + timedelta(days) for days in range(200)}), "more than the 2000"),
    ],
)
def test_what_has_no_text_says_why(rule: Rule, words: str) -> None:
    """And names `to_json`, which takes nearly all."""
    with pytest.raises(RuleError, match=words) as caught:
        text_of(rule)
    assert "to_json" in str(caught.value)


def test_what_is_written_is_short() -> None:
    """People read these in files and on screens."""
    assert text_of(every(minutes=90)) == "every 1h30m"
    assert (
        text_of(every(weeks=2, on="mon", at=time(9), tz="Europe/Paris")) == "every 2 weeks on mon at 09:00 Europe/Paris"
    )
    assert text_of(cron("30 2 * * *")) == "30 2 * * * UTC"
    assert text_of(cron("*/5 * * * *", tz="Asia/Tokyo", gap="next")) == "*/5 * * * * Asia/Tokyo gap=next"
    assert text_of(at(NINE.replace(tzinfo=UTC))) == "at 2027-01-01T09:00Z"
    assert text_of(after(0)) == "after 0s"
    assert text_of(every(years=1, anchor=date(2028, 2, 29))) == "every year at 00:00 from 2028-02-29 UTC"
