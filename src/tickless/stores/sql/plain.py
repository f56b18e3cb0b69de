"""The short ways of the plainest task: it runs once, as soon as it is due, and nothing else was said of it.

Of its row few columns say anything, and each step of its life changes the same ones. So neither its row nor its record
need be put together from all that a task may have. What a short way gives is what the long one of `rows.py` gives, as
tests/stores/sql/test_plain.py compares; of a task that has anything more it gives None. Nothing is decided here: the
machine has moved the task before, and this writes down what it did.
"""

from __future__ import annotations

from tickless.core.record import SEQ_BITS, RunRecord, TaskRecord
from tickless.states import DEFAULT_POOL, State
from tickless.stores.sql.calls import StoredCall
from tickless.stores.sql.rows import AT, COLUMNS, Loaded, Row

USUAL: dict[str, int | str] = dict.fromkeys(("priority", "wall", "waiting", "seen", "kin", "token", "stop"), 0)
USUAL |= {"pool": DEFAULT_POOL, "listed": 1}
"""What the columns of a plain task have that are not NULL, while nothing says otherwise."""
_BLANK: Row = tuple(USUAL.get(name) for name in COLUMNS)


def _between(first: str, last: str | None = None) -> Row:
    return _BLANK[AT[first] + 1 : None if last is None else AT[last]]


_WORK_DUE, _DUE_ENDED, _ENDED_AT = _between("work", "due"), _between("due", "ended"), _between("ended", "at")
_DUE_AT, _WORK_AT, _AT_STATE, _AT_TOKEN = (
    _between(*pair) for pair in (("due", "at"), ("work", "at"), ("at", "state"), ("at", "token"))
)
_STATE_DUE, _FINISHED_OWNER = _between("state", "run_due"), _between("finished", "owner")
_AFTER_TOKEN, _AFTER_LEASE = _between("token"), _between("lease")
_NAME, _WORK, _DUE, _STATE = AT["name"], AT["work"], AT["due"], AT["state"]
_RUN_DUE, _RUN_AT, _TOKEN = AT["run_due"], AT["run_at"], AT["token"]

_ASKED = ("seq", "name", "work", "at", "token")
_NULL = [name for name in COLUMNS if name not in USUAL and name not in _ASKED]
_IS_PLAIN = " AND ".join(
    [f"coalesce({', '.join(_NULL)}) IS NULL AND work IS NOT NULL"]
    + [f"{name} = {value!r}" for name, value in USUAL.items() if name not in _ASKED]
)
SELECT = f"SELECT {', '.join(_ASKED)}, {_IS_PLAIN} FROM tasks "
"""What is needed of the row of a plain task that waits for its time, and at last whether it is one."""
_SAID = dict.fromkeys(("seq", "name", "work", "at"), "?") | {name: repr(value) for name, value in USUAL.items()}
INSERT = f"INSERT INTO tasks ({', '.join(_SAID)}) VALUES ({', '.join(_SAID.values())})"
"""See `new_values`."""
BEGIN = (
    "UPDATE tasks SET due = ?, at = NULL, state = 'running', run_due = ?, run_at = ?, started = ?, owner = ?, "
    "token = ?, lease = ? WHERE seq = ?"
)
"""See `begun_values`."""
END = (
    "UPDATE tasks SET work = NULL, ended = ?, state = 'succeeded', started = ?, finished = ?, owner = NULL, "
    "lease = NULL WHERE seq = ?"
)
"""See `ended_values`."""


New = tuple[int, str, str, int]
"""Number, name, work, place in time: what `INSERT` is given, and what `waiting_row` is made of."""


def waiting_row(seq: int, name: str, work: str, at: int, token: int = 0) -> Row:
    """The row of a plain task that waits for its time."""
    return (seq, None, name, work, *_WORK_AT, at, *_AT_TOKEN, token, *_AFTER_TOKEN)


def new_values(task: TaskRecord) -> New | None:
    """Of a new task that waits for its time."""
    entry, call = task._entry, task._work
    if (
        entry is None
        or task._run is not None
        or task._due is not None
        or task._args
        or type(call) is not StoredCall
        or call.args is not None
        or not _is_bare(task)
    ):
        return None
    return task._seq, task._name, call.name, entry >> SEQ_BITS


def _is_bare(task: TaskRecord) -> bool:
    return (
        task._more is None
        and task._rule is None
        and task._id is None
        and task._children is None
        and not task._parents
        and not task._wall
        and task._priority == task._waiting == task._seen == 0
    )


def step(one: Loaded) -> tuple[str, Row, Row] | None:
    """What a plain task has come to since its row was read or written, where that is a start or a good end.

    (SQL, what is bound to it, the row as it is then). It waits for no parent, as one that has none.
    """
    task, run, old = one.task, one.task._run, one.row
    if (
        run is None
        or old is None
        or run.reason is not None
        or run.error is not None
        or run.extra is not None
        or run.stop is not None
        or task._entry is not None
        or one.kin
        or one.chief is not None
        or one.value is not None
        or old[_NAME] != task._name
        or not _is_bare(task)
    ):
        return None
    if run.state is State.RUNNING:
        return _begun(one, task, run, old)
    return _ended(one, task, run, old) if run.state is State.SUCCEEDED else None


def _begun(one: Loaded, task: TaskRecord, run: RunRecord, old: Row) -> tuple[str, Row, Row] | None:
    call = task._work
    if (
        type(call) is not StoredCall
        or call.args is not None
        or call.name != old[_WORK]
        or old[_STATE] is not None
        or one.ended is not None
        or run.finished is not None
    ):
        return None
    due, run_due, at, started, seq = task._due, run.due, run.at, run.started, task._seq
    owner, token, lease = one.owner, one.token, one.lease
    row = (
        seq, None, task._name, call.name, *_WORK_DUE, due, *_DUE_AT, None, *_AT_STATE, "running", *_STATE_DUE, run_due,
        at, started, None, *_FINISHED_OWNER, owner, token, lease, *_AFTER_LEASE,
    )  # fmt: skip
    return BEGIN, (due, run_due, at, started, owner, token, lease, seq), row


def _ended(one: Loaded, task: TaskRecord, run: RunRecord, old: Row) -> tuple[str, Row, Row] | None:
    ended, due, run_due, at, token, seq = one.ended, task._due, run.due, run.at, one.token, task._seq
    if (
        ended is None
        or task._work is not None
        or one.owner is not None
        or one.lease is not None
        or old[_STATE] != "running"
        or old[_DUE] != due
        or old[_RUN_DUE] != run_due
        or old[_RUN_AT] != at
        or old[_TOKEN] != token
    ):
        return None
    started, finished = run.started, run.finished
    row = (
        seq, None, task._name, None, *_WORK_DUE, due, *_DUE_ENDED, ended, *_ENDED_AT, None, *_AT_STATE, "succeeded",
        *_STATE_DUE, run_due, at, started, finished, *_FINISHED_OWNER, None, token, None, *_AFTER_LEASE,
    )  # fmt: skip
    return END, (ended, started, finished, seq), row
