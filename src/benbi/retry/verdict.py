"""What a rule answers with, and how rules look into errors they know only by shape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeGuard, cast

Kind = Literal["transient", "unknown", "permanent", "bug"]


class Verdict(NamedTuple):
    """What ``classify`` found.

    ``rule`` says in words which rule decided; it never quotes the error's message.
    ``retry_after`` is in seconds, None where nobody asked for a delay.
    """

    kind: Kind
    rule: str
    retry_after: float | None = None


def read(thing: object, name: str) -> Any:
    """The attribute, or None: a property of somebody else's error may raise anything."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def dig(thing: object, *keys: str) -> Any:
    """The value under nested keys, or None."""
    for key in keys:
        thing = cast("Mapping[str, object]", thing).get(key) if isinstance(thing, Mapping) else None
    return thing


def seconds(value: object) -> float | None:
    """The value as a delay, or None where it is no sensible one."""
    return float(value) if is_number(value) and value >= 0 else None


def is_number(value: object) -> TypeGuard[float]:
    """True for a finite number that fits a float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def words(text: str) -> frozenset[str]:
    """The words of a text, for tables that would be all quotation marks."""
    return frozenset(text.split())
