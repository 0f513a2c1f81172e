"""Lets in who has a token, and tells everything inside who that is."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Receive, Scope, Send

from benbi.server.http.auth import (
    OPEN_PATHS,
    OWNER_KEY,
    Access,
    Verifier,
    owner_from,
    route_path,
)
from benbi.server.http.problem import problem
from benbi.server.mcp.signed_in import signed_in


class SignIn:
    """ASGI middleware: without a good token nothing but ``OPEN_PATHS`` is reached."""

    def __init__(self, app: ASGIApp, verifier: Verifier | None) -> None:
        self._app = app
        self._verifier = verifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._verifier is None or route_path(scope) in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        token = _bearer(scope)
        access = await self._verifier.verify_token(token) if token else None
        if access is None or _expired(access):
            await _refusal(token)(scope, receive, send)
            return
        scope[OWNER_KEY] = owner_from(access)
        with signed_in(scope, access):
            await self._app(scope, receive, send)


def _bearer(scope: Scope) -> str | None:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _expired(access: Access) -> bool:
    return access.expires_at is not None and access.expires_at < time.time()


def _refusal(token: str | None) -> ASGIApp:
    challenge = 'Bearer realm="benbi"' + (', error="invalid_token"' if token else "")
    detail = "this token is not known here" if token else "send Authorization: Bearer <token>"
    return problem(401, detail, headers={"www-authenticate": challenge})
