"""What can be asked of a scheduler from outside, in its own process or over its socket. Each answer is a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from tickless.control import documents
from tickless.control.documents import Document, run_document, task_document
from tickless.control.graphs import flow_graph, task_graph
from tickless.control.refusals import Code, Refusal
from tickless.control.subject import Subject
from tickless.errors import TicklessError, shown
from tickless.records import Run, TaskInfo
from tickless.round_info import RoundInfo
from tickless.states import CatchUp, State

MOST = 1_000_000
FEW_RUNS = 5


def tasks(
    subject: Subject, *, states: Iterable[str] = (), tag: str | None = None, recurring: bool | None = None
) -> Document:
    """All that are listed, the tasks of rounds left out: they are shown with their round."""
    wanted = set(states)
    found = [
        task_document(info, subject.descriptions.get(info.id))
        for info in subject.listed()
        if _is_shown(info)
        and (not wanted or info.state in wanted or (info.paused and "paused" in wanted))
        and (tag is None or tag in info.tags)
        and (recurring is None or info.recurring is recurring)
    ]
    return {"tasks": found, "unusable": subject.scheduler.unusable()}


def _is_shown(info: TaskInfo) -> bool:
    flow, at, rest = info.id.rpartition("@")
    return not (at and flow and "/" in rest)


def task(subject: Subject, *, id: str) -> Document:
    """One task with its newest runs; of a flow with its newest round; or one round."""
    round_ = subject.round(id)
    if round_ is not None:
        return {"task": None, "runs": [], **_round(round_.info)}
    info = subject.task(id)
    runs_ = [run_document(run) for run in reversed(subject.runs(info, FEW_RUNS))]
    newest = subject.newest_round(info.id) if info.is_flow else None
    shown_round = {"round": None, "tree": None} if newest is None else _round(newest.info)
    return {"task": task_document(info, subject.descriptions.get(info.id)), "runs": runs_, **shown_round}


def _round(info: RoundInfo) -> Document:
    return {"round": documents.round_document(info), "tree": info.tree()}


def runs(
    subject: Subject, *, id: str | None = None, limit: int = 20, states: Iterable[str] = (), failed: bool = False
) -> Document:
    """The newest runs, newest first: of one task, of a round's tasks, or of all."""
    wanted = {*states, *(["failed"] if failed else ())}
    found: list[Run] = []
    for info in _infos(subject, id):
        found += [run for run in subject.runs(info, None if wanted else limit) if not wanted or run.state in wanted]
    found.sort(key=_newest_first, reverse=True)
    return {"runs": [run_document(run) for run in found[:limit]], "more": len(found) > limit}


def _infos(subject: Subject, id: str | None) -> list[TaskInfo]:
    if id is None:
        return subject.listed()
    round_ = subject.round(id)
    if round_ is None:
        return [subject.task(id)]
    return [subject.task(one.task_id) for one in round_.info.tasks]


def _newest_first(run: Run) -> int:
    return run.started_us or run.finished_us or run.due_us or 0


def logs(subject: Subject, *, id: str, run: str | None = None, all: bool = False) -> Document:
    """What a task's newest run has printed, or all of them that are kept; `run`: a part of the run's name."""
    if subject.outputs is None:
        raise Refusal(
            Code.REFUSED, "no_output", "no output is kept here: that is done for the commands of a task file that runs"
        )
    round_ = subject.round(id)
    ids = [id] if round_ is None else [one.task_id for one in round_.info.tasks]
    kept = [one for task_id in ids for one in subject.outputs.of(task_id)]
    if not kept and round_ is None:
        info = subject.task(id)
        ids = [info.id]
        newest = subject.newest_round(info.id) if info.is_flow else None
        if newest is not None:
            ids, all = [one.task_id for one in newest.info.tasks], True
        kept = [one for task_id in ids for one in subject.outputs.of(task_id)]
    if run is not None:
        kept = [one for one in kept if run in one.run]
        if not kept:
            raise Refusal(Code.UNKNOWN, "unknown", f"no output of a run {shown(run)} of {id} is kept")
    elif not all and round_ is None:
        kept = kept[-1:]
    return {"task": id, "outputs": [_output(one) for one in kept]}


def _output(one: Any) -> Document:
    return {
        "run": one.run,
        "due": None if one.due is None else documents.moment_of(one.due),
        "attempt": one.attempt,
        "started": None if one.started is None else documents.moment_of(one.started),
        "finished": None if one.ended is None else documents.moment_of(one.ended),
        "ending": one.ending,
        "bytes": one.size,
        "text": one.text,
    }


def run_now(subject: Subject, *, id: str, wait: float | None = None) -> Document:
    """Have it run now. `wait`: until it has ended, for at most so many seconds (0: for as long as it takes)."""
    info = subject.task(id)
    if wait is None:
        return {"run": run_document(subject.scheduler.run_now(info))}
    if subject.events is None or not subject.runs_here:
        raise Refusal(
            Code.REFUSED, "not_running", f"run-now {id} --wait: no scheduler runs here that could be waited for"
        )
    from tickless.control.waiting import awaited  # only who waits needs it

    return {"run": run_document(awaited(subject, info, subject.events, wait))}


def retry(subject: Subject, *, id: str) -> Document:
    """Have what failed tried again: a round's failed tasks, or a recurring task's newest run."""
    round_ = subject.round(id)
    if round_ is None:
        info = subject.task(id)
        if not info.is_flow:
            return {"run": run_document(_retried(subject, info))}
        failed = [one for one in subject.scheduler.rounds(info) if one.state in (State.FAILED, State.CANCELLED)]
        if not failed:
            raise Refusal(Code.REFUSED, "nothing_failed", f"flow {id}: none of the rounds that are kept has failed")
        round_ = failed[-1]
    return {"run": run_document(round_.retry_failed())}


def _retried(subject: Subject, info: TaskInfo) -> Run:
    last = info.last_run
    if last is None or last.state is not State.FAILED:
        how = "it has not run yet" if last is None else f"its last run {_ended(last)}"
        raise Refusal(Code.REFUSED, "nothing_failed", f"task {info.id}: {how}; run-now has it run all the same")
    if not info.state.after:
        raise Refusal(
            Code.REFUSED,
            "ended",
            f"task {info.id}: it was to run once, and has ended; what has ended does not run again: schedule it anew",
        )
    return subject.scheduler.run_now(info)


def _ended(run: Run) -> str:
    return f"is {run.state}" if run.state.after else str(run.state)


def cancel(subject: Subject, *, ids: list[str]) -> Document:
    """Take their future away: all of them are looked up before the first is cancelled."""
    changed = []
    for one in [subject.round(id) or subject.task(id) for id in ids]:
        if isinstance(one, TaskInfo):
            changed.append({"id": one.id, "answer": str(subject.scheduler.cancel(one))})
        else:
            changed.append({"id": one.id, "answer": str(one.cancel())})
    return {"changed": changed}


def pause(
    subject: Subject,
    *,
    ids: list[str],
    tag: str | None = None,
    all: bool = False,
    reason: str | None = None,
    until: str | None = None,
) -> Document:
    """Hold tasks, those of a tag, or all."""
    when = None if until is None else datetime.fromisoformat(until)
    scheduler = subject.scheduler
    return _each(subject, ids, tag, all, "pause", lambda **to: scheduler.pause(**to, reason=reason, until=when))


def resume(
    subject: Subject, *, ids: list[str], tag: str | None = None, all: bool = False, catch_up: CatchUp = "none"
) -> Document:
    """End a pause: of tasks, of a tag, or of all."""
    scheduler = subject.scheduler
    return _each(subject, ids, tag, all, "resume", lambda **to: scheduler.resume(**to, catch_up=catch_up))


def _each(
    subject: Subject, ids: list[str], tag: str | None, all: bool, verb: str, call: Callable[..., int]
) -> Document:
    if bool(ids) + (tag is not None) + all != 1:
        raise Refusal(Code.USAGE, "usage", f"{verb}: name tasks, or a tag (--tag), or all of them (--all)")
    if tag is not None:
        return {"changed": [{"tag": tag, "count": call(tag=tag)}]}
    if all:
        return {"changed": [{"all": True, "count": call()}]}
    return {"changed": [{"id": info.id, "count": call(task=info)} for info in [subject.task(id) for id in ids]]}


def backfill(
    subject: Subject, *, id: str, start: str, end: str, again: bool = False, dry_run: bool = False
) -> Document:
    """Have it run for each of its fires from `start` to before `end`."""
    first, last = datetime.fromisoformat(start), datetime.fromisoformat(end)
    made = subject.scheduler.backfill(subject.task(id), first, last, again=again, dry_run=dry_run)
    return {"runs": [run_document(run) for run in made], "dry_run": dry_run}


def graph(subject: Subject, *, id: str | None = None) -> Document:
    """Tasks and what they wait for: of one flow or round, or of all that are listed, flows with their steps."""
    if id is not None:
        round_ = subject.round(id)
        info = None if round_ is not None else subject.task(id)
        if info is None or info.is_flow:
            return flow_graph(subject, info, round_)
    found = [info for info in subject.listed() if _is_shown(info)]
    return task_graph(subject, found if id is None else _around(found, subject.task(id).id))


def _around(infos: list[TaskInfo], id: str) -> list[TaskInfo]:
    """Those that are joined to it, in whichever direction."""
    by_id = {info.id: info for info in infos}
    seen, left = {id}, [id]
    while left:
        info = by_id.get(left.pop())
        for other in () if info is None else (*info.parents, *info.children):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return [info for info in infos if info.id in seen]


def events(subject: Subject, *, limit: int = 100) -> Document:
    """The newest events that are kept, oldest first."""
    if subject.events is None:
        raise Refusal(Code.UNREACHABLE, "not_running", "events are told by a scheduler that runs, and none does here")
    return {"events": [documents.event_document(event) for event in subject.events.newest(limit)]}


def health(subject: Subject) -> Document:
    """Whether it does what it should, and what is not so."""
    scheduler = subject.scheduler
    findings: list[Document] = []

    def found(word: str, message: str) -> None:
        findings.append({"word": word, "message": message})

    if subject.runs_here and scheduler.phase != "running":
        found("not_running", f"the scheduler is {scheduler.phase}")
    if scheduler.down_since is not None:
        found("store_down", f"the store has not answered since {documents.moment_of(scheduler.down_since)}")
    try:
        unusable = scheduler.unusable()
        pools, limits = list(scheduler.pools().values()), list(scheduler.limits().values())
        paused = sum(info.paused for info in subject.listed())
    except TicklessError as error:
        found("store_down", str(error))
        return {
            "healthy": False,
            "findings": findings,
            "phase": scheduler.phase,
            "pools": [],
            "limits": [],
            "paused": 0,
        }
    for id, why in unusable.items():
        found("unusable", f"task {id}: {why}")
    for pool in pools:
        if pool.down is not None:
            found("pool_down", f"pool {pool.name}: takes nothing any more: {pool.down}")
        if pool.zombies >= pool.slots:
            found("zombies", f"pool {pool.name}: all {pool.slots} slots are held by runs that timed out and go on")
    return {
        "healthy": not findings,
        "findings": findings,
        "phase": scheduler.phase,
        "pools": [documents.pool_document(pool) for pool in pools],
        "limits": [documents.limit_document(limit) for limit in limits],
        "paused": paused,
    }


ANSWERS: dict[str, Callable[..., Document]] = {
    one.__name__: one
    for one in (tasks, task, runs, logs, run_now, retry, cancel, pause, resume, backfill, graph, events, health)
}


def answer(subject: Subject, question: str, given: dict[str, Any]) -> Document:
    """The answer to the question of that name. Raises what the scheduler raises, and Refusal for an unknown one."""
    if question not in ANSWERS:
        raise Refusal(
            Code.USAGE, "usage", f"{shown(question)} cannot be asked of this scheduler: it may be of an older version"
        )
    try:
        return ANSWERS[question](subject, **given)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise Refusal(Code.USAGE, "usage", f"{question}: {error}") from None
        raise
