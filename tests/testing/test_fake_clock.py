"""FakeClock: every due instant in order, and nothing between the test's lines but what the test asked for."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickless.bell import Bell
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, SECOND_US, Clock, DrivenClock, Instant, instant_of
from tickless.testing.clock import START, FakeClock
from tickless.testing.clock_suite import ClockSuite

PATIENCE_S = 10.0


class TestFakeClock(ClockSuite):
    def make_clock(self) -> Clock:
        return FakeClock()

    def pass_time(self, clock: Clock, us: int) -> None:
        assert isinstance(clock, FakeClock)
        clock.advance(timedelta(microseconds=us))


class Driver:
    """A dispatcher in small: a heap of instants; each turn takes the due ones and notes when it did."""

    def __init__(self, clock: FakeClock, *after_s: float) -> None:
        self.clock, self.start = clock, clock.now()
        self.heap: list[tuple[int, int, Callable[[], None] | None]] = []
        self.calls: list[tuple[float, float]] = []
        self.turns = 0
        for seconds in after_s:
            self.add(seconds)
        self.end = clock.drive(self.turn)

    def add(self, after_s: float, body: Callable[[], None] | None = None) -> None:
        """An entry that is due so many seconds after the start of the driver."""
        heapq.heappush(self.heap, (self.start + round(after_s * SECOND_US), len(self.heap) + self.turns, body))

    def turn(self) -> Instant | None:
        self.turns += 1
        now = self.clock.now()
        while self.heap and self.heap[0][0] <= now:
            due, _, body = heapq.heappop(self.heap)
            self.calls.append(((due - self.start) / SECOND_US, (self.clock.now() - self.start) / SECOND_US))
            if body is not None:
                body()
        return Instant(self.heap[0][0]) if self.heap else None


def elapsed_s(clock: FakeClock) -> float:
    return (clock.now() - instant_of(START, "START")) / SECOND_US


def test_it_is_a_driven_clock() -> None:
    """The scheduler asks for just this, and starts no thread then."""
    assert isinstance(FakeClock(), DrivenClock)


def test_it_stands_still_by_itself() -> None:
    clock = FakeClock()
    assert {clock.now() for _ in range(100)} == {clock.wall()} == {instant_of(START, "START")}


def test_it_starts_where_it_is_told() -> None:
    start = datetime(2030, 2, 28, 23, 59, tzinfo=UTC)
    assert FakeClock(start).now() == FakeClock(instant_of(start, "start")).now() == instant_of(start, "start")
    assert repr(FakeClock(start)) == "FakeClock(2030-02-28T23:59:00+00:00)"


@pytest.mark.parametrize("start", [datetime(2030, 1, 1), True, 1.5, "2030-01-01", None, MAX_INSTANT + 1])  # noqa: DTZ001  # the point
def test_a_start_that_is_no_instant_is_refused(start: object) -> None:
    with pytest.raises(RuleError, match="FakeClock"):
        FakeClock(start)  # type: ignore[arg-type]


def test_advance_moves_both_clocks_by_just_that_much() -> None:
    clock = FakeClock()
    clock.advance(1.5)
    clock.advance(timedelta(minutes=1))
    clock.advance(0.000001)
    assert elapsed_s(clock) == 61.500001
    assert clock.wall() == clock.now()


def test_advance_stops_at_each_due_instant_in_order() -> None:
    """A test that advances by an hour would see all of its fires late, and at one instant."""
    clock = FakeClock()
    driver = Driver(clock, 3, 1, 2, 2, 10)
    clock.advance(9)
    assert driver.calls == [(1, 1), (2, 2), (2, 2), (3, 3)]
    assert elapsed_s(clock) == 9
    clock.advance(1)
    assert driver.calls[-1] == (10, 10)


def test_what_a_fire_schedules_is_called_in_the_same_advance() -> None:
    """A recurring task, or a chain, would run once for each advance."""
    clock = FakeClock()
    driver = Driver(clock)

    def again(at_s: int = 1) -> None:
        driver.add(at_s + 1, lambda: again(at_s + 1))

    driver.add(1, again)
    clock.advance(5)
    assert driver.calls == [(n, n) for n in (1, 2, 3, 4, 5)]


def test_what_a_fire_schedules_for_now_or_for_the_past_is_called_at_once() -> None:
    clock = FakeClock()
    driver = Driver(clock)

    def schedule() -> None:
        driver.add(2)
        driver.add(1)

    driver.add(2, schedule)
    clock.advance(2)
    assert driver.calls == [(2, 2), (1, 2), (2, 2)]


def test_advance_by_zero_calls_what_is_due_now() -> None:
    """After `schedule(work)` with no time, a test wants it run, not time to pass."""
    clock = FakeClock()
    driver = Driver(clock, 0)
    clock.advance(0)
    assert driver.calls == [(0, 0)]
    assert elapsed_s(clock) == 0


@pytest.mark.parametrize("span", [-1, -0.000001, timedelta(seconds=-1)])
@pytest.mark.parametrize("move", [FakeClock.advance, FakeClock.suspend])
def test_time_does_not_go_back(move: Callable[[FakeClock, object], None], span: object) -> None:
    """The message says how to set the wall clock back, which is what was meant."""
    clock = FakeClock()
    with pytest.raises(RuleError, match="step_wall"):
        move(clock, span)
    assert elapsed_s(clock) == 0


@pytest.mark.parametrize("span", [True, "5", None, float("nan"), float("inf"), 1e30, timedelta.max, Fraction(1, 2)])
@pytest.mark.parametrize("move", [FakeClock.advance, FakeClock.suspend, FakeClock.step_wall])
def test_what_is_no_span_is_refused_and_nothing_moves(move: Callable[[FakeClock, object], None], span: object) -> None:
    clock = FakeClock()
    with pytest.raises(RuleError):
        move(clock, span)
    assert clock.now() == clock.wall() == instant_of(START, "START")
    clock.advance(1)
    assert elapsed_s(clock) == 1


def test_a_step_of_the_wall_leaves_now_and_calls_the_drivers() -> None:
    """`at` and `cron` follow the wall; `after` and `every` do not."""
    clock = FakeClock()
    driver = Driver(clock, 3_600)
    clock.step_wall(3_600)
    assert elapsed_s(clock) == 0
    assert clock.wall() - clock.now() == 3_600 * SECOND_US
    assert driver.turns == 1
    assert driver.calls == []
    clock.step_wall(timedelta(hours=-3))
    assert clock.wall() - clock.now() == -2 * 3_600 * SECOND_US
    assert driver.turns == 2


def test_suspend_does_not_stop_at_what_falls_due_on_the_way() -> None:
    """A laptop does not wake for a task. All of it is late, and found at the resume."""
    clock = FakeClock()
    driver = Driver(clock, 1, 2, 30)
    clock.suspend(10)
    assert driver.calls == [(1, 10), (2, 10)]
    assert elapsed_s(clock) == 10
    assert clock.wall() == clock.now()


def test_a_step_and_a_suspend_ring_the_watched_bells_and_an_advance_does_not() -> None:
    clock, bell = FakeClock(), Bell()
    with clock.watch(bell):
        clock.advance(1)
        assert not bell.wait(0)
        clock.step_wall(-1)
        assert bell.wait(0)
        clock.suspend(1)
        assert bell.wait(0)
    clock.step_wall(1)
    assert not bell.wait(0)


def test_of_several_drivers_the_earliest_is_called_first() -> None:
    """Two schedulers on one clock, with one story between them."""
    clock, story = FakeClock(), []
    one, two = Driver(clock), Driver(clock)
    for seconds in (1, 4, 5):
        one.add(seconds, lambda seconds=seconds: story.append(seconds))  # type: ignore[misc]
    for seconds in (2, 3, 6):
        two.add(seconds, lambda seconds=seconds: story.append(seconds))  # type: ignore[misc]
    clock.advance(6)
    assert story == [1, 2, 3, 4, 5, 6]


def test_work_that_one_driver_gives_to_another_is_called_when_it_is_due() -> None:
    """The first has answered "10" already when the second gives it something for 7: the clock must ask again."""
    clock = FakeClock()
    one, two = Driver(clock, 10), Driver(clock)
    two.add(5, lambda: one.add(7))
    clock.advance(20)
    assert one.calls == [(7, 7), (10, 10)]


def test_a_driver_that_has_ended_is_not_called_any_more() -> None:
    """Also not in the pass in which another one ends it; and ending twice is no error."""
    clock = FakeClock()
    one, two = Driver(clock), Driver(clock, 1, 2)
    one.add(1, lambda: two.end())
    clock.advance(5)
    assert two.calls == []
    two.end()
    clock.advance(5)
    assert two.calls == []


def test_a_driver_may_end_itself_in_its_turn() -> None:
    """`scheduler.close()` from inside a task."""
    clock = FakeClock()
    driver = Driver(clock, 2)
    driver.add(1, lambda: driver.end())
    clock.advance(5)
    assert driver.calls == [(1, 1)]
    assert elapsed_s(clock) == 5


def test_the_time_that_an_inline_body_takes_is_part_of_the_advance() -> None:
    """A body that calls `advance(3)` takes 3 s: what falls due meanwhile is late, as it would be in life."""
    clock = FakeClock()
    driver = Driver(clock, 2, 4, 6)
    driver.add(1, lambda: clock.advance(3))
    clock.advance(10)
    assert driver.calls == [(1, 1), (2, 4), (4, 4), (6, 6)]
    assert elapsed_s(clock) == 10


def test_a_body_that_takes_longer_than_the_advance_ends_later() -> None:
    """Time does not go back to the target; what fell due up to then has been called."""
    clock = FakeClock()
    driver = Driver(clock, 4, 20)
    driver.add(1, lambda: clock.advance(5))
    clock.advance(2)
    assert driver.calls == [(1, 1), (4, 6)]
    assert elapsed_s(clock) == 6


def test_a_body_may_set_the_wall_clock_and_the_drivers_are_asked_again() -> None:
    """The turn that ran the body may have placed its wall entries before the step."""
    clock = FakeClock()
    driver = Driver(clock)
    driver.add(1, lambda: clock.step_wall(-60))
    clock.advance(1)
    assert clock.now() - clock.wall() == 60 * SECOND_US
    quiet = FakeClock()
    same = Driver(quiet, 1)
    quiet.advance(1)
    assert driver.turns == same.turns + 1


def test_what_a_turn_raises_comes_out_of_advance_and_the_clock_still_works() -> None:
    """A test sees the error where it was made, at the instant at which it was made."""
    clock = FakeClock()
    driver = Driver(clock, 3)

    def broken() -> None:
        raise KeyError("broken")

    driver.add(1, broken)
    with pytest.raises(KeyError):
        clock.advance(5)
    assert elapsed_s(clock) == 1
    clock.advance(4)
    assert driver.calls == [(1, 1), (3, 3)]


class CountingBell(Bell):
    """Says when somebody sleeps on it, and counts the rings."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.rings = threading.Event(), 0

    def wait(self, timeout: float | None) -> bool:
        self.entered.set()
        return super().wait(timeout)

    def ring(self) -> None:
        self.rings += 1
        super().ring()


def test_a_sleeping_thread_is_woken_at_its_instant_and_not_at_each_advance() -> None:
    """An advance that wakes everybody would make each thread look, find nothing due, and sleep again."""
    clock, bell = FakeClock(), CountingBell()
    until = Instant(clock.now() + 10 * SECOND_US)
    thread = threading.Thread(target=clock.wait, args=(bell, until), daemon=True)
    thread.start()
    assert bell.entered.wait(PATIENCE_S)
    for _ in range(9):
        clock.advance(1)
    assert bell.rings == 0
    clock.advance(1)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    clock.advance(10)
    assert bell.rings == 1


def test_a_thread_that_advances_while_another_does_waits_for_it() -> None:
    """A turn called by two threads at once would run the same fire twice."""
    clock = FakeClock()
    driver, done, seen = Driver(clock, 2, 3), threading.Event(), []

    def advance() -> None:
        clock.advance(2)
        done.set()

    def body() -> None:
        threading.Thread(target=advance, daemon=True).start()
        seen.append((done.wait(0.05), elapsed_s(clock)))

    driver.add(1, body)
    clock.advance(1)
    assert done.wait(PATIENCE_S)
    assert seen == [(False, 1)]
    assert driver.calls == [(1, 1), (2, 2), (3, 3)]


def test_threads_that_advance_take_turns() -> None:
    """No instant is lost, and none is called twice."""
    clock = FakeClock()
    driver = Driver(clock, *range(1, 401))

    def advance() -> None:
        for _ in range(100):
            clock.advance(1)

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert driver.calls == [(n, n) for n in range(1, 401)]
    assert elapsed_s(clock) == 400


def test_the_end_of_the_calendar_is_an_error_and_not_an_overflow() -> None:
    clock = FakeClock(datetime(9999, 12, 31, tzinfo=UTC))
    with pytest.raises(RuleError, match="calendar"):
        clock.advance(timedelta(days=2))
    with pytest.raises(RuleError, match="calendar"):
        clock.step_wall(timedelta(days=2))
    assert clock.now() == clock.wall()


@given(
    dues=st.lists(st.integers(0, 50), max_size=20),
    moves=st.lists(st.tuples(st.sampled_from(["advance", "suspend", "step_wall"]), st.integers(0, 20)), max_size=10),
)
def test_every_instant_is_called_once_in_order_and_never_early(dues: list[int], moves: list[tuple[str, int]]) -> None:
    """P6 in small: whatever the moves. Under advance alone, never late either."""
    clock = FakeClock()
    driver = Driver(clock, *dues)
    for name, span in moves:
        getattr(clock, name)(span)
    moved = sum(span for name, span in moves if name != "step_wall")
    reached = moved if moves else -1
    assert elapsed_s(clock) == moved
    assert [due for due, _ in driver.calls] == sorted(due for due in dues if due <= reached)
    assert all(at >= due for due, at in driver.calls)
    assert all(one <= other for (_, one), (_, other) in pairwise(driver.calls))
    if all(name != "suspend" for name, _ in moves):
        assert all(at == due for due, at in driver.calls)
