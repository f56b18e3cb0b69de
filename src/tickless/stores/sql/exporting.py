"""All that is in a file, as documents for JSON: page by page, so that as much memory is enough for any file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tickless.errors import TicklessError
from tickless.instants import Instant, datetime_of
from tickless.rules import as_written, from_json, text_of
from tickless.stores.sql.glance import Glance
from tickless.stores.sql.plans import FLOW
from tickless.stores.sql.statements import load as load_statements

ASK = load_statements("upkeep.sql")
PAGE = 500
VERSION = 1
"""Of the form of the documents: grows when a reader of the former one would misread it."""
Document = dict[str, Any]


def documents(one: Glance) -> Iterator[Document]:
    """The file itself, then each task and, after it, its runs and its rounds, each round with its tasks after it."""
    yield _document("store", path=one.file, schema=one.version)
    for row in _pages(one, ASK.export_tasks, ()):
        task = task_of(row)
        yield task
        for run in _pages(one, ASK.export_runs, (row[0],)):
            yield run_of(task["id"], run)
        for round in _pages(one, ASK.export_rounds, (row[0],)) if row[3] == FLOW or task["recurring"] else ():
            shown = round_of(task["id"], round)
            yield shown
            for inner in _pages(one, ASK.export_tasks_of_round, (round[0],)):
                yield {**task_of(inner), "round": shown["id"]}


def _pages(one: Glance, sql: str, of: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    number = -(1 << 62)
    while page := one.ask(sql, (*of, number, PAGE)).fetchall():
        number = page[-1][0]
        yield from page


def _document(kind: str, **told: Any) -> Document:
    return {"v": VERSION, "kind": kind, **told}


def task_of(row: tuple[Any, ...]) -> Document:
    """A task. Its arguments are as JSON has them; nothing of it is looked up, and what is damaged is shown as text."""
    (
        seq, id, name, work, args, priority, pool, policy, rule, due, _, ended, at, state, reason, run_due, started,
        finished, error, more, trouble,
    ) = row  # fmt: skip
    form = _read(more) if more is not None else {}
    extra = form if type(form) is dict else {}
    state, reason = (extra["end"] if _is_pair(extra.get("end")) else (state, reason)) if ended else (state, reason)
    recurs = rule is not None or bool(extra.get("recurring"))
    goes_on = state in ("ready", "running", "pending")
    is_planned = at is not None and state != "pending" and ended is None
    call = _read(args) if args is not None and work != FLOW else {}
    return _document(
        "stored_task",
        number=seq,
        id=f"#{seq}" if id is None else id,
        name=name,
        work=None if work == FLOW else work,
        flow=work == FLOW or bool(_special(extra).get("flow")),
        args=call.get("a", []) if type(call) is dict else call,
        kwargs=call.get("k", {}) if type(call) is dict else {},
        rule=None if rule is None else _read(rule),
        when=None if rule is None else when_of(rule),
        next_fire=_time(at if due is None else due) if is_planned else None,
        recurring=recurs,
        state=state if ended is not None or state in ("ready", "running") else "pending",
        reason=reason if ended is not None or goes_on else None,
        pool=pool,
        priority=priority,
        policy={} if policy is None else _read(policy),
        parents=[_id_of(key) for key in extra.get("parents", ())],
        run=None if state is None or (recurs and not goes_on) else {
            "due": _time(run_due), "started": _time(started), "finished": _time(finished), "error": error,
        },
        unusable=trouble,
    )  # fmt: skip


def when_of(rule: str) -> str | None:
    """The rule as text; None where it has none, or cannot be read."""
    try:
        return text_of(as_written(from_json(_unbound(json.loads(rule)))))
    except (TicklessError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _unbound(form: Any) -> Any:
    """The rule before it was known from when it counts, which no text says."""
    if type(form) is list:
        return [_unbound(item) for item in form]
    if type(form) is not dict:
        return form
    return {key: _unbound(item) for key, item in form.items() if (form.get("kind"), key) != ("every", "first_us")}


def run_of(task: str, row: tuple[Any, ...]) -> Document:
    """A run of a recurring task; a record of skipped fires may stand for several."""
    no, due, state, reason, started, finished, error, more = row
    form = _read(more) if more is not None else {}
    extra = form if type(form) is dict else {}
    fires = extra["fires"] if _is_pair(extra.get("fires")) else (1, None)
    return _document(
        "stored_run",
        task=task,
        number=no,
        due=_time(due),
        state=state,
        reason=reason,
        started=_time(started),
        finished=_time(finished),
        error=error,
        count=fires[0],
        last_due=_time(fires[1]),
        tries=extra.get("tries", []),
    )


def round_of(flow: str, row: tuple[Any, ...]) -> Document:
    """A round of a flow."""
    seq, state, reason, started, finished, error, more = row
    form = _read(more)
    told = _special(form if type(form) is dict else {}).get("round", {})
    return _document(
        "stored_round",
        flow=flow,
        number=seq,
        id=told.get("id"),
        due=_time(told.get("due")),
        params=told.get("params", {}),
        retry_of=told.get("retry_of"),
        state="pending" if state is None else state,
        reason=reason,
        started=_time(started),
        finished=_time(finished),
        error=error,
    )


def _special(extra: Document) -> Document:
    special = extra.get("special", {})
    return special if type(special) is dict else {}


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _id_of(key: Any) -> str:
    return f"#{key}" if isinstance(key, int) else str(key[1])


def _read(text: str) -> Any:
    """What JSON says; the text itself where it is none: it is damaged, and is to be seen."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _time(us: Any) -> str | None:
    """UTC, as in ISO 8601."""
    if type(us) is not int:
        return None
    try:
        return datetime_of(Instant(us)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None
