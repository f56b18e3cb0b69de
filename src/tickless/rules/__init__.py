"""When a task fires. A rule is a frozen, hashable, picklable value; `Rule` is what any rule must answer."""

from tickless.rules.after import After, Due, after
from tickless.rules.asking import Rule, as_written, checked_next, first_fire, is_ours, span
from tickless.rules.at import At, at
from tickless.rules.calendars import Calendar
from tickless.rules.combine import Filtered, Union
from tickless.rules.cron import Cron, cron
from tickless.rules.days import Dates, Weekdays, weekdays
from tickless.rules.every import Every, every
from tickless.rules.forms import from_json, to_json
from tickless.rules.preview import Fire, between, preview
from tickless.rules.rrule import RRule, rrule
from tickless.rules.text import parse, text_of
from tickless.rules.window import Window

__all__ = [
    "At",
    "After",
    "Calendar",
    "Cron",
    "Dates",
    "Due",
    "Every",
    "Filtered",
    "Fire",
    "RRule",
    "Rule",
    "Union",
    "Weekdays",
    "Window",
    "after",
    "as_written",
    "at",
    "between",
    "checked_next",
    "cron",
    "every",
    "first_fire",
    "from_json",
    "is_ours",
    "parse",
    "preview",
    "rrule",
    "span",
    "text_of",
    "to_json",
    "weekdays",
]
