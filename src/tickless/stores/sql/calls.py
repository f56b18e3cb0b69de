"""A work and its arguments as they are stored: a name and a text. Callable, so that a worker need not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, final

from tickless.errors import OUR_FRAMES, OutputGone, PayloadError
from tickless.records import Attempt, Run
from tickless.states import State
from tickless.stores.payloads import decode, decode_call, encode_call

if TYPE_CHECKING:
    from tickless.core.record import TaskRecord
    from tickless.stores.registered import Works

Ends = Mapping[int, tuple[State | None, str | None]]
"""Task -> how it ended, and its result as JSON where that is kept."""


@final
class StoredCall:
    """What `work` is to be called with. Nothing is imported, and no argument made, before somebody calls it."""

    __slots__ = ("__name__", "args", "ends", "found", "name", "works")

    def __init__(self, works: Works, name: str, args: str | None) -> None:
        self.works = works
        self.name = name
        self.args = args
        """As JSON; None: there are none."""
        self.ends: Ends = {}
        self.found: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None
        self.__name__ = name.rpartition(":")[2].rpartition(".")[2]

    def find(self, ends: Ends) -> None:
        """Look the function up, and make the arguments; `ends`: of the tasks whose outputs are among them.

        Raises PayloadError, saying why, where the row cannot be used.
        """
        work = self.works.resolve(self.name)
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        if self.args is not None:
            args, kwargs = decode_call(self.args, lambda tagged: _output(self.works, tagged, ends))
        self.found = work, args, kwargs

    def __call__(self, *more: Any) -> Any:
        """Call the work. `more` follows its own arguments: a handler is given the run that failed."""
        work, args, kwargs = self.tickless_parts()
        return work(*_filled(args), *more, **{key: _fill(value) for key, value in kwargs.items()})

    def tickless_parts(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """The function and its arguments, for who calls it elsewhere."""
        if self.found is None:
            self.find(self.ends)
        assert self.found is not None
        return self.found


OUR_FRAMES.add(StoredCall.__call__.__code__)


class _Gone:
    """Stands for an output that is not there, until the work is called: that is the run's failure, not the row's."""

    __slots__ = ("task",)

    def __init__(self, task: object) -> None:
        self.task = task


def _output(works: Works, tagged: dict[str, Any], ends: Ends) -> Any:
    """The value that an output stands for."""
    if tagged.get("$") == "kept" and hasattr(works, "value_of"):
        return works.value_of(tagged)
    if tagged.get("$") == "run":
        return _run_of(tagged)
    if tagged.get("$") != "output":
        raise PayloadError(f"an argument has the tag {tagged.get('$')!r}, which this version of tickless does not know")
    if "value" in tagged:
        return tagged["value"]
    state, value = ends.get(tagged["task"], (None, None))
    if state is State.SUCCEEDED and value is not None:
        return decode(value, lambda tagged: _output(works, tagged, ends))
    if "default" in tagged and state is not State.SUCCEEDED:
        return decode(tagged["default"], lambda tagged: _output(works, tagged, ends))
    return _Gone(tagged["task"])


class _Told(NamedTuple):
    """The run that a handler is told of: not a value of a user's, so it has a form of its own."""

    run: Run


def pack_handler(works: Works, task: TaskRecord) -> None:
    """Have what `on_failure` calls hold its work and the run that failed as they are stored."""
    work, args = task._work, task._args
    assert work is not None
    assert args is not None
    name = work.name if type(work) is StoredCall else works.name_of(work)
    task._work = StoredCall(works, name, encode_call(tuple(map(_Told, args)), {}, _run_form))
    task._args, task._kwargs = (), None


def _run_form(value: Any) -> dict[str, Any] | None:
    if type(value) is not _Told:
        return None
    form = {one.name: getattr(value.run, one.name) for one in fields(Run)}
    tries = [[one.number, one.started_us, one.finished_us, one.error, one.reason] for one in value.run.attempts]
    return {"$": "run", **form, "attempts": tries}


def _run_of(form: dict[str, Any]) -> Run:
    given = {key: value for key, value in form.items() if key != "$"}
    return Run(**{**given, "attempts": tuple(Attempt(*one) for one in given["attempts"])})


def _filled(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_fill, values))


def _fill(value: Any) -> Any:
    if type(value) is _Gone:
        raise OutputGone(f"the output of task #{value.task} is not there: it has not succeeded, or was forgotten")
    if type(value) in (list, tuple):
        return type(value)(map(_fill, value))
    if type(value) is dict:
        return {key: _fill(item) for key, item in value.items()}
    return value


def pack(works: Works, task: TaskRecord, special: Callable[[Any], dict[str, Any] | None] | None) -> None:
    """Have the task hold its work and arguments as they are stored. `special`: the form of an output.

    Raises PayloadError, naming the argument. An `_args` of None: those that it has stay.
    """
    work, args = task._work, task._args
    if type(work) is StoredCall:
        if not args and not task._kwargs:
            return
        text = work.args if args is None else encode_call(args, task._kwargs or {}, special)
        task._work = StoredCall(works, work.name, text)
    elif work is not None:
        task._work = StoredCall(works, works.name_of(work), encode_call(args or (), task._kwargs or {}, special))
    task._args, task._kwargs = (), None
