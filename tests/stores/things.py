"""Values that a row can keep, and some that it cannot: classes of a user's, strategies, and a strict `same`."""

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from threading import Lock
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tickless.errors import PayloadError

NOON = datetime(2027, 7, 1, 12)  # noqa: DTZ001  # naive ones are stored too
BERLIN = ZoneInfo("Europe/Berlin")


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"
    ALSO_RED = 1  # noqa: PIE796  # an alias, which is RED


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str = "EUR"


@dataclass(slots=True)
class Order:
    lines: list[Money]
    when: datetime | None = None
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Circle:
    """With a field that the constructor makes, and a cache that is nobody's business."""

    radius: float
    area: float = field(init=False)
    lock: Any = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.area = 3 * self.radius**2
        self.lock = Lock()


@dataclass
class Rounds:
    value: float

    def __post_init__(self) -> None:
        self.value = round(self.value)


@dataclass
class Needs:
    value: int
    seed: dataclasses.InitVar[int]

    def __post_init__(self, seed: int) -> None:
        self.value += seed


class Inherits(Money):
    pass


@dataclass
class Both(dict[str, int]):
    x: int = 0


class Text(str):
    pass


class Hostile:
    def __repr__(self) -> str:
        raise SystemError("no words")

    def __eq__(self, other: object) -> bool:
        raise SystemError("not to be compared")

    __hash__ = None  # type: ignore[assignment]  # what @dataclass(eq=True) does too


Pair = namedtuple("Pair", "a b")  # the untyped kind is the commoner one


def same(a: Any, b: Any) -> bool:
    """Equal, of the same type, and so is all that is in them; also where `==` is blind: -0.0, fold, zones, order."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, set | frozenset):
        return bool(a == b) and sorted(map(repr, a)) == sorted(map(repr, b))
    if dataclasses.is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a) if f.compare)
    if isinstance(a, datetime | time) and a.tzinfo is not None:
        return repr(a) == repr(b) and a.tzname() == b.tzname()
    return repr(a) == repr(b)


offsets = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
named = st.builds(timezone, st.integers(-23, 23).map(lambda h: timedelta(hours=h)), st.sampled_from(["CET", "ß"]))
zones = st.one_of(st.none(), st.just(UTC), offsets, named, st.sampled_from(["Europe/Berlin", "UTC"]).map(ZoneInfo))
folds = st.sampled_from([0, 1])
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())
decimals = st.decimals(allow_nan=False, allow_infinity=False)
hashable = st.one_of(
    plain,
    st.builds(lambda moment, fold, zone: moment.replace(fold=fold, tzinfo=zone), st.datetimes(), folds, zones),
    st.builds(lambda moment, fold, zone: moment.replace(fold=fold, tzinfo=zone), st.times(), folds, zones),
    st.dates(),
    st.timedeltas(),
    st.uuids(),
    decimals,
    st.binary(),
    st.sampled_from([*Colour, *Level, *Word, *Access, Access.READ | Access.WRITE, Access(0)]),
    st.sampled_from(["", "a/b", "/a//b", "..", "a\udcffb"]).map(Path),
    st.sampled_from(["c:/a", "//host/share/x", "a\\b", "."]).map(PureWindowsPath),
    st.text("a/.$ ").map(PurePosixPath),
    st.builds(Money, decimals, st.text()),
)
keys = st.one_of(st.text(), st.just("$"), st.text("v$"))


def nested(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(keys, inner),
        st.dictionaries(hashable, inner),
        st.sets(hashable),
        st.frozensets(hashable),
        st.builds(Order, st.lists(st.builds(Money, decimals)), st.none(), st.dictionaries(keys, inner)),
    )


values = st.recursive(hashable, nested, max_leaves=12)


def refused(why: list[str], call: Callable[[], object]) -> None:
    """It raises PayloadError, with each of these in a message of a length that can be shown."""
    with pytest.raises(PayloadError) as caught:
        call()
    message = str(caught.value)
    assert [word for word in why if word not in message] == []
    assert len(message) < 1_200
