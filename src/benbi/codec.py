"""One codec: values and calls as JSON text, and typed again on the way back.

A type or signature is compiled once with pydantic: the schema that doors show, the check at
enqueue and the decoding in the worker are one and the same. What would not come back from JSON
as it went in is refused with its path, its type and the remedy. Nothing is ever pickled.

The text of a call is canonical: arguments in the order of the parameters, defaults filled in (a
default that changes later does not change a job that was accepted), sets sorted.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, NotRequired, TypeVar, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from benbi.compiled import CONFIG, Compiled, fault_of, problems_of
from benbi.definition import ContextKind, Definition, Parameter, read_definition, refuse
from benbi.errors import InvalidArguments, NotEncodable, Refused, TaskDefinitionError
from benbi.fingerprint import arguments_hash, fingerprint
from benbi.roundtrip import TROUBLE, Fault, path_text, type_name, unwritable
from benbi.secret import IN_SCHEMA

__all__ = [
    "Codec",
    "Signature",
    "arguments_hash",
    "check_against_schema",
    "codec_for",
    "compile_signature",
    "fingerprint",
]

T = TypeVar("T")

# Python reads no longer numbers than this from text: a longer call is read back to make sure.
_SURELY_READABLE: Final = 4_000


class Codec(Generic[T]):
    """One type, to JSON text and back. Made by ``codec_for``.

    ``decode(encode(value))`` equals ``value``, with its type, wherever ``encode`` does not raise;
    a plain tuple under no annotation comes back as a list.
    """

    def __init__(self, annotation: Any) -> None:
        self._compiled = Compiled(annotation)
        self._nullable = self._compiled.traits.nullable
        if self._compiled.traits.secret:
            raise TaskDefinitionError(
                f"{type_name(annotation)} holds a Secret, but only a task's arguments are "
                "encrypted: results, steps and answers are stored as they are; use another type"
            )

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the type; ``{}`` for Any."""
        return self._compiled.schema

    def encode(self, value: T, what: str = "value") -> str:
        """The JSON text of ``value``.

        A value of another type is converted where pydantic would convert an argument (a dict
        to the model that is asked for). Raises NotEncodable, which begins with ``what`` and
        names the path, the type and the remedy.
        """
        if value is None and self._nullable:
            return "null"
        proved = self._compiled.proved(value)
        if type(proved) is str:
            return proved
        return self._encode_converted(value, what)

    def decode(self, text: str, what: str = "value") -> T:
        """The value of ``text``; raises Refused where it is none of the type."""
        try:
            return self._compiled.read(text)
        except ValidationError as error:
            raise Refused(_in_words(what, fault_of(error))) from None

    def _encode_converted(self, value: Any, what: str) -> str:
        try:
            proved = self._compiled.proved(self._compiled.check(value))
        except ValidationError as error:
            proved = unwritable(value) or fault_of(error)
        except TROUBLE as error:
            proved = unwritable(value) or Fault((), f"does not fit its type: {error}")
        if isinstance(proved, Fault):
            raise NotEncodable(_in_words(what, proved))
        return proved


def codec_for(annotation: Any) -> Codec[Any]:
    """The codec of a type, compiled once.

    Raises TaskDefinitionError, naming type and remedy, where the type has no form in JSON.
    """
    try:
        # Unions that differ only in their order are equal, but not alike.
        return _codec_for(annotation, None if isinstance(annotation, type) else repr(annotation))
    except TypeError:
        return Codec(annotation)


@functools.lru_cache(maxsize=1024)
def _codec_for(annotation: Any, _form: str | None) -> Codec[Any]:
    return Codec(annotation)


class Signature:
    """What a function takes and returns, compiled once. Made by ``compile_signature``.

    ``parameters`` are the task's own arguments, without its context.
    """

    def __init__(self, name: str, definition: Definition) -> None:
        own = definition.parameters
        self.name = name
        self.is_async: bool = definition.is_async
        self.context_kind: ContextKind | None = definition.context_kind
        self.takes_context: bool = definition.context_kind is not None
        self.parameters: tuple[str, ...] = tuple(parameter.name for parameter in own)
        self.result: Codec[Any] = _result_codec(name, definition.returns)
        self._compiled = _compiled_arguments(name, own)
        # An argument that holds a secret is encrypted whole.
        self.secrets: frozenset[str] = _secrets(name, own, self._compiled)
        self._exact = self._compiled.traits.exact
        self._positional = tuple(parameter.name for parameter in own if parameter.positional)
        self._required = frozenset(parameter.name for parameter in own if parameter.required)
        self._defaults = {p.name: p.default for p in own if not p.required}
        self._default_data = {
            p.name: None if p.name in self.secrets else _default_data(name, p)
            for p in own
            if not p.required
        }
        self._bare = None if self._required else self._encode(dict(self._defaults))

    @functools.cached_property
    def arguments_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, with their defaults; no other name is permitted."""
        schema = self._compiled.schema
        for name, data in self._default_data.items():
            schema["properties"][name]["default"] = data
        for name in self.secrets:
            schema["properties"][name][IN_SCHEMA] = True
        return schema

    def encode_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """A call as canonical JSON text; InvalidArguments lists all that is wrong with it."""
        if not args and not kwargs and self._bare is not None:
            return self._bare
        return self._encode(self._bind(args, kwargs))

    def encode_mapping(self, arguments: Mapping[str, Any]) -> str:
        """Arguments from a door, read as JSON (a text may stand for a datetime), as such a text.

        Values that only Python has are taken as ``encode_call`` takes them. Raises
        InvalidArguments.
        """
        if not arguments and self._bare is not None:
            return self._bare
        try:
            text = codec_for(Any).encode({**self._default_data, **arguments})
        except NotEncodable:
            return self._encode({**self._defaults, **arguments})
        return self._text(self._checked(self._compiled.read, text))

    def decode(self, text: str) -> dict[str, Any]:
        """The keyword arguments of a stored call.

        A parameter that is younger than the call is left to the function's default. Raises
        InvalidArguments where the call no longer fits the signature.
        """
        if text == "{}" and not self._required:
            return {}
        try:
            return self._compiled.read(text)
        except ValidationError as error:
            raise self._invalid(error) from None

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if not kwargs and len(args) == len(self.parameters) == len(self._positional):
            return dict(zip(self._positional, args, strict=True))
        bound = dict(self._defaults)
        if args:
            taken = self._positional[: len(args)]
            if len(args) > len(taken):
                problem = f"{len(args)} arguments by position, but it takes {len(taken)}"
                raise InvalidArguments(self.name, [("", problem)])
            if not kwargs.keys().isdisjoint(taken):
                twice = [(name, "given twice") for name in taken if name in kwargs]
                raise InvalidArguments(self.name, twice)
            bound.update(zip(taken, args, strict=True))
        bound.update(kwargs)
        return bound

    def _encode(self, arguments: dict[str, Any]) -> str:
        return self._text(self._checked(self._compiled.check, arguments))

    def _checked(self, check: Callable[[Any], Any], arguments: Any) -> dict[str, Any]:
        try:
            return check(arguments)
        except ValidationError as error:
            raise self._invalid(error) from None

    def _text(self, checked: dict[str, Any]) -> str:
        if self._exact:
            try:
                text = self._compiled.write(checked)
                if len(text) < _SURELY_READABLE:
                    return text
            except TROUBLE:
                pass
        proved = self._compiled.proved(checked)
        if isinstance(proved, Fault):
            path, problem = path_text(proved.path, root=""), proved.problem
            if proved.path and proved.path[0] in self.secrets:
                path, problem = str(proved.path[0]), "can not be carried by JSON"
            raise InvalidArguments(self.name, [(path, problem)])
        return proved

    def _invalid(self, error: ValidationError) -> InvalidArguments:
        known = ", ".join(self.parameters) or "no arguments"
        problems: list[tuple[str, str]] = []
        for path, problem in problems_of(error):
            if path and path[0] in self.secrets and problem != "missing":
                # The words of a validator, or a key, may hold the value.
                path, problem = path[:1], "does not fit its type (why is not shown: a secret)"
            elif problem == "unknown" and len(path) == 1:
                problem = f"{problem}; it takes {known}"
            problems.append((path_text(path, root=""), problem))
        return InvalidArguments(self.name, problems)


def compile_signature(fn: Callable[..., Any], *, name: str) -> Signature:
    """The compiled signature of ``fn``, to run as the task ``name``.

    Raises TaskDefinitionError, naming the parameter, its type and the remedy.
    """
    return Signature(name, read_definition(fn, name))


def check_against_schema(task: str, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Arguments for a task whose code is not here, checked against its published schema.

    Gives canonical JSON text, with the schema's defaults. Raises InvalidArguments. Without
    jsonschema (it comes with ``benbi[server]``) only names are checked, and the worker that
    runs the job checks the rest.
    """
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    given = {name: part["default"] for name, part in properties.items() if "default" in part}
    given.update(arguments)
    try:
        codec_for(Any).encode(given, task)
    except NotEncodable as error:
        raise InvalidArguments(task, [("", str(error).removeprefix(f"{task}: "))]) from None
    problems = _unknown_names(properties, schema, given) or _unfit(schema, given)
    if problems:
        raise InvalidArguments(task, problems)
    ordered = {name: given[name] for name in properties if name in given}
    return codec_for(Any).encode({**ordered, **given})


# Made of names and types that are known only here, which no type checker can follow.
_typed_dict: Final = cast("Callable[[str, dict[str, Any]], Any]", TypedDict)


def _in_words(what: str, fault: Fault) -> str:
    return f"{what}: {path_text(fault.path)} {fault.problem}"


def _result_codec(task: str, returns: Any) -> Codec[Any]:
    try:
        return codec_for(returns)
    except TaskDefinitionError as error:
        refuse(task, f"the result: {error}")


def _compiled_arguments(task: str, parameters: Iterable[Parameter]) -> Compiled:
    for parameter in parameters:
        _refuse_alias(task, parameter)
    fields: dict[str, Any] = {
        parameter.name: parameter.annotation
        if parameter.required
        else NotRequired[parameter.annotation]
        for parameter in parameters
    }
    try:
        shape: Any = _typed_dict(task, fields)
        shape.__pydantic_config__ = {**CONFIG, "extra": "forbid"}
        return Compiled(shape)
    except TaskDefinitionError as error:
        for parameter in parameters:
            _refuse_parameter(task, parameter)
        refuse(task, str(error))


def _secrets(task: str, parameters: Iterable[Parameter], whole: Compiled) -> frozenset[str]:
    if not whole.traits.secret:
        return frozenset()
    found = [each for each in parameters if Compiled(each.annotation).traits.secret]
    for parameter in found:
        if not parameter.required and parameter.default is not None:
            refuse(
                task,
                f"parameter {parameter.name!r} holds a secret, and its default would stand in the "
                "code and in schemas; make it required, or None",
            )
    return frozenset(parameter.name for parameter in found)


def _refuse_alias(task: str, parameter: Parameter) -> None:
    for said in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(said, FieldInfo) and (said.validation_alias or said.serialization_alias):
            refuse(
                task,
                f"parameter {parameter.name!r} has an alias, but arguments travel by name; "
                "name the parameter so",
            )


def _refuse_parameter(task: str, parameter: Parameter) -> None:
    try:
        codec_for(parameter.annotation)
    except TaskDefinitionError as error:
        refuse(task, f"parameter {parameter.name!r}: {error}")


def _default_data(task: str, parameter: Parameter) -> Any:
    """The default as JSON has it; one that does not fit its own annotation is refused."""
    default, annotation = parameter.default, parameter.annotation
    if isinstance(default, FieldInfo):
        refuse(
            task,
            f"parameter {parameter.name!r}: Field(…) is no default; "
            f"write {parameter.name}: Annotated[{type_name(annotation)}, Field(…)] = value",
        )
    if type(default) is annotation and isinstance(default, int | str):
        return default
    try:
        return json.loads(codec_for(annotation).encode(default, "its default"))
    except NotEncodable as error:
        remedy = f"; annotate it as {type_name(annotation)} | None" if default is None else ""
        refuse(task, f"parameter {parameter.name!r}: {error}{remedy}")


def _unknown_names(
    properties: Mapping[str, Any], schema: Mapping[str, Any], given: Mapping[str, Any]
) -> list[tuple[str, str]]:
    known = ", ".join(properties) or "no arguments"
    problems = [(name, "missing") for name in schema.get("required", ()) if name not in given]
    if schema.get("additionalProperties") is False:
        unknown = [name for name in given if name not in properties]
        problems += [(name, f"unknown; it takes {known}") for name in unknown]
    return problems


def _unfit(schema: Mapping[str, Any], given: Mapping[str, Any]) -> list[tuple[str, str]]:
    try:
        validators = importlib.import_module("jsonschema.validators")
        referencing = importlib.import_module("referencing")
    except ImportError:
        return []
    # An empty registry: no reference in a schema may fetch anything.
    validator = validators.Draft202012Validator(schema, registry=referencing.Registry())
    try:
        errors = list(validator.iter_errors(given))
    except (re.error, referencing.exceptions.Unresolvable):
        # A pattern that only pydantic understands, for one: the worker checks it.
        return []
    return [(path_text(error.absolute_path, root=""), _rule_broken(error)) for error in errors]


def _rule_broken(error: Any) -> str:
    """Which rule of the schema was broken, without the value: it may be a secret."""
    rule, wanted = error.validator, error.validator_value
    if rule == "type":
        return f"should be {wanted} (got {type_name(type(error.instance))})"
    if isinstance(wanted, list | dict) and rule != "enum":
        return f"does not meet the schema's {rule}"
    return f"does not meet the schema's {rule}: {json.dumps(wanted)}"
