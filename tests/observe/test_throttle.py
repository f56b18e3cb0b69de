"""The throttle: few lines, and nothing lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.observe.observers import event
from tickless.observe.throttle import Line, Throttle
from tickless.records import EventKind

FAILED = EventKind.FAILED


def test_the_lines_of_one_key_come_ever_rarer() -> None:
    """The silence doubles from one minute to an hour: a day of an error each second is 29 lines, not 86,400."""
    throttle = Throttle()
    at_minutes = [at_s / 60 for at_s in range(86_400) for _ in throttle.add("key", event(FAILED, at_s))]
    assert at_minutes[:8] == [0, 1, 3, 7, 15, 31, 63, 123]
    assert len(at_minutes) == 29


def test_a_key_that_was_quiet_for_ten_minutes_is_new() -> None:
    """A nightly task that fails each night shows its traceback each night."""
    throttle = Throttle()
    assert throttle.add("key", event(FAILED, 0))[0].fresh
    assert throttle.add("key", event(FAILED, 599)) == [Line(event(FAILED, 599), 0, fresh=False)]
    assert throttle.add("key", event(FAILED, 610)) == []
    assert throttle.add("key", event(FAILED, 1210)) == [Line(event(FAILED, 1210), 1, fresh=True)]


def test_an_event_brings_along_what_is_overdue_of_others() -> None:
    """A task that failed for a while and then stopped would keep its count to itself until the end."""
    throttle = Throttle()
    throttle.add("a", event(FAILED, 0, "a"))
    throttle.add("a", event(FAILED, 1, "a"))
    throttle.add("a", event(FAILED, 2, "a"))
    assert throttle.add("b", event(FAILED, 61, "b")) == [
        Line(event(FAILED, 61, "b"), 0, fresh=True),
        Line(event(FAILED, 2, "a"), 1, fresh=False),
    ]


def test_a_clock_of_another_time_makes_all_new() -> None:
    """An observer used in a simulation of next year, and then in life, must not be silent for a year."""
    throttle = Throttle()
    throttle.add("key", event(FAILED, 1_000_000))
    assert throttle.add("key", event(FAILED, 0))[0].fresh


def test_keys_are_forgotten_past_the_limit_and_give_their_line_first() -> None:
    """A million tasks that fail once each must not be remembered for ever."""
    throttle = Throttle(most_keys=2)
    throttle.add("a", event(FAILED, 0, "a"))
    throttle.add("a", event(FAILED, 1, "a"))
    throttle.add("b", event(FAILED, 2, "b"))
    assert throttle.add("c", event(FAILED, 3, "c"))[1:] == [Line(event(FAILED, 1, "a"), 0, fresh=False)]
    assert throttle.add("a", event(FAILED, 4, "a"))[0].fresh
    assert throttle.flush() == []


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(-700, 4_000), st.integers(1, 5)), max_size=80),
    st.integers(1, 5),
)
def test_lines_add_up_to_the_events(steps: list[tuple[str, int, int]], most_keys: int) -> None:
    """Whatever comes when, each event is in a line or counted in one, once."""
    throttle = Throttle(most_keys)
    at_s, given_count, lines = 0, 0, []
    for key, later_s, count in steps:
        at_s += later_s
        given_count += count
        lines += throttle.add(key, event(FAILED, at_s, key, count=count))
    lines += throttle.flush()
    assert sum(line.event.count + line.unlogged for line in lines) == given_count
    assert all(line.unlogged >= 0 for line in lines)
    assert throttle.flush() == []
