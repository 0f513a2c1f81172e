"""Durable tools in a FastMCP server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from benbi.errors import ConfigurationError

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from benbi.app import Benbi

Server = TypeVar("Server", bound="FastMCP[Any]")


def attach(app: Benbi, server: Server, *, prefix: str | None = None) -> Server:
    """Adds the app's durable tools and the Tasks extension to a FastMCP server (4 or newer)::

        server = benbi.mcp.attach(app, FastMCP("gifts"))

    ``prefix`` goes before the names of the job tools; the default is made from the server's
    name. Jobs run in workers (``benbi work``), never in the server. Call it before serving; over
    HTTP, serve with ``stateless_http=True``, so that older clients survive a restart, too.

    Raises:
        ConfigurationError: FastMCP is missing or too old, or has a Tasks extension already.
    """
    try:
        from benbi.server.mcp.fastmcp import add_to
    except ImportError as error:
        raise ConfigurationError(
            f"attach() needs FastMCP 4 or newer (pip install 'fastmcp>=4'): {error}"
        ) from error
    add_to(server, app, server.name if prefix is None else prefix)
    return server
