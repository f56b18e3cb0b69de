"""A plain crontab, unchanged, as a task file: what cron(8) and crontab(5) of Vixie and cronie make of each line.

    crontab = { blank | "#" comment | NAME "=" value | entry }
    entry   = [ "-" ] ( five fields | six fields, the second first | "@" name ) [ user ] command
    command = text for SHELL; the first "%" that is not "\\%" begins its standard input, each later one is a line end

Variables count from their line on. CRON_TZ says the zone of the times; SHELL, HOME and all others are the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tickless.commands.command import Command
from tickless.errors import RuleError
from tickless.observe.text import printable
from tickless.rules.text import parse
from tickless.rules.zones import zone_of
from tickless.taskfile.entries import Wrong, command_of, entry_of, variable_of, word_of
from tickless.taskfile.machine import home_of, host_zone, users
from tickless.taskfile.names import name_of
from tickless.taskfile.values import FileError, Problem, TaskDef, TaskFile

_NOT_PASSED = frozenset({"CRON_TZ", "MAILTO", "MAILFROM", "RANDOM_DELAY", "START_HOURS_RANGE", "CONTENT_TYPE"})
"""Variables that are for cron itself."""
_SYSTEM = re.compile(r"/etc/(crontab|cron\.d/[^/]+)\Z")
_NO_TEXT = re.compile(
    r"m(in(ute)?)?\s+h(our)?\s+dom\b.*|(begin|end)\b.*\b(managed|generated|block)\b.*|do not edit\b.*"
    r"|\(.* installed on .*\)|\(cron version .*\)|",
    re.IGNORECASE,
)
"""Comments that say nothing of the entry below: names of the columns, marks of what writes crontabs, nothing at all."""

_NO_UTF_8 = re.compile("[\ud800-\udfff]")
_LONGEST = 1_000
"""Characters of a message."""


@dataclass
class _State:
    """What the lines so far have said."""

    env: dict[str, str] = field(default_factory=dict)
    zone: str | None = None
    comment: list[str] = field(default_factory=list)


def read_crontab(path: Path, text: str, *, user_column: bool | None = None, timezone: str | None = None) -> TaskFile:
    """The crontab. Raises FileError.

    `user_column`: whether each entry names a user before its command; None: as /etc/crontab and /etc/cron.d have it,
    and where every entry has one of `root` and this machine's users there, and a command behind.
    `timezone`: the zone of entries above which no CRON_TZ stands; None: that of this machine, as cron has it, and a
    warning that says which.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    guessed = False
    if user_column is None:
        user_column = bool(_SYSTEM.search(os.path.abspath(path)))
        if not user_column:
            user_column = guessed = _all_name_users(lines)
    reading = _Reading(path, user_column, timezone)
    if guessed:
        reading.warn("each entry begins with a user of this machine, which is not taken for a part of its command")
    return reading.file(lines)


class _Reading:
    """One reading: collects what is wrong on its way."""

    def __init__(self, path: Path, user_column: bool, timezone: str | None) -> None:
        self._path = path
        self._user_column = user_column
        self._users = users() if user_column else frozenset[str]()
        self._timezone = timezone
        self._state = _State()
        self._problems: list[Problem] = []
        self._warnings: list[str] = []
        self._names: set[str] = set()
        self._zones: list[str] = []
        """Of each task."""

    def file(self, lines: Iterable[str]) -> TaskFile:
        tasks = []
        for number, line in enumerate(lines, 1):
            place = f"line {number}"
            try:
                task = self._line(line.lstrip(" \t"), place)
            except (RuleError, Wrong) as error:
                self._problems.append(Problem(place, printable(str(error), _LONGEST)))
                self._state.comment = []
                continue
            if task is not None:
                tasks.append(task)
        if not tasks and not self._problems:
            self._problems.append(Problem("", "has no entry"))
        if self._problems:
            raise FileError(self._path, tuple(self._problems))
        zone = self._zones[0]
        named = tuple(_naming_zone(task, own, zone) for task, own in zip(tasks, self._zones, strict=True))
        return TaskFile(self._path, "crontab", zone, tasks=named, parts=named, warnings=tuple(self._warnings))

    def warn(self, line: str) -> None:
        line = printable(line, _LONGEST)
        if line not in self._warnings:
            self._warnings.append(line)

    def _line(self, line: str, place: str) -> TaskDef | None:
        state = self._state
        if line.startswith("#"):
            self._comment(line.rstrip(" \t"))
            return None
        task = None
        if line.strip():
            if "\0" in line:
                raise Wrong("holds a NUL, which no command can be given")
            if _NO_UTF_8.search(line):
                self.warn(
                    f"{place}: holds bytes that are no UTF-8; a task file has none, so a copy is not the same there"
                )
            variable = variable_of(line)
            if variable is None:
                task = self._entry(line, place)
            else:
                self._variable(*variable)
        state.comment = []
        return task

    def _comment(self, line: str) -> None:
        """One more line above an entry, unless it says nothing of it, or is an entry that was taken out."""
        text = line.strip("#=-_~ \t")
        if not text and len(line) > 2:
            return  # a ruler
        if _NO_TEXT.fullmatch(text) or _is_entry(text):
            self._state.comment = []
        else:
            self._state.comment.append(text)

    def _variable(self, name: str, value: str) -> None:
        if name == "CRON_TZ":
            zone_of(value, "CRON_TZ")
            self._state.zone = value
        elif name in ("MAILTO", "MAILFROM") and value:
            self.warn(f"{name}={value}: no mail is sent; outputs are kept, and on_failure can send one")
        elif name in ("RANDOM_DELAY", "START_HOURS_RANGE"):
            self.warn(f"{name}={value}: is not followed; jitter is the like of it")
        elif name == "TZ":
            self.warn(f"TZ={value}: is for the commands, and no time is read in it; CRON_TZ is for the times")
        if name not in _NOT_PASSED:
            self._state.env[name] = value

    def _entry(self, line: str, place: str) -> TaskDef:
        when, rest = entry_of(line)
        zone = self._zone(when)
        rule = None if when is None else parse(when, tz=zone)
        user = None
        if self._user_column:
            user, rest = word_of(rest)
            if rest and user not in self._users:
                self.warn(f"{place}: there is no user {user} on this machine, and only there can it run")
        run, stdin = command_of(rest)
        run = _without_blanks(run)
        if not run.strip():
            raise Wrong(
                "has a time and a user, and no command behind" if user else "has a time, and no command behind it"
            )
        self._zones.append(zone)
        description = " ".join(self._state.comment).strip() or None
        command = self._command(run, stdin, user)
        return TaskDef(self._name(run), command, rule, when, description=description, place=place)

    def _command(self, run: str, stdin: str | None, user: str | None) -> Command:
        env = self._state.env
        shell, home = env.get("SHELL", ""), env.get("HOME", "")
        cwd = os.path.normpath(home) if os.path.isabs(home) else home_of(user)
        env_pairs = tuple(sorted(env.items()))
        return Command(run, shell if shell.strip() else "/bin/sh", env_pairs, cwd, stdin, user)

    def _zone(self, when: str | None) -> str:
        """That of the entry, which is this machine's where nobody has said one."""
        said = self._state.zone or self._timezone
        if said is not None:
            return said
        host = host_zone()
        if when is not None and host is None:
            self.warn("times are read in UTC, since nothing says the zone of this machine; CRON_TZ=Area/City does")
        elif when is not None and host != "UTC":
            self.warn(f"times are read in {host}, the zone of this machine; CRON_TZ={host} says so for good")
        return host or "UTC"

    def _name(self, run: str) -> str:
        base = name = name_of(run)
        count = 1
        while name in self._names:
            count += 1
            name = f"{base}-{count}"
        self._names.add(name)
        return name


def _naming_zone(task: TaskDef, zone: str, usual: str) -> TaskDef:
    """The task, whose time says its zone where that is not the usual one of its file."""
    if task.when_text is None or zone == usual:
        return task
    return replace(task, when_text=f"{task.when_text} {zone}")


def _without_blanks(run: str) -> str:
    """The command without blanks at its end, but for one behind a backslash."""
    bare = run.rstrip(" \t")
    return run[: len(bare) + 1] if bare.endswith("\\") else bare


def _is_entry(text: str) -> bool:
    """Whether a comment is an entry that was taken out."""
    try:
        when, rest = entry_of(text)
        if when is not None:
            parse(when, tz="UTC")
    except (Wrong, RuleError):
        return False
    return bool(rest)


def _all_name_users(lines: Iterable[str]) -> bool:
    """Whether every entry has, where its command would begin, the name of a user, and more behind that."""
    known = users()
    found = False
    for line in lines:
        try:
            text = line.strip(" \t")
            if not text or text.startswith("#") or variable_of(text) is not None:
                continue
            word, rest = word_of(entry_of(text).rest)
        except Wrong:
            continue  # it is told when it is read
        if word not in known or not rest:
            return False
        found = True
    return found
