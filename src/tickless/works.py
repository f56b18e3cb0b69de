"""The door of what is to be called: a work, or a handler. What calling it would not run is refused by name."""

from __future__ import annotations

import inspect
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType
from typing import Any

from tickless.checks import plain_text
from tickless.errors import ScheduleError, shown

NOT_PLAIN = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
"""The flags of functions whose call runs nothing of them."""
BUILTIN = frozenset({BuiltinFunctionType, MethodWrapperType, type})


def name_of(work: object, what: str = "work") -> str:
    """The name of a work that can be run on a thread. `what` names the argument in errors.

    Raises ScheduleError for one that cannot, such as a coroutine function.
    """
    if type(work) is MethodType and type(work.__func__) is FunctionType:
        if work.__func__.__code__.co_flags & NOT_PLAIN:
            _refuse(work, what)
        return work.__func__.__name__
    if not callable(work):
        raise ScheduleError(
            f"{what}={shown(work)}: needs something to call, without calling it: schedule(f), not schedule(f())"
        )
    plain: Any = work
    while isinstance(plain, partial):
        plain = plain.func
    if not inspect.isroutine(plain) and not isinstance(plain, type):
        plain = getattr(plain, "__call__", plain)  # noqa: B004 - the method itself is wanted, to see what kind it is
    plain = getattr(plain, "__func__", plain)
    if getattr(getattr(plain, "__code__", None), "co_flags", 0) & NOT_PLAIN:
        _refuse(work, what)
    name = plain_text(getattr(work, "__name__", None)) or plain_text(getattr(plain, "__name__", None))
    return name if name and name != "__call__" else type(work).__name__


def _refuse(work: object, what: str) -> None:
    raise ScheduleError(
        f"{what}={shown(work)}: calling a coroutine or generator function runs nothing of it; "
        "schedule a plain function, e.g. one that calls asyncio.run(...)"
    )
