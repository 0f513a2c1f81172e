"""``/mcp``: the MCP door behind the same gate and sign-in as everything else."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from benbi.server.http.closing import Closing, EndsWithServer
from benbi.server.mcp.http import streamable_app

if TYPE_CHECKING:
    from benbi.app import Benbi

PATH: Final = "/mcp"


class McpPath:
    """An ASGI app: MCP over streamable HTTP.

    MCP's own lifespan is entered at the first request, in a task of its own: below an outer
    app nobody would enter it for us.
    """

    def __init__(self, app: Benbi, closing: Closing) -> None:
        self._app = app
        self._closing = closing
        self._keeping: asyncio.Task[None] | None = None
        self._inside: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        inside = await asyncio.shield(self._start())
        await inside(scope, receive, send)

    async def end(self) -> None:
        """Ends what the first request began; another request would begin it again."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping

    def _start(self) -> asyncio.Future[ASGIApp]:
        loop, keeping = asyncio.get_running_loop(), self._keeping
        if (
            self._inside is None
            or keeping is None
            or keeping.done()
            or keeping.get_loop() is not loop
        ):
            self._inside = loop.create_future()
            # A context of its own: it must not act for whoever called first.
            self._keeping = loop.create_task(self._keep(self._inside), context=Context())
        return self._inside

    async def _keep(self, inside: asyncio.Future[ASGIApp]) -> None:
        # Host and Origin are checked by the gate, which knows what is allowed.
        app = streamable_app(self._app, path=PATH)
        try:
            async with app.router.lifespan_context(app):
                inside.set_result(EndsWithServer(app, self._closing))
                await asyncio.Event().wait()
        except Exception as error:
            if inside.done():
                raise
            inside.set_exception(error)
