"""Every form of cron expression that is refused, with its message: it names the expression and the way out."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickless.errors import RuleError
from tickless.instants import Instant
from tickless.rules import cron

REFUSED = [
    # fields
    ("", "0 fields: needs five fields, minute hour day month weekday, or six with the second first"),
    ("* * * *", "4 fields: needs five fields"),
    ("0 0 1 1 * * 2027", "7 fields: a year cannot be given"),
    ("0 0 1 1 * ? *", "7 fields: a year cannot be given"),
    ("0 0 * * * /usr/bin/backup --all", "7 fields: needs five fields, minute hour day month weekday, or six"),
    ("0 0 * * * root /usr/bin/backup", "7 fields: needs five fields"),
    ("* * * * * * * *", "8 fields: needs five fields"),
    ("TZ=Europe/Berlin 0 9 * * *", "a zone is given beside the expression: cron(expr, tz='Europe/Berlin')"),
    ("CRON_TZ=UTC 0 9 * * *", "a zone is given beside the expression"),
    # macros
    ("@reboot", "a start of the machine is no time; schedule without a rule to run at the start of the program"),
    ("@every 5m", "an interval is every(minutes=5), or the text 'every 5m'"),
    ("@fortnightly", "knows @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"),
    ("@", "knows @hourly"),
    # steps
    ("*/0 * * * *", "minute '*/0': a step of 0 goes nowhere; write 1 or more, or leave it out"),
    ("*/60 * * * *", "the step is longer than the range, which has 60 values, so that only the first is left; write 0"),
    ("*/90 * * * *", "take every() for a longer interval"),
    ("0 */24 * * *", "hour '*/24': the step is longer than the range, which has 24 values"),
    ("0 0 */31 * *", "day '*/31': the step is longer than the range, which has 31 values"),
    ("0 0 * * */7", "weekday '*/7': the step is longer than the range, which has 7 values"),
    (
        "10-20/15 * * * *",
        "the step is longer than the range, which has 11 values, so that only the first is left; write 10",
    ),
    ("0/60 * * * *", "the step is longer than the range, which has 60 values"),
    ("*/x * * * *", "the step 'X' is no number; write e.g. */5"),
    ("*/ * * * *", "the step '' is no number"),
    ("*/-5 * * * *", "the step '-5' is no number"),
    ("*/2/3 * * * *", "the step '2/3' is no number"),
    ("/5 * * * *", "'' is no minute; write 0 to 59, *, 1-5, */2, or a list 1,3,5"),
    # ranges
    ("0 0 * * FRI-MON", "weekday 'FRI-MON': a range may not go backwards; write FRI,SAT,SUN,MON"),
    ("0 0 * * MON-SUN", "write MON,TUE,WED,THU,FRI,SAT,SUN"),
    ("0 0 * * 6-2", "write SAT,SUN,MON,TUE"),
    ("0 22-2 * * *", "hour '22-2': a range may not go backwards; write 22,23,0,1,2"),
    ("50-10 * * * *", "write 50-59,0-10"),
    ("0 0 * NOV-FEB *", "write NOV,DEC,JAN,FEB"),
    ("0 0 28-3 * *", "write 28,29,30,31,1,2,3"),
    ("1-2-3 * * * *", "'2-3' is no minute"),
    ("-5 * * * *", "'' is no minute"),
    ("5- * * * *", "'' is no minute"),
    ("*-5 * * * *", "'*' is no minute"),
    # values
    ("60 * * * *", "minute '60': '60' is not within 0 to 59"),
    ("60 0 0 * * *", "second '60': '60' is not within 0 to 59"),
    ("0 24 * * *", "hour '24': '24' is not within 0 to 23"),
    ("0 0 0 * *", "day '0': '0' is not within 1 to 31"),
    ("0 0 32 * *", "day '32': '32' is not within 1 to 31"),
    ("0 0 * 13 *", "month '13': '13' is not within 1 to 12"),
    ("0 0 * 0 *", "month '0': '0' is not within 1 to 12"),
    ("0 0 * * 8", "weekday '8': '8' is not within 0 to 7"),
    ("1.5 * * * *", "'1.5' is no minute"),
    ("** * * * *", "'**' is no minute"),
    ("*5 * * * *", "'*5' is no minute"),
    ("1,,2 * * * *", "minute '': there is nothing before or after a comma; leave the comma out"),
    ("1, * * * *", "leave the comma out"),
    ("0 0 * * MONDAY", "weekday 'MONDAY': names have three letters: MON"),
    ("0 0 * JUNE *", "month 'JUNE': names have three letters: JUN"),
    ("0 0 * * FOO", "'FOO' is no weekday; write 0 to 7, or SUN to SAT, *"),
    ("0 0 * MON *", "'MON' is no month; write 1 to 12, or JAN to DEC, *"),
    ("9am * * * *", "'9AM' is no minute"),
    # what other crons know
    ("0 0 15W * *", "day '15W': the nearest weekday is not known; LW is the last weekday of the month"),
    ("0 0 L-3 * *", "day 'L-3': days before the last are not known; L is the last day, LW the last weekday"),
    ("0 0 ? * 1", "day '?': means 'whatever' in Quartz; write *"),
    ("0 0 * * ?", "weekday '?': means 'whatever' in Quartz; write *"),
    ("H * * * *", "minute 'H': H is Jenkins's hash; write a number, and spread tasks with jitter="),
    ("H/15 * * * *", "'H' is no minute"),
    ("H(0-29) * * * *", "H is Jenkins's hash"),
    ("0~30 * * * *", "minute '0~30': a random value would be another one at each start"),
    ("~ * * * *", "a random value would be another one at each start"),
    ("0 0 * * L", "weekday 'L': before L stands the number of a weekday: 5L is the last Friday; 6 is Saturday"),
    ("0 0 * * FRIL", "weekday 'FRIL': the last of a weekday is written with its number: 5L"),
    ("0 0 * * 9L", "before L stands the number of a weekday"),
    ("L * * * *", "minute 'L': L belongs into the day field"),
    ("0 0 5L * *", "day '5L': L belongs into the day field, the last day, or the weekday field: 5L is the last Friday"),
    ("0 0 L/2 * *", "'L' is no day"),
    ("0 0 1-L * *", "L belongs into the day field"),
    ("0 0 * * 1#6", "weekday '1#6': a month has a weekday 1 to 5 times; 5L is the last Friday"),
    ("0 0 * * 1#0", "a month has a weekday 1 to 5 times"),
    ("0 0 * * 1#", "a month has a weekday 1 to 5 times"),
    ("0 0 * * #2", "before # stands one weekday: 5#3 is the third Friday"),
    ("0 0 * * 1-5#2", "before # stands one weekday"),
    ("0 0 5#3 * *", "day '5#3': # belongs into the weekday field"),
    # never
    ("0 0 30 2 *", "never fires: no year has such a day; look at the day, month and weekday fields"),
    ("0 0 31 4,6,9,11 *", "never fires"),
    ("0 0 */29 2 MON#5", "never fires"),
    ("0 0 */8 * MON#5", "never fires"),
    # characters
    ("0 0 * * mön", "'ö' is no character of a cron expression"),
    ("٣ * * * *", "is no character of a cron expression"),
    ("0\0 0 * * *", "is no minute"),
    ("*" * 257, "257 characters are more than 256; `a | b` joins two rules"),
]


@pytest.mark.parametrize(("expr", "words"), REFUSED, ids=[expr[:30] or "empty" for expr, _ in REFUSED])
def test_a_refused_form_says_what_to_write_instead(expr: str, words: str) -> None:
    """Most of them come from another cron, where they mean something."""
    with pytest.raises(RuleError, match=re.escape(words)) as caught:
        cron(expr)
    assert str(caught.value).startswith("cron(")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("expr", [None, 5, b"* * * * *", ["*"] * 5, True, 1.5])
def test_what_is_no_text_is_refused(expr: Any) -> None:
    """By name, before anything is asked of it."""
    with pytest.raises(RuleError, match=r"cron\(expr\): needs a string such as '30 2 \* \* \*', not "):
        cron(expr)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gap": "later"}, 'cron(gap=\'later\'): needs "next", "skip" or "raise"'),
        ({"gap": True}, "cron(gap=True): needs"),
        ({"gap": ["next"]}, "cron(gap=['next']): needs"),
        ({"fold": 1}, 'cron(fold=1): needs "first", "last" or "both"'),
        ({"tz": None}, "cron(tz=): needs a zone"),
        (
            {"tz": "Europe/Berlni"},
            "cron(tz=): 'Europe/Berlni' is no zone of the database; did you mean 'Europe/Berlin'",
        ),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], words: str) -> None:
    """None is no zone: the host's own is never taken silently."""
    with pytest.raises(RuleError, match=re.escape(words)):
        cron("* * * * *", **options)


@given(st.text(st.sampled_from("0123456789*/,-#LWHJANSUMON?~@ \t\n"), max_size=30))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    """Nothing but a RuleError, and a rule that is accepted can be asked, shown and read again."""
    try:
        rule = cron(text)
    except RuleError:
        return
    assert rule.next_after(Instant(0)) is not None
    assert cron(rule.expr) == rule
    assert str(rule)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low - 1, high + 1).map(str)
    base = st.one_of(st.just("*"), value, st.tuples(value, value).map("-".join))
    term = st.one_of(base, st.tuples(base, st.integers(0, high + 1).map(str)).map("/".join))
    odd = st.sampled_from(["L", "LW", "5L", "5#3", "1-5#2", "L/2", "MON", "JAN", "?", "*-5", "5W"])
    return st.lists(st.one_of(term, odd), min_size=1, max_size=3).map(",".join)


@given(st.tuples(field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)).map(" ".join))
def test_what_our_checks_let_through_cronsim_parses(expr: str) -> None:
    """Two grammars that differ would give a message without a hint."""
    try:
        cron(expr)
    except RuleError as error:
        assert "cronsim refuses it" not in str(error)  # noqa: PT017  # it may be refused, but with a hint
