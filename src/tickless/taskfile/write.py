"""A task file as text: what `read` gives of it again. For `tickless import`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tickless.commands.command import DEFAULT_KILL_AFTER_US, Command
from tickless.instants import SECOND_US
from tickless.taskfile.machine import home_of
from tickless.taskfile.values import TaskDef, TaskFile

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def to_toml(file: TaskFile) -> str:
    """A crontab as a task file. What all its commands have in common is said once, under [defaults].

    Policies are not written: a crontab has none.
    """
    commands = [task.work for task in file.tasks if isinstance(task.work, Command)]
    common = _common(commands)
    lines = [f"# From {_one_line(file.path.name)}."]
    lines += [f"# {_one_line(warning)}" for warning in file.warnings]
    lines += ["", f"timezone = {text(file.timezone)}"]
    if common:
        lines += ["", "[defaults]", *_pairs(common)]
    for task in file.tasks:
        lines += ["", *_task(task, common)]
    return "\n".join(lines) + "\n"


def _common(commands: Iterable[Command]) -> dict[str, Any]:
    """What every command has."""
    facts = [_facts(command) for command in commands]
    if len(facts) < 2:
        return {}
    common = {
        key: value
        for key, value in facts[0].items()
        if key not in ("stdin", "env") and all(other.get(key) == value for other in facts)
    }
    env = Counter(pair for fact in facts for pair in fact.get("env", {}).items())
    shared = {name: value for (name, value), count in env.items() if count == len(facts)}
    if shared:
        common["env"] = shared
    return common


def _facts(command: Command) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if command.shell != "/bin/sh":
        facts["shell"] = command.shell
    if command.env:
        facts["env"] = dict(command.env)
    for key in ("cwd", "stdin", "user"):
        value = getattr(command, key)
        if value is not None:
            facts[key] = value
    if command.user is None and command.cwd is not None and command.cwd == home_of(None):
        facts["cwd"] = "~"  # of whoever runs the file, on whatever machine
    if command.success_codes != (0,):
        facts["success_codes"] = list(command.success_codes)
    if command.kill_after_us != DEFAULT_KILL_AFTER_US:
        facts["kill_after"] = command.kill_after_us / SECOND_US
    return facts


def _task(task: TaskDef, common: Mapping[str, Any]) -> list[str]:
    command = task.work
    assert isinstance(command, Command), "a crontab has commands only"
    lines = [f"[tasks.{key(task.name)}]"]
    if task.description:
        lines.append(f"description = {text(task.description)}")
    lines.append(f"run = {text(command.run)}" if isinstance(command.run, str) else f"run = {value(command.run)}")
    if task.when_text is not None:
        lines.append(f"when = {text(task.when_text)}")
    own = _facts(command)
    if "env" in own:
        shared = common.get("env", {})
        own["env"] = {name: said for name, said in own["env"].items() if shared.get(name) != said}
    return [*lines, *_pairs({name: said for name, said in own.items() if said != {} and common.get(name) != said})]


def _pairs(table: Mapping[str, Any]) -> list[str]:
    return [f"{key(name)} = {value(said)}" for name, said in table.items()]


def key(name: str) -> str:
    """As it stands before a `=`."""
    return name if _BARE.fullmatch(name) else text(name)


def value(said: Any) -> str:
    """A text, number, list or table on one line."""
    if type(said) is bool:
        return str(said).lower()
    if type(said) is str:
        return text(said)
    if type(said) is dict:
        return "{ " + ", ".join(f"{key(name)} = {value(one)}" for name, one in said.items()) + " }"
    if type(said) in (list, tuple):
        return "[" + ", ".join(map(value, said)) + "]"
    return repr(said)


def text(said: str) -> str:
    """A basic string: what TOML does not take as it is, is escaped."""
    return '"' + "".join(map(_letter, said)) + '"'


def _letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    number = ord(letter)
    if number < 0x20 or number == 0x7F:
        return f"\\u{number:04x}"
    if 0xD800 <= number <= 0xDFFF:  # a byte that was no UTF-8: TOML has no form for it
        return "\\ufffd"
    return letter


def _one_line(line: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in line)
