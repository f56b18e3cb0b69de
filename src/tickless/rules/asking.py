"""What any rule must answer, and the functions that ask it and check what it says, since it may be foreign code."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tickless.errors import RuleError, shown
from tickless.instants import MAX_INSTANT, Instant
from tickless.rules.after import After, Due
from tickless.rules.at import At
from tickless.rules.calendars import Calendar
from tickless.rules.combine import Filtered, Union
from tickless.rules.counting import COUNT_LIMIT, newest
from tickless.rules.cron import Cron
from tickless.rules.days import is_plain
from tickless.rules.every import Every
from tickless.rules.rrule import RRule
from tickless.rules.window import Window


@runtime_checkable
class Rule(Protocol):
    """`tickless.testing.RuleSuite` is the contract as tests."""

    @property
    def recurring(self) -> bool:
        """True when it may fire more than once."""

    @property
    def wall(self) -> bool:
        """True: its instants are of the wall clock. False: of elapsed time, `Clock.now()`."""

    def bound(self, now: Instant) -> Rule:
        """The rule fixed to the instant (of its own clock) at which it was scheduled. Binding twice changes nothing.

        A recurring rule is bound again at each finish, which matters to sliding rules alone: they count from there.
        """

    def next_after(self, after: Instant) -> Instant | None:
        """The first fire strictly after `after`, or None when there is none. Pure, and asked of a bound rule only.

        A rule may also have `span`, with the meaning of the function below, where it can count without enumerating.
        """


_OURS = frozenset({At, After, Calendar, Cron, Due, Every, RRule})


def is_ours(rule: object) -> bool:
    """True for the rules of this package: pure and quick, so they may be asked under a lock. Others are foreign."""
    if type(rule) is Union:
        return all(map(is_ours, rule.rules))
    if type(rule) is Filtered:
        # Days that are moved, and moved again, can take a second to find: that is no time to hold a lock.
        slow = rule.shift == "next" and type(rule.rule) is Filtered
        return is_plain(rule.cal) and is_ours(rule.rule) and not slow
    if type(rule) is Window:
        return is_ours(rule.rule)
    if type(rule) is RRule:
        return "SECONDLY" not in rule.text  # some of those take seconds to search
    return type(rule) in _OURS


def as_written(rule: Rule) -> Rule:
    """A bound rule of ours as it was before it was bound, as far as it can be told: calendar intervals know.

    Two rules of the wall clock that are equal so differ at most in when they were scheduled.
    """
    if type(rule) is Calendar:
        return rule.as_written()
    if type(rule) is Union:
        return Union(*map(as_written, rule.rules))
    return rule.of(as_written(rule.rule)) if type(rule) is Filtered or type(rule) is Window else rule


def checked_next(rule: Rule, after: Instant) -> Instant | None:
    """`rule.next_after(after)`, checked. Raises RuleError, naming the rule, when it raises or when it lies.

    A fire must be a plain int, strictly after `after`, and not past the year 9999: anything else would stop the
    timeline or make it spin.
    """
    try:
        fire = rule.next_after(after)
    except Exception as error:  # a rule is foreign code: its failure ends its own task only
        if isinstance(error, RuleError) and is_ours(rule):
            raise  # it says what is wrong: a wall time that does not exist, with gap="raise"
        raise RuleError(f"{shown(rule)}.next_after({after}) raised {shown(error)}") from error
    if fire is None:
        return None
    if type(fire) is not int:
        raise RuleError(f"{shown(rule)}.next_after({after}) gave {shown(fire)}; a fire is a plain int, or None")
    if fire <= after:
        raise RuleError(f"{shown(rule)}.next_after({after}) gave {shown(fire)}; a fire must be strictly after")
    if fire > MAX_INSTANT:
        raise RuleError(f"{shown(rule)}.next_after({after}) gave {shown(fire)}, past the year 9999; give None there")
    return fire


def first_fire(rule: Rule, now: Instant) -> Instant | None:
    """The fire that a bound rule begins with when it is scheduled at `now`, or None when it has none.

    For a recurring rule the first after `now`. A one-shot keeps its instant even when that has passed, since it runs
    now then; one of another make is looked for back to 1970. Raises RuleError as `checked_next` does.
    """
    if type(rule) is Due or type(rule) is At:
        return rule.due
    starts_now = type(rule) is Window and rule.first == now  # a fire at its start counts
    fire = checked_next(rule, Instant(now - 1) if starts_now else now)
    if fire is None and now > 0 and not rule.recurring:
        return checked_next(rule, Instant(0))
    return fire


def span(rule: Rule, after: Instant, until: Instant) -> tuple[int, Instant, Instant] | None:
    """(count, first, last) of the fires of a bound rule in (after, until], or None if there are none.

    First and last are exact. The count is exact where the rule has a `span` of its own, as `every` has; else it is
    exact to 1,000, and 1,000 means "at least". Costs at most 1,000 questions to count and 60 to find the last, however
    long the gap is. Raises RuleError as `checked_next` does.
    """
    if type(rule) is Every or type(rule) is Cron or type(rule) is Due or type(rule) is At:
        return rule.span(after, until)
    if type(rule) is Window:
        if checked_next(rule, after) is None:  # nothing is left within it, whatever the rule would say beyond
            return None
        until = until if rule.last is None else min(until, rule.last)
        return span(rule.rule, min(rule.clipped(after), until), until)
    if getattr(rule, "span", None) is not None:
        return _checked_span(rule, after, until)
    first = last = checked_next(rule, after)
    if first is None or last is None or first > until:
        return None
    for count in range(1, COUNT_LIMIT):
        fire = checked_next(rule, last)
        if fire is None or fire > until:
            return count, first, last
        last = fire
    return COUNT_LIMIT, first, newest(lambda after: checked_next(rule, after), last, until)


def _checked_span(rule: Rule, after: Instant, until: Instant) -> tuple[int, Instant, Instant] | None:
    """The answer of a rule's own `span`, refused where it cannot be true."""
    try:
        answer = rule.span(after, until)  # type: ignore[attr-defined]  # the caller saw that it has one
    except Exception as error:  # a rule is foreign code
        raise RuleError(f"{shown(rule)}.span({after}, {until}) raised {shown(error)}") from error
    if answer is None:
        return None
    plain = type(answer) is tuple and [type(part) for part in answer] == [int, int, int]
    if not plain or answer[0] < 1 or not after < answer[1] <= answer[2] <= until:
        raise RuleError(f"{shown(rule)}.span({after}, {until}) gave {shown(answer)}, not (count, first, last)")
    count, first, last = answer
    return count, first, last
