"""Stores and schedulers on files that tests close, open anew, and make forget what they have read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

from tickless import Scheduler
from tickless.stores.registered import Works
from tickless.stores.sql.sqlite import Database
from tickless.stores.sql.store import SqlStore
from tickless.testing.keepsakes import Keepsakes

Memory = Literal["keeps", "forgets", "dies"]
"""What a store remembers from one verb to the next: what it does; nothing but what runs here; nothing, where nothing
runs, since its process ended and another has begun."""


class File:
    """A file, and the stores that were opened on it, one after the other. Works and values outlive each."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tickless-file-")
        self.path = Path(self._folder.name) / "tasks.db"
        self.works = cast("Works", Keepsakes())
        self._open: list[Any] = []

    def store(self, **given: Any) -> SqlStore:
        store = SqlStore(Database(self.path), works=self.works, most_group=1, **given)
        self._open.append(store)
        return store

    def scheduler(self, *args: Any, **given: Any) -> Scheduler:
        scheduler = Scheduler(*args, store=f"sqlite:///{self.path}", works=cast(Any, self.works), **given)
        store_of(scheduler).claims._most_group = 1
        self._open.append(scheduler._durable)
        return scheduler

    def leave(self) -> None:
        """Whatever is open on the file lets go of it."""
        while self._open:
            self._open.pop().leave()

    def remove(self) -> None:
        self.leave()
        self._folder.cleanup()


def store_of(scheduler: Scheduler) -> SqlStore:
    store = scheduler._store
    assert isinstance(store, SqlStore)
    return store


def make_forgetful(store: SqlStore) -> None:
    """Have it read all that it is asked about in each transaction, as if another process had written in between."""
    session, begin = store.session, store.session.begin

    def begin_anew() -> bool:
        session.kept.clear()
        session.shared.stale = True
        return begin()

    session.begin = begin_anew  # type: ignore[method-assign]


def runs_nothing(store: SqlStore) -> bool:
    """Whether its process may end without anything dying in it."""
    return not store.session.own_runs and not store.session.zombies


@contextmanager
def a_file() -> Iterator[File]:
    file = File()
    try:
        yield file
    finally:
        file.remove()
