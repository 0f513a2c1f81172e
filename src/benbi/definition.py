"""What a function says of itself: its parameters, their types and its context.

Reads annotations, resolves those that are text, and refuses what could not run as a task with
a message that names the parameter, what is wrong and the remedy. Knows nothing of JSON.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NoReturn, get_args, get_origin, get_type_hints

from benbi.errors import TaskDefinitionError

ContextKind = Literal["async", "sync"]

_CONTEXTS: Final[dict[str, ContextKind]] = {"Context": "async", "SyncContext": "sync"}
_CONTEXT_MODULE: Final = "benbi.context"
# Where a function came from that was a tool of an MCP server before it became a task.
_MCP_PACKAGES: Final = frozenset({"mcp", "fastmcp"})
# Stands for an annotation whose name can not be resolved but can only mean our Context.
_UNSEEN: Final[dict[ContextKind, object]] = {"async": object(), "sync": object()}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One of the task's own parameters. ``annotation`` is ``Any`` where there is none."""

    name: str
    annotation: Any
    default: Any
    positional: bool

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Definition:
    """What a function takes and returns, without its context. ``returns`` is Any if unsaid."""

    is_async: bool
    context_kind: ContextKind | None
    parameters: tuple[Parameter, ...]
    returns: Any


def read_definition(fn: Callable[..., Any], name: str) -> Definition:
    """The definition of ``fn``; TaskDefinitionError where it could not run as the task ``name``."""
    if isinstance(fn, type):
        refuse(name, f"{fn.__qualname__} is a class; register a function that makes one")
    target = _target(fn)
    _refuse_generators(target, name)
    # A decorator may hide that what it calls is async, or make a plain function async.
    is_async = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(target)
    signature = _signature_of(fn, name)
    parameters = list(signature.parameters.values())
    scope: dict[str, Any] = getattr(target, "__globals__", {})
    resolved = [_annotation(parameter, scope, name) for parameter in parameters]
    kind = _context(parameters, resolved, name)
    if kind is not None:
        _refuse_wrong_context(kind, is_async, parameters[0], name)
        parameters, resolved = parameters[1:], resolved[1:]
    own = zip(parameters, resolved, strict=True)
    return Definition(
        is_async=is_async,
        context_kind=kind,
        parameters=tuple(_own_parameter(parameter, hint, name) for parameter, hint in own),
        returns=_returns(signature.return_annotation, scope, name),
    )


def returned_by(fn: Callable[..., Any]) -> Any:
    """What ``fn`` says it returns; Any if unsaid, or where it has no signature to read.

    TaskDefinitionError where its annotation can not be resolved; nothing else of ``fn`` need be.
    """
    if isinstance(fn, type):
        return fn
    try:
        annotation = _signature_of(fn, "").return_annotation
    except TaskDefinitionError:
        return Any
    if annotation is inspect.Signature.empty:
        return Any
    try:
        return _resolve(annotation, getattr(_target(fn), "__globals__", {}))
    except Exception as error:
        raise TaskDefinitionError(_unresolved(annotation, error)) from None


def refuse(name: str, problem: str) -> NoReturn:
    """Raises the TaskDefinitionError of the task ``name``."""
    raise TaskDefinitionError(f"task {name}: {problem}") from None


def _target(fn: Any) -> Any:
    """The function behind partials, decorators and callable objects."""
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        elif inspect.isroutine(fn):
            return fn
        else:
            fn = type(fn).__call__


def _signature_of(fn: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            import annotationlib

            return inspect.signature(fn, annotation_format=annotationlib.Format.FORWARDREF)
        return inspect.signature(fn)
    except (TypeError, ValueError) as error:
        refuse(name, f"{fn!r} has no signature to read ({error}); register a function")


def _refuse_generators(target: Any, name: str) -> None:
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        refuse(
            name,
            "a generator can not be a task, for a job has one result; "
            "return a list, and show what is there so far with ctx.partial(…)",
        )


def _annotation(parameter: inspect.Parameter, scope: dict[str, Any], task: str) -> Any:
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return annotation
    try:
        return _resolve(annotation, scope)
    except Exception as error:
        kind = _CONTEXTS.get(_last_word(annotation))
        if kind is not None and isinstance(error, NameError):
            return _UNSEEN[kind]
        _refuse_unresolved(task, f"parameter {parameter.name!r}", annotation, error)


def _returns(annotation: Any, scope: dict[str, Any], task: str) -> Any:
    if annotation is inspect.Signature.empty:
        return Any
    try:
        returns = _resolve(annotation, scope)
    except Exception as error:
        _refuse_unresolved(task, "the result", annotation, error)
    return type(None) if _is_never(returns) else returns


def _is_never(annotation: Any) -> bool:
    return getattr(annotation, "_name", None) in ("NoReturn", "Never")


def _resolve(annotation: Any, scope: dict[str, Any]) -> Any:
    """The annotation with every name in it looked up, also those nested in a text."""

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    return get_type_hints(holder, globalns=scope, localns={}, include_extras=True)["it"]


def _refuse_unresolved(task: str, what: str, annotation: Any, error: Exception) -> NoReturn:
    refuse(task, f"{what}: {_unresolved(annotation, error)}")


def _unresolved(annotation: Any, error: Exception) -> str:
    return (
        f"the annotation {_as_text(annotation)!r} can not be resolved ({error}); "
        "import its names at module level and outside `if TYPE_CHECKING:`, "
        "and define classes outside functions"
    )


def _as_text(annotation: Any) -> str:
    return str(getattr(annotation, "__forward_arg__", annotation))


def _last_word(annotation: Any) -> str:
    return _as_text(annotation).strip("'\" ").rpartition(".")[2]


def _kind_of(annotation: Any) -> ContextKind | None:
    """Whether an annotation is one of our contexts, told without importing them."""
    for kind, unseen in _UNSEEN.items():
        if annotation is unseen:
            return kind
    if get_origin(annotation) is Annotated:
        return _kind_of(get_args(annotation)[0])
    for ancestor in getattr(annotation, "__mro__", ()):
        if ancestor.__module__ == _CONTEXT_MODULE and ancestor.__name__ in _CONTEXTS:
            return _CONTEXTS[ancestor.__name__]
    return None


def _is_mcp_context(annotation: Any) -> bool:
    module = getattr(annotation, "__module__", None) or ""
    named = getattr(annotation, "__name__", "") == "Context"
    return named and module.partition(".")[0] in _MCP_PACKAGES


def _context(
    parameters: list[inspect.Parameter], resolved: list[Any], task: str
) -> ContextKind | None:
    """The kind of context the function takes first; refused in any other place."""
    for nth, (parameter, hint) in enumerate(zip(parameters, resolved, strict=True)):
        where = f"parameter {parameter.name!r}"
        if _is_mcp_context(hint):
            refuse(
                task,
                f"{where} is the Context of an MCP request, which is over when the job runs; "
                "from benbi import Context",
            )
        if any(_kind_of(member) for member in get_args(hint)) and _kind_of(hint) is None:
            refuse(task, f"{where}: the context is always there; annotate it as plain Context")
        if _kind_of(hint) is None:
            continue
        if nth > 0:
            refuse(task, f"{where}: the context must be the first parameter; move it there")
        if parameter.kind is not parameter.KEYWORD_ONLY:
            continue
        refuse(task, f"{where}: the context is passed by position; move it before the `*`")
    if not parameters:
        return None
    first, hint = parameters[0], resolved[0]
    if hint is inspect.Parameter.empty and first.name == "ctx":
        refuse(
            task,
            "parameter 'ctx' has no annotation; annotate it (`ctx: Context`, in a plain def "
            "`ctx: SyncContext`, from benbi), or rename it if it is one of the task's arguments",
        )
    if hint is inspect.Parameter.empty and first.name in ("self", "cls"):
        refuse(
            task,
            f"parameter {first.name!r}: a method can not be a task, for no object travels with "
            "a job; use a function",
        )
    return _kind_of(hint)


def _refuse_wrong_context(
    kind: ContextKind, is_async: bool, parameter: inspect.Parameter, task: str
) -> None:
    if is_async and kind == "sync":
        refuse(
            task,
            f"parameter {parameter.name!r}: an async function takes Context, not SyncContext; "
            "annotate it as Context",
        )
    if not is_async and kind == "async":
        refuse(
            task,
            f"parameter {parameter.name!r}: a plain function takes SyncContext, not Context; "
            "annotate it as SyncContext, or declare the function `async def`",
        )


def _own_parameter(parameter: inspect.Parameter, hint: Any, task: str) -> Parameter:
    where = f"parameter {parameter.name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        refuse(
            task,
            f"parameter '{star}{parameter.name}': a task names all its arguments; "
            "take a list or a dict instead",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        refuse(task, f"{where}: arguments travel by name; remove the `/` after it")
    return Parameter(
        name=parameter.name,
        annotation=Any if hint is inspect.Parameter.empty else hint,
        default=parameter.default,
        positional=parameter.kind is parameter.POSITIONAL_OR_KEYWORD,
    )
