"""What a person types, as JSON values of the kind that a schema asks for."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final, cast

from benbi.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benbi.job import Job

_TRUE: Final = frozenset({"true", "yes", "y", "on"})
_FALSE: Final = frozenset({"false", "no", "n", "off"})


def arguments_from(tokens: Sequence[str], schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a task: one JSON object (``-`` reads it from stdin) or key=value pairs.

    ``schema`` is that of the task's arguments: where it asks for text, ``code=007`` is text.
    Raises ConfigurationError for what is neither.
    """
    if len(tokens) == 1 and (tokens[0] == "-" or tokens[0].lstrip().startswith("{")):
        return _json_object(sys.stdin.read() if tokens[0] == "-" else tokens[0])
    found: dict[str, Any] = {}
    for token in tokens:
        name, equals, text = token.partition("=")
        if not equals or not name:
            raise ConfigurationError(
                f"{token!r} is neither key=value nor a JSON object; arguments are given as "
                """budget=100 name=Ada or as '{"budget": 100, "name": "Ada"}'"""
            )
        if name in found:
            raise ConfigurationError(f"{name} is given twice; a list is given as {name}='[1, 2]'")
        wanted = cast("dict[str, Any]", schema.get("properties", {})).get(name, {})
        found[name] = value_from(text, wanted, schema)
    return found


def answer_value(job: Job, key: str | None, text: str) -> Any:
    """An answer, in the form that the question asks for."""
    for question in job.questions:
        if not question.answered and key in (None, question.key):
            return value_from(text, question.schema, question.schema)
    return value_from(text, {}, {})


def value_from(text: str, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """``text`` as the JSON value it stands for; plain text where ``schema`` wants text.

    ``root`` is the schema that references inside ``schema`` point into.
    """
    kinds = _kinds(schema, root)
    if kinds == {"string"}:
        return text
    if "boolean" in kinds and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    try:
        value = _decode(text)
    except ValueError:
        return text
    fits = not kinds or _kind_of(value) in kinds or not _names_text(kinds)
    return value if fits else text


def _names_text(kinds: set[str]) -> bool:
    return "string" in kinds


def _kinds(schema: dict[str, Any], root: dict[str, Any]) -> set[str]:
    """The JSON types that a schema lets through; empty where it does not say."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return _kinds(root.get("$defs", {}).get(name, {}), root)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return {kind for part in schema[word] for kind in _kinds(part, root)}
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {_kind_of(value) for value in values}
    kind = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number" if isinstance(value, float) else "integer"
    return {str: "string", list: "array", dict: "object"}[type(value)]


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = _decode(text)
    except ValueError as error:
        raise ConfigurationError(f"the arguments are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigurationError("the arguments are JSON, but not an object: {…}")
    return cast("dict[str, Any]", value)


def _decode(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
