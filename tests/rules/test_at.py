"""`at(datetime)`."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from tests.strategies import NOW, instants
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant, datetime_of, instant_of
from tickless.rules import at

BERLIN = ZoneInfo("Europe/Berlin")


def test_it_fires_once_at_its_instant() -> None:
    """Strictly after: asked at the instant itself, it has fired."""
    rule = at(datetime_of(NOW))
    assert rule.next_after(Instant(NOW - 1)) == NOW
    assert rule.next_after(NOW) is None


def test_binding_leaves_it_where_it_is_even_in_the_past() -> None:
    """An instant that has passed is kept: the scheduler runs it now, and its name stays the planned instant."""
    rule = at(datetime_of(NOW))
    assert rule.bound(MAX_INSTANT) is rule
    assert (rule.due, rule.recurring, rule.wall) == (NOW, False, True)


def test_the_same_instant_in_two_zones_is_the_same_rule() -> None:
    """A schedule written again in another zone has not changed."""
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert at(noon) == at(noon.astimezone(BERLIN))
    assert hash(at(noon)) == hash(at(noon.astimezone(BERLIN)))


def test_fold_decides_which_pass_of_a_repeated_hour() -> None:
    """Two datetimes of one zone compare equal over the overlap; the instants are an hour apart."""
    first = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    assert at(first).due == instant_of(datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "test")
    assert at(first.replace(fold=1)).due == instant_of(datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "test")


@pytest.mark.parametrize(("fold", "utc_hour"), [(0, 1), (1, 0)])
def test_a_wall_time_that_does_not_exist_warns_and_says_when_it_will_run(fold: int, utc_hour: int) -> None:
    """02:30 on the night in spring: somebody who meant 02:30 learns it now, not that night."""
    with pytest.warns(UserWarning, match=rf"does not exist .* will run at 2026-03-29 0{utc_hour}:30:00 UTC"):
        rule = at(datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN, fold=fold))
    assert rule.due == instant_of(datetime(2026, 3, 29, utc_hour, 30, tzinfo=UTC), "test")


def test_the_warning_names_the_line_that_wrote_the_time() -> None:
    """A warning inside tickless tells nobody which of their schedules it is."""
    with pytest.warns(UserWarning, match="does not exist") as caught:
        at(datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN))
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "when",
    [
        datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=BERLIN),
        datetime(2026, 3, 29, 3, tzinfo=BERLIN),
        datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
        datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_a_wall_time_that_exists_does_not_warn(when: datetime) -> None:
    """Also the edges of a gap, and both passes of an overlap."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at(when)


@given(instants())
def test_its_repr_makes_the_same_rule(instant: Instant) -> None:
    """What a log shows can be pasted into a shell."""
    import datetime

    rule = at(datetime_of(instant))
    assert eval(repr(rule), {"at": at, "datetime": datetime}) == rule


@pytest.mark.parametrize("edge", [MIN_INSTANT, MAX_INSTANT])
def test_the_edges_of_the_calendar_are_instants_like_others(edge: Instant) -> None:
    """`datetime.max` is what people write for "never", and `datetime.min` for "long ago"."""
    rule = at(datetime_of(edge))
    assert rule.next_after(Instant(edge - 1)) == edge
    assert repr(rule)
