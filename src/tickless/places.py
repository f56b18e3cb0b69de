"""The door of `store=`: where tasks are kept, and what may be said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypedDict

from tickless.checks import one_of
from tickless.errors import RuleError, ScheduleError, shown
from tickless.instants import SECOND_US, span_us
from tickless.options import check_names

Durability = Literal["process", "power"]
"""What outlives what: a commit the death of the process, or that of the machine, too."""


DURABILITIES = ("process", "power")


class StoreOptions(TypedDict, total=False):
    """What may be said of a store, beside its address."""

    durability: Durability
    """"process" (default): what is committed outlives the process, and the last commits may be lost with the machine.
    "power": it outlives the machine, at the price of a sync for each commit.
    """
    works: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]
    """Functions by the names under which they are stored. Others are stored as "module:qualname"."""
    aliases: Mapping[str, str]
    """Former names of works -> what they are called now."""
    lease: float | timedelta
    """How long a process may be silent before its runs are another's: 30 s. One that died is known at once."""
    results: bool
    """Whether results are kept for handles that are made after the end. Those that a child takes are kept anyway."""
    keep_for: float | timedelta | None
    """How long what has ended is kept at most, beside `keep_finished` and `keep_runs`."""


class Keeps(NamedTuple):
    """How much of what has ended stays listed."""

    keep_finished: int
    keep_runs: int
    keep_rounds: int


class Place(NamedTuple):
    """Where and how tasks are kept, checked."""

    url: str
    durability: Durability
    works: Any
    aliases: Mapping[str, str]
    lease_us: int
    results: bool
    keep_for_us: int | None


def place_of(store: object, options: StoreOptions) -> Place | None:
    """What `store=` and its options say; None: in memory. Raises ScheduleError, and TypeError for what is no option."""
    check_names("Scheduler", options, StoreOptions.__annotations__, {})
    if store is None:
        if options:
            said = ", ".join(options)
            raise ScheduleError(f"Scheduler({said}=...): is about a store, and tasks are kept in memory; give store=")
        return None
    if not isinstance(store, str):
        raise ScheduleError(f"store={shown(store)}: needs an address, e.g. 'sqlite:///tasks.db'")
    keep_for, aliases, results = options.get("keep_for"), options.get("aliases", {}), options.get("results", False)
    if not isinstance(aliases, Mapping):
        raise ScheduleError(f"aliases={shown(aliases)}: needs a dict: what a work was called -> what it is called now")
    if type(results) is not bool:
        raise ScheduleError(f"results={shown(results)}: needs True or False")
    return Place(
        store,
        "power" if one_of("durability", options.get("durability", "process"), DURABILITIES) == "power" else "process",
        options.get("works", ()),
        aliases,
        _us("lease", options.get("lease", 30.0)),
        results,
        None if keep_for is None else _us("keep_for", keep_for),
    )


def _us(name: str, value: Any) -> int:
    try:
        us = span_us(value, name)
    except RuleError as error:
        raise ScheduleError(str(error)) from None
    if us < SECOND_US:
        raise ScheduleError(f"{name}={shown(value)}: needs seconds, or a timedelta, of at least 1 s")
    return us
