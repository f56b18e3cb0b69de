"""What goes into a row comes out of it the same, or does not go in."""

from __future__ import annotations

import ast
import sys
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from pathlib import Path, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.house.sources import library
from tests.stores.things import (
    BERLIN,
    NOON,
    Access,
    Both,
    Circle,
    Colour,
    Hostile,
    Inherits,
    Level,
    Money,
    Needs,
    Order,
    Pair,
    Rounds,
    Text,
    Word,
    hashable,
    refused,
    same,
    values,
)
from tickless.errors import PayloadError
from tickless.stores.kinds import MOST_DEEP
from tickless.stores.payloads import decode, decode_call, encode, encode_call


def comes_back(value: Any) -> bool:
    text = encode(value, "value")
    assert text.isascii()
    call = encode_call((value,), {"x": value})
    assert same(decode_call(call), ((value,), {"x": value}))
    return same(decode(text), value)


@given(values)
def test_what_is_written_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    """In life: a tuple comes back as a list, an int key as a text, and what worked by day fails at night."""
    assert comes_back(value)


@given(st.sets(hashable), st.randoms())
def test_equal_sets_give_equal_texts(value: set[Any], random: Any) -> None:
    """Else each process writes another text for one argument, and an update seems to change it."""
    shuffled = list(value)
    random.shuffle(shuffled)
    assert encode(set(shuffled), "x") == encode(value, "x")


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        1e308,
        5e-324,
        10**4_299,
        "\ud800",
        "\udc80 from a file name",
        "\\ud is no half",
        "\U0001f600",
        "\0",
        (),
        [[], {}, ()],
        {"$": 1},
        {"$": "tuple", "v": [1]},
        {"$": "enum", "class": "os:system", "name": "x"},
        {1: "a", "1": "b", None: "c", (1, "$"): "d", 2.5: "e"},
        {"a": {"b": [("c",)]}},
        set(),
        frozenset({frozenset(), (1, frozenset({2}))}),
        b"\0\xff",
        Decimal("1.10"),
        Decimal("-0E+5"),
        UUID(int=7),
        timedelta.min,
        timedelta.max,
        timedelta(microseconds=-1),
        datetime(1, 1, 1),  # noqa: DTZ001  # a naive one
        datetime.max.replace(tzinfo=UTC),
        datetime(2027, 10, 31, 2, 30, tzinfo=BERLIN),
        datetime(2027, 10, 31, 2, 30, tzinfo=BERLIN, fold=1),
        datetime(2027, 1, 1, tzinfo=ZoneInfo("UTC")),
        datetime(2027, 1, 1, tzinfo=timezone(timedelta(hours=1), "mine")),
        datetime(1890, 1, 1, tzinfo=timezone(timedelta(minutes=53, seconds=28, microseconds=5))),
        time(2, 30, fold=1),
        time(2, 30, 1, 5, tzinfo=BERLIN),
        date.min,
        Path("relative/x"),
        PureWindowsPath("c:/x"),
        Colour.ALSO_RED,
        Level.LOW,
        Word.YES,
        Access.READ | Access.WRITE,
        Money(Decimal(3)),
        Order([Money(Decimal(3), "$")], NOON, {"$": (1,)}),
        Circle(2.0),
        [Circle(2.0), {Colour.RED: Circle(1.5)}],
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_easily_lost_comes_back(value: Any) -> None:
    """Each was lost by some store: the sign of zero, the pass of an hour, a dict that looks like a tag."""
    assert comes_back(value)


# What is refused


def local_class() -> type:
    @dataclass
    class Local:
        x: int = 1

    return Local


def of_main() -> object:
    kind: Any = dataclass(type("Main", (), {"__annotations__": {}}))
    kind.__module__ = "__main__"
    return kind()


def replaced() -> object:
    """An object of a class whose name is that of another by now, as after a reload."""
    kind: Any = dataclass(type("Money", (), {"__annotations__": {}, "__module__": __name__}))
    return kind()


def rounded(value: float, later: float) -> Rounds:
    """One that was changed after it was made."""
    made = Rounds(value)
    made.value = later
    return made


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


BAD: dict[str, tuple[Any, list[str]]] = {
    "nan": (float("nan"), ["=nan", "no such number"]),
    "infinity": (float("-inf"), ["=-inf", "no such number"]),
    "decimal nan": (Decimal("sNaN"), ["no finite number"]),
    "huge": (10**4_400, ["4,300 digits", "hex"]),
    "two halves": ("\ud83d\ude00", ["surrogates"]),
    "subclass of str": (Text("a"), ["Text would come back as a str", "give a plain str"]),
    "named tuple": (Pair(1, 2), ["Pair would come back as a tuple"]),
    "ordered dict": (OrderedDict(a=1), ["OrderedDict would come back as a dict"]),
    "subclass as a key": ({Text("a"): 1}, ["['a']='a'", "Text would come back"]),
    "bytearray": (bytearray(b"x"), ["bytes(...)"]),
    "complex": (1j, ["a complex cannot be stored"]),
    "fraction": (Fraction(1, 2), ["a Fraction cannot be stored", "docs/payloads.md"]),
    "object": (object(), ["a object cannot be stored"]),
    "no repr": (Hostile(), ["<Hostile>", "cannot be stored"]),
    "function": (len, ["cannot be stored"]),
    "class": (Money, ["a type cannot be stored"]),
    "local class": (local_class()(), ["local to a function", "top of a module"]),
    "class of main": (of_main(), ["__main__", "module of its own"]),
    "replaced class": (replaced(), ["another class by now"]),
    "constructor that changes": (rounded(1, 1.5), ["made again", "another"]),
    "constructor that changes the type alone": (rounded(2, 2.0), ["made again", "another"]),
    "constructor that wants more": (Needs(1, 2), ["cannot be made again", "seed"]),
    "subclass without decorator": (Inherits(Decimal(1)), ["a Inherits cannot be stored"]),
    "dataclass and dict": (Both(x=1), ["a dict too"]),
    "itself": (itself(), ["contains itself"]),
    "too deep": (deep(MOST_DEEP + 2), [f"more than {MOST_DEEP}"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_would_not_come_back_is_refused_with_a_reason(case: str) -> None:
    """In life: the error comes when the task is due, in another process, or never, and another value is there."""
    value, why = BAD[case]
    refused(["result", *why], lambda: encode(value, "result"))
    refused(["args[1]", *why], lambda: encode_call((0, value), None))
    refused(["kwargs['x']", *why], lambda: encode_call((), {"x": value}))


@pytest.mark.parametrize("bad", [float("nan"), 1j, "\ud83d\ude00", 10**4_400], ids=["nan", "complex", "halves", "huge"])
def test_the_message_names_the_way_to_the_value(bad: Any) -> None:
    """A dict of a hundred keys, and one of them holds a NaN."""
    refused(["args[0]['when'][2]="], lambda: encode_call(({"a": 1, "when": [1, 2, bad]},), None))
    refused(["kwargs['k'][0]['b c']="], lambda: encode_call((), {"k": ({"b c": bad},)}))
    refused(["x.notes['n']="], lambda: encode(Order([], None, {"n": bad}), "x"))
    refused(["x{...}[1]="], lambda: encode({(1, bad)}, "x"))
    refused(["x[3][0]="], lambda: encode({3: [bad]}, "x"))


def test_a_zone_that_could_not_be_found_again_is_refused() -> None:
    """A datetime without its zone is another one as soon as clocks change."""

    class Own(tzinfo):
        """Of another make, as those of pytz and dateutil are."""

        def utcoffset(self, moment: datetime | None) -> timedelta:
            return timedelta(0)

        dst = utcoffset

        def tzname(self, moment: datetime | None) -> str:
            return "own"

    with resources.files("tzdata.zoneinfo").joinpath("UTC").open("rb") as file:
        nameless = ZoneInfo.from_file(file)
        file.seek(0)
        unknown = ZoneInfo.from_file(file, "Nowhere/At_All")
    for zone, why in ((Own(), "zone is a "), (nameless, "has no key"), (unknown, "'Nowhere/At_All' is not in")):
        for value in (NOON.replace(tzinfo=zone), time(12, tzinfo=zone)):
            with pytest.raises(PayloadError, match=why):
                encode(value, "x")


@pytest.mark.parametrize("form", ['{"$":"dataclass","class":"%s","v":{}}', '{"$":"enum","class":"%s","name":"X"}'])
def test_BUG_077_to_read_a_text_imports_nothing(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In life: whoever can write the file makes every node run a module of their choice."""
    (tmp_path / "tempting.py").write_text(f"open({str(tmp_path / 'done')!r}, 'w')\nclass Thing: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    refused(["tempting", "imported"], lambda: decode(form % "tempting:Thing"))
    assert not (tmp_path / "done").exists()
    assert "tempting" not in sys.modules


def test_BUG_077_nothing_of_the_stores_makes_objects_or_code_out_of_bytes() -> None:
    """The grep of the case: no pickle, marshal, shelve, eval, exec; and the one import by name is of a constant."""
    faults = []
    for source in library():
        if not source.module.startswith("tickless.stores"):
            continue
        for node in ast.walk(source.tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            names += [node.id] if isinstance(node, ast.Name) else []
            banned = {"pickle", "marshal", "shelve", "eval", "exec", "__import__", "compile"}
            faults += [f"{source.module}: {name}" for name in names if name in banned]
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                faults += [] if ast.unparse(node) == "import_module('uuid')" else [ast.unparse(node)]
    assert faults == []
