"""What every Observer must do, as tests to inherit.

class TestMyObserver(ObserverSuite):
    def make_observer(self) -> Observer:
        return MyObserver()
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence

from tickless.instants import SECOND_US, Instant
from tickless.observe import Journal, Observer
from tickless.records import Event, EventKind
from tickless.states import Reason

NOON_US = Instant(1_767_268_800 * SECOND_US)
"""2026-01-01T12:00Z."""
PATIENCE_S = 10.0
AWKWARD = [
    "",
    " ",
    "two\nlines\r",
    "\x1b[31m\x1b]0;x\x07",
    "\x00",
    "\u202eabc",
    "\udc80",
    "{} %s %(x)s",
    "é☃𝄞",
    "x" * 100_000,
]
"""Names and messages that users' code has been seen to produce."""


class _LaterEvent(Event):
    """An event of a later version: it has a field more at its end."""


class _Noon:
    def now(self) -> Instant:
        return NOON_US


class ObserverSuite(ABC):
    """Inherit, and say how an observer is made."""

    @abstractmethod
    def make_observer(self) -> Observer:
        """A new observer, whose output may be thrown away."""

    def events(self, observer: Observer) -> list[Event]:
        """One event of each kind that the observer wants, with all that an event can have; then one with the least."""
        rich = [
            Event(
                kind, Instant(NOON_US + n), f"#{n}", "ping", NOON_US, Reason.OVERLAP, "ValueError: bad", "Traceback", 3
            )
            for n, kind in enumerate(sorted(observer.kinds))
        ]
        return rich + [Event(kind, Instant(NOON_US + SECOND_US)) for kind in sorted(observer.kinds)]

    def give(self, observer: Observer, events: Sequence[Event]) -> None:
        """One batch. What `observe` returns is nobody's: an awaitable would never be awaited."""
        assert observer.observe(events) is None, "observe must return None"  # type: ignore[func-returns-value]  # asked

    def test_it_is_an_observer(self) -> None:
        """What is missing would be found when the first task fails."""
        observer = self.make_observer()
        assert isinstance(observer, Observer), f"{observer!r} lacks kinds or observe"
        assert isinstance(observer.kinds, frozenset), "kinds must be a frozenset"
        assert all(isinstance(kind, EventKind) for kind in observer.kinds), "kinds must hold EventKind and nothing else"

    def test_the_scheduler_takes_it(self) -> None:
        """The door refuses coroutines and classes."""
        observer = self.make_observer()
        journal = Journal([observer], _Noon())
        assert journal.wants == observer.kinds
        assert journal.close(PATIENCE_S)

    def test_kinds_stay_the_same(self) -> None:
        """They are read once; a later change has no effect, and would mislead."""
        observer = self.make_observer()
        before = observer.kinds
        self.give(observer, self.events(observer))
        assert observer.kinds == before

    def test_it_takes_events_in_batches_and_one_by_one(self) -> None:
        """How many come at once depends on the load."""
        observer = self.make_observer()
        events = self.events(observer)
        self.give(observer, events)
        for event in events:
            self.give(observer, (event,))

    def test_an_empty_batch_is_nothing(self) -> None:
        """`events[0]` of nothing raises."""
        self.give(self.make_observer(), ())

    def test_events_may_come_twice_and_out_of_order(self) -> None:
        """Two threads may post at the same microsecond, and the later one first."""
        observer = self.make_observer()
        events = self.events(observer)
        self.give(observer, [*reversed(events), *events])

    def test_awkward_text_is_no_trouble(self) -> None:
        """A name with a line end, a terminal's escape, a lone surrogate: users have them all."""
        observer = self.make_observer()
        for text in AWKWARD:
            self.give(
                observer,
                [Event(kind, NOON_US, text, text, NOON_US, None, text, text) for kind in sorted(observer.kinds)],
            )

    def test_a_field_that_it_does_not_know_is_no_trouble(self) -> None:
        """A later version may add fields at the end: `kind, at, ... = event` would break then. Use the names."""
        observer = self.make_observer()
        self.give(observer, [tuple.__new__(_LaterEvent, (*event, "new")) for event in self.events(observer)])

    def test_it_leaves_the_batch_as_it_is_and_does_not_keep_it(self) -> None:
        """The other observers read the same sequence, and its memory is ours."""
        observer = self.make_observer()
        events = self.events(observer)
        batch = list(events)
        self.give(observer, batch)
        assert batch == events
        batch.clear()
        self.give(observer, events)

    def test_it_may_be_called_by_another_thread_than_its_maker(self) -> None:
        """The observer thread calls it: a database connection made in the constructor may refuse that."""
        observer = self.make_observer()
        faults: list[BaseException] = []

        def observe() -> None:
            try:
                self.give(observer, self.events(observer))
            except BaseException as error:  # noqa: BLE001  # raised again below, in the thread of the test
                faults.append(error)

        thread = threading.Thread(target=observe, daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "observe hangs in another thread"
        if faults:
            raise faults[0]

    def test_close_where_there_is_one_may_come_at_any_time(self) -> None:
        """Before the first event, and twice: two schedulers may share one observer."""
        observer = self.make_observer()
        close = getattr(observer, "close", None)
        if close is None:
            return
        close()
        self.give(observer, self.events(observer))
        close()
        close()
