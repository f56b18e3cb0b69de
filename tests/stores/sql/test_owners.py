"""Which processes live. Real processes, real locks."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from tests.stores.sql.others import Other
from tickless.errors import StoreDown, StoreError
from tickless.stores.sql import owners
from tickless.stores.sql.owners import Owners

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks here")

ANSWERS = """
owners = Owners(sys.argv[1])
for line in sys.stdin:
    verb, n = line.split()
    try:
        say(getattr(owners, verb)(int(n)))
    except StoreError as error:
        say(type(error).__name__, error)
"""
"""A process that calls `owners.<verb>(n)` for each line, and says what comes of it."""


def path_in(folder: Path) -> Path:
    return folder / "tasks.db"


def test_an_owner_lives_from_hold_to_release(tmp_path: Path) -> None:
    """In the process itself POSIX locks do not conflict: it would take its own runs for those of a dead one."""
    one = Owners(path_in(tmp_path))
    assert not one.lives(7)
    one.hold(7)
    assert (one.lives(7), one.lives(6), one.lives(8)) == (True, False, False)
    one.release(7)
    assert not one.lives(7)
    one.close()


@pytest.mark.parametrize("n", [0, 1, 2**31, 2**32, 2**40])
def test_another_process_sees_who_lives_here_and_who_does_not(tmp_path: Path, n: int) -> None:
    """And may not take the number. Numbers count up for ever: past 2**32 they still are different ones."""
    one = Owners(path_in(tmp_path))
    one.hold(n)
    with Other(ANSWERS, path_in(tmp_path)) as other:
        assert other.answers(f"lives {n}") == "True"
        assert other.answers(f"lives {n + 1}") == "False"
        refusal = other.answers(f"hold {n}")
        assert refusal.startswith(f"StoreError {one.path}: owner {n} is held by process {os.getpid()};")
        one.release(n)
        assert other.answers(f"lives {n}") == "False"
        assert other.answers(f"hold {n}") == "None"
        assert one.lives(n)
        with pytest.raises(StoreError, match=f"owner {n} is held by process {other.pid};"):
            one.hold(n)
    one.close()


def test_a_killed_owner_lives_no_more_when_it_is_gone(tmp_path: Path) -> None:
    """kill -9, the OOM killer, a power cut of a container: what it ran is taken over at once, and not after a lease."""
    one = Owners(path_in(tmp_path))
    with Other(ANSWERS, path_in(tmp_path)) as other:
        other.answers("hold 3")
        assert one.lives(3)
        other.kill()
        assert not one.lives(3)
        one.hold(3)
    one.close()


def test_a_frozen_owner_lives(tmp_path: Path) -> None:
    """A process that a debugger holds, or a laptop that sleeps, goes on later: its runs must not run twice."""
    one = Owners(path_in(tmp_path))
    with Other(ANSWERS, path_in(tmp_path)) as other:
        other.answers("hold 3")
        other.stop()
        assert one.lives(3)
    one.close()


def test_two_stores_of_one_process_cannot_hold_one_number(tmp_path: Path) -> None:
    """The system would let them: each would believe the other's runs to be its own."""
    one, two = Owners(path_in(tmp_path)), Owners(path_in(tmp_path))
    one.hold(1)
    with pytest.raises(StoreError, match="owner 1 is held by another store of this process"):
        two.hold(1)
    assert two.lives(1)
    two.release(1)  # is not the other's to release
    assert one.lives(1)
    one.release(1)
    two.hold(1)
    one.close()
    two.close()


def names_of_one_database(folder: Path, kind: str) -> Path:
    """Another name of the database `tasks.db` in the folder."""
    path_in(folder).touch()
    if kind == "same":
        return path_in(folder)
    if kind == "relative":
        return Path(os.path.relpath(path_in(folder)))
    if kind == "link to the file":
        (folder / "link.db").symlink_to(path_in(folder))
        return folder / "link.db"
    (folder / "link").symlink_to(folder, target_is_directory=True)
    return path_in(folder / "link")


@pytest.mark.parametrize("kind", ["same", "relative", "link to the file", "link to the folder"])
def test_closing_a_second_store_of_the_process_leaves_the_locks_of_the_first(tmp_path: Path, kind: str) -> None:
    """POSIX: to close any descriptor of a file drops every lock that the process has on it."""
    one = Owners(path_in(tmp_path))
    one.hold(1)
    two = Owners(names_of_one_database(tmp_path, kind))
    assert two.lives(1)
    two.hold(2)
    two.close()
    with Other(ANSWERS, path_in(tmp_path)) as other:
        assert (other.answers("lives 1"), other.answers("lives 2")) == ("True", "False")
    one.close()


def test_a_file_that_gets_a_second_name_while_it_is_opened_keeps_its_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The descriptor that is opened unawares may not be closed before the locks are gone."""
    one = Owners(tmp_path / "one.db")
    one.hold(1)
    opens = owners._open_or_create

    def link_and_open(path: str) -> int:
        os.link(one.path, path)
        return opens(path)

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(owners, "_open_or_create", link_and_open)
    two = Owners(tmp_path / "two.db")
    assert two.lives(1)
    two.close()
    with Other(ANSWERS, tmp_path / "one.db") as other:
        assert other.answers("lives 1") == "True"
    one.close()
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_close_releases_what_is_held_and_every_descriptor(tmp_path: Path) -> None:
    """A test suite that makes a store per test would run out of descriptors."""
    Owners(path_in(tmp_path)).close()
    before = len(os.listdir("/proc/self/fd"))
    with Other(ANSWERS, path_in(tmp_path)) as other:
        for n in range(20):
            one, two = Owners(path_in(tmp_path)), Owners(path_in(tmp_path))
            one.hold(n)
            two.hold(n + 100)
            two.close()
            one.close()
            one.close()
            assert (other.answers(f"lives {n}"), other.answers(f"lives {n + 100}")) == ("False", "False")
            one.release(n)
            with pytest.raises(StoreError, match="are closed"):
                one.hold(n)
            with pytest.raises(StoreError, match="are closed"):
                one.lives(n)
    assert len(os.listdir("/proc/self/fd")) == before


def test_to_hold_again_takes_a_lock_anew_that_was_dropped(tmp_path: Path) -> None:
    """A backup in Python that copies the folder opens and closes the owners file, and with that drops its locks."""
    one = Owners(path_in(tmp_path))
    one.hold(1)
    with Other(ANSWERS, path_in(tmp_path)) as other:
        Path(one.path).read_bytes()
        assert other.answers("lives 1") == "False"
        one.hold(1)
        assert other.answers("lives 1") == "True"
        Path(one.path).read_bytes()
        assert other.answers("hold 1") == "None"
        with pytest.raises(StoreError, match=f"owner 1 is held by process {other.pid};"):
            one.hold(1)
        assert one.lives(1)
        other.kill()
        assert not one.lives(1), "it holds no more what it could not hold"
    one.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_an_owners_file_that_is_gone_is_an_error_and_not_the_end_of_all_others(tmp_path: Path, replaced: bool) -> None:
    """Whoever tidies the folder would make each process take over the runs of all the others."""
    one = Owners(path_in(tmp_path))
    one.hold(1)
    if replaced:
        # Beside the old one, whose inode number would be given again otherwise.
        (tmp_path / "new").touch()
        (tmp_path / "new").replace(one.path)
    else:
        os.unlink(one.path)
    for verb in (one.hold, one.lives):
        with pytest.raises(StoreDown, match=r"tasks\.db-owners: .*process"):
            verb(1)
    new = Owners(path_in(tmp_path))
    new.hold(1)
    one.close()
    with Other(ANSWERS, path_in(tmp_path)) as other:
        assert other.answers("lives 1") == "True"
    new.close()


@pytest.mark.parametrize("kind", ["no folder", "a folder", "a link to nothing"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, kind: str) -> None:
    db = path_in(tmp_path)
    if kind == "no folder":
        db = path_in(tmp_path / "missing")
    elif kind == "a folder":
        Path(f"{db}-owners").mkdir()
    else:
        Path(f"{db}-owners").symlink_to(tmp_path / "nothing")
    with pytest.raises(StoreError, match=r"tasks\.db-owners: .*; the store keeps its owners file beside the database"):
        Owners(db)


def test_whoever_may_write_the_database_may_write_its_owners(tmp_path: Path) -> None:
    """As with SQLite's own files: a worker under another user of the group would be refused, whatever the umask."""
    path_in(tmp_path).touch()
    path_in(tmp_path).chmod(0o664)
    before = os.umask(0o077)
    try:
        shared, alone = Owners(path_in(tmp_path)), Owners(tmp_path / "not-there-yet.db")
    finally:
        os.umask(before)
    assert [os.stat(one.path).st_mode & 0o777 for one in (shared, alone)] == [0o664, 0o600]
    shared.close()
    alone.close()


def test_a_system_without_such_locks_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows: not an AttributeError from deep inside."""
    monkeypatch.setattr(owners, "fcntl", None)
    one = Owners(path_in(tmp_path))
    for verb in (one.hold, one.lives):
        with pytest.raises(StoreError, match="need the file locks of Linux, macOS or BSD"):
            verb(1)
    one.release(1)
    one.close()


def test_of_many_threads_one_gets_the_number(tmp_path: Path) -> None:
    """Two schedulers that start at once."""
    stores = [Owners(path_in(tmp_path)) for _ in range(8)]
    start, got = threading.Barrier(len(stores)), []

    def hold(mine: Owners) -> None:
        for n in range(50):
            start.wait(30)
            try:
                mine.hold(n)
            except StoreError:
                continue
            got.append(n)

    threads = [threading.Thread(target=hold, args=(mine,)) for mine in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(50))
    for mine in stores:
        mine.close()


# Fork. The child is single-threaded, has none of the locks, and inherits what this module remembers.


def test_a_forked_child_holds_nothing_and_does_not_disturb_its_parent(tmp_path: Path) -> None:
    """gunicorn forks its workers: a worker that ends, or closes what it inherited, would drop the master's locks."""
    source = """
    owners = Owners(sys.argv[1])
    owners.hold(1)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        say(refused(owners.hold, 1), refused(owners.lives, 1))
        new = Owners(sys.argv[1])
        say(new.lives(1), refused(new.hold, 1))
        new.hold(2)
        owners.release(1)
        owners.close()
        Owners(sys.argv[1]).close()
        say(new.lives(2))
        os.read(reader, 1)
        os._exit(0)
    hear()
    os.close(writer)
    say(os.waitpid(pid, 0)[1])
    say(owners.lives(2), owners.lives(1))
    hear()
    """
    one = Owners(path_in(tmp_path))
    with Other(source, path_in(tmp_path)) as other:
        assert [other.says() for _ in range(3)] == ["StoreError StoreError", "True StoreError", "True"]
        assert (one.lives(1), one.lives(2)) == (True, True)
        assert other.answers("end the child") == "0"
        assert other.says() == "False True"
        assert (one.lives(1), one.lives(2)) == (True, False)
    assert not one.lives(1)
    one.close()


def test_a_dead_parent_is_dead_although_its_forked_child_lives(tmp_path: Path) -> None:
    """The child has the descriptor, and would keep the lock too if it were of another kind (flock, OFD)."""
    source = """
    owners = Owners(sys.argv[1])
    owners.hold(1)
    pid = os.fork()
    if pid == 0:
        signal.alarm(100)
        signal.pause()
    say(pid)
    signal.pause()
    """
    one = Owners(path_in(tmp_path))
    with Other(source, path_in(tmp_path)) as other:
        child = int(other.says())
        assert one.lives(1)
        other.kill()
        try:
            assert not one.lives(1)
        finally:
            os.kill(child, 9)  # and it was there
    one.close()


def test_a_fork_while_other_threads_hold_and_release_does_not_hang_the_child(tmp_path: Path) -> None:
    """The child inherits a lock that is held by nobody."""
    source = """
    owners = Owners(sys.argv[1])
    owners.hold(0)
    stop = threading.Event()
    def hammer(n):
        while not stop.is_set():
            another = Owners(sys.argv[1])
            another.hold(n)
            another.close()
    threads = [threading.Thread(target=hammer, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    codes = set()
    for _ in range(40):
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            new = Owners(sys.argv[1])
            new.hold(9)
            os._exit(0 if new.lives(0) and new.lives(9) else 1)
        codes.add(os.waitpid(pid, 0)[1])
    stop.set()
    for thread in threads:
        thread.join()
    say(codes, owners.lives(0), owners.lives(1), owners.lives(9))
    """
    with Other(source, path_in(tmp_path)) as other:
        assert other.says() == "{0} True False False"
