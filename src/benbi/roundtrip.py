"""What JSON can not carry, and where in a value it is.

The slow paths of the codec: they run only when a value did not come back from JSON as it went
in, to name the place, the type and the remedy.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

# Beyond this depth neither pydantic's writer nor its reader follows.
DEEPEST: Final = 190

# What pydantic, a user's validator or an odd `==` may raise on the way to JSON and back.
TROUBLE: Final = (ValueError, TypeError, AttributeError, RecursionError)

_PLAIN: Final = (str, int, bool, type(None))


class Fault(NamedTuple):
    """A part of a value that JSON can not carry: where it is and what is wrong, with a remedy."""

    path: tuple[str | int, ...]
    problem: str


def path_text(path: Iterable[str | int], root: str = "$") -> str:
    """``$.a.b[3]``; without a root ``a.b[3]``."""
    text = root
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]" if text else part
    return text


def type_name(kind: Any) -> str:
    """A type as a person would write it."""
    if not isinstance(kind, type):
        return str(kind).removeprefix("typing.")
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def unwritable(value: Any, depth: int = 0) -> Fault | None:
    """The first part of ``value`` that can not be written as JSON at all."""
    if depth > DEEPEST:
        return Fault((), f"is nested deeper than {DEEPEST} levels, or holds itself; flatten it")
    entries = _entries(value)
    if entries is None:
        problem = _unwritable_leaf(value)
        return None if problem is None else Fault((), problem)
    for key, part in entries:
        if isinstance(key, str) and (problem := _surrogate(key)) is not None:
            return Fault((), f"has a key that {problem}")
        fault = unwritable(part, depth + 1)
        if fault is not None:
            return Fault((_path_part(key), *fault.path), fault.problem)
    return None


def difference(value: Any, decoded: Any, depth: int = 0) -> Fault | None:
    """The first part of ``value`` that is another one in ``decoded``, its way back from JSON.

    A plain tuple may come back as a list where no annotation asks for a tuple.
    """
    if depth > DEEPEST:
        return Fault((), f"is nested deeper than {DEEPEST} levels; flatten it")
    if isinstance(value, _PLAIN):
        return None if value == decoded else Fault((), changed(value, decoded))
    # Rows of a database, mostly: compared whole where they can be.
    if type(value) is tuple and _equal(list(cast("tuple[Any, ...]", value)), decoded):
        return None
    both = _pairs(value, decoded)
    if both is None:
        return None if _equal_leaves(value, decoded) else Fault((), changed(value, decoded))
    for key, part, came_back in both:
        if came_back is _MISSING:
            return Fault((), _changed_key(key))
        fault = difference(part, came_back, depth + 1)
        if fault is not None:
            return Fault((_path_part(key), *fault.path), fault.problem)
    return None


def changed(value: Any, decoded: Any) -> str:
    """What is wrong with a value that JSON gives back as ``decoded``, and the remedy."""
    kind, came_back = type_name(type(value)), type_name(type(decoded))
    if isinstance(value, float) and not math.isfinite(value):
        return "is NaN or infinite, which JSON has no word for; use None or a text"
    if inspect.isawaitable(value):
        return f"is a {kind} that nobody awaited; declare the function async, or await it"
    if isinstance(value, bytes | bytearray | memoryview):
        return "is bytes, which JSON has not; annotate it as bytes (UTF-8), or use base64 text"
    if isinstance(value, set | frozenset):
        return f"is a {kind}, which JSON has not; use a list, or annotate it as set[…]"
    if type(value) is type(decoded):
        return (
            f"does not come back equal from JSON; {kind} must read back what it writes "
            "(look at its validators, serializers and excluded fields)"
        )
    if isinstance(value, type(decoded)) and not isinstance(value, tuple):
        return f"is {kind}, but its annotation says {came_back}; annotate {kind}, or a union"
    return (
        f"is {kind}, which comes back from JSON as {came_back}; "
        f"annotate it as {kind}, or use what JSON has (dict, list, str, int, float, bool, None)"
    )


def sort_sets(value: Any, data: Any) -> Any:
    """``data``, the JSON of ``value``, with the elements of sets in an order of their own.

    A set of texts is iterated in another order in each process; equal calls must be equal text.
    """
    entries = _entries(value)
    if entries is None:
        return data
    if isinstance(data, list):
        parts = [
            sort_sets(part, item)
            for (_, part), item in zip(entries, cast("list[Any]", data), strict=False)
        ]
        if isinstance(value, set | frozenset):
            return sorted(parts, key=_canonical)
        return parts
    named = cast("dict[str, Any]", data)
    # Models may leave fields out or write them under an alias, which keeps their order.
    if len(named) == len(parts_of := list(entries)):
        return {
            key: sort_sets(part, item)
            for (_, part), (key, item) in zip(parts_of, named.items(), strict=True)
        }
    return named


_MISSING: Any = object()


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


def _path_part(key: Any) -> str | int:
    return key if isinstance(key, str | int) else str(key)


def fields_of(value: Any) -> list[str] | None:
    """The names of what a model or dataclass carries."""
    if isinstance(value, BaseModel):
        return [*type(value).model_fields, *(value.model_extra or ())]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in dataclasses.fields(value)]
    return None


def _entries(value: Any) -> Iterator[tuple[Any, Any]] | None:
    """Key or index, and part, of what a container holds; None for what is no container."""
    if isinstance(value, Mapping):
        return iter(cast("Mapping[Any, Any]", value).items())
    if isinstance(value, list | tuple | set | frozenset):
        return enumerate(cast("Iterable[Any]", value))
    names = fields_of(value)
    if names is None:
        return None
    return ((name, getattr(value, name, None)) for name in names)


def _pairs(value: Any, decoded: Any) -> Iterator[tuple[Any, Any, Any]] | None:
    """Key, part and the part that came back; None where the two can only be compared whole."""
    if isinstance(value, Mapping):
        if not isinstance(decoded, Mapping):
            return None
        back = cast("Mapping[Any, Any]", decoded)
        items = cast("Mapping[Any, Any]", value).items()
        return ((key, part, back.get(key, _MISSING)) for key, part in items)
    if isinstance(value, list | tuple):
        rows, returned = cast("list[Any]", value), cast("list[Any]", decoded)
        if not _same_shape(rows, returned):
            return None
        return ((nth, rows[nth], returned[nth]) for nth in range(len(rows)))
    names = fields_of(value)
    if names is None or type(value) is not type(decoded):
        return None
    return ((name, getattr(value, name, None), getattr(decoded, name, None)) for name in names)


def _same_shape(value: list[Any] | tuple[Any, ...], decoded: Any) -> bool:
    """Lists of one length; a named tuple must come back as itself, lest its names be lost."""
    if hasattr(value, "_fields") and type(value) is not type(decoded):
        return False
    return isinstance(decoded, list | tuple) and len(value) == len(cast("list[Any]", decoded))


def _equal(value: Any, decoded: Any) -> bool:
    try:
        return bool(value == decoded)
    except Exception:
        return False


def _equal_leaves(value: Any, decoded: Any) -> bool:
    if _equal(value, decoded):
        return True
    # Without an equality of its own a type's contents can not be compared.
    equality = cast("Callable[..., Any]", type(value).__eq__)
    return type(value) is type(decoded) and equality is object.__eq__


def _changed_key(key: Any) -> str:
    kind = type_name(type(key))
    return (
        f"has the key {key!r} ({kind}), but JSON's keys are text; "
        f"annotate it as dict[{kind}, …], or use str keys"
    )


def _surrogate(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return (
            f"has a lone surrogate at index {error.start}, which is not Unicode text; "
            'decode with errors="replace"'
        )
    return None


def _unwritable_leaf(value: Any) -> str | None:
    if isinstance(value, str):
        return _surrogate(value)
    if isinstance(value, float) and not math.isfinite(value):
        return changed(value, None)
    if isinstance(value, bytes | bytearray):
        try:
            value.decode()
        except UnicodeDecodeError:
            return "is bytes that are not UTF-8; use base64 text, or pass a reference to a file"
        return None
    try:
        to_json(value)
    except (PydanticSerializationError, ValueError):
        return (
            changed(value, None)
            if inspect.isawaitable(value)
            else f"is {type_name(type(value))}, which JSON can not carry; use a dataclass, "
            "a pydantic model or what JSON has (dict, list, str, int, float, bool, None)"
        )
    return None
