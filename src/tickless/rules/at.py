"""`at(datetime)`: one fire, at an instant of the wall clock; or at a wall time of a zone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timezone, tzinfo
from typing import Any, final

from tickless.errors import RuleError, shown
from tickless.instants import Instant, datetime_of, instant_of
from tickless.rules.combine import not_on, on_days, union, union_reversed
from tickless.rules.walls import choices_text, choices_words, fold_choice, gap_choice, wall_near, zone_named
from tickless.rules.zones import DATE_LINE_US, Fold, Gap, MissingTime, gap_at, instants_at, zone_name, zone_of


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class At:
    """One fire at an aware datetime, on the wall clock: when the clock is set, it moves with it.

    A past instant is allowed: it runs now. Two rules of the same instant are equal, whatever zones they were given in.
    A wall time that its zone passes twice is the pass that `fold` says; one that it skips (clocks put forward) follows
    Python's fold rules, and warns. Raises RuleError for a naive datetime, and for years beyond 1 to 9999 in UTC.

    `at(naive, tz="Europe/Berlin")` keeps wall time and zone, and looks the instant up again whenever it is loaded,
    since governments change zones. A wall time that comes twice is the first one, or what `fold=`, or else the
    datetime's own fold, says. One that does not exist is refused, unless gap="next" takes the first instant after the
    gap; one that a later time-zone database skips is taken there whatever `gap` says, so that no fire is lost at load.
    """

    due: Instant
    local: datetime | None
    """The wall time that was given, naive; None: an instant was given."""
    tz: str | None
    gap: Gap
    fold: Fold
    recurring = False
    wall = True

    def __init__(
        self,
        when: datetime,
        *,
        tz: str | tzinfo | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        naive = _is_naive(when)
        if naive and tz is None:
            raise RuleError(f"at(datetime): {shown(when)} is naive; give it a zone, e.g. at(..., tz='Europe/Berlin')")
        if naive:
            local = datetime.combine(when.date(), when.time())
            _fill(self, *_resolved(local, zone_of(tz, "at(tz=)"), gap, fold))
            return
        due = instant_of(when, "at(datetime)")
        for name, value in (("tz", tz), ("gap", gap), ("fold", fold)):
            if value is not None:
                raise RuleError(
                    f"at({shown(when)}, {name}={shown(value)}): the datetime is aware, so its instant is fixed; "
                    f"leave {name}= out, or give the wall time without a zone"
                )
        if type(when.tzinfo) is not timezone and not _exists(when):
            warnings.warn(
                f"at({shown(when)}): this wall time does not exist in its zone, where clocks are put forward over it; "
                f"it will run at {datetime_of(due):%Y-%m-%d %H:%M:%S} UTC",
                stacklevel=2,
            )
        _fill(self, due, None, None, "raise", "first")

    def bound(self, now: Instant) -> At:
        """Itself: an instant is fixed as it stands."""
        return self

    def next_after(self, after: Instant) -> Instant | None:
        """The instant while `after` is before it, then None."""
        return self.due if after < self.due else None

    def span(self, after: Instant, until: Instant) -> tuple[int, Instant, Instant] | None:
        """(1, due, due) when it lies in (after, until], else None."""
        return (1, self.due, self.due) if after < self.due <= until else None

    __or__ = union
    __ror__ = union_reversed
    on_days = on_days
    not_on = not_on

    def __reduce__(self) -> tuple[Callable[..., At], tuple[Any, ...]]:
        """Pickled as it is written: a wall time is looked up again where it is loaded."""
        if self.local is None:
            return _at_instant, (self.due,)
        return at_wall, (self.local, self.tz, self.gap, self.fold)

    def __repr__(self) -> str:
        if self.local is None:
            return f"at({datetime_of(self.due)!r})"
        return f"at({self.local!r}, tz={self.tz!r}{choices_text(self.gap, 'raise', self.fold, 'first')})"

    def __str__(self) -> str:
        if self.local is None or self.tz is None:
            return f"once at {_text(datetime_of(self.due).replace(tzinfo=None))}, UTC"
        words = f"once at {_text(self.local)}, {self.tz}"
        there = wall_near(self.due, zone_named(self.tz))
        if there != self.local:
            return f"{words}, which does not exist, so at {_text(there)}"
        return words + choices_words("raise", "raise", self.fold, "first")


at = At


def at_wall(local: datetime, tz: str, gap: Gap, fold: Fold) -> At:
    """The rule of a naive wall time as it was stored, its instant looked up in the zone database of today.

    Unlike `at`, it takes one that the zone has come to skip: then its instant is the end of the gap.
    """
    try:
        return At(local, tz=tz, gap=gap, fold=fold)
    except RuleError:
        zone = zone_of(tz, "at(tz=)")
        missing = gap_at(local, zone)
        if missing is None:
            raise
        rule: At = object.__new__(At)
        _fill(rule, missing[0], local, zone_name(zone), gap, fold)
        return rule


def _at_instant(due: Instant) -> At:
    return At(datetime_of(due))


def _fill(rule: At, due: Instant, local: datetime | None, tz: str | None, gap: Gap, fold: Fold) -> None:
    """The one place that writes the fields of a frozen rule."""
    for name, value in (("due", due), ("local", local), ("tz", tz), ("gap", gap), ("fold", fold)):
        object.__setattr__(rule, name, value)


def _resolved(
    local: datetime, zone: tzinfo, gap: Gap | None, fold: Fold | None
) -> tuple[Instant, datetime, str, Gap, Fold]:
    """The fields of a rule that was given as a wall time."""
    gap = gap_choice(gap, "raise", "at")
    fold = fold_choice(fold, "last" if local.fold else "first", "at")
    if fold == "both":
        raise RuleError(
            'at(fold="both"): it fires once; choose "first" or "last", or combine the two: at(...) | at(...)'
        )
    local = local.replace(fold=0)
    name = zone_name(zone)
    found = instants_at(local, zone, "skip" if gap == "raise" else gap, fold)
    if found:
        return found[0], local, name, gap, fold
    missing = gap_at(local, zone)
    if missing is not None and gap == "raise":
        better = ', or gap="next"' if missing[1] < DATE_LINE_US else ""
        raise MissingTime(
            f"{local:%Y-%m-%d %H:%M:%S} does not exist in {name}, where clocks are put forward over it; "
            f"choose another time{better}",
            local,
            missing[0],
        )
    if missing is None:
        raise RuleError(f"at({local!r}, tz={name!r}): is not within the years 1 to 9999 in UTC; choose a nearer time")
    why = "would never fire" if gap == "skip" else "the zone left out those hours, and nothing can be due in them"
    raise RuleError(f"at({local!r}, tz={name!r}, gap={gap!r}): does not exist there, and so {why}; choose another time")


def _is_naive(when: object) -> bool:
    return isinstance(when, datetime) and when.tzinfo is None


def _exists(when: datetime) -> bool:
    """False for a wall time that its zone skips: there and back by UTC gives another one. Overlaps come back whole."""
    back = when.astimezone(UTC).astimezone(when.tzinfo)
    return back.replace(tzinfo=None) == when.replace(tzinfo=None)


def _text(wall: datetime) -> str:
    return wall.isoformat(" ", "auto" if wall.second or wall.microsecond else "minutes")
