"""Durable jobs as MCP tools, in the server you have or in one of ours.

``parts`` is for an ``MCPServer``, ``attach`` for FastMCP, ``server`` and ``streamable_app``
for a server with nothing else in it; ``hand_over`` ends a tool of your own in a job.
"""

from __future__ import annotations

from importlib.util import find_spec

from benbi.errors import MissingExtra

try:
    # Releases before 2 have no such module.
    _found = find_spec("mcp.server.extension")
except ModuleNotFoundError:
    _found = None
if _found is None:
    raise MissingExtra("server", "benbi.mcp")

from benbi.server.mcp import (
    Parts,
    attach,
    current_owner,
    hand_over,
    host_config,
    parts,
    run_stdio,
    server,
    streamable_app,
)

__all__ = [
    "Parts",
    "attach",
    "current_owner",
    "hand_over",
    "host_config",
    "parts",
    "run_stdio",
    "server",
    "streamable_app",
]
