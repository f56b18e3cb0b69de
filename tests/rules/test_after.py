"""`after(delay)`."""

from __future__ import annotations

import datetime
from datetime import timedelta

import pytest
from hypothesis import given

from tests.strategies import NOW, spans_us
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, MAX_SPAN_US, Instant
from tickless.rules import after


def test_it_fires_once_so_long_after_it_was_bound() -> None:
    """The delay counts from the submission, not from the start of the process."""
    rule = after(2.5).bound(NOW)
    assert rule.due == NOW + 2_500_000
    assert rule.next_after(NOW) == NOW + 2_500_000
    assert rule.next_after(Instant(NOW + 2_500_000)) is None


def test_bound_again_it_stays_where_it_is() -> None:
    """A restart would begin the delay anew, for ever."""
    rule = after(2.5).bound(NOW)
    assert rule.bound(Instant(NOW + 10**9)) is rule


def test_zero_is_due_at_once() -> None:
    """`after(0)` runs now."""
    assert after(0).bound(NOW).due == NOW


def test_seconds_and_timedelta_are_the_same_rule() -> None:
    """One meaning, two spellings."""
    assert after(90) == after(90.0) == after(timedelta(minutes=1, seconds=30))
    assert hash(after(90)) == hash(after(timedelta(seconds=90)))
    assert after(90) != after(91)


def test_it_counts_elapsed_time() -> None:
    """Setting the wall clock must not move it."""
    for rule in (after(1), after(1).bound(NOW)):
        assert (rule.recurring, rule.wall) == (False, False)


def test_asked_before_it_is_bound_it_says_what_to_do() -> None:
    """A delay alone has no instant; None would mean that it never fires."""
    with pytest.raises(RuleError, match=r"after\(2\.0\) is not bound .* ask after\(2\.0\)\.bound\(now\)"):
        after(2).next_after(NOW)


def test_past_the_year_9999_is_refused_when_it_is_bound() -> None:
    """BUG-006: an overflow may not become a negative due, nor sort first in the timeline."""
    assert after(timedelta(microseconds=1)).bound(Instant(MAX_INSTANT - 1)).due == MAX_INSTANT
    with pytest.raises(RuleError, match=r"after\(1\.0\).*past the year 9999.*shorter delay"):
        after(1).bound(MAX_INSTANT)
    with pytest.raises(RuleError, match="past the year 9999"):
        after(timedelta(days=3_000_000)).bound(NOW)


@pytest.mark.parametrize("name", ["delay_us", "anything"])
def test_it_cannot_be_changed(name: str) -> None:
    """A rule is shared: by tasks, threads, and as a key."""
    with pytest.raises((AttributeError, TypeError)):
        setattr(after(1), name, 5)
    with pytest.raises((AttributeError, TypeError)):
        setattr(after(1).bound(NOW), name, 5)


@given(spans_us(0, MAX_SPAN_US))
def test_its_repr_makes_the_same_rule(delay_us: int) -> None:
    """Also where a float of seconds can no longer tell microseconds apart."""
    rule = after(timedelta(microseconds=delay_us))
    assert eval(repr(rule), {"after": after, "datetime": datetime}) == rule


def test_its_repr_reads_as_it_was_written() -> None:
    """Seconds are what people write."""
    assert repr(after(2.0)) == "after(2.0)"
    bound = after(2.0).bound(NOW)
    assert eval(repr(bound), {"after": after}) == bound
