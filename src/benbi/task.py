"""Tasks: registered functions, and the calls that are made of them.

``P`` are the task's own arguments, without its context; ``R`` is what it returns. The overloads
of ``TaskDecorator`` are where a type checker learns both.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from benbi.codec import Signature, compile_signature
from benbi.errors import TaskDefinitionError
from benbi.options import (
    CallOptions,
    Defaults,
    Duration,
    Options,
    Tool,
    checked_queue,
    micros_of,
    seconds_of,
)
from benbi.retry import Retry

if TYPE_CHECKING:
    from benbi.context import Context, SyncContext
    from benbi.handle import JobHandle

__all__ = [
    "BoundTask",
    "Call",
    "CallOptions",
    "Enqueuer",
    "Options",
    "Task",
    "TaskDecorator",
    "TaskRegistrar",
    "TaskSettings",
    "Tool",
]

P = ParamSpec("P")
R = TypeVar("R")

_NO_OPTIONS: Final = Options()
_NAME: Final = re.compile(r"[^\W\d][\w.-]{0,127}")
# What each MCP host accepts as the name of a tool.
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class TaskSettings(TypedDict, total=False):
    """The keywords of ``@app.task``; the defaults stand behind each.

    Durations are seconds, timedeltas or texts such as "10m".
    """

    name: str | None  # None: the function's name
    queue: str  # "default"
    retry: int | Retry  # 3; a number is Retry(attempts=number)
    timeout: Duration | None  # None: as long as it takes; counts running time only
    tool: bool | Tool  # False; True: offered as an MCP tool
    aliases: Sequence[str]  # (); names of jobs that an earlier version enqueued
    max_losses: int  # 3; how many workers may die while they run one job
    keep: Duration | None  # None: the app's retention; else how long a finished job is kept
    grace: Duration  # 10 s to stop after a cancel
    exclusive: bool  # False; True: stops when its worker is cut off from the database
    isolation: Literal["process"] | None  # None; "process": in a child process, which can be killed


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was checked but not enqueued. ``arguments`` is canonical JSON text."""

    task: Task[Any, Any]
    # Not shown: they may hold secrets.
    arguments: str = field(repr=False)
    options: Options


class Enqueuer(Protocol):
    """Where calls go: the app."""

    # A module that a process imports before that of the task.
    first_import: str | None

    async def submit(self, calls: Sequence[Call]) -> list[JobHandle[Any]]: ...

    def submit_sync(self, calls: Sequence[Call]) -> list[JobHandle[Any]]: ...


class BoundTask(Generic[P, R]):
    """A task with options for its next call."""

    __slots__ = ("options", "task")

    def __init__(self, task: Task[P, R], options: Options) -> None:
        self.task = task
        self.options = options

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Stores a job, durably, before it returns. Raises Refused for what is wrong with it."""
        return (await self.task.enqueuer.submit([self.call(*args, **kwargs)]))[0]

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """As ``enqueue``, for code without a running loop."""
        return self.task.enqueuer.submit_sync([self.call(*args, **kwargs)])[0]

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """The checked call, for ``app.enqueue_many``. Raises InvalidArguments."""
        return Call(self.task, self.task.signature.encode_call(args, kwargs), self.options)


class Task(Generic[P, R]):
    """A registered function: what ``@app.task`` returns. Calling it calls the function.

    ``timeout``, ``keep`` and ``grace`` are seconds. Raises TaskDefinitionError, naming what is
    wrong and the remedy.
    """

    def __init__(
        self, fn: Callable[..., Any], enqueuer: Enqueuer, **settings: Unpack[TaskSettings]
    ) -> None:
        self.fn = fn
        self.enqueuer = enqueuer
        self.name: str = _name_of(fn, settings.get("name"))
        self.doc: str = inspect.getdoc(fn) or ""
        self.queue: str = checked_queue(settings.get("queue", "default"), self._refuse)
        self.retry: Retry = self._retry(settings.get("retry", 3))
        self.timeout: float | None = self._duration("timeout", settings.get("timeout"))
        self.keep: float | None = self._duration("keep", settings.get("keep"))
        self.grace: float = seconds_of(settings.get("grace", 10.0), "grace", self._refuse)
        self.tool: Tool | None = self._tool(settings.get("tool", False))
        self.aliases: tuple[str, ...] = self._aliases(settings.get("aliases", ()))
        self.max_losses: int = self._max_losses(settings.get("max_losses", 3))
        self.exclusive: bool = bool(settings.get("exclusive", False))
        self.isolation: str | None = self._isolation(settings.get("isolation"))
        self.defaults = Defaults(
            queue=self.queue,
            max_attempts=self.retry.attempts,
            max_losses=self.max_losses,
            timeout=micros_of(self.timeout),
            grace=micros_of(self.grace) or 0,
            keep=micros_of(self.keep),
        )
        self.signature: Signature = compile_signature(fn, name=self.name)
        functools.update_wrapper(cast("Any", self), fn, updated=())

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}({', '.join(self.signature.parameters)})>"

    async def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Stores a job, durably, before it returns. Raises Refused for what is wrong with it."""
        return (await self.enqueuer.submit([self.call(*args, **kwargs)]))[0]

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """As ``enqueue``, for code without a running loop."""
        return self.enqueuer.submit_sync([self.call(*args, **kwargs)])[0]

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """The checked call, for ``app.enqueue_many``. Raises InvalidArguments."""
        return Call(self, self.signature.encode_call(args, kwargs), _NO_OPTIONS)

    def options(self, **options: Unpack[CallOptions]) -> BoundTask[P, R]:
        """The task with options for its next call, which stand in ``Options``: key, owner,
        priority, delay, run_at, queue, connection, expires_in, same_call_within, after, when.

        Raises Refused for what is wrong with them.
        """
        return BoundTask(self, Options(**cast("dict[str, Any]", options)))

    @functools.cached_property
    def code_version(self) -> str:
        """12 hex digits that change with the function's own code, not with what it calls."""
        code = getattr(inspect.unwrap(self.fn), "__code__", None)
        digest = hashlib.blake2b(digest_size=6)
        digest.update(repr(self.signature.arguments_schema).encode())
        if isinstance(code, CodeType):
            _digest_code(code, digest.update)
        return digest.hexdigest()

    def _refuse(self, problem: str) -> NoReturn:
        raise TaskDefinitionError(f"task {self.name}: {problem}") from None

    def _duration(self, what: str, value: Duration | None) -> float | None:
        return None if value is None else seconds_of(value, what, self._refuse, zero=False)

    def _retry(self, retry: object) -> Retry:
        if isinstance(retry, Retry):
            return retry
        if not isinstance(retry, int) or isinstance(retry, bool) or retry < 1:
            self._refuse(f"retry={retry!r}: attempts in all, 1 or more, or a Retry(…)")
        return Retry(attempts=retry)

    def _tool(self, tool: object) -> Tool | None:
        if not isinstance(tool, bool | Tool):
            self._refuse(f"tool={tool!r}: True, False or a Tool(…)")
        if tool is False:
            return None
        if not _TOOL_NAME.fullmatch(self.name):
            self._refuse(
                "MCP hosts take tool names of 1 to 64 letters, digits, _ and - only; use name=…"
            )
        return Tool() if tool is True else tool

    def _aliases(self, aliases: object) -> tuple[str, ...]:
        if isinstance(aliases, str) or not isinstance(aliases, Sequence):
            self._refuse(f"aliases={aliases!r}: a list of names")
        listed = cast("Sequence[object]", aliases)
        return tuple(_checked_name(alias, f"alias {alias!r} of {self.name}") for alias in listed)

    def _isolation(self, isolation: object) -> str | None:
        if isolation is not None and isolation != "process":
            self._refuse(f'isolation={isolation!r}: "process", or None')
        return None if isolation is None else "process"

    def _max_losses(self, most: object) -> int:
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            self._refuse(f"max_losses={most!r}: a whole number, 1 or more")
        return most


class TaskDecorator(Protocol):
    """What ``@app.task(…)`` is: it makes a task of a function.

    A function whose first parameter is a context is told by the first two overloads; a first
    parameter annotated ``Any`` or ``object`` looks like one to a type checker.
    """

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncContext, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Task[P, R]: ...


class TaskRegistrar:
    """``app.task``: a decorator as it is, and one that takes settings.

    ``add`` is called with each new task; what it raises reaches who registers.
    """

    def __init__(self, enqueuer: Enqueuer, add: Callable[[Task[Any, Any]], None]) -> None:
        self._enqueuer = enqueuer
        self._add = add

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncContext, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, /, **settings: Unpack[TaskSettings]) -> TaskDecorator: ...

    def __call__(self, fn: Any = None, /, **settings: Unpack[TaskSettings]) -> Any:
        if fn is not None:
            return self._register(fn, settings)
        return functools.partial(self._register, settings=settings)

    def _register(self, fn: Any, settings: TaskSettings) -> Task[Any, Any]:
        if not callable(fn):
            raise TaskDefinitionError(
                f"{fn!r} is no function; write @app.task or @app.task(queue=…) above one"
            )
        task: Task[Any, Any] = Task(fn, self._enqueuer, **settings)
        self._add(task)
        return task


def _name_of(fn: Callable[..., Any], name: object) -> str:
    if name is None:
        name = getattr(fn, "__name__", None)
        if not isinstance(name, str) or not name.isidentifier():
            raise TaskDefinitionError(
                f"{fn!r} has no name of its own; say @app.task(name=…), which must stay the same"
            )
    return _checked_name(name, f"name={name!r}")


def _checked_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TaskDefinitionError(
            f"{what}: a letter or _, then letters, digits, _ . and -, 128 characters at most"
        )
    return name


def _digest_code(code: CodeType, update: Callable[[bytes], None]) -> None:
    """Feeds what a function does, but not where it stands."""
    update(code.co_code)
    update(repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _digest_code(constant, update)
        elif isinstance(constant, frozenset):
            # Its order differs from process to process.
            update(repr(sorted(map(repr, cast("frozenset[Any]", constant)))).encode())
        else:
            update(repr(constant).encode())
