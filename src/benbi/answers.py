"""Answers of people, checked against the schema of the question before they are stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from benbi.errors import AnswerRefused
from benbi.job import Question

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def answer_text(question: Question, value: Any) -> str:
    """The answer as JSON text. AnswerRefused says what the question wants instead."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise AnswerRefused(f"the answer can not be written as JSON: {error}") from None
    problem = _problem(question.schema, value)
    if problem is not None:
        raise AnswerRefused(
            f"question {question.key!r} wants {json.dumps(question.schema)}: {problem}"
        )
    return text


def _problem(schema: dict[str, Any], value: Any) -> str | None:
    try:
        import jsonschema
    except ImportError:
        return _shallow_problem(schema, value)
    try:
        cast(Any, jsonschema).validate(value, schema)
    except jsonschema.ValidationError as error:
        return error.message
    return None


def _shallow_problem(schema: dict[str, Any], value: Any) -> str | None:
    """Without jsonschema (it comes with benbi[server]): the outermost type and choices. The job
    itself decodes the answer by its full type all the same."""
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        return f"{value!r} is not one of {choices}"
    wanted = schema.get("type")
    if isinstance(wanted, str) and wanted in _TYPES and not _TYPES[wanted](value):
        return f"{value!r} is not of type {wanted!r}"
    return None
