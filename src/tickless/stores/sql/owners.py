"""Which processes live: owner n lives while some process keeps byte n of the file `<db>-owners` locked.

The kernel lets a lock go when its process ends, however it ends: nobody has to wait for a timeout, or trust a pid.

POSIX record locks have two sharp edges, which make this file what it is:

- They do not conflict within one process. So the numbers that this process holds are kept beside the locks.
- Closing any descriptor of the file drops every lock of the process on it. So each file has one descriptor in the
  process, however many stores use it, and is known by device and inode: two paths to it are one file. A program that
  opens and closes that file itself (a Python backup of the whole folder) drops them too; `hold` again takes them anew.

A forked child has none of its parent's locks, and cannot drop them.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
from dataclasses import dataclass, field

from tickless.errors import StoreDown, StoreError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # a module or None, and mypy knows of no such thing

SUFFIX = "-owners"

# struct flock, which F_GETLK fills in: on Linux the type, whence, start, length, pid; on macOS and the BSDs the start,
# length, pid, type, whence. "0q" is the padding at the end. Offsets are 64 bits wide in every build of CPython.
_LINUX_ORDER = sys.platform == "linux"
_FLOCK = struct.Struct("hhqqi0q" if _LINUX_ORDER else "qqihhi0q")  # the i after whence: FreeBSD's l_sysid

_Identity = tuple[int, int]
"""Device and inode."""


@dataclass(slots=True, eq=False)
class _LockFile:
    """An owners file, opened once in this process."""

    identity: _Identity
    fds: list[int]
    """The one in use; any others were opened unawares, and to close them early would drop the locks."""
    users: int = 0
    held: set[int] = field(default_factory=set)


# Re-entrant, since a signal handler or a finalizer may come in while this thread holds it.
_guard = threading.RLock()
_files: dict[_Identity, _LockFile] = {}


class Owners:
    """The owners of one database, as seen from this process. Any thread may call any method.

    Raises StoreError where the file cannot be opened (StoreDown: not now). Linux, macOS and the BSDs have such locks,
    Windows does not: there `hold` and `lives` are StoreErrors. One made before a fork is of no use in the child.
    """

    __slots__ = ("_file", "_mine", "path")

    def __init__(self, path_of_db: str | os.PathLike[str]) -> None:
        # SQLite keeps its own files beside the real one too: two names of a database must not have two owners files.
        self.path = os.path.realpath(path_of_db) + SUFFIX
        """Of the owners file."""
        self._mine: set[int] = set()
        self._file: _LockFile | None = None
        if fcntl is not None:
            with _guard:
                self._file = _opened(self.path)

    def hold(self, n: int) -> None:
        """From now on owner `n` lives, until `release(n)`, `close()` or the end of this process. `n` is not negative.

        To hold what this object holds already makes sure that the lock is there. Costs about 4 us.
        Raises StoreError when somebody else holds `n`, in this process or another; StoreDown when the file was
        removed or replaced: then nobody sees this process any more, until a new `Owners` holds.
        """
        with _guard:
            file = self._checked()
            if n in file.held and n not in self._mine:
                raise StoreError(
                    f"{self.path}: owner {n} is held by another store of this process; take another number"
                )
            file.held.add(n)
            self._mine.add(n)
            try:
                fcntl.lockf(file.fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, n)
            except OSError as error:
                file.held.discard(n)
                self._mine.discard(n)
                raise _not_held(self.path, n, file.fds[0], error) from None

    def release(self, n: int) -> None:
        """Owner `n` lives no more. Nothing happens when this object does not hold it."""
        with _guard:
            if self._file is not None and n in self._mine:
                self._let_go(self._file, n)

    def lives(self, n: int) -> bool:
        """Does this or another process hold `n`, right now? Costs about 5 us. Raises StoreDown as `hold` does."""
        with _guard:
            file = self._checked()
            return n in file.held or _holder(file.fds[0], n) is not None

    def close(self) -> None:
        """Release all that this object holds, and let the file go. Twice is once; in a forked child nothing happens."""
        with _guard:
            file, self._file = self._file, None
            if file is None or _files.get(file.identity) is not file:  # closed, or the parent's
                return
            for n in list(self._mine):
                self._let_go(file, n)
            file.users -= 1
            if not file.users:
                del _files[file.identity]
                for fd in file.fds:
                    os.close(fd)

    def _let_go(self, file: _LockFile, n: int) -> None:
        self._mine.discard(n)
        if n in file.held:  # not after a fork
            file.held.discard(n)
            fcntl.lockf(file.fds[0], fcntl.LOCK_UN, 1, n)

    def _checked(self) -> _LockFile:
        """The lock file, which still is the one that others open."""
        file = self._file
        if fcntl is None:
            raise StoreError(
                f"{self.path}: several processes on one store need the file locks of Linux, macOS or BSD, "
                f"and {sys.platform} has none; keep the tasks in memory"
            )
        if file is None:
            raise StoreError(f"{self.path}: these owners are closed; make new ones")
        if not file.fds:
            raise StoreError(f"{self.path}: these owners were made before a fork; make new ones in the child")
        try:
            there = _identity(os.stat(self.path))
        except OSError as error:
            raise StoreDown(f"{self.path}: {error.strerror}; it tells which processes live, and must stay") from None
        if there != file.identity:
            raise StoreDown(f"{self.path}: was replaced, so the processes of this store cannot see one another")
        return file


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino


def _opened(path: str) -> _LockFile:
    """The lock file of that path, with one user more."""
    try:
        file = _known(path)
        if file is None:
            fd = _open_or_create(path)
            identity = _identity(os.fstat(fd))
            file = _files.get(identity)
            if file is not None:  # It got that name since the look.
                file.fds.append(fd)
            else:
                file = _files[identity] = _LockFile(identity, [fd])
    except OSError as error:
        down = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO)
        raise (StoreDown if down else StoreError)(
            f"{path}: {error.strerror}; the store keeps its owners file beside the database, and writes to it"
        ) from None
    file.users += 1
    return file


def _known(path: str) -> _LockFile | None:
    """What is open already of that path, found without opening it."""
    try:
        return _files.get(_identity(os.stat(path)))
    except FileNotFoundError:
        return None


def _open_or_create(path: str) -> int:
    """Open to read and write, as an exclusive lock needs. A new file is for whoever may write the database."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue  # Another process was quicker.
        try:
            os.fchmod(fd, os.stat(path.removesuffix(SUFFIX)).st_mode & 0o666)
        except OSError:
            pass  # There is no database yet, or it has no such modes: then it is for this user alone.
        return fd


def _holder(fd: int, n: int) -> int | None:
    """The pid of the other process that holds `n`, or None. In another pid namespace or container it is 0 or -1."""
    asked = (fcntl.F_WRLCK, os.SEEK_SET)
    span = (n, 1, 0)
    packed = _FLOCK.pack(*asked, *span) if _LINUX_ORDER else _FLOCK.pack(*span, *asked, 0)
    found = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, packed))
    kind, pid = (found[0], found[4]) if _LINUX_ORDER else (found[3], found[2])
    return None if kind == fcntl.F_UNLCK else int(pid)


def _not_held(path: str, n: int, fd: int, error: OSError) -> StoreError:
    if error.errno in (errno.EACCES, errno.EAGAIN):
        pid = _holder(fd, n)  # None when it has ended since, and 0 or -1 when its pid is not for us to know
        whose = f"process {pid}" if pid and pid > 0 else "another process"
        return StoreError(f"{path}: owner {n} is held by {whose}; take another number")
    return StoreDown(f"{path}: owner {n} cannot be locked: {error.strerror}; the file must lie on a local disk")


def _forget_after_fork() -> None:
    """In the child: it holds nothing. To close the descriptors there leaves the parent's locks alone."""
    global _guard
    _guard = threading.RLock()  # The old one may be held by a thread that does not exist here.
    for file in _files.values():
        fds, file.fds[:] = list(file.fds), []
        file.held.clear()
        for fd in fds:
            os.close(fd)
    _files.clear()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_forget_after_fork)
