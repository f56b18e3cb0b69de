"""What a crontab takes from the machine that it is read on: its users, their homes, its zone."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tickless.errors import RuleError
from tickless.rules.zones import zone_of

_UTC = frozenset({"Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"})
"""Other names of one thing."""
_LOCALTIME, _TIMEZONE = Path("/etc/localtime"), Path("/etc/timezone")


def users() -> frozenset[str]:
    """The names of this machine's users; `root` is always one."""
    try:
        import pwd  # systems with users only
    except ImportError:
        return frozenset({"root"})
    return frozenset({"root", *(entry.pw_name for entry in pwd.getpwall())})


def home_of(user: str | None) -> str | None:
    """The home of a user, of this process's without a name. None where it has none, or is no path from the root on."""
    home = os.path.expanduser("~" if user is None else f"~{user}")
    return os.path.normpath(home) if os.path.isabs(home) else None


def host_zone() -> str | None:
    """The zone that the clocks of this machine show, by its key; None where nothing says it.

    `TZ` counts before /etc/localtime, and that before /etc/timezone.
    """
    names = [os.environ.get("TZ", "").removeprefix(":"), *_configured()]
    found = next((name for name in names if name and _is_zone(name)), None)
    return "UTC" if found in _UTC else found


def _configured() -> list[str]:
    names = []
    try:
        names.append(re.sub(r".*/zoneinfo/", "", os.path.realpath(_LOCALTIME)))
        names.append(_TIMEZONE.read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError):
        pass
    return names


def _is_zone(name: str) -> bool:
    try:
        zone_of(name, "zone")
    except RuleError:
        return False
    return True
