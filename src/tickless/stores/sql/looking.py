"""Snapshots: what a store shows of its rows. Each is called inside a transaction that writes nothing."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tickless.core.machine import FOREVER
from tickless.core.record import TaskRecord
from tickless.core.snapshots import runs_of, task_of
from tickless.core.special import is_unlisted, policy_of
from tickless.errors import TaskFailed, UnknownTask, shown
from tickless.records import LimitInfo, Run, TaskInfo
from tickless.states import State
from tickless.stores.payloads import decode
from tickless.stores.sql.plans import FLOW, StoredPlan
from tickless.stores.sql.rows import Loaded
from tickless.stores.sql.session import ASK, Session


def oldest_kept(session: Session, keep_finished: int) -> int:
    """The place, among those that have ended, of the oldest that is still listed."""
    if keep_finished == 0:
        return 1 << 62
    row = session.db.execute(ASK.kept_from, (keep_finished - 1,)).fetchone()
    return 0 if row is None else int(row[0])


def is_listed(session: Session, loaded: Loaded, keep_finished: int) -> bool:
    """Whether the task lives, or is one of those that have ended and are kept."""
    more = loaded.task._more
    of_round = more is not None and more.round is not None  # it is listed for as long as that is
    return of_round or loaded.ended is None or loaded.ended >= oldest_kept(session, keep_finished)


def numbers_in(ids: list[str]) -> list[int]:
    """The numbers of the ids that were not given: "#7"."""
    return [int(id[1:]) for id in ids if id[:1] == "#" and len(id) < 20 and id[1:].isdecimal()]


def find(session: Session, id: str, keep_finished: int) -> TaskRecord:
    """The task of that id. Raises UnknownTask."""
    session.load_many(numbers_in([id]))
    session.select("WHERE id = ? AND listed = 1", (id,))
    for loaded in session.loaded.values():
        if loaded.task.id == id and not is_unlisted(loaded.task) and is_listed(session, loaded, keep_finished):
            return loaded.task
    unread = [(id, session.unread[id])] if session.unread and id in session.unread else []
    for unusable_id, why in session.db.execute(ASK.unusable_among, (json.dumps([id]),)).fetchall() + unread:
        raise UnknownTask(f"task {shown(unusable_id)}: its row cannot be used ({why}); mend it and call try_again()")
    raise UnknownTask(
        f"no task has the id {shown(id)}; it never had one, or it ended and was forgotten "
        f"(keep_finished={keep_finished})"
    )


def info(session: Session, task: TaskRecord) -> TaskInfo:
    """The task as it is now; as it was, where its row is forgotten."""
    loaded = session.load(task._seq)
    if loaded is not None:
        _fill(session, loaded)
    return task_of(session.machine, task)


def infos(session: Session, keep_finished: int) -> list[TaskInfo]:
    """All that are listed, in the order of scheduling."""
    kept = min(oldest_kept(session, keep_finished), FOREVER)
    listed = "listed > 0 AND (ended IS NULL OR ended >= ? OR round IS NOT NULL)"
    found = session.select(f"WHERE {listed} ORDER BY seq", (kept,))
    for loaded in found:
        _fill(session, loaded)
    return [task_of(session.machine, loaded.task) for loaded in found]


def runs(session: Session, task: TaskRecord, limit: int | None, keep_runs: int) -> list[Run]:
    """The newest runs that are kept, oldest first."""
    loaded, more = session.load(task._seq), task._more
    if loaded is not None and more is not None and more.history is not None:
        more.history += session.runs_of(task._seq, keep_runs)
    return runs_of(task, limit)


def _fill(session: Session, loaded: Loaded) -> None:
    """What a snapshot shows besides the row."""
    task = loaded.task
    if loaded.kin:
        children = session.db.execute(ASK.children, (task._seq,)).fetchall()
        task._children = [seq if id is None else (seq, id) for seq, id in children]
    more = task._more
    if task._run is None and more is not None and more.history is not None:
        more.history += session.runs_of(task._seq, 1)


def kept_result(session: Session, task: TaskRecord) -> str | TaskFailed | None:
    """The result of a task that has ended, as text, where it is kept; of one that failed, its error as a line."""
    loaded, run = session.load(task._seq), task._run
    if loaded is None or run is None:
        return None
    if run.state is State.FAILED:
        return TaskFailed(f"task {task.id} ({task._name}): {run.error}")
    return loaded.value


def unusable(session: Session) -> dict[str, str]:
    """The tasks whose rows cannot be used, by their ids, and why."""
    rows = session.db.execute(ASK.unusable).fetchall()
    found = {f"#{seq}" if id is None else id: why for seq, id, why in rows}
    if session.unread is not None:  # nobody has set these aside
        session.unread.clear()
        session.select("WHERE trouble IS NULL ORDER BY seq")
        found |= session.unread
    return found


def value_of(works: Any, text: str) -> Any:
    """A value that is kept as text. For who only looks in that is what JSON says of it: none of its classes is here."""
    return json.loads(text) if getattr(works, "stands_in", False) else decode(text, getattr(works, "value_of", None))


def works_of_recurring(session: Session) -> list[str]:
    """The works of all recurring tasks, each once."""
    names: list[str] = []
    while (row := session.db.execute(ASK.next_work, (names[-1] if names else "",)).fetchone()) is not None:
        names.append(row[0])
    if FLOW in names:
        names.remove(FLOW)
        flows = session.select("WHERE work = ? AND rule IS NOT NULL AND ended IS NULL", (FLOW,))
        plans = [one.task._work for one in flows if type(one.task._work) is StoredPlan]
        names += [name for plan in plans for name in plan.works]
    return list(dict.fromkeys(names))


def live(session: Session) -> list[TaskRecord]:
    """Every task that has not ended."""
    return [loaded.task for loaded in session.select("WHERE ended IS NULL ORDER BY seq")]


def pools(session: Session) -> dict[str, tuple[int, int, int]]:
    """Pool -> how many runs are ready, run here, and are zombies here; for who only looks in: run anywhere."""
    if session.unread is not None:
        return {name: (ready, running, 0) for name, ready, running in session.db.execute(ASK.pools_seen).fetchall()}
    here = Counter(policy_of(run.task).pool for run in session.own_runs.values())
    ready = dict(session.db.execute(ASK.pool_counts).fetchall())
    counts = session.machine.pools.items()
    return {name: (ready.get(f"pool:{name}", 0), here[name], pool.zombies) for name, pool in counts}


def limits(session: Session) -> list[LimitInfo]:
    """Every limit, as it is now."""
    waiting = dict(session.db.execute(ASK.pool_counts).fetchall())
    states = session.machine.limits.items()
    return [LimitInfo(name, state.held, waiting.get(f"limit:{name}", 0)) for name, state in states]
