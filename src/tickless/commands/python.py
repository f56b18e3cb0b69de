"""`PythonWork`: a Python function beside commands, in threads of the same pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from types import MappingProxyType
from typing import Any

from tickless.commands.command import here, place
from tickless.errors import OUR_FRAMES
from tickless.records import Run


class PythonWork:
    """Calls the function in a thread of its pool; `current_run()` answers there."""

    __slots__ = ("__name__", "_args", "_function", "_kwargs")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._function = function
        self._args = args
        self._kwargs = dict(kwargs or {})
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *failed: Run) -> Future[Any]:
        call = partial(_call, self._function, (*failed, *self._args), self._kwargs)
        return place().begin_call(partial(copy_context().run, call))


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    here.set(None)  # this is not the thread of the pool, where alone a command may begin
    try:
        return function(*args, **kwargs)
    finally:
        del function, args, kwargs  # as in `tickless.worker`: an error keeps this frame


OUR_FRAMES.add(_call.__code__)
