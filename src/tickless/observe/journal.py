"""Events, from where they happen to those who want to know. Posting is one append; everything else is done later."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from tickless.instants import Instant
from tickless.observe.seat import Seat, seats_of
from tickless.observe.text import error_line, printable, traceback_of
from tickless.observe.throttle import Line
from tickless.records import Event, EventKind
from tickless.states import Reason

if TYPE_CHECKING:
    from tickless.observe import Observer

QUEUE_LIMIT = 10_000
BATCH_LIMIT = 1_000


class Subject(Protocol):
    """What an event is about: a task. It is not kept, since its value would be kept with it."""

    _id: str | None
    _seq: int
    _name: str


class Now(Protocol):
    """The one thing that the journal asks of a clock: when did an observer fail?"""

    def now(self) -> Instant: ...


_Posted = tuple[
    EventKind, Instant, str | int | None, str | None, Instant | None, Reason | None, str | None, str | None, int
]  # kind, at_us, id or number of the task, its name, due, reason, error, traceback, count


class Journal:
    """Brings posted events to the observers: in batches by a lazy thread after `start`, or inline by `deliver`.

    The queue is bounded: past `limit` waiting events the oldest are let go, and a DROPPED event with their exact
    number is first in the next batch. Order is the order of posting.
    """

    def __init__(self, observers: Iterable[Observer], clock: Now, *, limit: int = QUEUE_LIMIT) -> None:
        self._seats = seats_of(observers)
        self._kinds: frozenset[EventKind] = frozenset().union(*(seat.kinds for seat in self._seats))
        self.wants = self._kinds
        """The kinds that a post is worth; empty once closed, so that later posts cost and do nothing."""
        self._clock = clock
        self._limit = limit
        self._troubles: list[tuple[Seat, Event]] = []
        self._reset()
        _journals.add(self)

    def _reset(self) -> None:
        """The state of a journal without a thread and without events."""
        self._queue: deque[_Posted] = deque()
        self._drops = itertools.count()  # each drop draws a number, which is atomic; so does each look at it
        self._drops_told = 0
        self._thread: threading.Thread | None = None
        self._spawning = threading.Lock()  # held by the one post that starts the thread; never waited for
        self._delivery = threading.Lock()  # held by whoever calls the observers
        self._deliverer = 0
        self._asleep = False
        self._gate = threading.Lock()  # a binary semaphore: locked until somebody rings
        self._gate.acquire()
        self._closing = False
        self._ended = threading.Event()

    def post(
        self,
        kind: EventKind,
        at_us: Instant,
        subject: Subject | None = None,
        due: Instant | None = None,
        reason: Reason | None = None,
        error: str | None = None,
        traceback: str | None = None,
        count: int = 1,
    ) -> None:
        """Note one event. Safe from any thread and under any lock: it waits for nothing.

        (The first post after `start` starts the thread: some 100 µs, once.)
        """
        if kind in self.wants:
            queue = self._queue
            if subject is None:
                queue.append((kind, at_us, None, None, due, reason, error, traceback, count))
            else:
                who = subject._id or subject._seq
                queue.append((kind, at_us, who, subject._name, due, reason, error, traceback, count))
            if len(queue) > self._limit:
                self._drop_oldest()
            # Store, then look. The thread says that it sleeps, then looks (`_serve`): one of the two sees the other.
            if self._asleep:
                self._ring()

    def _drop_oldest(self) -> None:
        try:
            self._queue.popleft()
        except IndexError:  # the thread took them all in between
            return
        next(self._drops)

    def _ring(self) -> None:
        if self._gate.locked():
            try:
                self._gate.release()
            except RuntimeError:  # another post was first; its ring is ours
                pass
        if self._thread is None:
            self._spawn()

    def _spawn(self) -> None:
        """Start the thread, unless another post is about to. Where no thread can be had, the next post tries again."""
        if not self._spawning.acquire(blocking=False):
            return
        thread = threading.Thread(target=self._serve, name="tickless-observer", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            self._spawning.release()
        else:
            self._thread = thread

    def start(self) -> None:
        """From now on a thread delivers. It is started by the first event, and sleeps while there is none."""
        if not self._closing:
            self._asleep = True
            if self._queue:
                self._ring()

    def _serve(self) -> None:
        while not self._ended.is_set():
            self._asleep = True
            if not self._has_work():
                self._gate.acquire()
            self._asleep = False
            while self._has_work():
                with self._delivery:
                    self._pass_on()

    def deliver(self) -> None:
        """Call the observers here and now with all that is queued, and with what they cause.

        While another thread delivers, or an observer that we are called from, that delivery takes it along.
        """
        delivery = self._delivery
        while self._has_work() and delivery.acquire(blocking=False):
            try:
                self._pass_on()
            finally:
                delivery.release()

    def close(self, timeout: float | None = None) -> bool:
        """Deliver all that was posted before, close the observers, end the thread. Later posts are ignored.

        False when that is not done within `timeout` seconds (None: however long it takes), or when an observer calls
        this: then it is done once that observer returns. May be called again.
        """
        self.wants = frozenset()
        self._closing = True
        thread = self._thread
        if thread is None:
            self.deliver()
        else:
            self._ring()
        if self._deliverer == threading.get_ident():
            return False
        if not self._ended.wait(None if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX)):
            return False
        if thread is not None:
            thread.join()  # it has nothing left to do
        return True

    def _has_work(self) -> bool:
        return bool(self._queue) or (self._closing and not self._ended.is_set())

    def _pass_on(self) -> None:
        """One batch to every observer. The caller holds `_delivery`."""
        self._deliverer = threading.get_ident()
        try:
            events = self._take()
            if events:
                for seat in self._seats:
                    self._give(seat, events)
                self._tell_troubles()
            if self._closing and not self._queue and not self._ended.is_set():
                self._finish()
        finally:
            self._deliverer = 0

    def _take(self) -> tuple[Event, ...]:
        """The oldest events that wait, at most BATCH_LIMIT, after what has to be said of dropped ones."""
        queue = self._queue
        posted: list[_Posted] = []
        try:
            while len(posted) < BATCH_LIMIT:
                posted.append(queue.popleft())
        except IndexError:
            pass
        events: list[Event] = []
        new = tuple.__new__  # what Event(...) does, without a call per event
        for kind, at_us, who, name, due, reason, error, trace, count in posted:
            task_id = f"#{who}" if type(who) is int else who
            events.append(new(Event, (kind, at_us, task_id, name, due, reason, error, trace, count)))
        drawn = next(self._drops)
        dropped = drawn - self._drops_told
        self._drops_told = drawn + 1
        if dropped and EventKind.DROPPED in self._kinds:
            first_us = posted[0][1] if posted else self._clock.now()
            events.insert(0, Event(EventKind.DROPPED, first_us, count=dropped))
        return tuple(events)

    def _give(self, seat: Seat, events: tuple[Event, ...]) -> None:
        if not seat.kinds.issuperset(self._kinds):
            events = tuple(event for event in events if event.kind in seat.kinds)
        if events:
            self._call(seat, seat.observer.observe, events)

    def _call(self, seat: Seat, method: Callable[..., object], *args: object) -> None:
        """The one place where an observer is called, and where all that it raises ends."""
        try:
            method(*args)
        except BaseException as error:  # noqa: BLE001  # SystemExit from an observer must not end the others' thread
            about = f"observer {printable(type(seat.observer).__name__)}"
            line, trace = error_line(error), traceback_of(error)
            event = Event(EventKind.TROUBLE, self._clock.now(), name=about, error=line, traceback=trace)
            self._note(seat, seat.failures.add(line, event))

    def _note(self, seat: Seat, lines: list[Line]) -> None:
        for event, unlogged, _ in lines:
            self._troubles.append((seat, event._replace(count=event.count + unlogged)))

    def _tell_troubles(self) -> None:
        """Each failure of an observer to the other ones. The throttle ends the loop when they fail at that, too."""
        while self._troubles:
            culprit, event = self._troubles.pop(0)
            for seat in self._seats:
                if seat is not culprit and EventKind.TROUBLE in seat.kinds:
                    self._call(seat, seat.observer.observe, (event,))

    def _finish(self) -> None:
        """The last words: failures that were held back, then each observer's own `close`."""
        for seat in self._seats:
            self._note(seat, seat.failures.flush())
        self._tell_troubles()
        for seat in self._seats:
            close = getattr(seat.observer, "close", None)
            if callable(close):
                self._call(seat, close)
        self._tell_troubles()
        self._ended.set()

    def _silence(self) -> None:
        """In a forked child: the thread is not here, and whoever held a lock is not, either."""
        self.wants = frozenset()
        self._reset()
        self._closing = True
        self._ended.set()


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _silence_all() -> None:
    for journal in list(_journals):
        journal._silence()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_silence_all)
