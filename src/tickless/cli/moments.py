"""Times on the command line: with an offset, or in a zone; a date is its first moment."""

from __future__ import annotations

from datetime import datetime, time, tzinfo

from tickless.errors import RuleError, shown
from tickless.instants import Instant, instant_of
from tickless.rules.scan import Scanner
from tickless.rules.zones import instants_at, zone_name


def instant_said(what: str, text: str, zone: tzinfo | None) -> Instant:
    """The instant that an option names. `zone`: of a time without an offset; None is the machine's own.

    Raises RuleError, which names the option.
    """
    scan = Scanner(text)
    when = scan.moment(f"{what} needs a date, or a date and a time, e.g. 2027-01-01T09:00")
    if scan.peek():
        scan.fail(f"{what} ends here, not with {scan.peek()!r}; for a zone give --tz, or an offset such as +01:00")
    if not isinstance(when, datetime):
        when = datetime.combine(when, time())
    if when.tzinfo is not None:
        return instant_of(when, what)
    if zone is None:
        try:
            return instant_of(when.astimezone(), what)
        except (OverflowError, ValueError):  # at either end of the calendar the C library leaves it
            raise RuleError(f"{what} {shown(text)}: is not within the years 1 to 9999; give a nearer time") from None
    found = instants_at(when, zone, "next", "first")
    if not found:
        raise RuleError(f"{what} {shown(text)}: does not exist in {zone_name(zone)}; give a time before or after")
    return found[0]
