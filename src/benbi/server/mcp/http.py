"""MCP over streamable HTTP, to serve alone or to mount in another ASGI app."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    TransportSecuritySettings,
)

from benbi.server.mcp.parts import server

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from benbi.app import Benbi

BODY_FACTOR: Final = 8


def streamable_app(
    app: Benbi,
    *,
    name: str = "benbi",
    prefix: str | None = None,
    path: str = "/mcp",
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] = (),
) -> Starlette:
    """A Starlette app that serves MCP at ``path``, in every protocol revision.

    ``allowed_hosts`` are the values of the Host header that are answered (``example.org``,
    ``127.0.0.1:*``), ``allowed_origins`` those of the Origin header; None for the hosts
    leaves both checks to whoever mounts the app. No sign-in of its own: put one in front that
    sets mcp's access token, and jobs belong to their callers.

    It keeps no sessions: any replica answers any request, before and after a restart.

    Whoever mounts it enters its lifespan: ``async with found.router.lifespan_context(found)``.
    """
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=allowed_hosts is not None,
        allowed_hosts=list(allowed_hosts or ()),
        allowed_origins=list(allowed_origins),
    )
    return server(app, name, prefix=prefix).streamable_http_app(
        streamable_http_path=path,
        stateless_http=True,
        # The app refuses a payload that is too large, in words; this only bounds memory.
        max_request_body_size=max(DEFAULT_MAX_REQUEST_BODY_SIZE, BODY_FACTOR * app.max_payload),
        transport_security=security,
    )
