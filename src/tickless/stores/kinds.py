"""The kinds of values that a row can keep: how each is written as what JSON has, and read again.

What JSON has is itself; everything else is a dict with the key "$", its tag. A dict that has such a key itself is
written as pairs, so that no data can pass for a kind. Types are compared exactly: of a subclass, JSON would keep half.

Foreign classes are enums and dataclasses only, of modules that are imported already: see `stores/names.py`.
"""

from __future__ import annotations

import dataclasses
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import cache
from importlib import import_module
from json import JSONDecoder, JSONEncoder
from math import isfinite
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from types import NoneType
from typing import Any
from zoneinfo import ZoneInfo

from tickless.errors import PayloadError, shown
from tickless.stores.names import found, name_in_module

ToTagged = Callable[[Any], dict[str, Any] | None]
"""Gives, for a value that the codec does not know, a dict with a tag of its own, or None: not mine either. The other
items of the dict are written as any value is."""
FromTagged = Callable[[dict[str, Any]], Any]
"""Gives the value of such a dict, whose other items have been read. Raises PayloadError for a tag of nobody."""

TAG = "$"
MOST_DEEP = 50
"""Containers in one another. Deeper is refused; so is, by this, what contains itself."""
MOST_BITS = 14_284
"""Of an int: 4,300 digits. More than that Python does not read, unless it is told to."""
SCALARS = frozenset({NoneType, bool, int, float, str})
TEXTS = frozenset({str})

_MICROSECOND = timedelta(microseconds=1)
_PATHS = {kind.__name__: kind for kind in (PosixPath, PurePosixPath, PureWindowsPath, WindowsPath)}

# Made once, since json.dumps with options makes an encoder for each call. ASCII: it survives any encoding of the file.
dumps = JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":")).encode


@cache
def _uuid() -> Any:
    """The class, and not its module, which draws lots (tests/house/test_purity.py) and is slow to import."""
    return import_module("uuid").UUID


# Writing


class Refused(Exception):
    """The value cannot be stored: `why`, with the way out. `where` it is within the argument."""

    def __init__(self, value: object, why: str) -> None:
        super().__init__(why)
        self.value = value
        self.why = why
        self.where = ""

    def within(self, part: str) -> Refused:
        """The same, told by what contains the value."""
        self.where = part + self.where
        return self


class Writer:
    """Values -> what `dumps` takes. A list or dict of nothing but scalars is believed and given as it is, unless the
    writer is `thorough`: then `dumps` cannot fail."""

    __slots__ = ("special", "thorough")

    def __init__(self, special: ToTagged | None, thorough: bool) -> None:
        self.special = special
        self.thorough = thorough

    def write(self, value: Any, depth: int) -> Any:
        """What stands for the value. Raises Refused."""
        kind = type(value)
        if kind in SCALARS:
            return _scalar(value, kind)
        if depth > MOST_DEEP:
            raise Refused(value, f"more than {MOST_DEEP} containers in one another, or one that contains itself")
        write = _WRITERS.get(kind)
        return self._rare(value, kind, depth) if write is None else write(self, value, depth)

    def believes(self, values: Iterable[Any]) -> bool:
        return not self.thorough and SCALARS.issuperset(map(type, values))

    def items(self, values: Iterable[Any], depth: int) -> list[Any]:
        forms: list[Any] = []
        try:
            for value in values:
                forms.append(self.write(value, depth + 1))
        except Refused as refused:
            raise refused.within(f"[{len(forms)}]") from None
        return forms

    def fields(self, fields: Mapping[str, Any], depth: int, part: str = "[{!r}]") -> dict[str, Any]:
        """`part` is how a field is named within its owner."""
        form: dict[str, Any] = {}
        for key, value in fields.items():
            try:
                form[_scalar(key, str)] = self.write(value, depth + 1)
            except Refused as refused:
                raise refused.within(part.format(key)) from None
        return form

    def _rare(self, value: Any, kind: type, depth: int) -> Any:
        if self.special is not None:
            tagged = self.special(value)
            if tagged is not None:
                return self._tagged(tagged, depth)
        if kind is _uuid():
            return {TAG: "uuid", "v": str(value)}
        if issubclass(kind, Enum):
            return _enum(value, kind)
        if "__dataclass_fields__" in vars(kind):
            return _dataclass(value, kind, depth)
        raise Refused(value, _why_not(kind))

    def _tagged(self, tagged: dict[str, Any], depth: int) -> dict[str, Any]:
        tag = tagged.get(TAG)
        if type(tag) is not str or tag in _READERS:
            raise AssertionError(f"special gave {shown(tagged)}: its {TAG!r} must be a text that the codec leaves free")
        return {TAG: tag, **self.fields({key: item for key, item in tagged.items() if key != TAG}, depth)}


def _scalar(value: Any, kind: type) -> Any:
    """The value itself, when JSON can keep it."""
    if kind is str:
        if not value.isascii() and not _comes_back(value):
            raise Refused(value, "two halves of a character (surrogates), which would come back as one; give bytes")
    elif kind is float:
        if not isfinite(value):
            raise Refused(value, "JSON has no such number; give None, or a text")
    elif kind is int and value.bit_length() > MOST_BITS:
        raise Refused(value, "an int of more than 4,300 digits, which would not be read again; give hex(...)")
    return value


def _comes_back(text: str) -> bool:
    """False for a text in which half a character is followed by the other half."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return bool(JSONDecoder().decode(dumps(text)) == text)
    return True


def _list(writer: Writer, value: list[Any], depth: int) -> Any:
    return value if writer.believes(value) else writer.items(value, depth)


def _tuple(writer: Writer, value: tuple[Any, ...], depth: int) -> Any:
    return {TAG: "tuple", "v": value if writer.believes(value) else writer.items(value, depth)}


def _set(writer: Writer, value: set[Any] | frozenset[Any], depth: int) -> Any:
    """In one order, whatever the hashes are: equal values give equal texts."""
    try:
        forms = [writer.write(item, depth + 1) for item in value]
    except Refused as refused:
        raise refused.within("{...}") from None
    return {TAG: type(value).__name__, "v": sorted(forms, key=dumps)}


def _dict(writer: Writer, value: dict[Any, Any], depth: int) -> Any:
    if TEXTS.issuperset(map(type, value)) and TAG not in value:
        return value if writer.believes(value.values()) else writer.fields(value, depth)
    pairs = []
    for key, item in value.items():
        try:
            pairs.append([writer.write(key, depth + 1), writer.write(item, depth + 1)])
        except Refused as refused:
            raise refused.within(f"[{shown(key)}]") from None
    return {TAG: "dict", "v": pairs}


def _datetime(writer: Writer, value: datetime, depth: int) -> Any:
    form = _zone(value)
    wall = value.replace(tzinfo=None) if "tz" in form else value
    return {TAG: "datetime", "v": wall.isoformat(), **form}


def _time(writer: Writer, value: time, depth: int) -> Any:
    form = _zone(value)
    wall = value.replace(tzinfo=None) if "tz" in form else value
    return {TAG: "time", "v": wall.isoformat(), **form}


def _zone(value: datetime | time) -> dict[str, Any]:
    """What the ISO text does not tell: the pass, the key of a zone, the name that somebody gave to an offset."""
    zone = value.tzinfo
    form: dict[str, Any] = {"fold": 1} if value.fold else {}
    if type(zone) is ZoneInfo:
        if zone.key is None:
            raise Refused(value, "its zone has no key, so it could not be found again; give ZoneInfo('Europe/Berlin')")
        form["tz"] = zone.key
        if _known_zone(zone.key) is None:
            raise Refused(value, f"its zone {zone.key!r} is not in the zone database, so it could not be found again")
    elif type(zone) is timezone:
        name = zone.tzname(None)
        if name != timezone(zone.utcoffset(None)).tzname(None):
            form["tzname"] = _scalar(name, str)
    elif zone is not None:
        why = f"its zone is a {type(zone).__qualname__}; give a zoneinfo.ZoneInfo or a datetime.timezone"
        raise Refused(value, why)
    return form


def _known_zone(key: str) -> ZoneInfo | None:
    """None for what is no key: some of them are directories, some no file names at all."""
    try:
        return ZoneInfo(key)
    except (LookupError, ValueError, OSError):
        return None


def _date(writer: Writer, value: date, depth: int) -> Any:
    return {TAG: "date", "v": value.isoformat()}


def _timedelta(writer: Writer, value: timedelta, depth: int) -> Any:
    return {TAG: "timedelta", "us": value // _MICROSECOND}


def _decimal(writer: Writer, value: Decimal, depth: int) -> Any:
    if not value.is_finite():
        raise Refused(value, "it is no finite number; give None, or a text")
    return {TAG: "decimal", "v": str(value)}


def _bytes(writer: Writer, value: bytes, depth: int) -> Any:
    return {TAG: "bytes", "v": b64encode(value).decode("ascii")}


def _path(writer: Writer, value: PurePosixPath | PureWindowsPath, depth: int) -> Any:
    text = str(value)
    if type(value)(text) != value:  # "./c:x" for Windows, before Python 3.12
        raise Refused(value, "its text is that of another path; give it as a str")
    return {TAG: "path", "class": type(value).__name__, "v": _scalar(text, str)}


def _enum(value: Enum, kind: type[Enum]) -> dict[str, Any]:
    """By name, so that values may change; a combination of flags by value, since it has no name of its own."""
    form = {TAG: "enum", "class": _class_name(value, kind)}
    if kind.__members__.get(value.name) is value:
        return {**form, "name": value.name}
    if type(value.value) is int and kind(value.value) is value:
        return {**form, "value": value.value}
    raise Refused(value, f"it is no member of {kind.__qualname__} that could be found again")


def _dataclass(value: Any, kind: type, depth: int) -> dict[str, Any]:
    """The fields that the constructor takes. Made anew from them and written again, it must give the same text.

    No `==` is asked: it is foreign, and may compare half of the fields.
    """
    base = _plain_base(kind)
    if base is not None:
        raise Refused(value, f"a dataclass that is a {base.__name__} too, of which only the fields would be stored")
    name = _class_name(value, kind)
    given, rest = _own_fields(value, kind, depth)
    form = {TAG: "dataclass", "class": name, "v": given}
    try:
        again = Reader(None).read(form)
    except PayloadError as error:
        raise Refused(value, f"it cannot be made again from its fields: {error}") from None
    if type(again) is not kind or dumps([given, rest]) != dumps(_own_fields(again, kind, depth)):
        raise Refused(value, f"made again from its fields it is another, {shown(again)}: its constructor changes them")
    return form


def _own_fields(value: Any, kind: type, depth: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """(fields that the constructor takes, others that count in a comparison). What is in neither is a cache."""
    given: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.init or field.compare:
            try:
                (given if field.init else rest)[field.name] = getattr(value, field.name)
            except Exception as error:  # deleted, or a property that raises
                raise Refused(value, f"its field {field.name} cannot be read: {shown(error)}") from error
    writer = Writer(None, thorough=True)
    return writer.fields(given, depth, ".{}"), writer.fields(rest, depth, ".{}")


def _class_name(value: object, kind: type) -> str:
    name = name_in_module(kind)
    if "<locals>" in name:
        raise Refused(value, f"class {name} is local to a function: move it to the top of a module")
    try:
        there = found(name)
    except LookupError as error:
        raise Refused(value, f"class {name}: {error}") from None
    if there is not kind:
        raise Refused(value, f"{name} is another class by now; keep one class under one name")
    return name


def _plain_base(kind: type) -> type | None:
    return next((base for base in kind.__mro__ if base in SCALARS or base in _WRITERS), None)


def _why_not(kind: type) -> str:
    """What is wrong with a value of that type, and the way out."""
    if kind is bytearray or kind is memoryview:
        return f"a {kind.__name__} cannot be stored; give bytes(...)"
    base = _plain_base(kind)
    if base is not None:
        return f"a {kind.__qualname__} would come back as a {base.__name__}; give a plain {base.__name__}"
    return (
        f"a {kind.__qualname__} cannot be stored; give what names it (an id, a path), "
        "or a dataclass of plain values (docs/payloads.md)"
    )


_WRITERS: dict[type, Callable[[Writer, Any, int], Any]] = {
    list: _list,
    dict: _dict,
    tuple: _tuple,
    set: _set,
    frozenset: _set,
    datetime: _datetime,
    date: _date,
    time: _time,
    timedelta: _timedelta,
    Decimal: _decimal,
    bytes: _bytes,
    **dict.fromkeys(_PATHS.values(), _path),
}


# Reading


class Reader:
    """What JSON gives -> values. Every tagged dict is looked at as if it came from a stranger."""

    __slots__ = ("special",)

    def __init__(self, special: FromTagged | None) -> None:
        self.special = special

    def read(self, form: Any) -> Any:
        """The value that `Writer.write` wrote. Raises PayloadError."""
        kind = type(form)
        if kind is list:
            return [self.read(item) for item in form]
        if kind is not dict:
            return form
        if TAG not in form:
            return {key: self.read(item) for key, item in form.items()}
        tag = form[TAG]
        read = _READERS.get(tag) if type(tag) is str else None
        try:
            if read is not None:
                return read(self, form)
            if self.special is not None:
                return self.special({key: item if key == TAG else self.read(item) for key, item in form.items()})
        except PayloadError:
            raise
        except Exception as error:  # the constructor of a dataclass is foreign code
            raise PayloadError(f"a stored {shown(tag)} cannot be read: {shown(form)}: {shown(error)}") from error
        raise PayloadError(f"{shown(form)}: nobody here knows {shown(tag)}; a later version may have written it")

    def items(self, form: dict[str, Any]) -> list[Any]:
        return [self.read(item) for item in _of(form, "v", list)]


def _of(form: dict[str, Any], key: str, kind: type) -> Any:
    """The item of that key. Raises PayloadError where it is missing or of another type."""
    value = form.get(key)
    if type(value) is not kind:
        raise PayloadError(f"damaged {form[TAG]}, its {key!r} is no {kind.__name__}: {shown(form)}")
    return value


def _read_dict(reader: Reader, form: dict[str, Any]) -> Any:
    return {reader.read(key): reader.read(value) for key, value in _of(form, "v", list)}


def _read_datetime(reader: Reader, form: dict[str, Any]) -> Any:
    return _zoned(datetime.fromisoformat(_of(form, "v", str)), form)


def _read_time(reader: Reader, form: dict[str, Any]) -> Any:
    return _zoned(time.fromisoformat(_of(form, "v", str)), form)


def _zoned(value: Any, form: dict[str, Any]) -> Any:
    if "tz" in form:
        key = _of(form, "tz", str)
        zone = _known_zone(key)
        if zone is None:
            raise PayloadError(f"no zone {shown(key)} on this machine; pip install tzdata")
        value = value.replace(tzinfo=zone)
    elif "tzname" in form:
        value = value.replace(tzinfo=timezone(value.utcoffset(), _of(form, "tzname", str)))
    return value.replace(fold=_of(form, "fold", int)) if "fold" in form else value


def _read_decimal(reader: Reader, form: dict[str, Any]) -> Any:
    value = Decimal(_of(form, "v", str))
    if not value.is_finite():
        raise PayloadError(f"damaged decimal, no finite number: {shown(form)}")
    return value


def _read_path(reader: Reader, form: dict[str, Any]) -> Any:
    kind = _PATHS[_of(form, "class", str)]
    return kind(_of(form, "v", str))


def _read_enum(reader: Reader, form: dict[str, Any]) -> Any:
    kind = _class_of(form)
    if not issubclass(kind, Enum):
        raise PayloadError(f"{form['class']} is no enum: {shown(form)}")
    if "name" not in form:
        return kind(_of(form, "value", int))
    member = kind.__members__.get(_of(form, "name", str))
    if member is None:
        raise PayloadError(f"{form['class']} has no member {form['name']!r} any more; put it back, under that name")
    return member


def _read_dataclass(reader: Reader, form: dict[str, Any]) -> Any:
    kind = _class_of(form)
    if "__dataclass_fields__" not in vars(kind):
        raise PayloadError(f"{form['class']} is no dataclass: {shown(form)}")
    given = _of(form, "v", dict)
    known = {field.name for field in dataclasses.fields(kind) if field.init}
    strange = sorted(given.keys() - known)
    if strange:
        raise PayloadError(f"{form['class']} has no field {', '.join(map(shown, strange))} any more: {shown(form)}")
    return kind(**{key: reader.read(item) for key, item in given.items()})


def _class_of(form: dict[str, Any]) -> type:
    name = _of(form, "class", str)
    try:
        kind = found(name)
    except LookupError as error:
        raise PayloadError(f"class {shown(name)}: {error}") from None
    if not issubclass(type(kind), type):
        raise PayloadError(f"{shown(name)} is no class: {shown(form)}")
    there: type = kind  # type: ignore[assignment]  # the line above has looked, and isinstance asks what it says of itself
    return there


_READERS: dict[str, Callable[[Reader, dict[str, Any]], Any]] = {
    "tuple": lambda reader, form: tuple(reader.items(form)),
    "set": lambda reader, form: set(reader.items(form)),
    "frozenset": lambda reader, form: frozenset(reader.items(form)),
    "dict": _read_dict,
    "datetime": _read_datetime,
    "date": lambda reader, form: date.fromisoformat(_of(form, "v", str)),
    "time": _read_time,
    "timedelta": lambda reader, form: timedelta(microseconds=_of(form, "us", int)),
    "decimal": _read_decimal,
    "bytes": lambda reader, form: b64decode(_of(form, "v", str), validate=True),
    "uuid": lambda reader, form: _uuid()(_of(form, "v", str)),
    "path": _read_path,
    "enum": _read_enum,
    "dataclass": _read_dataclass,
}
