"""The JSON form: `to_json`, `from_json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.rules.custom import OneShot, Squares
from tests.rules.written import any_rule
from tests.strategies import NOW
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, Instant
from tickless.rules import Rule, Union, after, at, cron, every, from_json, rrule, to_json, weekdays
from tickless.rules.at import at_wall
from tickless.rules.forms import MOST_DEEP, VERSION

NINE = datetime(2027, 1, 1, 9)  # noqa: DTZ001  # a wall time
CRON = {"v": 1, "kind": "cron", "expr": "30 2 * * *", "tz": "Europe/Berlin", "gap": "next", "fold": "first"}
CALENDAR = {"v": 1, "kind": "calendar", "days": 14, "on": ["mon"], "at": "09:00:00", "tz": "UTC"}


@given(any_rule())
def test_what_is_written_is_read_as_the_same_rule(rule: Rule) -> None:
    """A store that loads another rule than it has saved runs tasks at the wrong time, for ever. Bound ones, too."""
    form = json.loads(json.dumps(to_json(rule), allow_nan=False))
    twin = from_json(form)
    assert twin == rule
    assert (type(twin), hash(twin), to_json(twin)) == (type(rule), hash(rule), form)


def test_the_form_is_plain() -> None:
    """Other programs read it, and so do people at night."""
    assert to_json(cron("30 2 * * *", tz="Europe/Berlin")) == CRON
    assert to_json(every(weeks=2, on="mon", at="09:00")) == {**CALENDAR, "gap": "next", "fold": "first"}
    assert to_json(every(seconds=1)) == {"v": 1, "kind": "every", "interval_us": 1_000_000}
    assert to_json(every(seconds=1, anchor="epoch")) == {
        "v": 1,
        "kind": "every",
        "interval_us": 1_000_000,
        "anchor_us": 0,
    }
    assert to_json(after(2.5)) == {"v": 1, "kind": "after", "delay_us": 2_500_000}
    assert to_json(cron("0 9 * * *").not_on(weekdays("sat,sun"), shift="next")) == {
        "v": 1,
        "kind": "not_on",
        "rule": {"kind": "cron", "expr": "0 9 * * *", "tz": "UTC", "gap": "next", "fold": "first"},
        "weekdays": "sat,sun",
        "shift": "next",
    }


def test_a_fire_past_the_calendar_comes_back() -> None:
    """An interval that is bound near the end has a first fire that no datetime can hold."""
    rule = every(seconds=10).bound(MAX_INSTANT)
    assert from_json(to_json(rule)) == rule


def test_a_wall_time_that_its_zone_has_come_to_skip_is_read_all_the_same() -> None:
    """Governments change zones between the writing and the reading: the fire may not be lost, nor the load fail."""
    rule = at_wall(datetime(2027, 3, 28, 2, 30), "Europe/Berlin", "raise", "first")  # noqa: DTZ001  # a wall time
    assert from_json(to_json(rule)) == rule
    assert rule.due == at(datetime(2027, 3, 28, 1, tzinfo=UTC)).due


class Foreign:
    def __contains__(self, day: date) -> bool:
        return False


def deep(levels: int) -> Rule:
    rule: Any = cron("0 9 * * *")
    for _ in range(levels):
        rule = rule.not_on(weekdays("sun"))
    return rule  # type: ignore[no-any-return]  # as deep as it was made


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Squares(), "only rules of tickless have a JSON form; keep your own under a name"),
        (Union(cron("0 9 * * *"), OneShot(NOW)), "only rules of tickless have a JSON form"),
        (cron("0 9 * * *").not_on(Foreign()), "has no JSON form; give the dates themselves"),
        (deep(MOST_DEEP + 1), f"more than {MOST_DEEP} rules in one another"),
    ],
)
def test_what_cannot_be_written_says_why(rule: Rule, words: str) -> None:
    """When it is saved, not when it is loaded a year later."""
    with pytest.raises(RuleError, match=words):
        to_json(rule)


def test_as_deep_as_is_written_is_read() -> None:
    """The two bounds must be one."""
    assert from_json(to_json(deep(MOST_DEEP))) == deep(MOST_DEEP)


def without(form: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in form.items() if name != key}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (None, "needs a dict"),
        ("every 5m", "needs a dict"),
        ({}, '"v" is the version'),
        ({**CRON, "v": "1"}, '"v" is the version'),
        ({**CRON, "v": True}, '"v" is the version'),
        ({**CRON, "v": 0}, '"v" is the version'),
        ({**CRON, "v": VERSION + 1}, f"a later version of tickless wrote this, form {VERSION + 1}"),
        (without(CRON, "kind"), '"kind" is missing'),
        ({**CRON, "kind": "crone"}, "'crone' is no kind of rule; they are after, due, at"),
        ({**CRON, "kind": ["cron"]}, '"kind" needs a text'),
        (without(CRON, "expr"), '"expr" is missing'),
        ({**CRON, "expr": 5}, '"expr" needs a text, not 5'),
        ({**CRON, "expr": "0 0 30 2 *"}, "never fires"),
        ({**CRON, "tz": "Europe/Berln"}, "did you mean 'Europe/Berlin'"),
        ({**CRON, "gap": "jump"}, "jump"),
        ({**CRON, "jitter_us": 5}, "'jitter_us' is no part of this rule; a later version may know it"),
        ({"v": 1, "kind": "after", "delay_us": 1.5}, '"delay_us" needs an integer, not 1.5'),
        ({"v": 1, "kind": "after", "delay_us": True}, '"delay_us" needs an integer, not True'),
        ({"v": 1, "kind": "after", "delay_us": -1}, "cannot be negative"),
        ({"v": 1, "kind": "after", "delay_us": 10**30}, '"delay_us" is longer than the calendar'),
        ({"v": 1, "kind": "due", "due_us": 10**18}, '"due_us" is not within the years 1 to 9999'),
        ({"v": 1, "kind": "every", "interval_us": 5}, "at least 1 ms"),
        ({"v": 1, "kind": "every", "interval_us": 10**6, "anchor_us": 0, "first_us": 5}, "'first_us' is no part"),
        ({"v": 1, "kind": "every", "interval_us": 10**6, "anchor_us": 0, "sliding": True}, "no grid to anchor"),
        ({"v": 1, "kind": "every", "interval_us": 10**6, "sliding": 1}, '"sliding" needs true or false, not 1'),
        ({"v": 1, "kind": "at", "local": "2027-01-01T09:00:00Z", "tz": "UTC"}, "has an offset"),
        ({"v": 1, "kind": "at", "local": "soon", "tz": "UTC"}, '"local" needs a time such as'),
        ({**CALENDAR, "days": 15}, '"on" needs "days" in whole weeks, not 15'),
        ({**CALENDAR, "start": "2027-01-04T10:00:00"}, '"start" is not at 09:00:00'),
        (
            {**without(CALENDAR, "at"), "anchor": "2027-01-04T09:00:00", "start": "2027-01-04T09:00:00"},
            "comes from binding",
        ),
        ({**CALENDAR, "on": [5]}, "5 is no name of a weekday"),
        ({**CALENDAR, "on": []}, "names no weekday"),
        (
            {"v": 1, "kind": "rrule", "rrule": "FREQ=DAILY", "start": "2027-01-01T09:00:00", "tz": 5},
            '"tz" needs a text',
        ),
        ({"v": 1, "kind": "union", "rules": []}, "needs at least one rule"),
        ({"v": 1, "kind": "union", "rules": {}}, '"rules" needs a list'),
        ({"v": 1, "kind": "union", "rules": [5]}, "5 is no rule"),
        ({"v": 1, "kind": "union", "rules": [CRON]}, "'v' is no part of this rule"),
        ({"v": 1, "kind": "union", "rules": [{"kind": "after", "delay_us": 1}]}, 'anchor="epoch"'),
        ({"v": 1, "kind": "not_on", "rule": without(CRON, "v")}, '"dates" is missing'),
        ({"v": 1, "kind": "not_on", "rule": without(CRON, "v"), "dates": ["soon"]}, "dates such as"),
        ({"v": 1, "kind": "not_on", "rule": without(CRON, "v"), "dates": [5]}, "dates such as"),
        ({"v": 1, "kind": "not_on", "rule": without(CRON, "v"), "weekdays": "mon-sun"}, "never fires"),
        (
            {"v": 1, "kind": "not_on", "rule": without(CRON, "v"), "weekdays": "mon", "shift": "back"},
            '"shift" needs skip or next',
        ),
        (
            {"v": 1, "kind": "on_days", "rule": without(CRON, "v"), "weekdays": "mon", "shift": "next"},
            "'shift' is no part",
        ),
    ],
)
def test_what_is_no_rule_is_refused(form: Any, words: str) -> None:
    """A store may have been edited by hand, or written by the version that comes after this one."""
    with pytest.raises(RuleError) as caught:
        from_json(form)
    assert words in str(caught.value)
    assert str(caught.value).startswith("from_json(")


def test_a_form_without_end_is_refused() -> None:
    """A RecursionError would come out of the middle of a store."""
    form: dict[str, Any] = without(CRON, "v")
    for _ in range(5_000):
        form = {"kind": "union", "rules": [form]}
    with pytest.raises(RuleError, match=f"more than {MOST_DEEP} rules in one another"):
        from_json({"v": 1, **form})


def paths(form: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of the form, as (container, key)."""
    for key in list(form) if isinstance(form, dict) else range(len(form)):
        yield form, key
        if isinstance(form[key], dict | list):
            yield from paths(form[key])


@given(any_rule(), st.data())
def test_nothing_but_our_own_error_comes_out_of_a_damaged_form(rule: Rule, data: DataObject) -> None:
    """One value replaced: it is read as some rule, or refused by name."""
    form = deepcopy(to_json(rule))
    container, key = data.draw(st.sampled_from(list(paths(form))))
    junk = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just([]), st.just({})
    )
    container[key] = data.draw(junk)
    try:
        damaged = from_json(form)
    except RuleError:
        return
    assert from_json(to_json(damaged)) == damaged


def test_bound_rules_stay_bound() -> None:
    """A restart would begin the interval anew."""
    calendar = every(days=1, at="09:00", tz="Europe/Berlin").bound(NOW)
    for rule in (after(5).bound(NOW), every(minutes=5).bound(NOW), calendar, calendar.not_on(weekdays("sun"))):
        twin = from_json(to_json(rule))
        assert twin == rule
        assert twin.next_after(Instant(NOW - 1)) == rule.next_after(Instant(NOW - 1))


def test_an_rrule_comes_back() -> None:
    """With its start, which is part of it."""
    rule = rrule("FREQ=WEEKLY;COUNT=3", start=NINE, tz="Europe/Paris")
    assert from_json(to_json(rule)) == rule


def test_a_rule_that_has_no_fire_where_it_was_bound_comes_back() -> None:
    """`not_on` allows it, since other days have one; a store that refused it would not open again."""
    rule = every(weeks=1).not_on(weekdays("mon-fri")).bound(Instant(0))
    assert from_json(to_json(rule)) == rule


def test_what_is_read_can_be_shown() -> None:
    """A damaged file, or one of another zone database, was read, and broke whoever printed the rule."""
    with pytest.raises(RuleError, match=r'"first_us" is .* before the year 1'):
        from_json({"v": 1, "kind": "every", "interval_us": 90_000_000, "first_us": -(2**70)})
    form = {"v": 1, "kind": "calendar", "days": 1, "tz": "Pacific/Apia", "gap": "next", "fold": "first"}
    for start in ("2011-12-30T09:00:00", "0001-01-01T00:00:00", "9999-12-31T23:59:59"):
        rule = from_json({**form, "start": start})
        assert repr(rule).startswith("every(days=1, tz='Pacific/Apia').bound(")
        assert "every day" in str(rule)
