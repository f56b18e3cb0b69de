"""Whether options go together, and with their rule: asked of the library's own doors, told in the words of the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tickless.core.record import More
from tickless.errors import RuleError, ScheduleError, shown
from tickless.limits import limited
from tickless.options import POLICY_DEFAULTS, Owner, policy_of
from tickless.rules import Rule
from tickless.taskfile.values import Problem

_LIMITS = ("start", "until", "max_runs", "jitter")
_ONCE = "is about a task that recurs, and without when it runs once, at the start; give it a when, or leave this out"


class Clash(Exception):
    """Options that do not go together. `keys`: those that the message is of; `named`: all that it speaks of."""

    def __init__(self, message: str, keys: tuple[str, ...], named: tuple[str, ...]) -> None:
        super().__init__(message)
        self.keys = keys
        self.named = named

    def problem(self, place: str) -> Problem:
        """One key is a place of its own; several are named in the message."""
        if len(self.keys) == 1:
            return Problem(f"{place}.{self.keys[0]}", str(self))
        return Problem(place, f"{', '.join(self.keys)}: {self}" if self.keys else str(self))


def fitting(
    owner: Owner, options: Mapping[str, Any], when: Rule | None, own: Collection[str], text: str | None = None
) -> dict[str, Any]:
    """The options without those of all tasks that do not fit this one, or say no more than the library would take.

    Raises Clash where its own do not fit.
    `own`: the keys that were said of this very task. `text`: how its `when` was written.
    """
    left = {key: value for key, value in options.items() if key in own or not _says_nothing(key, value)}
    while True:
        try:
            _ask(owner, left, when, text)
        except Clash as clash:
            misfit = next((key for key in clash.named if key not in own), None)
            if misfit is None:
                raise
            del left[misfit]
        else:
            return left


def _says_nothing(key: str, value: object) -> bool:
    return key in POLICY_DEFAULTS and value == POLICY_DEFAULTS[key]


def _ask(owner: Owner, options: Mapping[str, Any], when: Rule | None, text: str | None) -> None:
    """As `schedule` does. Raises Clash."""
    limits = {key: options.get(key) for key in _LIMITS}
    policies = {key: value for key, value in options.items() if key in POLICY_DEFAULTS}
    rule, recurring = when, when is not None and when.recurring
    jitter_us = 0
    try:
        if any(value is not None for value in limits.values()):
            rule, _, jitter_us = limited(when, **limits, more=More())
        policy_of(owner, rule, recurring, policies, jitter_us)
    except (RuleError, ScheduleError) as error:
        said = str(error) if when is None or text is None else str(error).replace(shown(when), shown(text))
        raise _clash(said, options, when) from None


def _clash(message: str, options: Mapping[str, Any], when: Rule | None) -> Clash:
    """The library says `key=value, other=value: why`."""
    lead, _, why = message.partition(": ")
    keys = tuple(_keys(lead, options))
    named = tuple(dict.fromkeys([*keys, *_keys(why, options)]))
    if when is None and ("fires once" in why or "there is none; give when=" in why):
        why = _ONCE
    return Clash(why, keys or named, named)


def _keys(text: str, options: Mapping[str, Any]) -> Iterator[str]:
    return (key for key in re.findall(r"(?<![\w.])(\w+)=", text) if key in options)
