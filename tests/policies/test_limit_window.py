"""`Limit`: what it refuses, and when its window lets another start."""

from __future__ import annotations

import math
import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policies.test_retry import Foreign, made
from tickless.errors import ScheduleError
from tickless.instants import MAX_INSTANT, SECOND_US, Instant
from tickless.testing.drafts import NOON_US, later
from tickless.values import Limit, free_at, in_window

S = SECOND_US


# What is refused


@pytest.mark.parametrize("name", ["", None, 5, True, b"db", Foreign], ids=lambda value: type(value).__name__)
def test_a_limit_has_a_name(name: Any) -> None:
    """Tasks ask for it by that name."""
    with pytest.raises(ScheduleError, match=r"^Limit\(name=.*\): needs the name that tasks say"):
        Limit(made(name), running=2)


@pytest.mark.parametrize("number", ["running", "starts"])
@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", math.nan, Foreign], ids=lambda value: type(value).__name__)
def test_its_numbers_are_whole_and_at_least_one(number: str, value: Any) -> None:
    """0 would hold every task for ever."""
    with pytest.raises(ScheduleError, match=rf"^Limit\('db', {number}=.*\): needs a whole number, at least 1$"):
        Limit("db", per=1, **{number: made(value)})


BAD_TIMES = [0, 1e-6, 0.0009, -1, timedelta(0), math.nan, math.inf, True, "1", 10**400, Foreign]


@pytest.mark.parametrize("per", BAD_TIMES, ids=lambda value: type(value).__name__)
def test_its_window_is_a_length_of_time(per: Any) -> None:
    """An empty window holds nothing, and so limits nothing."""
    with pytest.raises(ScheduleError, match=r"^Limit\('db', per=.*\): "):
        Limit("db", starts=2, per=made(per))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"^Limit\('db'\): limits nothing yet; give running=, or starts= with per=, or all three$"),
        ({"per": 1}, r"^Limit\('db'\): limits nothing yet; give running=, or starts= with per=, or all three$"),
        ({"starts": 3}, r"^Limit\('db', starts=3\): in which time\? give per= as well, in seconds$"),
        ({"starts": 3, "running": 1}, r"^Limit\('db', starts=3\): in which time\? give per= as well, in seconds$"),
    ],
)
def test_what_limits_nothing_is_refused(given: dict[str, Any], message: str) -> None:
    """It looks like protection, and is none."""
    with pytest.raises(ScheduleError, match=message):
        Limit("db", **given)


@pytest.mark.parametrize(
    ("limit", "most_starts", "per_us"),
    [
        (Limit("db", running=2), None, None),
        (Limit("db", starts=5, per=1), 5, S),
        (Limit("db", running=2, per=timedelta(minutes=1)), 2, 60 * S),
        (Limit("db", 2, 5, 0.001), 5, 1_000),
    ],
)
def test_per_without_starts_counts_as_many_starts_as_may_run(
    limit: Limit, most_starts: int | None, per_us: int | None
) -> None:
    """As the page says, and the value survives its trip through a pickle."""
    for same in (limit, pickle.loads(pickle.dumps(limit))):
        assert (same.most_starts, same.per_us) == (most_starts, per_us)
        assert (same, hash(same)) == (limit, hash(limit))


def test_a_limit_is_equal_to_one_that_means_the_same() -> None:
    """What was given stays to be read."""
    assert Limit("db", starts=5, per=60) == Limit("db", starts=5, per=timedelta(minutes=1))
    assert Limit("db", running=2, per=1) == Limit("db", running=2, starts=2, per=1)
    assert Limit("db", running=2) != Limit("web", running=2)
    assert repr(Limit("db", 2, per=1)) == "Limit(name='db', running=2, starts=None, per=1)"


# The window

LIMITS = st.builds(
    lambda starts, per_us: Limit("db", starts=starts, per=timedelta(microseconds=per_us)),
    st.integers(1, 6),
    st.sampled_from([1_000, 1_001, 5_000, S]),
)
STARTS = st.lists(st.integers(0, 20_000), max_size=12).map(lambda ago: sorted(Instant(NOON_US - us) for us in ago))


@given(STARTS, LIMITS)
def test_what_counts_started_less_than_the_window_ago(starts: list[Instant], limit: Limit) -> None:
    """Exactly that long ago: it has left."""
    assert limit.per_us is not None
    assert in_window(starts, limit.per_us, NOON_US) == sum(NOON_US - start < limit.per_us for start in starts)


@given(STARTS, st.integers(0, 7), LIMITS)
def test_a_start_is_let_at_the_first_instant_at_which_the_window_has_room(
    starts: list[Instant], reserved: int, limit: Limit
) -> None:
    """Not a microsecond before, and not one after: found by trying each instant at which something leaves."""
    assert limit.most_starts is not None
    assert limit.per_us is not None
    per_us, most = limit.per_us, limit.most_starts
    instants = sorted({NOON_US, *(Instant(start + per_us) for start in starts if start + per_us > NOON_US)})
    free = [at for at in instants if sum(at - start < per_us for start in starts) + reserved < most]
    assert free_at(starts, reserved, limit, NOON_US) == (free[0] if free else None)


@given(st.lists(st.sampled_from([0, 1, 999, 1_000, 1_001, 5_000, 400_000]), max_size=60), LIMITS)
def test_no_window_ever_holds_more_starts_than_were_promised(arrivals: list[int], limit: Limit) -> None:
    """Whichever stretch of that length one looks at: an interface that bans on the 61st call of a minute does."""
    assert limit.most_starts is not None
    assert limit.per_us is not None
    starts: list[Instant] = []
    now = NOON_US
    for wait_us in arrivals:
        now = Instant(now + wait_us)
        at = free_at(starts, 0, limit, now)
        assert at is not None
        assert at >= now
        now = at
        starts.append(now)
    for index, start in enumerate(starts):
        inside = [other for other in starts[index:] if other < start + limit.per_us]
        assert len(inside) <= limit.most_starts


def test_without_a_rate_it_is_free_now() -> None:
    """How many run is counted elsewhere."""
    assert free_at([NOON_US] * 50, 9, Limit("db", running=2), NOON_US) == NOON_US


def test_what_is_reserved_takes_its_place_in_the_window() -> None:
    """Two hold their permits and have not started: when they do, the window is full."""
    limit = Limit("db", starts=3, per=10)
    assert free_at([], 2, limit, NOON_US) == NOON_US
    assert free_at([], 3, limit, NOON_US) is None
    assert free_at([later(-4)], 2, limit, NOON_US) == later(6)
    assert free_at([later(-10)], 2, limit, NOON_US) == NOON_US
    assert free_at([later(-9), later(-4)], 2, limit, NOON_US) == later(6)


def test_a_window_past_the_calendar_ends_with_it() -> None:
    """A lifetime's limit: the next start is never."""
    limit = Limit("once", starts=1, per=timedelta(days=3_000_000))
    assert free_at([NOON_US], 0, limit, later(1)) == MAX_INSTANT
