"""Notice that a file was changed, without looking at it again and again: inotify on Linux."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import struct
import sys
from pathlib import Path

_CLOSE_WRITE, _MOVED_TO, _CREATE = 0x008, 0x080, 0x100
_CLOEXEC, _NONBLOCK = 0o2000000, 0o4000
_HEAD = struct.Struct("iIII")
MOST_LINKS = 40
"""As many as the system follows."""


class Watch:
    """A descriptor that is readable when the file was written, or another was put in its place.

    The folder is what is watched: editors write a new file and rename it, and a ConfigMap changes a link above it.
    `fileno()` is None where there is no inotify; SIGHUP still says it then. ADR 20 has why not a library.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[bytes] = set()
        self._number: int | None = None
        if not sys.platform.startswith("linux"):
            return
        self._libc = ctypes.CDLL(None, use_errno=True)
        number = self._libc.inotify_init1(_CLOEXEC | _NONBLOCK)
        if number >= 0:  # else the user's instances are used up
            self._number = number
            self._look_at_places()

    def _look_at_places(self) -> None:
        """Where a link leads may be another place by now."""
        mask = ctypes.c_uint32(_CLOSE_WRITE | _MOVED_TO | _CREATE)
        for place in _places(self._path):
            self._libc.inotify_add_watch(self._number, os.fsencode(place.parent), mask)
            self._names.add(os.fsencode(place.name))

    def fileno(self) -> int | None:
        return self._number

    def has_changed(self) -> bool:
        """Take what came; whether any of it is about the file. Never blocks."""
        if self._number is None:
            return False
        changed = False
        while True:
            try:
                data = os.read(self._number, 65_536)
            except BlockingIOError:
                if changed:
                    self._look_at_places()
                return changed
            at = 0
            while at < len(data):
                _, _, _, length = _HEAD.unpack_from(data, at)
                name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
                changed = changed or name in self._names or not length
                at += _HEAD.size + length

    def close(self) -> None:
        if self._number is not None:
            os.close(self._number)
            self._number = None


def _places(path: Path) -> list[Path]:
    """Each link on the way to the file, and the file itself: where its content could be changed."""
    places: list[Path] = []
    here, left = Path("/"), list(reversed(Path(os.path.abspath(path)).parts[1:]))
    while left and len(places) < MOST_LINKS:
        place = here / left.pop()
        if place.is_symlink():
            places.append(place)
            target = Path(os.readlink(place))
            here = Path("/") if target.is_absolute() else here
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        else:
            here = here.parent if place.name == ".." else place
    return [*places, here]
