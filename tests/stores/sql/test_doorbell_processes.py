"""The doorbell across processes: death, fork, freezing, and what the system may run out of."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.stores.sql.others import Other
from tests.stores.sql.test_doorbell import Heard
from tickless.errors import StoreError
from tickless.stores.sql.doorbell import Doorbell

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets here")

LISTENS = """
bell = Doorbell(sys.argv[1], "tasks.db")
bell.listen(1, lambda: say("rung"))
say("listens")
"""
"""Listens at 1, and says so."""
WRITES = """
bell = Doorbell(sys.argv[1], "tasks.db")
say(bell.connect(2))
"""
"""Is connected to 2."""
LIVES_ON = """
pid = os.fork()
if pid == 0:
    signal.alarm(100)
    say(os.getpid())
    signal.pause()
signal.pause()
"""
"""Forks a child that says its pid and outlives it."""


@contextmanager
def listening(folder: Path, number: int = 2) -> Iterator[Heard]:
    heard, bell = Heard(), Doorbell(folder, "tasks.db")
    bell.listen(number, heard.ring)
    try:
        yield heard
    finally:
        bell.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Doorbell]:
    bell = Doorbell(tmp_path, "tasks.db")
    yield bell
    bell.close()


def test_a_ring_reaches_another_process(tmp_path: Path, writer: Doorbell) -> None:
    with Other(LISTENS + "hear()", tmp_path) as other:
        assert other.says() == "listens"
        assert writer.connect(1)
        for _ in range(20):
            assert writer.ring([1]) == []
            assert other.says() == "rung"


def test_a_writer_that_is_killed_rings_by_its_death(tmp_path: Path) -> None:
    """Between its commit and its byte: what it has committed would wait for the next change of somebody else."""
    with listening(tmp_path) as heard, Other(WRITES + "hear()", tmp_path) as other:
        assert other.says() == "True"
        other.kill()
        assert heard.one()


def test_a_listener_that_is_killed_is_gone_and_its_place_can_be_taken(tmp_path: Path, writer: Doorbell) -> None:
    """Its socket lies there still, and tells nothing of who lives."""
    with Other(LISTENS + "hear()", tmp_path) as other:
        assert other.says() == "listens"
        assert writer.connect(1)
        other.kill()
    assert os.listdir(tmp_path) == ["tasks.db-bell-1"]
    assert writer.ring([1]) == [1]
    assert not writer.connect(1)
    with listening(tmp_path, 1) as heard:
        assert writer.ring([1]) == []
        assert heard.one()
    assert os.listdir(tmp_path) == []


def test_a_frozen_listener_is_rung_and_hears_it_later(tmp_path: Path, writer: Doorbell) -> None:
    """A debugger, SIGSTOP, a container that is paused: no commit waits for it, and it misses none."""
    with Other(LISTENS + "hear()", tmp_path) as other:
        assert other.says() == "listens"
        other.stop()
        assert writer.connect(1)
        for _ in range(2_000):
            assert writer.ring([1]) == []
        other.go_on()
        assert other.says() == "rung"


# Fork. A descriptor that a child has inherited keeps its other end from noticing that the parent is dead.


@contextmanager
def outlived(source: str, folder: Path, greeting: str) -> Iterator[Callable[[], None]]:
    """A process that has forked a child. Gives what kills the process; the child dies at the end."""
    with Other(source + LIVES_ON, folder) as other, ExitStack() as at_end:
        assert other.says() == greeting
        child = int(other.says())
        at_end.callback(os.kill, child, signal.SIGKILL)  # and it lived until then, or this fails
        yield other.kill


def test_the_death_of_a_writer_is_heard_although_its_forked_child_lives(tmp_path: Path) -> None:
    """gunicorn, multiprocessing: the child has a copy of the connection, which would not end."""
    with listening(tmp_path) as heard, outlived(WRITES, tmp_path, "True") as kill:
        kill()
        assert heard.one()


def test_the_death_of_a_listener_is_seen_although_its_forked_child_lives(tmp_path: Path, writer: Doorbell) -> None:
    """The child would take the rings, and hear none of them."""
    with outlived(LISTENS, tmp_path, "listens") as kill:
        assert writer.connect(1)
        kill()
        assert writer.ring([1]) == [1]
        assert not writer.connect(1)


def test_a_connection_that_was_taken_before_the_fork_ends_with_the_listener(tmp_path: Path, writer: Doorbell) -> None:
    """The child has the other end of it, too."""
    source = """
    taken = threading.Event()
    bell = Doorbell(sys.argv[1], "tasks.db")
    bell.listen(1, taken.set)
    say("listens")
    taken.wait()
    """
    with Other(source.replace("\n    ", "\n") + LIVES_ON, tmp_path) as other:
        assert other.says() == "listens"
        assert writer.ring([1]) == []
        child = int(other.says())
        other.kill()
        assert writer.ring([1]) == [1]
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_does_not_ring_and_its_parent_goes_on(tmp_path: Path) -> None:
    """A worker that ends in its own way must not hang up for the master, nor remove its socket."""
    source = """
    heard = threading.Semaphore(0)
    bell = Doorbell(sys.argv[1], "tasks.db")
    bell.listen(1, heard.release)
    say(bell.connect(2), bell.connect(1))
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        say(bell.ring([1, 2]), bell.connect(2), refused(bell.listen, 3, print))
        bell.disconnect(2)
        bell.close()
        new = Doorbell(sys.argv[1], "tasks.db")
        new.listen(3, lambda: None)
        say(new.ring([3]))
        new.close()
        os._exit(0)
    say(os.waitpid(pid, 0)[1], os.path.exists(sys.argv[2]))
    hear()
    say(bell.ring([1, 2]), heard.acquire(timeout=30))
    hear()
    """
    with listening(tmp_path) as heard, Other(source, tmp_path, tmp_path / "tasks.db-bell-1") as other:
        assert [other.says() for _ in range(4)] == ["True True", "[1, 2] False StoreError", "[]", "0 True"]
        assert heard.count == 0
        assert other.answers("ring") == "[] True"
        assert heard.one()
        assert heard.count == 1


def test_a_fork_at_any_moment_leaves_no_socket_to_the_child(tmp_path: Path) -> None:
    """A descriptor exists a moment before anybody knows it: a child that is forked then would keep it for ever."""
    source = """
    bell, stop, heard = Doorbell(sys.argv[1], "tasks.db"), threading.Event(), threading.Semaphore(0)
    bell.listen(1, heard.release)
    def hammer():
        mine = Doorbell(sys.argv[1], "tasks.db")
        while not stop.is_set():
            mine.connect(1)
            mine.ring([1])
            mine.disconnect(1)
            heard.acquire(timeout=0.01)     # or more connections come than can be taken, and 4,096 may wait
        mine.close()
    def hammer_listening():
        while not stop.is_set():
            mine = Doorbell(sys.argv[1], "tasks.db")
            mine.listen(2, lambda: None)
            mine.close()
    threads = [threading.Thread(target=hammer) for _ in range(2)] + [threading.Thread(target=hammer_listening)]
    for thread in threads:
        thread.start()
    def sockets():
        left = 0
        for fd in os.listdir("/proc/self/fd"):
            try:
                left += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
            except OSError:
                pass
        return left
    codes = set()
    for _ in range(60):
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            os._exit(sockets())
        codes.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    stop.set()
    for thread in threads:
        thread.join()
    say(codes, bell.ring([1]))
    bell.close()
    say(sockets())
    """
    with Other(source, tmp_path) as other:
        assert other.says() == "{0} []"
        assert other.says() == "0"


# What the system may run out of.


def test_a_listener_without_descriptors_hears_rings_and_does_not_burn_a_core(tmp_path: Path, writer: Doorbell) -> None:
    """It cannot take the connection, on which there may be a ring: so it looks, once, and then each second."""
    source = """
    import resource
    from tickless.stores.sql import doorbell
    doorbell.DEAF_MS = 10_000_000
    heard = threading.Semaphore(0)
    bell = Doorbell(sys.argv[1], "tasks.db")
    bell.listen(1, heard.release)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    eaten = []
    def eat():
        try:
            while True:
                eaten.append(os.dup(0))
        except OSError:
            pass
    eat()
    say("full")
    hear()
    say(heard.acquire(timeout=30))
    burnt = os.times()
    say(heard.acquire(timeout=1), os.times().user - burnt.user < 0.5)
    """
    with Other(source, tmp_path) as other:
        assert other.says() == "full"
        assert writer.ring([1]) == []
        assert other.answers("rung") == "True"
        assert other.says() == "False True"


def test_a_listener_that_has_descriptors_again_takes_who_waits(tmp_path: Path, writer: Doorbell) -> None:
    """From then on it is silent unless it is rung."""
    source = """
    import resource
    from tickless.stores.sql import doorbell
    doorbell.DEAF_MS = 5
    heard = threading.Semaphore(0)
    bell = Doorbell(sys.argv[1], "tasks.db")
    bell.listen(1, heard.release)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    eaten = []
    try:
        while True:
            eaten.append(os.dup(0))
    except OSError:
        pass
    say("full")
    for _ in range(3):
        assert heard.acquire(timeout=30)
    say("deaf")
    for fd in eaten:
        os.close(fd)
    while len(bell._ear._sockets) < 4:
        assert heard.acquire(timeout=30)
    while heard.acquire(timeout=0.5):
        pass
    say("well")
    assert heard.acquire(timeout=30)
    say("rung")
    """
    with Other(source, tmp_path) as other:
        assert other.says() == "full"
        assert writer.ring([1]) == []
        assert other.says() == "deaf"
        assert other.says() == "well"
        assert writer.ring([1]) == []
        assert other.says() == "rung"


def test_a_writer_without_descriptors_is_told_so_and_a_ring_does_not_raise(tmp_path: Path) -> None:
    """After the commit there is nobody whom an error would serve."""
    source = """
    import resource
    bell = Doorbell(sys.argv[1], "tasks.db")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    say(refused(bell.connect, 2), refused(bell.listen, 1, print), bell.ring([2]))
    """
    with listening(tmp_path), Other(source, tmp_path) as other:
        assert other.says() == "StoreDown StoreDown [2]"


def test_a_program_that_dies_of_broken_pipes_does_not_die_of_a_ring(tmp_path: Path) -> None:
    """Command-line programs set SIGPIPE to its default, which ends the process without a word."""
    source = """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    bell = Doorbell(sys.argv[1], "tasks.db")
    say(bell.connect(2))
    hear()
    say(bell.ring([2]))
    """
    with Other(source, tmp_path) as other:
        with listening(tmp_path):
            assert other.says() == "True"
        assert other.answers("closed") == "[2]"


def test_a_socket_of_another_user_is_an_error_that_says_so(tmp_path: Path) -> None:
    """To take it for a dead one's would mean that nobody wakes whom nobody may ring."""
    source = """
    if os.getuid() == 0:
        os.setuid(65534)
    bell = Doorbell(sys.argv[1], "tasks.db")
    try:
        say(bell.connect(2))
    except StoreError as error:
        say(error)
    """
    with listening(tmp_path):
        os.chmod(tmp_path / "tasks.db-bell-2", 0)
        with Other(source, tmp_path) as other:
            assert "tasks.db-bell-2: may not be rung by this user; run all processes" in other.says()


def test_a_program_that_exits_without_closing_ends_quietly(tmp_path: Path, writer: Doorbell) -> None:
    """The thread is a daemon, and whatever the interpreter collects last must not wait for it."""
    with Other(LISTENS + "hear(); bell.connect(1); say('ends')", tmp_path) as other:
        assert other.says() == "listens"
        assert writer.connect(1)
        assert other.answers("end") == "ends"
        assert other.says() == ""
    assert writer.ring([1]) == [1]
    with pytest.raises(StoreError, match="is closed"):
        writer.close()
        writer.listen(2, lambda: None)
