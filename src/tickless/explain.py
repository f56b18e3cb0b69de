"""Why a task is in the state it is in, told from snapshots: what `Task.result` says when there is no result.

No history of events is kept for this, so a story is put together when somebody asks, of what there is then: a parent
that was forgotten (`keep_finished`) is said to be. Every part of it is bounded, however large the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tickless.core.record import Key
from tickless.errors import UnknownTask
from tickless.instants import Instant, datetime_of
from tickless.observe.text import printable
from tickless.policies import CANCELLED, FAILED, NEUTRAL, kind_of_end
from tickless.records import Attempt, Run, TaskInfo
from tickless.states import Reason, State
from tickless.stores import Store

MOST_SHOWN = 5
"""Lines about generations or attempts, and parents in a line. The first and the last are among them."""
MOST_ASKED = 1000
"""How many ancestors are looked at for one story."""
_CAUSED = {Reason.PARENT_FAILED: FAILED, Reason.PARENT_CANCELLED: CANCELLED, Reason.PARENT_SKIPPED: NEUTRAL}
_HOW = {
    State.SUCCEEDED: "succeeded",
    State.FAILED: "failed",
    State.SKIPPED: "was skipped",
    State.CANCELLED: "was cancelled",
}
_MARK = "tickless: "


class Seen(NamedTuple):
    """A task as it was when it was looked at."""

    info: TaskInfo
    parents: tuple[Key, ...]
    """By number: an id may be another task's by now."""
    pool_down: str | None = None
    """Why its pool takes nothing any more, if so."""


Look = Callable[[Key], Seen | None]
"""Gives the task of that key; None when it was forgotten."""


def look_in(store: Store, pools_down: Mapping[str, str]) -> Look:
    """How to look at tasks of this store. Its caller looks at the signs afterwards."""

    def look(key: Key) -> Seen | None:
        number, id = (key, f"#{key}") if isinstance(key, int) else key
        try:
            task = store.find(id)
        except UnknownTask:
            return None
        if task._seq != number:
            return None
        info = store.get(task)
        return Seen(info, task._parents, pools_down.get(info.pool))

    return look


def story(task: Seen, look: Look, head: str | None = None) -> str:
    """How the task came to its state: its causes, generation by generation, and the last moves of the first of them.

    One line a generation, then one a move; instants in UTC, with their day where it is another than the first line's.
    `head`: what to begin with instead of how and when it ended.
    """
    times = _Times()
    generations, root = _generations(task, look)
    lines = []
    for seen, causes in generations:
        line = head if head is not None and seen is task else f"task {full_name(seen.info)} {_how(seen.info, times)}"
        told = [f"parent {_parent(key, cause, times)}" for key, cause in causes]
        if not told and not seen.info.state.terminal:
            told = [_live(seen, times)]
        lines.append(": ".join([line, "; ".join(_few(told))] if told else [line]))
    lines = _few(lines)
    if root is task:
        lines += [f"  {move}" for move in _moves(task.info, times)]
    elif root is not None and root.info.last_run is not None and root.info.last_run.attempts:
        lines += [f"  {_short(root.info)}: {move}" for move in _moves(root.info, times)]
    return "\n".join(lines)


def add_story(error: BaseException, task: TaskInfo, text: str) -> None:
    """Note the story on what the task raised: once, however often it is asked for.

    One error may have gone through several tasks: then it has a note of each, of a few at most. Where its notes are no
    list, it stays without.
    """
    own_dict = _DICT_OF(error)
    notes = own_dict.get("__notes__", [])
    if type(notes) is not list:
        return
    own = f"{_MARK}task {full_name(task)} "
    rest = [note for note in notes if type(note) is not str or not note.startswith(own)]
    ours = [place for place, note in enumerate(rest) if type(note) is str and note.startswith(_MARK)]
    for place in reversed(ours[: 1 - MOST_SHOWN]):
        del rest[place]
    # Not `add_note`: two threads that ask at once would each add one, and it may be foreign code.
    own_dict["__notes__"] = [*rest, f"{_MARK}{text}"]


# Not `vars(error)`, and no attribute of it: an exception may answer for these with code of its own.
_DICT_OF: Callable[[BaseException], dict[str, Any]] = BaseException.__dict__["__dict__"].__get__


Causes = Sequence[tuple[Key, Seen | None]]


def _generations(task: Seen, look: Look) -> tuple[list[tuple[Seen, Causes]], Seen | None]:
    """The task and its causes, then the first of these and its own, and so on; and the last one that is known."""
    left = MOST_ASKED
    generations: list[tuple[Seen, Causes]] = []
    seen: Seen | None = task
    root = task
    while seen is not None and left > 0:
        root = seen
        asked = seen.parents[:left] if _is_by_parents(seen.info) else ()
        left -= max(1, len(asked))
        causes = _causes(seen.info, [(key, look(key)) for key in asked])
        if causes or seen is task:
            generations.append((seen, causes))
        seen = next((cause for _, cause in causes if cause is not None), None)
    return generations, root


def _is_by_parents(task: TaskInfo) -> bool:
    """Whether it is its parents that tell why it is as it is."""
    if task.state is State.SKIPPED:
        return task.reason in _CAUSED or task.reason is Reason.RUN_IF
    return task.state is State.PENDING and bool(task.parents) and task.last_run is None and task.next_fire_us is None


def _causes(task: TaskInfo, parents: list[tuple[Key, Seen | None]]) -> Causes:
    """Those of the parents that tell why, the earliest end first; the forgotten ones where no other does."""
    if task.reason is Reason.RUN_IF:
        return parents
    known = [(key, seen) for key, seen in parents if seen is not None]
    if task.state is State.PENDING:
        return [(key, seen) for key, seen in known if not seen.info.state.terminal]
    kind = None if task.reason is None else _CAUSED.get(task.reason)
    fitting = [
        (key, seen)
        for key, seen in known
        if seen.info.state.terminal and kind_of_end(seen.info.state, seen.info.reason) == kind
    ]
    fitting.sort(key=lambda one: _ended_us(one[1].info) or 0)
    end = _ended_us(task)
    before = [(key, seen) for key, seen in fitting if end is None or (_ended_us(seen.info) or 0) <= end]
    return before or fitting or [(key, seen) for key, seen in parents if seen is None]


def _last_run(task: TaskInfo) -> Run | None:
    """The last run, if the task's state is that of it: it may have ended otherwise, before the task did."""
    run = task.last_run
    return run if run is not None and run.state is task.state else None


def _ended_us(task: TaskInfo) -> Instant | None:
    run = _last_run(task)
    return None if run is None else run.finished_us


class _Times:
    """Instants as text. The first one has its day, and so has each that is of another."""

    def __init__(self) -> None:
        self._day = ""

    def text(self, at: Instant) -> str:
        when = datetime_of(at)
        day, clock = f"{when:%Y-%m-%d}", f"{when:%H:%M:%S}"
        if when.microsecond:
            clock += f".{when.microsecond // 1000:03d}"
        if day == self._day:
            return f"{clock} UTC"
        self._day = self._day or day
        return f"{day} {clock} UTC"


def full_name(task: TaskInfo) -> str:
    """The id and the name, safe to print."""
    return f"{printable(task.id)} ({printable(task.name)})"


def _short(task: TaskInfo) -> str:
    return full_name(task) if task.id.startswith("#") else printable(task.id)


def _why(reason: Reason | None) -> str:
    return "" if reason is None else f" ({reason})"


def _how(task: TaskInfo, times: _Times) -> str:
    """was skipped (parent_failed) at 12:00:03 UTC."""
    if not task.state.terminal:
        return f"is {task.state}"
    end = _ended_us(task)
    return f"{_HOW[task.state]}{_why(task.reason)}" + ("" if end is None else f" at {times.text(end)}")


def _parent(key: Key, seen: Seen | None, times: _Times) -> str:
    if seen is None:
        return f"{f'#{key}' if isinstance(key, int) else printable(key[1])}: forgotten"
    task, run, end = seen.info, seen.info.last_run, _ended_us(seen.info)
    text = f"{_short(task)} {task.state.upper()}"
    if not task.state.terminal:
        return f"{text}, {_live(seen, times)}"
    text += _why(task.reason) + ("" if end is None else f" at {times.text(end)}")
    return f"{text}: {run.error}" if run is not None and run.error and end is not None else text


def _live(seen: Seen, times: _Times) -> str:
    """What a task that has not ended does now, or waits for."""
    task, run = seen.info, seen.info.last_run
    if task.state is State.RUNNING:
        if run is None or run.started_us is None:
            return "runs"
        attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
        return f"runs since {times.text(run.started_us)}{attempt}"
    if task.paused:
        until = "" if task.paused_until_us is None else f" until {times.text(task.paused_until_us)}"
        return f"paused{until}" + ("" if task.pause_reason is None else f": {printable(task.pause_reason)}")
    if task.state is State.READY:
        if task.waiting_for is not None:
            return f"waits for the limit {printable(task.waiting_for)}"
        if seen.pool_down is not None:
            return (
                f"waits for a scheduler whose pool {printable(task.pool)} works: this one's is down: {seen.pool_down}"
            )
        return f"waits for room in the pool {printable(task.pool)}"
    if task.retry_at_us is not None:
        return f"retry at {times.text(task.retry_at_us)}"
    if task.next_fire_us is not None:
        return f"due at {times.text(task.next_fire_us)}"
    return "waits for its parents"


def _moves(task: TaskInfo, times: _Times) -> list[str]:
    """What its last run went through, one line for each attempt."""
    run = _last_run(task)
    if run is None:
        return []
    begun = [] if run.due_us is None else [f"due at {times.text(run.due_us)}"]
    if not run.attempts:
        if run.started_us is not None:
            begun.append(f"started at {times.text(run.started_us)}")
        moves = [", ".join(begun)] if begun else []
    else:
        moves = begun + _few([_attempt(attempt, times) for attempt in _attempts(run)])
    return moves if run.late_result is None else [*moves, f"its code came to an end later: {run.late_result}"]


def _attempts(run: Run) -> list[Attempt]:
    """The failed ones, and the last one where it has ended."""
    attempts = list(run.attempts)
    if run.state is State.FAILED and run.started_us is not None and run.finished_us is not None:
        attempts.append(Attempt(run.attempt, run.started_us, run.finished_us, run.error, run.reason))
    return attempts


def _attempt(attempt: Attempt, times: _Times) -> str:
    text = (
        f"attempt {attempt.number} started at {times.text(attempt.started_us)}, "
        f"failed{_why(attempt.reason)} at {times.text(attempt.finished_us)}"
    )
    return f"{text}: {attempt.error}" if attempt.error else text


def _few(texts: list[str]) -> list[str]:
    """At most so many: the first ones and the last one, and how many there are between."""
    if len(texts) <= MOST_SHOWN:
        return texts
    return [*texts[: MOST_SHOWN - 2], f"... and {len(texts) - MOST_SHOWN + 1} more", texts[-1]]
