"""`at(datetime)`."""

from __future__ import annotations

import datetime as datetime_module
import pickle
import re
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given

from tests.strategies import NOW, instants
from tickless.errors import RuleError
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant, datetime_of, instant_of
from tickless.rules import at
from tickless.rules.at import at_wall

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


# A wall time of a zone


def test_a_wall_time_of_a_zone_is_kept_as_it_was_written() -> None:
    """09:00 in Berlin stays 09:00 in Berlin when the time-zone database changes."""
    rule = at(datetime(2027, 1, 1, 9), tz="Europe/Berlin")  # noqa: DTZ001  # the zone is beside it
    assert datetime_of(rule.due) == datetime(2027, 1, 1, 8, tzinfo=UTC)
    assert (rule.local, rule.tz) == (datetime(2027, 1, 1, 9), "Europe/Berlin")  # noqa: DTZ001  # as above
    assert rule == at(datetime(2027, 1, 1, 9), tz=BERLIN)  # noqa: DTZ001  # as above
    assert rule != at(datetime(2027, 1, 1, 9, tzinfo=BERLIN))
    assert (rule.wall, rule.recurring) == (True, False)


def test_a_wall_time_that_comes_twice_is_the_first_unless_fold_says_else() -> None:
    """The datetime's own fold says it, too."""
    night = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001  # the zone is beside it
    first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert datetime_of(at(night, tz="Europe/Berlin").due) == first
    assert datetime_of(at(night, tz="Europe/Berlin", fold="last").due) == second
    assert datetime_of(at(night.replace(fold=1), tz="Europe/Berlin").due) == second
    assert datetime_of(at(night.replace(fold=1), tz="Europe/Berlin", fold="first").due) == first
    assert at(night.replace(fold=1), tz="Europe/Berlin") == at(night, tz="Europe/Berlin", fold="last")


def test_a_wall_time_that_does_not_exist_is_refused_unless_gap_says_next() -> None:
    """Half an hour earlier and half an hour later are both wrong, so somebody has to choose."""
    night = datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001  # the zone is beside it
    with pytest.raises(RuleError, match=r"2026-03-29 02:30:00 does not exist in Europe/Berlin.*or gap=\"next\"$"):
        at(night, tz="Europe/Berlin")
    assert datetime_of(at(night, tz="Europe/Berlin", gap="next").due) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    with pytest.raises(RuleError, match="does not exist there, and so would never fire; choose another time"):
        at(night, tz="Europe/Berlin", gap="skip")
    noon = datetime(2026, 3, 29, 12)  # noqa: DTZ001  # as above
    assert at(noon, tz="Europe/Berlin", gap="skip").due == at(noon, tz="Europe/Berlin").due


def test_a_day_that_a_zone_left_out_is_refused_whatever_gap_says() -> None:
    """Samoa had no 30 December 2011."""
    gone = datetime(2011, 12, 30, 12)  # noqa: DTZ001  # the zone is beside it
    with pytest.raises(RuleError, match="does not exist there, and so the zone left out those hours"):
        at(gone, tz="Pacific/Apia", gap="next")
    with pytest.raises(RuleError, match=r"choose another time$"):  # and nothing that is refused then
        at(gone, tz="Pacific/Apia")


def test_at_load_a_wall_time_is_looked_up_in_the_zone_again() -> None:
    """A pickle holds the wall time, not the instant, which may be another one by then."""
    rule = at(datetime(2027, 1, 1, 9), tz="Europe/Berlin")  # noqa: DTZ001  # the zone is beside it
    _, written = rule.__reduce__()
    assert rule.due not in written
    assert pickle.loads(pickle.dumps(rule)) == rule
    aware = at(datetime(2027, 1, 1, 9, tzinfo=BERLIN))
    assert pickle.loads(pickle.dumps(aware)) == aware


def test_at_load_a_wall_time_that_the_zone_has_come_to_skip_fires_after_the_gap() -> None:
    """A task that cannot be loaded is lost; an hour late it is not."""
    night = datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001  # the zone is beside it
    loaded = at_wall(night, "Europe/Berlin", "raise", "first")
    assert datetime_of(loaded.due) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert (loaded.local, loaded.gap) == (night, "raise")
    assert pickle.loads(pickle.dumps(loaded)) == loaded


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: at(datetime(2027, 1, 1, 9)), "is naive; give it a zone, e.g. at(..., tz='Europe/Berlin')"),  # noqa: DTZ001  # that is what it is about
        (lambda: at(datetime(2027, 1, 1, 9, tzinfo=UTC), tz="UTC"), "tz='UTC'): the datetime is aware"),
        (lambda: at(datetime(2027, 1, 1, 9, tzinfo=UTC), gap="next"), "gap='next'): the datetime is aware"),
        (lambda: at(datetime(2027, 1, 1, 9, tzinfo=UTC), fold="last"), "leave fold= out"),
        (lambda: at(datetime(2027, 1, 1), tz="Europe/Belrin"), "did you mean 'Europe/Berlin'"),  # noqa: DTZ001  # with a zone beside it
        (lambda: at(datetime(2027, 1, 1), tz=5), "at(tz=)"),  # type: ignore[arg-type]  # noqa: DTZ001  # likewise
        (lambda: at(datetime(2027, 1, 1), tz="UTC", fold="both"), "it fires once"),  # noqa: DTZ001  # likewise
        (lambda: at(datetime(2027, 1, 1), tz="UTC", gap="later"), "at(gap='later'): needs"),  # type: ignore[arg-type]  # noqa: DTZ001  # likewise
        (lambda: at(datetime(2027, 1, 1), tz="UTC", fold=1), "at(fold=1): needs"),  # type: ignore[arg-type]  # noqa: DTZ001  # likewise
        (lambda: at(datetime(9999, 12, 31, 23), tz="America/New_York"), "is not within the years 1 to 9999"),  # noqa: DTZ001  # likewise
        (lambda: at(datetime(1, 1, 1), tz="Asia/Tokyo"), "is not within the years 1 to 9999"),  # noqa: DTZ001  # likewise
        (lambda: at("2027-01-01", tz="UTC"), "needs a datetime, not '2027-01-01'"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_wall_time_is_refused(call: Callable[[], object], message: str) -> None:
    """By name, with its value and the way out."""
    with pytest.raises(RuleError, match=re.escape(message)):
        call()


def test_the_repr_and_the_words_of_a_wall_time() -> None:
    """The one for Python, the other for people."""
    names = {"at": at, "datetime": datetime_module}
    night = datetime(2026, 3, 29, 2, 30)  # noqa: DTZ001  # the zone is beside it
    rule = at(night, tz="Europe/Berlin", gap="next")
    assert repr(rule) == "at(datetime.datetime(2026, 3, 29, 2, 30), tz='Europe/Berlin', gap='next')"
    assert eval(repr(rule), names) == rule
    assert str(rule) == "once at 2026-03-29 02:30, Europe/Berlin, which does not exist, so at 2026-03-29 03:00"
    plain = at(datetime(2027, 1, 1, 9), tz="+05:45", fold="last")  # noqa: DTZ001  # as above
    assert eval(repr(plain), names) == plain
    assert str(at(datetime(2027, 1, 1, 9), tz="Europe/Berlin")) == "once at 2027-01-01 09:00, Europe/Berlin"  # noqa: DTZ001  # as above
    assert str(at(datetime(2027, 1, 1, 9, tzinfo=UTC))) == "once at 2027-01-01 09:00, UTC"
