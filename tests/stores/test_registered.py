"""The name in a row leads back to the very same work, or is not written; and a name of others' leads nowhere."""

from __future__ import annotations

import functools
import operator
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.stores.things import refused
from tickless.errors import PayloadError, ScheduleError
from tickless.stores.payloads import encode_call
from tickless.stores.registered import Works
from tickless.stores.sql.calls import StoredCall

HERE = __name__


def seven() -> int:
    return 7


def other() -> int:
    return 8


def _private() -> int:
    return 7


def decorator(work: Callable[[], int]) -> Callable[[], int]:
    @functools.wraps(work)
    def wrapped() -> int:
        return work()

    return wrapped


def bare_decorator(work: Callable[[], int]) -> Callable[[], int]:
    return lambda: work()


@decorator
def decorated() -> int:
    return 7


@bare_decorator
def badly_decorated() -> int:
    return 7


@functools.cache
def cached() -> int:
    return 7


async def coroutine() -> int:
    return 7


def generator() -> Iterator[int]:
    yield 7


def nested() -> Callable[[], int]:
    def inner() -> int:
        return 7

    return inner


class Callable7:
    def __call__(self) -> int:
        return 7

    def method(self) -> int:
        return 7

    @classmethod
    def of_class(cls) -> int:
        return 7

    @staticmethod
    def static() -> int:
        return 7


def of_main() -> FunctionType:
    work = FunctionType(seven.__code__, {}, "seven")
    work.__module__ = "__main__"
    return work


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that is imported, and that the test fills."""
    module = ModuleType("shop_of_a_test")
    monkeypatch.setitem(sys.modules, "shop_of_a_test", module)
    return module


def fill(module: ModuleType, text: str) -> None:
    exec(text, module.__dict__)


# The twelve of BUG-078: memory accepts all (tests/cases/test_works.py), a durable store these

REGISTER = "Scheduler(works="
TWELVE: dict[str, tuple[Callable[[], Any], list[str] | None]] = {
    "function": (seven, None),
    "lambda": (lambda: 7, ["a lambda", "write a def", REGISTER]),
    "nested function": (nested(), ["nested in a function", "top of a module", REGISTER]),
    "callable object": (Callable7(), ["a callable object, Callable7", "a function of a module", REGISTER]),
    "bound method": (Callable7().method, ["a bound method", "as an argument", REGISTER]),
    "class method": (Callable7.of_class, ["a class method", REGISTER]),
    "static method": (Callable7.static, None),
    "partial": (functools.partial(seven), ["a partial", "args=", REGISTER]),
    "decorated": (decorated, None),
    "class": (Callable7, ["a class is no function", REGISTER]),
    "builtin": (functools.partial(operator.add, 3, 4), ["a partial", REGISTER]),
    "method of a builtin": ([7].pop, ["a builtin", REGISTER]),
}
MORE: dict[str, tuple[Any, list[str]]] = {
    "builtin": (len, ["a builtin", REGISTER]),
    "function of main": (of_main(), ["__main__", "module of its own", REGISTER]),
    "standard library": (shutil.rmtree, ["'shutil'", REGISTER]),
    "tickless": (Works, ["a class", REGISTER]),
    "private": (_private, ["private", "underscore", REGISTER]),
    "decorated without wraps": (badly_decorated, ["a lambda", REGISTER]),
    "decorated by a cache": (cached, ["a callable object", REGISTER]),
    "what a decorator took the name of": (decorated.__wrapped__, ["another object", "decorator", REGISTER]),  # type: ignore[attr-defined]  # functools.wraps puts it there
    "coroutine function": (coroutine, ["runs nothing of it"]),
    "generator function": (generator, ["runs nothing of it"]),
    "nothing to call": (7, ["something to call"]),
}


@pytest.mark.parametrize("what", TWELVE)
def test_BUG_078_a_work_has_a_name_that_leads_back_to_it_or_is_refused(what: str) -> None:
    """In life: the error comes when the task is due, in another process; or another function runs."""
    work, why = TWELVE[what]
    works = Works()
    if why is None:
        assert works.resolve(works.name_of(work)) is work
    else:
        refused(["work=", *why], lambda: works.name_of(work))


@pytest.mark.parametrize("what", MORE)
def test_BUG_078_so_is_what_else_may_be_given(what: str) -> None:
    """With the way out in the message: most have one."""
    work, why = MORE[what]
    refused(["work=", *why], lambda: Works().name_of(work))


@pytest.mark.parametrize("what", TWELVE)
def test_every_one_of_them_can_be_registered(what: str) -> None:
    """It is the way out that the messages name."""
    work, _ = TWELVE[what]
    works = Works({"mine": work})
    assert works.name_of(work) == "mine"
    assert works.resolve("mine") is work


def test_a_bound_method_is_known_by_its_object_and_its_function() -> None:
    """Each mention of it is another object; another instance of the class is another work."""
    one = Callable7()
    works = Works({"mine": one.method})
    assert works.name_of(one.method) == "mine"
    refused(["a bound method"], lambda: works.name_of(Callable7().method))


def test_a_function_whose_name_is_not_bound_yet_is_refused_with_that_reason(module: ModuleType) -> None:
    """A decorator that schedules runs while the module is being imported."""
    fill(module, "seen = []\ndef early(f):\n    seen.append(f)\n    return f\n")
    fill(module, "class Later:\n    @staticmethod\n    @early\n    def work(): pass\n    kept = seen[0]\n")
    assert Works().name_of(module.seen[0]) == "shop_of_a_test:Later.work"
    del module.Later
    refused(["has no 'Later.work', or not yet"], lambda: Works().name_of(module.seen[0]))


def test_names_are_what_rows_of_earlier_versions_have() -> None:
    """What was written once is read for ever."""
    assert Works().name_of(seven) == f"{HERE}:seven"
    assert Works().name_of(Callable7.static) == f"{HERE}:Callable7.static"
    assert Works().name_of(Callable7.method) == f"{HERE}:Callable7.method"
    assert Works([seven]).name_of(seven) == "seven"


# Registering


def test_works_are_registered_under_their_own_name_or_a_given_one() -> None:
    """Both forms, and both doors."""
    works = Works([seven, len])
    assert works.register(other, "eight") == "eight"
    assert works.register(other, "eight") == "eight"
    assert works.register(other) == "other"
    assert [works.resolve(name) for name in ("seven", "len", "eight", "other")] == [seven, len, other, other]
    assert works.name_of(other) == "eight"
    assert works.name_of(seven) == "seven"


BAD_WORKS: list[tuple[Any, list[str]]] = [
    ([seven, decorator(seven)], ["works['seven']", "another"]),
    ([lambda: 7], ["<lambda>", "no name of its own", "works={'name': f}"]),
    ([functools.partial(seven)], ["no name of its own"]),
    ([7], ["work=7", "something to call"]),
    ({"x": seven()}, ["works['x']=7", "without calling it"]),
    ({"": seven}, ["works['']", "at least one character"]),
    ({7: seven}, ["works[7]", "needs to be a text"]),
    ({"x": coroutine}, ["works['x']", "runs nothing of it"]),
    ({"old": seven}, ["works['old']", "alias of 'new'"]),
    (seven, ["works=", "in a list"]),
    ("seven", ["works='seven'", "in a list"]),
]


@pytest.mark.parametrize(("registered", "why"), BAD_WORKS)
def test_what_cannot_be_registered_is_refused_when_the_scheduler_is_made(registered: Any, why: list[str]) -> None:
    """Not when the first row of that name is due. And it is an error of scheduling like others."""
    refused(why, lambda: Works(registered, {"old": "new"}))
    assert issubclass(PayloadError, ScheduleError)


# Aliases


def test_an_alias_leads_old_rows_to_the_work_of_today() -> None:
    """A function was moved, and a thousand rows have its old name: also over two moves, and to a registered name."""
    aliases = {"shop.old:seven": f"{HERE}:seven", "older": "shop.old:seven", "shop:eight": "eight"}
    works = Works({"eight": other}, aliases)
    assert works.resolve("shop.old:seven") is seven
    assert works.resolve("older") is seven
    assert works.resolve("shop:eight") is other
    assert works.name_of(seven) == f"{HERE}:seven"


def test_an_alias_to_what_is_not_there_says_both_names() -> None:
    """The row shows the one, and the fault is in the other."""
    refused(["'old'", "alias 'gone:f'", "no module 'gone'"], lambda: Works(aliases={"old": "gone:f"}).resolve("old"))


@pytest.mark.parametrize("aliases", [{"a": "a"}, {"a": "b", "b": "a"}, {"x": "a", "a": "b", "b": "c", "c": "a"}])
def test_aliases_in_a_circle_are_refused_at_once(aliases: dict[str, str]) -> None:
    """Else the first row of that name would hang whoever reads it."""
    refused(["circle", "'a' -> "], lambda: Works(aliases=aliases))


@pytest.mark.parametrize("aliases", [{"a": 5}, {5: "a"}, {"a": ""}])
def test_aliases_that_are_no_names_are_refused(aliases: Any) -> None:
    """With the value, not with an AttributeError later."""
    refused(["aliases", "no name"], lambda: Works(aliases=aliases))


def test_a_name_that_an_alias_takes_elsewhere_is_not_written_for_another_work() -> None:
    """The row would run the other one."""
    refused(["alias", REGISTER], lambda: Works(aliases={f"{HERE}:seven": f"{HERE}:other"}).name_of(seven))
    refused(["name or the alias", REGISTER], lambda: Works({f"{HERE}:seven": other}).name_of(seven))


# BUG-077: what others wrote into a row

HOSTILE = [
    "",
    ":",
    "f",
    "os",
    "os:system",
    "os:popen",
    "posix:system",
    "nt:system",
    "subprocess:call",
    "shutil:rmtree",
    "sys:exit",
    "builtins:eval",
    "builtins:exec",
    "builtins:__import__",
    "__import__",
    "__import__('os').system('true')",
    "importlib:import_module",
    "runpy:run_path",
    "pickle:loads",
    "tickless.cli:main",
    "tickless.cli.load:load",
    "tickless.errors:shown",
    "__main__:main",
    "__main__:__builtins__",
    "os..path:join",
    "..os:system",
    "os:..system",
    "os:path.join",
    "os.:system",
    f"{HERE}:seven.__globals__",
    f"{HERE}:seven.__code__",
    f"{HERE}:seven.__call__",
    f"{HERE}:Callable7.__call__",
    f"{HERE}:Callable7.of_class",
    f"{HERE}:Callable7",
    f"{HERE}:_private",
    f"{HERE}:shutil.rmtree",
    f"{HERE}:nested.<locals>.inner",
    f"{HERE}:TWELVE",
    f"{HERE}:HERE",
    f"{HERE}:cached",
    f"{HERE}:coroutine",
    f"{HERE}:gone",
    f"{HERE}: seven",
    f"{HERE}:seven\n",
    f"{HERE}:seven:other",
    "_pytest.pytester:run",
    "x" * 100_000,
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: name[:50] or "empty")
def test_BUG_077_a_row_that_names_what_it_may_not_is_refused_with_a_reason(name: str) -> None:
    """In life: whoever can write to the file runs what they like in every process that reads it."""
    before = set(sys.modules)
    refused(["work ", repr(name)[:50]], lambda: Works().resolve(name))
    assert set(sys.modules) == before


@pytest.mark.parametrize("name", [None, 5, b"os:system"])
def test_a_name_that_is_no_text_is_refused_too(name: Any) -> None:
    """A file that another tool has written has any type in any column."""
    refused([f"work {name!r}", "no text"], lambda: Works().resolve(name))


def test_BUG_077_to_look_a_name_up_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In life: a module with a side effect runs in the process that merely lists the tasks."""
    (tmp_path / "tempting.py").write_text(f"open({str(tmp_path / 'done')!r}, 'w')\ndef f(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    call = StoredCall(Works(), "tempting:f", None)
    assert str(call.name) == "tempting:f"
    refused(["'tempting'", "import it"], lambda: call.find({}))
    refused(["'tempting'", "import it"], lambda: Works(aliases={"a": "tempting:f"}).resolve("a"))
    assert not (tmp_path / "done").exists()
    assert "tempting" not in sys.modules


def test_BUG_077_a_name_asks_nothing_of_the_module(module: ModuleType) -> None:
    """A module's __getattr__ imports or connects; a lazy one is run when it is looked at."""
    fill(module, "def __getattr__(name):\n    asked.append(name)\n    return lambda: 7\nasked = []\n")
    refused(["has no 'f'"], lambda: Works().resolve("shop_of_a_test:f"))
    assert module.asked == []

    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise SystemError(f"was asked for {name}")

    sys.modules["shop_of_a_test"] = Lazy("shop_of_a_test")
    refused(["has no 'f'"], lambda: Works().resolve("shop_of_a_test:f"))


def test_a_function_that_a_module_only_borrowed_is_not_its_own(module: ModuleType) -> None:
    """`from shutil import rmtree` in a module of ours would else be a door to it."""
    fill(module, "from shutil import rmtree\nfrom os import system\ndef own(): pass\nalso = own\n")
    works = Works()
    refused(["shutil:rmtree", "only lent", REGISTER], lambda: works.resolve("shop_of_a_test:rmtree"))
    refused(["builtin", REGISTER], lambda: works.resolve("shop_of_a_test:system"))
    refused(["shop_of_a_test:own", "name it so"], lambda: works.resolve("shop_of_a_test:also"))
    assert works.resolve("shop_of_a_test:own") is module.own


def test_what_is_in_place_of_a_module_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some programs put objects of their own into sys.modules, and None stands there for what may not be imported."""
    for thing in (None, Callable7(), Callable7):
        monkeypatch.setitem(sys.modules, "shop_of_a_test", thing)
        refused(["no module"], lambda: Works().resolve("shop_of_a_test:static"))


def test_allow_narrows_down_whose_functions_a_row_may_name() -> None:
    """Both ways: what could not be run again is not stored. What is registered needs no allowance."""
    package, _, _ = HERE.rpartition(".")
    for allow in ([HERE], [package], ["x", package]):
        assert Works(allow=allow).resolve(Works(allow=allow).name_of(seven)) is seven
    for allow in ([], [f"{HERE}x"], [package[:-1]], ["x"]):
        refused(["none of those allowed"], lambda allow=allow: Works(allow=allow).resolve(f"{HERE}:seven"))  # type: ignore[misc]  # a lambda with a default
        refused(["none of those allowed"], lambda allow=allow: Works(allow=allow).name_of(seven))  # type: ignore[misc]  # the same
        assert Works([seven], allow=allow).resolve("seven") is seven
    refused(["allow=", "in a list"], lambda: Works(allow="shop"))


# A call


def test_a_stored_call_gives_the_work_and_its_arguments() -> None:
    """What goes into a row, and what comes out of it."""
    call = StoredCall(Works(), f"{HERE}:seven", encode_call((1, (2,)), {"x": {3}}))
    assert call.tickless_parts() == (seven, (1, (2,)), {"x": {3}})
    assert StoredCall(Works(), f"{HERE}:seven", None)() == seven()


def test_a_stored_call_that_cannot_be_made_says_why() -> None:
    """The reason stands beside the row, and is read without it."""
    refused(["work 'gone'", "registered"], lambda: StoredCall(Works(), "gone", None).find({}))
    refused(["no call"], lambda: StoredCall(Works(), f"{HERE}:seven", "[]").find({}))
