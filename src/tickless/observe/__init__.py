"""Observers: who is told what happens. `Observer` is what one must answer; `Journal` brings the events to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tickless.observe.journal import Journal
from tickless.records import Event, EventKind

__all__ = ["Journal", "Observer"]


@runtime_checkable
class Observer(Protocol):
    """`tickless.testing.ObserverSuite` is the contract as tests.

    An observer that also has a method `close()` has it called once, after the last batch, when its scheduler closes:
    the place to write out what it holds back.
    """

    @property
    def kinds(self) -> frozenset[EventKind]:
        """The kinds it wants, read once when the scheduler is made. An event that nobody wants is never built."""

    def observe(self, events: Sequence[Event]) -> None:
        """Take one batch, in the order in which it happened; all are of `kinds`.

        Called by one thread at a time, never under a lock of ours: any method of the scheduler may be called from here.
        The sequence is shared with the other observers: read it, do not keep it. What it raises is contained and told
        to the other observers as TROUBLE. While it is slow the others wait, and after 10,000 waiting events the oldest
        are dropped.
        """
