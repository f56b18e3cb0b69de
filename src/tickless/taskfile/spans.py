"""Lengths of time as they are written in files and on the command line."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tickless.errors import RuleError, TextError
from tickless.instants import span_us
from tickless.rules import After
from tickless.rules.text import parse
from tickless.taskfile.places import seen

_LEAD = "after "


def span_of(value: object) -> timedelta:
    """`90` is seconds; `90s`, `1h30m`, `2 days` are read as rules read them. Raises RuleError."""
    if type(value) in (int, float):
        return timedelta(microseconds=_number_us(value))
    if type(value) is not str:
        raise RuleError(f"{seen(value)}: needs a length of time: seconds, or a text such as '90s', '1h30m'")
    try:
        rule = parse(_LEAD + value)
    except TextError as error:
        why = error.why.replace("after needs", "needs")
        raise TextError(why, value, max(1, error.position - len(_LEAD))) from None
    if not isinstance(rule, After):
        raise RuleError(f"{seen(value)}: needs a length of time and no more, such as '90s', '1h30m'")
    return timedelta(microseconds=rule.delay_us)


def _number_us(value: Any) -> int:
    try:
        return span_us(value, "")
    except RuleError as error:
        raise RuleError(str(error).removeprefix(": ")) from None
