"""`@scheduler.task`, `@scheduler.every`, `@scheduler.cron`: functions that declare how they are scheduled.

To decorate writes nothing into the store and starts nothing: a module that declares may be imported by anybody. What
recurs enters the store when the scheduler starts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import FrozenInstanceError
from datetime import date, datetime, time, timedelta, tzinfo
from functools import WRAPPER_ASSIGNMENTS
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, ParamSpec, TypeVar, Unpack, cast, final, overload

from tickless import rules
from tickless.checks import text
from tickless.declared import Declaration, Origin, check_open, look, origin_of, told_where
from tickless.drafts import args_of, draft, kwargs_of
from tickless.errors import OUR_FRAMES, ScheduleError, shown
from tickless.instants import Instant
from tickless.options import ArgumentOptions, LimitOptions, PolicyOptions, TaskOptions, check_names
from tickless.rules import Rule
from tickless.rules.zones import Fold, Gap
from tickless.states import Exists
from tickless.stores.names import name_in_module
from tickless.stores.registered import Declared
from tickless.task import Task
from tickless.works import name_of

if TYPE_CHECKING:
    from tickless.scheduler import Scheduler

P = ParamSpec("P")
T = TypeVar("T")


class CallOptions(TaskOptions, total=False):
    """Every keyword of `TaskFunction.options`."""

    when: Rule | None
    exists: Exists


class DeclaredOptions(PolicyOptions, total=False):
    """Every keyword of `@scheduler.task`. What is about one call is said to `TaskFunction.options`."""

    name: str
    priority: int


class RecurringOptions(ArgumentOptions, LimitOptions, DeclaredOptions, total=False):
    """What may be said of a declared recurring task, beside its rule."""

    id: str


class EveryOptions(RecurringOptions, total=False):
    """Every keyword of `@scheduler.every`: those of the rule `every`, and of the task."""

    seconds: float
    minutes: float
    hours: float
    days: int
    weeks: int
    months: int
    years: int
    sliding: bool
    anchor: datetime | date | Literal["epoch"]
    on: str | Iterable[str]
    at: str | time
    tz: str | tzinfo
    gap: Gap
    fold: Fold


class CronOptions(RecurringOptions, total=False):
    """Every keyword of `@scheduler.cron`: those of the rule `cron`, and of the task."""

    tz: str | tzinfo
    gap: Gap
    fold: Fold


_OF_RECURRENCE = frozenset({"overlap", "max_running", "catch_up", "max_catch_up", "pause_after_failures"})
_OF_THE_TASK = frozenset(DeclaredOptions.__annotations__) - _OF_RECURRENCE
"""What a recurring declaration says that holds for a call by hand as well."""
_ARGUMENTS = "arguments are given to schedule(...), as to the function itself"
_ONE_CALL = "say it of one call: f.options({}=...).schedule(...)"
_OF_CALLS = {name: _ONE_CALL.format(name) for name in sorted(CallOptions.__annotations__)}
_ELSEWHERE = {
    "task": {**_OF_CALLS, "args": _ARGUMENTS, "kwargs": _ARGUMENTS},
    "options": {"args": _ARGUMENTS, "kwargs": _ARGUMENTS},
    "every": {**_OF_CALLS, "when": "the rule is the decorator itself"},
    "cron": {**_OF_CALLS, "when": "the rule is the decorator itself"},
}


@final
class TaskFunction(Declared, Generic[P, T]):
    """A function that a scheduler's decorator has declared. To call it is to call the function, and no more.

    `f.schedule(1, 2)` has it run once as a task, with the options of the declaration, and gives the `Task`; a type
    checker knows the arguments and the result. `f.options(when=after(5)).schedule(1, 2)` says more of one call.
    Frozen, and pickled by reference, as functions are. `__wrapped__` is the function itself, whose name, text and
    signature it has.
    """

    if TYPE_CHECKING:
        __name__: str
        __qualname__: str
        __wrapped__: Callable[P, T]
        _scheduler: Scheduler
        _options: CallOptions
        _name: str
        _id: str | None

    def __init__(self, *_: object, **__: object) -> None:
        """Raises TypeError: a decorator makes it."""
        raise TypeError("TaskFunction: is made by @scheduler.task, @scheduler.every, @scheduler.cron")

    @property
    def name(self) -> str:
        """What it is declared as, and what rows of a durable store call it: `name=`, or "module:qualname"."""
        return self._name

    @property
    def id(self) -> str | None:
        """The id of the recurring task that it declares, `scheduler.pause(f.id)`; None: it declares none."""
        return self._id

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.__wrapped__(*args, **kwargs)

    def schedule(self, *args: P.args, **kwargs: P.kwargs) -> Task[T]:
        """Have it run once with these arguments: now, or when `options(when=...)` says. See `Scheduler.schedule`.

        An `output` of another task may be among the arguments; to a type checker it is none of them, so there say
        `scheduler.schedule(f, args=(task.output,))`. Raises what `Scheduler.schedule` raises.
        """
        said: dict[str, Any] = {**self._options}
        if args:
            said["args"] = args
        if kwargs:
            said["kwargs"] = kwargs
        if self.id is not None and said.get("id") is None and getattr(said.get("when"), "recurring", False):
            raise ScheduleError(
                f"{self!r}: declares the recurring task {shown(self.id)}; one more by hand needs an id of its own"
            )
        return self._scheduler.schedule(cast("Callable[..., T]", self._first), **said)

    def options(self, **options: Unpack[CallOptions]) -> TaskFunction[P, T]:
        """The same function with other options, for a call: `f.options(when=after(5), retry=Retry(3)).schedule(1)`.

        They are those of `Scheduler.schedule`, `when` included and arguments not, and are added to those that it has.
        Checked when it is scheduled; only an option that there is not is a TypeError at once.
        """
        check_names("options", options, CallOptions.__annotations__, _ELSEWHERE["options"])
        copy: TaskFunction[P, T] = object.__new__(TaskFunction)
        vars(copy).update(vars(self), _options={**self._options, **_to_keep(options)})
        return copy

    if not TYPE_CHECKING:  # to which it has the attributes that it has, and they cannot be set

        def __setattr__(self, name: str, value: object) -> Never:
            raise FrozenInstanceError(f"{self!r} is frozen: {name} cannot be set; options(...) gives one with others")

        def __delattr__(self, name: str) -> Never:
            raise FrozenInstanceError(f"{self!r} is frozen: {name} cannot be taken away")

    def __copy__(self) -> TaskFunction[P, T]:
        return self

    def __deepcopy__(self, memo: object) -> TaskFunction[P, T]:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        there = _standing(self.__wrapped__)
        if there is self:
            return self.__qualname__
        if there is self.__wrapped__ or getattr(there, "__wrapped__", None) is self.__wrapped__:
            return _itself, (there,)  # a function that was declared by a call, or twice
        raise TypeError(f"{self!r} cannot be pickled: its module does not have it under its name, {self.__qualname__}")

    def __repr__(self) -> str:
        return f"<TaskFunction {self.name}>"


OUR_FRAMES.add(TaskFunction.__call__.__code__)


def _to_keep(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, to be used more than once: an iterator among them would be empty the second time."""
    return {name: tuple(value) if isinstance(value, Iterator) else value for name, value in options.items()}


def _itself(thing: object) -> object:
    return thing


def _standing(function: Callable[..., Any]) -> object:
    """What the function's module has under its name, as pickle looks for it."""
    try:
        thing: object = sys.modules.get(function.__module__)
        for part in function.__qualname__.split("."):
            thing = getattr(thing, part)
    except AttributeError:
        return None
    return thing


@overload
def task(self: Scheduler, function: Callable[P, T], /) -> TaskFunction[P, T]: ...
@overload
def task(self: Scheduler, /, **options: Unpack[DeclaredOptions]) -> Callable[[Callable[P, T]], TaskFunction[P, T]]: ...


def task(self: Scheduler, function: Any = None, /, **options: Unpack[DeclaredOptions]) -> Any:
    """Declare a function whose calls are tasks: `@scheduler.task`, or `@scheduler.task(retry=Retry(3))`.

    Nothing is scheduled until `f.schedule(...)` says so; `f(...)` is a plain call. Options about failures, time, pool,
    limit, tags and priority hold for each of its tasks; `f.options(...)` says more of one. `name` is what rows of a
    durable store call the function: by default "module:qualname". It may be a function, also one nested in another,
    or a static method (with this decorator above `@staticmethod`); other methods, lambdas without `name=`, classes,
    partials and coroutine functions are refused.

    Raises what `schedule` raises, TypeError for an option that there is not, ScheduleError for a name that another
    function has declared, SchedulerClosed; the message begins with the function, its file and its line.
    """

    def declare(function: Callable[..., Any]) -> TaskFunction[..., Any]:
        return _declare(self, "task", function, None, options)

    return declare if function is None else declare(function)


def every(
    self: Scheduler, interval: timedelta | None = None, /, **options: Unpack[EveryOptions]
) -> Callable[[Callable[P, T]], TaskFunction[P, T]]:
    """Declare a function that recurs: `@scheduler.every(minutes=5)`, and all else that the rule `every` takes.

    It enters the store when the scheduler starts, and counts from then; at once if that has been. Its id is `id=`, or
    else the name of the function. In a durable store a task of that id is updated: an unchanged rule keeps its next
    fire, its history and its pause. Options are those of `schedule`, and `name` as in `Scheduler.task`; `args` and
    `kwargs` are what it is called with. `f.schedule(...)` runs it once more, by hand, without what is said about its
    fires. A module that is executed again (`importlib.reload`) replaces what it declared before.

    Raises what `Scheduler.task` raises, RuleError for a rule that cannot be or never fires, ScheduleError for
    arguments that the function does not take, DuplicateId for an id that is declared elsewhere, by both places.
    """
    _check_rule("every", interval, timedelta, "minutes=5")

    def rule(words: dict[str, Any]) -> Rule:
        return rules.every(interval, **words)

    return lambda function: _declare(self, "every", function, rule, options)


def cron(
    self: Scheduler, expr: str, /, **options: Unpack[CronOptions]
) -> Callable[[Callable[P, T]], TaskFunction[P, T]]:
    """Declare a function that recurs as a cron expression says: `@scheduler.cron("30 2 * * *", tz="Europe/Berlin")`.

    See `Scheduler.every` for all but the rule, and the rule `cron` for that.
    """
    _check_rule("cron", expr, str, '"30 2 * * *"')

    def rule(words: dict[str, Any]) -> Rule:
        return rules.cron(expr, **words)

    return lambda function: _declare(self, "cron", function, rule, options)


def _check_rule(verb: str, value: object, kind: type, example: str) -> None:
    """A decorator without its brackets would be given the function here, and declare nothing."""
    if not isinstance(value, kind) and (value is not None or verb == "cron"):
        raise ScheduleError(f"@scheduler.{verb}({shown(value)}): say when, e.g. @scheduler.{verb}({example})")


_RECURRING = {"every": EveryOptions.__annotations__, "cron": CronOptions.__annotations__}
_KNOWN = {"task": DeclaredOptions.__annotations__, **_RECURRING}


def _declare(
    scheduler: Scheduler,
    verb: str,
    given: Callable[P, T],
    rule: Callable[[dict[str, Any]], Rule] | None,
    options: Mapping[str, Any],
) -> TaskFunction[P, T]:
    """Check, and declare. What is refused has changed nothing."""
    check_open(scheduler)
    function, innermost = _function(verb, given)
    origin = origin_of(innermost)
    with told_where(origin):
        check_names(verb, options, _KNOWN[verb], _ELSEWHERE[verb])
        words = {name: value for name, value in options.items() if name not in RecurringOptions.__annotations__}
        said = _to_keep({name: value for name, value in options.items() if name not in words})
        name = text("name", said["name"]) if "name" in said else _name(function, durable=scheduler._durable is not None)
        id = None
        if rule is not None:
            said["when"] = rule(words)
            id = said["id"] = text("id", said.get("id", name))
            _check_arguments(function, said)
        with scheduler._declared.lock:
            made: TaskFunction[P, T] = _enter(scheduler, function, origin, name, id, said)
    look(scheduler)
    return made


def _enter(
    scheduler: Scheduler, function: Callable[P, T], origin: Origin, name: str, id: str | None, said: dict[str, Any]
) -> TaskFunction[P, T]:
    declarations, durable = scheduler._declared, scheduler._durable
    former = declarations.check_name(name, origin)
    made: TaskFunction[P, T] = object.__new__(TaskFunction)
    for attribute in WRAPPER_ASSIGNMENTS:
        if hasattr(function, attribute):
            vars(made)[attribute] = getattr(function, attribute)
    kept = said if id is None else {key: value for key, value in said.items() if key in _OF_THE_TASK}
    vars(made).update(__wrapped__=function, _name=name, _id=id, _scheduler=scheduler, _options=kept, _first=made)

    def drafted(now: Instant) -> Task[Any]:
        options = {option: value for option, value in said.items() if option != "when"}
        return draft(scheduler, scheduler._clock, now, made, said.get("when"), **options)

    with nullcontext() if durable is None else durable.declaring(made, name, former):
        checked = drafted(scheduler._now())
        if durable is not None:
            durable.check(checked)
        declarations.add(scheduler, origin, (name, made), None if id is None else Declaration(id, origin, drafted))
    return made


def _function(verb: str, given: Any) -> tuple[Any, FunctionType]:
    """The function itself, and the one that has a place in a file, which others may be wrapped around.

    Raises ScheduleError for what is none, or could not be called without an object.
    """
    function: Any = given.__func__ if type(given) is staticmethod else given
    if issubclass(type(function), TaskFunction):
        function = function.__wrapped__
    needs_no_object = function is not given
    what = f"@scheduler.{verb}"
    label = name_of(function, what)
    try:
        innermost = None if type(function) is MethodType else inspect.unwrap(function)
    except ValueError:  # wrapped in a circle
        innermost = None
    if type(innermost) is not FunctionType:
        raise ScheduleError(
            f"{what}: {shown(given)} is no function; write a def, or give it to schedule(), which takes all that can "
            "be called"
        )
    with told_where(Origin(innermost, None)):
        name_of(innermost, what)
        owner = str(getattr(function, "__qualname__", label)).rpartition(".")[0]
        if owner and not owner.endswith("<locals>") and not needs_no_object:
            raise ScheduleError(
                f"{what}: is a method, and would be called without its object; decorate a function, or a static "
                f"method, with {what} above @staticmethod"
            )
    return function, innermost


def _name(function: Callable[..., Any], *, durable: bool) -> str:
    name = name_in_module(function)
    if "<lambda>" in name:
        raise ScheduleError("a lambda has no name of its own; write a def, or give it one: name=")
    if durable and name.startswith("__main__:"):
        raise ScheduleError(
            "__main__ is another module in each process, so that rows cannot name its functions; "
            f"move it to a module of its own, or give it a name: name={function.__name__!r}"
        )
    return name


def _check_arguments(function: Callable[..., Any], said: Mapping[str, Any]) -> None:
    """Raises ScheduleError when the function could not be called so: else each fire would fail."""
    args, kwargs = args_of(said.get("args", ())), kwargs_of(said.get("kwargs") or {})
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it does not tell
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ScheduleError(f"it cannot be called so: {error}; give args= and kwargs= to the decorator") from None
