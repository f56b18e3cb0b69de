"""A work and its arguments as they are stored: a name and a text. Callable, so that a worker need not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, final

from tickless.errors import OUR_FRAMES, OutputGone, PayloadError, shown
from tickless.parts import Path, part_of
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
        return work(*args, *more, **kwargs)

    def tickless_parts(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """The function and its arguments, for who calls it elsewhere. Raises OutputGone where one is not there."""
        if self.found is None:
            self.find(self.ends)
        assert self.found is not None
        work, args, kwargs = self.found
        return work, tuple(map(_fill, args)), {key: _fill(value) for key, value in kwargs.items()}


OUR_FRAMES.add(StoredCall.__call__.__code__)


class _Gone:
    """Stands for an output that is not there, until the work is called: that is the run's failure, not the row's."""

    __slots__ = ("task",)

    def __init__(self, task: object) -> None:
        self.task = task


class _Part(NamedTuple):
    """Stands for a part of an output, until the work is called: that there is none is the run's failure, too."""

    whole: Any
    path: Path
    whose: str


def output_form(task: int, path: Path, whose: str, found: tuple[Any, ...] = ()) -> dict[str, Any]:
    """An output as it is stored. `found`: what the task returned, where it has. A part has a tag of its own: older
    versions, which do not know paths, refuse it."""
    if found and path:
        try:
            found, path = (part_of(found[0], path, whose),), ()
        except OutputGone:
            pass  # the run tells
    form: dict[str, Any] = {"$": "part", "path": list(path), "whose": whose} if path else {"$": "output"}
    form["task"] = task
    if found:
        form["value"] = found[0]
    return form


def _output(works: Works, tagged: dict[str, Any], ends: Ends) -> Any:
    """The value that an output stands for."""
    if tagged.get("$") == "kept" and hasattr(works, "value_of"):
        return works.value_of(tagged)
    if tagged.get("$") == "run":
        return _run_of(tagged)
    if tagged.get("$") not in ("output", "part"):
        raise PayloadError(f"an argument has the tag {tagged.get('$')!r}, which this version of tickless does not know")
    if "value" in tagged:
        return _part_of(tagged, tagged["value"])
    state, value = ends.get(tagged["task"], (None, None))
    if state is State.SUCCEEDED and value is not None:
        return _part_of(tagged, decode(value, lambda tagged: _output(works, tagged, ends)))
    if "default" in tagged and state is not State.SUCCEEDED:
        return decode(tagged["default"], lambda tagged: _output(works, tagged, ends))
    return _Gone(tagged["task"])


def _part_of(tagged: dict[str, Any], whole: Any) -> Any:
    if tagged["$"] == "output":
        return whole
    path, whose = tagged.get("path"), tagged.get("whose")
    if type(path) is not list or type(whose) is not str or not all(type(key) in (str, int) for key in path):
        raise PayloadError(f"a part of the output of task #{tagged['task']} has no path: {shown(path)}")
    return _Part(whole, tuple(path), whose)


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


def _fill(value: Any) -> Any:
    if type(value) is _Gone:
        raise OutputGone(f"the output of task #{value.task} is not there: it has not succeeded, or was forgotten")
    if type(value) is _Part:
        return part_of(value.whole, value.path, value.whose)
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
