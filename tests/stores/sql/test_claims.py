"""Runs are taken in groups, and ended with the next: what comes of a task that is in both, and of those that wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores.sql.files import a_file
from tickless.core.record import More
from tickless.core.special import Special
from tickless.policies import Policy
from tickless.records import SUCCESS, Outcome
from tickless.states import State
from tickless.stores.sql.checking import check
from tickless.stores.sql.store import MOST_GROUP, SqlStore
from tickless.testing.drafts import NOON_US, draft, later
from tickless.values import Retry

FAILURE = Outcome(State.FAILED, ValueError("x"), None, "ValueError: x")


@pytest.fixture
def store() -> Iterator[SqlStore]:
    """Each end is written with the next take."""
    with a_file() as file:
        store = file.store(pools={"default": 4})
        store.claims._most_group = MOST_GROUP
        store.open()
        yield store


def test_a_run_that_begins_again_in_the_transaction_that_ends_it_goes_on_here(store: SqlStore) -> None:
    """It would run, and nobody would renew its lease or take its end."""
    task = draft(None, NOON_US, NOON_US)
    task._more = More()
    task._more.special = Special(Policy(retry=Retry(2, delay=0)))
    store.add(task, NOON_US)
    first = store.take(NOON_US)
    assert first is not None
    store.claims.finished.append((first, FAILURE, later(1), task))
    store._ask(lambda: store.claims.take("default", later(1)))
    second = store.take(later(1))
    assert second is not None
    assert store.session.own_runs == {1: second}
    check(store)
    store.finish(second, SUCCESS, later(2))
    store.transactions.flush()
    assert store.get(task).state is State.SUCCEEDED
    check(store)


def ready(store: SqlStore) -> int:
    return int(store.db.execute("SELECT count(*) FROM tasks WHERE lane IS NOT NULL").fetchone()[0])


def test_a_flood_is_not_written_down_as_ready_while_workers_begin_it(store: SqlStore) -> None:
    """Each of a flood would be written twice; but who waits behind runs that are long is to be had by others."""
    store.add_many([draft(None, later(1), later(1)) for _ in range(200)], NOON_US)
    store.due(later(1), later(1))
    assert store.take(later(1)) is not None
    assert store.claims.local("default")
    store.due(later(1.011), later(1.011))
    assert ready(store) == 0
    store.due(later(1.022), later(1.022))
    assert ready(store) > 0
    check(store)


def test_what_has_another_pool_or_priority_does_not_wait_for_a_flood(store: SqlStore) -> None:
    """It has workers of its own, or comes first."""
    store.add_many([draft(None, later(1), later(1)) for _ in range(200)], NOON_US)
    store.due(later(1), later(1))
    assert store.take(later(1)) is not None
    store.add(draft(None, later(1.005), later(1.005), priority=1), later(1.005))
    store.due(later(1.011), later(1.011))
    assert ready(store) > 0
    check(store)
