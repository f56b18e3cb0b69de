"""The doorbell, within one process: what rings, what does not, and what is left behind."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tickless.errors import StoreDown, StoreError
from tickless.stores.sql import doorbell
from tickless.stores.sql.doorbell import Doorbell

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets here")
PATIENCE_S = 30.0


class Heard:
    """What a doorbell calls. Counts, and can hold the thread that calls."""

    def __init__(self) -> None:
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()
        self._rings = threading.Semaphore(0)

    def ring(self) -> None:
        self.count += 1
        self._rings.release()
        assert self.gate.wait(PATIENCE_S)

    def one(self) -> bool:
        """Wait for the next ring."""
        return self._rings.acquire(timeout=PATIENCE_S)


@pytest.fixture
def bells(tmp_path: Path) -> Iterator[Bells]:
    with ExitStack() as at_end:
        yield Bells(tmp_path, at_end)


class Bells:
    """Doorbells of one database, which are closed at the end, the newest first."""

    def __init__(self, folder: Path, at_end: ExitStack) -> None:
        self.folder, self._at_end = folder, at_end

    def new(self, stem: str = "tasks.db", folder: Path | None = None) -> Doorbell:
        bell = Doorbell(folder or self.folder, stem)
        self._at_end.callback(bell.close)
        return bell

    def listening(self, number: int, stem: str = "tasks.db", folder: Path | None = None) -> tuple[Doorbell, Heard]:
        heard, bell = Heard(), self.new(stem, folder)
        bell.listen(number, heard.ring)
        return bell, heard


def ears() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tickless-doorbell"]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_each_ring_is_heard(bells: Bells) -> None:
    """The first one is heard and the second one not: what was read must be waited for anew."""
    _, heard = bells.listening(1)
    writer = bells.new()
    assert writer.connect(1)
    for _ in range(100):
        assert writer.ring([1]) == []
        assert heard.one()
    assert heard.count == 100


def test_a_ring_reaches_those_that_are_named_and_no_others(bells: Bells) -> None:
    """P7: whom a change does not concern does not wake."""
    heards = {number: bells.listening(number)[1] for number in (1, 2, 3, 11)}
    writer = bells.new()
    assert [writer.connect(number) for number in (1, 2, 3, 11)] == [True] * 4
    assert writer.ring([1, 3]) == []
    assert heards[1].one()
    assert heards[3].one()
    assert writer.ring([2]) == []
    assert heards[2].one()
    assert [heard.count for heard in heards.values()] == [1, 1, 1, 0]


def test_a_ring_connects_when_nobody_did_before(bells: Bells) -> None:
    _, heard = bells.listening(1)
    assert bells.new().ring([1]) == []
    assert heard.one()


def test_many_rings_while_the_listener_is_busy_are_one(bells: Bells) -> None:
    """A thousand commits during one look are one more look."""
    bell, heard = bells.listening(1)
    writer = bells.new()
    heard.gate.clear()
    assert writer.ring([1]) == []
    assert heard.one()
    for _ in range(200):
        assert writer.ring([1]) == []
    heard.gate.set()
    assert heard.one()
    bell.close()
    assert heard.count == 2


def test_a_listener_with_too_many_rings_is_rung_and_nobody_waits_for_it(bells: Bells) -> None:
    """The listener hangs, and so would all who commit."""
    _, heard = bells.listening(1)
    writer = bells.new()
    heard.gate.clear()
    assert writer.ring([1]) == []
    assert heard.one()
    for _ in range(5_000):
        assert writer.ring([1]) == []
    with pytest.raises(BlockingIOError):  # it was full, or this shows nothing
        writer._writers[1].send(b"\0")
    heard.gate.set()
    assert heard.one()
    assert writer.connect(1)


def test_no_ring_is_lost_between_a_look_and_a_sleep(bells: Bells) -> None:
    """Who rings has changed something before; after the last ring the listener has seen the last change."""
    counts, total, seen_all = [0, 0, 0], 6_000, threading.Event()

    def look() -> None:
        if sum(counts) == total:
            seen_all.set()

    def change(which: int) -> None:
        writer = bells.new()
        for _ in range(total // len(counts)):
            counts[which] += 1
            writer.ring([1])

    bells.new().listen(1, look)
    threads = [threading.Thread(target=change, args=(which,)) for which in range(len(counts))]
    for thread in threads:
        thread.start()
    assert seen_all.wait(PATIENCE_S)
    for thread in threads:
        thread.join()


def test_the_end_of_a_connection_is_a_ring(bells: Bells) -> None:
    """A writer that dies between its commit and its byte has changed something all the same."""
    _, heard = bells.listening(1)
    writer = bells.new()
    assert writer.connect(1)
    writer.disconnect(1)
    writer.disconnect(1)
    assert heard.one()
    assert writer.connect(1)
    assert writer.ring([1]) == []
    assert heard.one()
    writer.close()
    assert heard.one()


def test_where_nobody_listens_there_is_no_connection(bells: Bells) -> None:
    """Before the first listener, and after the last."""
    writer = bells.new()
    assert not writer.connect(1)
    assert writer.ring([1, 2]) == [1, 2]
    bell, _ = bells.listening(1)
    assert writer.connect(1)
    bell.close()
    assert not writer.connect(1)
    assert writer.ring([1]) == [1]
    assert not bells.new(folder=bells.folder / "missing").connect(1)


def test_the_gone_are_told_from_those_that_were_rung(bells: Bells) -> None:
    bell, _ = bells.listening(1)
    _, heard = bells.listening(2)
    writer = bells.new()
    assert writer.connect(1)
    assert writer.connect(2)
    bell.close()
    assert writer.ring([1, 2, 3]) == [1, 3]
    assert heard.one()


def test_a_ring_reaches_the_one_that_listens_now(bells: Bells) -> None:
    """The connection is to a dead one whose number was given again: the new one has looked before this change."""
    first, _ = bells.listening(1)
    writer = bells.new()
    assert writer.connect(1)
    first.close()
    _, heard = bells.listening(1)
    assert writer.ring([1]) == []
    assert heard.one()


def test_to_connect_leaves_the_dead_for_the_living(bells: Bells) -> None:
    """As above, and the writer dies before its byte: it must have been connected to the new one."""
    first, _ = bells.listening(1)
    writer = bells.new()
    assert writer.connect(1)
    first.close()
    _, heard = bells.listening(1)
    assert writer.connect(1)
    writer.close()
    assert heard.one()


@pytest.mark.parametrize("length", [40, 90, 150, 900])
def test_the_folder_may_have_a_long_path(bells: Bells, length: int) -> None:
    """A socket's address has about 100 bytes: pytest's own folders are longer at times."""
    folder = bells.folder
    while len(str(folder)) < length:
        folder = folder / ("d" * 30)
    folder.mkdir(parents=True, exist_ok=True)
    before = descriptors()
    bell, heard = bells.listening(1, folder=folder)
    writer = bells.new(folder=folder)
    assert writer.connect(1)
    assert writer.ring([1]) == []
    assert heard.one()
    assert os.listdir(folder) == ["tasks.db-bell-1"]
    writer.close()
    bell.close()
    assert os.listdir(folder) == []
    assert descriptors() == before


def test_a_name_that_fits_into_no_address_is_refused_with_a_way_out(bells: Bells) -> None:
    """Not "AF_UNIX path too long" from deep inside."""
    stem = "n" * 120 + ".db"
    for call in (lambda: bells.listening(1, stem), lambda: bells.new(stem).connect(1)):
        with pytest.raises(StoreError, match=r"n\.db-bell-1: is too long .* a shorter name"):
            call()
    assert bells.new(stem).ring([1]) == [1]
    assert not ears()


def test_two_names_of_one_database_have_the_same_bells(bells: Bells) -> None:
    """SQLite takes both for the same file, and so must we."""
    (bells.folder / "tasks.db").touch()
    (bells.folder / "link.db").symlink_to(bells.folder / "tasks.db")
    _, heard = bells.listening(1, "link.db")
    assert bells.new().ring([1]) == []
    assert heard.one()


def test_the_socket_is_for_its_user_alone(bells: Bells) -> None:
    """Whatever the umask: anybody who rings costs us a look."""
    before = os.umask(0)
    try:
        bells.listening(1)
    finally:
        os.umask(before)
    assert os.stat(bells.folder / "tasks.db-bell-1").st_mode & 0o777 == 0o600


def test_what_lies_in_the_place_of_the_socket_is_not_removed_unless_it_is_one(bells: Bells) -> None:
    """Somebody's file is never ours to remove."""
    place = bells.folder / "tasks.db-bell-1"
    place.write_text("a list of bells")
    with pytest.raises(StoreError, match=r"tasks\.db-bell-1: is in the place of the store's socket"):
        bells.listening(1)
    assert place.read_text() == "a list of bells"
    assert not bells.new().connect(1)


def test_a_folder_that_is_missing_is_named(bells: Bells) -> None:
    before = descriptors()
    with pytest.raises(StoreError, match=r"missing/tasks\.db-bell-1: No such file"):
        bells.listening(1, folder=bells.folder / "missing")
    assert (descriptors(), ears()) == (before, [])


def test_where_no_thread_can_be_started_nothing_is_left(bells: Bells, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that listens and that nobody hears would take the rings of all the others, and lose them."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StoreDown, match="can't start new thread"):
            bells.listening(1)
    assert (descriptors(), os.listdir(bells.folder)) == (before, [])


def test_a_crowd_at_the_door_is_refused_and_nobody_waits(bells: Bells) -> None:
    """The listener is frozen, and its queue of connections is full: a connect that waits would stop every commit."""
    with socket.socket(socket.AF_UNIX) as listener:
        with doorbell._address(str(bells.folder / "tasks.db-bell-1")) as address:
            listener.bind(address)
        listener.listen(0)
        writers = [bells.new() for _ in range(10)]
        with pytest.raises(StoreDown, match=r"tasks\.db-bell-1: cannot be rung: "):
            for writer in writers:
                assert writer.connect(1)
        assert writers[-1].ring([1]) == [1]


def test_close_ends_the_thread_and_removes_what_it_made(bells: Bells) -> None:
    """A thread, descriptors and a file for each store ever made."""
    gc.collect()  # what earlier tests have left goes now, and not while these are counted
    before = descriptors()
    for number in range(20):
        bell, heard = bells.listening(number)
        writer = bells.new()
        assert writer.ring([number]) == []
        assert heard.one()
        assert [thread.daemon for thread in ears()] == [True]
        writer.connect(number)
        bell.close()
        assert (ears(), os.listdir(bells.folder)) == ([], [])
        bell.close()
        writer.close()
    assert (descriptors(), doorbell._ears) == (before, set())


def test_what_is_closed_stays_so(bells: Bells) -> None:
    """A late ring of another thread must not open anything again."""
    bells.listening(1)
    bell = bells.new()
    bell.close()
    assert not bell.connect(1)
    assert bell.ring([1]) == [1]
    with pytest.raises(StoreError, match="is closed; make another"):
        bell.listen(2, lambda: None)


def test_one_doorbell_listens_once(bells: Bells) -> None:
    bell, heard = bells.listening(1)
    with pytest.raises(StoreError, match="listens already"):
        bell.listen(2, heard.ring)
    assert bells.new().ring([1]) == []
    assert heard.one()


def test_close_from_within_a_ring_does_not_wait_for_itself(bells: Bells) -> None:
    """A program that closes its scheduler from a listener of its own."""
    bell, closed = bells.new(), threading.Event()

    def ring() -> None:
        bell.close()
        closed.set()

    bell.listen(1, ring)
    [thread] = ears()
    assert bells.new().ring([1]) == []
    assert closed.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert os.listdir(bells.folder) == []


def test_close_leaves_the_socket_of_the_one_that_came_after(bells: Bells) -> None:
    """Its number was taken for dead: to remove the other's socket would make that one deaf."""
    first, _ = bells.listening(1)
    _, heard = bells.listening(1)
    first.close()
    assert bells.new().ring([1]) == []
    assert heard.one()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_doorbell_never_wakes(bells: Bells) -> None:
    """P7. With a connection, too, which is how it always is."""
    _, heard = bells.listening(1)
    assert bells.new().ring([1]) == []
    assert heard.one()
    status = Path(f"/proc/self/task/{ears()[0].native_id}/status")
    # A few tries, since the thread may still be on its way to its sleep. One that wakes has no idle 100 ms.
    for _ in range(20):
        before = switches(status)
        threading.Event().wait(0.1)
        if switches(status) == before:
            return
    pytest.fail("the doorbell wakes although nothing happens")


def switches(status: Path) -> int:
    [line] = [line for line in status.read_text().splitlines() if line.startswith("voluntary_ctxt_switches")]
    return int(line.split()[1])


def test_a_ring_in_the_middle_of_a_ring_does_not_hang(bells: Bells) -> None:
    """A signal handler comes in anywhere, also where this thread holds the doorbell's lock."""
    _, heard = bells.listening(1)
    writer, handled = bells.new(), 0

    def ring(*_: object) -> None:
        nonlocal handled
        handled += 1
        assert writer.connect(1)
        assert writer.ring([1]) == []

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while handled < 200:
            assert writer.ring([1]) == []
            writer.disconnect(1)
            assert heard.one()  # or the connections come more quickly than they can be taken, and 4,096 may wait
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_system_without_such_sockets_is_told_so(bells: Bells, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows: not an AttributeError from deep inside."""
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(StoreError, match="has no Unix sockets, so several processes cannot share a store here"):
        bells.listening(1)
