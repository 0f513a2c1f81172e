"""The MCP door: the Tasks extension, plain job tools, and ways to put them into a server."""

from benbi.server.mcp.attach import attach
from benbi.server.mcp.http import streamable_app
from benbi.server.mcp.owner import current_owner
from benbi.server.mcp.parts import Parts, hand_over, parts, server
from benbi.server.mcp.stdio import host_config, run_stdio

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
