"""One type, compiled with pydantic: written as JSON, read back, and proved to come back equal."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import (
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)

from benbi.errors import TaskDefinitionError
from benbi.roundtrip import TROUBLE, Fault, difference, sort_sets, type_name, unwritable
from benbi.secret import is_secret

# NaN is refused where a value is checked; where it is not, it stays visible in the text.
CONFIG: Final = ConfigDict(allow_inf_nan=False, ser_json_inf_nan="constants")

# Nodes whose checked values always come back equal.
_EXACT: Final = frozenset(
    {"int", "str", "bool", "none", "float", "nullable", "list", "tuple"}
    | {"dict", "typed-dict", "typed-dict-field"}
)
# What stands for code or for a stream.
_NOT_DATA: Final = frozenset({"generator", "callable", "is-subclass"})


@dataclass(slots=True)
class Traits:
    """What a compiled type says of its values.

    ``exact``: a checked value comes back equal without proof. ``nullable``: None is a value.
    ``sets``: the text needs an order. ``aliases``: fields are read by name as well as by alias;
    ``by_alias``: they are written under their alias, unless reading would not know it.
    ``secret``: some part is marked as one.
    """

    exact: bool = True
    nullable: bool = False
    sets: bool = False
    aliases: bool = False
    by_alias: bool = True
    secret: bool = False


class Compiled:
    """A compiled type. Raises TaskDefinitionError, without a task's name, where JSON has no form.

    ``check`` takes Python's values and raises pydantic's ValidationError; ``read`` takes JSON
    text and does the same; ``write`` gives JSON text and trusts its value.
    """

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self._adapter = _adapter(annotation)
        self.traits = _traits_of(annotation, self._adapter.core_schema)
        if not self.traits.exact:
            # Some types can be checked but have no form in JSON: only their schema tells.
            _ = self.schema
        validator, serializer = self._adapter.validator, self._adapter.serializer
        names = {"by_alias": True, "by_name": True} if self.traits.aliases else {}
        self.check = validator.validate_python
        self.read = functools.partial(validator.validate_json, **names)
        self._to_json = functools.partial(
            serializer.to_json,
            round_trip=True,
            warnings=False,
            by_alias=self.traits.by_alias,
        )

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of what ``read`` takes."""
        try:
            return self._adapter.json_schema(by_alias=self.traits.by_alias)
        except PydanticUserError as error:
            raise _no_form(annotation=self.annotation, error=error) from None

    def write(self, value: Any) -> str:
        text = self._to_json(value).decode()
        if self.traits.sets:
            return json.dumps(
                sort_sets(value, json.loads(text)), ensure_ascii=False, separators=(",", ":")
            )
        return text

    def proved(self, value: Any) -> str | Fault:
        """The JSON text of ``value`` if it comes back equal, else the first fault."""
        try:
            text = self.write(value)
        except TROUBLE as error:
            return unwritable(value) or Fault((), f"can not be written as JSON ({error})")
        try:
            decoded = self.read(text)
        except ValidationError as error:
            return unwritable(value) or fault_of(error)
        except TROUBLE as error:
            return Fault((), f"can not be read back from JSON ({error})")
        if "Infinity" in text and (fault := unwritable(value)):
            return fault
        try:
            if decoded == value:
                return text
        except TROUBLE:
            pass
        return difference(value, decoded) or text


def problems_of(error: ValidationError) -> Iterator[Fault]:
    """What pydantic found, without the values themselves: they may be secrets."""
    for detail in error.errors(include_url=False, include_context=False):
        if detail["type"] == "missing":
            problem = "missing"
        elif detail["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            problem = "unknown"
        else:
            message = detail["msg"]
            problem = f"{message[:1].lower()}{message[1:]}"
            if detail["type"] != "json_invalid":
                problem += f" (got {type_name(type(detail['input']))})"
        path = detail["loc"]
        if path and path[-1] == "[key]":
            path, problem = path[:-2], f"key {path[-2]!r}: {problem}"
        yield Fault(path, problem)


def fault_of(error: ValidationError) -> Fault:
    """The first of them, as a sentence about the value."""
    path, problem = next(problems_of(error))
    return Fault(path, f"does not fit its type: {problem}")


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=CONFIG)
        except PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            # A model, dataclass or TypedDict brings a configuration of its own.
            adapter = TypeAdapter(annotation)
        # A name that is still unknown shows only when the type is first used.
        _ = adapter.core_schema["type"]
        return adapter
    except (PydanticUserError, PydanticUndefinedAnnotation, NameError, TypeError) as error:
        raise _no_form(annotation, error) from None


def _no_form(annotation: Any, error: Exception | None) -> TaskDefinitionError:
    name = type_name(annotation)
    if error is None or isinstance(error, PydanticSchemaGenerationError):
        return TaskDefinitionError(
            f"{name} has no form in JSON; use a dataclass, a pydantic model, "
            "a TypedDict or what JSON has (dict, list, str, int, float, bool, None)"
        )
    first_line = str(error).strip().splitlines()[0]
    return TaskDefinitionError(f"{name} has no form in JSON: {first_line}")


def _traits_of(annotation: Any, core: Any) -> Traits:
    traits = Traits(nullable=core["type"] in ("any", "none", "nullable"))
    for node in _nodes(core):
        kind = node["type"]
        if kind in _NOT_DATA:
            raise _no_form(annotation, None)
        traits.exact = traits.exact and _is_exact(node)
        traits.sets = traits.sets or kind in ("set", "frozenset")
        traits.secret = traits.secret or is_secret(node)
        _look_at_aliases(node, traits)
    return traits


def _nodes(part: Any) -> Iterator[dict[str, Any]]:
    """Every node of a core schema, the form in which pydantic keeps a compiled type."""
    if isinstance(part, dict):
        node = cast("dict[str, Any]", part)
        if isinstance(node.get("type"), str):
            yield node
        for key, value in node.items():
            if key not in ("metadata", "config", "default", "expected", "members"):
                yield from _nodes(value)
    elif isinstance(part, list | tuple):
        for item in cast("list[Any]", part):
            yield from _nodes(item)


def _is_exact(node: dict[str, Any]) -> bool:
    if node["type"] not in _EXACT:
        return False
    if node["type"] == "dict":
        keys = node.get("keys_schema", {}).get("type")
        return keys in ("str", "int")
    return node.get("extra_behavior") != "allow"


def _look_at_aliases(node: dict[str, Any], traits: Traits) -> None:
    written, readable = node.get("serialization_alias"), node.get("validation_alias")
    if written is None and readable is None:
        return
    traits.aliases = True
    # One name, a path of keys, or a list of such paths.
    paths = cast("list[Any]", readable) if isinstance(readable, list) else [readable]
    if written is not None and written not in paths and [written] not in paths:
        traits.by_alias = False
