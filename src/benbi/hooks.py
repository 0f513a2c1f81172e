"""What an app gives its tasks beside their arguments: resources, and what is around attempts."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from benbi.context import Context, SyncContext
from benbi.engine.around import Manager, run_around
from benbi.engine.attempt import Attempt
from benbi.engine.resources import Resource, Resources
from benbi.engine.threads import Threads
from benbi.errors import ConfigurationError
from benbi.task import Task

if TYPE_CHECKING:
    from contextlib import (
        _AsyncGeneratorContextManager as MadeAsync,  # pyright: ignore[reportPrivateUsage]
    )
    from contextlib import (
        _GeneratorContextManager as Made,  # pyright: ignore[reportPrivateUsage]
    )

    Around = Callable[[Context], AsyncIterator[None] | AbstractAsyncContextManager[Any]]

T = TypeVar("T")
AroundT = TypeVar("AroundT", bound="Around")


class Hooks:
    """``app.resource``, ``app.override`` and ``app.around``."""

    def __init__(self) -> None:
        super().__init__()
        self._resources: dict[str, Resource[Any]] = {}
        self._overrides: dict[Resource[Any], Resource[Any]] = {}
        self._arounds: tuple[Manager, ...] = ()

    @overload
    def resource(self, fn: Callable[..., AsyncIterator[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, fn: Callable[..., Iterator[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, fn: Callable[..., MadeAsync[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, fn: Callable[..., Made[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, fn: Callable[..., Coroutine[Any, Any, T]], /) -> Resource[T]: ...
    @overload
    def resource(self, fn: Callable[..., T], /) -> Resource[T]: ...
    def resource(self, fn: Callable[..., Any], /) -> Resource[Any]:
        """Registers a pool, a client, a model: what each worker opens once, when
        ``ctx.resource(fn)`` asks for it first.

        A generator yields the value and closes it after its ``yield``, when the worker has
        drained; any other function returns it. An async one runs in the worker's loop, a ``def``
        in a thread. A parameter takes the resource of its name, registered before. Raises
        ConfigurationError.
        """
        made: Resource[Any] = Resource(fn, self._needs(fn))
        if made.name in self._resources:
            raise ConfigurationError(
                f"two resources are called {made.name}: rename one of the functions"
            )
        self._resources[made.name] = made
        return made

    @contextmanager
    def override(self, resource: Resource[Any], replacement: Callable[..., Any]) -> Generator[None]:
        """For tests: tasks that ask for ``resource`` in the block get what ``replacement`` gives,
        a function such as ``@app.resource`` takes. Blocks may nest.

        ConfigurationError: no resource, no function, or one that needs what it replaces.
        """
        if not isinstance(cast("object", resource), Resource):
            raise ConfigurationError(f"{resource!r} is no resource: register it with @app.resource")
        made = self._replacement(replacement)
        if self._reaches(made, resource):
            raise ConfigurationError(f"{made.name} needs {resource.name}, which it replaces")
        before = self._overrides
        self._overrides = {**before, resource: made}
        try:
            yield
        finally:
            kept = {one: other for one, other in self._overrides.items() if one is not resource}
            if resource in before:
                kept[resource] = before[resource]
            self._overrides = kept

    def around(self, fn: AroundT, /) -> AroundT:
        """Registers what is wrapped around each attempt: an async generator of one ``yield``, or
        an async context manager, given the attempt's Context. The first one is the outermost.

        What it raises is the attempt's failure; it sees what the task raises, at its ``yield``,
        and can replace it by another error but not make a success of it.
        """
        self._arounds = (*self._arounds, _manager(fn))
        return fn

    def effective(self, resource: Resource[Any]) -> Resource[Any]:
        """What stands for the resource at this moment: itself, or its replacement."""
        return self._overrides.get(resource, resource)

    def context_for(
        self,
        resources: Resources,
        clock: Callable[[], int],
        task: Task[Any, Any],
        attempt: Attempt,
        threads: Threads,
    ) -> Context | SyncContext | None:
        """The context of one attempt, where its task takes one; what is around it goes with the
        attempt."""
        given = attempt, threads, clock, resources, self
        if self._arounds:
            attempt.around = partial(run_around, self._arounds, Context(*given), attempt)
        if not task.signature.takes_context:
            return None
        return Context(*given) if task.signature.is_async else SyncContext(*given)

    def _replacement(self, replacement: Any) -> Resource[Any]:
        if isinstance(replacement, Resource):
            return cast("Resource[Any]", replacement)
        if not callable(replacement):
            raise ConfigurationError(
                f"{replacement!r} is no function: write app.override(resource, lambda: value)"
            )
        return Resource(replacement, self._needs(replacement))

    def _needs(self, fn: Callable[..., Any]) -> list[Resource[Any]]:
        try:
            parameters = inspect.signature(fn).parameters.values()
        except (TypeError, ValueError):
            return []
        wanted = [parameter for parameter in parameters if _is_needed(parameter)]
        unknown = [parameter.name for parameter in wanted if parameter.name not in self._resources]
        if unknown:
            raise ConfigurationError(
                f"the resource {getattr(fn, '__name__', fn)} takes {', '.join(unknown)}: a "
                "parameter takes the resource of its name, and none of that name is registered"
            )
        return [self._resources[parameter.name] for parameter in wanted]

    def _reaches(self, found: Resource[Any], sought: Resource[Any]) -> bool:
        return any(
            need is sought or self._reaches(self.effective(need), sought) for need in found.needs
        )


def _is_needed(parameter: inspect.Parameter) -> bool:
    several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return not several and parameter.default is parameter.empty


def _manager(fn: Any) -> Manager:
    if inspect.isasyncgenfunction(fn):
        return asynccontextmanager(fn)
    if not callable(fn) or inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn):
        raise ConfigurationError(
            f"@app.around {getattr(fn, '__name__', fn)}: an async function with one yield, or a "
            "function that returns an async context manager"
        )
    return cast("Manager", fn)
