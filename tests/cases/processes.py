"""Works that a process pool imports by name."""

from __future__ import annotations


class Unpicklable(Exception):
    def __reduce__(self) -> str:
        raise TypeError("this error cannot leave its process")


def fail_unpicklable() -> None:
    raise Unpicklable("in another process")


def give_unpicklable() -> object:
    return lambda: None


def exit_at_once() -> None:
    raise SystemExit(3)


def answer() -> int:
    return 42
