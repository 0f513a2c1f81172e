"""The outermost checks of the server, before anything is read: Host, Origin and peer.

A web page that a person visits can make their browser call a server on their own machine. Host
refuses a page that pointed its own name at this machine (DNS rebinding), Origin refuses
every other page, whatever the method. Where nobody can sign in, only this machine is served.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benbi.errors import ConfigurationError
from benbi.server.http.auth import OPEN_PATHS, route_path
from benbi.server.http.problem import problem

_PORTS: Final = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """True for ``localhost`` and the addresses that never leave the machine."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


class Gate:
    """ASGI middleware: refuses a Host or Origin that is not expected, and strangers.

    ``hosts`` are names with or without a port, beside the loopback names; ``origins`` are whole
    origins, beside the server's own; both as ``checked_hosts`` and ``checked_origins`` give them.
    With ``local_only`` only peers on this machine are served.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str],
        local_only: bool,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins
        self._local_only = local_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = None if route_path(scope) in OPEN_PATHS else self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, _careful(send))
        else:
            await problem(403, refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._expected_host(hosts[0]):
            named = f"Host {hosts[0]!r} is" if len(hosts) == 1 else "a request without one Host is"
            return f"{named} not served here; name it in allowed_hosts (--allowed-host)"
        for origin in headers.getlist("origin"):
            if not self._expected_origin(origin, str(scope["scheme"]), hosts[0]):
                return f"Origin {origin!r} is not served here; name it in allowed_origins"
        if self._local_only and not _on_this_machine(scope):
            return "without tokens only this machine is served; start the server with --token"
        return None

    def _expected_host(self, host: str) -> bool:
        name, _ = _host_and_port(host)
        return name != "" and (
            is_loopback(name) or name in self._hosts or host.lower() in self._hosts
        )

    def _expected_origin(self, origin: str, scheme: str, host: str) -> bool:
        if origin.lower() in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if origin != f"{parts.scheme}://{parts.netloc}":
            return False
        # https at the browser and http here is a proxy that ends TLS: still the same origin.
        if parts.scheme not in (scheme, "https"):
            return False
        ours, theirs = _host_and_port(host), _host_and_port(parts.netloc)
        ports = ours[1] or _PORTS.get(parts.scheme), theirs[1] or _PORTS.get(parts.scheme)
        return ours[0] == theirs[0] != "" and ports[0] == ports[1]


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    """Name and port of a Host header; an empty name where it is malformed."""
    try:
        parts = urlsplit(f"//{netloc}")
        port = parts.port
    except ValueError:
        return "", None
    malformed = "@" in netloc or parts.path or parts.query or parts.fragment
    return "" if malformed else (parts.hostname or ""), port


def _on_this_machine(scope: Scope) -> bool:
    client = scope.get("client")
    return client is not None and is_loopback(client[0])


def checked_hosts(hosts: Iterable[str]) -> set[str]:
    """Names, with or without a port, as they are compared. Raises ConfigurationError."""
    hosts = [hosts] if isinstance(hosts, str) else list(hosts)
    for host in hosts:
        if not _host_and_port(host)[0] or "*" in host:
            raise ConfigurationError(
                f"allowed host {host!r} is not a host name; write example.com or example.com:8443"
            )
    return {host.lower() for host in hosts}


def checked_origins(origins: Iterable[str]) -> set[str]:
    """Origins as browsers send and as they are compared. Raises ConfigurationError."""
    origins = [origins] if isinstance(origins, str) else list(origins)
    for origin in origins:
        scheme, _, netloc = origin.partition("://")
        if scheme not in _PORTS or not _host_and_port(netloc)[0] or "*" in origin:
            raise ConfigurationError(
                f"allowed origin {origin!r} is none; write https://app.example, without a path"
            )
    return {origin.lower() for origin in origins}


def _careful(send: Send) -> Send:
    """Answers are private to their caller and are what they say they are."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.setdefault("cache-control", "no-store")
            headers.setdefault("x-content-type-options", "nosniff")
        await send(message)

    return send_with_headers
