"""Servers that people have, each with the durable tools added: ``python servers.py KIND PORT``.

Each keeps no sessions: so clients of older revisions survive a restart, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import benbi.mcp

sys.path.insert(0, str(Path(__file__).parent))
from gifts import app  # type: ignore[import-not-found]


def greet(name: str) -> str:
    return f"Hello, {name}!"


def mcpserver(port: int) -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("gifts", **benbi.mcp.parts(app, prefix="gifts"))
    server.tool()(greet)
    server.run("streamable-http", port=port, stateless_http=True)


def fastmcp(port: int) -> None:
    from fastmcp import FastMCP

    server = benbi.mcp.attach(app, FastMCP("gifts"))
    server.tool(greet)
    server.run("http", port=port, stateless_http=True, show_banner=False)


def fastapi(port: int) -> None:
    import uvicorn
    from fastapi import FastAPI

    outer = FastAPI(lifespan=app.lifespan(worker=False))
    outer.get("/greet")(greet)
    outer.mount("/jobs", app.asgi())
    uvicorn.run(outer, port=port)


if __name__ == "__main__":
    {"mcpserver": mcpserver, "fastmcp": fastmcp, "fastapi": fastapi}[sys.argv[1]](int(sys.argv[2]))
