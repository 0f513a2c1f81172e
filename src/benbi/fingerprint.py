"""Short hashes that tell whether two calls are the same call, in any process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pydantic_core import to_jsonable_python

from benbi.roundtrip import TROUBLE, fields_of, type_name
from benbi.secret import hash_key


def arguments_hash(text: str) -> bytes:
    """16 bytes that are equal for equal arguments, however their objects are ordered.

    ``1`` and ``1.0`` are equal, for JSON knows one kind of number.
    """
    data = json.loads(text, parse_float=_number)
    return _digest(json.dumps(data, sort_keys=True, separators=(",", ":")))


def fingerprint(qualified_name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """16 bytes that tell one call of a step from another: its function's name and arguments.

    Arguments count by value: JSON's types, dataclasses, models, sets, bytes, dates, UUIDs,
    enums, paths.
    What JSON can not carry (a connection, a client) counts by its type's qualified name only.
    """
    try:
        arguments = _by_value([args, dict(kwargs)])
    except TROUBLE:
        named = {name: _by_value_or_type(value) for name, value in kwargs.items()}
        arguments = _by_value([[_by_value_or_type(value) for value in args], named])
    return _digest(f"{qualified_name}{arguments}", hash_key())


def _number(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number


def _digest(text: str, key: bytes = b"") -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16, key=key).digest()


def _by_value(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_stand_in)


def _by_value_or_type(value: Any) -> Any:
    try:
        return _by_value(value)
    except TROUBLE:
        return _type_only(value)


def _type_only(value: Any) -> dict[str, str]:
    return {"type": type_name(type(value))}


def _stand_in(value: Any) -> Any:
    """What stands for a value that JSON has no type for."""
    if isinstance(value, set | frozenset):
        return sorted(_by_value(item) for item in cast("set[Any]", value))
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if (names := fields_of(value)) is not None:
        return {name: getattr(value, name, None) for name in names}
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Iterator):
        return _type_only(value)
    try:
        return to_jsonable_python(value)
    except TROUBLE:
        return _type_only(value)
