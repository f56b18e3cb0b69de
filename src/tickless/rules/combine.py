"""Rules of rules: `a | b` fires when any of them does; `.on_days(cal)` and `.not_on(cal)` look at the day of a fire.

Only rules of the wall clock combine: one rule, one clock. The functions below are the methods of every such rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import TYPE_CHECKING, Literal, NamedTuple, Never, final

from tickless.errors import RuleError, shown
from tickless.instants import MIN_INSTANT, Instant
from tickless.rules.days import DAY, Dates, Days, days_of, first_in, first_out, is_plain
from tickless.rules.walls import day_begin, wall_near, zone_named
from tickless.rules.zones import MissingTime, instants_at, stretch_of, zone_name, zone_of

if TYPE_CHECKING:
    from tickless.rules.asking import Rule

Shift = Literal["skip", "next"]

MOST_DAYS = 18_263
"""50 years. Where no fire falls on a day that may be for so long, the rule has no more."""
MOST_SHIFT_DAYS = 366
"""A fire is moved by no more days than that; else it is dropped."""


def union(rule: Rule, other: Rule) -> Union:
    """`rule | other`: fires whenever one of them does; once, where both do.

    Raises RuleError for rules of elapsed time.
    """
    return Union(rule, other) if _is_rule(other) else NotImplemented


def union_reversed(rule: Rule, other: Rule) -> Union:
    """`other | rule`, where `other` is a rule of somebody else's that has no `|` of its own."""
    return Union(other, rule) if _is_rule(other) else NotImplemented


def on_days(rule: Rule, cal: object) -> Union | Filtered:
    """The fires of the rule whose day is in `cal`: `weekdays("mon-fri")`, a set of dates, anything with `date in cal`.

    The day is that of the rule's zone; of UTC for rules that have none. Raises RuleError for rules of elapsed time,
    for what is no set of days, and for a rule that would then never fire.
    """
    return _filtered(rule, cal, "on_days", "skip")


def not_on(rule: Rule, cal: object, shift: Shift = "skip") -> Union | Filtered:
    """The fires of the rule whose day is not in `cal`. shift="next" moves the others to the next day that is not.

    There they fire at the same time of day: the first instant after a gap, the first pass of an overlap; once, where
    the rule fires then already. One that would be moved by more than 366 days is dropped. Raises as `on_days` does.
    """
    if type(shift) is not str or shift not in ("skip", "next"):
        raise RuleError(f'.not_on(shift={shown(shift)}): needs "skip" or "next"')
    return _filtered(rule, cal, "not_on", shift)


def _refuse_elapsed(rule: object) -> Never:
    """Raise RuleError, which says what to write instead."""
    raise RuleError(
        f"{shown(rule)}: counts elapsed time, and only rules of the wall clock combine, since a rule has one clock; "
        f'every(...) is on the wall clock with anchor="epoch" or a datetime, and after(...) can be at(datetime)'
    )


class _NeverFires(RuleError):
    """No fire of a rule is left. A union may have others."""


def _is_rule(thing: object) -> bool:
    return callable(getattr(thing, "next_after", None)) and not isinstance(thing, type)


def _filtered(rule: Rule, cal: object, kind: Literal["on_days", "not_on"], shift: Shift) -> Union | Filtered:
    cal = days_of(cal, f".{kind}()")
    if type(rule) is not Union:
        return Filtered(rule, cal, kind, shift)
    # In a union each part has its own zone, and so its own days. One that has no fire left is none any more.
    parts: list[Rule] = []
    refusal = None
    for part in rule.rules:
        try:
            parts.append(_filtered(part, cal, kind, shift))
        except _NeverFires as error:
            refusal = error
    if not parts and refusal is not None:
        raise refusal
    return Union(*parts) if len(parts) > 1 else parts[0]  # type: ignore[return-value]  # what _filtered gave


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Union:
    """`a | b`: fires whenever any of its rules does, and once where several do. Its rules are of the wall clock."""

    rules: tuple[Rule, ...]
    recurring = True
    wall = True

    def __init__(self, *rules: Rule) -> None:
        flat: list[Rule] = []
        for rule in rules:
            if not _is_rule(rule):
                raise RuleError(f"a | b: needs rules, e.g. cron('0 9 * * *'), not {shown(rule)}")
            if not rule.wall:
                _refuse_elapsed(rule)
            flat += rule.rules if type(rule) is Union else (rule,)
        if not flat:
            raise RuleError("a | b: needs at least one rule")
        object.__setattr__(self, "rules", tuple(flat))

    def bound(self, now: Instant) -> Union:
        """The union of its rules, each bound; itself, where that changes nothing."""
        rules = [rule.bound(now) for rule in self.rules]
        return self if all(new is old for new, old in zip(rules, self.rules, strict=True)) else Union(*rules)

    def next_after(self, after: Instant) -> Instant | None:
        """The earliest of the next fires of its rules, or None when none has any. Costs as much as all of them."""
        first, refusal = None, None
        for rule in self.rules:
            try:
                fire = rule.next_after(after)
            except MissingTime as missing:
                refusal = missing if refusal is None or missing.end < refusal.end else refusal
            else:
                first = fire if first is None or (fire is not None and fire < first) else first
        if refusal is not None and (first is None or refusal.end <= first):
            raise refusal
        return first

    __or__ = union
    __ror__ = union_reversed
    on_days = on_days
    not_on = not_on

    def __reduce__(self) -> tuple[type[Union], tuple[Rule, ...]]:
        """Pickled as it is written."""
        return Union, self.rules

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.rules)) if len(self.rules) > 1 else f"Union({self.rules[0]!r})"

    def __str__(self) -> str:
        return "; and ".join(map(str, self.rules))


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Filtered:
    """`rule.on_days(cal)`, `rule.not_on(cal, shift=)`: the fires of a rule, by the day that they fall on.

    A set of days that is not of this package is foreign code: it is asked without any lock held, day by day, and a
    rule with it counts as changed at every update. Two such rules are equal if their sets of days say so.
    """

    rule: Rule
    cal: Days
    kind: Literal["on_days", "not_on"]
    shift: Shift
    tz: str
    """The zone whose days count."""
    wall = True

    def __init__(self, rule: Rule, cal: Days, kind: Literal["on_days", "not_on"], shift: Shift = "skip") -> None:
        if not rule.wall:
            _refuse_elapsed(rule)
        _fill(self, rule, cal, kind, shift, _tz_of(rule))
        # A set of days of somebody else's may begin late: only of ours it is known that they never come.
        if is_plain(cal) and rule.bound(Instant(0)) is rule and self._never():
            raise _NeverFires(f"{self!r}: never fires, since no fire of the rule is left")

    @property
    def recurring(self) -> bool:
        """That of the rule."""
        return self.rule.recurring

    def bound(self, now: Instant) -> Filtered:
        """The same with its rule bound; itself, where that changes nothing."""
        return self.of(self.rule.bound(now))

    def next_after(self, after: Instant) -> Instant | None:
        """The first fire left that is strictly after `after`, or None when there is none within 50 years.

        Costs a question to the rule for each run of days that are left out, and of days of somebody else's one
        question a day.
        """
        return self._shifted(after) if self.shift == "next" else self._kept(after)

    def of(self, rule: Rule) -> Filtered:
        """The same of the rule in another state, bound or not."""
        return self if rule is self.rule else _again(rule, self.cal, self.kind, self.shift, self.tz)

    __or__ = union
    __ror__ = union_reversed
    on_days = on_days
    not_on = not_on

    def _wanted(self, day: date) -> date | None:
        """The first day from `day` on that is left."""
        return (first_in if self.kind == "on_days" else first_out)(self.cal, day, MOST_DAYS)

    def _never(self) -> bool:
        after = Instant(-1)
        try:
            if self.rule.next_after(after) is None:
                after = Instant(MIN_INSTANT - 1)
            if type(self.cal) is Dates and self.kind == "on_days":
                if not self.cal.days:
                    return True
                after = Instant(day_begin(self.cal.days[0], zone_named(self.tz)) - 1)
            return self.next_after(after) is None
        except MissingTime:  # gap="raise": an error when its turn comes, and it is a fire
            return False

    def _next(self, after: Instant, over: MissingTime | None = None) -> _Own | None:
        """The rule's own next fire, whatever its day: strictly after `after`, also at the end of a gap `over`."""
        zone = zone_named(self.tz)
        if over is not None and after <= over.end:
            after = over.end
            if _without_gaps(self.rule).next_after(Instant(after - 1)) == after:
                return _Own(after, wall_near(after, zone), _day_to_come(after, zone), None)
        try:
            fire = self.rule.next_after(after)
        except MissingTime as missing:
            return _Own(missing.end, missing.wall, missing.wall.date(), missing)
        return None if fire is None else _Own(fire, wall_near(fire, zone), _day_to_come(fire, zone), None)

    def _kept(self, after: Instant) -> Instant | None:
        zone = zone_named(self.tz)
        own = self._next(after)
        first = None
        while own is not None:
            day = own.wall.date()
            first = first or day
            wanted = self._wanted(day)
            if wanted == day:
                return own.taken()
            begin = None if wanted is None or (day - first).days > MOST_DAYS else day_begin(wanted, zone)
            if own.to_come < day:
                back = Instant(stretch_of(own.fire, zone).end)
                begin = back if begin is None else min(begin, back)
            if begin is None:
                return None
            own = self._next(Instant(max(own.fire, begin - 1)), own.missing)
        return None

    def _shifted(self, after: Instant) -> Instant | None:
        """Day by day, since what is moved lands on the day after those that are left out."""
        zone = zone_named(self.tz)
        day = self._wanted(_day_to_come(after, zone))
        first = None
        while day is not None:
            fire = self._earliest(day, after)
            if day == date.max:
                return fire
            following = Instant(day_begin(day + DAY, zone) - 1)
            if fire is not None:
                # Clocks that are put back over midnight: the day after begins before this one has ended.
                early = self._earliest(day + DAY, after) if following < fire and day + DAY not in self.cal else None
                return fire if early is None else min(fire, early)
            later = self._next(following)
            if later is None:
                return None
            following_day = max(later.wall.date(), day + DAY)
            first = first or following_day
            if (following_day - first).days > MOST_DAYS:
                return None
            day = self._wanted(following_day)
        return None

    def _earliest(self, day: date, after: Instant) -> Instant | None:
        """The earliest fire on a day that is left, strictly after `after`: one of its own, or one that is moved."""
        zone = zone_named(self.tz)
        moved = min(self._moved_to(day, after), default=None)
        own = self._next(Instant(max(after, day_begin(day, zone) - 1)))
        while own is not None and own.to_come <= day:
            if own.wall.date() == day:
                return moved if moved is not None and moved < own.fire else own.taken()
            own = self._next(own.fire, own.missing)
        return moved

    def _moved_to(self, day: date, after: Instant) -> Iterator[Instant]:
        """Of each day that is left out right before `day` the earliest fire that lands strictly after `after`."""
        zone = zone_named(self.tz)
        origin = day
        while origin > date.min and (day - origin).days < MOST_SHIFT_DAYS and origin - DAY in self.cal:
            origin -= DAY
        wall = wall_near(after, zone)
        while origin < day:
            begin = day_begin(origin, zone)
            if wall.date() == day:  # what is earlier in the day has been
                here = instants_at(datetime.combine(origin, wall.time()), zone, "next", "first")
                begin = here[0] if here else begin
            own = self._next(Instant(begin - 1))
            while own is not None and own.to_come <= origin:
                landed = instants_at(datetime.combine(day, own.wall.time()), zone, "next", "first")
                if own.wall.date() == origin and landed and landed[0] > after:
                    yield landed[0]
                    break
                own = self._next(own.fire, own.missing)
            origin += DAY

    def __reduce__(self) -> tuple[Callable[..., Filtered], tuple[object, ...]]:
        """Pickled as plain values, so that later versions can read what this one wrote."""
        return _again, (self.rule, self.cal, self.kind, self.shift, self.tz)

    def __hash__(self) -> int:
        try:
            days = hash(self.cal)
        except TypeError:  # an object with `date in cal` need not be hashable
            days = hash(type(self.cal))
        return hash((self.rule, self.kind, self.shift, days))

    def __repr__(self) -> str:
        shift = ", shift='next'" if self.shift == "next" else ""
        return f"{self.rule!r}.{self.kind}({self.cal!r}{shift})"

    def __str__(self) -> str:
        days = str(self.cal) if is_plain(self.cal) else f"the days of {_foreign_name(self.cal)}"
        if self.kind == "on_days":
            return f"{self.rule}, only on {days}"
        if self.shift == "next" and type(self.rule) is Filtered:  # the filters inside do not look at where it lands
            return f"{self.rule}, then moved off {days} to the next other day, whatever day that is"
        return f"{self.rule}, not on {days}" + (" but on the next other day" if self.shift == "next" else "")


class _Own(NamedTuple):
    """A fire of the rule that is filtered, its wall time, and the earliest day that it or a later one has."""

    fire: Instant
    wall: datetime
    to_come: date
    missing: MissingTime | None
    """Its wall time does not exist, and `fire` is the end of the gap: an error, if it is this fire's turn."""

    def taken(self) -> Instant:
        if self.missing is not None:
            raise self.missing
        return self.fire


def _foreign_name(cal: Days) -> str:
    """What stands for it in words. Calendars of holidays are dicts, and would show every date they were asked about."""
    return type(cal).__name__ if hasattr(type(cal), "__iter__") else shown(cal)


def _without_gaps(rule: Rule) -> Rule:
    """The rule, which has gap="raise", with gap="skip"; a foreign one as it is."""
    if type(rule) is Filtered:
        return rule.of(_without_gaps(rule.rule))
    if type(rule) is Union:
        return Union(*map(_without_gaps, rule.rules))
    made: Rule = rule.without_gaps() if hasattr(rule, "without_gaps") else rule
    return made


def _day_to_come(instant: Instant, zone: tzinfo) -> date:
    """The earliest day that the instant or a later one has.

    It is not that of the instant, where clocks are put back over midnight, and bring back the day before.
    """
    day = wall_near(instant, zone).date()
    part = stretch_of(instant, zone)
    return min(day, wall_near(Instant(part.end), zone).date()) if part.after_us < part.offset_us else day


def _again(*values: object) -> Filtered:
    """A rule of the values of its fields, which have been checked before."""
    filtered: Filtered = object.__new__(Filtered)
    _fill(filtered, *values)
    return filtered


def _fill(filtered: Filtered, *values: object) -> None:
    """The one place that writes the fields of a frozen rule."""
    for name, value in zip(Filtered.__slots__, values, strict=True):
        object.__setattr__(filtered, name, value)


def _tz_of(rule: Rule) -> str:
    """The name of the zone whose days count: the rule's own, or UTC."""
    tz = getattr(rule, "tz", None)
    return "UTC" if tz is None else zone_name(zone_of(tz, f"the zone of {shown(rule)}"))
