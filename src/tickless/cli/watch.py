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


class Watch:
    """A descriptor that is readable when the file was written, or another was put in its place.

    The folder is what is watched: editors write a new file and rename it, and a ConfigMap changes a link above it.
    `fileno()` is None where there is no inotify; SIGHUP still says it then. ADR 20 has why not a library.
    """

    def __init__(self, path: Path) -> None:
        self._names: set[bytes] = set()
        self._number: int | None = None
        if not sys.platform.startswith("linux"):
            return
        libc = ctypes.CDLL(None, use_errno=True)
        number = libc.inotify_init1(_CLOEXEC | _NONBLOCK)
        if number < 0:  # the user's instances are used up
            return
        mask = ctypes.c_uint32(_CLOSE_WRITE | _MOVED_TO | _CREATE)
        for place in _places(path):
            if libc.inotify_add_watch(number, os.fsencode(place.parent), mask) >= 0:
                self._names.add(os.fsencode(place.name))
        self._number = number

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
    """The path itself and, through links, each place at which its content could be changed."""
    places = [Path(os.path.abspath(path))]
    while places[-1].is_symlink() and len(places) < 40:
        places.append(Path(os.path.join(places[-1].parent, os.readlink(places[-1]))))
    real = Path(os.path.realpath(path))
    if real not in places:
        places.append(real)
    if places[0].parent != real.parent:  # a link among the folders, as a ConfigMap has it
        places.append(Path(os.path.realpath(places[0].parent)))
    return places
