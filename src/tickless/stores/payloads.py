"""Arguments and results as JSON text, and back: equal and of the same type, or refused when they are written.

What JSON has is itself. Everything else is an object with the key "$", which names its kind: see `stores/kinds.py`, and
docs/payloads.md for the table. A text comes from a file that others may write: reading it makes values of those kinds
and nothing else. To write or read a dataclass calls its constructor, so do neither with a lock held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from json import JSONDecoder
from typing import Any, Never

from tickless.errors import PayloadError, shown
from tickless.stores.kinds import SCALARS, TEXTS, FromTagged, Reader, Refused, ToTagged, Writer, dumps

VERSION = 1
"""Of the form of a call. Grows when a reader of the former version would misread it, not when a kind is added."""

_TAGGED = '"$"'
"""Stands in every text with a tag. Where it does not, what JSON gives is the value."""
_HALF = "\\ud"
"""Stands in every text with half a character, and in some others."""


def encode(value: Any, what: str, special: ToTagged | None = None, max_bytes: int | None = None) -> str:
    """The value as JSON text, in ASCII; `decode` gives an equal one of the same type.

    `special` is asked about values that the codec does not know. Raises PayloadError for what cannot be stored, which
    names `what` and the path inside, and for a text of more than `max_bytes`. A list or dict of plain scalars costs
    about one `json.dumps`.
    """
    return _text(lambda writer: _written(writer, value, what), what, special, max_bytes)


def decode(text: str, special: FromTagged | None = None) -> Any:
    """The value that `encode` wrote; `special` is asked about tags that the codec does not know.

    Raises PayloadError for a damaged text, for a tag that nobody knows, and for a class or zone that is not here.
    """
    form = _loaded(text)
    return _read(form, special, "") if _TAGGED in text else form


def encode_call(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    special: ToTagged | None = None,
    max_bytes: int | None = None,
) -> str | None:
    """The arguments of a call as JSON text, in ASCII; None where there are none.

    Raises PayloadError as `encode` does, which names the argument: args[0]['when'], kwargs['x'].
    """
    if not args and not kwargs:
        return None
    if _plain(args, kwargs):
        try:
            text = dumps(_call(args, kwargs))
        except ValueError:  # no finite number, or too long a one: the long way tells which
            text = _HALF
        if _HALF not in text and (max_bytes is None or len(text) <= max_bytes):
            return text

    def call(writer: Writer) -> dict[str, Any]:
        return _call(
            [_written(writer, value, f"args[{index}]") for index, value in enumerate(args)],
            {_name(key): _written(writer, value, f"kwargs[{key!r}]") for key, value in (kwargs or {}).items()},
        )

    return _text(call, "the arguments", special, max_bytes)


def decode_call(text: str | None, special: FromTagged | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that `encode_call` wrote. Raises PayloadError as `decode` does, and for a newer format."""
    if text is None:
        return (), {}
    form = _loaded(text)
    version = form.get("v") if type(form) is dict else None
    if type(version) is not int or version < 1:
        raise PayloadError(f"damaged arguments, no call: {shown(text)}")
    if version > VERSION:
        raise PayloadError(
            f"arguments of a newer format, {version}: a later version of tickless wrote them, and this one reads up to "
            f"{VERSION}: upgrade it"
        )
    args, kwargs = form.get("a", []), form.get("k", {})
    if type(args) is not list or type(kwargs) is not dict or form.keys() - {"v", "a", "k"}:
        raise PayloadError(f"damaged arguments, no call: {shown(text)}")
    if _TAGGED in text:
        args = [_read(item, special, f"args[{index}]: ") for index, item in enumerate(args)]
        kwargs = {key: _read(item, special, f"kwargs[{key!r}]: ") for key, item in kwargs.items()}
    return tuple(args), kwargs


def _plain(args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> bool:
    """True when JSON has all of it, as far as the types tell. In C: this is the path of a million inserts."""
    if not SCALARS.issuperset(map(type, args)):
        return False
    return not kwargs or (SCALARS.issuperset(map(type, kwargs.values())) and TEXTS.issuperset(map(type, kwargs)))


def _call(args: tuple[Any, ...] | list[Any], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    if not kwargs:
        return {"v": VERSION, "a": args}
    return {"v": VERSION, "a": args, "k": dict(kwargs)} if args else {"v": VERSION, "k": dict(kwargs)}


def _name(key: object) -> str:
    if type(key) is not str:
        raise PayloadError(f"kwargs: {shown(key)} is no name of an argument, which is a plain str")
    return key


def _text(build: Callable[[Writer], Any], whole: str, special: ToTagged | None, max_bytes: int | None) -> str:
    """What `build` puts together, as text. Where that fails or may deceive, each scalar is looked at by itself."""
    try:
        text = dumps(build(Writer(special, thorough=False)))
    except PayloadError:
        raise
    except ValueError as error:
        _explain(build, special)
        raise PayloadError(f"{whole}: {error}") from error  # somebody has set the limit of digits lower
    if _HALF in text:
        build(Writer(special, thorough=True))
    if max_bytes is not None and len(text) > max_bytes:
        raise PayloadError(
            f"{whole}: {len(text):,} bytes as text, and at most {max_bytes:,} are kept; "
            "put it elsewhere, and give what names it"
        )
    return text


def _explain(build: Callable[[Writer], Any], special: ToTagged | None) -> None:
    """Raises the PayloadError that names the scalar at which `dumps` fails, if it is one that we know of."""
    try:
        build(Writer(special, thorough=True))
    except PayloadError:
        raise
    except ValueError:
        pass  # the same once more


def _written(writer: Writer, value: Any, what: str) -> Any:
    try:
        return writer.write(value, 0)
    except Refused as refused:
        raise PayloadError(f"{what}{refused.where}={shown(refused.value)}: {refused.why}") from None


def _loaded(text: str) -> Any:
    if type(text) is not str:
        raise PayloadError(f"{shown(text)} is no text, so nothing can be read from it")
    try:
        return _loads(text)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"damaged text, no JSON: {shown(text)}: {error}") from error


def _read(form: Any, special: FromTagged | None, where: str) -> Any:
    try:
        return Reader(special).read(form)
    except PayloadError as error:
        raise PayloadError(f"{where}{error}") from error
    except RecursionError as error:
        raise PayloadError(f"{where}damaged text, nested too deeply: {shown(form)}") from error


def _no_constant(text: str) -> Never:
    raise ValueError(f"{text} is no JSON")


_loads = JSONDecoder(parse_constant=_no_constant).decode
