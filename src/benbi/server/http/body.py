"""What a request brings: not more than the limit, and JSON proper where JSON is expected."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benbi.server.http.auth import route_path
from benbi.server.http.problem import problem

# What stands around a payload in a request: names, filters, the JSON-RPC envelope.
ENVELOPE_BYTES: Final = 64 * 1024
# A client may write each letter outside ASCII as an escape, three times its size as stored;
# the payload itself is measured when it is encoded.
ESCAPE_FACTOR: Final = 3
# A client that is cut off while it sends never reads why: a body that is too large is read
# and thrown away up to here.
_DISCARD_BYTES: Final = 16 * 1024 * 1024
_DISCARD_SECONDS: Final = 5.0
_JSON_PATHS: Final = "/api/"


class Body:
    """ASGI middleware: reads the whole body before the app runs.

    More than ``limit`` bytes are 413; under ``/api/``, another type than JSON is 415, and what
    is not JSON by RFC 8259 (NaN and lone surrogates included) is 400.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        declared = headers.get("content-length", "0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > self._limit:
            # Who asks first (curl does) has sent nothing yet, and is told before it does.
            if "expect" not in headers:
                await _discard(receive)
            await self._too_large()(scope, receive, send)
            return
        body = await self._read(receive)
        if body is None:
            return
        if len(body) > self._limit:
            await _discard(receive)
            await self._too_large()(scope, receive, send)
        elif refusal := _refusal(scope, headers, body):
            await refusal(scope, receive, send)
        else:
            await self._app(scope, _replay(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body, or its beginning where it is too large; None where the client has left."""
        parts: list[bytes] = []
        size, more = 0, True
        while more and size <= self._limit:
            message = await receive()
            if message["type"] != "http.request":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
        return b"".join(parts)

    def _too_large(self) -> Response:
        detail = f"the body is over the limit of {self._limit:,} bytes"
        # Whatever of it is still under way must not be taken for the next request.
        return problem(413, detail, headers={"connection": "close"}, limit=self._limit)


async def _discard(receive: Receive) -> None:
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_SECONDS):
            while more and size <= _DISCARD_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message["type"] == "http.request" and message.get("more_body", False)


def _refusal(scope: Scope, headers: Headers, body: bytes) -> Response | None:
    if not body or not route_path(scope).startswith(_JSON_PATHS):
        return None
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        return problem(415, f"send application/json, not {media_type or 'a body of no type'}")
    try:
        from_json(body, allow_inf_nan=False, cache_strings=False)
    except ValueError as error:
        return problem(400, f"the body is not JSON: {error}", kind="malformed-json")
    return None


def _replay(body: bytes, receive: Receive) -> Receive:
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return whole.pop() if whole else await receive()

    return next_message
