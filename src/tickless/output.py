"""`task.output`: a parent's result, or a part of it, as an argument of its child, filled in when the child runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, final

from tickless.core.record import NOT_SET, TaskRecord, state_of
from tickless.errors import OutputGone, ScheduleError, shown
from tickless.parts import Key, Path, checked_key, part_of, path_text
from tickless.states import State

T = TypeVar("T")
D = TypeVar("D")
_NO_DEFAULT: Any = object()


@final
class Output(Generic[T]):
    """Stands for what `task` will return. It keeps that value alive for as long as the child waits.

    `output["rows"][0]` stands for a part of it: a path of keys and indices, that is followed when the child runs.
    It is no value: it has no length and no truth, and cannot be looped over.
    """

    __slots__ = ("_default", "_path", "_task")

    def __init__(self, task: TaskRecord, default: Any = _NO_DEFAULT, path: Path = ()) -> None:
        self._task = task
        self._default = default
        self._path = path

    def __getitem__(self, key: Key) -> Output[Any]:
        """Stands for that part of the result. The child fails, and is not called, when there is no such part.

        Raises ScheduleError for a key that is neither a text nor an int, and after `or_else`.
        """
        if not self.needs_success:
            raise ScheduleError(
                f"{self!r}[{shown(key)}]: after or_else, whose default is for the part: write output[...].or_else(x)"
            )
        return Output(self._task, path=(*self._path, checked_key(key, self)))

    def or_else(self, default: D) -> Output[T | D]:
        """The same, but `default` where the task has not succeeded: for `run_if` other than "all_succeeded".

        Of a part it stands for the part. It is none for a part that is missing in the result of a task that succeeded.
        Raises ScheduleError for a default that is, or holds, an output.
        """
        if outputs_in((default,), None):
            raise ScheduleError(
                f"or_else({shown(default)}): a default is a value, and no output; give both as arguments, "
                "and choose in the work"
            )
        return Output(self._task, default, self._path)

    @property
    def needs_success(self) -> bool:
        """True when there is nothing to give unless the task has succeeded."""
        return self._default is _NO_DEFAULT

    def of(self, task: TaskRecord, default: Callable[[Any], Any] | None = None) -> Output[T]:
        """The same part of the result of another task, with the same default, or what `default` makes of it."""
        given = self._default if default is None or self.needs_success else default(self._default)
        return Output(task, given, self._path)

    def stored_parts(self) -> tuple[TaskRecord, Path, tuple[Any, ...]]:
        """For a store that keeps arguments as text: whose output, which part, and the default, if there is one."""
        return self._task, self._path, () if self.needs_success else (self._default,)

    def value(self) -> T:
        """What the task returned, or the part of it, or the default. Asked when the child runs: the task has ended.

        Raises OutputGone when there is no such value any more, or never was one and no default either; and when the
        value has no such part.
        """
        task = self._task
        state = state_of(task)
        if state is State.SUCCEEDED and task._value is not NOT_SET:
            value: T = task._value
            if self._path:
                value = part_of(value, self._path, f"{task.id} ({task._name})")
            return value
        if state is State.SUCCEEDED or self.needs_success:
            raise OutputGone(
                f"the output of task {task.id} ({task._name}), which is {state}, is not there; "
                "keep what schedule() returns, and take the output from that"
            )
        default: T = self._default
        return default

    def __repr__(self) -> str:
        return f"<output{path_text(self._path)} of {self._task.id} {self._task.name}>"

    if TYPE_CHECKING:
        __iter__: None
        __contains__: None
    else:

        def __iter__(self) -> Never:
            """Refused: Python would ask for output[0], output[1], ... without an end."""
            raise TypeError(self._not_yet("cannot be looped over, unpacked or searched"))

        def __contains__(self, item: object) -> bool:
            raise TypeError(self._not_yet("cannot be looped over, unpacked or searched"))

    def __bool__(self) -> bool:
        raise TypeError(self._not_yet("is neither true nor false"))

    def _not_yet(self, what: str) -> str:
        return f"{self!r} {what}: it stands for a value that is there when the child runs; ask the value, in the work"


def replaced(value: Any, replace: Callable[[Any], Any] = Output.value, kind: type = Output) -> Any:
    """The argument with `replace(output)` for each output: itself, or in a list, tuple or dict, which is then copied.

    The one walk: this deep, and no deeper, outputs are looked for. What holds none is given back as it is. By default
    outputs are replaced by their values. `kind`: look for what is exactly of that type instead.
    """
    held = type(value)
    if held is kind:
        return replace(value)
    if held is list or held is tuple:
        for item in value:
            if type(item) is kind:
                return held([replace(item) if type(item) is kind else item for item in value])
    elif held is dict:
        for item in value.values():
            if type(item) is kind:
                return {key: replace(item) if type(item) is kind else item for key, item in value.items()}
    return value


def outputs_in(args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> list[Output[Any]]:
    """The outputs among the arguments, and in lists, tuples and dicts that are arguments. O(their lengths)."""
    found: list[Output[Any]] = []
    for value in args if not kwargs else (*args, *kwargs.values()):
        replaced(value, found.append)
    return found
