"""The door where observers are looked over."""

from __future__ import annotations

from typing import Any

import pytest

from tickless.errors import ScheduleError
from tickless.observe import Journal
from tickless.records import EventKind
from tickless.testing.clock import FakeClock


class Plain:
    """As little as an observer can be."""

    def __init__(self, kinds: object = frozenset({EventKind.FAILED})) -> None:
        self.kinds = kinds

    def observe(self, events: object) -> None: ...


class WithoutKinds:
    def observe(self, events: object) -> None: ...


class WithoutObserve:
    kinds = frozenset({EventKind.FAILED})


class Coroutine(Plain):
    async def observe(self, events: object) -> None: ...  # type: ignore[override]  # that is the fault


class Generator(Plain):
    def observe(self, events: object) -> object:  # type: ignore[override]  # that is the fault
        yield


class _AsyncCall:
    async def __call__(self, events: object) -> None: ...


class Hidden(Plain):
    observe = _AsyncCall()  # type: ignore[assignment]  # that is the fault


@pytest.mark.parametrize(
    ("observers", "says"),
    [
        ([WithoutKinds()], "needs `kinds`"),
        ([WithoutObserve()], "`observe\\(events\\)`"),
        ([None], "None is no observer"),
        ([print], "is no observer"),
        ([Plain], "is a class; give an instance: Plain\\(\\)"),
        (Plain(), "write observers=\\[it\\]"),
        (7, "needs a list of observers, not 7"),
        ([Coroutine()], "coroutine or generator"),
        ([Generator()], "coroutine or generator"),
        ([Hidden()], "coroutine or generator"),
        ([Plain("failed")], "needs a set of EventKind, not 'failed'"),
        ([Plain(3)], "needs a set of EventKind, not 3"),
        ([Plain(["nonsense"])], "'nonsense' is not a valid EventKind; there are scheduled, ready"),
        ([Plain([3])], "3 is not a valid EventKind"),
        ([Plain([[]])], "is not a valid EventKind"),
    ],
)
def test_what_is_no_observer_is_refused_at_the_door(observers: object, says: str) -> None:
    """BUG-046: an async observer would be called for years, and never do anything."""
    with pytest.raises(ScheduleError, match=f"^observers: .*{says}"):
        Journal(observers, FakeClock())  # type: ignore[arg-type]  # that is the fault


@pytest.mark.parametrize("kinds", [["failed"], ("failed", EventKind.FAILED), iter([EventKind.FAILED]), {"failed": 1}])
def test_kinds_may_be_any_collection_and_are_read_once(kinds: Any) -> None:
    """A list is what people write first; an iterator would be empty the second time."""
    observer: Any = Plain(kinds)  # wider than the Protocol, on purpose
    journal = Journal([observer], FakeClock())
    assert journal.wants == {EventKind.FAILED}
    assert all(type(kind) is EventKind for kind in journal.wants)
