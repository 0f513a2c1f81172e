"""An app inside somebody's server: its lifespan, a worker beside it, and its own door to mount."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from benbi.errors import MissingExtra
from benbi.settings import DEFAULT_GRACE
from benbi.task import Task

if TYPE_CHECKING:
    from benbi.app import Benbi


class Serving:
    """What a host asks of an app. ``Benbi`` brings the work and the upkeep."""

    tasks: dict[str, Task[Any, Any]]

    async def __aenter__(self) -> Any:
        raise NotImplementedError

    async def __aexit__(self, *_: object) -> None:
        raise NotImplementedError

    async def publish(self) -> None:
        raise NotImplementedError

    async def work(
        self,
        queues: Sequence[str] | None = None,
        slots: int | None = None,
        stop: asyncio.Event | None = None,
        grace: float = DEFAULT_GRACE,
        started: asyncio.Event | None = None,
    ) -> int:
        raise NotImplementedError

    async def upkeep(self, stop: asyncio.Event) -> None:
        raise NotImplementedError

    def lifespan(
        self, *, worker: bool = True
    ) -> Callable[[Any], AbstractAsyncContextManager[None]]:
        """A lifespan for FastAPI or Starlette: opens the app, runs a worker beside the server
        unless ``worker=False``, drains at shutdown."""

        @asynccontextmanager
        async def lifespan(_: Any) -> AsyncGenerator[None]:
            async with self, self.working(worker=worker):
                yield

        return lifespan

    @asynccontextmanager
    async def working(
        self,
        *,
        worker: bool = True,
        queues: Sequence[str] | None = None,
        slots: int | None = None,
        grace: float = DEFAULT_GRACE,
    ) -> AsyncGenerator[None]:
        """Publishes the tasks, and runs a worker in this loop for as long as the block lasts.

        Raises on entering what kept the worker from starting. One that dies later cancels the
        block, which then ends with the worker's error, as in an ``asyncio.TaskGroup``.

        Without a worker it does the upkeep all the same: a server that only takes jobs still
        promotes what is due and rescues what a dead worker held.
        """
        await self.publish()
        stop, started, died = asyncio.Event(), asyncio.Event(), asyncio.Event()
        block = asyncio.current_task()
        assert block is not None

        def ended(task: asyncio.Task[Any]) -> None:
            if started.is_set() and not stop.is_set() and _failed(task):
                died.set()
                block.cancel()
            started.set()

        if worker and self.tasks:
            task = asyncio.create_task(self.work(queues, slots, stop, grace, started))
        else:
            started.set()
            task = asyncio.create_task(self.upkeep(stop))
        task.add_done_callback(ended)
        try:
            await started.wait()
            if task.done() and _failed(task):
                await task
            yield
        finally:
            stop.set()
            if died.is_set():
                block.uncancel()
            # Its error goes before the cancellation that it caused.
            await task

    def asgi(self, **settings: Any) -> Any:
        """An ASGI app to mount: REST, event streams and MCP. MissingExtra without benbi[server]."""
        try:
            from benbi.server.http import build
        except ImportError as error:
            raise MissingExtra("server", "app.asgi()") from error
        return build(cast("Benbi", self), **settings)


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None
