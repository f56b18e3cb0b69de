"""The doorbell: a process that changed the database wakes the others of this machine, and nobody polls.

Each process that wants to be woken listens on a Unix socket beside the database, `<db>-bell-<number>`. Who changes
something connects before it begins and sends one byte after it has committed. It connects first because the end of a
connection is a ring too: a writer that is killed between its commit and its byte wakes the others by its death.

A ring says "look", not what happened: many rings are one, and one too many does no harm.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tickless.errors import StoreDown, StoreError

LONGEST_ADDRESS = 100
"""In bytes. A socket's address has room for 107 on Linux and for 103 on macOS and the BSDs."""
DEAF_MS = 1_000
"""How long a listener without descriptors waits before it tries again to take a connection."""

_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
"""A program that lets SIGPIPE kill it must not die because a listener has gone."""
_SO_NOSIGPIPE = 0x1022
"""What macOS has instead, and Python has no name for."""

# Around each moment in which a descriptor exists that is not in its place yet, and around each fork: a child must know
# every descriptor that it has to close. Re-entrant, since a signal handler may fork, or ring, in the middle.
_guard = threading.RLock()
_doorbells: weakref.WeakSet[Doorbell] = weakref.WeakSet()


class Doorbell:
    """One process's bell and its ways to the bells of others. Any thread may call any method.

    `directory` and `stem` are of the database; symbolic links are resolved, so that all names of it have the same
    bells. Close it: it is not closed by being forgotten. In a forked child it is closed, and the parent's goes on.
    """

    def __init__(self, directory: str | os.PathLike[str], stem: str) -> None:
        self._database = os.path.realpath(Path(directory) / stem)
        self._writers: dict[int, socket.socket] = {}
        self._ear: _Ear | None = None
        self._closed = False
        with _guard:
            _doorbells.add(self)

    def listen(self, number: int, ring: Callable[[], None]) -> None:
        """From now on `ring()` is called, by a thread that this starts, after each byte and each end of a connection.

        Many at once are one call. The thread sleeps while nothing happens. `ring` must not raise, nor take long.
        The caller holds owner `number`, so a socket that lies there is a dead one's and is replaced. Once only.
        Raises StoreError where no socket can be made; StoreDown for want of threads, descriptors or space.
        """
        path = self._path(number)
        with _guard:
            if self._closed or self._ear is not None:
                why = "is closed" if self._closed else "listens already"
                raise StoreError(f"{path}: this doorbell {why}; make another")
            self._ear = _Ear(path, ring)
            for writer in self._writers.values():
                self._ear.watch(writer)

    def connect(self, number: int) -> bool:
        """Be connected to that listener, before a change that it must hear of. False: nobody listens there.

        Costs about 2 us when connected already, since it looks whether the other end still is there, and else 40 us.
        Raises StoreError when it may not be reached (another user's), StoreDown for want of descriptors, or when it is
        frozen and thousands (net.core.somaxconn) wait for it already.
        """
        with _guard:
            writer = self._writers.get(number)
            if writer is not None:
                if _whole(writer):
                    return True
                self.disconnect(number)
            if self._closed:
                return False
            made = _connected(self._path(number))
            if made is None:
                return False
            if self._writers.setdefault(number, made) is not made:  # A signal handler has come in, and connected.
                made.close()
            elif self._ear is not None:
                self._ear.watch(made)
            return True

    def ring(self, numbers: Iterable[int]) -> list[int]:
        """Ring each of them, and give those that could not be: nobody listens there now. Never blocks, never raises.

        Costs for each that is connected 3 us, or 13 us when that wakes it; others are connected first. A listener
        that has more rings than fit into its socket counts as rung.
        """
        with _guard:
            return [number for number in numbers if not (self._send(number) or self._send_anew(number))]

    def disconnect(self, number: int) -> None:
        """End the connection, which is a last ring. Nothing happens when there is none."""
        with _guard:
            writer = self._writers.pop(number, None)
            if writer is not None:
                with suppress(OSError):  # the other end has gone
                    writer.shutdown(socket.SHUT_RDWR)  # to close it is not enough: see `_Ear.watch`
                writer.close()

    def remove(self, number: int) -> None:
        """Take away the socket that a dead one has left. The caller knows that it is dead."""
        with suppress(OSError):
            os.unlink(self._path(number))

    def close(self) -> None:
        """End all connections, stop listening, remove the socket. `ring` is not called after this has returned.

        From within `ring` it cannot wait for itself, and only says so to the thread. Twice is once.
        """
        with _guard:
            self._closed = True
            for number in list(self._writers):
                self.disconnect(number)
            ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()

    def _path(self, number: int) -> str:
        return f"{self._database}-bell-{number}"

    def _send(self, number: int) -> bool:
        writer = self._writers.get(number)
        if writer is None:
            return False
        try:
            writer.send(b"\0", _NO_SIGNAL)
        except BlockingIOError:
            pass  # So many rings are there that no more fit.
        except OSError:
            return False
        return True

    def _send_anew(self, number: int) -> bool:
        """It may be that another process listens there now, which has looked before the change."""
        self.disconnect(number)
        try:
            return self.connect(number) and self._send(number)
        except StoreError:
            return False

    def _forget(self) -> None:
        """In a forked child."""
        self._closed = True
        self._ear = None
        while self._writers:
            self._writers.popitem()[1].close()


_WATCH = b"\1"
"""Says to an ear's own thread that there is a connection more; a NUL says that it is to end."""


class _Ear:
    """A listening socket, the connections to it, and the thread that sleeps on them. Made and closed once."""

    def __init__(self, path: str, ring: Callable[[], None]) -> None:
        self._path, self._ring = path, ring
        self._new: deque[socket.socket] = deque()
        """Connections to be watched, which the thread does not know of yet."""
        self._sockets: dict[int, socket.socket] = {}
        """By descriptor: the listener, a pair to end the thread with, the connections."""
        listener, self._inode = _bound(path)
        self._listener = self._kept(listener)
        _ears.add(self)
        try:
            self._stopped, self._stop = map(self._kept, socket.socketpair())
            self._thread = threading.Thread(target=self._run, name="tickless-doorbell", daemon=True)
            self._thread.start()
        except BaseException as error:
            self._remove()
            self.close_sockets()
            if isinstance(error, OSError | RuntimeError):
                raise StoreDown(f"{path}: no thread or descriptor is left for the doorbell: {error}") from None
            raise

    def close(self) -> None:
        self._remove()
        try:
            self._stop.send(b"\0")
        except OSError:
            pass  # The thread has ended.
        # At the interpreter's exit the thread may be frozen: joining it would hang.
        if self._thread is not threading.current_thread() and not sys.is_finalizing():
            self._thread.join()

    def watch(self, writer: socket.socket) -> None:
        """Ring, too, when the other end of this connection ends: that process may have had no reason to connect to us,
        as when it was here first and has done nothing since, and nobody else would hear of its death.
        """
        with _guard:
            try:
                self._new.append(self._kept(writer.dup()))
                self._stop.send(_WATCH)
            except OSError:
                pass  # No descriptor is left, or the thread has ended: its lease will tell.

    def close_sockets(self) -> None:
        with _guard:
            while self._sockets:
                self._sockets.popitem()[1].close()
            _ears.discard(self)

    def _kept(self, end: socket.socket) -> socket.socket:
        self._sockets[end.fileno()] = end
        return end

    def _remove(self) -> None:
        """The socket's file, unless another has taken its place."""
        try:
            if _inode(self._path) == self._inode:
                os.unlink(self._path)
        except OSError:
            pass  # It is gone; or it stays, and is replaced by the next who listens there.

    def _run(self) -> None:
        try:
            self._hear()
        finally:
            self.close_sockets()

    def _hear(self) -> None:
        """Sleep, look, ring, until the stop."""
        poller = select.poll()
        stopped, listener = self._stopped.fileno(), self._listener.fileno()
        poller.register(stopped, select.POLLIN)
        poller.register(listener, select.POLLIN)
        deaf = False
        while True:
            ready = [fd for fd, _ in poller.poll(DEAF_MS if deaf else None)]
            if stopped in ready:
                if b"\0" in self._stopped.recv(4096):
                    return
                ready.remove(stopped)
                while self._new:
                    poller.register(self._new.popleft(), select.POLLIN)
            if deaf or listener in ready:
                deaf = not self._accept(poller)
                # A listener that cannot take who waits there would be ready over and over, and a core would burn.
                poller.register(listener, 0 if deaf else select.POLLIN)
            # What those say that a deaf one cannot take is not known: it may be a ring.
            rung = deaf + sum([self._read(fd, poller) for fd in ready if fd != listener])
            if rung:
                self._ring()

    def _accept(self, poller: select.poll) -> bool:
        """Take one connection. False when there are no descriptors left for it."""
        with _guard:
            try:
                peer, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return True
            except OSError:
                return False
            self._kept(peer)
        peer.setblocking(False)
        poller.register(peer, select.POLLIN)
        return True

    def _read(self, fd: int, poller: select.poll) -> bool:
        """Take what is there. True when it is a ring: bytes, or the end, which closes the connection."""
        try:
            if self._sockets[fd].recv(4096):
                return True
        except BlockingIOError:
            return False
        except OSError:
            pass  # The end, in another way.
        poller.unregister(fd)
        with _guard:
            self._sockets.pop(fd).close()
        return True


_ears: set[_Ear] = set()
"""Those whose sockets are open."""


def _socket(path: str) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise StoreError(f"{path}: {sys.platform} has no Unix sockets, so several processes cannot share a store here")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


def _bound(path: str) -> tuple[socket.socket, tuple[int, int]]:
    """A socket that listens at the path, for this user alone, and what lies there. Raises StoreError."""
    with ExitStack() as unless_done:
        try:
            listener = unless_done.enter_context(_socket(path))
            _clear(path)
            with _address(path) as address:
                listener.bind(address)
            os.chmod(path, 0o600)  # before it listens: until then nobody can connect
            listener.listen(socket.SOMAXCONN)
            inode = _inode(path)
        except OSError as error:
            down = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)
            raise (StoreDown if down else StoreError)(
                f"{path}: {error.strerror or error}; the store makes a socket beside the database, "
                "so that folder must be writable, and on a local disk"
            ) from None
        unless_done.pop_all()
        return listener, inode


def _clear(path: str) -> None:
    """Remove the socket of a process that died. Anything else there is not ours: a StoreError."""
    try:
        kind = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise StoreError(f"{path}: is in the place of the store's socket, and is none; move it away")
    os.unlink(path)


def _connected(path: str) -> socket.socket | None:
    """A connection to who listens at the path; None when nobody does. Raises StoreError."""
    with ExitStack() as unless_done:
        try:
            writer = unless_done.enter_context(_socket(path))
            if sys.platform == "darwin":
                writer.setsockopt(socket.SOL_SOCKET, _SO_NOSIGPIPE, 1)
            with _address(path) as address:
                writer.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except PermissionError:
            raise StoreError(
                f"{path}: may not be rung by this user; run all processes of a store as the same user"
            ) from None
        except OSError as error:
            raise StoreDown(f"{path}: cannot be rung: {error.strerror or error}") from None
        unless_done.pop_all()
        return writer


def _whole(writer: socket.socket) -> bool:
    """Is there somebody at the other end? A listener sends nothing, so all that there could be to read is the end."""
    try:
        writer.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


@contextmanager
def _address(path: str) -> Iterator[str]:
    """The path, or another name of it while inside, that fits into a socket's address. Raises StoreError, OSError."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield path
        return
    directory, name = os.path.split(path)
    fd = os.open(directory, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        here = f"/proc/self/fd/{fd}"
        short = f"{here}/{name}"
        if len(os.fsencode(short)) > LONGEST_ADDRESS or not os.path.isdir(here):
            raise StoreError(
                f"{path}: is too long for the address of a socket ({LONGEST_ADDRESS} bytes); "
                "give the database a shorter name, or move it to a shorter folder"
            )
        yield short
    finally:
        os.close(fd)


def _inode(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _before_fork() -> None:
    _guard.acquire()


def _in_parent() -> None:
    _guard.release()


def _in_child() -> None:
    """Close every inherited descriptor: through one that stays open, a dead parent would seem to live."""
    global _guard
    _guard = threading.RLock()
    for doorbell in list(_doorbells):
        doorbell._forget()
    for ear in list(_ears):
        ear.close_sockets()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
