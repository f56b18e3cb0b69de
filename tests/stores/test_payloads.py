"""The doors of the codec: calls, caps, what only the store knows; and texts that somebody else has written."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stores.things import (
    Money,
    Order,
    Text,
    plain,
    refused,
    same,
    values,
)
from tickless.errors import PayloadError
from tickless.stores.payloads import decode, decode_call, encode, encode_call


@given(st.lists(values), st.dictionaries(st.text(), values))
def test_a_call_comes_back(args: list[Any], kwargs: dict[str, Any]) -> None:
    """Whatever the mixture; and without arguments there is no text at all."""
    text = encode_call(tuple(args), kwargs)
    assert (text is None) == (not args and not kwargs)
    assert same(decode_call(text), (tuple(args), kwargs))


@given(st.lists(plain, min_size=1), st.dictionaries(st.text(), plain))
def test_a_call_of_plain_values_is_plain_json(args: list[Any], kwargs: dict[str, Any]) -> None:
    """It can be read in a shell, and by another language."""
    text = encode_call(tuple(args), kwargs)
    assert text is not None
    assert json.loads(text) == {"v": 1, "a": args, **({"k": kwargs} if kwargs else {})}


def test_a_name_that_is_no_plain_text_is_refused() -> None:
    """JSON would make a text of a number, and the call would get another argument."""
    refused(["kwargs", "1"], lambda: encode_call((), {1: 2}))  # type: ignore[dict-item]  # what is tested
    refused(["kwargs", "'a'"], lambda: encode_call((), {Text("a"): 2}))
    assert decode_call(encode_call((), {"$": 1, "v": 2})) == ((), {"$": 1, "v": 2})


def test_a_text_longer_than_the_cap_is_refused_with_both_figures() -> None:
    """One argument of a gigabyte, and every process that lists the tasks reads it."""
    refused(["the arguments", "1,014 bytes", "at most 1,000"], lambda: encode_call(("x" * 998,), None, max_bytes=1_000))
    refused(["result", "1,002 bytes"], lambda: encode("x" * 1_000, "result", max_bytes=1_000))
    assert encode("x" * 998, "result", max_bytes=1_000)
    assert encode_call(("x" * 984,), None, max_bytes=1_000)


def test_a_lower_limit_of_digits_is_no_error_of_python_s_own() -> None:
    """Somebody has hardened the interpreter; schedule() must still raise what it says that it raises."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        refused(["digits"], lambda: encode({10**700}, "x"))
        refused(["digits"], lambda: encode_call((10**700,), None))
    finally:
        sys.set_int_max_str_digits(limit)


# What is read may have been written by anybody

DAMAGED = [
    "",
    "{",
    "NaN",
    "[Infinity]",
    "[" * 100_000,
    '{"$":' * 400 + "1" + "}" * 400,
    "1" * 5_000,
    '{"$":null}',
    '{"$":[]}',
    '{"$":"nobody"}',
    '{"$":"tuple"}',
    '{"$":"tuple","v":{}}',
    '{"$":"dict","v":[[1]]}',
    '{"$":"dict","v":[[[],1]]}',
    '{"$":"set","v":[[]]}',
    '{"$":"datetime","v":"yesterday"}',
    '{"$":"datetime","v":"2027-01-01","tz":"Nowhere/At_All"}',
    '{"$":"datetime","v":"2027-01-01","tz":"America"}',
    '{"$":"datetime","v":"2027-01-01","tz":"../../etc/passwd"}',
    '{"$":"datetime","v":"2027-01-01","fold":7}',
    '{"$":"datetime","v":"2027-01-01","tzname":"x"}',
    '{"$":"time","v":5}',
    '{"$":"date","v":"2027-02-30"}',
    '{"$":"timedelta","us":1e3}',
    '{"$":"timedelta","us":1' + "0" * 30 + "}",
    '{"$":"decimal","v":"NaN"}',
    '{"$":"decimal","v":"one"}',
    '{"$":"bytes","v":"*"}',
    '{"$":"uuid","v":"7"}',
    '{"$":"path","class":"Path","v":"x"}',
    '{"$":"path","class":"WindowsPath","v":5}',
    '{"$":"enum","class":"tests.stores.things:Colour","name":"BLUE"}',
    '{"$":"enum","class":"tests.stores.things:Colour","value":7}',
    '{"$":"enum","class":"tests.stores.things:Colour","name":"__class__"}',
    '{"$":"enum","class":"tests.stores.things:Money","name":"RED"}',
    '{"$":"enum","class":"tests.stores.things:Text","value":7}',
    '{"$":"dataclass","class":"tests.stores.things:Colour","v":{}}',
    '{"$":"dataclass","class":"tests.stores.things:Inherits","v":{"amount":1}}',
    '{"$":"dataclass","class":"tests.stores.things:Hostile","v":{}}',
    '{"$":"dataclass","class":"tests.stores.things:Inherits","v":{}}',
    '{"$":"dataclass","class":"tests.stores.things:Money","v":{"gone":1}}',
    '{"$":"dataclass","class":"tests.stores.things:Money","v":{}}',
    '{"$":"dataclass","class":"tests.stores.things:NOON","v":{}}',
    '{"$":"dataclass","class":"subprocess:Popen","v":{"args":"true"}}',
    '{"$":"dataclass","class":"os:system","v":{"command":"true"}}',
    '{"$":"dataclass","class":"builtins:eval","v":{}}',
    '{"$":"dataclass","class":"__main__:x","v":{}}',
    '{"$":"dataclass","class":"a..b:c","v":{}}',
    '{"$":"dataclass","class":5,"v":{}}',
]


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:60])
def test_a_damaged_text_is_one_kind_of_error_with_a_short_message(text: str) -> None:
    """In life: one bad row raises something that nobody catches, and the process that reads the rows is gone (P9)."""
    for read in (lambda: decode(text), lambda: decode_call('{"v":1,"a":[0,' + text + "]}")):
        with pytest.raises(PayloadError) as caught:
            read()
        assert len(str(caught.value)) < 1_200


CALLS = [
    ("[]", ["no call"]),
    ("5", ["no call"]),
    ("{}", ["no call"]),
    ('{"v":true}', ["no call"]),
    ('{"v":0}', ["no call"]),
    ('{"v":1,"a":{}}', ["no call"]),
    ('{"v":1,"k":[]}', ["no call"]),
    ('{"v":1,"x":[]}', ["no call"]),
    ('{"v":2,"b":[]}', ["newer format, 2", "up to 1", "upgrade"]),
    ('{"v":1,"a":[1,{"$":"nobody"}]}', ["args[1]: ", "'nobody'", "later version"]),
    ('{"v":1,"k":{"x":{"$":"date","v":1}}}', ["kwargs['x']: ", "damaged date"]),
]


@pytest.mark.parametrize(("text", "why"), CALLS)
def test_a_call_that_cannot_be_read_says_why(text: str, why: list[str]) -> None:
    """The newer format most of all: a machine that was left out of an upgrade must not guess."""
    refused(why, lambda: decode_call(text))


def test_a_class_that_has_changed_is_named_with_what_it_lacks() -> None:
    """Rows outlive the class that they were made of; whoever deploys it must learn which field or member is meant."""
    money = '{"$":"dataclass","class":"tests.stores.things:Money","v":{"amount":1,"gone":2}}'
    refused(["tests.stores.things:Money has no field 'gone' any more"], lambda: decode(money))
    colour = '{"$":"enum","class":"tests.stores.things:Colour","name":"BLUE"}'
    refused(["tests.stores.things:Colour has no member 'BLUE' any more"], lambda: decode(colour))


def test_what_is_no_text_is_refused() -> None:
    """SQLite keeps any type in any column."""
    refused(["no text"], lambda: decode(b"1"))  # type: ignore[arg-type]  # what is tested


def test_an_older_row_gets_the_default_of_a_new_field() -> None:
    """A class grows with its program, and rows live longer than a deployment."""
    text = '{"$":"dataclass","class":"tests.stores.things:Money","v":{"amount":{"$":"decimal","v":"3"}}}'
    assert decode(text) == Money(Decimal(3), "EUR")


# What only the store knows


class Ref:
    """What `Output` is to the codec: a stranger, which somebody else can write."""

    def __init__(self, number: int, default: Any = None) -> None:
        self.number = number
        self.default = default


def to_tagged(value: Any) -> dict[str, Any] | None:
    return {"$": "ref", "number": value.number, "default": value.default} if type(value) is Ref else None


def from_tagged(form: dict[str, Any]) -> Any:
    if form["$"] != "ref":
        raise PayloadError(f"unknown: {form['$']}")
    return Ref(form["number"], form["default"])


def test_special_writes_and_reads_what_the_codec_does_not_know() -> None:
    """And what is inside of that is written as any value is."""
    text = encode_call((Ref(7, (1, Money(Decimal(2)))), [Ref(8)]), {"x": {"y": Ref(9, {"$": 1})}}, to_tagged)
    (first, (second,)), kwargs = decode_call(text, from_tagged)
    assert (first.number, first.default) == (7, (1, Money(Decimal(2))))
    assert (second.number, second.default) == (8, None)
    assert (kwargs["x"]["y"].number, kwargs["x"]["y"].default) == (9, {"$": 1})


def test_special_is_asked_about_strangers_only() -> None:
    """It cannot take over a kind, and what it does not know either is refused as ever."""
    refused(["args[0]['a']", "a Ref"], lambda: encode_call(({"a": Ref(1)},), None))
    refused(["args[0]", "a object"], lambda: encode_call((object(),), None, to_tagged))
    refused(["args[0]['default']", "a object"], lambda: encode_call((Ref(1, object()),), None, to_tagged))
    refused(["args[0].notes['r']", "a Ref"], lambda: encode_call((Order([], None, {"r": Ref(1)}),), None, to_tagged))
    refused(["unknown: other"], lambda: decode('{"$":"other"}', from_tagged))
    refused(["'ref'"], lambda: decode('{"$":"ref"}'))
    refused(["KeyError"], lambda: decode('{"$":"ref"}', from_tagged))
    with pytest.raises(AssertionError, match="leaves free"):
        encode(Ref(1), "x", lambda value: {"$": "tuple"})


def test_data_that_looks_like_a_special_does_not_become_one() -> None:
    """An argument out of the net would name any task, and be given its output."""
    value = {"$": "ref", "number": 1, "default": None}
    assert decode(encode(value, "x", to_tagged), from_tagged) == value
