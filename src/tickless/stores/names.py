"""`module:qualname`: what a function or class is called in a row, and what such a name stands for in this process.

A name comes from a row, and whoever can write the file can write any name. So to look one up imports nothing and runs
nothing: a module must be there already, and its dict is read directly, past `__getattr__` and descriptors.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType

NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
"""Identifiers only: no "..", no "<lambda>", no "<locals>"."""


def name_in_module(thing: object) -> str:
    """What the function or class calls itself. Whether the name leads back to it is another question: see `found`."""
    return f"{getattr(thing, '__module__', None)}:{getattr(thing, '__qualname__', None)}"


def found(name: str) -> object:
    """What stands there now; of a static method, its function.

    Raises LookupError, whose message is a reason with a way out: for what is no such name, for `__main__`, for a module
    that is not imported, and for what the module does not have.
    """
    module_name, parts = _parts(name)
    if module_name == "__main__":
        raise LookupError("__main__ is another module in each process: move it to a module of its own, and import that")
    module = sys.modules.get(module_name)
    if module is None or not issubclass(type(module), ModuleType):
        raise LookupError(
            f"no module {module_name!r} is imported here, and none is imported because a row names it: "
            "import it where the scheduler is made"
        )
    # Not by vars(): of a lazy module that runs the module.
    members: Mapping[str, object] | None = object.__getattribute__(module, "__dict__")
    thing: object = module
    for part in parts:
        if members is None or part not in members:
            raise LookupError(f"module {module_name!r} has no {'.'.join(parts)!r}, or not yet")
        thing = members[part]
        members = vars(thing) if issubclass(type(thing), type) else None
    return thing.__func__ if type(thing) is staticmethod else thing


@lru_cache(maxsize=4_096)  # rows have few different names
def _parts(name: str) -> tuple[str, tuple[str, ...]]:
    """(the module, the parts of the qualname). Raises LookupError for what is no such name."""
    if NAME.fullmatch(name) is None:
        raise LookupError("it is neither registered nor of the form 'module:name'")
    module, qualname = name.split(":")
    return module, tuple(qualname.split("."))
