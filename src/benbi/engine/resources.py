"""Resources of a worker: a pool, a client. Opened by their first use, closed after its drain.

Each lives in an asyncio task of its own, which enters and leaves it: what ties its end to the
task of its beginning (a cancel scope, a context variable) works, and no attempt takes an opening
with it that others wait for.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import (
    AsyncContextDecorator,
    ContextDecorator,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Generic, TypeVar, cast

from benbi.engine.threads import QUITS, Threads

T = TypeVar("T", covariant=True)

log = logging.getLogger("benbi.worker")

# A closing that takes longer is given up, so that a drain ends.
CLOSE_SECONDS = 10.0


class Resource(Generic[T]):
    """A registered resource: what ``@app.resource`` returns. Calling it calls the function.

    ``needs``: the resources that the function takes, in the order of its parameters.
    """

    def __init__(self, fn: Callable[..., Any], needs: Sequence[Resource[Any]]) -> None:
        self.fn = fn
        self.name = str(getattr(fn, "__name__", type(fn).__name__))
        self.needs = tuple(needs)
        functools.update_wrapper(cast("Any", self), fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Resource {self.name}>"


class _Kept:
    """One resource: opening, open, or being closed."""

    def __init__(self, resource: Resource[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.resource = resource
        self.opened: asyncio.Future[Any] = loop.create_future()
        self.closing = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Resources:
    """What one worker has opened; lives in its loop.

    ``effective``: which resource stands for another at this moment (``app.override``).
    """

    def __init__(self, effective: Callable[[Resource[Any]], Resource[Any]]) -> None:
        self._effective = effective
        self._loop = asyncio.get_running_loop()
        # Not that of the attempt that happens to come first.
        self._context = contextvars.copy_context()
        self._threads = Threads("benbi-resource")
        self._kept: dict[Any, _Kept] = {}
        # In the order in which they were opened.
        self._open: list[_Kept] = []
        self._closed = False

    async def __aenter__(self) -> Resources:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, resource: Resource[Any]) -> Any:
        """Its value; opens it where nobody has. Raises what opening it raises."""
        if not isinstance(cast("object", resource), Resource):
            raise TypeError(f"{resource!r} is no resource: put @app.resource above the function")
        key = self._key(resource)
        kept = self._kept.get(key)
        if kept is None:
            if self._closed:
                raise RuntimeError("the worker has ended and closed its resources")
            kept = self._kept[key] = _Kept(key[0], self._loop)
            kept.task = self._loop.create_task(
                self._keep(key, kept),
                name=f"benbi-resource-{key[0].name}",
                context=self._context.copy(),
            )
        # Canceling whoever waits cancels nothing that others wait for.
        await asyncio.wait([kept.opened])
        return kept.opened.result()

    def get_in_thread(self, resource: Resource[Any]) -> Any:
        """The same for a thread; opened in the loop all the same."""
        return asyncio.run_coroutine_threadsafe(self.get(resource), self._loop).result()

    def _key(self, resource: Resource[Any]) -> tuple[Any, ...]:
        """What it is at this moment: a replaced one, or one that needs such, is another."""
        found = self._effective(resource)
        return (found, *(self._key(need) for need in found.needs))

    async def _keep(self, key: Any, kept: _Kept) -> None:
        """Opens one, holds it open, closes it."""
        try:
            needs = [await self.get(need) for need in kept.resource.needs]
            async with self._entered(kept.resource.fn, needs) as value:
                self._open.append(kept)
                kept.opened.set_result(value)
                await kept.closing.wait()
        except BaseException as error:
            self._note(kept, error)
        finally:
            # Whoever asks now opens it anew.
            self._kept.pop(key, None)

    def _note(self, kept: _Kept, error: BaseException) -> None:
        if kept.opened.done():
            log.error("resource %s: %r while it was open or closed", kept.resource.name, error)
            return
        if isinstance(error, (asyncio.CancelledError, *QUITS)):
            # They would end the loop, or whoever awaits them.
            told: BaseException = RuntimeError(
                f"opening the resource {kept.resource.name} raised {error!r}"
            )
            told.__cause__ = error
        else:
            told = error
        kept.opened.set_exception(told)
        # Perhaps nobody waits for it any more.
        kept.opened.exception()

    @asynccontextmanager
    async def _entered(self, fn: Callable[..., Any], needs: Sequence[Any]) -> AsyncGenerator[Any]:
        made: Any
        if inspect.isasyncgenfunction(fn):
            made = asynccontextmanager(fn)(*needs)
        elif inspect.isgeneratorfunction(fn):
            made = contextmanager(fn)(*needs)
        elif inspect.iscoroutinefunction(fn):
            made = await fn(*needs)
        else:
            made = await self._threads.run(fn, *needs)
            made = await made if inspect.iscoroutine(made) else made
        # Only what contextlib made of a generator: a lock or a connection that happens to be a
        # context manager is the value itself.
        if isinstance(made, AsyncContextDecorator):
            async with cast("Any", made) as value:
                yield value
        elif isinstance(made, ContextDecorator):
            manager = cast("Any", made)
            value = await self._threads.run(manager.__enter__)
            try:
                yield value
            finally:
                await self._threads.run(manager.__exit__, None, None, None)
        else:
            yield made

    async def close(self) -> None:
        """Closes what is open, the last one first; a failure is logged and stops nothing."""
        self._closed = True
        for kept in [*self._kept.values()]:
            if not kept.opened.done() and kept.task is not None:
                kept.task.cancel()
                await asyncio.wait([kept.task], timeout=CLOSE_SECONDS)
        for kept in reversed(self._open):
            assert kept.task is not None
            kept.closing.set()
            await asyncio.wait([kept.task], timeout=CLOSE_SECONDS)
            if not kept.task.done():
                log.error("resource %s did not close and is given up", kept.resource.name)
                kept.task.cancel()
        self._open.clear()
