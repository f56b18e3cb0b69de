"""The JSON form of rules: `to_json` writes it, `from_json` reads it, also what earlier versions have written.

Instants and lengths are integers of microseconds, in keys that end in `_us`; wall times are ISO texts, with the zone
beside them. What has its default value is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Never, get_args

from tickless.errors import RuleError, shown
from tickless.instants import MAX_INSTANT, MIN_INSTANT, Instant, datetime_of
from tickless.rules.after import After, Due
from tickless.rules.asking import as_written
from tickless.rules.at import At, at_wall
from tickless.rules.calendars import Calendar
from tickless.rules.combine import Filtered, Shift, Union
from tickless.rules.cron import Cron
from tickless.rules.days import SHORT_NAMES, Dates, Weekdays
from tickless.rules.every import Every
from tickless.rules.rrule import RRule
from tickless.rules.window import Window

if TYPE_CHECKING:
    from tickless.rules import Rule

VERSION = 1
"""Grows when a reader of the former version would misread what is written, not when a kind is added."""

MOST_DEEP = 50
"""A rule of rules of rules: deeper than that is refused, both ways."""


def to_json(rule: Rule) -> dict[str, Any]:
    """The rule as a dict that `json.dumps` takes; `from_json` gives an equal rule. Bound or not.

    Raises RuleError, saying why, for what cannot be written: a rule of your own, or one that is confined to days of a
    foreign object.
    """
    return {"v": VERSION, **_written(rule, 0)}


def from_json(form: object) -> Rule:
    """The rule that `to_json` wrote, in this version or a former one.

    Everything is checked as if it came from a stranger. Raises RuleError for what is no rule: unknown kinds and keys,
    missing ones, values of a wrong type, and what a later version has written.
    """
    if not isinstance(form, dict):
        raise RuleError(f"from_json({shown(form)}): needs a dict, as to_json gives it")
    version = form.get("v")
    if type(version) is not int or version < 1:
        raise RuleError(f'from_json({shown(form)}): "v" is the version of the form, {VERSION}, not {shown(version)}')
    if version > VERSION:
        raise RuleError(
            f"from_json({shown(form)}): a later version of tickless wrote this, form {version}; "
            f"this one reads up to {VERSION}: upgrade it"
        )
    return _read({key: value for key, value in form.items() if key != "v"}, 0)


def _written(rule: Rule, depth: int) -> dict[str, Any]:
    write = _WRITERS.get(type(rule))
    if write is None:
        raise RuleError(
            f"to_json({shown(rule)}): only rules of tickless have a JSON form; "
            "keep your own under a name, and make it anew when it is loaded"
        )
    if depth > MOST_DEEP:
        raise RuleError(f"to_json({shown(rule)}): more than {MOST_DEEP} rules in one another; `|` joins them flat")
    return write(rule, depth)


def _read(form: object, depth: int) -> Rule:
    if depth > MOST_DEEP:
        raise RuleError(f"from_json(...): more than {MOST_DEEP} rules in one another")
    fields = _Fields(form, depth)
    kind = fields.text("kind")
    read = _READERS.get(kind)
    if read is None:
        raise RuleError(f"from_json({shown(form)}): {shown(kind)} is no kind of rule; they are {', '.join(_READERS)}")
    try:
        rule = read(fields)
    except RuleError as error:
        if str(error).startswith("from_json("):
            raise
        raise RuleError(f"from_json({shown(form)}): {error}") from error
    fields.done()
    return rule


class _Fields:
    """What a dict holds, taken out key by key and checked; what is left at the end belongs to no rule."""

    def __init__(self, form: object, depth: int) -> None:
        if not isinstance(form, dict):
            raise RuleError(f"from_json(...): {shown(form)} is no rule; it needs to be a dict")
        self.form: dict[object, object] = form
        self.depth = depth
        self.left = set(form)

    def refuse(self, why: str) -> Never:
        raise RuleError(f"from_json({shown(self.form)}): {why}")

    def _take(self, key: str, kind: type, default: object) -> Any:
        if key not in self.left:
            if default is _NEEDED:
                self.refuse(f'"{key}" is missing')
            return default
        self.left.discard(key)
        value = self.form[key]
        if type(value) is not kind:
            self.refuse(f'"{key}" needs {_TYPES[kind]}, not {shown(value)}')
        return value

    def integer(self, key: str, default: object = ...) -> Any:
        return self._take(key, int, default)

    def flag(self, key: str) -> bool:
        """False where it is left out."""
        value: bool = self._take(key, bool, False)
        return value

    def text(self, key: str, default: object = ...) -> Any:
        return self._take(key, str, default)

    def items(self, key: str, default: object = ...) -> Any:
        return self._take(key, list, default)

    def instant(self, key: str) -> Instant:
        value: int = self.integer(key)
        if not MIN_INSTANT <= value <= MAX_INSTANT:
            self.refuse(f'"{key}" is not within the years 1 to 9999')
        return Instant(value)

    def wall(self, key: str, default: object = ...) -> Any:
        """A naive wall time, or the default."""
        value = self.text(key, default)
        if type(value) is not str:
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.refuse(f'"{key}" needs a time such as "2027-01-01T09:00:00", not {shown(value)}')
        if moment.tzinfo is not None:
            self.refuse(f'"{key}" is a wall time, whose zone stands beside it: {shown(value)} has an offset')
        return moment

    def date(self, value: object, key: str) -> date:
        """One of the items of a list of dates."""
        try:
            return date.fromisoformat(value)  # type: ignore[arg-type]  # TypeError says the same as ValueError here
        except (TypeError, ValueError):
            self.refuse(f'"{key}" needs dates such as "2027-12-25", not {shown(value)}')

    def rule(self, key: str) -> Rule:
        return _read(self._take(key, dict, _NEEDED), self.depth + 1)

    def rules(self, key: str) -> list[Rule]:
        return [_read(part, self.depth + 1) for part in self.items(key)]

    def done(self) -> None:
        """Raises RuleError for keys that nobody took: what they mean would be lost."""
        if self.left:
            names = ", ".join(sorted(map(shown, self.left)))
            self.refuse(f"{names} is no part of this rule; a later version may know it")


_NEEDED = ...
_TYPES: dict[type, str] = {int: "an integer", bool: "true or false", str: "a text", list: "a list", dict: "a rule"}


# One pair for each kind of rule


def _write_after(rule: After, _: int) -> dict[str, Any]:
    return {"kind": "after", "delay_us": rule.delay_us}


def _read_after(fields: _Fields) -> Rule:
    return After(_delta(fields, "delay_us"))


def _write_due(rule: Due, _: int) -> dict[str, Any]:
    return {"kind": "due", "due_us": rule.due}


def _read_due(fields: _Fields) -> Rule:
    return Due(fields.instant("due_us"))


def _write_at(rule: At, _: int) -> dict[str, Any]:
    if rule.local is None:
        return {"kind": "at", "due_us": rule.due}
    # Not the instant: it is looked up anew when it is read, since zones change.
    return {"kind": "at", "local": rule.local.isoformat(), "tz": rule.tz, "gap": rule.gap, "fold": rule.fold}


def _read_at(fields: _Fields) -> Rule:
    if "local" not in fields.left:
        return At(datetime_of(fields.instant("due_us")))
    return at_wall(fields.wall("local"), fields.text("tz"), fields.text("gap", "raise"), fields.text("fold", "first"))


def _write_every(rule: Every, _: int) -> dict[str, Any]:
    form: dict[str, Any] = {"kind": "every", "interval_us": rule.interval_us}
    if rule.sliding:
        form["sliding"] = True
    if rule.first is not None:
        form["anchor_us" if rule.wall else "first_us"] = rule.first
    return form


def _read_every(fields: _Fields) -> Rule:
    interval = _delta(fields, "interval_us")
    if "anchor_us" in fields.left:
        return Every(interval, sliding=fields.flag("sliding"), anchor=datetime_of(fields.instant("anchor_us")))
    rule = Every(interval, sliding=fields.flag("sliding"))
    first = fields.integer("first_us", None)  # may lie past the year 9999: then it never fires
    if first is None:
        return rule
    if first < MIN_INSTANT:
        fields.refuse(f'"first_us" is {shown(first)}, before the year 1')
    return rule.bound(Instant(first - rule.interval_us))


def _write_cron(rule: Cron, _: int) -> dict[str, Any]:
    # gap and fold also where they are the default, which depends on the expression: they are part of what was meant.
    return {"kind": "cron", "expr": rule.expr, "tz": rule.tz, "gap": rule.gap, "fold": rule.fold}


def _read_cron(fields: _Fields) -> Rule:
    return Cron(fields.text("expr"), tz=fields.text("tz"), gap=fields.text("gap", None), fold=fields.text("fold", None))


def _write_calendar(rule: Calendar, _: int) -> dict[str, Any]:
    form: dict[str, Any] = {"kind": "calendar"}
    form |= {"days": rule.days} if rule.days else {"months": rule.months}
    if rule.on:
        form["on"] = [SHORT_NAMES[number] for number in rule.on]
    if rule.start is not None and rule.anchored:
        form["anchor"] = rule.start.isoformat()
    elif rule.at is not None:
        form["at"] = rule.at.isoformat()
    form |= {"tz": rule.tz, "gap": rule.gap, "fold": rule.fold}
    if rule.start is not None and not rule.anchored:
        form["start"] = rule.start.isoformat()
    return form


def _read_calendar(fields: _Fields) -> Rule:
    on, days, weeks = fields.items("on", None), fields.integer("days", None), None
    if on is not None and days is not None:
        weeks, rest = divmod(days, 7)
        if rest:
            fields.refuse(f'"on" needs "days" in whole weeks, not {days}')
        days = None
    rule = Calendar(
        days=days,
        weeks=weeks,
        months=fields.integer("months", None),
        on=on,
        at=fields.text("at", None),
        anchor=fields.wall("anchor", None),
        tz=fields.text("tz"),
        gap=fields.text("gap", None),
        fold=fields.text("fold", None),
    )
    start = fields.wall("start", None)
    if start is None:
        return rule
    if rule.anchored:
        fields.refuse('"start" comes from binding, and a rule with an "anchor" is bound by that')
    if rule.at is not None and start.time() != rule.at:
        fields.refuse(f'"start" is not at {rule.at}, as "at" says')
    return rule._with_start(start)


def _write_rrule(rule: RRule, _: int) -> dict[str, Any]:
    start = rule.start.isoformat()
    return {"kind": "rrule", "rrule": rule.text, "start": start, "tz": rule.tz, "gap": rule.gap, "fold": rule.fold}


def _read_rrule(fields: _Fields) -> Rule:
    return RRule(
        fields.text("rrule"),
        start=fields.wall("start"),
        tz=fields.text("tz"),
        gap=fields.text("gap", None),
        fold=fields.text("fold", None),
    )


def _write_union(rule: Union, depth: int) -> dict[str, Any]:
    return {"kind": "union", "rules": [_written(part, depth + 1) for part in rule.rules]}


def _read_union(fields: _Fields) -> Rule:
    return Union(*fields.rules("rules"))


def _write_filtered(rule: Filtered, depth: int) -> dict[str, Any]:
    form = {"kind": rule.kind, "rule": _written(rule.rule, depth + 1), **_days(rule)}
    return form if rule.shift == "skip" else {**form, "shift": rule.shift}


def _days(rule: Filtered) -> dict[str, Any]:
    days = rule.cal
    if type(days) is Weekdays:
        return {"weekdays": days.text()}
    if type(days) is Dates:
        return {"dates": [day.isoformat() for day in days.days]}
    raise RuleError(
        f"to_json({shown(rule)}): {shown(days)} is an object of your own, or of another package, "
        "which has no JSON form; give the dates themselves, e.g. .not_on(set of dates), or keep the rule under a name"
    )


def _read_filtered(fields: _Fields, kind: Literal["on_days", "not_on"]) -> Rule:
    rule = fields.rule("rule")
    days: Weekdays | Dates
    if "weekdays" in fields.left:
        days = Weekdays(fields.text("weekdays"))
    else:
        days = Dates(fields.date(item, "dates") for item in fields.items("dates"))
    # Checked as it was written, since bound to its day it may have no fire, and was allowed to.
    written = as_written(rule)
    if kind == "on_days":
        return Filtered(written, days, kind).of(rule)
    shift = fields.text("shift", "skip")
    if shift not in get_args(Shift):
        fields.refuse(f'"shift" needs {" or ".join(get_args(Shift))}, not {shown(shift)}')
    return Filtered(written, days, kind, shift).of(rule)


def _write_window(rule: Window, depth: int) -> dict[str, Any]:
    form: dict[str, Any] = {"kind": "window", "rule": _written(rule.rule, depth + 1)}
    ends = (("first_us", rule.first), ("last_us", rule.last))
    return form | {key: at for key, at in ends if at is not None}


def _read_window(fields: _Fields) -> Rule:
    first, last = (fields.instant(key) if key in fields.left else None for key in ("first_us", "last_us"))
    return Window(fields.rule("rule"), first, last)


def _delta(fields: _Fields, key: str) -> timedelta:
    try:
        return timedelta(microseconds=fields.integer(key))
    except OverflowError:
        fields.refuse(f'"{key}" is longer than the calendar (years 1 to 9999)')


_WRITERS: dict[type, Callable[[Any, int], dict[str, Any]]] = {
    After: _write_after,
    Due: _write_due,
    At: _write_at,
    Every: _write_every,
    Cron: _write_cron,
    Calendar: _write_calendar,
    RRule: _write_rrule,
    Union: _write_union,
    Filtered: _write_filtered,
    Window: _write_window,
}
KINDS = tuple(_WRITERS)
"""The classes of rules that have a JSON form."""
_READERS: dict[str, Callable[[_Fields], Rule]] = {
    "after": _read_after,
    "due": _read_due,
    "at": _read_at,
    "every": _read_every,
    "cron": _read_cron,
    "calendar": _read_calendar,
    "rrule": _read_rrule,
    "union": _read_union,
    "on_days": partial(_read_filtered, kind="on_days"),
    "not_on": partial(_read_filtered, kind="not_on"),
    "window": _read_window,
}
