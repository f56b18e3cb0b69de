"""`task.output`: a parent's result as an argument of its child, filled in when the child runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar, final

from tickless.core.record import NOT_SET, TaskRecord, state_of
from tickless.errors import OutputGone
from tickless.states import State

T = TypeVar("T")
D = TypeVar("D")
_NO_DEFAULT: Any = object()


@final
class Output(Generic[T]):
    """Stands for what `task` will return. It keeps that value alive for as long as the child waits."""

    __slots__ = ("_default", "_task")

    def __init__(self, task: TaskRecord, default: Any = _NO_DEFAULT) -> None:
        self._task = task
        self._default = default

    def or_else(self, default: D) -> Output[T | D]:
        """The same, but `default` where the task has not succeeded: for `run_if` other than "all_succeeded"."""
        return Output(self._task, default)

    @property
    def needs_success(self) -> bool:
        """True when there is nothing to give unless the task has succeeded."""
        return self._default is _NO_DEFAULT

    def stored_parts(self) -> tuple[TaskRecord, tuple[Any, ...]]:
        """For a store that keeps arguments as text: whose output it is, and the default, if there is one."""
        return self._task, () if self.needs_success else (self._default,)

    def of(self, task: TaskRecord) -> Output[T]:
        """The same of another task."""
        return Output(task, self._default)

    def value(self) -> T:
        """What the task returned, or the default. Asked when the child runs, so the task has ended.

        Raises OutputGone when there is no such value any more, or never was one and no default either.
        """
        state = state_of(self._task)
        if state is State.SUCCEEDED and self._task._value is not NOT_SET:
            value: T = self._task._value
            return value
        if state is State.SUCCEEDED or self.needs_success:
            raise OutputGone(
                f"the output of task {self._task.id} ({self._task.name}), which is {state}, is not there; "
                "keep what schedule() returns, and take the output from that"
            )
        default: T = self._default
        return default

    def __repr__(self) -> str:
        return f"<output of {self._task.id} {self._task.name}>"


def outputs_in(args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> list[Output[Any]]:
    """The outputs among the arguments, and in lists, tuples and dicts that are arguments. O(their lengths)."""
    found: list[Output[Any]] = []
    for value in args if not kwargs else (*args, *kwargs.values()):
        if type(value) is Output:
            found.append(value)
        elif type(value) is list or type(value) is tuple:
            found.extend(_outputs(value))
        elif type(value) is dict:
            found.extend(_outputs(value.values()))
    return found


def _outputs(values: Iterable[Any]) -> Iterable[Output[Any]]:
    return (value for value in values if type(value) is Output)


def filled(value: Any) -> Any:
    """The argument with outputs replaced by their values; a list, tuple or dict of them is replaced by a copy."""
    if type(value) is Output:
        return value.value()
    if type(value) is list or type(value) is tuple:
        return type(value)(item.value() if type(item) is Output else item for item in value)
    if type(value) is dict:
        return {key: item.value() if type(item) is Output else item for key, item in value.items()}
    return value
