"""`tickless preview EXPR`: when a rule fires next, what is unusual about it, and how it differs from another one."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timezone, tzinfo
from typing import Any

import click

from tickless.cli.moments import instant_said
from tickless.cli.settings import settings
from tickless.clocks import SystemClock
from tickless.errors import RuleError, TextError
from tickless.instants import SECOND_US, Instant, datetime_of, instant_of
from tickless.observe.text import printable
from tickless.rules import Every, Rule
from tickless.rules.forms import to_json
from tickless.rules.notes import offset_text, zone_shown
from tickless.rules.preview import Count, Fire, clock_changes, fires_in_year, lies_beyond, upcoming
from tickless.rules.text import parse
from tickless.rules.zones import naive_of, wall_of, zone_name, zone_of

FINE, USAGE = 0, 2
DEFAULT_COUNT, DEFAULT_UNTIL, MOST_COUNT = 10, 1_000, 10_000
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

EPILOG = """\b
examples:
  tickless preview "30 2 * * *" --tz Europe/Berlin
  tickless preview "every 2 weeks on mon at 09:00 Europe/Paris" -n 5
  tickless preview "every 90m" --from 2027-03-28T00:00 --until 2027-03-29
  tickless preview "*/15 9-17 * * mon-fri" --compare "0 9-17 * * 1-5"
  tickless preview tasks.toml
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was said on the command line, as it was written."""

    expr: tuple[str, ...]
    tz: str | None
    count: int | None
    start: str | None
    until: str | None
    compare: str | None
    json: bool


@click.command(epilog=EPILOG)
@click.argument("expr", nargs=-1, required=True, metavar="EXPR|FILE")
@click.option(
    "-n", "count", type=int, help=f"How many fires; {DEFAULT_COUNT}, or {DEFAULT_UNTIL:,} with --until.", metavar="N"
)
@click.option("--from", "start", metavar="TIME", help="Fires after this; now.")
@click.option("--until", metavar="TIME", help="Fires up to this, itself included.")
@click.option("--compare", metavar="EXPR", help="Another rule, side by side with the first.")
def preview(expr: tuple[str, ...], count: int | None, start: str | None, until: str | None, compare: str | None) -> int:
    """Show when a rule fires next, and what is unusual about it: wall times that do not exist or come twice.

    Of a task file or a crontab the next fires of all its tasks. Nothing is run. Without --tz it is UTC.
    """
    said = settings()
    wanted = Wanted(expr, said.tz, count, start, until, compare, said.json)
    if len(expr) == 1 and os.path.isfile(expr[0]):
        from tickless.cli.timetable import timetable

        return timetable(wanted)
    return run(wanted)


@dataclass(frozen=True, slots=True)
class Asked:
    """The question: what the arguments say, checked. `until` is inclusive, `start` exclusive."""

    text: str
    rule: Rule
    zone: tzinfo
    start: Instant
    until: Instant | None
    count: int


@dataclass(frozen=True, slots=True)
class Shown:
    """The answer for one rule."""

    asked: Asked
    fires: list[Fire]
    more: bool
    """There are fires beyond those listed, up to `until`."""
    failure: str | None
    """Why there is no next fire: the rule refused to give one (gap="raise")."""
    per_year: Count | None
    """The fires in the 365 days after `start`; None where the rule refuses to give them all."""

    def known_to(self) -> Instant | None:
        """Up to when all its fires are listed; None: to the end. A sliding rule's later ones nobody knows yet."""
        rule = self.asked.rule
        if not self.more and self.failure is None and not (type(rule) is Every and rule.sliding):
            return None
        return instant_of(self.fires[-1].due, "fire") if self.fires else self.asked.start


def run(arguments: Wanted) -> int:
    """The whole command, for what was said. Gives the exit code."""
    now = Instant(SystemClock().wall() // SECOND_US * SECOND_US)
    try:
        asked = _asked(arguments, " ".join(arguments.expr), now)
        first = _answer(asked)
        second = None
        if arguments.compare is not None:
            second = _answer(_asked(arguments, arguments.compare, now, asked.zone))
    except RuleError as error:
        if arguments.json:
            raise
        _refuse(error, quoted=len(arguments.expr) == 1)
        return USAGE
    if arguments.json:
        import json  # only here: it would cost the other ways of using the command their start

        text = json.dumps(_as_json(first, second), indent=2)
    else:
        text = "\n".join(_page(first) if second is None else _compared(first, second))
    print(text)
    return FINE


def _asked(arguments: Wanted, text: str, now: Instant, zone: tzinfo | None = None) -> Asked:
    default = None if arguments.tz is None else zone_of(arguments.tz, "--tz")
    rule = parse(text, tz=default)
    zone = zone or zone_shown(rule) or default or UTC
    start = now if arguments.start is None else instant_said("--from", arguments.start, zone)
    until = None if arguments.until is None else instant_said("--until", arguments.until, zone)
    if until is not None and until < start:
        raise RuleError(f"--until {arguments.until}: lies before the start, {_when(start, zone)}")
    count = arguments.count
    if count is None:
        count = DEFAULT_COUNT if until is None else DEFAULT_UNTIL
    elif not 1 <= count <= MOST_COUNT:
        raise RuleError(f"-n {count}: between 1 and {MOST_COUNT} fires can be shown")
    return Asked(text, rule, zone, start, until, count)


def _answer(asked: Asked) -> Shown:
    start = datetime_of(asked.start)
    fires: list[Fire] = []
    more, failure = False, None
    try:
        for fire in upcoming(asked.rule, start, tz=asked.zone):
            if asked.until is not None and instant_of(fire.due, "fire") > asked.until:
                break
            if len(fires) == asked.count:
                more = True
                break
            fires.append(fire)
    except RuleError as error:
        if asked.until is None or not lies_beyond(error, asked.until):
            failure = str(error.__cause__ or error)  # the rule's own words
    try:
        per_year = fires_in_year(asked.rule, start)
    except RuleError:
        per_year = None
    return Shown(asked, fires, more, failure, per_year)


# As a page


def _page(shown_: Shown) -> list[str]:
    asked = shown_.asked
    lines = [*_title(asked), f"from {_when(asked.start, asked.zone)}", ""]
    if not shown_.fires and shown_.failure is None:
        lines.append(f"  {_no_fire(asked)}")
    before = asked.start
    width = 0
    for fire in shown_.fires:
        due = instant_of(fire.due, "fire")
        moment = _when(due, asked.zone)
        width = max(width, len(moment))
        gap = gap_text(due - before) if due >= before else "past"
        lines.append(f"  {moment:{width}}  {gap:>18}")
        lines += [f"      {note}" for note in fire.notes]
        before = due
    if shown_.more and asked.until is not None:
        lines.append(f"  ... and more up to {_when(asked.until, asked.zone)}")
    if shown_.failure is not None:
        lines.append(f"  then an error: {printable(shown_.failure, 500)}")
    lines += ["", f"fires in 365 days: {_count_text(shown_.per_year)}"]
    return [*lines, *_changes(asked)]


def _no_fire(asked: Asked) -> str:
    until = f" and up to {_when(asked.until, asked.zone)}" if asked.until is not None else ""
    return f"no fire after {_when(asked.start, asked.zone)}{until}"


def _title(asked: Asked, mark: str = "") -> list[str]:
    words = str(asked.rule)
    return [f"{mark}{asked.text}", *([f"{' ' * len(mark)}{words}"] if words != asked.text else [])]


def _changes(asked: Asked) -> list[str]:
    zone = asked.zone
    changes = clock_changes(zone, datetime_of(asked.start))
    if not changes:
        return [f"no clock changes in {zone_name(zone)}" + ("" if type(zone) is timezone else " within two years")]
    lines = [f"next clock changes in {zone_name(zone)}:"]
    for change in changes:
        before, after = naive_of(change.at + change.before_us), naive_of(change.at + change.after_us)
        day = "" if before.date() == after.date() else f"{_day(after)} "
        lines.append(f"  {_day(before)} {before:%H:%M} -> {day}{after:%H:%M} {offset_text(change.at, zone)}")
    return lines


def _compared(one: Shown, two: Shown) -> list[str]:
    """Both rules in one list, and where they part."""
    zone = one.asked.zone
    lines = [*_title(one.asked, "A  "), *_title(two.asked, "B  "), f"from {_when(one.asked.start, zone)}", ""]
    for due, marks, notes in _merged(one, two):
        lines.append(f"  {marks}  {_when(due, zone)}")
        lines += [f"        {note}" for note in notes]
    for mark, answer in (("A", one), ("B", two)):
        if answer.failure is not None:
            lines.append(f"  {mark}  then an error: {printable(answer.failure, 500)}")
        elif not answer.fires:
            lines.append(f"  {mark}  {_no_fire(answer.asked)}")
    counts = f"A {_count_text(one.per_year)}, B {_count_text(two.per_year)}"
    return [*lines, "", _difference(one, two), f"fires in 365 days: {counts}", *_changes(one.asked)]


def _merged(one: Shown, two: Shown) -> list[tuple[Instant, str, list[str]]]:
    """(due, marks, notes) of the fires of both in one order, as many as were asked for. `marks` is A, B, or A B."""
    found: dict[Instant, tuple[list[str], list[str]]] = {}
    for mark, answer in (("A", one), ("B", two)):
        for fire in answer.fires:
            marks, notes = found.setdefault(instant_of(fire.due, "fire"), ([], []))
            marks.append(mark)
            notes += [note for note in fire.notes if note not in notes]
    # Where one list was cut off, nothing is known of that rule further on.
    ends = [answer.fires[-1].due for answer in (one, two) if answer.more]
    end = min((instant_of(when, "fire") for when in ends), default=None)
    rows = [
        (due, f"{'A' if 'A' in marks else ' '} {'B' if 'B' in marks else ' '}", notes)
        for due, (marks, notes) in sorted(found.items())
        if end is None or due <= end
    ]
    return rows[: one.asked.count]


def _difference(one: Shown, two: Shown) -> str:
    ends = [answer.known_to() for answer in (one, two)]
    known = [row for row in _merged(one, two) if all(end is None or row[0] <= end for end in ends)]
    parting = next((row for row in known if row[1] != "A B"), None)
    if parting is None and any(
        end is not None and not answer.more for end, answer in zip(ends, (one, two), strict=True)
    ):
        return "no difference as far as the fires of both are known"
    if parting is None:
        return "no difference among the fires shown"
    return f"first difference: only {parting[1].strip()} fires at {_when(parting[0], one.asked.zone)}"


def _when(instant: Instant, zone: tzinfo) -> str:
    """`Sun 2027-03-28 03:00 +02:00`; seconds where there are any."""
    wall, zone = _wall(instant, zone)
    moment = wall.time().isoformat("auto" if wall.second or wall.microsecond else "minutes")
    return f"{_day(wall)} {moment} {offset_text(instant, zone)}"


def _wall(instant: Instant, zone: tzinfo) -> tuple[datetime, tzinfo]:
    """The naive wall time, and its zone: UTC where that of the zone would leave the years 1 to 9999."""
    try:
        return wall_of(instant, zone), zone
    except RuleError:
        return wall_of(instant, UTC), UTC


def gap_text(span_us: int) -> str:
    """The time between two fires, in at most two units: `1 d`, `23 h 30 min`, `5 min`, `1.5 s`."""
    if span_us < 60 * SECOND_US:
        return f"{span_us / SECOND_US:g} s"
    seconds = span_us // SECOND_US
    for size, unit, smaller, name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size:,} {unit}" + (f" {rest} {name}" if rest else "")
    raise AssertionError(f"{span_us} is below a minute and was not seen above")


def _count_text(count: Count | None) -> str:
    if count is None:
        return "unknown, since the rule refuses one"
    return f"{count.fires:,}" if count.known == "exactly" else f"{count.known} {count.fires:,}"


def _day(wall: datetime) -> str:
    return f"{DAYS[wall.weekday()]} {wall.date()}"


def _refuse(error: RuleError, *, quoted: bool) -> None:
    print(f"tickless: {printable(str(error), 1_000)}", file=sys.stderr)
    if isinstance(error, TextError) and len(error.text) <= 200 and error.text.isprintable():
        print(f"  {error.text}\n  {' ' * (error.position - 1)}^", file=sys.stderr)
    if not quoted:
        print("Several words came as the expression: put it in quotes, or the shell replaces its *", file=sys.stderr)


# As JSON


def _as_json(one: Shown, two: Shown | None) -> dict[str, Any]:
    asked = one.asked
    shown_ = {
        "v": 1,
        "kind": "preview",
        "tz": zone_name(asked.zone),
        "from": _iso(asked.start, asked.zone),
        "until": None if asked.until is None else _iso(asked.until, asked.zone),
        **_answer_as_json(one),
        "clock_changes": [
            {"at": _iso(change.at, asked.zone), "before_us": change.before_us, "after_us": change.after_us}
            for change in clock_changes(asked.zone, datetime_of(asked.start))
        ],
    }
    if two is not None:
        shown_["compare"] = _answer_as_json(two)
    return shown_


def _answer_as_json(answer: Shown) -> dict[str, Any]:
    asked = answer.asked
    fires, before = [], asked.start
    for fire in answer.fires:
        due = instant_of(fire.due, "fire")
        fires.append(
            {
                "due": _iso(due, UTC),
                "local": _iso(due, asked.zone),
                "gap_s": (due - before) / SECOND_US,
                "notes": list(fire.notes),
            }
        )
        before = due
    count = answer.per_year
    return {
        "expr": asked.text,
        "words": str(asked.rule),
        "rule": to_json(asked.rule),
        "recurring": asked.rule.recurring,
        "fires": fires,
        "more": answer.more,
        "failure": answer.failure,
        "fires_in_365_days": None if count is None else {"fires": count.fires, "known": count.known},
    }


def _iso(instant: Instant, zone: tzinfo) -> str:
    """ISO 8601 with the offset, `Z` for UTC."""
    wall, zone = _wall(instant, zone)
    return wall.replace(fold=0).isoformat() + ("Z" if zone is UTC else offset_text(instant, zone))
