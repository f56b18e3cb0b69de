"""What every Clock must do, as tests to inherit.

class TestMyClock(ClockSuite):
    def make_clock(self) -> Clock:
        return MyClock()

    def pass_time(self, clock: Clock, us: int) -> None:
        clock.advance(us / 1_000_000)       # or wait, on a clock that goes by itself
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from tickless.bell import Bell
from tickless.instants import MAX_INSTANT, MIN_INSTANT, SECOND_US, Clock, Instant

PATIENCE_S = 10.0
"""How long a test waits for a thread before it says that the thread hangs."""
A_WHILE_US = 50_000
"""Short enough to wait for on a real clock."""
FEW = 5
"""More returns than this, in a while in which nothing happens, is a busy loop. One that polls each 10 ms has more."""


class ClockSuite(ABC):
    """Inherit, and say how a clock is made and how time passes on it."""

    @abstractmethod
    def make_clock(self) -> Clock:
        """A new clock."""

    @abstractmethod
    def pass_time(self, clock: Clock, us: int) -> None:
        """Return when at least `us` microseconds have gone by on `clock`."""

    def test_it_is_a_clock(self) -> None:
        """A method that is missing would be found at midnight."""
        assert isinstance(self.make_clock(), Clock)

    def test_instants_are_whole_microseconds_in_the_calendar(self) -> None:
        """A float, or nanoseconds, would order wrongly in the timeline, far from where it came in."""
        clock = self.make_clock()
        for reading in (clock.now(), clock.wall()):
            assert type(reading) is int
            assert MIN_INSTANT <= reading <= MAX_INSTANT

    def test_a_new_clock_agrees_with_the_wall(self) -> None:
        """`now()` starts from the wall: a clock that counts from boot would put all lists in 1970."""
        clock = self.make_clock()
        assert abs(clock.wall() - clock.now()) < 10 * SECOND_US

    def test_now_never_goes_back(self) -> None:
        """A fire would come twice."""
        clock = self.make_clock()
        readings = [clock.now() for _ in range(1_000)]
        self.pass_time(clock, A_WHILE_US)
        readings.append(clock.now())
        assert readings == sorted(readings)

    def test_now_counts_the_time_that_passes(self) -> None:
        """A clock that runs slow makes everything late."""
        clock = self.make_clock()
        before = clock.now()
        self.pass_time(clock, A_WHILE_US)
        assert clock.now() - before >= A_WHILE_US

    def test_a_wait_until_the_past_or_now_returns_at_once(self) -> None:
        """A dispatcher that sleeps on what is due makes it late, perhaps for ever."""
        clock = self.make_clock()
        until = clock.now()
        assert _ends(lambda: clock.wait(Bell(), until))
        assert _ends(lambda: clock.wait(Bell(), Instant(until - SECOND_US)))

    def test_a_wait_ends_when_its_instant_comes(self) -> None:
        """The one thing that a scheduler asks of a clock."""
        clock = self.make_clock()
        sleeper = _Sleeper(clock, Instant(clock.now() + A_WHILE_US))
        self.pass_time(clock, A_WHILE_US)
        assert sleeper.ended()
        assert sleeper.woken_at >= sleeper.until

    def test_a_ring_ends_a_wait(self) -> None:
        """A task that is scheduled before the one that the dispatcher sleeps for would be late by hours."""
        clock = self.make_clock()
        bell = Bell()
        ended = _started(lambda: clock.wait(bell, Instant(clock.now() + 3_600 * SECOND_US)))
        bell.ring()
        assert ended.wait(PATIENCE_S)

    def test_a_ring_ends_a_wait_without_an_end(self) -> None:
        """The first task of an idle scheduler would never run."""
        clock = self.make_clock()
        bell = Bell()
        ended = _started(lambda: clock.wait(bell, None))
        bell.ring()
        assert ended.wait(PATIENCE_S)

    def test_a_ring_before_the_wait_counts(self) -> None:
        """A ring between the dispatcher's look and its sleep would be lost."""
        clock = self.make_clock()
        for until in (None, Instant(clock.now() + 3_600 * SECOND_US)):
            bell = Bell()
            bell.ring()
            assert _ends(lambda bell=bell, until=until: clock.wait(bell, until))  # type: ignore[misc]

    def test_an_idle_wait_does_not_spin(self) -> None:
        """An idle program would drain the battery."""
        clock = self.make_clock()
        far = Instant(clock.now() + 3_600 * SECOND_US)
        for until in (None, far):
            sleeper = _Sleeper(clock, until)
            self.pass_time(clock, A_WHILE_US)
            sleeper.stop()
            assert sleeper.ended()
            assert sleeper.wakes <= FEW

    def test_the_end_of_a_wait_does_not_spin(self) -> None:
        """A timeout that is rounded down wakes the dispatcher over and over in the last microsecond."""
        clock = self.make_clock()
        sleeper = _Sleeper(clock, Instant(clock.now() + A_WHILE_US))
        self.pass_time(clock, A_WHILE_US)
        assert sleeper.ended()
        assert sleeper.wakes <= FEW

    def test_the_farthest_instant_can_be_waited_for(self) -> None:
        """`at` the year 9999 is longer than the system can sleep: it must not raise."""
        clock = self.make_clock()
        sleeper = _Sleeper(clock, MAX_INSTANT)
        sleeper.stop()
        assert sleeper.ended()
        assert sleeper.error is None

    def test_watching_starts_and_ends_and_starts_again(self) -> None:
        """Each scheduler on the clock watches, and some are made while others end."""
        clock = self.make_clock()
        bell, other = Bell(), Bell()
        for _ in range(2):
            with clock.watch(bell), clock.watch(other):
                sleeper = _Sleeper(clock, Instant(clock.now() + A_WHILE_US), bell)
                self.pass_time(clock, A_WHILE_US)
                assert sleeper.ended()

    def test_now_never_goes_back_between_threads(self) -> None:
        """A worker's start would lie before its due instant."""
        clock = self.make_clock()
        backwards: list[tuple[int, int]] = []

        def read() -> None:
            last = clock.now()
            for _ in range(2_000):
                last, before = clock.now(), last
                if last < before:
                    backwards.append((before, last))

        threads = [_started(read) for _ in range(3)]
        for _ in range(10):
            self.pass_time(clock, 100)
        assert all(ended.wait(PATIENCE_S) for ended in threads)
        assert not backwards


class _Sleeper:
    """A thread that sleeps until `until` as the dispatcher does: wait, look, wait again."""

    def __init__(self, clock: Clock, until: Instant | None, bell: Bell | None = None) -> None:
        self.until = until if until is not None else MAX_INSTANT
        self.wakes = 0
        self.woken_at = MIN_INSTANT
        self.error: Exception | None = None
        self._clock, self._asked, self._bell = clock, until, bell or Bell()
        self._stopped = threading.Event()
        self._ended = _started(self._sleep)

    def stop(self) -> None:
        self._stopped.set()
        self._bell.ring()

    def ended(self) -> bool:
        return self._ended.wait(PATIENCE_S)

    def _sleep(self) -> None:
        try:
            while not self._stopped.is_set() and self._clock.now() < self.until:
                self._clock.wait(self._bell, self._asked)
                self.wakes += 1
            self.woken_at = self._clock.now()
        except Exception as error:  # noqa: BLE001  # The test that started the thread looks at it.
            self.error = error


def _started(call: Callable[[], None]) -> threading.Event:
    """Run `call` in a thread of its own; the event is set when it ends."""
    ended = threading.Event()

    def body() -> None:
        try:
            call()
        finally:
            ended.set()

    threading.Thread(target=body, name="clock-suite", daemon=True).start()
    return ended


def _ends(call: Callable[[], None]) -> bool:
    return _started(call).wait(PATIENCE_S)
