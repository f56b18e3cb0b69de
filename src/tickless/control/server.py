"""The Unix socket of a running scheduler: answers questions of the same user, one thread a connection."""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Full

from tickless.control import wire
from tickless.control.broadcast import Ear
from tickless.control.documents import VERSION, Document, event_document
from tickless.control.paths import LONGEST
from tickless.control.questions import answer
from tickless.control.refusals import Code, Refusal, refusal_of
from tickless.control.subject import Subject

FOLLOW = "follow"
"""The one question whose answer is many documents: events as they happen."""
MOST_CONNECTIONS = 128
"""Each costs a thread and a descriptor, and commands need descriptors, too."""
SILENCE_S = 60.0
"""After so long without a question, or without taking the answer, a connection ends."""
PAUSE_S = 1.0
"""So long after it found no free descriptor it looks again."""
Where = Callable[[], Document]


class Server:
    """Listens from the making on; `close` ends it. Costs no wake-up while nobody asks.

    `where`: what the answers say of the scheduler, beside the answer. Raises Refusal where another scheduler has the
    socket, or it cannot be made.
    """

    def __init__(self, path: Path, subject: Subject, where: Where) -> None:
        self.path = path
        self._subject = subject
        self._where = where
        self._socket = _bound(path)
        self._inode = os.stat(path).st_ino
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="tickless-control", daemon=True).start()

    def close(self) -> None:
        """No more answers; the socket is removed. Twice is once."""
        self._closed.set()
        with suppress(OSError):
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)  # what is being said may be said to its end

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._socket.fileno() == -1 or not self._listens():
                    return
                if error.errno in (errno.EMFILE, errno.ENFILE):  # it fails at once, and again, until one is free
                    self._closed.wait(PAUSE_S)
                continue
            with self._lock:
                has_room = len(self._open) < MOST_CONNECTIONS
                if has_room:
                    self._open.add(connection)
            if has_room:
                threading.Thread(target=self._serve, args=(connection,), name="tickless-answer", daemon=True).start()
            else:
                _turn_away(connection)

    def _listens(self) -> bool:
        try:
            return bool(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        except OSError:
            return False

    def _serve(self, connection: socket.socket) -> None:
        try:
            if not _is_of_same_user(connection):
                return
            connection.settimeout(SILENCE_S)
            for line in wire.lines(connection, wire.LONGEST_QUESTION):
                self._answer(connection, line)
        except (OSError, ValueError):
            pass  # who asked has gone, or speaks another language
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _answer(self, connection: socket.socket, line: bytes) -> None:
        question = wire.read(line)
        name, given = question.get("ask"), question.get("with")
        if question.get("v") != VERSION or not isinstance(name, str) or not isinstance(given, dict):
            wire.send(connection, wire.refused(Refusal(Code.USAGE, "usage", f"questions are of version {VERSION}")))
            return
        if name == FOLLOW:
            self._follow(connection, given.get("limit", 0))
            return
        try:
            said = {"v": VERSION, "source": self._where(), **answer(self._subject, name, given)}
        except Exception as error:  # noqa: BLE001 - whatever a question brings about is the answer to it, and no more
            said = wire.refused(refusal_of(error))
        wire.send(connection, said)

    def _follow(self, connection: socket.socket, limit: object) -> None:
        events = self._subject.events
        if events is None:
            wire.send(connection, wire.refused(Refusal(Code.REFUSED, "no_events", "this scheduler tells no events")))
            return
        connection.settimeout(None)  # who reads page by page is no fault
        with events.listening(limit if type(limit) is int else 0) as ear, _ends_with(connection, ear):
            wire.send(connection, {"v": VERSION, "source": self._where()})
            while (one := ear.get()) is not None:
                wire.send(connection, event_document(one))


def _turn_away(connection: socket.socket) -> None:
    """Say that there is no room; never waits."""
    with suppress(OSError), closing(connection):
        connection.setblocking(False)
        said = f"{MOST_CONNECTIONS} commands ask this scheduler already; ask again when some have ended"
        wire.send(connection, wire.refused(Refusal(Code.UNREACHABLE, "busy", said)))


@contextmanager
def _ends_with(connection: socket.socket, ear: Ear) -> Iterator[None]:
    """While inside, the other end's going is heard in the ear: else who listens there would be noticed to have gone by
    the next event, which may come in a day. The connection is at its end afterwards.
    """
    look = select.poll()
    look.register(connection, 0)  # says only that both directions are closed

    def wait() -> None:
        look.poll()
        with suppress(Full):  # then there is an event, and sending it fails
            ear.put_nowait(None)

    waiting = threading.Thread(target=wait, name="tickless-answer-end", daemon=True)
    waiting.start()
    try:
        yield
    finally:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        waiting.join()


def _bound(path: Path) -> socket.socket:
    """A socket that listens there, for this user alone."""
    if len(os.fsencode(path)) > LONGEST:
        raise Refusal(
            Code.UNREACHABLE,
            "socket",
            f"{path}: is longer than the {LONGEST} bytes that a socket's address has; give a shorter one: --socket",
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # 0600 from the first moment on
    try:
        try:
            listener.bind(os.fspath(path))
        except OSError:
            _remove_dead(path)
            listener.bind(os.fspath(path))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise Refusal(Code.UNREACHABLE, "socket", f"{path}: no socket can be made there: {error.strerror}") from None
    except Refusal:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _remove_dead(path: Path) -> None:
    """Take away a socket that nobody answers any more. Raises Refusal where somebody does, OSError for no socket."""
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        raise Refusal(Code.UNREACHABLE, "socket", f"{path}: is there, and no socket; give another: --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise Refusal(
        Code.REFUSED, "running", f"{path}: a scheduler of the same file runs already and answers there; stop it first"
    )


def _is_of_same_user(connection: socket.socket) -> bool:
    """The mode of the socket says so already; this is for systems that do not look at it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], "little") in (os.getuid(), 0)
