"""The keys of a task file: what each may hold, and what comes of it. One line a key."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Any

from tickless.checks import counted
from tickless.commands.command import Command
from tickless.errors import RuleError, ScheduleError, TextError, shown
from tickless.instants import datetime_of, instant_of
from tickless.options import fields_of
from tickless.policies import Limit, Retry
from tickless.rules.zones import instants_at
from tickless.states import RunIf
from tickless.taskfile.places import near, seen
from tickless.taskfile.spans import span_of
from tickless.taskfile.values import PythonCall

_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
RETRY = tuple(one.name for one in fields(Retry) if one.init and one.name not in ("on", "give_up_on"))
"""What a table of retry may say; exceptions are no matter of a file."""
LIMIT = ("running", "starts", "per")


class Unfit(Exception):
    """A value that its key cannot have; the message says why. `key`: what of it, within."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Ground:
    """What values are seen against."""

    folder: Path
    zone: tzinfo
    pools: Mapping[str, int]
    limits: Mapping[str, object]

    @property
    def _pools(self) -> Mapping[str, object]:
        return self.pools

    @property
    def _limits(self) -> Mapping[str, object]:
        return self.limits


Read = Callable[[Ground, str, Any], Any]


def _text(ground: Ground, key: str, value: Any) -> str:
    if type(value) is not str or not value.strip():
        raise Unfit(f"needs a text, not {seen(value)}")
    return value


def _word(ground: Ground, key: str, value: Any) -> str:
    """A text that the system is given."""
    _no_nul(_text(ground, key, value))
    return str(value)


def _run(ground: Ground, key: str, value: Any) -> str | tuple[str, ...]:
    if type(value) is list:
        if not value or any(type(one) is not str for one in value) or not value[0]:
            raise Unfit(f"needs texts in its list, the program first, not {seen(value)}")
        _no_nul(*value)
        return tuple(value)
    if type(value) is not str or not value.strip():
        raise Unfit(f"needs a text for the shell, or a list of arguments, not {seen(value)}")
    _no_nul(value)
    return value


def _no_nul(*texts: str) -> None:
    if any("\0" in text for text in texts):
        raise Unfit("holds a NUL, which no command can be given")


def _python(ground: Ground, key: str, value: Any) -> str:
    if type(value) is not str or not _TARGET.fullmatch(value):
        raise Unfit(f'needs a module and a function in it, such as "shop.reports:nightly", not {seen(value)}')
    return value


def _texts(ground: Ground, key: str, value: Any) -> tuple[str, ...]:
    if type(value) is str and value:
        raise Unfit(f'needs several, so put it in a list: ["{value}"]')
    if type(value) is not list or any(type(one) is not str or not one for one in value):
        raise Unfit(f"needs texts in a list, not {seen(value)}")
    if len(set(value)) != len(value):
        raise Unfit(f"names one twice: {seen(value)}")
    return tuple(value)


def _list(ground: Ground, key: str, value: Any) -> tuple[Any, ...]:
    if type(value) is not list:
        raise Unfit(f"needs a list, not {seen(value)}")
    return tuple(value)


def _table(ground: Ground, key: str, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise Unfit(f"needs a table, not {seen(value)}")
    return value


def _env(ground: Ground, key: str, value: Any) -> tuple[tuple[str, str], ...]:
    for name, text in _table(ground, key, value).items():
        if not name or "=" in name or "\0" in name:
            raise Unfit("is no name of a variable", name)
        if type(text) is not str:
            raise Unfit(f"needs a text, not {seen(text)}; put it in quotes", name)
        _no_nul(text)
    return tuple(sorted(value.items()))  # so that equal environments are equal, in whatever order they were written


def _cwd(ground: Ground, key: str, value: Any) -> str:
    return os.path.normpath(ground.folder / os.path.expanduser(_word(ground, key, value)))


def _codes(ground: Ground, key: str, value: Any) -> tuple[int, ...]:
    if type(value) is not list or not value or any(type(one) is not int or not 0 <= one <= 255 for one in value):
        raise Unfit(f"needs exit codes from 0 to 255 in a list, such as [0, 3], not {seen(value)}")
    return tuple(value)


def _span(ground: Ground, key: str, value: Any) -> timedelta:
    """As the library's own door has it, in the words of the file."""
    span = span_of(value)
    try:
        fields_of(ground, {key: span})
    except ScheduleError:
        raise Unfit(f"needs at least 1 ms, not {seen(value)}") from None
    return span


def _not_negative(ground: Ground, key: str, value: Any) -> timedelta:
    span = span_of(value)
    if span < timedelta(0) or (type(value) is float and value < 0):  # also what is rounded to none
        raise Unfit(f"needs a length of time that is not negative, not {seen(value)}")
    return span


def _kill_after(ground: Ground, key: str, value: Any) -> int:
    return _not_negative(ground, key, value) // timedelta(microseconds=1)


def _retry(ground: Ground, key: str, value: Any) -> Retry:
    if type(value) is int:
        return _made_retry({"attempts": value})
    if type(value) is not dict:
        raise Unfit(f"needs how often it is tried, such as 3, or a table with attempts, not {seen(value)}")
    given = dict(value)
    for name in given:
        if name not in RETRY:
            raise Unfit(f"no such key{near(name, RETRY) or '; there is ' + ', '.join(RETRY)}", name)
    for name in ("delay", "max_delay", "jitter"):
        if name in given:
            try:
                given[name] = _not_negative(ground, name, given[name])
            except (RuleError, Unfit) as error:
                raise Unfit(str(error), name) from None
    if "attempts" not in given:
        raise Unfit("needs attempts, which count the first try")
    return _made_retry(given, "attempts")


def limit_of(name: str, table: Mapping[str, Any]) -> Limit:
    """The limit of `[limits.NAME]`. Raises Unfit with the key that it is about."""
    given = dict(table)
    if "per" in given:
        try:
            given["per"] = span_of(given["per"])
        except RuleError as error:
            raise Unfit(str(error), "per") from None
    try:
        return Limit(name, **given)
    except ScheduleError as error:
        match = re.match(r"(?:, (\w+)=.*?)?\): ", str(error).removeprefix(f"Limit({shown(name)}"))
        key = match.group(1) if match else None
        why = str(error).partition("): ")[2]
        raise Unfit(f"{seen(table[key])}: {why}" if key else why, key) from None


def _made_retry(given: dict[str, Any], attempts: str | None = None) -> Retry:
    """Raises Unfit with the key that it is about; `attempts`: the key of that, where it has one."""
    try:
        return Retry(**given)
    except ScheduleError as error:
        name, _, why = str(error).removeprefix("Retry(").partition("=")
        raise Unfit(why.replace("): ", ": ", 1), attempts if name == "attempts" else name) from None


def _moment(ground: Ground, key: str, value: Any) -> datetime:
    if type(value) is str:
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise Unfit(f"needs a date and a time, such as 2027-01-01T09:00, not {seen(value)}") from None
    if type(value) is date:
        value = datetime.combine(value, time())
    if type(value) is not datetime:
        raise Unfit(f"needs a date and a time, such as 2027-01-01T09:00, not {seen(value)}")
    if value.tzinfo is None:
        return datetime_of(instants_at(value, ground.zone, "next", "first")[0])
    try:
        instant_of(value, key)
    except RuleError:
        raise Unfit(f"needs a time within the years 1 to 9999 in UTC, not {seen(value)}") from None
    return value


def _whole(ground: Ground, key: str, value: Any) -> int:
    return counted(key, value)


def _priority(ground: Ground, key: str, value: Any) -> int:
    if type(value) is not int:
        raise Unfit(f"needs a whole number, not {seen(value)}")
    return value


def _run_if(ground: Ground, key: str, value: Any) -> str:
    if value not in tuple(RunIf):
        raise Unfit(f"needs one of {', '.join(RunIf)}, not {seen(value)}")
    return str(value)


def _policy(ground: Ground, key: str, value: Any) -> Any:
    """As the library's own door has it."""
    fields_of(ground, {key: value})
    return value


def _pool(ground: Ground, key: str, value: Any) -> str:
    """A name that the file gives to something: the word of the library's door is about Python."""
    known: Mapping[str, object] = ground.pools if key == "pool" else ground.limits
    if type(value) is not str:
        raise Unfit(f"needs the name of a {key}, not {seen(value)}")
    if value not in known:
        hint = near(value, known) or f"; there is {', '.join(known) or 'none'}, and [{key}s.NAME] makes one"
        raise Unfit(f'no {key} named "{value}"{hint}')
    return value


def _on_failure(ground: Ground, key: str, value: Any) -> Any:
    if type(value) is dict:
        if set(value) != {"python"}:
            raise Unfit('needs a command, or { python = "module:function" }')
        return PythonCall(_python(ground, key, value["python"]))
    return _run(ground, key, value)


WORK: dict[str, Read] = {"run": _run, "python": _python, "args": _list, "kwargs": _table}
"""What a task does."""
ELSEWHERE = {
    "command": "say run", "cmd": "say run", "script": "say run", "schedule": "say when", "cron": "say when",
    "depends_on": "say after_tasks", "needs": "say after_tasks", "after": "say after_tasks", "dir": "say cwd",
    "name": "the name is that of its table, [tasks.NAME]", "id": "the name is that of its table, [tasks.NAME]",
    "timezone": "say it at the top of the file, or at the end of when", "tz": "say timezone at the top of the file",
    "exists": "a task of a file is always brought up to date",
}  # fmt: skip
"""Keys that others have, or that stand elsewhere -> the way out."""
JOINED: dict[str, Read] = {"when": _text, "after_tasks": _texts, "description": _text}
COMMAND: dict[str, Read] = {
    "shell": _word, "env": _env, "cwd": _cwd, "stdin": lambda ground, key, value: _plain(value), "user": _word,
    "success_codes": _codes, "kill_after": _kill_after,
}  # fmt: skip
"""About a command."""
OPTIONS: dict[str, Read] = {
    "run_if": _run_if, "priority": _priority, "retry": _retry, "timeout": _span, "grace": _span,
    "jitter": _not_negative, "overlap": _policy, "max_running": _whole, "catch_up": _policy, "max_catch_up": _whole,
    "on_timeout": _policy, "pause_after_failures": _whole, "pool": _pool, "limit": _pool, "tags": _texts,
    "delivery": _policy, "start": _moment, "until": _moment, "max_runs": _whole,
}  # fmt: skip
"""The keywords of `Scheduler.schedule`, by their names."""
OTHER: dict[str, Read] = {"on_failure": _on_failure}
TASK: dict[str, Read] = {**WORK, **JOINED, **COMMAND, **OPTIONS, **OTHER}
DEFAULTS: dict[str, Read] = {**COMMAND, **OPTIONS, **OTHER}


def _plain(value: Any) -> str:
    if type(value) is not str:
        raise Unfit(f"needs a text, not {seen(value)}")
    return value


def value_of(ground: Ground, key: str, read: Read, value: Any) -> Any:
    """What comes of the value. Raises Unfit."""
    try:
        return read(ground, key, value)
    except TextError as error:
        raise Unfit(str(error)) from None
    except (RuleError, ScheduleError, OverflowError) as error:
        why = str(error).removeprefix(f"{key}=")
        raise Unfit(seen(value) + why.removeprefix(shown(value)) if why.startswith(shown(value)) else why) from None


def command_of(run: str | tuple[str, ...], said: Mapping[str, Any]) -> Command:
    """The command, with what was said of it."""
    more = {key: said[key] for key in COMMAND if key in said and key != "kill_after"}
    if "kill_after" in said:
        more["kill_after_us"] = said["kill_after"]
    return Command(run, **more)
