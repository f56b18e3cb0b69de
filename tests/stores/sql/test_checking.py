"""A promise that is broken in the rows is found: each row is spoilt by hand, since the store spoils none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores.sql.files import File, a_file
from tickless.stores.sql.checking import check
from tickless.stores.sql.store import SqlStore
from tickless.testing.drafts import NOON_US, draft, later

SPOILT = {
    "in exactly one place": "UPDATE tasks SET at = NULL WHERE seq = 1",
    "its run is": "UPDATE tasks SET state = 'ready', run_due = 1 WHERE seq = 1",
    "has lost its work": "UPDATE tasks SET work = NULL WHERE seq = 1",
    "counts": "UPDATE tasks SET waiting = 2 WHERE seq = 2",
    "not linked": "DELETE FROM links",
    "nobody runs it": "UPDATE tasks SET owner = NULL WHERE seq = 3",
    "without a lease": "UPDATE tasks SET lease = NULL WHERE seq = 3",
    "owner is not known": "DELETE FROM owners",
    "facts.live": "UPDATE facts SET live = live + 1",
    "facts.seq": "UPDATE facts SET seq = 1",
    "its turn is above": "UPDATE tasks SET turn = 99 WHERE seq = 4",
    "another queue": "UPDATE tasks SET lane = 'pool:other' WHERE seq = 4",
    "alarms": "INSERT INTO pauses VALUES ('tag:x', NULL, 5)",
    "about nothing": "INSERT INTO alarms VALUES ('limit:none', 5)",
    "too many": "INSERT INTO tags VALUES ('x', 1)",
    "keeps its work": "UPDATE tasks SET work = 'kept:0' WHERE seq = 5",
}


@pytest.fixture
def file() -> Iterator[File]:
    with a_file() as file:
        yield file


@pytest.fixture
def store(file: File) -> SqlStore:
    """1 is to come, 2 waits for it, 3 runs, 4 is ready, 5 has ended."""
    store = file.store()
    store.open()
    first = draft(None, later(9), later(9))
    store.add(first, NOON_US)
    store.add(draft(None, NOON_US, NOON_US, parents=(first,)), NOON_US)
    store.add(draft(None, NOON_US, NOON_US), NOON_US)
    assert store.take(NOON_US) is not None
    store.add(draft(None, NOON_US, NOON_US), NOON_US)
    gone = draft(None, later(9), later(9))
    store.add(gone, NOON_US)
    store.cancel(gone, NOON_US)
    return store


def test_what_the_store_has_written_keeps_every_promise(store: SqlStore) -> None:
    check(store)


@pytest.mark.parametrize("said", SPOILT)
def test_a_broken_promise_is_found(store: SqlStore, said: str) -> None:
    """A check that finds nothing is worth nothing."""
    store.db.execute(SPOILT[said])
    store.session.shared.stale = True
    with pytest.raises(AssertionError, match=said):
        check(store)
