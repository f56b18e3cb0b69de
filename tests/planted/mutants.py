"""Broken variants: a line of the library replaced by a wrong one, for as long as a `with` lasts."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from tickless.core.machine import Machine


@dataclass(frozen=True)
class Mutant:
    """`line`, wherever it stands in a function of `module`, becomes `wrong`."""

    what: str
    module: ModuleType
    line: str
    wrong: str

    def __str__(self) -> str:
        return self.what

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The library with the bug in it. Raises AssertionError when the line is not there to be broken."""
        places = [
            (owner, name, function)
            for owner, name, function in _functions(self.module)
            if self.line in inspect.getsource(function)
        ]
        assert places, f"{self.what}: {self.line!r} is not in {self.module.__name__}; plant the bug anew"
        with ExitStack() as after:
            for owner, name, function in places:
                broken = self._broken(function)
                # The machine is put together of functions of several modules.
                also = [(Machine, key) for key, member in vars(Machine).items() if member is function]
                for where, key in {(owner, name), *also}:
                    after.callback(setattr, where, key, function)
                    setattr(where, key, broken)
            yield

    def _broken(self, function: FunctionType) -> FunctionType:
        source = textwrap.dedent(inspect.getsource(function)).replace(self.line, self.wrong)
        # Annotations are not run, as in every file of ours.
        code = compile(f"from __future__ import annotations\n{source}", f"<planted: {self.what}>", "exec")
        names: dict[str, Any] = {}
        exec(code, dict(function.__globals__), names)  # our own source with a line changed, and nothing from outside
        broken: FunctionType = names[function.__name__]
        planted = FunctionType(broken.__code__, function.__globals__, function.__name__, function.__defaults__)
        planted.__kwdefaults__ = function.__kwdefaults__
        return planted


def _functions(module: ModuleType) -> Iterator[tuple[Any, str, FunctionType]]:
    """Every function and method that the module itself defines, with its owner and its name there."""
    for owner in (module, *vars(module).values()):
        if owner is module or (isinstance(owner, type) and owner.__module__ == module.__name__):
            for name, member in vars(owner).items():
                is_ours = isinstance(member, FunctionType) and member.__module__ == module.__name__
                if is_ours and member.__code__.co_filename == module.__file__:  # else a dataclass has made it
                    yield owner, name, member
