"""The one thread: make ready what is due, have the pool take it, sleep on the bell until the earliest entry is due.

It never runs a task or a listener, and only this file decides when to sleep.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread, current_thread

from tickless.bell import Bell
from tickless.errors import StoreError
from tickless.instants import SECOND_US, Clock, DrivenClock, Instant
from tickless.observe import Journal
from tickless.observe.text import error_line, printable, traceback_of
from tickless.pools import Hand
from tickless.records import EventKind
from tickless.states import DEFAULT_POOL
from tickless.stores import Store

BACK_OFF_US = SECOND_US // 10
LONGEST_BACK_OFF_US = 30 * SECOND_US


class Dispatcher:
    """Turns until it is stopped: in a thread of its own, or whenever a driven clock calls."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._signs = store.signs
        self._clock = clock
        self._journal: Journal
        self._hand: Hand
        """That of the default pool, and of most schedulers the only one."""
        self._hands: dict[str, Hand] | None = None
        """All of them by the name of their pool, where there are several."""
        self._bell = Bell()
        self._thread: Thread | None = None
        self._undrive: Callable[[], None] | None = None
        self._begun = False
        """Whether runs may go to the pools: one that is never started plans, and others run what it says."""
        self._stopped = False
        self._turning = False
        self._failures = 0
        self.down_since: Instant | None = None
        """Since when the store has not answered; None: it does."""
        self.pools_down: dict[str, str] = {}
        """Pool -> the error with which its executor refused for good."""

    def feed(self, hands: dict[str, Hand]) -> None:
        """Which hand to call for which pool; said before the start."""
        self._hand = hands[DEFAULT_POOL]
        self._hands = hands if len(hands) > 1 else None

    def tell(self, journal: Journal) -> None:
        """Where troubles go, and whose events to deliver under a driven clock; said before the start."""
        self._journal = journal

    def start(self) -> None:
        """Begin to turn. With a driven clock no thread is started, and the first turn has been when this returns."""
        self._begun = True
        if isinstance(self._clock, DrivenClock):
            self._undrive = self._clock.drive(self.turn)
            self.turn()
        else:
            thread = Thread(target=self._loop, name="tickless-dispatcher", daemon=True)
            thread.start()
            self._thread = thread

    def stop(self, timeout: float | None = None) -> None:
        """No more turns. Waits for the turn that goes on, at most `timeout` seconds, unless that is what calls."""
        self._stopped = True
        if self._undrive is not None:
            self._undrive()
        self._bell.ring()
        thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join(timeout)

    def ring(self) -> None:
        """Have a turn made: something is due earlier, or a slot is free."""
        if self._undrive is None:
            self._bell.ring()
        elif not self._stopped:
            self.turn()

    def look(self, spare: int = 0, pool: str = DEFAULT_POOL) -> None:
        """After any verb of the store, outside every lock: have drainers started, the bell rung, events delivered.

        `spare` ready runs of `pool` are taken by the caller itself.
        """
        signs = self._signs
        if signs.stirred and self._begun:
            signs.stirred = False
            if self._hands is not None:
                self._start_all(self._hands, spare, pool)
            elif self._hand.free and self._store.ready_runs() > spare:
                self._hand.start(spare)
            if signs.earlier:
                signs.earlier = False
                self.ring()
        if self._undrive is not None:
            self._journal.deliver()

    def _start_all(self, hands: dict[str, Hand], spare: int = 0, pool: str = DEFAULT_POOL) -> None:
        """Start every hand whose pool has ready runs. What one pool does, others do not wait for."""
        store = self._store
        for name, hand in hands.items():
            spared = spare if name == pool else 0
            if hand.free and store.ready_runs(name) > spared:
                hand.start(spared)

    def turn(self) -> Instant | None:
        """All that is due now, and when to turn next. Whatever goes wrong is told and tried again, later each time.

        A ring from inside a turn of a driven clock finds the turn going on, and that looks again before it ends.
        """
        if self._turning:
            return None
        self._turning = True
        try:
            until = self._turn()
            self._failures = 0
            if self.down_since is not None:
                self._say_up()
        except BaseException as error:  # a store verb or a pool failed: the loop must outlive it
            if self._undrive is not None and not isinstance(error, Exception):
                raise  # this is the thread of whoever moves the clock: a KeyboardInterrupt is meant for it
            until = self._back_off(error)
        finally:
            self._turning = False
        if self._undrive is not None:
            self._journal.deliver()
        return until

    def _turn(self) -> Instant | None:
        store, clock, hand, hands, signs = self._store, self._clock, self._hand, self._hands, self._signs
        while not self._stopped:
            signs.earlier = False
            full = store.due(clock.now(), clock.wall())
            signs.stirred = False  # then look: what becomes ready from here on sets it again
            if hands is not None:
                self._start_all(hands)
            elif store.ready_runs():
                hand.start()
            if full:
                continue
            if self._undrive is not None:
                self._journal.deliver()  # before the last look, since an observer may schedule something earlier
            until = store.next_wake()
            # The pass took time, and may have settled what workers handed over, after it had looked at the ready queue:
            # what came due meanwhile is served before any sleep. What others do from here on they ring for.
            if not signs.stirred and (until is None or until > clock.now()):
                return until
        return None

    def _back_off(self, error: BaseException) -> Instant:
        self._failures += 1
        now = self._clock.now()
        if not isinstance(error, StoreError):
            self._journal.post(
                EventKind.TROUBLE, now, None, None, None, f"dispatcher: {error_line(error)}", traceback_of(error)
            )
        elif self.down_since is None:  # said once
            self.down_since = now
            self._journal.post(EventKind.STORE_DOWN, now, None, None, None, str(error))
        return Instant(now + min(BACK_OFF_US << min(self._failures, 20), LONGEST_BACK_OFF_US))

    def note_down(self, pool: str, error: BaseException, are_kept: bool) -> None:
        """That pool's executor has refused for good. It is told once."""
        line = error_line(error)
        if self.pools_down.setdefault(pool, line) is line:
            then = "its runs wait in the store for a scheduler whose pool works" if are_kept else "its runs fail"
            message = f"pool {printable(pool)}: takes nothing any more ({line}): {then}"
            self._journal.post(EventKind.TROUBLE, self._clock.now(), None, None, None, message)

    def _say_up(self) -> None:
        since, now = self.down_since or 0, self._clock.now()
        self.down_since = None
        self._journal.post(
            EventKind.STORE_UP, now, None, None, None, f"it answers again, after {(now - since) / SECOND_US:.1f} s"
        )

    def _loop(self) -> None:
        with self._clock.watch(self._bell):
            while not self._stopped:
                until = self.turn()
                if not self._stopped:
                    self._clock.wait(self._bell, until)
