"""The HTTP door of an app as one ASGI app."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from benbi.errors import ConfigurationError
from benbi.server.http.auth import Tokens, Verifier
from benbi.server.http.beside import WorkerBeside
from benbi.server.http.body import ENVELOPE_BYTES, ESCAPE_FACTOR, Body
from benbi.server.http.closing import Closing
from benbi.server.http.gate import Gate, checked_hosts, checked_origins
from benbi.server.http.health import Health
from benbi.server.http.mcp_path import PATH, McpPath
from benbi.server.http.rest import Rest, new_fastapi
from benbi.server.http.sign_in import SignIn

if TYPE_CHECKING:
    from fastapi import FastAPI

    from benbi.app import Benbi

_CORS_REQUEST_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "Last-Event-ID",
    "Mcp-Method",
    "Mcp-Name",
    "Mcp-Protocol-Version",
    "Mcp-Session-Id",
)
_CORS_RESPONSE_HEADERS: Final = ("Location", "Mcp-Session-Id")


class Door:
    """What stands behind one ASGI app; ``worker`` is set where one runs beside the server."""

    def __init__(self, app: Benbi, *, mcp: bool) -> None:
        self.closing = Closing()
        self.mcp = McpPath(app, self.closing) if mcp else None
        self.worker: WorkerBeside | None = None

    def fault(self) -> str | None:
        return self.worker.fault() if self.worker else None


def verifier_for(tokens: Iterable[str] | None, verifier: Verifier | None) -> Verifier | None:
    """What checks tokens: the verifier, else the tokens, else those of ``BENBI_TOKEN``."""
    if verifier is not None:
        if tokens:
            raise ConfigurationError("give tokens or a verifier, not both")
        return verifier
    if isinstance(tokens, str):
        tokens = [tokens]
    known = Tokens.from_environment() if tokens is None else Tokens(tokens)
    return known if len(known) else None


def build(
    app: Benbi,
    *,
    tokens: Iterable[str] | None = None,
    verifier: Verifier | None = None,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    mcp: bool = True,
) -> FastAPI:
    """The door as an ASGI app, to serve alone or to mount under any prefix.

    ``tokens`` are ``"owner:token"`` or a token alone, None takes those of ``BENBI_TOKEN``;
    ``verifier`` is mcp's ``TokenVerifier``. Without either only callers on this machine
    are served, as its operator. Hosts other than loopback are named in ``allowed_hosts``,
    web pages of other origins in ``allowed_origins``. ``mcp=False`` leaves ``/mcp`` out.

    Its own lifespan opens the app and does the upkeep; below an outer app, that is the task of
    ``FastAPI(lifespan=app.lifespan())``. Raises ConfigurationError for a token, host or
    origin that can not be.
    """
    verifier = verifier_for(tokens, verifier)
    hosts, origins = checked_hosts(allowed_hosts), checked_origins(allowed_origins)
    door = Door(app, mcp=mcp)
    rest = Rest(app, door.closing, Health(app, door.fault), mcp=mcp)
    fastapi = new_fastapi(rest, app.lifespan(worker=False))
    fastapi.state.door = door
    if door.mcp is not None:
        fastapi.router.routes.append(Route(PATH, endpoint=door.mcp, methods=None))
    # The last one added is the first to see a request.
    fastapi.add_middleware(Body, limit=ESCAPE_FACTOR * app.max_payload + ENVELOPE_BYTES)
    fastapi.add_middleware(SignIn, verifier=verifier)
    if origins:
        fastapi.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=_CORS_REQUEST_HEADERS,
            expose_headers=_CORS_RESPONSE_HEADERS,
        )
    fastapi.add_middleware(Gate, hosts=hosts, origins=origins, local_only=verifier is None)
    return fastapi
