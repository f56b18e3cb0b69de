"""The short ways of plain tasks give what the long ones give: the same rows, and the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.stores.sql.files import File, a_file
from tickless.core.record import More, RunRecord, TaskRecord
from tickless.core.special import Special
from tickless.policies import Policy
from tickless.records import SUCCESS, Outcome
from tickless.rules import Rule, cron, every
from tickless.states import Reason, State
from tickless.stores.sql import plain
from tickless.stores.sql.calls import StoredCall
from tickless.stores.sql.checking import check
from tickless.stores.sql.rows import AWAITED, COLUMNS, HAS_CHILDREN, Loaded, Row
from tickless.stores.sql.session import SELECT
from tickless.stores.sql.store import MOST_GROUP, SqlStore
from tickless.testing.drafts import NOON_US, Bell, draft, later

ODD = {"pool": "other", "listed": 2}
"""What a column may have that must have one certain value; of the others, 1 or a text is another than the usual one."""


@pytest.fixture
def file() -> Iterator[File]:
    with a_file() as file:
        yield file


def opened(file: File) -> SqlStore:
    """A process that takes runs in groups, which is where short ways are gone."""
    store = file.store()
    store.claims._most_group = MOST_GROUP
    store.open()
    return store


def row_of(store: SqlStore, seq: int) -> Row:
    return tuple(store.db.execute(f"{SELECT} WHERE seq = ?", (seq,)).fetchone())


def said(when: Rule | None = None, **given: Any) -> TaskRecord:
    return draft(when, later(1), later(1), **given)


def with_policy() -> TaskRecord:
    task = said()
    task._more = More()
    task._more.special = Special(Policy(tags=("x",)))
    return task


def with_arguments() -> TaskRecord:
    task = said()
    task._args = (1,)
    return task


KINDS: dict[str, Callable[[], TaskRecord]] = {
    "plain": said,
    "named": lambda: said(id="x"),
    "urgent": lambda: said(priority=1),
    "recurring": lambda: said(every(seconds=1)),
    "by the wall": lambda: said(cron("* * * * *")),
    "with a policy": with_policy,
    "with arguments": with_arguments,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_row_is_what_the_long_way_makes_of_its_record(file: File, kind: str) -> None:
    """A column that the short way forgets is that of another kind of task."""
    store = opened(file)
    task = KINDS[kind]()
    store.add_many([said(), task], NOON_US)
    assert row_of(store, 2) == store.session.rows.encode(Loaded(task), waits=False, named=True)
    assert (plain.new_values(task) is None) == (kind != "plain")
    check(store)


def test_a_parent_of_the_same_batch_is_not_plain(file: File) -> None:
    """It is written before its child, and must say that it has one."""
    store = opened(file)
    parent = said()
    store.add_many([parent, draft(None, NOON_US, NOON_US, parents=(parent,))], NOON_US)
    check(store)


def test_what_changes_in_the_transaction_that_has_written_it_is_written_anew(file: File) -> None:
    """Whoever comes in one group with the scheduling may cancel, wait for, or adopt a task that no row was read of."""
    store = opened(file)
    cancelled, parent, awaited, untouched = (said() for _ in range(4))
    child = draft(None, NOON_US, NOON_US, parents=(parent,))
    bell = Bell()

    def body() -> None:
        for task in (cancelled, parent, awaited, untouched):
            store._door.pack(task)
        store.machine.enter_many([cancelled, parent, awaited, untouched], NOON_US)
        store.session.flush()
        store._door.pack(child)
        store.machine.registry.admit(child)
        store.machine.enter(child, NOON_US)
        loaded = store.session.load(awaited._seq)
        assert loaded is not None
        loaded.kin |= AWAITED
        store.session.load_many([cancelled._seq])
        store.machine.discard(cancelled)
        store.machine.unplace(cancelled)
        store.machine.end_unrun(cancelled, State.SKIPPED, Reason.MISFIRE, NOON_US)

    store._ask(body)
    check(store)
    assert [row_of(store, task._seq)[COLUMNS.index("kin")] for task in (parent, awaited, untouched)] == [
        HAS_CHILDREN,
        AWAITED,
        0,
    ]
    assert store.await_end(child, bell)


@pytest.mark.parametrize("column", [name for name in COLUMNS if name not in ("seq", "name", "work", "at", "token")])
def test_a_row_that_says_anything_else_is_not_plain(file: File, column: str) -> None:
    """What the short way does not read would be as if it were not there."""
    store = opened(file)
    store.add(said(), NOON_US)
    ask = f"{plain.SELECT} WHERE seq = 1"
    assert store.db.execute(ask).fetchone()[-1] == 1
    store.db.execute(f"UPDATE tasks SET {column} = ? WHERE seq = 1", (ODD.get(column, 1),))
    assert store.db.execute(ask).fetchone()[-1] == 0


@dataclass
class Seen:
    """All that a session holds of a task."""

    record: dict[str, Any]
    loaded: dict[str, Any]
    places: list[Any]


def seen(store: SqlStore, load: Callable[[], object]) -> Seen:
    def body() -> Seen:
        load()
        session, machine = store.session, store.machine
        loaded = session.loaded[1]
        task = loaded.task
        record = {key: getattr(task, key) for key in TaskRecord.__slots__ if key not in ("__weakref__", "_work")}
        call = task._work
        assert type(call) is StoredCall
        told = {key: getattr(loaded, key) for key in Loaded.__slots__ if key not in ("task", "is_plain")}
        places: list[Any] = [machine.timeline.heap.copy(), machine.timeline.live, list(machine.registry.live)]
        return Seen(record | {"call": (call.name, call.args)}, told, places)

    found: Seen = store._read(body)
    return found


def test_a_record_is_what_the_long_way_makes_of_its_row(file: File) -> None:
    """What one forgets to set is as it was in another task."""
    before = opened(file)
    before.add(said(), NOON_US)
    before.db.execute("UPDATE tasks SET token = 3")
    store = opened(file)
    short = seen(store, lambda: store.session.select_due(later(2), 5))
    long = seen(store, lambda: store.session.select("WHERE seq = 1"))
    assert short == long


def fails(store: SqlStore, run: RunRecord) -> None:
    store.finish(run, Outcome(State.FAILED, ValueError("x"), None, "ValueError: x"), later(3))


def succeeds(store: SqlStore, run: RunRecord) -> None:
    store.finish(run, SUCCESS, later(3))


def is_cancelled(store: SqlStore, run: RunRecord) -> None:
    store.cancel(run.task, later(2))
    succeeds(store, run)


def is_looked_at(store: SqlStore, run: RunRecord) -> None:
    store.stop_flag(run)
    succeeds(store, run)


def is_awaited(store: SqlStore, run: RunRecord) -> None:
    assert store.await_end(run.task, Bell())
    succeeds(store, run)


def has_a_child(store: SqlStore, run: RunRecord) -> None:
    store.add(draft(None, later(2), later(2), parents=(run.task,)), later(2))
    succeeds(store, run)


def is_given_back(store: SqlStore, run: RunRecord) -> None:
    store._ask(lambda: store.claims.put_back(run, None))


def goes_on(store: SqlStore, run: RunRecord) -> None:
    pass


ENDS = [succeeds, fails, is_cancelled, is_looked_at, is_awaited, has_a_child, is_given_back, goes_on]


def life(file: File, id: str | None, end: Callable[[SqlStore, RunRecord], None]) -> list[Row]:
    """The rows of a task that one process schedules and another runs, but for its id."""
    opened(file).add(said(id=id), NOON_US)
    store = opened(file)
    rows = [row_of(store, 1)]
    store.due(later(2), later(2))
    run = store.take(later(2))
    assert run is not None
    assert store.session.kept[1].is_plain == (id is None)
    rows.append(row_of(store, 1))
    check(store)
    end(store, run)
    store.transactions.flush()
    rows.append(row_of(store, 1))
    check(store)
    return [(row[0], *row[2:]) for row in rows]


@pytest.mark.parametrize("end", ENDS)
def test_the_rows_of_a_life_are_those_of_one_that_goes_the_long_way(
    end: Callable[[SqlStore, RunRecord], None],
) -> None:
    """Who is given an id is not plain, and lives the same life otherwise."""
    with a_file() as one, a_file() as other:
        assert life(one, None, end) == life(other, "x", end)
