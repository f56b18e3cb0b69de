"""A plain crontab, unchanged, as a task file: what cron(8) and crontab(5) of Vixie and cronie make of each line.

    crontab = { blank | "#" comment | NAME "=" value | entry }
    entry   = [ "-" ] ( five fields | six fields, the second first | "@" name ) [ user ] command
    command = text for SHELL; the first "%" that is not "\\%" begins its standard input, each later one is a line end

Variables count from their line on. CRON_TZ says the zone of the times; SHELL, HOME and all others are the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tickless.commands.command import Command
from tickless.errors import RuleError
from tickless.rules import Rule
from tickless.rules.text import parse
from tickless.rules.zones import zone_of
from tickless.taskfile.values import FileError, Problem, TaskDef, TaskFile

_VARIABLE = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*?)\s*\Z""", re.DOTALL)
_FIELD = re.compile(r"[\d*,/\-]+(?:[LW#?][\d]*)?|\?|(?:mon|tue|wed|thu|fri|sat|sun|[\d,\-*/])+", re.IGNORECASE)
_NICKNAMES = ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly")
_SKIPPED = frozenset(
    "cd test [ nice ionice env sudo flock timeout chronic nohup time command exec if then bash sh dash zsh python "
    "python3 perl ruby php node run-parts true && || ; export".split()
)
"""Words that say little about what a command is for."""
_NOT_PASSED = frozenset({"CRON_TZ", "MAILTO", "MAILFROM", "RANDOM_DELAY", "START_HOURS_RANGE", "CONTENT_TYPE"})
"""Variables that are for cron itself."""
_SYSTEM = re.compile(r"/etc/(crontab|cron\.d/[^/]+)\Z")


@dataclass
class _State:
    """What the lines so far have said."""

    env: dict[str, str] = field(default_factory=dict)
    zone: str = "UTC"
    comment: list[str] = field(default_factory=list)


def read_crontab(path: Path, text: str, *, user_column: bool | None = None) -> TaskFile:
    """The crontab. Raises FileError.

    `user_column`: whether each entry names a user before its command; None: as /etc/crontab and /etc/cron.d have it,
    and where every entry has one of `root` and this machine's users there.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if user_column is None:
        user_column = bool(_SYSTEM.search(os.path.abspath(path))) or _all_name_users(lines)
    return _Reading(path, user_column).file(lines)


class _Reading:
    """One reading: collects what is wrong on its way."""

    def __init__(self, path: Path, user_column: bool) -> None:
        self._path = path
        self._user_column = user_column
        self._state = _State()
        self._problems: list[Problem] = []
        self._warnings: list[str] = []
        self._names: dict[str, int] = {}
        self._zones: list[str] = []

    def file(self, lines: list[str]) -> TaskFile:
        tasks = []
        for number, line in enumerate(lines, 1):
            place = f"line {number}"
            try:
                task = self._line(line.strip(" \t"), place)
            except (RuleError, _Wrong) as error:
                self._problems.append(Problem(place, str(error)))
                self._state.comment = []
                continue
            if task is not None:
                tasks.append(task)
        if not tasks and not self._problems:
            self._problems.append(Problem("", "has no entry"))
        if self._problems:
            raise FileError(self._path, tuple(self._problems))
        first = self._zones[0] if self._zones else "UTC"
        return TaskFile(
            self._path, "crontab", first, tasks=tuple(tasks), parts=tuple(tasks), warnings=tuple(self._warnings)
        )

    def _line(self, line: str, place: str) -> TaskDef | None:
        state = self._state
        if not line:
            state.comment = []
            return None
        if line.startswith("#"):
            state.comment.append(line.lstrip("#").strip())
            return None
        variable = None if line[0] in "@-*0123456789" else _VARIABLE.match(line)
        if variable is not None:
            self._variable(next(one for one in variable.groups()[:3] if one is not None), variable.group(4))
            state.comment = []
            return None
        task = self._entry(line, place)
        state.comment = []
        return task

    def _variable(self, name: str, value: str) -> None:
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if name == "CRON_TZ":
            zone_of(value, "CRON_TZ")
            self._state.zone = value
        elif name in ("MAILTO", "MAILFROM") and value:
            self._warn(f"{name}={value}: no mail is sent; outputs are kept, and on_failure can send one")
        elif name in ("RANDOM_DELAY", "START_HOURS_RANGE"):
            self._warn(f"{name}={value}: is not followed; jitter is the like of it")
        if name not in _NOT_PASSED:
            self._state.env[name] = value

    def _warn(self, line: str) -> None:
        if line not in self._warnings:
            self._warnings.append(line)

    def _entry(self, line: str, place: str) -> TaskDef:
        when_text, rest = _when(line.removeprefix("-").lstrip() if line.startswith("-") else line)
        user = None
        if self._user_column:
            user, _, rest = rest.partition(" ") if " " in rest.expandtabs(1) else (rest, "", "")
            rest = rest.lstrip(" \t")
        if not rest:
            raise _Wrong("has a time, and no command behind it")
        run, stdin = _split(rest)
        if not run.strip():
            raise _Wrong("has a time, and no command behind it")
        state = self._state
        self._zones.append(state.zone)
        rule: Rule | None = None if when_text is None else parse(when_text, tz=state.zone)
        env = dict(state.env)
        shell = env.get("SHELL", "/bin/sh")
        home = env.get("HOME") or (os.path.expanduser("~") if user is None else os.path.expanduser(f"~{user}"))
        command = Command(
            run,
            shell=shell or "/bin/sh",
            env=tuple(env.items()),
            cwd=home if os.path.isabs(home) else None,
            stdin=stdin,
            user=user,
        )
        description = " ".join(part for part in state.comment if part) or None
        return TaskDef(self._name(run), command, rule, when_text, description=description, place=place)

    def _name(self, run: str) -> str:
        base = name_of(run)
        count = self._names[base] = self._names.get(base, 0) + 1
        return base if count == 1 else f"{base}-{count}"


class _Wrong(Exception):
    """What is wrong with a line."""


def _when(line: str) -> tuple[str | None, str]:
    """The time of an entry as a rule's text (None: at the start), and what follows."""
    if line.startswith("@"):
        name, rest = _word(line)
        word = name[1:].lower()
        if word == "reboot":
            return None, rest
        if word not in _NICKNAMES:
            from difflib import get_close_matches

            near = get_close_matches(word, (*_NICKNAMES, "reboot"), n=1)
            raise _Wrong(f"there is no {name}" + (f" (did you mean @{near[0]}?)" if near else ""))
        return f"@{word}", rest
    fields, rest = [], line
    for _ in range(5):
        word, rest = _word(rest)
        if not word:
            raise _Wrong(f"{line!r}: needs five fields and a command, or NAME=value")
        fields.append(word)
    sixth, after = _word(rest)
    if sixth and after and _FIELD.fullmatch(sixth):
        fields, rest = [*fields, sixth], after
    return " ".join(fields), rest


def _word(text: str) -> tuple[str, str]:
    parts = text.split(None, 1)
    return (parts[0] if parts else ""), (parts[1] if len(parts) > 1 else "")


def _split(text: str) -> tuple[str, str | None]:
    """The command, and what it reads: `%` as cron has it."""
    pieces = re.split(r"(?<!\\)%", text)
    pieces = [piece.replace("\\%", "%") for piece in pieces]
    return pieces[0].rstrip(), ("\n".join(pieces[1:]) + "\n" if len(pieces) > 1 else None)


def name_of(run: str) -> str:
    """A name for a command: the last part of the first word that says something, in small letters."""
    for word in re.split(r"[\s;&|()<>]+", run):
        bare = word.strip("\"'`{}$")
        if not bare or "=" in bare or bare.startswith("-") or bare in _SKIPPED or bare.isdigit():
            continue
        last = bare.rstrip("/").rpartition("/")[2]
        if last in _SKIPPED or (bare.startswith("/") and f"cd {word}" in run):
            continue
        stem = re.sub(r"\.(sh|bash|py|pl|rb|php|js)\Z", "", last)
        name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
        if name:
            return name
    return "task"


def _all_name_users(lines: list[str]) -> bool:
    """Whether every entry has, where its command would begin, the name of a user, and more behind that."""
    users = _users()
    found = False
    for word, rest in _commands(lines):
        if word not in users or not rest:
            return False
        found = True
    return found


def _commands(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        text = line.strip().removeprefix("-")
        if not text or text[0] not in "@*0123456789":
            continue
        try:
            yield _word(_when(text)[1])
        except _Wrong:
            continue


def _users() -> frozenset[str]:
    try:
        import pwd

        return frozenset({"root", *(entry.pw_name for entry in pwd.getpwall())})
    except ImportError:
        return frozenset({"root"})
