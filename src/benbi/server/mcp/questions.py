"""Questions of a job as MCP elicitations, and the answers back.

An elicitation's schema is one flat object of primitive properties. A question that is such
an object goes out as it is; a primitive one is wrapped in the property ``answer``; anything
else is asked for as JSON text in that property.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

if TYPE_CHECKING:
    from benbi.job import Question

ANSWER = "answer"
_PRIMITIVE = frozenset({"string", "number", "integer", "boolean"})
# What the wire knows of a primitive; the rest of the schema is checked when the answer comes.
_KEPT = (
    "type",
    "title",
    "description",
    "default",
    "enum",
    "minLength",
    "maxLength",
    "format",
    "minimum",
    "maximum",
)
_FORMATS = frozenset({"email", "uri", "date", "date-time"})

Kind = Literal["object", "value", "text"]
Schema = dict[str, Any]


class Form(NamedTuple):
    """How a question is asked over MCP. ``nullable`` properties may be left out."""

    kind: Kind
    schema: Schema
    nullable: tuple[str, ...] = ()


def form_of(question: Question) -> Form:
    """The form that asks this question."""
    root = _resolved(question.schema, question.schema)
    if root.get("type") == "object" and root.get("properties"):
        form = _object_form(question.schema, root)
        if form is not None:
            return form
    flat, nullable = _flattened(question.schema, root)
    if flat is not None:
        wrapped = _object({ANSWER: flat}, () if nullable else (ANSWER,))
        return Form("value", wrapped, (ANSWER,) if nullable else ())
    described = f"JSON that fits this schema: {json.dumps(question.schema)}"
    asked: Schema = {"type": "string", "title": "Answer", "description": described}
    return Form("text", _object({ANSWER: asked}, (ANSWER,)))


def elicitation(question: Question) -> Schema:
    """The ``elicitation/create`` request that asks this question."""
    return {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": question.prompt,
            "requestedSchema": form_of(question).schema,
        },
    }


def answer_from(question: Question, content: Mapping[str, Any]) -> Any:
    """The answer in an accepted elicitation's content; the app checks that it fits.

    Raises:
        ValueError: ``answer`` is missing, or is not the JSON it was asked to be.
    """
    form = form_of(question)
    if form.kind == "object":
        left_out = dict.fromkeys(name for name in form.nullable if name not in content)
        return {**content, **left_out}
    if ANSWER not in content:
        if form.nullable:
            return None
        raise ValueError(f"the content has no property {ANSWER!r}")
    value = content[ANSWER]
    if form.kind == "text" and isinstance(value, str):
        return json.loads(value)
    return value


def takes_null(question: Question) -> bool:
    """True where ``null`` is an answer, so that declining can be one."""
    root = _resolved(question.schema, question.schema)
    return root.get("type") == "null" or any(
        option.get("type") == "null" for option in _options(question.schema, root)
    )


def _object_form(whole: Schema, root: Schema) -> Form | None:
    properties: Schema = {}
    nullable: list[str] = []
    for name, schema in cast("Schema", root["properties"]).items():
        flat, may_be_null = _flattened(whole, schema)
        if flat is None:
            return None
        properties[name] = flat
        if may_be_null:
            nullable.append(name)
    asked = [name for name in root.get("required", ()) if name not in nullable]
    # A property with a default of its own needs no null in its place.
    needs_null = [name for name in nullable if name in root.get("required", ())]
    return Form("object", _object(properties, tuple(asked)), tuple(needs_null))


def _object(properties: Schema, required: tuple[str, ...]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _flattened(whole: Schema, schema: Schema) -> tuple[Schema | None, bool]:
    """The schema as one primitive of the wire (None: it is not one), and whether null fits."""
    schema = _resolved(whole, schema)
    options = _options(whole, schema)
    nullable = any(option.get("type") == "null" for option in options)
    if options:
        rest = [option for option in options if option.get("type") != "null"]
        if len(rest) != 1:
            return None, nullable
        outer = {key: schema[key] for key in ("title", "description") if key in schema}
        schema = {**_resolved(whole, rest[0]), **outer}
    if "const" in schema and isinstance(schema["const"], str):
        schema = {**schema, "type": "string", "enum": [schema["const"]]}
    if schema.get("type") not in _PRIMITIVE:
        return None, nullable
    kept = {key: schema[key] for key in _KEPT if schema.get(key) is not None}
    if kept.get("format") not in _FORMATS:
        kept.pop("format", None)
    if "enum" in kept and kept["type"] != "string":
        return None, nullable
    return kept, nullable


def _options(whole: Schema, schema: Schema) -> list[Schema]:
    found = cast("list[Schema]", schema.get("anyOf") or schema.get("oneOf") or [])
    return [_resolved(whole, option) for option in found]


def _resolved(whole: Schema, schema: Schema) -> Schema:
    """The schema with its own ``$ref`` into ``$defs`` followed."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/$defs/"):
        return schema
    target = cast("Schema", whole.get("$defs", {})).get(reference.removeprefix("#/$defs/"))
    if target is None:
        return schema
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {**_resolved(whole, target), **rest}
