"""The names of works: what a row calls a function, and which function that is in this process.

Whoever can write the file can write any name into a row. So a row never imports anything, and names only

- what was registered here: `Scheduler(works={"name": f})`, anything that can be called;
- or "module:qualname", a plain function of a module that is imported already and calls it its own. Not those of the
  standard library or of tickless (`os:popen` would be a shell for every writer), no builtins, no private parts. `allow`
  narrows the modules down further.

All else is refused with a reason, which is what the store shows of the row; the row stays.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Never

from tickless.errors import PayloadError, shown
from tickless.stores.names import found, name_in_module

Work = Callable[..., Any]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]

REGISTER = "register it: Scheduler(works={'name': f})"
_NOT_PLAIN = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
"""The flags of functions whose call runs nothing of them."""
_NOBODYS = frozenset({*sys.stdlib_module_names, "tickless"})
"""Top-level modules whose functions no row names unless they are registered."""


class Declared:
    """A function that a decorator of a scheduler has declared: see `tickless.TaskFunction`. Rows name the function."""

    __slots__ = ()

    if TYPE_CHECKING:
        __wrapped__: Work
        _first: Work
        """The one that is registered, of all that stand for the function."""


class Works:
    """Works by name, and names of works. May be asked from any thread; registering is for one thread at a time."""

    def __init__(
        self,
        registered: Mapping[str, Work] | Iterable[Work] = (),
        aliases: Mapping[str, str] | None = None,
        allow: Iterable[str] | None = None,
    ) -> None:
        """`aliases`: names that rows still have -> names of today. `allow`: modules and packages whose functions rows
        may name; None for every imported one but the standard library's and tickless's.

        Raises PayloadError: a name twice, a work without a name, aliases in a circle.
        """
        self._by_name: dict[str, Work] = {}
        self._names: dict[object, str] = {}
        self._replaced: list[Work] = []
        """Kept, lest another gets the identity of one of them and so its name."""
        self._aliases = _straight(aliases or {})
        self._allowed: set[str] = set()
        """Names of functions that have been found, and need not be judged again."""
        self._allow = None if allow is None else tuple(_texts("allow", allow))
        if isinstance(registered, Mapping):
            for name, work in registered.items():
                self.register(work, name)
        else:
            for work in _several("works", registered):
                self.register(work)

    def register(self, work: Work, name: str | None = None) -> str:
        """Have rows call it that; without a name, its `__name__`. Gives the name. Twice is once.

        A work with two names is found under both, and is stored under the first. Raises PayloadError for what cannot
        be called, for a name that another work has, and for one that is an alias.
        """
        what = "work" if name is None else f"works[{shown(name)}]"
        if not callable(work):
            raise PayloadError(f"{what}={shown(work)}: needs something to call, without calling it")
        _refuse_idle(work, what)
        if name is None:
            name = getattr(work, "__name__", None)
            if type(name) is not str or not name.isidentifier():
                raise PayloadError(f"{what}={shown(work)}: it has no name of its own; give one: works={{'name': f}}")
        elif type(name) is not str or not name:
            raise PayloadError(f"{what}: a name needs to be a text of at least one character")
        if name in self._aliases:
            raise PayloadError(
                f"works[{shown(name)}]: the name is an alias of {shown(self._aliases[name])}; give one up"
            )
        there = self._by_name.setdefault(name, work)
        if _identity(there) != _identity(work):
            raise PayloadError(f"works[{shown(name)}]: the name is that of {shown(there)}; give {shown(work)} another")
        self._names.setdefault(_identity(work), name)
        return name

    @contextmanager
    def declaring(self, work: Work, name: str, instead_of: Work | None) -> Iterator[None]:
        """Register a function that declares itself, and undo it when what is done inside raises.

        `instead_of`: the one that had the name before its module was executed again. Rows that name it get the new one.
        """
        before = dict(self._by_name), dict(self._names)
        try:
            if instead_of is not None and self._by_name.get(name) is instead_of:
                del self._by_name[name]
                self._replaced.append(instead_of)
            self.register(work, name)
            yield
        except BaseException:
            self._by_name, self._names = before
            raise

    def name_of(self, work: Work) -> str:
        """The name that a row keeps, by which `resolve` gives the very same work in this process.

        Raises PayloadError for a work that another process, or this one after a restart, would not find: what it is,
        and the way out.
        """
        name = self._names.get(_identity(work))
        if name is not None:
            return name
        work = _bare(work)  # it may have been declared to another scheduler
        if type(work) is not FunctionType:
            _refuse(work, _why_no_name(work))
        name = name_in_module(work)
        unsaid = _why_not_by_that(name)
        if unsaid is not None:
            _refuse(work, f"{unsaid}, or {REGISTER}")
        try:
            there = self._function(name)
        except LookupError as error:
            _refuse(work, f"{error}; or {REGISTER}" if REGISTER not in str(error) else str(error))
        if there is not work:
            _refuse(
                work, f"{name} is another object now, as when a decorator has replaced it; give that, or {REGISTER}"
            )
        if name in self._by_name or name in self._aliases:
            _refuse(work, f"{name} is the name or the alias of another work; {REGISTER}")
        return name

    def resolve(self, name: str) -> Work:
        """The work of that name. Imports nothing.

        Raises PayloadError with the reason: not registered, not imported, not there any more, or never to be named.
        """
        work = self._by_name.get(self._aliases.get(name, name))
        if work is not None:
            return work
        try:
            return self._function(self._aliases.get(name, name))
        except LookupError as error:
            raise PayloadError(f"work {_as_row(name, self._aliases)}: {error}") from None

    def _function(self, name: str) -> FunctionType:
        """The function that a module calls by that name. Raises LookupError, whose message is a reason."""
        if name not in self._allowed:
            self._check(name)
        work = _bare(found(name))
        if type(work) is not FunctionType:
            raise LookupError(f"a {type(work).__qualname__}, and no plain function: {REGISTER}")
        if name_in_module(work) != name:
            raise LookupError(f"the function is {name_in_module(work)}, and only lent there: name it so, or {REGISTER}")
        if work.__code__.co_flags & _NOT_PLAIN:
            raise LookupError("calling a coroutine or generator function runs nothing of it: make it a plain function")
        self._allowed.add(name)
        return work

    def _check(self, name: str) -> None:
        """What can be said of the name without looking there. Raises LookupError."""
        if type(name) is not str:
            raise LookupError("it is no text, as a name is")
        module, _, qualname = name.partition(":")
        if module.partition(".")[0] in _NOBODYS:
            raise LookupError(
                f"functions of {module.partition('.')[0]!r} are run by rows only when named here: {REGISTER}"
            )
        if any(part.startswith("_") for part in (*module.split("."), *qualname.split("."))) and module != "__main__":
            raise LookupError(f"a private name, with a leading underscore: {REGISTER}")
        if self._allow is not None and not any(module == one or module.startswith(f"{one}.") for one in self._allow):
            raise LookupError(f"its module is none of those allowed here, {', '.join(self._allow)}: {REGISTER}")


def _bare(work: Any) -> Any:
    """The function of one that was declared; all else as it is."""
    return work.__wrapped__ if issubclass(type(work), Declared) else work


def _identity(work: Any) -> object:
    """What two mentions of one work have in common: `o.method` makes another object each time."""
    if type(work) is MethodType:
        return id(work.__self__), id(work.__func__)
    if issubclass(type(work), Declared):
        return id(work._first)
    return id(work)


def _refuse(work: object, why: str) -> Never:
    raise PayloadError(f"work={shown(work)}: {why}")


def _refuse_idle(work: object, what: str) -> None:
    function = work.__func__ if type(work) is MethodType else work
    if type(function) is FunctionType and function.__code__.co_flags & _NOT_PLAIN:
        raise PayloadError(f"{what}={shown(work)}: calling a coroutine or generator function runs nothing of it")


def _why_no_name(work: object) -> str:
    kind = type(work)
    if type(work) is MethodType:
        of_class = issubclass(type(work.__self__), type)
        whose = "a class method, bound to its class" if of_class else "a bound method, whose object is not stored"
        return f"{whose}; give a function of a module, and what it needs as an argument, or {REGISTER}"
    if issubclass(kind, partial):
        return f"a partial is not stored; give its function, with args= and kwargs=, or {REGISTER}"
    if issubclass(kind, type):
        return f"a class is no function; give a function that makes one, or {REGISTER}"
    if kind is BuiltinFunctionType:
        return f"a builtin is run by a row only when it is named here: {REGISTER}"
    if not callable(work):
        return "needs something to call, without calling it"
    return f"a callable object, {kind.__qualname__}, is not stored; give a function of a module, or {REGISTER}"


def _why_not_by_that(name: str) -> str | None:
    """What is wrong with the name that a function has, where it cannot lead back; and the way out."""
    if "<lambda>" in name:
        return "a lambda has no name by which another process finds it; write a def"
    if "<locals>" in name:
        return (
            f"{name} is nested in a function; move it to the top of a module, and have decorators use functools.wraps"
        )
    if name.startswith("__main__:"):
        return "__main__ is another module in each process; move it to a module of its own"
    return None


def _as_row(name: str, aliases: Mapping[str, str]) -> str:
    return f"{shown(name)}, by alias {shown(aliases[name])}" if name in aliases else shown(name)


def _straight(aliases: Mapping[str, str]) -> dict[str, str]:
    """Each alias -> the name at its end. Raises PayloadError for a circle."""
    ends = {}
    for old, new in aliases.items():
        path = [*_texts("aliases", (old, new))]
        while path[-1] in aliases:
            path.append(aliases[path[-1]])
            if path[-1] in path[:-1]:
                raise PayloadError(f"aliases in a circle: {' -> '.join(map(shown, path))}; let one end at a work")
        ends[old] = path[-1]
    return ends


def _texts(what: str, several: Iterable[str]) -> list[str]:
    texts = _several(what, several)
    for text in texts:
        if type(text) is not str or not text:
            raise PayloadError(f"{what}: {shown(text)} is no name; it needs a text of at least one character")
    return texts


def _several(what: str, several: Iterable[Any]) -> list[Any]:
    if type(several) is not str:
        try:
            return list(several)
        except TypeError:
            pass
    raise PayloadError(f"{what}={shown(several)}: needs several, so put it in a list")
