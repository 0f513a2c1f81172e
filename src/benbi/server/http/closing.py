"""Ends the open streams of a server that is about to stop.

A server waits for its open responses before it runs its shutdown; a stream that only ended
then would hold it up for ever.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOK_EVERY_SECONDS: Final = 0.25


class Latch:
    """Set once, from any thread, and waited for in any loop."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: set[asyncio.Future[None]] = set()

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._release()

    @contextmanager
    def waiter(self) -> Generator[asyncio.Future[None]]:
        """A future of the running loop that is done once the latch is set."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        # After the add: set in between, it is seen here or there.
        if self._is_set:
            waiter.set_result(None)
        try:
            yield waiter
        finally:
            self._waiters.discard(waiter)

    def _release(self) -> None:
        for waiter in tuple(self._waiters):
            # A loop that is closed has nobody who waits.
            with suppress(RuntimeError):
                waiter.get_loop().call_soon_threadsafe(_done, waiter)


class Closing(Latch):
    """Tells streams that they have to end.

    It is set by a server of ours. Below a uvicorn that somebody else started, the first stream
    begins to watch that uvicorn, and the last one ends it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._watching: asyncio.Task[None] | None = None

    @contextmanager
    def waiter(self) -> Generator[asyncio.Future[None]]:
        with super().waiter() as waiter:
            self._watch()
            yield waiter

    def _watch(self) -> None:
        loop, watching = asyncio.get_running_loop(), self._watching
        if watching is None or watching.done() or watching.get_loop() is not loop:
            # A context of its own: it outlives the request that happens to be the first.
            self._watching = loop.create_task(self._watch_outer_server(), context=Context())

    async def _watch_outer_server(self) -> None:
        # Uvicorn tells an app of its end only after the last response; its signal handler is
        # the one sign that it gives before.
        while self._waiters:
            server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
            if getattr(server, "should_exit", False):
                self._release()
            await asyncio.sleep(_LOOK_EVERY_SECONDS)


def _done(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class EndsWithServer:
    """ASGI middleware: to the app inside, a server that stops looks like a client that left.

    For apps with streams of their own, which know nothing of ``Closing``.
    """

    def __init__(self, app: ASGIApp, closing: Closing) -> None:
        self._app = app
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        under_way = False

        async def watched_send(message: Message) -> None:
            nonlocal under_way
            under_way = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        with self._closing.waiter() as closing:
            await self._app(scope, _receive_until(closing, receive), watched_send)
            if under_way and closing.done():
                # It thinks that nobody is there any more; the client waits for the end.
                await send({"type": "http.response.body", "body": b"", "more_body": False})


def _receive_until(closing: asyncio.Future[None], receive: Receive) -> Receive:
    async def receive_or_leave() -> Message:
        message = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({message, closing}, return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() else {"type": "http.disconnect"}
        finally:
            message.cancel()

    return receive_or_leave
