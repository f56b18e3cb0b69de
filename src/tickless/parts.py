"""A part of a result: what a path of keys and indices leads to, as `output["rows"][0]` says it."""

from __future__ import annotations

from typing import Any

from tickless.errors import OutputGone, ScheduleError, shown

Key = str | int
Path = tuple[Key, ...]
MOST_KEYS = 8
"""Of a dict, that a message names."""
_SIZED = frozenset({list, tuple, str, bytes})


def checked_key(key: object, owner: object) -> Key:
    """The key as a plain `str` or `int`. Raises ScheduleError for any other: a store could not keep it."""
    if type(key) is int or type(key) is str:
        return key
    if issubclass(type(key), str):
        return str.__str__(key)  # the methods of a subclass are foreign code
    raise ScheduleError(
        f"{shown(owner)}[{shown(key)}]: a part is named by a key that is a text, or by an index that is an int; "
        "take the whole output, and the part of it in the work"
    )


def path_text(path: Path) -> str:
    """As it is written in Python: ['rows'][0]."""
    return "".join(f"[{shown(key)}]" for key in path)


def part_of(value: Any, path: Path, whose: str) -> Any:
    """What the path leads to. Calls the `__getitem__` of foreign objects, so not under a lock.

    Raises OutputGone, naming the task, the path and what is there, when it leads nowhere.
    """
    for depth, key in enumerate(path):
        try:
            value = value[key]
        except Exception as error:
            there = f"{path_text(path[:depth]) or 'it'} is {_there(value)}"
            told = "" if isinstance(error, LookupError | TypeError) else f", which raised {shown(error)}"
            raise OutputGone(f"the output of task {whose} has no part {path_text(path)}: {there}{told}") from error
    return value


def _there(value: object) -> str:
    """What the value is, for a message, without a repr of all that is in it."""
    kind = type(value)
    if value is None:
        return "None"
    if kind is dict:
        assert isinstance(value, dict)
        keys = list(value)
        if not keys:
            return "an empty dict"
        more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
        return f"a dict with {', '.join(map(shown, keys[:MOST_KEYS]))}{more}"
    if kind in _SIZED:
        return f"a {kind.__name__} of length {len(value)}"  # type: ignore[arg-type]  # those have one
    return f"of type {kind.__qualname__}"
