"""A name for a command, made from nothing but the command: other lines may come and go, and it stays."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

LONGEST = 50
"""Characters."""

_ENDS = re.compile(r"[;&|()\n]+|[{}]|then|do|else|if|elif|fi|while|until|done")
"""What a simple command ends at, as a word."""
_GUARDS = frozenset("cd pushd test [ [[ export set ulimit umask . source sleep true false : trap unset wait".split())
"""Commands that prepare for another, with all their arguments."""
_WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -D -R -T", 0), "doas": ("-u -C", 0), "runuser": ("-u -g -G", 0),
    "nice": ("-n", 0), "ionice": ("-c -n -p", 0), "chrt": ("", 1), "taskset": ("", 1), "setsid": ("", 0),
    "timeout": ("-s -k --signal --kill-after", 1), "flock": ("-w -E --timeout --conflict-exit-code", 1),
    "lckdo": ("-W", 1), "setlock": ("", 1), "chronic": ("", 0), "nohup": ("", 0), "time": ("-f -o", 0),
    "env": ("-u -C", 0), "exec": ("-a", 0), "command": ("", 0), "builtin": ("", 0), "stdbuf": ("-i -o -e", 0),
    "systemd-cat": ("-t -p", 0), "systemd-run": ("-p -u", 0), "run-one": ("", 0), "cronic": ("", 0), "eval": ("", 0),
    "bundle": ("", 1), "poetry": ("", 1), "uv": ("", 1), "pipenv": ("", 1), "npx": ("", 0), "run-parts": ("-a", 0),
    "xvfb-run": ("-n -s", 0),
}  # fmt: skip
"""Commands that call another -> (their options that are followed by a value, how many words come before the other)."""
_INTERPRETERS = re.compile(r"(?:ba|da|z|k|a|)sh|python[\d.]*|pypy\d?|perl|ruby|php[\d.]*|node|java|Rscript|lua|deno")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_REDIRECTION = re.compile(r"\d*[<>]")
_ENDING = re.compile(r"\.(?:sh|bash|py|pl|rb|php|js|jar|R|lua)\Z")


def name_of(run: str, depth: int = 0) -> str:
    """The last part of the first word that says what the command is for: small letters, digits and hyphens.

    Left out are what only prepares (`cd`, `test`, assignments), what only calls (`nice`, `flock`, `sudo`), shells and
    other interpreters. "task" where no word says anything.
    """
    first = ""
    for words in _simple_commands(run):
        word = _meaningful(words, depth)
        name = _as_name(word)
        if name:
            return name
        first = first or _as_name(words[0])
    return first or "task"


def _simple_commands(run: str) -> Iterator[list[str]]:
    """The words of each command of a line, without what joins them."""
    words: list[str] = []
    for word in [*_words(run), ";"]:
        if not _ENDS.fullmatch(word):
            words.append(word)
        elif words:
            yield words
            words = []


def _words(run: str) -> list[str]:
    """As a shell has them, or as they are where its quotes do not close."""
    reader = shlex.shlex(run, posix=True, punctuation_chars=";&|()\n")
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t\r", True, "#"
    try:
        return list(reader)
    except ValueError:
        return run.split()


def _meaningful(words: list[str], depth: int) -> str:
    """The word of a simple command that says what it is for; empty for none."""
    left = list(words)
    while left:
        word = left.pop(0)
        last = word.rpartition("/")[2]
        if word == "!" or _ASSIGNMENT.match(word):
            continue
        if _REDIRECTION.match(word):
            del left[: word[-1] in "<>"]
        elif last in _GUARDS:
            return ""
        elif last in _WRAPPERS:
            _pass_options(left, *_WRAPPERS[last])
            if left[:1] == ["-c"]:
                return _of_interpreter(left, depth)
        elif _INTERPRETERS.fullmatch(last):
            return _of_interpreter(left, depth) or word
        else:
            return word
    return ""


def _pass_options(left: list[str], with_value: str, words: int) -> None:
    """Take away the options of a command that calls another, with their values, and the words that are its own."""
    while left and (left[0].startswith("-") or _ASSIGNMENT.match(left[0])):
        option = left.pop(0)
        if option == "--":
            break
        if option in with_value.split():
            del left[:1]
    del left[:words]


def _of_interpreter(left: list[str], depth: int) -> str:
    """The script, the module, or the text that an interpreter is given."""
    while left:
        word = left.pop(0)
        if word == "-m" and left:
            return left[0]
        if re.fullmatch(r"-[a-z]*c", word) and left and depth < 3:
            return name_of(left[0], depth + 1)
        if not word.startswith(("-", "+")):
            return word
    return ""


def _as_name(word: str) -> str:
    last = word.rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^a-z0-9]+", "-", _ENDING.sub("", last).lower()).strip("-")
    return name[:LONGEST].rstrip("-")
