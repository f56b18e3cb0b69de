"""What a session writes: the rows of records that have changed, and new ones. Methods of `session.Session`.

None is never bound: `sqlite3` looks for an adapter of its type every time, which for the many columns that are NULL in
most rows costs more than all else of the statement. So NULL stands in the text, or is what the column is without it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import is_not, ne
from typing import TYPE_CHECKING

from tickless.core.record import RunRecord, TaskRecord
from tickless.core.special import is_round, is_unlisted, special_in
from tickless.stores.sql import plain
from tickless.stores.sql.calls import StoredCall, pack_handler
from tickless.stores.sql.kin import Kin
from tickless.stores.sql.plans import StoredPlan
from tickless.stores.sql.rows import AT, AWAITED, COLUMNS, GIVES_RESULT, HAS_CHILDREN, Loaded, Row, run_row
from tickless.stores.sql.statements import load as load_statements

if TYPE_CHECKING:
    from tickless.stores.sql.session import Session

ASK = load_statements("queries.sql")
PLACES = range(len(COLUMNS))
POLICY, ENDED, LANE, KIN = AT["policy"], AT["ended"], AT["lane"], AT["kin"]
OWNER, LEASE, VALUE, STOP = AT["owner"], AT["lease"], AT["value"], AT["stop"]
_NONES = (None,) * len(COLUMNS)
Statement = tuple[str, list[Row]]
"""SQL, and what is bound to it for each row."""


class _Batch:
    """What one write has to say, by the statements that say it."""

    def __init__(self) -> None:
        self.gone: list[tuple[int]] = []
        self.fresh: list[Row] = []
        self.changed: dict[tuple[int, ...], list[Row]] = {}
        """Places -> the rows of which these have changed."""
        self.steps: dict[str, list[Row]] = {}
        """SQL of `plain.py` -> what is bound to it."""

    def write(self, session: Session) -> None:
        db = session.db
        if self.gone:
            db.executemany(ASK.drop_task, self.gone)
        for sql, values in self.steps.items():
            db.executemany(sql, values)
        if self.changed:
            for sql, values in updates(self.changed):
                db.executemany(sql, values)
        if self.fresh:  # after the others, who may have given up their ids
            for sql, values in inserts(self.fresh):
                db.executemany(sql, values)
        if session.new_links:
            links, session.new_links = session.new_links, {}
            db.executemany(ASK.link, [(parent, child._seq) for parent, kin in links.items() for child in kin])


def flush(session: Session) -> None:
    """Write what has changed."""
    _meet_new(session)
    _give_turns(session)
    live, batch = session.machine.registry.live, _Batch()
    for seq, one in session.loaded.items():
        if one.ended is None:
            if seq not in live and not _ends(session, one):
                batch.gone.append((seq,))
                continue
        elif one.ended == -1 or _is_written(one):
            continue
        step = plain.step(one) if one.is_plain else None
        if step is None:
            _put_row(session, one, batch)
        else:
            sql, values, one.row = step
            batch.steps.setdefault(sql, []).append(values)
    batch.write(session)
    session.shared.write()


def _ends(session: Session, one: Loaded) -> bool:
    """The task has ended in this transaction; whether its row stays."""
    task, shared = one.task, session.shared
    session.ended.append(task)
    session.awaited = session.awaited or bool(one.kin & AWAITED)
    if one.row is not None:
        shared.live -= 1
    if is_unlisted(task) and not is_round(task):
        one.ended = -1
        return False
    one.ended = shared.next_turn()
    session.written += 1
    return True


def _is_written(one: Loaded) -> bool:
    """Whether nothing of a task that has ended can have changed since that was written; mostly it is so."""
    task, row = one.task, one.row
    return (
        row is not None
        and row[ENDED] == one.ended
        and task._more is None
        and task._id is None
        and (one.kin, one.owner, one.lease, one.value) == (row[KIN], row[OWNER], row[LEASE], row[VALUE])
    )


def _put_row(session: Session, one: Loaded, batch: _Batch) -> None:
    """Whatever the record has come to."""
    task, machine = one.task, session.machine
    children, seq = task._children, task._seq
    if children is not None and one.ended is None and type(children) is list:
        session.new_links.setdefault(seq, []).extend(children)
        task._children = Kin(session, task)  # type: ignore[assignment]  # it is asked as a list is
        one.kin |= HAS_CHILDREN
    if task._more is not None and task._more.history:
        _write_runs(session, task, task._more.history)
    is_named = task._id is None or machine.registry.named.get(task._id) is task
    row, old = session.rows.encode(one, waits=task in machine.waiting, named=is_named), one.row
    one.kin = row[KIN]
    if old is None:
        if one.ended is None:
            session.shared.live += 1
        batch.fresh.append(row)
        _write_tags(session, seq, (), () if one.ended is not None else _tags(task))
    elif row != old:
        if row[STOP] and not old[STOP] and one.owner is not None and seq not in session.own_runs:
            session.asks_others = True
        places = tuple(compress(PLACES, map(ne, row, old)))
        batch.changed.setdefault(places, []).append(row)
        if (row[POLICY] or old[POLICY]) and (row[POLICY] != old[POLICY] or row[ENDED] != old[ENDED]):
            _write_tags(session, seq, None, () if one.ended is not None else _tags(task))
        if old[LANE] is not None and row[LANE] != old[LANE]:
            session.lanes.add(old[LANE])
    else:
        return
    if row[LANE] is not None and (old is None or row[LANE] != old[LANE]):
        session.lanes.add(row[LANE])
        session.filled.add(row[LANE])
    one.row, one.is_plain = row, False


def _meet_new(session: Session) -> None:
    """What has come since the last write. Plain tasks are written here, and mostly that is all; others follow."""
    for task, _ in list(session.fresh.values()):
        adopt(session, task)  # it may have changed since it was written
    loaded, fresh = session.loaded, session.fresh
    for seq, task in session.machine.registry.live.items():
        if seq not in loaded:
            values = plain.new_values(task)
            if values is None:
                _is_new(session, task)
            else:
                fresh[seq] = task, values
    for task in session.machine.registry.finished:
        adopt(session, task)
    if fresh:
        session.alive.put_many([task for task, _ in fresh.values()])
        session.shared.live += len(fresh)
        session.db.executemany(plain.INSERT, [values for _, values in fresh.values()])


def adopt(session: Session, task: TaskRecord) -> Loaded:
    """What is known of a task of the machine, which may have come in this transaction."""
    return session.loaded.get(task._seq) or _is_new(session, task)


def _is_new(session: Session, task: TaskRecord) -> Loaded:
    one = session.loaded[task._seq] = Loaded(task)
    _, written = session.fresh.pop(task._seq, (None, None))
    if written is not None:
        one.row, one.is_plain = plain.waiting_row(*written), True
        return one
    if task._args or (
        task._work is not None and not isinstance(task._work, StoredCall | StoredPlan)
    ):  # a handler, whose argument is the run that failed
        pack_handler(session.rows.works, task)
    special = special_in(task)
    if special is not None and special.chief is not None:
        one.chief = special.chief._seq
    mark = session.rows.marks.pop(task, None)
    if mark is not None:
        one.kin |= GIVES_RESULT if mark.gives else 0
        one.value = mark.value
    session.alive.put(task)
    return one


def _give_turns(session: Session) -> None:
    """Each that has become ready gets its place in its queue, behind all others; or before, if it took a turn."""
    loaded, lanes, shared = session.loaded, session.rows.lanes, session.shared
    for queue in lanes:
        if not queue.claims:
            continue
        for lane in queue._lanes.values():
            before = True
            for task in lane:
                one = loaded.get(task._seq)
                if one is None:  # it came and went within this transaction
                    continue
                if one.turn is not None and one.row is not None and one.row[LANE] == lanes[queue]:
                    before = False
                elif task in queue.claims:
                    special = special_in(task)
                    first = before and special is not None and special.takes_turn
                    one.turn = -shared.next_turn() if first else shared.next_turn()


def _write_runs(session: Session, task: TaskRecord, history: deque[RunRecord]) -> None:
    session.db.executemany(ASK.add_run, [run_row(task._seq, run) for run in history])
    session.grown.add(task._seq)
    session.written += len(history)
    history.clear()


def _write_tags(session: Session, seq: int, old: Sequence[str] | None, new: Sequence[str]) -> None:
    if old is None:
        session.db.execute(ASK.drop_tags, (seq,))
    if new:
        session.db.executemany(ASK.add_tag, [(tag, seq) for tag in new])


def _tags(task: TaskRecord) -> tuple[str, ...]:
    special = special_in(task)
    return () if special is None or special.unlisted else special.policy.tags


def inserts(rows: Iterable[Row]) -> Iterator[Statement]:
    """What puts new rows into the table."""
    by_shape: dict[tuple[bool, ...], list[Row]] = {}
    for row in rows:
        shape = tuple(map(is_not, row, _NONES))
        by_shape.setdefault(shape, []).append(tuple(compress(row, shape)))
    for shape, many in by_shape.items():
        yield _insert(shape), many


@lru_cache(maxsize=256)
def _insert(shape: tuple[bool, ...]) -> str:
    said = tuple(compress(COLUMNS, shape))
    return f"INSERT INTO tasks ({', '.join(said)}) VALUES ({', '.join('?' * len(said))})"


def updates(changed: Mapping[tuple[int, ...], Iterable[Row]]) -> Iterator[Statement]:
    """What writes these places of these rows."""
    for places, rows in changed.items():
        by_shape: dict[tuple[bool, ...], list[Row]] = {}
        for row in rows:
            values = [row[place] for place in places]
            shape = tuple(map(is_not, values, _NONES))
            by_shape.setdefault(shape, []).append((*compress(values, shape), row[0]))
        for shape, many in by_shape.items():
            yield _update(places, shape), many


@lru_cache(maxsize=256)
def _update(places: tuple[int, ...], shape: tuple[bool, ...]) -> str:
    said = [f"{COLUMNS[place]} = {'?' if there else 'NULL'}" for place, there in zip(places, shape, strict=True)]
    return f"UPDATE tasks SET {', '.join(said)} WHERE seq = ?"
