"""The address of a store, as it is written: what `store=` says."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tickless.errors import ScheduleError, shown

_URL = re.compile(r"([a-z0-9+]+)://(/?)(.*)", re.DOTALL | re.IGNORECASE)


def parse(url: object) -> Path:
    """The path in `sqlite:///relative.db` or `sqlite:////absolute.db`, as it is written. Raises ScheduleError."""
    text = str.__str__(url) if issubclass(type(url), str) else ""
    form = "write store='sqlite:///tasks.db', or 'sqlite:////var/lib/tasks.db' for an absolute path"
    match = _URL.fullmatch(text)
    if match is None:
        raise ScheduleError(f"store={shown(url)}: is no address of a store; {form}")
    scheme, slash, path = match.groups()
    if scheme.lower() != "sqlite":
        raise ScheduleError(f"store={shown(url)}: there is no store for {scheme}://; {form}")
    if path == ":memory:" or not path:
        raise ScheduleError(f"store={shown(url)}: names no file; without store= tasks are kept in memory, else {form}")
    if not slash:
        raise ScheduleError(f"store={shown(url)}: {path.split('/')[0]} stands where a host would; {form}")
    if "?" in path or "#" in path or "\0" in path:
        raise ScheduleError(f"store={shown(url)}: takes no options, and no ?, # or NUL in a name; {form}")
    if path.endswith(("/", os.sep)):
        raise ScheduleError(f"store={shown(url)}: names a folder; add the name of the file")
    return Path(path)
