"""The lines of a crontab, each by itself: what is a variable, when an entry fires, what its `%` do."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NamedTuple

from tickless.errors import shown

_VARIABLE = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([^\s"'=@*]+))[ \t]*=[ \t]*(.*)\Z""", re.DOTALL)
_WORD = re.compile(r"[ \t]*([^ \t]+)[ \t]*")
_DAY = r"(?:mon|tue|wed|thu|fri|sat|sun|[0-7])"
_FIELD = re.compile(rf"(?:[\d*,/\-]|{_DAY}(?:[#L]\d?)?|\?)+", re.IGNORECASE)
"""What a sixth word is made of when it is the day of the week; no command is called so."""
_ESCAPED_OR_END = re.compile(r"\\?%")
_STARTS = frozenset("@*?0123456789")
"""What an entry begins with, its hyphen aside."""
_NICKNAMES = ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly")


class Wrong(Exception):
    """What is wrong with a line."""


class Entry(NamedTuple):
    """A line with a time."""

    when: str | None
    """The time as a rule's text; None: at the start."""
    rest: str
    """What follows: a user, where there is a column of them, and the command."""


def variable_of(line: str) -> tuple[str, str] | None:
    """The name and the value of an assignment; None for any other line. Raises Wrong.

    Blanks around the `=`, and a pair of quotes around either side, are none of it. What is between the quotes is taken
    as it is: nothing is expanded, and a `#` begins no comment.
    """
    found = _VARIABLE.match(line)
    if found is None:
        return None
    name = next(one for one in found.groups()[:3] if one is not None)
    if not name or "=" in name:
        raise Wrong(f"{shown(name)} is no name of a variable")
    return name, _unquoted(name, found.group(4).rstrip(" \t"))


def _unquoted(name: str, value: str) -> str:
    quote = value[:1]
    if quote not in ("'", '"') or not quote:
        return value
    inner, closed, after = value[1:].partition(quote)
    if not closed:
        raise Wrong(f"{name}: the quote {quote} is not closed")
    if after:
        raise Wrong(f"{name}: {shown(after)} follows the closing quote; quote the whole value, with the other quotes")
    return inner


def entry_of(line: str) -> Entry:
    """The line, taken apart. Raises Wrong for what is no entry.

    A hyphen before it asks cron(8) not to log, and says nothing here. A sixth word that is a field belongs to the time,
    whose first field then is the second.
    """
    line = line.removeprefix("-").lstrip(" \t")
    if line[:1] not in _STARTS or not line:
        raise Wrong(f"{shown(line)}: needs five fields and a command, or NAME=value")
    if line.startswith("@"):
        return _nicknamed(line)
    fields, rest = [], line
    for _ in range(5):
        word, rest = word_of(rest)
        if not word:
            raise Wrong(f"{shown(line)}: needs five fields and a command, or NAME=value")
        fields.append(word)
    sixth, after = word_of(rest)
    if sixth and after and _FIELD.fullmatch(sixth):
        fields, rest = [*fields, sixth], after
    return Entry(" ".join(fields), rest)


def _nicknamed(line: str) -> Entry:
    name, rest = word_of(line)
    word = name[1:].lower()
    if word == "reboot":
        return Entry(None, rest)
    if word in _NICKNAMES:
        return Entry(f"@{word}", rest)
    near = get_close_matches(word, (*_NICKNAMES, "reboot"), n=1)
    raise Wrong(f"there is no {name}" + (f" (did you mean @{near[0]}?)" if near else ""))


def word_of(text: str) -> tuple[str, str]:
    """The first word, and what follows. Words end at spaces and tabs, and at nothing else."""
    found = _WORD.match(text)
    return (found.group(1), text[found.end() :]) if found else ("", "")


def command_of(text: str) -> tuple[str, str | None]:
    """The command, and what it reads on standard input (None: nothing).

    The first `%` begins the input, and each later one is a line end. One behind a backslash is a `%`; it is cron that
    takes this backslash away, and no other. In the command a backslash that is itself behind one escapes nothing; in
    the input every backslash does.
    """
    run, given, behind = _until_percent(text)
    if not given:
        return run, None
    stdin = _ESCAPED_OR_END.sub(lambda found: "\n" if found.group() == "%" else "%", behind)
    if stdin and not stdin.endswith("\n"):
        stdin += "\n"
    return run, stdin or None


def _until_percent(text: str) -> tuple[str, bool, str]:
    """(what is before the first `%` that counts, whether there is one, what is behind it)."""
    taken: list[str] = []
    escaped = False
    for place, letter in enumerate(text):
        if letter == "%" and not escaped:
            return "".join(taken), True, text[place + 1 :]
        if letter == "%":
            taken.pop()  # the backslash
        taken.append(letter)
        escaped = letter == "\\" and not escaped
    return "".join(taken), False, ""
