"""The door of `schedule`: from what a user wrote to a checked draft. Everything wrong is refused here, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType
from typing import Any, NamedTuple

from tickless.core.record import More, TaskRecord
from tickless.errors import DependencyError, RuleError, ScheduleError, shown
from tickless.instants import MAX_INSTANT, Clock, Instant, datetime_of
from tickless.limits import limited
from tickless.output import Output, outputs_in
from tickless.rules import After, Rule, first_fire
from tickless.states import RunIf
from tickless.task import Task

_NOT_PLAIN = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_BUILTIN = frozenset({BuiltinFunctionType, MethodWrapperType, type})
_ONE = (str, Task)
_MAY_HOLD = frozenset({Output, list, tuple, dict})
"""Arguments that may be outputs or hold some."""
NOTHING: tuple[Any, ...] = ()
ZERO = 0
ALL_SUCCEEDED = "all_succeeded"
"""The defaults, to be asked for by identity: `==` is foreign code where a caller gives an object of their own."""
_RUN_IFS = {str(run_if): run_if for run_if in RunIf}


class Call(NamedTuple):
    """One item of `schedule_many`: the arguments of `schedule`. `after_tasks` may name ids of the same batch."""

    work: Callable[..., Any]
    when: Rule | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    id: str | None = None
    name: str | None = None
    after_tasks: Iterable[Task[Any] | str] = ()
    run_if: str = "all_succeeded"
    priority: int = 0
    start: datetime | None = None
    until: datetime | None = None
    max_runs: int | None = None
    jitter: float | timedelta | None = None


def check_call(item: object) -> Call:
    """The item of a batch itself. Raises ScheduleError for what is no Call: a plain tuple would be one by accident."""
    if type(item) is Call or isinstance(item, Call):
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
        if work.__code__.co_flags & _NOT_PLAIN:
            return None
    elif kind not in _BUILTIN:
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


def draft(
    owner: object,
    clock: Clock,
    now: Instant,
    work: Callable[..., Any],
    when: Rule | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    id: str | None,
    name: str | None,
    after_tasks: Iterable[Task[Any] | str],
    run_if: str,
    priority: int,
    start: datetime | None,
    until: datetime | None,
    max_runs: int | None,
    jitter: float | timedelta | None,
) -> Task[Any]:
    """A task that has not entered a store yet. Raises ScheduleError, RuleError or DependencyError.

    `owner` is the scheduler whose handles may be parents.
    """
    bare = args is after_tasks is NOTHING and id is None and name is None and kwargs is None and priority is ZERO
    free = start is None and until is None and max_runs is None and jitter is None
    if bare and free and run_if is ALL_SUCCEEDED and (task := plain(owner, now, work, when)) is not None:
        return task
    kind = type(work)
    if (kind is FunctionType and not work.__code__.co_flags & _NOT_PLAIN) or kind in _BUILTIN:
        label = work.__name__
    else:
        label = _name_of(work)
    if type(label) is not str:  # a function can be given a name of any text type
        label = str.__str__(label)
    if name is not None:
        label = _text("name", name)
    if type(args) is not tuple:
        args = _args(args)
    if kwargs is not None:
        kwargs = _kwargs(kwargs)
    if id is not None:
        id = _text("id", id)
        if id[0] == "#":
            raise ScheduleError(f"id {shown(id)}: ids that begin with # are given by the scheduler; choose another")
    if type(priority) is not int:
        raise ScheduleError(f"priority={shown(priority)}: needs a whole number; higher runs first, 0 is the default")
    parents, more = NOTHING, None
    if after_tasks is not NOTHING or args or kwargs or run_if != "all_succeeded":
        parents, more = _links(owner, args, kwargs, after_tasks, run_if)
    if not free:
        when, more = limited(when, start, until, max_runs, jitter, more or More())
    if when is None:
        due = None if parents else now
        return Task(work, args, kwargs, id, label, priority, None, due, False, more, parents, owner)
    if type(when) is After:
        rule, due, wall, recurring = None, when.bound(now).due, False, False
    else:
        rule, due, wall, recurring = _bound(when, clock, now)
    if not parents:
        rule = rule if recurring else None
        return Task(work, args, kwargs, id, label, priority, rule, due, wall, more, parents, owner)
    if more is None:
        more = More()
    more.when, more.recurring = when, recurring
    return Task(work, args, kwargs, id, label, priority, None, None, wall, more, parents, owner)


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
    id = _plain(parent)
    if id is not None:
        return id
    if type(parent) is not Task:
        raise DependencyError(
            f"after_tasks: {shown(parent)} is neither a task nor an id; give what schedule() returned"
        )
    raise DependencyError(f"after_tasks: {shown(parent)} belongs to another scheduler, which would not tell this one")


def _name_of(work: Callable[..., Any]) -> str:
    """The name of a work that can be run on a thread. Raises ScheduleError for one that cannot."""
    if type(work) is MethodType and type(work.__func__) is FunctionType:
        if work.__func__.__code__.co_flags & _NOT_PLAIN:
            _refuse(work)
        return work.__func__.__name__
    if not callable(work):
        raise ScheduleError(
            f"work={shown(work)}: needs something to call, without calling it: schedule(f), not schedule(f())"
        )
    plain: Any = work
    while isinstance(plain, partial):
        plain = plain.func
    if not inspect.isroutine(plain) and not isinstance(plain, type):
        plain = getattr(plain, "__call__", plain)  # noqa: B004 - the method itself is wanted, to see what kind it is
    plain = getattr(plain, "__func__", plain)
    if getattr(getattr(plain, "__code__", None), "co_flags", 0) & _NOT_PLAIN:
        _refuse(work)
    name = _plain(getattr(work, "__name__", None)) or _plain(getattr(plain, "__name__", None))
    return name if name and name != "__call__" else type(work).__name__


def _refuse(work: object) -> None:
    raise ScheduleError(
        f"work={shown(work)}: calling a coroutine or generator function runs nothing of it; "
        "schedule a plain function, e.g. one that calls asyncio.run(...)"
    )


def _text(what: str, value: object) -> str:
    text = _plain(value)
    if not text:
        raise ScheduleError(f"{what}={shown(value)}: needs a text of at least one character")
    return text


def _plain(value: object) -> str | None:
    """The text as a plain `str`; None for what is no text.

    The methods of a subclass are foreign code, and would be called wherever an id is looked up: under the lock. Nor is
    `isinstance` asked, since it believes what an object says of itself.
    """
    if type(value) is str:
        return value
    if not issubclass(type(value), str):
        return None
    return str.__str__(value)


def _args(args: object) -> tuple[Any, ...]:
    if isinstance(args, list):
        return tuple(args)
    raise ScheduleError(f"args={shown(args)}: needs a tuple; for one argument: args=({shown(args)},)")


def _kwargs(kwargs: object) -> Mapping[str, Any]:
    copy: dict[str, Any] = {}
    for key, value in kwargs.items() if isinstance(kwargs, Mapping) else ((None, None),):
        name = _plain(key)
        if name is None:
            raise ScheduleError(f"kwargs={shown(kwargs)}: needs a dict whose keys are names")
        if name in copy:
            raise ScheduleError(f"kwargs={shown(kwargs)}: has the name {shown(name)} twice")
        copy[name] = value
    return copy
