"""Rules that earlier versions have pickled and written as JSON: each must be read by every later version.

`tests/data/rules.jsonl` only grows. A new kind of rule gets a line in EXPRESSIONS; then

    python tests/rules/test_fixtures.py

appends what is missing, as the version that is installed writes it. Lines that are there are never changed: they lie in
the stores of users. Should a form change, these lines show what still has to be read.
"""

from __future__ import annotations

import base64
import datetime
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import tickless.rules
from tickless import __version__
from tickless.instants import Instant
from tickless.rules import Rule, checked_next, from_json, to_json
from tickless.rules.forms import KINDS

FILE = Path(__file__).resolve().parents[1] / "data" / "rules.jsonl"
ASKED = Instant(1_790_000_000_000_000)
FIRES = 3

EXPRESSIONS = """\
after(2.5)
after(0.1).bound(1790000000000000)
at(datetime.datetime(2027, 1, 1, 8, 0, tzinfo=datetime.timezone.utc))
at(datetime.datetime(2027, 1, 1, 9, 0), tz='Europe/Paris')
at(datetime.datetime(2027, 10, 31, 2, 30), tz='Europe/Berlin', fold='last')
at(datetime.datetime(2027, 3, 28, 2, 30), tz='Europe/Berlin', gap='next')
every(seconds=90)
every(seconds=90).bound(1790000000000001)
every(seconds=0.25, sliding=True)
every(seconds=0.25, sliding=True).bound(1790000000000000)
every(hours=6, anchor='epoch')
every(hours=6, anchor=datetime.datetime(2027, 1, 1, 9, 30, tzinfo=datetime.timezone.utc))
every(days=1)
every(days=1).bound(1790000000000000)
every(days=3, at='09:00', tz='Europe/Berlin').bound(1790000000000000)
every(weeks=2, on='mon,thu', at='09:00', tz='Europe/Paris')
every(weeks=2, on='mon,thu', at='09:00', tz='Europe/Paris', anchor=datetime.date(2026, 1, 5))
every(months=1, at='02:30:15.5', anchor=datetime.date(2026, 1, 31), tz='America/St_Johns', gap='skip', fold='both')
every(years=4, anchor=datetime.datetime(2024, 2, 29, 12, 0))
cron('30 2 * * *')
cron('30 2 * * *', tz='Europe/Berlin')
cron('*/15 9-17 * * MON-FRI', tz='+05:30')
cron('0 0 12 LW JAN-MAR 5L', tz='Pacific/Apia', gap='next', fold='last')
cron('@daily', tz='America/Havana', gap='skip')
rrule('FREQ=MONTHLY;BYDAY=-1FR', start=datetime.datetime(2026, 1, 30, 9, 0), tz='Europe/Berlin')
rrule('FREQ=DAILY;COUNT=5', start=datetime.datetime(2027, 3, 26, 2, 30), tz='Europe/Berlin', gap='next', fold='last')
cron('0 9 * * *', tz='Europe/Paris') | every(hours=12, anchor='epoch')
cron('0 9 * * *').on_days(weekdays('mon-wed,fri'))
cron('0 9 * * *', tz='Asia/Tokyo').not_on({datetime.date(2026, 12, 25), datetime.date(2027, 1, 1)}, shift='next')
every(days=2, at='09:00').not_on(weekdays('sun')).bound(1790000000000000)
(cron('0 9 * * *') | cron('0 17 * * *', tz='Europe/Paris')).not_on(weekdays('sat,sun'))
Window(every(seconds=90), 1790000000000000, 1790000500000000)
Window(cron('0 9 * * *', tz='Europe/Paris'), None, 1790900000000000).bound(1790000000000000)
""".splitlines()


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()] if FILE.exists() else []


def made(expression: str) -> Rule:
    rule: Rule = eval(expression, {**vars(tickless.rules), "datetime": datetime})
    return rule


def fires(rule: Rule) -> list[int]:
    found: list[int] = []
    bound, after = rule.bound(ASKED), Instant(ASKED - 1)
    while len(found) < FIRES and (fire := checked_next(bound, after)) is not None:
        found.append(fire)
        after = fire
    return found


fixtures = pytest.mark.parametrize("line", lines(), ids=lambda line: line["python"])


@fixtures
def test_what_a_version_has_pickled_is_read(line: dict[str, Any]) -> None:
    """Rules wait in the queues and caches of users while we are upgraded."""
    rule = pickle.loads(base64.b64decode(line["pickle"]))
    assert rule == made(line["python"])
    assert fires(rule) == line["fires_us"]


@fixtures
def test_what_a_version_has_written_is_read(line: dict[str, Any]) -> None:
    """A store of last year opens, and its tasks run when they always did."""
    rule = from_json(line["json"])
    assert rule == made(line["python"])
    assert fires(rule) == line["fires_us"]


def test_every_expression_has_its_line() -> None:
    """Else a kind of rule could change its form and nobody would see it."""
    assert set(EXPRESSIONS) <= {line["python"] for line in lines()}
    kinds = {type(made(expression)) for expression in EXPRESSIONS}
    assert kinds == set(KINDS)


def test_the_form_of_today_is_among_them() -> None:
    """A form that changes without a new version would be written by us and read by no older one."""
    newest = {line["python"]: line["json"] for line in lines()}
    assert {python: to_json(made(python)) for python in EXPRESSIONS} == {p: newest[p] for p in EXPRESSIONS}


def append() -> None:
    """Adds the lines that are missing; the others stay as they are."""
    there = {line["python"] for line in lines()}
    with FILE.open("a", encoding="utf-8") as file:
        for python in EXPRESSIONS:
            if python not in there:
                rule = made(python)
                line = {
                    "python": python,
                    "version": __version__,
                    "json": to_json(rule),
                    "pickle": base64.b64encode(pickle.dumps(rule, protocol=4)).decode("ascii"),
                    "fires_us": fires(rule),
                }
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    append()
