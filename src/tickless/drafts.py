"""The door of `schedule`: from what a user wrote to a checked draft. Everything wrong is refused here, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import FunctionType
from typing import Any, Never, Unpack, final

from tickless.checks import plain_text, text
from tickless.core.record import More, TaskRecord
from tickless.errors import DependencyError, RuleError, ScheduleError, shown
from tickless.instants import MAX_INSTANT, Clock, Instant, datetime_of
from tickless.limits import limited
from tickless.options import (
    POLICY_DEFAULTS,
    CallOptions,
    Owner,
    PolicyOptions,
    check_names,
    policy_of,
    put_policy,
    refuse_name,
)
from tickless.output import Output, outputs_in
from tickless.rules import After, Rule, first_fire
from tickless.states import RunIf
from tickless.task import Task
from tickless.works import BUILTIN, NOT_PLAIN, name_of

_ONE = (str, Task)
_MAY_HOLD = frozenset({Output, list, tuple, dict})
"""Arguments that may be outputs or hold some."""
NOTHING: tuple[Any, ...] = ()
ZERO = 0
ALL_SUCCEEDED, SKIP, LATEST, KEEP = "all_succeeded", "skip", "latest", "keep"
"""The defaults, to be asked for by identity: `==` is foreign code where a caller gives an object of their own."""
_RUN_IFS = {str(run_if): run_if for run_if in RunIf}


DEFAULTS: dict[str, Any] = {
    "args": NOTHING,
    "kwargs": None,
    "id": None,
    "name": None,
    "after_tasks": NOTHING,
    "run_if": ALL_SUCCEEDED,
    "priority": ZERO,
    "start": None,
    "until": None,
    "max_runs": None,
    "jitter": None,
    **POLICY_DEFAULTS,
    "exists": "error",
}
"""Every option of `schedule` -> what it is when nothing is said."""
_ELSEWHERE = {"exists": "it is about one id, and so said to schedule()"}


@final
class Call:
    """One item of `schedule_many`: the arguments of `schedule`. `after_tasks` may name ids of the same batch.

    Checked with its batch; only an option that there is not is a TypeError at once.
    """

    __slots__ = ("options", "when", "work")

    def __init__(self, work: Callable[..., Any], when: Rule | None = None, **options: Unpack[CallOptions]) -> None:
        self.work = work
        self.when = when
        self.options = options
        if options:
            check_names("Call", options, CallOptions.__annotations__, _ELSEWHERE)

    def __repr__(self) -> str:
        said = [f"{name}={shown(value)}" for name, value in self.options.items()]
        return f"Call({', '.join([shown(self.work), shown(self.when), *said])})"


def check_call(item: object) -> Call:
    """The item of a batch itself. Raises ScheduleError for what is no Call."""
    if type(item) is Call:
        return item
    raise ScheduleError(
        f"schedule_many: {shown(item)} is no Call; give a list: [Call(f, when, args=(...), id=...), ...]"
    )


def plain(owner: object, now: Instant, work: Callable[..., Any], when: Rule | None) -> Task[Any] | None:
    """The draft of a function that is to be called now or after a delay, and nothing else is said; else None.

    For `draft` to be asked instead. A million of these are scheduled where one of the others is.
    """
    kind = type(work)
    if kind is FunctionType:
        if work.__code__.co_flags & NOT_PLAIN:
            return None
    elif kind not in BUILTIN:
        return None
    name = work.__name__
    if type(name) is not str:
        return None
    if when is not None:
        if type(when) is not After:
            return None
        now += when.delay_us  # type: ignore[assignment]  # Instant() would cost 60 ns
        if now > MAX_INSTANT:
            return None
    return Task(work, NOTHING, None, None, name, 0, None, now, False, None, NOTHING, owner)


def plain_child(
    owner: object, now: Instant, work: Callable[..., Any], after: object, args: object = NOTHING
) -> Task[Any] | None:
    """The draft of a function that is to be called when these tasks of ours have succeeded; None where `draft` must.

    Nearly every node of a big graph is one of these.
    """
    if type(after) is not list or type(args) is not tuple:
        return None
    parents = tuple(after)
    for parent in parents:
        if type(parent) is not Task or parent._owner is not owner:
            return None
    for value in args:
        if type(value) in _MAY_HOLD:
            return None
    task = plain(owner, now, work, None)
    if task is not None:
        task._args = args
        if parents:
            task._due = None
            task._parents = parents if len(parents) == 1 else tuple(dict.fromkeys(parents))
    return task


def draft_of(owner: Owner, clock: Clock, now: Instant, call: Call) -> Task[Any]:
    """The draft of one item of a batch. Raises as `draft` does."""
    task = None if call.options else plain(owner, now, call.work, call.when)
    return draft(owner, clock, now, call.work, call.when, **call.options) if task is None else task


def draft(
    owner: Owner,
    clock: Clock,
    now: Instant,
    work: Callable[..., Any],
    when: Rule | None,
    /,
    args: tuple[Any, ...] = NOTHING,
    kwargs: Mapping[str, Any] | None = None,
    id: str | None = None,
    name: str | None = None,
    after_tasks: Iterable[Task[Any] | str] = NOTHING,
    run_if: str = ALL_SUCCEEDED,
    priority: int = ZERO,
    start: datetime | None = None,
    until: datetime | None = None,
    max_runs: int | None = None,
    jitter: float | timedelta | None = None,
    **policy: Unpack[PolicyOptions],
) -> Task[Any]:
    """A task that has not entered a store yet. Raises ScheduleError, RuleError or DependencyError.

    `owner` is the scheduler whose handles may be parents, and whose pools and limits may be named.
    Raises TypeError for an option that there is not, in the name of `schedule`.
    """
    kind = type(work)
    if (kind is FunctionType and not work.__code__.co_flags & NOT_PLAIN) or kind in BUILTIN:
        label = work.__name__
    else:
        label = name_of(work)
    if type(label) is not str:  # a function can be given a name of any text type
        label = str.__str__(label)
    if name is not None:
        label = text("name", name)
    if type(args) is not tuple:
        args = args_of(args)
    if kwargs is not None:
        kwargs = kwargs_of(kwargs)
    if id is not None:
        id = text("id", id)
        if id[0] == "#":
            raise ScheduleError(f"id {shown(id)}: ids that begin with # are given by the scheduler; choose another")
    if type(priority) is not int:
        refuse_priority(priority)
    parents, more, jitter_us = NOTHING, None, 0
    if after_tasks is not NOTHING or args or kwargs or run_if != "all_succeeded":
        parents, more = _links(owner, args, kwargs, after_tasks, run_if)
    if start is not None or until is not None or max_runs is not None or jitter is not None:
        when, more, jitter_us = limited(when, start, until, max_runs, jitter, more or More())
    if when is None:
        rule, wall, recurring = None, False, False
        due = None if parents else now
    else:
        rule, due, wall, recurring = planned(when, clock, now)
    if policy or jitter_us:
        if not policy.keys() <= POLICY_DEFAULTS.keys():
            _refuse_unknown(policy)
        more = put_policy(more, policy_of(owner, when, recurring, policy, jitter_us))
    if when is not None and parents:
        if more is None:
            more = More()
        more.when, more.recurring = when, recurring
        rule = due = None
    return Task(work, args, kwargs, id, label, priority, rule, due, wall, more, parents, owner)


def _refuse_unknown(given: Iterable[str]) -> Never:
    refuse_name("schedule", next(name for name in given if name not in POLICY_DEFAULTS), DEFAULTS, {})


def planned(when: Rule, clock: Clock, now: Instant) -> tuple[Rule | None, Instant, bool, bool]:
    """What a task has of its rule: (the bound rule if it recurs, first fire, wall, recurring). Raises RuleError."""
    if type(when) is After:
        return None, when.bound(now).due, False, False
    rule, due, wall, recurring = _bound(when, clock, now)
    return rule if recurring else None, due, wall, recurring


def _bound(when: Rule, clock: Clock, now: Instant) -> tuple[Rule, Instant, bool, bool]:
    """The rule bound to its own clock's now: (rule, first fire, wall, recurring). A user's own rule is foreign code."""
    if isinstance(when, type) or not callable(getattr(when, "next_after", None)):
        raise RuleError(f"when={shown(when)}: needs a rule, e.g. after(5), at(datetime), every(minutes=10)")
    reading = now
    try:
        wall, recurring = bool(when.wall), bool(when.recurring)
        if wall:
            reading = clock.wall()
        bound = when.bound(reading)
    except RuleError:
        raise
    except Exception as error:
        raise RuleError(f"when={shown(when)}: binding it to {reading} raised {shown(error)}") from error
    due = first_fire(bound, reading)
    if due is None:
        raise RuleError(f"when={shown(when)}: never fires after {datetime_of(reading):%Y-%m-%d %H:%M:%S} UTC")
    return bound, due, wall, recurring


def _links(
    owner: object,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    after_tasks: Iterable[Task[Any] | str],
    run_if: str,
) -> tuple[tuple[TaskRecord | str, ...], More | None]:
    """Parents, in order and each once: those named, and those whose outputs are among the arguments."""
    rule = RunIf.ALL_SUCCEEDED if run_if is ALL_SUCCEEDED else _run_if(run_if)
    if type(after_tasks) is not list and isinstance(after_tasks, _ONE):
        one = shown(after_tasks)
        raise DependencyError(f"after_tasks={one}: needs several, so put it in a list: [{one}]")
    try:
        parents = [
            parent if type(parent) is Task and parent._owner is owner else _parent(owner, parent)
            for parent in after_tasks
        ]
    except TypeError:
        raise DependencyError(f"after_tasks={shown(after_tasks)}: needs tasks or ids, in a list") from None
    outputs: Sequence[Output[Any]] = ()
    for value in args if not kwargs else (*args, *kwargs.values()):
        if type(value) in _MAY_HOLD:
            outputs = outputs_in(args, kwargs)
            break
    for output in outputs:
        if output.needs_success and rule is not RunIf.ALL_SUCCEEDED:
            raise DependencyError(
                f'{shown(output)} among the arguments needs run_if="all_succeeded", not {shown(run_if)}; '
                "or say what to pass when there is none: .output.or_else(x)"
            )
        parents.append(_parent(owner, output._task))
    if not parents:
        if rule is not RunIf.ALL_SUCCEEDED:
            raise DependencyError(
                f"run_if={shown(run_if)}: there are no parents that it could be about; give after_tasks"
            )
        return NOTHING, None
    more = None
    if outputs or rule is not RunIf.ALL_SUCCEEDED:
        more = More()
        more.run_if = rule
        more.outputs = bool(outputs)
    return tuple(parents) if len(parents) == 1 else tuple(dict.fromkeys(parents)), more


def _run_if(run_if: object) -> RunIf:
    try:
        rule = _RUN_IFS.get(run_if)  # type: ignore[call-overload]  # anything may be looked up
    except TypeError:  # not hashable
        rule = None
    if rule is None:
        raise ScheduleError(f"run_if={shown(run_if)}: needs one of {', '.join(_RUN_IFS)}")
    found: RunIf = rule
    return found


def _parent(owner: object, parent: object) -> TaskRecord | str:
    if type(parent) is Task and parent._owner is owner:
        return parent
    id = plain_text(parent)
    if id is not None:
        return id
    if type(parent) is not Task:
        raise DependencyError(
            f"after_tasks: {shown(parent)} is neither a task nor an id; give what schedule() returned"
        )
    raise DependencyError(f"after_tasks: {shown(parent)} belongs to another scheduler, which would not tell this one")


def refuse_priority(priority: object) -> Never:
    raise ScheduleError(f"priority={shown(priority)}: needs a whole number; higher runs first, 0 is the default")


def args_of(args: object) -> tuple[Any, ...]:
    """The arguments as a tuple. Raises ScheduleError for what is neither that nor a list."""
    if type(args) is tuple:
        return args
    if isinstance(args, list):
        return tuple(args)
    raise ScheduleError(f"args={shown(args)}: needs a tuple; for one argument: args=({shown(args)},)")


def kwargs_of(kwargs: object) -> Mapping[str, Any]:
    """A copy whose keys are plain texts. Raises ScheduleError."""
    copy: dict[str, Any] = {}
    for key, value in kwargs.items() if isinstance(kwargs, Mapping) else ((None, None),):
        name = plain_text(key)
        if name is None:
            raise ScheduleError(f"kwargs={shown(kwargs)}: needs a dict whose keys are names")
        if name in copy:
            raise ScheduleError(f"kwargs={shown(kwargs)}: has the name {shown(name)} twice")
        copy[name] = value
    return copy
